"""Chapter 07: right and wrong answers in other styles than the references and the traps."""

import math
from functools import partial

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from possm_lite.blocks.attention import masked_softmax
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


def loss_of_squeezed(logits, targets, pad=0):
    picked = logits.log_softmax(-1).gather(-1, targets[..., None]).squeeze()
    return -picked[targets != pad].mean()


def beam_of_products(scores, log_probs, finished, k, end):
    """Multiplies probabilities, and takes the log at the end."""
    p = log_probs.exp() * ~finished[:, None]
    p[finished, end] = 1
    best, i = (scores.exp()[:, None] * p).flatten().topk(k)
    return best.log(), i // p.shape[1], i % p.shape[1]


def beam_of_one_end(scores, log_probs, finished, k, end):
    """Only the first finished text stays as it is."""
    first = finished & (finished.cumsum(0) == 1)
    return beam_by_lists(scores, log_probs, first, k, end)


def pointer_of_squeezed(x, h, W, U, v, mask):
    scores = (torch.tanh(x @ W.T + (h @ U.T)[:, None]) @ v[:, None]).squeeze()
    return masked_softmax(scores, mask)


def order_of_products(log_p, order, lengths):
    p = log_p.gather(-1, order[..., None])[..., 0].exp()
    real = torch.arange(p.shape[1]) < lengths[:, None]
    return (p * real + ~real).prod(1).log()


def detached_context(s, y, H, mask, score, cell):
    alpha = score(s, H).masked_fill(~mask, -math.inf).softmax(-1)
    return cell(torch.cat([y, (alpha[:, None] @ H)[:, 0].detach()], -1), s), alpha


def with_weights(attend):
    def step(s, y, H, mask, score, cell):
        alpha = attend(score(s, H), mask)
        return cell(torch.cat([y, torch.einsum("bn,bnh->bh", alpha, H)], 1), s), alpha

    return step


def order_by_loops(log_p, order, lengths, reduce=sum):
    rows = [[log_p[b, m, order[b, m]] for m in range(n)] for b, n in enumerate(lengths)]
    return torch.stack([torch.as_tensor(reduce(row)) for row in rows])


class ByHand(nn.Module):
    """A right answer of 7.7 without packing: each row alone, and attention by a loop."""

    def __init__(self, n_source, n_target, dim, hidden):
        super().__init__()
        self.read, self.write = nn.Embedding(n_source, dim), nn.Embedding(n_target, dim)
        self.encoder = nn.GRU(dim, hidden, batch_first=True, bidirectional=True)
        self.W_q, self.W_k = nn.Linear(hidden, hidden, bias=False), nn.Linear(2 * hidden, hidden, bias=False)
        self.w_v, self.decoder = nn.Linear(hidden, 1, bias=False), nn.GRUCell(dim + 2 * hidden, hidden)
        self.readout = nn.Linear(hidden, n_target)

    def encode(self, source):
        H, s = [], []
        for row in source:
            states, last = self.encoder(self.read(row[row > 0])[None])
            H.append(F.pad(states[0], (0, 0, 0, int((row == 0).sum())), value=5.0))
            s.append(last[0, 0])
        return torch.stack(H), torch.stack(s)

    def look(self, s, H, mask):
        e = self.w_v(torch.tanh(self.W_q(s)[:, None] + self.W_k(H)))[..., 0].exp() * mask
        alpha = e / e.sum(-1, keepdim=True)
        return torch.einsum("bn,bnh->bh", alpha, H), alpha

    def step(self, tokens, s, H, mask):
        s = self.decoder(torch.cat([self.write(tokens), self.look(s, H, mask)[0]], 1), s)
        return self.readout(s), s

    def forward(self, source, target):
        H, s = self.encode(source)
        tokens, logits = torch.ones_like(target[:, 0]), []
        for t in range(target.shape[1]):
            out, s = self.step(tokens, s, H, source > 0)
            tokens = target[:, t]
            logits.append(out)
        return torch.stack(logits, 1)

    def generate(self, source, max_len):
        H, s = self.encode(source)
        tokens, text = torch.ones_like(source[:, 0]), torch.zeros(len(source), max_len, dtype=torch.long)
        alive = torch.ones(len(source), dtype=torch.bool)
        for t in range(max_len):
            logits, s = self.step(tokens, s, H, source > 0)
            tokens = logits.argmax(-1)
            text[alive, t] = tokens[alive]
            alive &= tokens != 2
        return text


