"""The checks of chapter 07 tell right answers, written in other ways, from planted mistakes, and name the mistake."""

import math

import pytest
import torch
from torch.nn import functional as F

from .helpers import assert_wrong, load

check = load("07_sequence_to_sequence")

WRITTEN = [check.token_loss, check.bahdanau_step, check.beam_step, check.pointer_weights]


def assert_right(exercise, answer):
    verdict = exercise.examine(answer)
    assert verdict.message == f"✓ {exercise.name}"


# 7.1: torch's own, and a loop


def loss_with_ignore_index(logits, targets, pad=0):
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=pad)


def loss_by_loop(logits, targets, pad=0, n=None, real=True):
    told = [
        logits[b, t].logsumexp(0) - logits[b, t, y]
        for b, row in enumerate(targets.tolist())
        for t, y in enumerate(row)
        if y != pad or not real
    ]
    return sum(told) / (len(told) if n is None else n(targets))


@pytest.mark.parametrize("answer", [loss_with_ignore_index, loss_by_loop])
def test_right_losses(answer):
    assert_right(check.token_loss, answer)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"real": False}, "paid for saying <pad>"),
        ({"n": torch.numel}, "divide by all slots"),
        ({"n": len}, "number of sentences"),
    ],
)
def test_losses_that_count_wrong(changed, words):
    assert_wrong(check.token_loss, lambda x, y, pad=0: loss_by_loop(x, y, pad, **changed), words)


def test_a_mean_of_means():
    def answer(logits, targets, pad=0):
        rows = zip(logits, targets, strict=True)
        return torch.stack([F.cross_entropy(x, y, ignore_index=pad) for x, y in rows]).mean()

    assert_wrong(check.token_loss, answer, "a mean for each sentence")


def test_other_bugs_of_losses():
    assert_wrong(check.token_loss, lambda x, y, pad=0: loss_by_loop(x.softmax(-1), y, pad), "taken twice")
    assert_wrong(check.token_loss, lambda x, y, pad=0: loss_by_loop(x, y), "a pad that is not 0")

    def overflows(logits, targets, pad=0):
        p = logits.exp() / logits.exp().sum(-1, keepdim=True)
        return -p.gather(-1, targets[..., None])[..., 0][targets != pad].log().mean()

    assert_wrong(check.token_loss, overflows, "logits in the hundreds")


# 7.2


def look_then_step(s, y, H, mask, score, cell, query=None):
    e = torch.where(mask, score(s if query is None else query, H), -torch.inf)
    alpha = e.exp() / e.exp().sum(-1, keepdim=True)
    return cell(torch.cat([y, torch.einsum("bn,bnh->bh", alpha, H)], 1), s), alpha


def step_row_by_row(s, y, H, mask, score, cell):
    states, weights = [], []
    for b in range(len(s)):
        n = int(mask[b].sum())
        alpha = score(s[b : b + 1], H[b : b + 1, :n])[0].softmax(0)
        states.append(cell(torch.cat([y[b], alpha @ H[b, :n]])[None], s[b : b + 1])[0])
        weights.append(F.pad(alpha, (0, H.shape[1] - n)))
    return torch.stack(states), torch.stack(weights)


@pytest.mark.parametrize("answer", [look_then_step, step_row_by_row])
def test_right_steps(answer):
    assert_right(check.bahdanau_step, answer)


def test_a_new_state_that_asks():
    def answer(s, y, H, mask, score, cell):
        new = cell(torch.cat([y, 0 * H[:, 0]], -1), s)
        return new, score(new, H).masked_fill(~mask, -torch.inf).softmax(-1)

    assert_wrong(check.bahdanau_step, answer, "Ask with the previous state")


def test_weights_of_another_look():
    def answer(s, y, H, mask, score, cell):
        new, _ = look_then_step(s, y, H, mask, score, cell)
        return new, score(new, H).masked_fill(~mask, -torch.inf).softmax(-1)

    assert_wrong(check.bahdanau_step, answer, "made anew by the new state")


def test_other_bugs_of_steps():
    def masked_late(s, y, H, mask, score, cell):
        alpha = score(s, H).softmax(-1).masked_fill(~mask, 0)
        return cell(torch.cat([y, (alpha[..., None] * H).sum(1)], -1), s), alpha

    def swapped(s, y, H, mask, score, cell):
        return look_then_step(s, y, H, mask, lambda s, H: score(s, H), lambda x, s: cell(x.roll(3, -1), s))

    assert_wrong(check.bahdanau_step, masked_late, "masked after the softmax")
    assert_wrong(
        check.bahdanau_step, lambda s, y, H, m, *f: look_then_step(s, y, H, m | True, *f), "padding is looked at"
    )
    assert_wrong(check.bahdanau_step, swapped, "other way round")
    assert_wrong(check.bahdanau_step, lambda *args: look_then_step(*args)[0], "2 values are wanted")


# 7.3: a list of all candidates, sorted


