"""Chapter 07: right and wrong answers in other styles than the references and the traps."""

from functools import partial

import pytest
import torch
from torch.nn import functional as F

from possm_lite.blocks.pointer import pointer_log_probs
from possm_lite.blocks.seq2seq import masked_cross_entropy

from .helpers import assert_verdict, load

exercises = load("07_sequence_to_sequence")


def loss_by_loop(logits, targets, pad=0, n=None, real=True):
    losses = [
        logits[b, t].logsumexp(0) - logits[b, t, y]
        for b, row in enumerate(targets.tolist())
        for t, y in enumerate(row)
        if y != pad or not real
    ]
    return sum(losses) / (len(losses) if n is None else n(targets))


def step_with_einsum(s, y, H, mask, score, cell):
    e = torch.where(mask, score(s, H), -torch.inf)
    alpha = e.exp() / e.exp().sum(-1, keepdim=True)
    return cell(torch.cat([y, torch.einsum("bn,bnh->bh", alpha, H)], 1), s), alpha


def step_row_by_row(s, y, H, mask, score, cell):
    states, weights = [], []
    for b, n in enumerate(mask.sum(-1)):
        alpha = score(s[b, None], H[b, None, :n])[0].softmax(0)
        states.append(cell(torch.cat([y[b], alpha @ H[b, :n]])[None], s[b, None])[0])
        weights.append(F.pad(alpha, (0, H.shape[1] - n)))
    return torch.stack(states), torch.stack(weights)


def new_state_asks(s, y, H, mask, score, cell, step=lambda s, y, H, mask, score, cell: cell(F.pad(y, (0, 3)), s)):
    new = step(s, y, H, mask, score, cell)
    return new, score(new, H).masked_fill(~mask, -torch.inf).softmax(-1)


def beam_by_lists(scores, log_probs, finished, k, end, grow=False, drop=False):
    table = []
    for row, score in enumerate(scores.tolist()):
        if finished[row] and not grow:
            table += [] if drop else [(score, row, end)]
        else:
            table += [(score + p, row, word) for word, p in enumerate(log_probs[row].tolist())]
    return tuple(torch.tensor(x) for x in zip(*sorted(table, reverse=True)[:k], strict=True))


def pointer_by_loops(x, h, W, U, v, mask, squash=torch.tanh):
    p = torch.zeros(mask.shape)
    for b in range(len(x)):
        free = mask[b].nonzero()[:, 0]
        p[b, free] = torch.stack([v @ squash(W @ x[b, n] + U @ h[b]) for n in free]).softmax(0)
    return p


@pytest.mark.parametrize(
    ("name", "answer", "words"),
    [
        ("token_loss", lambda x, y, pad=0: F.cross_entropy(x.flatten(0, 1), y.flatten(), ignore_index=pad), "✓"),
        ("token_loss", loss_by_loop, "✓"),
        ("token_loss", masked_cross_entropy, "✓"),
        ("token_loss", partial(loss_by_loop, real=False), "paid for saying <pad>"),
        ("token_loss", partial(loss_by_loop, n=len), "number of sentences"),
        ("token_loss", lambda x, y, pad=0: loss_by_loop(x.softmax(-1), y, pad), "taken twice"),
        ("token_loss", lambda x, y, pad=0: loss_by_loop(x, y), "a pad that is not 0"),
        ("bahdanau_step", step_with_einsum, "✓"),
        ("bahdanau_step", step_row_by_row, "✓"),
        ("bahdanau_step", new_state_asks, "Ask with the previous state"),
        ("bahdanau_step", partial(new_state_asks, step=lambda *a: step_with_einsum(*a)[0]), "come from the new state"),
        ("bahdanau_step", lambda s, y, H, m, *f: step_with_einsum(s, y, H, m | True, *f), "padding is looked at"),
        ("bahdanau_step", lambda *args: step_with_einsum(*args[:5], lambda x, s: args[5](x.roll(3, -1), s)), "round"),
        ("bahdanau_step", lambda *args: step_with_einsum(*args)[0], "expected two results"),
        ("beam_step", beam_by_lists, "✓"),
        ("beam_step", partial(beam_by_lists, grow=True), "went on growing"),
        ("beam_step", partial(beam_by_lists, drop=True), "on a finished text"),
        ("beam_step", lambda *args: (lambda best, *rest: (best.exp(), *rest))(*beam_by_lists(*args)), "Stay in logs"),
        ("beam_step", lambda *args: tuple(beam_by_lists(*args)[i] for i in (0, 2, 1)), "row and word are swapped"),
        ("crossing", 0.6, "✓"),
        ("crossing", 0.80, "aab."),
        ("crossing", 0.9, "0.9"),
        ("pointer_weights", pointer_by_loops, "✓"),
        ("pointer_weights", lambda x, h, *a: pointer_log_probs(x, h[:, None], *a[:3], a[3][:, None])[:, 0].exp(), "✓"),
        ("pointer_weights", partial(pointer_by_loops, squash=lambda z: z), "there is no tanh"),
        ("pointer_weights", lambda *args: pointer_by_loops(*args[:5], args[5] | True) * args[5], "after the softmax"),
        ("pointer_weights", lambda *args: pointer_by_loops(*args).log(), "four items, all free"),
    ],
)
def test_answer_in_another_style(name, answer, words):
    assert_verdict(getattr(exercises, name), answer, words)
