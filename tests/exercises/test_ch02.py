"""Chapter 02: right answers in other styles."""

import math

import torch
from torch.nn import functional as F

from possm_course.chapters.ch02.selection import max_pool_items, reinforce_loss
from possm_lite.nn.attention import additive_score, bilinear_score, masked_softmax, scaled_dot_score

from .helpers import answers, load

exercises = load("ch02")


def two_by_basis(W, d):
    """An orthonormal basis of the columns of W, as an array, and the rest as a list."""
    basis = torch.linalg.svd(W.double())[0][:, :d]  # (d_q, d)
    return basis.T.numpy(), (basis.T @ W.double()).tolist()


def two_by_qr(W, d):
    """Without pivoting: right only if the first d columns of W span all of them."""
    Q, R = torch.linalg.qr(W)
    return Q[:, :d].T, R[:d]


def two_by_roots(W, d):
    """Right only if d is not above the sizes of W."""
    U, sigma, Vh = torch.linalg.svd(W, full_matrices=False)
    root = sigma[:d].sqrt()
    return root[:, None] * U[:, :d].T, root[:, None] * Vh[:d]


def two_by_identity(W, d):
    """Where d is large enough, one of the two may be the identity."""
    if d < len(W):
        return two_by_basis(W, d)
    return F.pad(torch.eye(len(W)), (0, 0, 0, d - len(W))), F.pad(W, (0, 0, 0, d - len(W)))


def gated_by_loop(items, mask, W_g, b_g):
    largest = []
    for trial, real in zip(items, mask, strict=True):
        gated = [x / (1 + torch.exp(-(W_g @ x + b_g))) for x in trial[real]]
        largest.append(torch.stack(gated).amax(0) if gated else torch.zeros(items.shape[-1]))
    return largest


def head_scores_by_loop(queries, keys, n_heads):
    d = queries.shape[-1] // n_heads
    heads = [slice(h * d, (h + 1) * d) for h in range(n_heads)]
    scores = [torch.einsum("bqd,bmd->bqm", queries[..., h], keys[..., h]) for h in heads]
    return torch.stack(scores, 1) / d**0.5


def pooled_score(q, k, w):
    return {0: scaled_dot_score, 1: bilinear_score, 3: additive_score}[len(w)](q, k, *w)


def pooling_by_torch(q, k, v, mask, params):
    """Torch's own attention adds a score to each pair when the products of q and k are zero."""
    scores = pooled_score(q, k, params).masked_fill(~mask[:, None], -1e30)
    nothing = torch.zeros(*k.shape[:2], q.shape[-1])
    pooled = F.scaled_dot_product_attention(q * 0, nothing, v, scores)
    return torch.where(mask.any(1)[:, None, None], pooled, 0.0)


def pooling_by_fill(number):
    return lambda q, k, v, m, w: (pooled_score(q, k, w).masked_fill(~m[:, None], number).softmax(-1) * m[:, None]) @ v


test_answers = answers(
    exercises,
    ("masked_weights", masked_softmax),
    ("masked_weights", lambda s, m: s.masked_fill(~m, -1e9).softmax(-1) * m),
    ("masked_weights", lambda s, m: s.masked_fill(~m, -1e4).softmax(-1) * m, "-10,000 is not small"),
    ("masked_weights", lambda s, m: s.masked_fill(~m, -math.inf).softmax(-1).nan_to_num(0.0)),
    ("masked_weights", lambda s, m: (s + m.float().log()).softmax(-1).nan_to_num(0.0), "gradient", "got nan"),
    ("masked_weights", lambda s, m: s.masked_fill(~m, -math.inf).softmax(-1) * m, "gives NaN"),
    ("masked_weights", lambda s, m: (s + (1 - m.float()) * -1e9).softmax(-1) * m, "does not hide"),
    ("additive_scores", additive_score),
    ("two_projections", two_by_identity),
    ("two_projections", two_by_qr, "whose first columns are zero"),
    ("two_projections", two_by_roots, "above both sizes", "the shape of W_q"),
    ("gated_maximum", gated_by_loop),
    ("gated_maximum", lambda x, m, W, b: max_pool_items(x, m)[0], "expected"),
    ("head_scores", lambda *a: head_scores_by_loop(*a).double().numpy()),
    ("surrogate", reinforce_loss),
    ("masked_pooling", pooling_by_torch),
    ("masked_pooling", pooling_by_fill(-1e9)),
)
