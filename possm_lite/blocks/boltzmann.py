"""Boltzmann machines: Gibbs sampling beside exact enumeration, learning, and the restricted form.

Units are on (1) or off; `off` is -1 as in the Hopfield network, or 0 as in most papers on Boltzmann machines. Weights
are symmetric, shape (..., N, N), with zeros on the diagonal; biases have shape (..., N). Leading axes are machines.
"""

import torch
from torch import Tensor

from .hopfield import hopfield_energy, local_field


def all_states(n: int, off: float = -1.0, dtype: torch.dtype = torch.float32) -> Tensor:
    """Every state of n units, shape (2^n, n), the first unit the slowest. A unit more doubles the table."""
    bits = torch.arange(2**n)[:, None] >> torch.arange(n - 1, -1, -1) & 1  # (2^n, n)
    return torch.where(bits == 1, 1.0, float(off)).to(dtype)


def log_probabilities(
    states: Tensor, weights: Tensor, bias: Tensor, temperature: float = 1.0, off: float = -1.0
) -> Tensor:
    """The exact log-probability of states (..., K, N), by enumeration: shape (..., K).

    p(s) = exp(-E(s)/T) / Z,   Z = sum over all 2^N states
    """
    enumerated = all_states(weights.shape[-1], off, weights.dtype)  # (2^N, N)
    log_z = torch.logsumexp(-hopfield_energy(enumerated, weights, bias) / temperature, -1, keepdim=True)
    return -hopfield_energy(states, weights, bias) / temperature - log_z


def exact_moments(weights: Tensor, bias: Tensor, temperature: float = 1.0, off: float = -1.0) -> tuple[Tensor, Tensor]:
    """<s_i s_j> (..., N, N) and <s_i> (..., N) under the machine's own distribution, by enumeration."""
    enumerated = all_states(weights.shape[-1], off, weights.dtype)  # (2^N, N)
    p = log_probabilities(enumerated, weights, bias, temperature, off).exp()  # (..., 2^N)
    return enumerated.T @ (p[..., None] * enumerated), p @ enumerated


def moments(samples: Tensor) -> tuple[Tensor, Tensor]:
    """<s_i s_j> (..., N, N) and <s_i> (..., N) over samples (..., K, N)."""
    return samples.mT @ samples / samples.shape[-2], samples.mean(-2)


def on_probability(
    states: Tensor, weights: Tensor, bias: Tensor, temperature: float = 1.0, off: float = -1.0
) -> Tensor:
    """For each unit of states (..., K, N) the probability that it is on, given all others: shape (..., K, N).

        p(s_i = 1) = sigmoid(Delta_i / T),   Delta_i = E(s_i off) - E(s_i on) = (1 - off) (sum_j w_ij s_j + b_i)   (9.6)

    With units of 0 and 1 the gap is the field, with units of -1 and 1 it is twice the field.
    Source: Ackley, Hinton, Sejnowski 1985, eq. 2 (units 0 and 1).
    """
    return torch.sigmoid((1 - off) * local_field(states, weights, bias) / temperature)


def gibbs(
    states: Tensor,
    weights: Tensor,
    bias: Tensor,
    n_sweeps: int,
    temperature: float = 1.0,
    off: float = -1.0,
    generator: torch.Generator | None = None,
) -> Tensor:
    """Gibbs sampling: in each sweep every unit is resampled, one after the other, given all others.

    From the start of K chains, (..., K, N), to their states after each sweep, (n_sweeps, ..., K, N).
    Source: Ackley et al. 1985, section 2.3; Geman and Geman 1984.
    """
    n = states.shape[-1]
    states = states.clone()
    samples = []
    for _ in range(n_sweeps):
        chance = torch.rand(n, *states.shape[:-1], generator=generator, dtype=states.dtype)
        for i in range(n):
            field = (states @ weights[..., i, :, None]).squeeze(-1) + bias[..., i, None]  # (..., K)
            on = chance[i] < torch.sigmoid((1 - off) * field / temperature)
            states[..., i] = on.to(states.dtype) * (1 - off) + off
        samples.append(states.clone())
    return torch.stack(samples)


