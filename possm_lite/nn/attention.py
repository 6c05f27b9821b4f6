"""Attention: scores, masked softmax, pooling."""

import math

import torch
from torch import Tensor


def dot_score(queries: Tensor, keys: Tensor) -> Tensor:
    """The dot product a(q, k) = q . k.

    Args:
        queries: shape (..., Q, d).
        keys: shape (..., M, d).

    Returns:
        A score for each query and key, shape (..., Q, M).

    Source: Luong et al. 2015, 3.1 ("dot").
    """
    return queries @ keys.transpose(-1, -2)


def scaled_dot_score(queries: Tensor, keys: Tensor) -> Tensor:
    """The scaled dot product a(q, k) = q . k / sqrt(d) (2.7).

    Args:
        queries: shape (..., Q, d), d the size of a head.
        keys: shape (..., M, d).

    Returns:
        A score for each query and key, shape (..., Q, M).

    Source: Vaswani et al. 2017, 3.2.1.
    """
    return dot_score(queries, keys) / math.sqrt(queries.shape[-1])


def bilinear_score(queries: Tensor, keys: Tensor, W: Tensor) -> Tensor:
    """The bilinear form a(q, k) = q^T W k (2.4).

    Args:
        queries: shape (..., Q, d_q).
        keys: shape (..., M, d_k).
        W: shape (d_q, d_k).

    Returns:
        A score for each query and key, shape (..., Q, M).

    Source: Luong et al. 2015, 3.1 ("general").
    """
    return queries @ W @ keys.transpose(-1, -2)


def additive_score(queries: Tensor, keys: Tensor, W_q: Tensor, W_k: Tensor, w_v: Tensor) -> Tensor:
    """A network with one hidden layer: a(q, k) = w_v . tanh(W_q q + W_k k) (2.3).

    Args:
        queries: shape (..., Q, d_q).
        keys: shape (..., M, d_k).
        W_q: shape (h, d_q).
        W_k: shape (h, d_k).
        w_v: shape (h,).

    Returns:
        A score for each query and key, shape (..., Q, M).

    Source: Bahdanau et al. 2015, A.1.2.
    """
    # a new axis on the right of Q and one on the left of M: every query meets every key
    hidden = (queries @ W_q.T)[..., :, None, :] + (keys @ W_k.T)[..., None, :, :]  # (..., Q, M, h)
    return torch.tanh(hidden) @ w_v  # (..., Q, M)


def length_mask(lengths: Tensor, n: int) -> Tensor:
    """The mask of padded rows: True at the slots that are filled.

    Args:
        lengths: how many slots of each row are filled, the first ones, shape (...).
        n: slots of a row.

    Returns:
        Truth values, shape (..., n).
    """
    lengths = torch.as_tensor(lengths)
    return torch.arange(n, device=lengths.device) < lengths[..., None]


def masked_softmax(scores: Tensor, mask: Tensor | None = None) -> Tensor:
    """The softmax over the keys that may be read.

        w_m = exp(s_m) / sum_{j allowed} exp(s_j) if m is allowed, else 0

    Args:
        scores: s, shape (..., M).
        mask: True where a key may be read, broadcastable to `scores`; None: everywhere.

    Returns:
        Weights, shape (..., M). A row that may read nothing gets zeros, and zero gradients, never
        NaN.
    """
    if mask is None:
        return torch.softmax(scores, dim=-1)
    # before the softmax the lowest number instead of -inf: a row of -inf alone would be NaN, in the
    # gradient, too
    lowest = torch.finfo(scores.dtype).min
    weights = torch.softmax(scores.masked_fill(~mask, lowest), dim=-1)
    return weights.masked_fill(~mask, 0.0)


def masked_log_softmax(scores: Tensor, mask: Tensor | None = None) -> Tensor:
    """The logarithm of `masked_softmax`, taken before a small weight is rounded to zero.

    Args:
        scores: shape (..., M).
        mask: True where a key may be read, broadcastable to `scores`; None: everywhere.

    Returns:
        Logarithms of the weights, shape (..., M), -inf where a key may not be read.
    """
    if mask is None:
        return torch.log_softmax(scores, dim=-1)
    lowest = torch.finfo(scores.dtype).min
    log_weights = torch.log_softmax(scores.masked_fill(~mask, lowest), dim=-1)
    return log_weights.masked_fill(~mask, -math.inf)


def attend(scores: Tensor, values: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Attention pooling: the average of the values under softmax(scores).

        f(q, {k_m, v_m}) = sum_m softmax_m(a(q, k_m)) v_m

    Args:
        scores: a(q, k_m), shape (..., Q, M).
        values: v_m, finite also where masked, shape (..., M, V).
        mask: True where a key may be read, broadcastable to `scores`; a query that may read nothing
            gets zeros.

    Returns:
        The pooled values, shape (..., Q, V), and the weights, shape (..., Q, M).

    Source: Vaswani et al. 2017, eq. 1.
    """
    weights = masked_softmax(scores, mask)  # (..., Q, M)
    return weights @ values, weights  # (..., Q, V)
