"""Exercises of chapter 07: a loss without padding, attention in a step, a beam, a translator, wrong words, pointers."""

import math
from functools import cache, partial

import torch
from torch import nn

from possm_course.chapters.ch07.seq2seq import BEGIN, END, PAD, shift_right
from possm_course.checks import MISSING, Case, Complaint, ValueCheck, exercise, gradient, normal

_normal = partial(normal, seed=7)


def _sentences(*rows, scale=1.0):
    """Logits (B, n, 5), and the words of these rows."""
    targets = torch.tensor(rows)
    return scale * _normal(*targets.shape, 5), targets


# Exercise 7.1: a loss without padding
@exercise(
    cases={
        "two sentences without padding": partial(_sentences, [3, 4, 2], [4, 4, 2]),
        "a sentence with two padded slots": partial(_sentences, [3, 4, 3, 4, 2], [4, 3, 2, 0, 0]),
        "logits in the hundreds": partial(_sentences, [3, 4, 2], [3, 2, 0], scale=300.0),
        "the gradient": Case(partial(_sentences, [3, 4, 3, 4, 2], [4, 3, 2, 0, 0]), gradient(0)),
        "a pad that is not 0": lambda: (*_sentences([3, 4, 2], [0, 2, 4]), 4),
    },
    mistakes={
        "torch.log_softmax(logits, -1) → logits": "logits are not logs of probabilities: `log_softmax` over the words.",
        "[targets != pad] → ": "padding is counted: leave these slots out of the sum and of the count.",
        "right[targets != pad] → (right * (targets != pad))": (
            "padding is out of the sum but still in the count: divide by the number of real words."
        ),
        "right[targets != pad] → ((right * (targets != pad)).sum(1) / (targets != pad).sum(1))": (
            "you took a mean for each sentence, then the mean of these. (7.3) has one sum and one count."
        ),
        (
            "-right[targets != pad].mean() → -right[targets != pad].sum()"
        ): "this is the sum. Divide it by the number of words.",
        "-right[targets != pad].mean() → -right[targets != pad].sum() / len(targets)": (
            "divided by the number of sentences. (7.3) divides by the number of words."
        ),
        "right[targets != pad].mean() → (right * (targets != pad)).mean(1).sum()": (
            "means of the sentences are added up: one sum over all, divided by the number of real words."
        ),
        "right[targets != pad].mean() → (right * (targets != pad) / (targets != pad).sum()).mean()": (
            "divided twice: by the number of words, and by a mean over all slots once more."
        ),
        "targets != pad → targets != 0": "0 is written into the function. It should be `pad`.",
        "targets != pad → (targets != pad) & (targets != END)": (
            "the end of a sentence is left out as well. It is a word that should be learned."
        ),
        "torch.log_softmax(logits, -1) → torch.log_softmax(torch.softmax(logits, -1), -1)": (
            "the softmax is taken twice: `cross_entropy` and `log_softmax` want the logits as they are."
        ),
        "torch.log_softmax(logits, -1) → torch.softmax(logits, -1)": (
            "these are probabilities. The loss is of their logarithms."
        ),
        "torch.log_softmax(logits, -1) → torch.log_softmax(logits, 1)": (
            "the softmax runs over the steps. It should run over the words."
        ),
        "torch.log_softmax(logits, -1) → torch.log(torch.softmax(logits, -1) + 1e-9)": (
            "a small number stands in the logarithm: with large logits it takes over. `log_softmax` needs none."
        ),
        "torch.log_softmax(logits, -1) → torch.softmax(logits, -1).log()": (
            "a probability is rounded to 0, and its logarithm is -inf: `log_softmax` does both in one."
        ),
        "return -right → return right": "the sign: a loss is *minus* the log of the probability.",
        "return -right[targets != pad].mean() → return (-right[targets != pad].mean()).exp()": (
            "this is the perplexity, exp of the loss. Return the loss."
        ),
    },
)
def token_loss(logits, targets, pad=0):
    """Formula (7.3): logits (B, T, V), targets (B, T) to a scalar."""
    log_p = torch.log_softmax(logits, -1)  # (B, T, V)
    right = log_p.gather(-1, targets[..., None])[..., 0]  # (B, T): log p of the right token
    return -right[targets != pad].mean()


