"""Chapter 02: right and wrong answers in other styles than the references and the traps."""

import math

import pytest
import torch

from possm_lite.blocks.attention import attend, masked_softmax, scaled_dot_score
from possm_lite.blocks.scores import additive_score, bilinear_score
from possm_lite.blocks.selection import max_pool_items, reinforce_loss

from .helpers import assert_verdict, load

exercises = load("02_scoring")


def weights_by_where(scores, mask):
    readable = mask.any(-1, keepdim=True)
    safe = torch.where(mask | ~readable, scores, torch.full_like(scores, -math.inf))
    return torch.softmax(safe, -1) * readable


def weights_by_logsumexp(scores, mask):
    scores = scores.masked_fill(~mask, -1e30)
    return (scores - scores.logsumexp(-1, keepdim=True)).exp() * mask


def hidden_after_exp(scores, mask):
    """A softmax over the readable keys, in which padding is hidden by a where after exp."""
    largest = scores.masked_fill(~mask, -math.inf).max(-1, keepdim=True)[0]
    e = torch.where(mask, torch.exp(scores - torch.where(largest.isinf(), 0.0, largest)), torch.zeros(()))
    return e / (e.sum(-1, keepdim=True) + 1e-30)


def additive_by_loops(q, k, W_q, W_k, w_v):
    trials = zip(q, k, strict=True)
    return torch.tensor([[[w_v @ torch.tanh(W_q @ x + W_k @ y) for y in b] for x in a] for a, b in trials])


def additive_by_stacking(q, k, W_q, W_k, w_v):
    hidden = [torch.tanh((q @ W_q.T)[:, i, None] + k @ W_k.T) for i in range(q.shape[1])]
    return torch.stack([torch.einsum("bmh,h->bm", x, w_v) for x in hidden], 1)


def head_scores_by_loop(queries, keys, n_heads, scale=None):
    d = queries.shape[-1] // n_heads
    heads = [slice(h * d, (h + 1) * d) for h in range(n_heads)]
    scores = torch.stack([torch.einsum("bqd,bmd->bqm", queries[..., h], keys[..., h]) for h in heads], 1)
    return scores / (scale or d**0.5)


def largest_by_loop(items, mask):
    trials = zip(items, mask, strict=True)
    return torch.stack([x[m].max(0)[0] if m.any() else torch.zeros(x.shape[-1]) for x, m in trials])


def weights_of_two_axes(scores, mask):
    p = torch.zeros_like(scores)
    for i in range(len(scores)):
        p[i, mask[i]] = torch.softmax(scores[i, mask[i]], 0)
    return p


def weights_over_zeros(scores, mask):
    e = torch.where(mask, scores - torch.where(mask, scores, 0.0).amax(-1, keepdim=True), 0.0).exp() * mask
    return e / e.sum(-1, keepdim=True).clamp(min=1e-30)


def interleaved_head_scores(queries, keys, n_heads):
    q, k = (x.unflatten(-1, (-1, n_heads)).permute(0, 3, 1, 2) for x in (queries, keys))
    return q @ k.mT / q.shape[-1] ** 0.5


def two_by_basis(W, d):
    """An orthonormal basis of the columns of W, as an array, and the rest as a list."""
    basis = torch.linalg.svd(W.double())[0][:, :d]  # (d_q, d)
    return basis.T.numpy(), (basis.T @ W.double()).tolist()


def pooling_by_package(q, k, v, mask, weights):
    return attend(pooled_score(q, k, weights), v, mask[:, None])[0]


def pooling_by_loop(q, k, v, mask, weights):
    rows = zip(q, k, v, mask, strict=True)
    return torch.stack([torch.softmax(pooled_score(a, b[m], weights), -1) @ c[m] for a, b, c, m in rows])


def pooling_hidden_after_exp(q, k, v, mask, weights):
    k = k * mask.any(1)[:, None, None]  # a trial without any key computes on zeros
    return hidden_after_exp(pooled_score(q, k, weights), mask[:, None]) @ v


def pooling_by_fill(number):
    return lambda q, k, v, m, w: (pooled_score(q, k, w).masked_fill(~m[:, None], number).softmax(-1) * m[:, None]) @ v


def changed(score):
    """Pooling with another score."""
    return lambda q, k, v, mask, w: attend(score(q, k, w), v, mask[:, None])[0]