class PadsWrittenWords(ByHand):
    def __init__(self, n_source, n_target, dim, hidden):
        super().__init__(n_source, n_target, dim, hidden)
        self.write = nn.Embedding(n_target, dim, padding_idx=0)


class OnlyParts(ByHand):
    def encode(self, source): ...


class NoLook(ByHand):
    look = None


class Squeezes(ByHand):
    def look(self, s, H, mask):
        c, alpha = super().look(s, H, mask)
        return c.squeeze(), alpha.squeeze()


class CutsStates(ByHand):
    def encode(self, source):
        H, s = super().encode(source)
        return H[:, : (source > 0).sum(1).max()], s


class StopsEarly(ByHand):
    def generate(self, source, max_len):
        text = super().generate(source, max_len)
        return text[:, : text.any(0).sum()]


class LooksLate(ByHand):
    def step(self, tokens, s, H, mask):
        y, c = self.write(tokens), self.look(s, H, mask)[0]
        c = self.look(self.decoder(torch.cat([y, 0 * c], 1), s), H, mask)[0]
        s = self.decoder(torch.cat([y, c], 1), s)
        return self.readout(s), s


class Detached(ByHand):
    def look(self, s, H, mask):
        c, alpha = super().look(s, H, mask)
        return c.detach(), alpha


class NoScore(ByHand):
    def __init__(self, *sizes):
        super().__init__(*sizes)
        del self.w_v


class Biased(ByHand):
    def __init__(self, n_source, n_target, dim, hidden):
        super().__init__(n_source, n_target, dim, hidden)
        self.W_q = nn.Linear(hidden, hidden)