def _decoder(*lengths, n=4, size=3):
    """State, last word, states of the source of these lengths, their mask, a score and a cell."""
    B = len(lengths)
    W_q, W_k, w_v = 2 * _normal(size, size), 2 * _normal(size, size, seed=8), 2 * _normal(size, seed=9)
    W_x, W_h = _normal(size, 2 * size, seed=10), _normal(size, size, seed=11)
    s, y, H = _normal(B, size, seed=1), _normal(B, size, seed=2), _normal(B, n, size, seed=3)
    mask = torch.arange(n) < torch.tensor(lengths)[:, None]  # (B, n)

    def score(s, H):
        return torch.tanh((s @ W_q.T)[:, None] + H @ W_k.T) @ w_v

    def cell(x, s):
        return torch.tanh(x @ W_x[:, : x.shape[-1]].T + s @ W_h.T)

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
        "alpha = torch.softmax(scores, -1) → alpha = torch.softmax(score(s, H), -1) * mask": (
            "the mask comes after the softmax, so the weights do not sum to one. Mask the scores."
        ),
        "alpha = torch.softmax(scores, -1) → alpha = torch.softmax(scores[..., None], -1)[..., 0].nan_to_num()": (
            "all weights are 1: the softmax runs over an axis of size one. It should run over the words of the source."
        ),
        "alpha = torch.softmax(scores, -1) → alpha = torch.softmax(scores.masked_fill(~mask, -1e9), 0)": (
            "the softmax runs over the sentences of the batch. It should run over the words of the source."
        ),
        "cell(torch.cat([y, c], -1), s) → cell(c, s)": "the cell gets the context alone. It should get the word, too.",
        "cell(torch.cat([y, c], -1), s) → cell(y, s)": "the cell gets the word alone. It should get the context, too.",
        "cell(torch.cat([y, c], -1), s), alpha → alpha, cell(torch.cat([y, c], -1), s)": (
            "the results have changed places: the new state comes first."
        ),
        ".masked_fill(~mask, -torch.inf) → .masked_fill(~mask, 0.0)": (
            "padding has the score 0, which is a score like any other. It should be minus infinity."
        ),
        ".masked_fill(~mask, -torch.inf) → .masked_fill(mask, -1e9)": (
            "the mask is the wrong way round: True means a real word."
        ),
        "(alpha[:, None] @ H)[:, 0] → (alpha[..., None] * H).mean(1)": (
            "the weighted states are averaged: divided by their number once more. They should be added."
        ),
        "(alpha[:, None] @ H)[:, 0] → H[torch.arange(len(H)), alpha.argmax(-1)]": (
            "the state with the largest weight is taken alone. All should be added, each with its weight."
        ),
    },
)
def bahdanau_step(s, y, H, mask, score, cell):
    """(7.4) and (7.5): the new state (B, h) and the weights alpha (B, N) that it was made with."""
    scores = score(s, H).masked_fill(~mask, -torch.inf)  # (B, N): the previous state asks
    alpha = torch.softmax(scores, -1)  # (B, N)
    c = (alpha[:, None] @ H)[:, 0]  # (B, e)
    return cell(torch.cat([y, c], -1), s), alpha


def _texts(so_far, rows, finished, k=2, end=0, before=0.0):
    """log p of the texts so far and of each next word, of these probabilities, and which texts are finished."""
    return torch.tensor(so_far).log() + before, torch.tensor(rows).log(), torch.tensor(finished).bool(), k, end


_OPEN = [[0.1, 0.5, 0.4], [0.05, 0.15, 0.8]]
_TEN_WORDS = [[0.01] * 9 + [0.91], [0.005] * 9 + [0.955]]


