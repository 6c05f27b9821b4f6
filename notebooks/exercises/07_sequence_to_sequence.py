"""Exercises of chapter 07: a loss without padding, attention before the step, a beam, a pointer, a whole translator."""

import math
from functools import cache, partial

import torch
from torch import nn

from possm_lite.course.checks import MISSING, Case, Complaint, ValueCheck, exercise, gradient, normal
from possm_lite.course.seq2seq import BEGIN, END, PAD, shift_right
from possm_lite.nn.attention import masked_softmax

_normal = partial(normal, seed=7)


def _sentences(*rows, scale=1.0):
    targets = torch.tensor(rows)
    return scale * _normal(*targets.shape, 5), targets


# Exercise 7.1: a loss without padding
@exercise(
    cases={
        "two sentences without padding": partial(_sentences, [3, 4, 2], [4, 4, 2]),
        "a sentence with two padded slots": partial(_sentences, [3, 4, 3, 4, 2], [4, 3, 2, 0, 0]),
        "a single sentence": partial(_sentences, [3, 4, 2]),
        "logits in the hundreds": partial(_sentences, [3, 4, 2], [3, 2, 0], scale=300.0),
        "the gradient": Case(partial(_sentences, [3, 4, 3, 4, 2], [4, 3, 2, 0, 0]), gradient(0)),
        "a pad that is not 0": lambda: (*_sentences([3, 4, 2], [0, 2, 4]), 4),
    },
    mistakes={
        "[targets != pad] → ": "padding is counted: leave these slots out of the sum and of the count.",
        "right[targets != pad] → (right * (targets != pad))": (
            "padding is out of the sum but still in the count: divide by the number of real words."
        ),
        "right[targets != pad] → ((right * (targets != pad)).sum(1) / (targets != pad).sum(1))": (
            "you took a mean for each sentence, then the mean of these. (7.3) has one sum and one count."
        ),
    },
)
def token_loss(logits, targets, pad=0):
    """Formula (7.3): logits (B, T, V), targets (B, T) to a scalar."""
    log_p = torch.log_softmax(logits, -1)  # (B, T, V)
    right = log_p.gather(-1, targets[..., None])[..., 0]  # (B, T): log p of the right token
    return -right[targets != pad].mean()


def _decoder(*lengths, n=4, size=3):
    """States, words and encoder states all of one size, so that no mistake shows in a shape."""
    B = len(lengths)
    W_q, W_k, w_v = 2 * _normal(size, size), 2 * _normal(size, size, seed=8), 2 * _normal(size, seed=9)
    W_x, W_h = _normal(size, 2 * size, seed=10), _normal(size, size, seed=11)
    s, y, H = _normal(B, size, seed=1), _normal(B, size, seed=2), _normal(B, n, size, seed=3)
    mask = torch.arange(n) < torch.tensor(lengths)[:, None]
    score = lambda s, H: torch.tanh((s @ W_q.T)[:, None] + H @ W_k.T) @ w_v  # noqa: E731
    cell = lambda x, s: torch.tanh(x @ W_x.T + s @ W_h.T)  # noqa: E731
    return s, y, H, mask, score, cell


# Exercise 7.2: attend with the previous state, then step. The score and the cell are functions, as in the chapter
@exercise(
    cases={
        "one sentence without padding": partial(_decoder, 4),
        "two sentences, one of them padded": partial(_decoder, 4, 2),
        "a sentence of one word": partial(_decoder, 1, 3),
        "the gradients of the new state": Case(
            partial(_decoder, 4, 2), lambda step, *args: gradient(0, 1, 2)(lambda *a: step(*a)[0], *args)
        ),
    },
    mistakes={
        (
            "scores = score(s, H) → new = cell(torch.cat([y, 0 * y], -1), s)\n    scores = score(new, H)",
            "cell(torch.cat([y, c], -1), s), alpha → new, alpha",
        ): ("the new state asks. Ask with the previous one, and step afterwards."),
        ".masked_fill(~mask, -torch.inf) → ": "padding is looked at. Give the mask to the softmax.",
        "[y, c] → [c, y]": "the cell reads [y; c], the word first and then the context. Yours are the other way round.",
    },
)
def bahdanau_step(s, y, H, mask, score, cell):
    """(7.4) and (7.5): the new state (B, h) and the weights alpha (B, N) that it was made with."""
    scores = score(s, H).masked_fill(~mask, -torch.inf)  # (B, N): the previous state asks
    alpha = torch.softmax(scores, -1)  # (B, N)
    c = (alpha[:, None] @ H)[:, 0]  # (B, e)
    return cell(torch.cat([y, c], -1), s), alpha