def unscaled(q, k, w):
    return q @ k.mT if not w else pooled_score(q, k, w)


def pooled_score(q, k, w):
    return {0: scaled_dot_score, 1: bilinear_score, 3: additive_score}[len(w)](q, k, *w)


def divides_again(q, k, v, mask, w):
    scores = pooled_score(q, k, w)
    e = (scores - scores.amax(-1, keepdim=True)).exp() * mask[:, None]  # the largest may be one of padding
    return e / e.sum(-1, keepdim=True).clamp(min=1e-9) @ v


def replaces_nan(q, k, v, mask, w):
    return (pooled_score(q, k, w).masked_fill(~mask[:, None], -math.inf).softmax(-1) @ v).nan_to_num()


def lacks_an_axis(q, k, w):
    return torch.tanh((q @ w[0].T)[:, :, None] + k @ w[1].T) @ w[2] if len(w) == 3 else pooled_score(q, k, w)


def surrogate_without_gradient(log_p, loss, baseline):
    with torch.no_grad():
        advantage = loss - baseline
    return advantage * log_p + loss


@pytest.mark.parametrize(
    ("name", "answer", "words"),
    [
        ("masked_weights", weights_by_where, "✓"),
        ("masked_weights", masked_softmax, "✓"),
        ("masked_weights", lambda s, m: torch.where(m, s, -math.inf).softmax(-1), "gives NaN"),
        ("masked_weights", lambda s, m: (s + m.where(m, -math.inf)).softmax(-1).nan_to_num(), "the gradient is NaN"),
        ("masked_weights", lambda s, m: weights_by_where(s, ~m), "upside down"),
        ("masked_weights", lambda s, m: s.exp() * m / (s.exp() * m).sum(-1, keepdim=True), "overflow in exp"),
        ("masked_weights", lambda s, m: s.masked_fill(~m, -1e30).softmax(1) * m.any(-1)[..., None], "(1, 2, 3)"),
        ("masked_weights", lambda s, m: s.masked_fill_(~m, -1e9).softmax(-1), "first argument was changed in place"),
        ("additive_scores", additive_by_stacking, "✓"),
        ("additive_scores", additive_by_loops, "no gradient flows back"),
        ("additive_scores", additive_score, "✓"),
        ("additive_scores", lambda *a: additive_score(*a).mT, "changed places"),
        ("additive_scores", lambda q, k, W, U, w: (q @ W.T @ w)[:, :, None] + (k @ U.T @ w)[:, None], "tanh is"),
        ("masked_weights", lambda s, m: s.masked_fill(~m, -100.0).softmax(-1) * m, "-100"),
        ("masked_weights", lambda s, m: s.masked_fill(~m, -1e9).softmax(-1) * m, "✓"),
        ("masked_weights", lambda s, m: s.masked_fill(~m, -1e4).softmax(-1) * m, "on real scores near -30,000"),
        ("masked_weights", weights_over_zeros, "real scores near -200"),
        ("masked_weights", weights_by_logsumexp, "✓"),
        ("masked_weights", hidden_after_exp, "zeros in its place are too late"),
        (
            "masked_weights",
            lambda s, m: weights_by_where(s, torch.arange(s.shape[-1]) < m.sum(-1, keepdim=True)),
            "only counted",
        ),
        ("masked_weights", weights_of_two_axes, "several rows to an index"),
        ("additive_scores", lambda *a: additive_score(*a).detach(), "no gradient flows back"),
        ("additive_scores", lambda q, k, W, U, w: additive_score(q, k, W, -U, w), "taken off"),
        ("additive_scores", lambda *a: additive_score(*a).softmax(-1), "weights already"),
        ("two_projections", lambda W, d: (W.T[:d], torch.eye(W.shape[1])[:d]), "a W of rank one"),
        ("two_projections", lambda W, d: (W.T, torch.eye(W.shape[1])), "W_q should have shape (1, 4), got (3, 4)"),
        ("two_projections", lambda W, d: W, "expected two matrices"),
        ("two_projections", two_by_basis, "✓"),
        ("two_projections", lambda W, d: two_by_basis(W.T, d), "changed places"),
        ("two_projections", lambda W, d: (two_by_basis(W, d)[0], torch.eye(d, W.shape[1])), "on a square W"),
        ("head_scores", interleaved_head_scores, "in turn"),
        ("head_scores", lambda *a: head_scores_by_loop(*a).double().numpy(), "✓"),
        ("head_scores", head_scores_by_loop, "✓"),
        ("head_scores", lambda q, k, H: head_scores_by_loop(q, k, H, q.shape[-1] / H), "not by its root"),
        ("head_scores", lambda q, k, H: head_scores_by_loop(q, k, H)[:, :1], "the shape is"),
        ("largest_of_real", largest_by_loop, "✓"),
        ("largest_of_real", lambda items, mask: max_pool_items(items, mask)[0], "✓"),
        ("largest_of_real", lambda x, m: torch.where(m[..., None], x, torch.zeros(())).amax(-2), "counts as zero"),
        ("largest_of_real", lambda x, m: (x + m[..., None].float().log()).amax(-2), "minus infinity"),
        ("largest_of_real", lambda x, m: (x - 1e9 * ~m[..., None]).amax(-2), "on a trial without any item"),
        ("largest_of_real", lambda x, m: x.masked_fill(~m[..., None], -100).amax(1) * m.any(1)[:, None], "-100"),
        (
            "largest_of_real",
            lambda x, m: x.masked_fill(~m[..., None], -1e4).amax(1) * m.any(1)[:, None],
            "far below zero",
        ),
        ("largest_of_real", lambda x, m: largest_by_loop(x, torch.arange(4) < m.sum(1)[:, None]), "slot by slot"),
        ("largest_of_real", lambda x, m: largest_by_loop(x, ~m), "upside down"),
        ("largest_of_real", lambda x, m: largest_by_loop(x, m).tolist(), "✓"),
        ("surrogate", lambda log_p, loss, b: loss - loss.detach() + (loss - b).detach() * log_p, "the value is not"),
        (
            "surrogate",
            lambda log_p, loss, b: loss + (loss - b).detach() * log_p.detach(),
            "log p is stopped",
        ),
        ("masked_pooling", pooling_by_package, "✓"),
        ("masked_pooling", lambda *a: pooling_by_package(*a).detach().numpy(), "no gradient flows back"),
        ("masked_pooling", pooling_by_loop, "✓"),
        (
            "masked_pooling",
            lambda q, k, v, m, w: attend(pooled_score(q, k, w), v, m)[0],
            "lacks the axis of the queries",
        ),
        ("masked_pooling", lambda q, k, v, m, w: pooling_by_package(q, k, v, ~m, w), "upside down"),
        ("masked_pooling", pooling_by_fill(-100.0), "can be lower than"),
        ("masked_pooling", pooling_by_fill(-1e3), "can be lower than"),
        ("masked_pooling", pooling_by_fill(-1e9), "✓"),
        ("masked_pooling", divides_again, "Mask the scores first"),
        ("masked_pooling", changed(unscaled), "not scaled"),
        ("masked_pooling", changed(lacks_an_axis), "an axis of k is missing"),
        ("masked_pooling", lambda q, k, v, m, w: pooled_score(q, k, w).softmax(-1) @ v, "padding is read"),
        (
            "masked_pooling",
            lambda q, k, v, m, w: pooled_score(q, k, w).masked_fill(~m[:, None], -1e30).softmax(-1) @ v,
            "reads its padding evenly",
        ),
        (
            "masked_pooling",
            replaces_nan,
            "a gradient is NaN",
        ),
        ("masked_pooling", pooling_hidden_after_exp, "zeros in its place are too late"),
        ("surrogate", lambda log_p, loss, b: loss * log_p, ": the value is not right"),
        ("surrogate", surrogate_without_gradient, "✓"),
        ("surrogate", reinforce_loss, "✓"),
        ("surrogate", lambda log_p, loss, b: loss * (1 + log_p) - b * log_p, "nothing is stopped"),
        ("surrogate", lambda log_p, loss, b: loss + log_p * loss.detach() - log_p * b, "baseline is not stopped"),
        ("surrogate", lambda log_p, loss, b: loss.detach(), "on the value"),
        ("surrogate", lambda log_p, loss, b: loss.detach() + (loss - b).detach() * log_p, "first term is stopped"),
        ("surrogate", lambda log_p, loss, b: 2 * loss - loss.detach() + (loss - b).detach() * log_p, "for loss: "),
    ],
)
def test_answer_in_another_style(name, answer, words):
    assert_verdict(getattr(exercises, name), answer, words)
