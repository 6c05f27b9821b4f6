"""Chapter 02: right answers in other styles, and wrong ones that no known mistake explains."""

import pytest
import torch

from possm_lite.blocks.attention import additive_score, attend, bilinear_score, masked_softmax, scaled_dot_score
from possm_lite.blocks.selection import max_pool_items, reinforce_loss

from .helpers import assert_verdict, load

exercises = load("02_scoring")


def weights_by_logsumexp(scores, mask):
    scores = scores.masked_fill(~mask, -1e30)
    return (scores - scores.logsumexp(-1, keepdim=True)).exp() * mask


def additive_by_stacking(q, k, W_q, W_k, w_v):
    hidden = [torch.tanh((q @ W_q.T)[:, i, None] + k @ W_k.T) for i in range(q.shape[1])]
    return torch.stack([torch.einsum("bmh,h->bm", x, w_v) for x in hidden], 1)


def two_by_basis(W, d):
    """An orthonormal basis of the columns of W, as an array, and the rest as a list."""
    basis = torch.linalg.svd(W.double())[0][:, :d]  # (d_q, d)
    return basis.T.numpy(), (basis.T @ W.double()).tolist()


def head_scores_by_loop(queries, keys, n_heads):
    d = queries.shape[-1] // n_heads
    heads = [slice(h * d, (h + 1) * d) for h in range(n_heads)]
    scores = [torch.einsum("bqd,bmd->bqm", queries[..., h], keys[..., h]) for h in heads]
    return torch.stack(scores, 1) / d**0.5


def largest_by_loop(items, mask):
    trials = zip(items, mask, strict=True)
    return torch.stack([x[m].max(0)[0] if m.any() else torch.zeros(x.shape[-1]) for x, m in trials])


def surrogate_without_gradient(log_p, loss, baseline):
    with torch.no_grad():
        advantage = loss - baseline
    return advantage * log_p + loss


def pooled_score(q, k, w):
    return {0: scaled_dot_score, 1: bilinear_score, 3: additive_score}[len(w)](q, k, *w)


def pooling_by_package(q, k, v, mask, weights):
    return attend(pooled_score(q, k, weights), v, mask[:, None])[0]


def pooling_by_loop(q, k, v, mask, weights):
    rows = zip(q, k, v, mask, strict=True)
    return torch.stack([torch.softmax(pooled_score(a, b[m], weights), -1) @ c[m] for a, b, c, m in rows])


def pooling_by_fill(number):
    return lambda q, k, v, m, w: (pooled_score(q, k, w).masked_fill(~m[:, None], number).softmax(-1) * m[:, None]) @ v


@pytest.mark.parametrize(
    ("name", "answer", "words"),
    [
        ("masked_weights", masked_softmax, "✓"),
        ("masked_weights", weights_by_logsumexp, "✓"),
        ("masked_weights", lambda s, m: s.masked_fill(~m, -1e9).softmax(-1) * m, "✓"),
        ("masked_weights", lambda s, m: s.masked_fill(~m, -1e4).softmax(-1) * m, "on real scores near -30,000"),
        ("additive_scores", additive_by_stacking, "✓"),
        ("additive_scores", additive_score, "✓"),
        ("two_projections", two_by_basis, "✓"),
        ("two_projections", lambda W, d: (W.T, torch.eye(W.shape[1])), "on a W of rank one and d = 1: the shape of"),
        ("head_scores", lambda *a: head_scores_by_loop(*a).double().numpy(), "✓"),
        ("largest_of_real", lambda x, m: largest_by_loop(x, m).tolist(), "✓"),
        ("largest_of_real", lambda items, mask: max_pool_items(items, mask)[0], "✓"),
        ("largest_of_real", lambda x, m: (x - 1e9 * ~m[..., None]).amax(-2), "on a trial without any item"),
        ("surrogate", surrogate_without_gradient, "✓"),
        ("surrogate", reinforce_loss, "✓"),
        ("surrogate", lambda log_p, loss, b: 2 * loss - loss.detach() + (loss - b).detach() * log_p, "the second"),
        ("masked_pooling", pooling_by_package, "✓"),
        ("masked_pooling", pooling_by_loop, "✓"),
        ("masked_pooling", pooling_by_fill(-1e9), "✓"),
        ("masked_pooling", pooling_by_fill(-1e3), "on dot products far below zero"),
        ("masked_pooling", lambda *a: pooling_by_package(*a).detach().numpy(), "no gradient flows back"),
    ],
)
def test_answer_in_another_style(name, answer, words):
    assert_verdict(getattr(exercises, name), answer, words)