def _texts(so_far, rows, finished, k=2, end=0, before=0.0):
    """Arguments from probabilities: of each text so far, and of each next word; `before` is added to the scores."""
    return torch.tensor(so_far).log() + before, torch.tensor(rows).log(), torch.tensor(finished).bool(), k, end


_OPEN = [[0.1, 0.5, 0.4], [0.05, 0.15, 0.8]]
_TEN_WORDS = [[0.01] * 9 + [0.91], [0.005] * 9 + [0.955]]


# Exercise 7.3: one step of beam search
@exercise(
    cases={
        "one text": partial(_texts, [1.0], [[0.2, 0.5, 0.3]], [0]),
        "two texts, none of them finished": partial(_texts, [0.4, 0.3], _OPEN, [0, 0]),
        "a text that deserves both places": partial(_texts, [0.9, 0.1], _OPEN, [0, 0]),
        "a finished text": partial(_texts, [0.5, 0.3], _OPEN, [1, 0]),
        "two finished texts": partial(_texts, [0.4, 0.3], _OPEN, [1, 1]),
        "long texts, whose probabilities are 0 in float32": partial(_texts, [0.4, 0.3], _OPEN, [0, 0], before=-138.0),
        "a finished text that is no longer good enough": partial(_texts, [0.1, 0.9], _OPEN, [1, 0]),
        "another end and more words": partial(_texts, [0.3, 0.6], _TEN_WORDS, [0, 1], end=5),
        "two texts, of which three grow": partial(_texts, [0.4, 0.3], _OPEN, [0, 0], k=3),
        "two texts, of which one is kept": partial(_texts, [0.4, 0.3], _OPEN, [0, 0], k=1),
    },
    mistakes={
        "torch.where(finished[:, None], only_end, log_probs) → log_probs": (
            "a finished text went on growing, and its score fell. Let it continue with `end` alone, at no cost."
        ),
        "-math.inf → 0.0": "a finished text fills the beam with copies of itself, one for every word at no cost.",
        "place // n_words, place % n_words → place % n_words, place // n_words": (
            "row and word are swapped: of index i in a flat table of width V the row is i // V and the column i % V."
        ),
    },
)
def beam_step(scores, log_probs, finished, k, end):
    """The k best of all texts that grew by a word, or had ended: scores, rows and words, (k,) each."""
    n_words = log_probs.shape[1]
    only_end = torch.full((n_words,), -math.inf)
    only_end[end] = 0.0  # a finished text goes on with `end`, which costs nothing, and with nothing else
    log_probs = torch.where(finished[:, None], only_end, log_probs)  # (K, V)
    best, place = (scores[:, None] + log_probs).flatten().topk(k)  # (k,) of K * V candidates
    return best, place // n_words, place % n_words


# Exercise 7.4: where the long text overtakes the short one. ln 0.30 / 2^a = ln 0.1615 / 4^a
_RATIO = math.log(0.50 * 0.34 * 0.95) / math.log(0.40 * 0.75)

crossing = ValueCheck(
    "crossing",
    expected=math.log2(_RATIO),
    tolerance=0.02,
    mistakes={
        _RATIO: "that is the ratio of the two sums of logs. It equals (4/2)^alpha: one more step.",
        math.log(_RATIO, 3): "that is what comes out without the full stop. It counts here: 2 tokens against 4.",
        math.log2(0.1615 / 0.30): "that is what comes out if probabilities are divided. (7.7) divides sums of logs.",
    },
)


