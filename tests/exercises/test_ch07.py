"""Chapter 07: right answers in other styles."""

import torch
from torch import nn
from torch.nn import functional as F

from possm_course.chapters.ch07.seq2seq import BEGIN, END, masked_cross_entropy

from .helpers import answers, load

exercises = load("ch07")


def step_row_by_row(s, y, H, mask, score, cell):
    states, weights = [], []
    for b, n in enumerate(mask.sum(-1)):
        alpha = score(s[b, None], H[b, None, :n])[0].softmax(0)
        states.append(cell(torch.cat([y[b], alpha @ H[b, :n]])[None], s[b, None])[0])
        weights.append(F.pad(alpha, (0, H.shape[1] - n)))
    return torch.stack(states), torch.stack(weights)


def beam_by_lists(scores, log_probs, finished, k, end):
    table = []
    for row, score in enumerate(scores.tolist()):
        words = enumerate(log_probs[row].tolist())
        table += [(score, row, end)] if finished[row] else [(score + p, row, word) for word, p in words]
    return [list(x) for x in zip(*sorted(table, reverse=True)[:k], strict=True)]


def errors_by_recursion(said, right):
    if not said or not right:
        return max(len(said), len(right))
    moves = errors_by_recursion(said[1:], right), errors_by_recursion(said, right[1:])
    return min(1 + min(moves), errors_by_recursion(said[1:], right[1:]) + int(said[0] != right[0]))


def look_up_by_index(rows, E):
    return E[torch.nn.utils.rnn.pad_sequence([torch.tensor(row) for row in rows], batch_first=True)]


def luong_row_by_row(s, y, H, mask, score, cell, W_c):
    new = cell(y, s)
    alphas = [
        F.pad(score(new[b, None], H[b, None, :n])[0].softmax(0), (0, H.shape[1] - n)) for b, n in enumerate(mask.sum(1))
    ]
    return new, torch.stack([torch.tanh(W_c @ torch.cat([a @ h, s])) for a, h, s in zip(alphas, H, new, strict=True)])


def order_by_loops(scores, order, lengths):
    """Items one after the other: the softmax over what is left."""
    totals = []
    for b, n in enumerate(lengths.tolist()):
        left, total = list(range(n)), 0.0
        for m, chosen in enumerate(order[b, :n].tolist()):
            total += scores[b, m, chosen] - scores[b, m, left].logsumexp(0)
            left.remove(chosen)
        totals.append(total)
    return totals


class LastSlot(exercises.Translator.reference):
    """s_0 is what stands in the last slot, with padding or without."""

    def encode(self, source):
        H, _ = super().encode(source)
        return H, H[:, -1, : H.shape[-1] // 2]


class ByHand(exercises.Translator.reference):
    """Attention by a sum of exponentials; the texts are filled in place."""

    def look(self, s, H, mask):
        e = self.w_v(torch.tanh(self.W_q(s)[:, None] + self.W_k(H)))[..., 0].exp() * mask
        alpha = e / e.sum(-1, keepdim=True)
        return torch.einsum("bn,bnh->bh", alpha, H), alpha

    def generate(self, source, max_len):
        H, s = self.encode(source)
        tokens = torch.full_like(source[:, 0], BEGIN)
        text = torch.zeros(len(source), max_len, dtype=torch.long)
        alive = torch.ones(len(source), dtype=torch.bool)
        for t in range(max_len):
            logits, s = self.step(tokens, s, H, source > 0)
            tokens = logits.argmax(-1)
            text[alive, t] = tokens[alive]
            alive &= tokens != END
        return text


test_answers = answers(
    exercises,
    ("token_loss", lambda x, y, pad=0: F.cross_entropy(x.flatten(0, 1), y.flatten(), ignore_index=pad)),
    ("token_loss", masked_cross_entropy),
    ("bahdanau_step", step_row_by_row),
    ("beam_step", beam_by_lists),
    ("word_errors", errors_by_recursion),
    ("word_errors", lambda said, right: abs(len(said) - len(right)), "only the lengths"),
    ("Translator", ByHand),
    ("Translator", lambda *sizes: nn.Module(), "not attempted yet"),
    ("Translator", LastSlot, "`H[:, -1]` is the last slot"),
    ("look_up", look_up_by_index),
    ("look_up", lambda rows, E: E[torch.zeros((len(rows), 3))], "tensors used as indices must be long"),
    ("luong_step", luong_row_by_row),
    ("crossing", 0.6),
    ("crossing", 1.67, "one over it"),
    ("crossing", 0.5, "the ratio of the lengths"),
    ("crossing", 1, "already ahead"),
    ("order_log_prob", order_by_loops),
)
