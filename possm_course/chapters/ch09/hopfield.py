"""Associative memories: the Hopfield network of 1982, and the modern one, whose update is attention."""

import torch
from torch import Tensor

from possm_lite.nn.attention import attend


def hebb_weights(patterns: Tensor) -> Tensor:
    """Symmetric weights (..., N, N) without self-connections from M patterns of -1 and 1, shape (..., M, N).

    w_ij = (1/N) sum_m x_i^m x_j^m,   w_ii = 0   (9.1). Hopfield 1982, eq. 2, there for units of 0 and 1, without N.
    """
    weights = patterns.mT @ patterns / patterns.shape[-1]  # (..., N, N)
    # a self-connection would only speak for the state that its unit is in
    return weights - torch.diag_embed(weights.diagonal(dim1=-2, dim2=-1))


def local_field(states: Tensor, weights: Tensor, bias: Tensor | None = None) -> Tensor:
    """a_i = sum_j w_ij s_j + b_i for states (..., K, N), weights (..., N, N), bias (..., N): shape (..., K, N)."""
    field = states @ weights.mT
    return field if bias is None else field + bias[..., None, :]


def sign_or_keep(field: Tensor, states: Tensor) -> Tensor:
    """sgn(field), and the old state where the field is 0, which a sum in float32 may miss by its rounding."""
    return torch.where(field.abs() < 1e-5, states, torch.sign(field))


def hopfield_energy(states: Tensor, weights: Tensor, bias: Tensor | None = None) -> Tensor:
    """The energy (..., K), which no asynchronous update raises, shapes as in `local_field`. Hopfield 1982, eq. 7.

    E(s) = -1/2 sum_i sum_j w_ij s_i s_j - sum_i b_i s_i (9.3), the half as the double sum counts every pair twice
    """
    pairs = -0.5 * (states * local_field(states, weights)).sum(-1)
    return pairs if bias is None else pairs - (states @ bias[..., None]).squeeze(-1)


def recall(
    states: Tensor, weights: Tensor, bias: Tensor | None = None, *, max_sweeps=50, generator=None, path=False
) -> Tensor:
    """Asynchronous recall: one unit after the other takes the sign of its field, until a whole sweep changes nothing.

        s_i <- sgn(sum_j w_ij s_j + b_i),   where the sum is 0 the old s_i

    A generator draws a new order for each sweep, the same for all networks; None is from first unit to last. Returns
    the final states (..., K, N); with `path` all, the cue first, (steps + 1, ..., K, N). Source: Hopfield 1982, eq. 1.
    """
    n = states.shape[-1]
    trajectory = [states]
    states = states.clone()
    for _ in range(max_sweeps):
        before = states.clone()
        order = range(n) if generator is None else torch.randperm(n, generator=generator).tolist()
        for i in order:
            field = (states @ weights[..., i, :, None]).squeeze(-1)  # (..., K): the field of unit i alone
            if bias is not None:
                field = field + bias[..., i, None]
            states[..., i] = sign_or_keep(field, states[..., i])
            if path:
                trajectory.append(states.clone())
        if torch.equal(states, before):
            break
    return torch.stack(trajectory) if path else states


def synchronous_step(states: Tensor, weights: Tensor, bias: Tensor | None = None) -> Tensor:
    """All units at once: s <- sgn(W s + b), shapes as in `recall`. It may alternate between two states. Little 1974."""
    return sign_or_keep(local_field(states, weights, bias), states)


def corrupt(patterns: Tensor, n_flips: int, generator: torch.Generator | None = None) -> Tensor:
    """Cues: the signs of exactly `n_flips` random units of each pattern (..., N) change."""
    order = torch.rand(patterns.shape, generator=generator).argsort(-1)  # (..., N): a permutation of the units
    return torch.where(order < n_flips, -patterns, patterns)


def modern_hopfield(states: Tensor, memories: Tensor, beta: float = 1.0) -> Tensor:
    """One update of real states (..., Q, d): attention with keys = values = memories (..., M, d).

    xi <- X softmax(beta X^T xi),   the columns of X are the memories. Source: Ramsauer et al. 2021, eq. 3.
    """
    return attend(beta * states @ memories.mT, memories)[0]


def modern_energy(states: Tensor, memories: Tensor, beta: float = 1.0) -> Tensor:
    """The energy (..., Q), which `modern_hopfield` never raises. Ramsauer et al. 2021, eq. 2, without its constants.

    E(xi) = -(1/beta) log sum_m exp(beta x_m . xi) + 1/2 xi . xi                                    (9.12)
    """
    attraction = torch.logsumexp(beta * states @ memories.mT, -1) / beta  # (..., Q)
    return 0.5 * states.square().sum(-1) - attraction
