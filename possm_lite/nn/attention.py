"""Attention: scores, masked softmax, pooling."""

import math

import torch
from torch import Tensor


def dot_score(queries: Tensor, keys: Tensor) -> Tensor:
    """a(q, k) = q . k for queries (..., Q, d) and keys (..., M, d): (..., Q, M). Luong et al. 2015, 3.1 ("dot")."""
    return queries @ keys.transpose(-1, -2)


def scaled_dot_score(queries: Tensor, keys: Tensor) -> Tensor:
    """a(q, k) = q . k / sqrt(d) (2.7), shapes as in `dot_score`; d: the size of a head. Vaswani et al. 2017, 3.2.1."""
    return dot_score(queries, keys) / math.sqrt(queries.shape[-1])


def bilinear_score(queries: Tensor, keys: Tensor, W: Tensor) -> Tensor:
    """a(q, k) = q^T W k (2.4) with W (d_q, d_k), shapes as in `dot_score`. Luong et al. 2015, 3.1 ("general")."""
    return queries @ W @ keys.transpose(-1, -2)


def additive_score(queries: Tensor, keys: Tensor, W_q: Tensor, W_k: Tensor, w_v: Tensor) -> Tensor:
    """A network with one hidden layer, for queries (..., Q, d_q) and keys (..., M, d_k): scores (..., Q, M).

    a(q, k) = w_v . tanh(W_q q + W_k k) (2.3), W_q (h, d_q), W_k (h, d_k), w_v (h,). Bahdanau et al. 2015, A.1.2.
    """
    # a new axis on the right of Q and one on the left of M: every query meets every key
    hidden = (queries @ W_q.T)[..., :, None, :] + (keys @ W_k.T)[..., None, :, :]  # (..., Q, M, h)
    return torch.tanh(hidden) @ w_v  # (..., Q, M)


def length_mask(lengths: Tensor, n: int) -> Tensor:
    """True at the first `lengths` (...) of `n` slots, the filled ones of a padded row: shape (..., n)."""
    lengths = torch.as_tensor(lengths)
    return torch.arange(n, device=lengths.device) < lengths[..., None]


def masked_softmax(scores: Tensor, mask: Tensor | None = None) -> Tensor:
    """w_m = exp(s_m) / sum_{j allowed} exp(s_j) if m is allowed, else 0, along the last axis of scores (..., M).

    `mask` is broadcastable to `scores`; a row that may read nothing gets zeros, and zero gradients, never NaN.
    """
    if mask is None:
        return torch.softmax(scores, dim=-1)
    # before the softmax the lowest number instead of -inf: a row of -inf alone would be NaN, in the gradient, too
    lowest = torch.finfo(scores.dtype).min
    return torch.softmax(scores.masked_fill(~mask, lowest), dim=-1).masked_fill(~mask, 0.0)


def masked_log_softmax(scores: Tensor, mask: Tensor | None = None) -> Tensor:
    """The logarithm of `masked_softmax`, before a small weight is rounded to zero; -inf where a key may not be read."""
    if mask is None:
        return torch.log_softmax(scores, dim=-1)
    lowest = torch.finfo(scores.dtype).min
    return torch.log_softmax(scores.masked_fill(~mask, lowest), dim=-1).masked_fill(
        ~mask, -math.inf
    )


def attend(scores: Tensor, values: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Attention pooling, the average of values (..., M, V) under softmax(scores): (..., Q, V), and weights (..., Q, M).

        f(q, {k_m, v_m}) = sum_m softmax_m(a(q, k_m)) v_m,   scores a(q, k_m) of shape (..., Q, M)

    Values must be finite also where masked. Source: Vaswani et al. 2017, eq. 1.
    """
    weights = masked_softmax(scores, mask)
    return weights @ values, weights
