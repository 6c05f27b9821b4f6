"""Boltzmann machines: Gibbs sampling beside exact enumeration, learning, and the restricted form.

Units are 1 (on) or -1. Weights (..., N, N) are symmetric, zero on the diagonal, biases (..., N); first come machines.
"""

import torch
from torch import Generator, Tensor

from .hopfield import hopfield_energy, local_field


def all_states(n: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """Every state of n units, shape (2^n, n), the first unit the slowest. A unit more doubles the table."""
    bits = torch.arange(2**n)[:, None] >> torch.arange(n - 1, -1, -1) & 1  # (2^n, n)
    return 2 * bits.to(dtype) - 1


def log_probabilities(states: Tensor, weights: Tensor, bias: Tensor, temperature: float = 1.0) -> Tensor:
    """Exact log p(s) of states (..., K, N), shape (..., K): p(s) = exp(-E(s)/T) / Z, Z summed over all 2^N states."""
    enumerated = all_states(weights.shape[-1], weights.dtype)  # (2^N, N)
    log_z = torch.logsumexp(-hopfield_energy(enumerated, weights, bias) / temperature, -1, keepdim=True)
    return -hopfield_energy(states, weights, bias) / temperature - log_z


def exact_moments(weights: Tensor, bias: Tensor, temperature: float = 1.0) -> tuple[Tensor, Tensor]:
    """<s_i s_j> (..., N, N) and <s_i> (..., N) under the machine's own distribution, by enumeration."""
    enumerated = all_states(weights.shape[-1], weights.dtype)  # (2^N, N)
    p = log_probabilities(enumerated, weights, bias, temperature).exp()  # (..., 2^N)
    return enumerated.T @ (p[..., None] * enumerated), p @ enumerated


def moments(samples: Tensor) -> tuple[Tensor, Tensor]:
    """<s_i s_j> (..., N, N) and <s_i> (..., N) over samples (..., K, N)."""
    return samples.mT @ samples / samples.shape[-2], samples.mean(-2)


def on_probability(states: Tensor, weights: Tensor, bias: Tensor, temperature: float = 1.0) -> Tensor:
    """Of each unit of states (..., K, N), given all others: (..., K, N). Ackley et al. 1985, eq. 2, for 0 and 1.

    p(s_i = 1) = sigmoid(Delta_i / T),   Delta_i = E(s_i = -1) - E(s_i = 1) = 2 (sum_j w_ij s_j + b_i)   (9.5)
    """
    return torch.sigmoid(2 * local_field(states, weights, bias) / temperature)


def gibbs(
    states: Tensor, weights: Tensor, bias: Tensor, n_sweeps: int, temperature=1.0, generator: Generator | None = None
) -> Tensor:
    """K chains (..., K, N) after each sweep over the units, (n_sweeps, ..., K, N). Geman and Geman 1984."""
    n = states.shape[-1]
    states = states.clone()
    samples = []
    for _ in range(n_sweeps):
        chance = torch.rand(n, *states.shape[:-1], generator=generator, dtype=states.dtype)
        for i in range(n):
            field = (states @ weights[..., i, :, None]).squeeze(-1) + bias[..., i, None]  # (..., K)
            on = chance[i] < torch.sigmoid(2 * field / temperature)
            states[..., i] = 2 * on.to(states.dtype) - 1
        samples.append(states.clone())
    return torch.stack(samples)


def boltzmann_gradient(data: tuple[Tensor, Tensor], model: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    """The slope of the log-likelihood, from and to pairs as of `moments`. Ackley et al. 1985, eq. 6-7.

    T d<log p>/dw_ij = <s_i s_j>_data - <s_i s_j>_model,   T d<log p>/db_i = <s_i>_data - <s_i>_model   (9.7)
    """
    for_weights = data[0] - model[0]
    diagonal = torch.diag_embed(for_weights.diagonal(dim1=-2, dim2=-1))
    return for_weights - diagonal, data[1] - model[1]


def autocorrelation(series: Tensor, n_lags: int) -> Tensor:
    """rho(k), k = 0 ... n_lags-1: correlation of a series (T, ...) with itself k steps later, over all its chains."""
    n = len(series)
    centred = series.double() - series.double().mean()
    products = [(centred[: n - k] * centred[k:]).mean() for k in range(n_lags)]
    return torch.stack(products) / centred.square().mean()


def autocorrelation_time(rho: Tensor) -> float:
    """Steps per independent sample: tau = 1 + 2 sum_{k >= 1} rho(k), at least 1. Sokal 1997, section 3, there half."""
    first_low = int((rho < 0.05).nonzero()[0])  # it must fall so far; from there on an estimate is mostly noise
    return max(1.0, float(1 + 2 * rho[1:first_low].sum()))


# The restricted machine: visible units v (..., K, V), hidden ones h (..., K, H), weights (..., V, H) only between them


def hidden_probability(visible: Tensor, weights: Tensor, hidden_bias: Tensor) -> Tensor:
    """p(h_j = 1 | v) = sigmoid(2 (sum_i v_i w_ij + c_j)), (..., K, H); with w^T and b it is p(v_i = 1 | h)."""
    return torch.sigmoid(2 * (visible @ weights + hidden_bias[..., None, :]))


def sample_units(probability: Tensor, generator: Generator | None = None) -> Tensor:
    """Units that are 1 with `probability`, else -1."""
    on = torch.rand(probability.shape, generator=generator, dtype=probability.dtype) < probability
    return 2 * on.to(probability.dtype) - 1


def rbm_log_likelihood(visible: Tensor, weights: Tensor, b: Tensor, c: Tensor) -> Tensor:
    """Exact log p(v) at T = 1: hidden units are summed out one by one, visible ones by enumeration: shape (..., K).

    log p(v) = b . v + sum_j log sum_{h_j} exp(h_j a_j) - log Z,   a_j = sum_i v_i w_ij + c_j
    """

    def unnormalised(v: Tensor) -> Tensor:
        a = v @ weights + c[..., None, :]  # (..., K, H)
        return (v @ b[..., None]).squeeze(-1) + torch.logaddexp(a, -a).sum(-1)

    enumerated = all_states(weights.shape[-2], weights.dtype)
    return unnormalised(visible) - torch.logsumexp(unnormalised(enumerated), -1, keepdim=True)


def contrastive_divergence(
    visible: Tensor, weights: Tensor, b: Tensor, c: Tensor, k: int = 1, generator: Generator | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """CD-k, directions for weights, b and c. Hinton 2002, section 3, with <h> for h where it is only averaged.

    dw_ij = <v_i h_j>_data - <v_i h_j>_k sweeps later,   db_i and dc_j in the same way                  (9.9)
    """
    p_data = p = hidden_probability(visible, weights, c)  # (..., K, H)
    for _ in range(k):
        h = sample_units(p, generator)
        v = sample_units(hidden_probability(h, weights.mT, b), generator)
        p = hidden_probability(v, weights, c)
    h_data = 2 * p_data - 1  # mean states of the hidden units
    h = 2 * p - 1
    for_weights = (visible.mT @ h_data - v.mT @ h) / visible.shape[-2]
    return for_weights, (visible - v).mean(-2), (h_data - h).mean(-2)
