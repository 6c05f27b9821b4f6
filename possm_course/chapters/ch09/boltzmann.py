"""Boltzmann machines: Gibbs sampling beside exact enumeration, learning, and the restricted form.

Units are 1 (on) or -1. Weights (..., N, N) are symmetric with a zero diagonal, biases (..., N);
the first axes are machines.
"""

import torch
from torch import Generator, Tensor

from .hopfield import hopfield_energy, local_field


def all_states(n: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """Every state of n units, the first unit the slowest. A unit more doubles the table.

    Args:
        n: number of units.
        dtype: of the states.

    Returns:
        States, -1 or 1, shape (2^n, n).
    """
    bits = torch.arange(2**n)[:, None] >> torch.arange(n - 1, -1, -1) & 1  # (2^n, n)
    return 2 * bits.to(dtype) - 1


def log_probabilities(
    states: Tensor, weights: Tensor, bias: Tensor, temperature: float = 1.0
) -> Tensor:
    """Exact log p(s): p(s) = exp(-E(s)/T) / Z, with Z summed over all 2^N states.

    Args:
        states: s, shape (..., K, N).
        weights: shape (..., N, N).
        bias: shape (..., N).
        temperature: T.

    Returns:
        log p(s), shape (..., K).
    """
    enumerated = all_states(weights.shape[-1], weights.dtype)  # (2^N, N)
    log_z = torch.logsumexp(
        -hopfield_energy(enumerated, weights, bias) / temperature, -1, keepdim=True
    )
    return -hopfield_energy(states, weights, bias) / temperature - log_z


def exact_moments(weights: Tensor, bias: Tensor, temperature: float = 1.0) -> tuple[Tensor, Tensor]:
    """Moments under the machine's own distribution, by enumeration of all states.

    Args:
        weights: shape (..., N, N).
        bias: shape (..., N).
        temperature: T.

    Returns:
        <s_i s_j>, shape (..., N, N), and <s_i>, shape (..., N).
    """
    enumerated = all_states(weights.shape[-1], weights.dtype)  # (2^N, N)
    p = log_probabilities(enumerated, weights, bias, temperature).exp()  # (..., 2^N)
    return enumerated.T @ (p[..., None] * enumerated), p @ enumerated


def moments(samples: Tensor) -> tuple[Tensor, Tensor]:
    """Moments of a sample.

    Args:
        samples: K states, shape (..., K, N).

    Returns:
        <s_i s_j>, shape (..., N, N), and <s_i>, shape (..., N).
    """
    return samples.mT @ samples / samples.shape[-2], samples.mean(-2)


def on_probability(
    states: Tensor, weights: Tensor, bias: Tensor, temperature: float = 1.0
) -> Tensor:
    """The probability of each unit to be 1, given all others.

        p(s_i = 1) = sigmoid(Delta_i / T),
        Delta_i = E(s_i = -1) - E(s_i = 1) = 2 (sum_j w_ij s_j + b_i)                        (9.9)

    Args:
        states: s, shape (..., K, N).
        weights: w, shape (..., N, N).
        bias: b, shape (..., N).
        temperature: T.

    Returns:
        Probabilities, shape (..., K, N).

    Source: Ackley et al. 1985, eq. 2, for units of 0 and 1.
    """
    return torch.sigmoid(2 * local_field(states, weights, bias) / temperature)


def gibbs(
    states: Tensor,
    weights: Tensor,
    bias: Tensor,
    n_sweeps: int,
    temperature=1.0,
    generator: Generator | None = None,
) -> Tensor:
    """Gibbs sampling: each unit in turn is drawn given all others.

    Args:
        states: first states of K chains, shape (..., K, N).
        weights: shape (..., N, N).
        bias: shape (..., N).
        n_sweeps: number of sweeps over the units.
        temperature: T.
        generator: source of the random numbers; None is torch's own.

    Returns:
        The states after each sweep, shape (n_sweeps, ..., K, N).

    Source: Geman and Geman 1984.
    """
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


def boltzmann_gradient(
    data: tuple[Tensor, Tensor], model: tuple[Tensor, Tensor]
) -> tuple[Tensor, Tensor]:
    """The gradient of the log-likelihood, times T.

        T d<log p>/dw_ij = <s_i s_j>_data - <s_i s_j>_model,
        T d<log p>/db_i = <s_i>_data - <s_i>_model                                          (9.11)

    Args:
        data: moments of the data, (..., N, N) and (..., N), as from `moments`.
        model: moments of the machine, in the same form.

    Returns:
        For weights, shape (..., N, N), zero on the diagonal, and for biases, shape (..., N).

    Source: Ackley et al. 1985, eq. 6-7.
    """
    for_weights = data[0] - model[0]
    diagonal = torch.diag_embed(for_weights.diagonal(dim1=-2, dim2=-1))
    return for_weights - diagonal, data[1] - model[1]


def autocorrelation(series: Tensor, n_lags: int) -> Tensor:
    """rho(k), the correlation of a series with itself k steps later, over all its chains.

    Args:
        series: shape (T, ...).
        n_lags: number of lags k = 0 ... n_lags-1.

    Returns:
        rho, shape (n_lags,), float64.
    """
    n = len(series)
    centred = series.double() - series.double().mean()
    products = [(centred[: n - k] * centred[k:]).mean() for k in range(n_lags)]
    return torch.stack(products) / centred.square().mean()


def autocorrelation_time(rho: Tensor) -> float:
    """Steps per independent sample: tau = 1 + 2 sum_{k >= 1} rho(k), at least 1.

    The sum ends where rho first falls below 0.05; from there on an estimate is mostly noise.

    Args:
        rho: as from `autocorrelation`, long enough to fall below 0.05, shape (n_lags,).

    Returns:
        tau, in steps.

    Source: Sokal 1997, section 3, there half.
    """
    first_low = int(
        (rho < 0.05).nonzero()[0]
    )  # it must fall so far; from there on an estimate is mostly noise
    return max(1.0, float(1 + 2 * rho[1:first_low].sum()))


# The restricted machine: visible units v (..., K, V), hidden ones h (..., K, H), and weights
# (..., V, H) only between them


def hidden_probability(visible: Tensor, weights: Tensor, hidden_bias: Tensor) -> Tensor:
    """p(h_j = 1 | v) = sigmoid(2 (sum_i v_i w_ij + c_j)); with w^T and b it is p(v_i = 1 | h).

    Args:
        visible: v, shape (..., K, V).
        weights: w, shape (..., V, H).
        hidden_bias: c, shape (..., H).

    Returns:
        Probabilities, shape (..., K, H).
    """
    return torch.sigmoid(2 * (visible @ weights + hidden_bias[..., None, :]))


def sample_units(probability: Tensor, generator: Generator | None = None) -> Tensor:
    """Random units that are 1 with a given probability, else -1.

    Args:
        probability: of each unit, any shape.
        generator: source of the random numbers; None is torch's own.

    Returns:
        Units, same shape.
    """
    on = torch.rand(probability.shape, generator=generator, dtype=probability.dtype) < probability
    return 2 * on.to(probability.dtype) - 1


def rbm_log_likelihood(visible: Tensor, weights: Tensor, b: Tensor, c: Tensor) -> Tensor:
    """Exact log p(v) at T = 1: hidden units are summed out one by one, visible ones enumerated.

        log p(v) = b . v + sum_j log sum_{h_j} exp(h_j a_j) - log Z,   a_j = sum_i v_i w_ij + c_j

    Args:
        visible: v, shape (..., K, V).
        weights: w, shape (..., V, H).
        b: biases of the visible units, shape (..., V).
        c: biases of the hidden units, shape (..., H).

    Returns:
        log p(v), shape (..., K).
    """

    def unnormalised(v: Tensor) -> Tensor:
        a = v @ weights + c[..., None, :]  # (..., K, H)
        return (v @ b[..., None]).squeeze(-1) + torch.logaddexp(a, -a).sum(-1)

    enumerated = all_states(weights.shape[-2], weights.dtype)
    return unnormalised(visible) - torch.logsumexp(unnormalised(enumerated), -1, keepdim=True)


def contrastive_divergence(
    visible: Tensor,
    weights: Tensor,
    b: Tensor,
    c: Tensor,
    k: int = 1,
    generator: Generator | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """CD-k: the directions of learning, with <h> for h where it is only averaged.

        dw_ij = <v_i h_j>_data - <v_i h_j>_k sweeps later,   db_i and dc_j in the same way  (9.13)

    Args:
        visible: data v, shape (..., K, V).
        weights: w, shape (..., V, H).
        b: biases of the visible units, shape (..., V).
        c: biases of the hidden units, shape (..., H).
        k: number of sweeps.
        generator: source of the random numbers; None is torch's own.

    Returns:
        Directions for weights (..., V, H), b (..., V) and c (..., H).

    Source: Hinton 2002, section 3.
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
