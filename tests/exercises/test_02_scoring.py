"""The exercises of chapter 02: right answers written anew pass, planted mistakes are named, stubs are missing."""

import math

import pytest
import torch

from .helpers import assert_right, load

check = load("02_scoring")

# --- right answers, not written like the references


def masked_weights_by_rows(scores, mask):
    flat = []
    for row, allowed in zip(scores.reshape(-1, scores.shape[-1]), mask.reshape(-1, scores.shape[-1]), strict=True):
        weights = torch.zeros_like(row)
        if allowed.any():
            weights = weights.masked_scatter(allowed, torch.softmax(row[allowed], -1))
        flat.append(weights)
    return torch.stack(flat).reshape(scores.shape)


def masked_weights_by_zeros(scores, mask):
    readable = mask.any(-1, keepdim=True)
    safe = torch.where(mask | ~readable, scores, torch.full_like(scores, -math.inf))
    return torch.softmax(safe, -1) * readable


def additive_by_loops(q, k, W_q, W_k, w_v):
    trials = zip(q, k, strict=True)
    return torch.tensor([[[w_v @ torch.tanh(W_q @ x + W_k @ y) for y in b] for x in a] for a, b in trials])


def head_scores_by_loops(queries, keys, n_heads):
    d = queries.shape[-1] // n_heads
    heads = [slice(h * d, (h + 1) * d) for h in range(n_heads)]
    return torch.stack([torch.einsum("bqd,bmd->bqm", queries[..., h], keys[..., h]) for h in heads], 1) * d**-0.5


def largest_by_loops(items, mask):
    trials = zip(items, mask, strict=True)
    return torch.stack([x[m].max(0)[0] if m.any() else torch.zeros(x.shape[-1]) for x, m in trials])


def surrogate_by_steps(log_p, loss, baseline):
    with torch.no_grad():
        better = loss - baseline
    return better * log_p + loss


@pytest.mark.parametrize(
    ("exercise", "answer"),
    [
        (check.masked_weights, masked_weights_by_rows),
        (check.masked_weights, masked_weights_by_zeros),
        (check.additive_scores, additive_by_loops),
        (check.head_scores, head_scores_by_loops),
        (check.largest_of_real, largest_by_loops),
        (check.surrogate, surrogate_by_steps),
        (check.growth_of_spread, 4),
        (check.growth_of_spread, math.sqrt(256 / 16)),
    ],
)
def test_a_right_answer_passes(exercise, answer):
    assert_right(exercise, answer)


# --- planted mistakes, written as students write them


def masked_after(scores, mask):
    return torch.softmax(scores, dim=-1).masked_fill(~mask, 0.0)


def renormalised(scores, mask):
    p = torch.where(mask, torch.softmax(scores, -1), 0.0)
    return p / p.sum(-1, keepdim=True)


def forgot_the_empty_row(scores, mask):
    return torch.softmax(torch.where(mask, scores, float("-inf")), -1)


def replaced_nan(scores, mask):
    p = torch.softmax(scores.masked_fill(~mask, float("-inf")), -1)
    return torch.where(p.isnan(), torch.zeros_like(p), p)


def added_and_replaced_nan(scores, mask):
    bias = torch.zeros_like(scores).masked_fill(~mask, float("-inf"))
    return torch.nan_to_num(torch.softmax(scores + bias, -1))


def minus_a_billion(scores, mask):
    return (scores.masked_fill(~mask, -1e9)).softmax(-1)


def multiplied_scores(scores, mask):
    return (scores * mask.float()).softmax(-1)


def along_axis_one(scores, mask):
    readable = mask.any(-1, keepdim=True)
    return torch.softmax(scores.masked_fill(~mask, -1e30), 1) * readable


def along_the_rows(scores, mask):
    return torch.softmax(scores.masked_fill(~mask, float("-inf")), 0).nan_to_num(0.0)


def changes_its_argument(scores, mask):
    scores[~mask] = -1e9
    return torch.softmax(scores, -1)


def keys_first(q, k, W_q, W_k, w_v):
    return torch.tanh((k @ W_k.T).unsqueeze(2) + (q @ W_q.T).unsqueeze(1)) @ w_v


def one_axis_short(q, k, W_q, W_k, w_v):
    return torch.tanh((q @ W_q.T).unsqueeze(2) + k @ W_k.T) @ w_v


def pairs_only(q, k, W_q, W_k, w_v):
    return torch.tanh(torch.einsum("hi,bqi->bqh", W_q, q) + torch.einsum("hi,bqi->bqh", W_k, k)) @ w_v


def linear(q, k, W_q, W_k, w_v):
    return (q @ W_q.T @ w_v)[:, :, None] + (k @ W_k.T @ w_v)[:, None, :]