# Exercise 7.3: one step of beam search
@exercise(
    cases={
        "one text": partial(_texts, [1.0], [[0.3, 0.5, 0.2]], [0]),
        "two texts, none of them finished": partial(_texts, [0.4, 0.3], _OPEN, [0, 0]),
        "a finished text": partial(_texts, [0.5, 0.3], _OPEN, [1, 0]),
        "long texts, whose probabilities are 0 in float32": partial(_texts, [0.4, 0.3], _OPEN, [0, 0], before=-138.0),
        "a finished text that is no longer good enough": partial(_texts, [0.1, 0.9], _OPEN, [1, 0]),
        "another end and more words": partial(_texts, [0.3, 0.6], _TEN_WORDS, [0, 1], end=5),
    },
    mistakes={
        "torch.where(finished[:, None], only_end, log_probs) → log_probs": (
            "a finished text went on growing, and its score fell. Let it continue with `end` alone, at no cost."
        ),
        "-math.inf → 0.0": "a finished text fills the beam with copies of itself, one for every word at no cost.",
        "place // n_words, place % n_words → place % n_words, place // n_words": (
            "row and word are swapped: of index i in a flat table of width V the row is i // V and the column i % V."
        ),
        (
            "(scores[:, None] + log_probs).flatten().topk(k) → ((scores[:, None] + log_probs) / "
            "2**0.75).flatten().topk(k)"
        ): ("the sums are divided for the length of the text. A step only adds: lengths are weighed at the end."),
        "place // n_words, place % n_words → place / n_words, place % n_words": (
            "rows are fractions: `/` divides, `//` gives whole numbers."
        ),
        "torch.where(finished[:, None], only_end, log_probs) → log_probs.masked_fill(finished[:, None], -math.inf)": (
            "a finished text is taken out of the beam. It should stay, with its score, as long as it is good enough."
        ),
        "(scores[:, None] + log_probs).flatten().topk(k) → "
        "(scores.exp()[:, None] * log_probs.exp()).log().flatten().topk(k)": (
            "probabilities are multiplied: of a long text they are 0 in float32. Add logs."
        ),
        "(scores[:, None] + log_probs) → log_probs": "the scores so far are not used: add them.",
        (
            "(scores[:, None] + log_probs).flatten().topk(k) → (scores[:, None] + log_probs).flatten().topk(k, "
            "largest=False)"
        ): ("these are the worst. Logs of probabilities: the largest is the best."),
        "return best, place // n_words, place % n_words → best, words = (scores[:, None] + log_probs).max(1); "
        "return best[:k], torch.arange(len(best))[:k], words[:k]": (
            "one word is taken for each text. The k best should come from all texts and words together."
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


SIZES = {"n_source": 9, "n_target": 8, "dim": 5, "hidden": 6}  # all different, so that mistakes show in a shape


@cache
def _weights():
    """Known weights of a translator, by name."""
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        weights = Translator.reference(**SIZES).state_dict()
        return {name: 0.9 * normal(*value.shape, seed=i) for i, (name, value) in enumerate(weights.items())}


def _filled(make):
    """An object of the student's class with known weights."""
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
    """Observe what one method of the student's class returns."""

    def observe(make, *args):
        method = getattr(_filled(make), name, None)
        result = None if method is None else method(*args)
        if result is None or result is ...:
            raise Complaint(f"`{name}` is not there yet, or returns nothing; the parts before it are right.")
        return result

    return observe


def _encoded(make, source):
    """What `encode` returns, with states at real tokens only: what stands at padding is free."""
    H, s_0 = _stage("encode")(make, source)
    return H[source != PAD], s_0


def _all_gradients(make, source, target):
    """Observe the size of the gradient that reaches each weight, in the order of their names."""
    model = _filled(make)
    out = model.forward(source, target)
    if out.requires_grad:
        weighed = out * torch.linspace(-1, 2, out.numel()).view_as(out)
        # padding of the target has no loss, so its vector may stay as it is (padding_idx)
        weighed[target != PAD].sum().backward()
    silent = [name for name, p in model.named_parameters() if p.grad is None or not p.grad.any()]
    if silent:
        raise Complaint(f"the logits are right, but no gradient reaches `{silent[0]}`: was something detached?")
    return torch.stack([p.grad.norm() for _, p in sorted(model.named_parameters())])


def _sources(*rows):
    """Rows of words of unequal length as one tensor, padded."""
    return nn.utils.rnn.pad_sequence([torch.tensor(row) for row in rows], batch_first=True)


def _pair():
    """Three sources and their targets."""
    return _sources([3, 5, 8, 4], [6, 3], [7]), _sources([4, 3, END], [7, 5, 6, 3, END], [END])


def _attended(*lengths):
    """State (B, 6), states of the source (B, n, 12) of these lengths, and their mask."""
    mask = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]  # (B, n)
    return normal(len(lengths), 6, seed=1), normal(*mask.shape, 12, seed=2), mask


# Exercise 7.4: the whole translator
@exercise(
    cases={
        "the parameters": Case(tuple, lambda make: len(list(_filled(make).parameters()))),
        "`encode`, of a row without padding": Case(lambda: (_sources([3, 5, 8, 4]),), _encoded),
        "`encode`, of rows with padding": Case(lambda: (_sources([6, 3], [3, 5, 8, 4, PAD], [7], [5, 8]),), _encoded),
        "`look`, without padding": Case(partial(_attended, 4, 4), _stage("look")),
        "`look`, with padding": Case(partial(_attended, 4, 2, 1), _stage("look")),
        "`step`": Case(lambda: (torch.tensor([3, 7, 1]), *_attended(4, 2, 1)), _stage("step")),
        "`forward`": Case(_pair, _stage("forward")),
        "`generate`": Case(lambda: (_sources([3, 6, 6], [6, 3], [4, 7, 5], [3]), 9), _stage("generate")),
        "the gradients of the parameters": Case(_pair, _all_gradients, 1e-4),
    },
    mistakes={
        "return H, last[0] → return H, last[1]": "`encode`: s_0 is the last state of the forward direction.",
        "return H, last[0] → return H, H[:, -1, : len(self.W_q.weight)]": (
            "`encode`: `H[:, -1]` is the last slot, which is padding in a short row. s_0 belongs to the last token."
        ),
        (
            "self.encoder(packed) → self.encoder(self.read(source))",
            "H, _ = nn.utils.rnn.pad_packed_sequence(H, batch_first=True, total_length=source.shape[1]) → pass",
        ): "`encode`: padding is read, and the last state of both directions has seen it. Pack the rows.",
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
        """Tokens (B, N) to the states H (B, N, 2h), any values at padding; s_0 (B, h), the last forward state."""
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


# Exercise 7.5 (deeper): what an embedding does
@exercise(
    cases={
        "two rows of one length": lambda: ([[3, 8], [7, 3]], _normal(9, 5)),
        "rows of different lengths": lambda: ([[3, 8, 4], [5], [6, 2]], _normal(9, 5)),
    },
    mistakes={"onehot @ E → onehot @ E * (tokens != PAD)[..., None]": "padding gives zeros: `PAD` picks row 0 of E."},
)
def look_up(rows, E):
    """Lists of tokens, B of them, and a table E (V, D): the vectors (B, N, D), short rows filled up with PAD."""
    tokens = torch.full((len(rows), max(map(len, rows))), PAD)  # (B, N), whole numbers
    for b, row in enumerate(rows):
        tokens[b, : len(row)] = torch.tensor(row)
    onehot = nn.functional.one_hot(tokens, len(E)).to(E.dtype)  # (B, N, V)
    return onehot @ E


# Exercise 7.6 (deeper): the new state asks
@exercise(
    cases={
        "one sentence without padding": lambda: (*_decoder(4), _normal(3, 6, seed=14)),
        "two sentences, one of them padded": lambda: (*_decoder(4, 2), _normal(3, 6, seed=14)),
    },
    mistakes={
        "score(new, H) → score(s, H)": "the old state asks, as in (7.4). Here the new one does: step first.",
        ".masked_fill(~mask, -torch.inf) → ": "padding is looked at. Give the mask to the softmax.",
        "[c, new] → [new, c]": "W_c reads [c; s], the context first. Yours are the other way round.",
        "torch.tanh(torch.cat([c, new], -1) @ W_c.T) → torch.cat([c, new], -1) @ W_c.T": "the tanh is missing.",
        "alpha = torch.softmax(score(new, H).masked_fill(~mask, -torch.inf), -1) → "
        "alpha = torch.softmax(score(new, H), -1) * mask": "the mask comes after the softmax: mask the scores.",
        "return new, torch.tanh(torch.cat([c, new], -1) @ W_c.T) → "
        "return torch.tanh(torch.cat([c, new], -1) @ "
        "W_c.T), new": "the results have changed places: the state comes first.",
    },
)
def luong_step(s, y, H, mask, score, cell, W_c):
    """(7.9): the new state (B, h), and what the readout reads, tanh(W_c [c; s]) (B, h)."""
    new = cell(y, s)  # (B, h): the word alone
    alpha = torch.softmax(score(new, H).masked_fill(~mask, -torch.inf), -1)  # (B, N)
    c = (alpha[:, None] @ H)[:, 0]  # (B, e)
    return new, torch.tanh(torch.cat([c, new], -1) @ W_c.T)


_TEXTS = {
    "one wrong word": ("drei und vierzig", "drei und fünfzig"),
    "a word missing in the middle": ("drei zwei und vierzig", "drei hundert zwei und vierzig"),
    "a word too many at the beginning": ("ein zwei und vierzig", "zwei und vierzig"),
    "two words exchanged": ("und zwei", "zwei und"),
    "nothing said": ("", "zwei und vierzig"),
    "nothing to say": ("drei", ""),
    "a word missing in front": ("und zwei zwei acht", "drei und und zwei"),  # a greedy walk finds four errors
}


# Exercise 7.7 (deeper): wrong words
def _letters_compared(said, right):
    """A mistake: the texts, letter by letter."""
    return word_errors.reference(" ".join(said), " ".join(right))


@exercise(
    cases={name: lambda pair=pair: tuple(text.split() for text in pair) for name, pair in _TEXTS.items()},
    mistakes={
        "return row[-1] → return sum(a != b for a, b in zip(said, right)) + abs(len(said) - len(right))": (
            "words are compared place by place, so one missing word makes all that follow wrong. They may move up."
        ),
        "(word != wanted) → 2 * (word != wanted)": "a changed word costs two, as if left out and put in. It costs one.",
        "return row[-1] → return row[-1] / max(len(right), 1)": "this is the rate. Return the number of wrong words.",
        "return row[-1] → from collections import Counter; a, b = Counter(said), Counter(right); "
        "return max(sum((a - b).values()), sum((b - a).values()))": (
            "words are counted without their order. Two words that are exchanged are two errors."
        ),
        (
            "row = list(range(len(right) + 1)) → row = [0] * (len(right) + 1)",
            "above, row = row, [i + 1] → above, row = row, [0]",
        ): "the first row and column are zeros: words that are missing, or too many, should cost one each there, too.",
        "row = list(range(len(right) + 1)) → row = [0] * (len(right) + 1)": (
            "the first row is zeros: it should say how many words are put in."
        ),
        "above, row = row, [i + 1] → above, row = row, [0]": (
            "the first column is zeros: it should say how many words are left out."
        ),
        "return row[-1] → import difflib; return sum(max(b - a, d - c) for op, a, b, c, d in "
        "difflib.SequenceMatcher(None, said, right).get_opcodes() if op != 'equal')": (
            "`difflib` looks for long equal blocks, which are not always the fewest changes."
        ),
        (
            "return row[-1] → return word_errors.reference(' '.join(said), ' '.join(right)) if ' ' not in "
            "[*said, *right] else row[-1]"
        ): ("letters are compared. Compare words."),
        "return row[-1] → return abs(len(said) - len(right))": "only the lengths are compared.",
        "return row[-1] → return len(right) - row[-1]": "these are the right words. Count the wrong ones.",
        _letters_compared: "letters are compared. Compare words.",
    },
)
def word_errors(said, right):
    """Fewest words to change, put in or leave out until the list `said` is the list `right`: a whole number."""
    row = list(range(len(right) + 1))  # from an empty text to the first j words: j words put in
    for i, word in enumerate(said):
        above, row = row, [i + 1]
        for j, wanted in enumerate(right):
            change = above[j] + (word != wanted)  # nothing, if they are equal
            row.append(min(change, above[j + 1] + 1, row[j] + 1))  # or leave `word` out, or put `wanted` in
    return row[-1]


# Exercise 7.8 (deeper): where the long text overtakes the short one. ln 0.30 / 2^a = ln 0.1615 / 4^a
_RATIO = math.log(0.50 * 0.34 * 0.95) / math.log(0.40 * 0.75)

crossing = ValueCheck(
    "crossing",
    expected=math.log2(_RATIO),
    tolerance=0.02,
    mistakes={
        _RATIO: "that is the ratio of the two sums of logs. It equals (4/2)^alpha: one more step.",
        math.log(_RATIO, 3): "that is what comes out without the full stop. It counts here: 2 tokens against 4.",
        1 / math.log2(_RATIO): "that is one over it: from 2^alpha = r follows alpha = log2 r.",
        0.5: "that is the ratio of the lengths, 2 to 4. (7.10) asks for the power of it: use the logs of both texts.",
        1.0: "at 1 the long text is already ahead, with -0.46 a word against -0.60.",
    },
    hint="Set both texts' sums of logs, each over its length to the power alpha, equal, and take logs once more.",
)


def _orders(*rows):
    """Logits (B, n, n) of a pointer, the order of each row, padded with 0, and the lengths."""
    lengths = torch.tensor([len(row) for row in rows])
    order = nn.utils.rnn.pad_sequence([torch.tensor(row) for row in rows], batch_first=True)
    return 2 * _normal(*order.shape, order.shape[1]), order, lengths


# Exercise 7.9 (deeper): the probability of an order
@exercise(
    cases={
        "two rows of three items": partial(_orders, [2, 0, 1], [0, 1, 2]),
        "two rows, one of them padded": partial(_orders, [3, 1, 0, 2], [1, 0]),
    },
    mistakes={
        " & ~chosen → ": "an item chosen before gets a share of the probability. Take it out before the softmax.",
        "real[:, None] & → ": "padding gets a share of the probability: only real items may be pointed at.",
        "torch.where(real, factors, 0.0) → factors": "steps after the end of a row count. Two items have two steps.",
        "scores.masked_fill(~(real[:, None] & ~chosen), -1e9).log_softmax(-1) → "
        "(scores.softmax(-1) * (real[:, None] & ~chosen)).log()": "you masked after the softmax: the sum is not one.",
        "onehot.cumsum(1) - onehot → onehot.cumsum(1)": (
            "the item of this step is taken out, too: it should only be gone in the steps after it."
        ),
        "scores.masked_fill(~(real[:, None] & ~chosen), -1e9) → (scores * (real[:, None] & ~chosen))": (
            "scores are multiplied by the mask, and a score of zero is a score like any other. It should be very low."
        ),
        "torch.where(real, factors, 0.0).sum(1) → torch.where(real, factors, 0.0).sum(1).exp()": (
            "this is the probability. Return its log."
        ),
        "torch.where(real, factors, 0.0).sum(1) → torch.where(real, factors, 0.0).mean(1)": (
            "this is a mean over the steps. The log of a product is a sum."
        ),
        (
            "torch.where(real, factors, 0.0).sum(1) → -torch.where(real, factors, 0.0).sum(1)"
        ): "the sign: the log itself is wanted.",
    },
)
def order_log_prob(scores, order, lengths):
    """The log of (7.12): scores (B, M, N) of step m and item n, order (B, M), lengths (B,) to (B,)."""
    real = torch.arange(scores.shape[-1]) < lengths[:, None]  # (B, N): items, and steps
    onehot = nn.functional.one_hot(order, scores.shape[-1])
    chosen = (onehot.cumsum(1) - onehot).bool()  # (B, M, N): before step m
    log_p = scores.masked_fill(~(real[:, None] & ~chosen), -1e9).log_softmax(-1)
    factors = log_p.gather(-1, order[..., None])[..., 0]  # (B, M)
    return torch.where(real, factors, 0.0).sum(1)