def beam_by_lists(scores, log_probs, finished, k, end, grow=False, drop=False):
    table = []
    for row, score in enumerate(scores.tolist()):
        if finished[row] and not grow:
            table += [] if drop else [(score, row, end)]
        else:
            table += [(score + p, row, word) for word, p in enumerate(log_probs[row].tolist())]
    table = sorted(table, reverse=True)[:k]
    best, parent, word = zip(*table, strict=True)
    return torch.tensor(best), torch.tensor(parent), torch.tensor(word)


def beam_in_place_of_a_copy(scores, log_probs, finished, k, end):
    log_probs = log_probs.clone()
    log_probs[finished] = -1e9
    log_probs[finished, end] = 0
    best, flat = (scores[:, None] + log_probs).reshape(-1).sort(descending=True)
    rows, words = torch.unravel_index(flat[:k], log_probs.shape)
    return best[:k], rows, words


@pytest.mark.parametrize("answer", [beam_by_lists, beam_in_place_of_a_copy])
def test_right_beams(answer):
    assert_right(check.beam_step, answer)


@pytest.mark.parametrize(
    ("changed", "words"), [({"grow": True}, "went on growing"), ({"drop": True}, "was thrown out")]
)
def test_finished_texts_mistreated(changed, words):
    assert_wrong(check.beam_step, lambda *args: beam_by_lists(*args, **changed), words)


def test_other_bugs_of_beams():
    def in_probabilities(scores, log_probs, finished, k, end):
        best, parent, word = beam_by_lists(scores, log_probs, finished, k, end)
        return best.exp(), parent, word

    def swapped(*args):
        best, parent, word = beam_by_lists(*args)
        return best, word, parent

    def multiplied(scores, log_probs, finished, k, end):
        best, flat = (scores[:, None] * log_probs).flatten().topk(k)
        return best, flat // log_probs.shape[1], flat % log_probs.shape[1]

    assert_wrong(check.beam_step, in_probabilities, "Stay in logs")
    assert_wrong(check.beam_step, swapped, "changed places")
    assert_wrong(check.beam_step, multiplied, "were multiplied")
    assert_wrong(check.beam_step, lambda s, *rest: beam_by_lists(0 * s, *rest), "scores so far")


def test_a_place_for_each_parent():
    def answer(scores, log_probs, finished, k, end):
        if len(scores) == 1:
            return beam_by_lists(scores, log_probs, finished, k, end)
        each = [beam_by_lists(scores[i : i + 1], log_probs[i : i + 1], finished[i : i + 1], 1, end) for i in (0, 1)]
        rows = sorted([(float(e[0]), i, int(e[2])) for i, e in enumerate(each)], reverse=True)
        best, parent, word = zip(*rows, strict=True)
        return torch.tensor(best), torch.tensor(parent), torch.tensor(word)

    assert_wrong(check.beam_step, answer, "a text that deserves both places")


# 7.4


def test_predictions():
    assert check.crossing.examine(None).status == "missing"
    assert check.crossing.examine(0.6).status == "right"
    alpha = check.crossing.expected
    assert math.isclose(math.log(0.4 * 0.75) / 2**alpha, math.log(0.5 * 0.34 * 0.95) / 4**alpha)
    for wrong, words in ((1.51, "ratio"), (0.378, "full stop"), (0.80, "aab."), (-0.893, "sums of logs")):
        assert_wrong(check.crossing, wrong, words)


# 7.5


def pointer_by_loops(x, h, W, U, v, mask, squash=torch.tanh):
    p = torch.zeros(mask.shape)
    for b in range(len(x)):
        free = mask[b].nonzero()[:, 0]
        p[b, free] = torch.stack([v @ squash(W @ x[b, n] + U @ h[b]) for n in free]).softmax(0)
    return p


def pointer_by_exponentials(x, h, W, U, v, mask):
    e = torch.einsum("bna,a->bn", torch.tanh(x @ W.T + (h @ U.T).unsqueeze(1)), v).exp() * mask
    return e / e.sum(-1, keepdim=True)


@pytest.mark.parametrize("answer", [pointer_by_loops, pointer_by_exponentials])
def test_right_pointers(answer):
    assert_right(check.pointer_weights, answer)


def test_bugs_of_pointers():
    def free(x, h, W, U, v, mask):
        return pointer_by_loops(x, h, W, U, v, mask | True)

    assert_wrong(check.pointer_weights, lambda *args: free(*args) * args[-1], "masked after the softmax")
    assert_wrong(check.pointer_weights, free, "plays no part yet")

    def forbids_what_is_free(x, h, W, U, v, mask):
        scores = torch.tanh(x @ W.T + (h @ U.T)[:, None]) @ v
        return scores.masked_fill(mask, -torch.inf).softmax(-1)

    assert_wrong(check.pointer_weights, forbids_what_is_free, "the wrong way round")
    assert_wrong(check.pointer_weights, lambda *args: pointer_by_loops(*args, squash=lambda z: z), "there is no tanh")
    assert_wrong(check.pointer_weights, lambda x, h, W, U, v, m: pointer_by_loops(x, h, U, W, v, m), "changed places")
    assert_wrong(check.pointer_weights, lambda *args: pointer_by_loops(*args).log(), "four items, all free")