def heads(queries, keys, n_heads, scale):
    D = queries.shape[-1]
    q = torch.stack(queries.split(D // n_heads, -1), 1)
    k = torch.stack(keys.split(D // n_heads, -1), 1)
    return torch.matmul(q, k.mT) / scale


def heads_by_view(queries, keys, n_heads):
    B, n, D = queries.shape
    q, k = queries.view(B, n_heads, n, -1), keys.view(B, n_heads, keys.shape[1], -1)
    return q @ k.mT / (D / n_heads) ** 0.5


@pytest.mark.parametrize(
    ("exercise", "mistake", "told"),
    [
        (check.masked_weights, masked_after, "masked after the softmax"),
        (check.masked_weights, renormalised, "dividing again"),
        (check.masked_weights, forgot_the_empty_row, "gives NaN"),
        (check.masked_weights, replaced_nan, "right by luck"),
        (check.masked_weights, added_and_replaced_nan, "the gradient is NaN"),
        (check.masked_weights, minus_a_billion, "reads everything alike"),
        (check.masked_weights, multiplied_scores, "padding still takes part"),
        (check.masked_weights, lambda s, m: masked_weights_by_zeros(s, ~m), "upside down"),
        (check.masked_weights, lambda s, m: s.exp() * m / (s.exp() * m).sum(-1, keepdim=True), "overflow in exp"),
        (check.masked_weights, along_axis_one, "on scores of shape (1, 2, 3)"),
        (check.masked_weights, along_the_rows, "on a row in which all keys may be read"),
        (check.masked_weights, changes_its_argument, "first argument was changed in place"),
        (check.additive_scores, keys_first, "changed places"),
        (check.additive_scores, one_axis_short, "an axis of k is missing"),
        (check.additive_scores, pairs_only, "query i meets key i only"),
        (check.additive_scores, linear, "tanh is missing"),
        (check.additive_scores, lambda *a: additive_by_loops(*a).sum(1), "the shape is"),
        (check.head_scores, lambda q, k, H: heads(q, k, H, q.shape[-1] ** 0.5), "model's size D"),
        (check.head_scores, lambda q, k, H: heads(q, k, H, 1.0), "no scale at all"),
        (check.head_scores, lambda q, k, H: heads(q, k, H, q.shape[-1] / H), "not by its root"),
        (check.head_scores, lambda q, k, H: heads(q, k, H, H**0.5), "number of heads"),
        (check.head_scores, heads_by_view, "the heads are not"),
        (check.largest_of_real, lambda x, m: x.amax(-2), "padding can win"),
        (check.largest_of_real, lambda x, m: torch.where(m[..., None], x, torch.zeros(())).amax(-2), "counts as zero"),
        (check.largest_of_real, lambda x, m: (x * m[..., None]).amax(-1), "the other axis"),
        (check.largest_of_real, lambda x, m: (x + m[..., None].float().log()).amax(-2), "minus infinity"),
        (check.largest_of_real, lambda x, m: (x - 1e9 * ~m[..., None]).amax(-2), "on a trial without any item"),
        (check.largest_of_real, lambda x, m: (x - 1e4 * ~m[..., None]).amax(-2) * m.any(-1)[:, None], "large numbers"),
        (check.surrogate, lambda log_p, loss, b: (loss - b) + (loss - b).detach() * log_p, "taken off twice"),
        (check.surrogate, lambda log_p, loss, b: loss + (b - loss).detach() * log_p, "sign is that of a reward"),
        (check.surrogate, lambda log_p, loss, b: loss * (1 + log_p) - b * log_p, "nothing is stopped"),
        (check.surrogate, lambda log_p, loss, b: log_p * (loss - b).detach(), "first term is missing"),
        (check.surrogate, lambda log_p, loss, b: loss + log_p * loss.detach() - log_p * b, "baseline is not stopped"),
        (check.surrogate, lambda log_p, loss, b: loss + loss.detach() * log_p, "baseline is not used"),
        (check.surrogate, lambda log_p, loss, b: surrogate_by_steps(log_p.exp(), loss, b), "p where log p"),
        (check.surrogate, lambda log_p, loss, b: surrogate_by_steps(log_p, loss, b).mean(), "the mean is taken"),
        (check.surrogate, lambda log_p, loss, b: loss.detach(), "on the gradient for log_p"),
        (check.growth_of_spread, 16, "how the variance grows"),
        (check.growth_of_spread, 2, "once too often"),
        (check.growth_of_spread, 1.0, "does grow"),
        (check.growth_of_spread, "four", "a number is wanted"),
    ],
)
def test_a_mistake_is_named(exercise, mistake, told):
    verdict = exercise.examine(mistake)
    assert verdict.status == "wrong"
    assert told in verdict.message
