"""Chapter 02: right and wrong answers in other styles than the references and the traps."""

import math

import pytest
import torch

from possm_lite.blocks.attention import masked_softmax
from possm_lite.blocks.scores import additive_score
from possm_lite.blocks.selection import max_pool_items, reinforce_loss

from .helpers import assert_verdict, load

exercises = load("02_scoring")


def weights_by_where(scores, mask):
    readable = mask.any(-1, keepdim=True)
    safe = torch.where(mask | ~readable, scores, torch.full_like(scores, -math.inf))
    return torch.softmax(safe, -1) * readable


def additive_by_loops(q, k, W_q, W_k, w_v):
    trials = zip(q, k, strict=True)
    return torch.tensor([[[w_v @ torch.tanh(W_q @ x + W_k @ y) for y in b] for x in a] for a, b in trials])


def head_scores_by_loop(queries, keys, n_heads, scale=None):
    d = queries.shape[-1] // n_heads
    heads = [slice(h * d, (h + 1) * d) for h in range(n_heads)]
    scores = torch.stack([torch.einsum("bqd,bmd->bqm", queries[..., h], keys[..., h]) for h in heads], 1)
    return scores / (scale or d**0.5)


def largest_by_loop(items, mask):
    trials = zip(items, mask, strict=True)
    return torch.stack([x[m].max(0)[0] if m.any() else torch.zeros(x.shape[-1]) for x, m in trials])


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
        ("additive_scores", additive_by_loops, "✓"),
        ("additive_scores", additive_score, "✓"),
        ("additive_scores", lambda *a: additive_by_loops(*a).mT, "changed places"),
        ("additive_scores", lambda q, k, W, U, w: (q @ W.T @ w)[:, :, None] + (k @ U.T @ w)[:, None], "tanh is"),
        ("head_scores", head_scores_by_loop, "✓"),
        ("head_scores", lambda q, k, H: head_scores_by_loop(q, k, H, q.shape[-1] / H), "not by its root"),
        ("head_scores", lambda q, k, H: head_scores_by_loop(q, k, H)[:, :1], "the shape is"),
        ("largest_of_real", largest_by_loop, "✓"),
        ("largest_of_real", lambda items, mask: max_pool_items(items, mask)[0], "✓"),
        ("largest_of_real", lambda x, m: torch.where(m[..., None], x, torch.zeros(())).amax(-2), "counts as zero"),
        ("largest_of_real", lambda x, m: (x + m[..., None].float().log()).amax(-2), "minus infinity"),
        ("largest_of_real", lambda x, m: (x - 1e9 * ~m[..., None]).amax(-2), "on a trial without any item"),
        ("surrogate", surrogate_without_gradient, "✓"),
        ("surrogate", reinforce_loss, "✓"),
        ("surrogate", lambda log_p, loss, b: loss * (1 + log_p) - b * log_p, "nothing is stopped"),
        ("surrogate", lambda log_p, loss, b: loss + log_p * loss.detach() - log_p * b, "baseline is not stopped"),
        ("surrogate", lambda log_p, loss, b: loss.detach(), "on the gradient for log_p"),
    ],
)
def test_answer_in_another_style(name, answer, words):
    assert_verdict(getattr(exercises, name), answer, words)