def _items(*rows):
    mask = torch.tensor(rows).bool()
    W, U, v = _normal(5, 3, seed=1), _normal(5, 3, seed=2), 2 * _normal(5, seed=3)
    return _normal(*mask.shape, 3), _normal(len(rows), 3, seed=4), W, U, v, mask


# Exercise 7.5: point
@exercise(
    cases={
        "four items, all free": partial(_items, [1, 1, 1, 1]),
        "an item that was chosen before": partial(_items, [1, 0, 1, 1]),
        "two rows, one of them padded": partial(_items, [1, 1, 1, 1], [1, 1, 0, 0]),
        "only one item left": partial(_items, [0, 0, 1, 0]),
        "two rows of one item": partial(_items, [1], [1]),
    },
    mistakes={
        (".masked_fill(~mask, -torch.inf) → ", "torch.softmax(scores, -1) → torch.softmax(scores, -1) * mask"): (
            "the probabilities of a row do not sum to one: it looks as if you masked after the softmax."
        ),
        ".masked_fill(~mask, -torch.inf) → ": "it points at items it may not point at: `mask` plays no part yet.",
        "torch.tanh → ": "there is no tanh. Without it U h adds the same to all items, and a softmax does not see it.",
        "torch.softmax → torch.log_softmax": "these are logs of probabilities: give the probabilities.",
    },
)
def pointer_weights(x, h, W, U, v, mask):
    """(7.8) over the items that may be pointed at: shape (B, N)."""
    hidden = torch.tanh(x @ W.T + (h @ U.T)[:, None])  # (B, N, a): the state is the same for all items
    scores = (hidden @ v).masked_fill(~mask, -torch.inf)  # (B, N)
    return torch.softmax(scores, -1)


def _orders(*rows, repeats=False):
    """Orders of up to four items, padded with 0: log p (B, M, N), orders and lengths. Without `repeats`, log p is -inf
    for an item that was chosen before; with them nothing is masked, at padding neither."""
    lengths, size = torch.tensor([len(row) for row in rows]), max(map(len, rows))
    order = torch.tensor([[*row, *[0] * (size - len(row))] for row in rows])
    may = torch.arange(size) < lengths[:, None, None]  # (B, 1, N)
    chosen = nn.functional.one_hot(order, size).cumsum(1).roll(1, 1).bool()
    chosen[:, 0] = False
    return masked_softmax(_normal(*chosen.shape), (may & ~chosen) | repeats).log(), order, lengths


# Exercise 7.6: the probability of an order
@exercise(
    cases={
        "one row of three items": partial(_orders, [2, 0, 1]),
        "two rows of three items": partial(_orders, [2, 0, 1], [0, 1, 2]),
        "two rows, one of them padded": partial(_orders, [3, 1, 0, 2], [1, 0]),
        "a row of one item, padded": partial(_orders, [0], [1, 2, 0]),
        "rows in which an item may be chosen again": partial(_orders, [2, 0, 2], [1, 1], repeats=True),
        "an order of forty items": Case(partial(_orders, range(40)), tolerance=1e-4),
        "an order that cannot be": partial(_orders, [2, 0, 2]),
    },
    mistakes={
        "torch.where(real, chosen, 0.0) → chosen": "steps after the end of a row count. Two items have two steps.",
        "torch.where(real, chosen, 0.0) → (chosen * real)": (
            "you multiplied by the mask, and 0 times minus infinity is NaN. Replace, with masked_fill or torch.where."
        ),
        ".sum(1) → .sum(1).exp()": "this is the probability. Return its log: the sum of the logs.",
        "0.0).sum(1) → 1.0).prod(1)": "log-probabilities were multiplied. A product of probabilities is a sum of logs.",
    },
)
def order_log_prob(log_p, order, lengths):
    """The log of (7.9): log_p (B, M, N), order (B, M), lengths (B,) to (B,)."""
    chosen = log_p.gather(-1, order[..., None])[..., 0]  # (B, M): the factor of each step
    real = torch.arange(log_p.shape[1]) < lengths[:, None]  # (B, M)
    return torch.where(real, chosen, 0.0).sum(1)


