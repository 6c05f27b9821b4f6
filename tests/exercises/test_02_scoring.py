"""Chapter 02: right answers in other styles."""

import torch

from possm_lite.course.selection import max_pool_items, reinforce_loss
from possm_lite.nn.attention import additive_score, attend, bilinear_score, masked_softmax, scaled_dot_score

from .helpers import answers, load

exercises = load("02_scoring")


def weights_by_logsumexp(scores, mask):
    scores = scores.masked_fill(~mask, -1e30)
    return (scores - scores.logsumexp(-1, keepdim=True)).exp() * mask


def two_by_basis(W, d):
    """An orthonormal basis of the columns of W, as an array, and the rest as a list."""
    basis = torch.linalg.svd(W.double())[0][:, :d]  # (d_q, d)
    return basis.T.numpy(), (basis.T @ W.double()).tolist()


def head_scores_by_loop(queries, keys, n_heads):
    d = queries.shape[-1] // n_heads
    heads = [slice(h * d, (h + 1) * d) for h in range(n_heads)]
    scores = [torch.einsum("bqd,bmd->bqm", queries[..., h], keys[..., h]) for h in heads]
    return torch.stack(scores, 1) / d**0.5


def surrogate_without_gradient(log_p, loss, baseline):
    with torch.no_grad():
        advantage = loss - baseline
    return advantage * log_p + loss


def pooled_score(q, k, w):
    return {0: scaled_dot_score, 1: bilinear_score, 3: additive_score}[len(w)](q, k, *w)


def pooling_by_package(q, k, v, mask, weights):
    return attend(pooled_score(q, k, weights), v, mask[:, None])[0]


def pooling_by_fill(number):
    return lambda q, k, v, m, w: (pooled_score(q, k, w).masked_fill(~m[:, None], number).softmax(-1) * m[:, None]) @ v


test_answers = answers(
    exercises,
    [
        ("masked_weights", masked_softmax),
        ("masked_weights", weights_by_logsumexp),
        ("masked_weights", lambda s, m: s.masked_fill(~m, -1e9).softmax(-1) * m),
        ("masked_weights", lambda s, m: s.masked_fill(~m, -1e4).softmax(-1) * m, "on real scores near -30,000"),
        ("additive_scores", additive_score),
        ("two_projections", two_by_basis),
        ("head_scores", lambda *a: head_scores_by_loop(*a).double().numpy()),
        ("largest_of_real", lambda items, mask: max_pool_items(items, mask)[0]),
        ("surrogate", surrogate_without_gradient),
        ("surrogate", reinforce_loss),
        ("masked_pooling", pooling_by_package),
        ("masked_pooling", pooling_by_fill(-1e9)),
    ],
)