class WritesOn(ByHand):
    def generate(self, source, max_len):
        H, s = self.encode(source)
        tokens, text = torch.ones_like(source[:, 0]), []
        for _ in range(max_len):
            logits, s = self.step(tokens, s, H, source > 0)
            tokens = logits.argmax(-1)
            text.append(tokens)
        return torch.stack(text, 1)


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
        (
            "bahdanau_step",
            lambda *args: tuple(x.detach().numpy() for x in step_with_einsum(*args)),
            "state: no gradient flows back from the new state",
        ),
        ("token_loss", loss_of_squeezed, "on a single sentence"),
        ("beam_step", beam_of_products, "probabilities are 0 in float32"),
        ("beam_step", beam_of_one_end, "on two finished texts"),
        ("beam_step", beam_by_lists, "✓"),
        ("beam_step", partial(beam_by_lists, grow=True), "went on growing"),
        ("beam_step", partial(beam_by_lists, drop=True), "on a finished text"),
        ("beam_step", lambda *args: (lambda best, *rest: (best.exp(), *rest))(*beam_by_lists(*args)), "Stay in logs"),
        ("beam_step", lambda *args: tuple(beam_by_lists(*args)[i] for i in (0, 2, 1)), "row and word are swapped"),
        ("beam_step", lambda *args: beam_by_lists(*args[:3], 2, args[4]), "of which three grow"),
        ("beam_step", lambda *args: [x.tolist() for x in beam_by_lists(*args)], "✓"),
        ("crossing", 0.6, "✓"),
        ("crossing", 0.80, "aab."),
        ("crossing", 0.9, "0.9"),
        ("pointer_weights", pointer_of_squeezed, "the shape is (2, 2), expected (2, 1)"),
        ("pointer_weights", pointer_by_loops, "✓"),
        ("pointer_weights", lambda x, h, *a: pointer_log_probs(x, h[:, None], *a[:3], a[3][:, None])[:, 0].exp(), "✓"),
        ("pointer_weights", partial(pointer_by_loops, squash=lambda z: z), "there is no tanh"),
        ("pointer_weights", lambda *args: pointer_by_loops(*args[:5], args[5] | True) * args[5], "after the softmax"),
        ("pointer_weights", lambda *args: pointer_by_loops(*args).log(), "give the probabilities"),
        (
            "pointer_weights",
            lambda x, h, W, U, v, m: (
                ((x @ W.T).tanh() + (h @ U.T).tanh()[:, None]) @ v + torch.where(m, 0, -math.inf)
            ).softmax(-1),
            "the state makes no difference",
        ),
        ("pointer_weights", lambda x, h, *a: pointer_by_loops(x, 0 * h, *a), "the state makes no difference"),
        ("token_loss", lambda *args: -loss_by_loop(*args), "a minus in front"),
        ("token_loss", partial(loss_by_loop, n=lambda targets: 1), "sum over the real words"),
        ("token_loss", lambda x, y, pad=0: loss_by_loop(x[:, :-1], y[:, :-1], pad), "the last slot of the batch"),
        ("token_loss", lambda *args: loss_by_loop(*args).item(), "no gradient flows back"),
        ("bahdanau_step", detached_context, "no gradient passes through the context"),
        ("bahdanau_step", with_weights(lambda e, m: e.masked_fill(~m, -math.inf).softmax(-1).detach()), "the weights:"),
        ("bahdanau_step", with_weights(lambda e, m: torch.where(m, e, 0.0).softmax(-1)), "exp(0) = 1"),
        ("bahdanau_step", with_weights(lambda e, m: e.masked_fill(m, -math.inf).softmax(-1)), "wrong way round"),
        ("bahdanau_step", with_weights(lambda e, m: (e / 3**0.5 - 1e9 * ~m).softmax(-1)), "divided by a root"),
        ("order_log_prob", order_of_products, "padding that holds NaN"),
        ("order_log_prob", order_by_loops, "✓"),
        ("order_log_prob", partial(order_by_loops, reduce=lambda row: sum(row) / len(row)), "mean over the steps"),
        (
            "order_log_prob",
            partial(order_by_loops, reduce=lambda row: sum(row).exp()),
            "this is the probability",
        ),
        ("order_log_prob", partial(order_by_loops, reduce=math.prod), "were multiplied"),
        ("order_log_prob", lambda p, o, n: p.gather(-1, o[..., None]).sum((1, 2)), "steps after the end"),
        ("order_log_prob", lambda p, o, n: order_by_loops(p, p.argmax(-1), n), "likeliest item"),
        ("order_log_prob", lambda *args: order_by_loops(*args).sum(), "one number for all rows"),
        ("order_log_prob", lambda *args: order_by_loops(*args).tolist(), "✓"),
        (
            "order_log_prob",
            lambda p, o, n: order_by_loops(p, o, n - 1, lambda row: sum(row, 0 * p[0, 0, 0])),
            "last step",
        ),
        ("order_log_prob", lambda p, o, n: order_by_loops(p.nan_to_num(neginf=0.0), o, n), "an order that cannot be"),
        (
            "order_log_prob",
            lambda p, o, n: p.gather(-1, o[..., None])[..., 0].nan_to_num(neginf=0.0).sum(1),
            "minus infinity was made 0",
        ),
        ("Translator", ByHand, "✓"),
        ("Translator", PadsWrittenWords, "✓"),
        ("Translator", OnlyParts, "`encode` is not there yet"),
        ("Translator", NoLook, "`look`"),
        ("Translator", LooksLate, "the new state asks"),
        ("Translator", Squeezes, "on `look`, of a single row"),
        ("Translator", CutsStates, "`encode`: H has the shape (2, 4, 12), expected (2, 6, 12)"),
        ("Translator", StopsEarly, "the shape is (3, 6), expected (3, 9)"),
        ("Translator", Detached, "no gradient reaches"),
        ("Translator", NoScore, "the part `w_v` is missing"),
        ("Translator", Biased, "`W_q.bias` is not in the table"),
        ("Translator", WritesOn, "goes on after the end"),
        ("Translator", lambda *sizes: nn.Linear(3, 3), "the part `read` is missing"),
    ],
)
def test_answer_in_another_style(name, answer, words):
    assert_verdict(getattr(exercises, name), answer, words)