SIZES = {"n_source": 9, "n_target": 8, "dim": 5, "hidden": 6}  # all different, so that mistakes show in a shape


@cache
def _weights():
    """Weights large enough for every part to be seen in the output."""
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        weights = Translator.reference(**SIZES).state_dict()
        return {name: 0.9 * normal(*value.shape, seed=i) for i, (name, value) in enumerate(weights.items())}


def _filled(make):
    """An object of the student's class with the weights copied in."""
    model = make(*SIZES.values())
    if not isinstance(model, nn.Module):
        raise Complaint("the class is not a torch.nn.Module: it begins with `class Translator(nn.Module):`.")
    names = {name for name, _ in model.named_parameters()}
    if not names:
        raise Complaint(MISSING)
    if differing := sorted(names ^ _weights().keys()):
        raise Complaint(f"parameters that are missing, or that should not be there: {', '.join(differing)}.")
    model.load_state_dict(_weights(), strict=False)
    return model


def _stage(name):
    """What a method of the student's object returns, with the weights copied in."""

    def observe(make, *args):
        result = getattr(_filled(make), name, lambda *args: None)(*args)
        if result is None or result is ...:
            raise Complaint(f"`{name}` is not there yet, or returns nothing; the parts before it are right.")
        return result

    return observe


def _encoded(make, source):
    """What `encode` returns, with states at real tokens only: what stands at padding is free."""
    result = _stage("encode")(make, source)
    if not isinstance(result, tuple | list) or len(result) != 2:
        raise Complaint("`encode` returns two tensors: see its docstring.")
    H, s_0 = result
    if H.shape[:2] != source.shape:
        raise Complaint(f"`encode`: H has the shape {tuple(H.shape)}, expected {(*source.shape, 2 * SIZES['hidden'])}.")
    return H[source != PAD], s_0


def _all_gradients(make, source, target):
    model = _filled(make)
    out = model.forward(source, target)
    if out.requires_grad:
        # padding of the target has no loss, so its vector may stay as it is (padding_idx)
        (out * torch.linspace(-1, 2, out.numel()).view_as(out))[target != PAD].sum().backward()
    silent = [name for name, p in model.named_parameters() if p.grad is None or not p.grad.any()]
    if silent:
        raise Complaint(f"the logits are right, but no gradient reaches `{silent[0]}`: was something detached?")
    return torch.stack([p.grad.norm() for _, p in sorted(model.named_parameters())])


def _sources(*rows):
    return nn.utils.rnn.pad_sequence([torch.tensor(row) for row in rows], batch_first=True)


def _pair():
    return _sources([3, 5, 8, 4], [6, 3], [7]), _sources([4, 3, END], [7, 5, 6, 3, END], [END])


def _attended(*lengths):
    mask = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    return normal(len(lengths), 6, seed=1), normal(*mask.shape, 12, seed=2), mask


_ANSWERED = [3, 6, 6], [6, 3], [4, 7, 5], [3]  # by five words, one, six, and without an end
_ROWS = [3, 5, 8, 4], [6, 3], [7], [5, 5, 4, 8, 3, 7], [4, 6, 8], [8, 8, 3]
_UNPACKED = (
    "self.encoder(packed) → self.encoder(self.read(source))",
    "H, _ = nn.utils.rnn.pad_packed_sequence(H, batch_first=True, total_length=source.shape[1]) → pass",
)


