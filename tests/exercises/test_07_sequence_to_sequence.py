"""Chapter 07: right answers in other styles."""

import torch
from torch import nn
from torch.nn import functional as F

from possm_lite.course.pointer import pointer_log_probs
from possm_lite.course.seq2seq import BEGIN, END, masked_cross_entropy

from .helpers import answers, load

exercises = load("07_sequence_to_sequence")


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


def order_by_loops(log_p, order, lengths):
    return [sum(log_p[b, m, order[b, m]] for m in range(n)) for b, n in enumerate(lengths)]


class ByHand(exercises.Translator.reference):
    """Without packing: each row alone. Attention by a sum of exponentials; the texts are filled in place."""

    def __init__(self, n_source, n_target, dim, hidden):
        super().__init__(n_source, n_target, dim, hidden)
        self.write = nn.Embedding(n_target, dim, padding_idx=0)

    def encode(self, source):
        rows = [self.encoder(self.read(row[row > 0])[None]) for row in source]
        H = [F.pad(states[0], (0, 0, 0, source.shape[1] - states.shape[1]), value=5.0) for states, _ in rows]
        return torch.stack(H), torch.stack([last[0, 0] for _, last in rows])

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
    [
        ("token_loss", lambda x, y, pad=0: F.cross_entropy(x.flatten(0, 1), y.flatten(), ignore_index=pad)),
        ("token_loss", masked_cross_entropy),
        ("bahdanau_step", step_row_by_row),
        ("beam_step", beam_by_lists),
        ("crossing", 0.6),
        ("pointer_weights", lambda x, h, *a: pointer_log_probs(x, h[:, None], *a[:3], a[3][:, None])[:, 0].exp()),
        ("order_log_prob", order_by_loops),
        ("Translator", ByHand),
        ("Translator", lambda *sizes: nn.Module(), "not attempted yet"),
    ],
)
