"""Associative memories: the Hopfield network of 1982, and the modern one, an attention."""

import torch
from torch import Tensor

from possm_lite.nn.attention import attend


def hebb_weights(patterns: Tensor) -> Tensor:
    """Hebb's rule: symmetric weights without self-connections.

        w_ij = (1/N) sum_m x_i^m x_j^m,   w_ii = 0                                           (9.1)

    Args:
        patterns: M patterns of -1 and 1, shape (..., M, N).

    Returns:
        Weights, shape (..., N, N).

    Source: Hopfield 1982, eq. 2, there for units of 0 and 1, without N.
    """
    weights = patterns.mT @ patterns / patterns.shape[-1]  # (..., N, N)
    # a self-connection would only speak for the state that its unit is in
    return weights - torch.diag_embed(weights.diagonal(dim1=-2, dim2=-1))


def local_field(states: Tensor, weights: Tensor, bias: Tensor | None = None) -> Tensor:
    """The local field of each unit: a_i = sum_j w_ij s_j + b_i.

    Args:
        states: s, shape (..., K, N).
        weights: w, shape (..., N, N).
        bias: b, shape (..., N); None is zero.

    Returns:
        a, shape (..., K, N).
    """
    field = states @ weights.mT
    return field if bias is None else field + bias[..., None, :]


def sign_or_keep(field: Tensor, states: Tensor) -> Tensor:
    """The sign of a field, and the old state where the field is zero.

    A field within 1e-5 of zero counts as zero: a sum in float32 may miss it by its rounding.

    Args:
        field: local fields, any shape.
        states: old states, -1 or 1, same shape.

    Returns:
        New states, same shape.
    """
    return torch.where(field.abs() < 1e-5, states, torch.sign(field))


def hopfield_energy(states: Tensor, weights: Tensor, bias: Tensor | None = None) -> Tensor:
    """The energy, which no asynchronous update raises.

        E(s) = -1/2 sum_i sum_j w_ij s_i s_j - sum_i b_i s_i                                 (9.3)

    The half is there as the double sum counts every pair twice.

    Args:
        states: s, shape (..., K, N).
        weights: w, shape (..., N, N).
        bias: b, shape (..., N); None is zero.

    Returns:
        E, shape (..., K).

    Source: Hopfield 1982, eq. 7.
    """
    pairs = -0.5 * (states * local_field(states, weights)).sum(-1)
    return pairs if bias is None else pairs - (states @ bias[..., None]).squeeze(-1)


def recall(
    states: Tensor,
    weights: Tensor,
    bias: Tensor | None = None,
    *,
    max_sweeps=50,
    generator=None,
    path=False,
) -> Tensor:
    """Asynchronous recall: unit by unit, until a whole sweep changes nothing.

        s_i <- sgn(sum_j w_ij s_j + b_i),   where the sum is 0 the old s_i

    Args:
        states: cues, -1 or 1, shape (..., K, N).
        weights: shape (..., N, N).
        bias: shape (..., N); None is zero.
        max_sweeps: sweeps after which recall ends in any case.
        generator: draws a new order of the units for each sweep, the same for all networks; None is
            from first unit to last.
        path: whether all states on the way are returned.

    Returns:
        The final states, shape (..., K, N); with `path` the states after each update of a unit, the
        cue first, shape (steps + 1, ..., K, N).

    Source: Hopfield 1982, eq. 1.
    """
    n = states.shape[-1]
    trajectory = [states]
    states = states.clone()
    for _ in range(max_sweeps):
        before = states.clone()
        order = range(n) if generator is None else torch.randperm(n, generator=generator).tolist()
        for i in order:
            field = (states @ weights[..., i, :, None]).squeeze(
                -1
            )  # (..., K): the field of unit i alone
            if bias is not None:
                field = field + bias[..., i, None]
            states[..., i] = sign_or_keep(field, states[..., i])
            if path:
                trajectory.append(states.clone())
        if torch.equal(states, before):
            break
    return torch.stack(trajectory) if path else states


def synchronous_step(states: Tensor, weights: Tensor, bias: Tensor | None = None) -> Tensor:
    """All units at once: s <- sgn(W s + b). It may alternate between two states.

    Args:
        states: s, shape (..., K, N).
        weights: W, shape (..., N, N).
        bias: b, shape (..., N); None is zero.

    Returns:
        New states, shape (..., K, N).

    Source: Little 1974.
    """
    return sign_or_keep(local_field(states, weights, bias), states)


def corrupt(patterns: Tensor, n_flips: int, generator: torch.Generator | None = None) -> Tensor:
    """Cues: the signs of random units of each pattern change.

    Args:
        patterns: shape (..., N).
        n_flips: exactly how many units of each pattern change.
        generator: source of the random numbers; None is torch's own.

    Returns:
        Cues, shape (..., N).
    """
    order = torch.rand(patterns.shape, generator=generator).argsort(
        -1
    )  # (..., N): a permutation of the units
    return torch.where(order < n_flips, -patterns, patterns)


def modern_hopfield(states: Tensor, memories: Tensor, beta: float = 1.0) -> Tensor:
    """One update of real states: attention with keys = values = memories.

        xi <- X softmax(beta X^T xi),   the columns of X are the memories

    Args:
        states: xi, shape (..., Q, d).
        memories: shape (..., M, d).
        beta: inverse temperature.

    Returns:
        New states, shape (..., Q, d).

    Source: Ramsauer et al. 2021, eq. 3.
    """
    return attend(beta * states @ memories.mT, memories)[0]


def modern_energy(states: Tensor, memories: Tensor, beta: float = 1.0) -> Tensor:
    """The energy, which `modern_hopfield` never raises.

        E(xi) = -(1/beta) log sum_m exp(beta x_m . xi) + 1/2 xi . xi                          (9.7)

    Args:
        states: xi, shape (..., Q, d).
        memories: x_m, shape (..., M, d).
        beta: inverse temperature.

    Returns:
        E, shape (..., Q).

    Source: Ramsauer et al. 2021, eq. 2, without its constants.
    """
    attraction = torch.logsumexp(beta * states @ memories.mT, -1) / beta  # (..., Q)
    return 0.5 * states.square().sum(-1) - attraction
