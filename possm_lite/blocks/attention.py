"""Attention: scores, masked softmax, pooling."""

import math

import torch
from torch import Tensor


def length_mask(lengths: Tensor, n: int) -> Tensor:
    """True at the first `lengths` of `n` slots, the filled ones of a padded row.

        mask_m = (m < length),   m = 0 ... n-1

    Args: lengths: whole numbers from 0 to n, any shape (...); n: slots of a row.
    Returns: booleans, shape (..., n).
    Raises: ValueError if a length is below 0 or above n.
    """
    lengths = torch.as_tensor(lengths)
    wrong = ((lengths < 0) | (lengths > n)).nonzero()
    if len(wrong):
        index = wrong[0].tolist()
        raise ValueError(f"lengths must lie between 0 and n = {n}: lengths{index or ''} is {lengths[tuple(index)]}.")
    return torch.arange(n, device=lengths.device) < lengths[..., None]


def masked_softmax(scores: Tensor, mask: Tensor | None = None) -> Tensor:
    """Softmax over the last axis in which only the keys allowed by `mask` take part.

        w_m = exp(s_m) / sum_{j allowed} exp(s_j)   if m is allowed, else 0

    Args: scores: shape (..., M); mask: True where a key may be read, broadcastable to `scores`; None: everywhere.
    Returns: weights, shape (..., M); a row that may read nothing gets zeros, and zero gradients, never NaN.
    """
    if mask is None:
        return torch.softmax(scores, dim=-1)
    allowed, readable = _readable(scores, mask)
    return torch.softmax(allowed, dim=-1).masked_fill(~readable, 0.0)


def masked_log_softmax(scores: Tensor, mask: Tensor | None = None) -> Tensor:
    """The logarithm of `masked_softmax`, shape (..., M): -inf where a key may not be read, never NaN.

    Not the logarithm taken afterwards, which would round a small weight to zero first.
    """
    if mask is None:
        return torch.log_softmax(scores, dim=-1)
    allowed, _ = _readable(scores, mask)
    return torch.log_softmax(allowed, dim=-1).masked_fill(~mask, -math.inf)


def _readable(scores: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """Scores (..., M) that a softmax may see, and which rows have a key to read, (..., 1).

    -inf before the softmax, not zero after it: the weights left must sum to one. A row of -inf alone would be NaN in
    the result and in the gradient, so such a row is computed on zeros; the caller clears its result.
    """
    readable = mask.any(dim=-1, keepdim=True)
    return scores.masked_fill(~mask, -math.inf).masked_fill(~readable, 0.0), readable


def scaled_dot_score(queries: Tensor, keys: Tensor) -> Tensor:
    """a(q, k) = q . k / sqrt(d) (2.7) for queries (..., Q, d) and keys (..., M, d): shape (..., Q, M).

    Source: Vaswani et al. 2017, section 3.2.1; d is the size of a head.
    """
    return queries @ keys.transpose(-1, -2) / math.sqrt(queries.shape[-1])


def attend(scores: Tensor, values: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Attention pooling: the average of `values` under softmax(`scores`).

        f(q, {k_m, v_m}) = sum_m softmax_m(a(q, k_m)) v_m

    Args:
        scores: a(q, k_m), shape (..., Q, M).
        values: v_m, shape (..., M, V); finite, also where masked: 0 times NaN is NaN.
        mask: True where a key may be read, broadcastable to `scores`. A query that may read nothing gets zeros.

    Returns: the pooled values, shape (..., Q, V), and the weights, shape (..., Q, M).
    Source: Vaswani et al. 2017, eq. 1, without the projections.
    """
    weights = masked_softmax(scores, mask)  # (..., Q, M)
    return weights @ values, weights  # (..., Q, V)