# Exercise 7.7: the whole translator
@exercise(
    cases={
        "the parameters": Case(tuple, lambda make: len(list(_filled(make).parameters()))),
        "`encode`, of a row without padding": Case(lambda: (_sources([3, 5, 8, 4]),), _encoded),
        "`encode`, of rows with padding": Case(lambda: (_sources(*_ROWS),), _encoded),
        "`encode`, of rows padded further than the longest": Case(
            lambda: (nn.functional.pad(_sources([3, 5, 8, 4], [6, 3]), (0, 2), value=PAD),), _encoded
        ),
        "`look`, of a single row": Case(partial(_attended, 3), _stage("look")),
        "`look`, of rows of one token": Case(partial(_attended, 1, 1), _stage("look")),
        "`look`, without padding": Case(partial(_attended, 4, 4), _stage("look")),
        "`look`, with padding": Case(partial(_attended, 4, 2, 1), _stage("look")),
        "`step`": Case(lambda: (torch.tensor([3, 7, 1]), *_attended(4, 2, 1)), _stage("step")),
        "`forward`": Case(_pair, _stage("forward")),
        "`generate`": Case(lambda: (_sources(*_ANSWERED), 9), _stage("generate")),
        "`generate`, where all rows end early": Case(lambda: (_sources(*_ANSWERED[:3]), 9), _stage("generate")),
        "the gradients of the parameters": Case(_pair, _all_gradients, 1e-4),
    },
    mistakes={
        _UNPACKED: "`encode`: padding is read, and the last state of both directions has seen it. Pack the rows.",
        ".masked_fill(~mask, -torch.inf) → ": "`look`: padding is looked at. Give the mask to the softmax.",
        "shift_right(target) → target": "`forward`: the decoder reads the very word that it should say.",
        ".masked_fill(done, PAD) → ": "`generate`: it goes on after the end. What follows END is padding.",
    },
)
class Translator(nn.Module):
    """Tokens of a source in, logits of the words of an answer out."""

    def __init__(self, n_source, n_target, dim, hidden):
        super().__init__()
        self.read, self.write = nn.Embedding(n_source, dim), nn.Embedding(n_target, dim)
        self.encoder = nn.GRU(dim, hidden, batch_first=True, bidirectional=True)
        self.W_q = nn.Linear(hidden, hidden, bias=False)
        self.W_k = nn.Linear(2 * hidden, hidden, bias=False)
        self.w_v = nn.Linear(hidden, 1, bias=False)
        self.decoder = nn.GRUCell(dim + 2 * hidden, hidden)
        self.readout = nn.Linear(hidden, n_target)

    def encode(self, source):
        """Tokens (B, N) to the states H (B, N, 2h), whatever at padding, and s_0 (B, h), the last state forwards."""
        n = (source != PAD).sum(1)  # (B,)
        packed = nn.utils.rnn.pack_padded_sequence(self.read(source), n, batch_first=True, enforce_sorted=False)
        H, last = self.encoder(packed)  # last (2, B, h): forwards, then backwards
        H, _ = nn.utils.rnn.pad_packed_sequence(H, batch_first=True, total_length=source.shape[1])
        return H, last[0]

    def look(self, s, H, mask):
        """(7.4): the context (B, 2h) and the weights (B, N), for a state s (B, h) and mask (B, N), True at tokens."""
        scores = self.w_v(torch.tanh(self.W_q(s)[:, None] + self.W_k(H)))[..., 0]  # (B, N)
        alpha = torch.softmax(scores.masked_fill(~mask, -torch.inf), -1)
        return (alpha[:, None] @ H)[:, 0], alpha

    def step(self, tokens, s, H, mask):
        """(7.5): previous tokens (B,) and state s (B, h) to logits (B, V) and the new state (B, h)."""
        c, _ = self.look(s, H, mask)
        s = self.decoder(torch.cat([self.write(tokens), c], -1), s)
        return self.readout(s), s

    def forward(self, source, target):
        """Teacher forcing: tokens (B, N) and (B, T) to logits (B, T, V)."""
        (H, s), mask, steps = self.encode(source), source != PAD, []
        for tokens in shift_right(target).unbind(1):
            logits, s = self.step(tokens, s, H, mask)
            steps.append(logits)
        return torch.stack(steps, 1)

    @torch.no_grad()
    def generate(self, source, max_len):
        """Running free, greedy: the answer (B, max_len), with PAD after END."""
        (H, s), mask, written = self.encode(source), source != PAD, []
        tokens, done = torch.full_like(source[:, 0], BEGIN), torch.zeros(len(source), dtype=torch.bool)
        for _ in range(max_len):
            logits, s = self.step(tokens, s, H, mask)
            tokens = logits.argmax(-1)
            written.append(tokens.masked_fill(done, PAD))
            done = done | (tokens == END)
        return torch.stack(written, 1)
