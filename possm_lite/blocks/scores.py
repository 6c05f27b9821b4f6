"""Attention scores of queries and keys. The scaled dot product, which the decoder uses, is in `attention`."""

import torch
from torch import Tensor


def dot_score(queries: Tensor, keys: Tensor) -> Tensor:
    """a(q, k) = q . k for queries (..., Q, d) and keys (..., M, d): shape (..., Q, M).

    For independent entries of mean 0 and variance 1 its variance is d: see `scaled_dot_score`.
    Raises: ValueError if queries and keys have different sizes.
    Source: Luong et al. 2015, section 3.1 ("dot").
    """
    if queries.shape[-1] != keys.shape[-1]:
        raise ValueError(
            f"A dot product needs queries and keys of one size, got {queries.shape[-1]} and {keys.shape[-1]}. "
            "bilinear_score and additive_score take two sizes."
        )
    return queries @ keys.transpose(-1, -2)


def bilinear_score(queries: Tensor, keys: Tensor, W: Tensor) -> Tensor:
    """a(q, k) = q^T W k (2.4) for queries (..., Q, d_q), keys (..., M, d_k) and W (d_q, d_k): shape (..., Q, M).

    Source: Luong et al. 2015, section 3.1 ("general").
    """
    return queries @ W @ keys.transpose(-1, -2)


def additive_score(queries: Tensor, keys: Tensor, W_q: Tensor, W_k: Tensor, w_v: Tensor) -> Tensor:
    """Scores (..., Q, M) of queries (..., Q, d_q) and keys (..., M, d_k), by a network with one hidden layer.

        a(q, k) = w_v . tanh(W_q q + W_k k),   W_q (h, d_q), W_k (h, d_k), w_v (h,)                  (2.3)

    Source: Bahdanau et al. 2015, appendix A.1.2.
    """
    # a new axis on the right of Q and one on the left of M: every query meets every key
    hidden = (queries @ W_q.T)[..., :, None, :] + (keys @ W_k.T)[..., None, :, :]  # (..., Q, M, h)
    return torch.tanh(hidden) @ w_v  # (..., Q, M)