def boltzmann_gradient(data: tuple[Tensor, Tensor], model: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    """Directions of weights and biases in which the data become more likely.

        T d<log p>/dw_ij = <s_i s_j>_data - <s_i s_j>_model,   T d<log p>/db_i = <s_i>_data - <s_i>_model   (9.9)

    Data, model and result are pairs of shapes (..., N, N) and (..., N), as from `moments`.
    Source: Ackley et al. 1985, eq. 6-7.
    """
    for_weights = data[0] - model[0]
    diagonal = torch.diag_embed(for_weights.diagonal(dim1=-2, dim2=-1))
    return for_weights - diagonal, data[1] - model[1]


def autocorrelation(series: Tensor, n_lags: int) -> Tensor:
    """rho(k), k = 0 ... n_lags-1: correlation of a series with itself k steps later; 1 at lag 0.

    The series has shape (T, ...), T > n_lags; further axes are chains of one process, with a common mean and variance.
    """
    n = len(series)
    centred = series.double() - series.double().mean()
    products = [(centred[: n - k] * centred[k:]).mean() for k in range(n_lags)]
    return torch.stack(products) / centred.square().mean()


def autocorrelation_time(rho: Tensor) -> float:
    """Steps per independent sample: tau = 1 + 2 sum_{k >= 1} rho(k), at least 1, for rho (n_lags,) with rho[0] = 1.

    The sum ends before rho first falls below 0.05, after which an estimate is mostly noise. ValueError: it never does.
    Source: Sokal 1997, section 3 (there with a factor 1/2).
    """
    low = (rho < 0.05).nonzero()
    if not len(low):
        raise ValueError(f"rho is still {rho[-1]:.2f} at the last of {len(rho)} lags: give more lags.")
    return max(1.0, float(1 + 2 * rho[1 : int(low[0])].sum()))


# The restricted machine: visible units v (..., K, V), hidden ones h (..., K, H), weights (..., V, H) only between them


def hidden_probability(visible: Tensor, weights: Tensor, hidden_bias: Tensor, off: float = -1.0) -> Tensor:
    """p(h_j = 1 | v) = sigmoid((1 - off) (sum_i v_i w_ij + c_j)) for all hidden units at once: shape (..., K, H).

    The same formula with w^T and b gives p(v_i = 1 | h).
    """
    return torch.sigmoid((1 - off) * (visible @ weights + hidden_bias[..., None, :]))


def sample_units(probability: Tensor, off: float = -1.0, generator: torch.Generator | None = None) -> Tensor:
    """Units that are on with `probability`, else off."""
    on = torch.rand(probability.shape, generator=generator, dtype=probability.dtype) < probability
    return on.to(probability.dtype) * (1 - off) + off


def rbm_log_likelihood(visible: Tensor, weights: Tensor, b: Tensor, c: Tensor, off: float = -1.0) -> Tensor:
    """Exact log p(v) at T = 1: hidden units are summed out one by one, visible ones by enumeration: shape (..., K).

    log p(v) = b . v + sum_j log sum_{h_j} exp(h_j a_j) - log Z,   a_j = sum_i v_i w_ij + c_j
    """

    def unnormalised(v: Tensor) -> Tensor:
        a = v @ weights + c[..., None, :]  # (..., K, H)
        return (v @ b[..., None]).squeeze(-1) + torch.logaddexp(a, off * a).sum(-1)

    enumerated = all_states(weights.shape[-2], off, weights.dtype)
    return unnormalised(visible) - torch.logsumexp(unnormalised(enumerated), -1, keepdim=True)


def contrastive_divergence(
    visible: Tensor,
    weights: Tensor,
    b: Tensor,
    c: Tensor,
    k: int = 1,
    off: float = -1.0,
    generator: torch.Generator | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """CD-k: the learning rule with <.>_model taken after k sweeps started at the data.

        dw_ij = <v_i h_j>_data - <v_i h_j>_k sweeps later,   db_i and dc_j in the same way          (9.11)

    Data (..., K, V), weights (..., V, H), biases b (..., V) and c (..., H); returns directions for these three.
    Source: Hinton 2002, section 3, with <h> for sampled h where it is only averaged.
    """
    p_data = p = hidden_probability(visible, weights, c, off)  # (..., K, H)
    for _ in range(k):
        h = sample_units(p, off, generator)
        v = sample_units(hidden_probability(h, weights.mT, b, off), off, generator)
        p = hidden_probability(v, weights, c, off)
    h_data, h = (q * (1 - off) + off for q in (p_data, p))  # mean states of the hidden units
    for_weights = (visible.mT @ h_data - v.mT @ h) / visible.shape[-2]
    return for_weights, (visible - v).mean(-2), (h_data - h).mean(-2)
