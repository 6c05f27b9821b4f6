"""Exercises of chapter 07: a loss without padding, attention before the step, a beam, a pointer, a whole translator."""

import math
from functools import cache, partial

import torch
from torch import nn

from possm_lite.blocks.attention import masked_softmax
from possm_lite.blocks.seq2seq import END, PAD, shift_right
from possm_lite.classroom.checks import Case, Check, Complaint, ValueCheck, gradient, normal
from possm_lite.classroom.checks.sandbox import MISSING, Failure

_normal = partial(normal, seed=7)


# Exercise 7.1: a loss without padding


def _token_loss(
    logits, targets, pad=0, *, log_probs=lambda x: x.log_softmax(-1), average=lambda losses, real: losses[real].mean()
):
    losses = -log_probs(logits).gather(-1, targets[..., None])[..., 0]  # (B, T)
    return average(losses, targets != pad)


def _sentences(*rows, scale=1.0):
    targets = torch.tensor(rows)
    return scale * _normal(*targets.shape, 5), targets


token_loss = Check(
    "token_loss",
    reference=_token_loss,
    cases=[
        Case("two sentences without padding", partial(_sentences, [3, 4, 2], [4, 4, 2])),
        Case("a sentence with two padded slots", partial(_sentences, [3, 4, 3, 4, 2], [4, 3, 2, 0, 0])),
        Case("a single sentence", partial(_sentences, [3, 4, 2])),
        Case("logits in the hundreds", partial(_sentences, [3, 4, 2], [3, 2, 0], scale=300.0)),
        Case("the gradient", partial(_sentences, [3, 4, 3, 4, 2], [4, 3, 2, 0, 0]), gradient(0)),
        Case("a pad that is not 0", lambda: (*_sentences([3, 4, 2], [0, 2, 4]), 4)),
    ],
    traps={
        "padding is counted: the model is paid for saying <pad> after the end, and every padded slot weighs as much as "
        "a word. Leave these slots out of the sum and out of the count.": (
            partial(_token_loss, average=lambda losses, real: losses.mean())
        ),
        "padding is out of the sum but still in the count: you divide by all slots, so more padding makes a smaller "
        "loss. Divide by the number of real words.": (
            partial(_token_loss, average=lambda losses, real: (losses * real).mean())
        ),
        "you took a mean for each sentence, then the mean of these: a word in a short sentence then weighs more than "
        "one in a long sentence. (7.3) has one sum and one count.": (
            partial(_token_loss, average=lambda losses, real: ((losses * real).sum(1) / real.sum(1)).mean())
        ),
        "you divide by the number of sentences. (7.3) divides by the number of real words.": (
            partial(_token_loss, average=lambda losses, real: (losses * real).sum() / len(real))
        ),
        "the sign: (7.3) has a minus in front, since log-probabilities are negative and a loss comes down.": (
            partial(_token_loss, average=lambda losses, real: -losses[real].mean())
        ),
        "this is the sum over the real words. (7.3) divides it by their number.": (
            partial(_token_loss, average=lambda losses, real: losses[real].sum())
        ),
        "the last word of each sentence is missing. `END` is a word like any other: the model must learn to say it.": (
            partial(
                _token_loss, average=lambda losses, real: losses[real & (real.cumsum(1) < real.sum(1)[:, None])].mean()
            )
        ),
        "the last slot of the batch is left out, and the END of the longest sentence with it.": (
            partial(_token_loss, average=lambda losses, real: losses[:, :-1][real[:, :-1]].mean())
        ),
        "these are logits, not log-probabilities: nothing makes them sum to one. Where is the log-softmax?": (
            partial(_token_loss, log_probs=lambda logits: logits)
        ),
        "it looks as if the softmax was taken twice: cross_entropy takes logits and does it itself.": (
            partial(_token_loss, log_probs=lambda logits: logits.softmax(-1).log_softmax(-1))
        ),
    },
)


# Exercise 7.2: attend with the previous state, then step. The score and the cell are functions, as in the chapter


def _bahdanau_step(s, y, H, mask, score, cell, *, attend=masked_softmax, join=lambda y, c: torch.cat([y, c], -1)):
    alpha = attend(score(s, H), mask)
    return cell(join(y, (alpha[:, None] @ H)[:, 0]), s), alpha


def _state_gradient(function, *args):
    """The gradients of the new state by s, y and H."""
    inputs = [x.clone().requires_grad_() for x in args[:3]]
    state, _ = function(*inputs, *args[3:])
    if not (isinstance(state, torch.Tensor) and state.requires_grad):
        raise Complaint("no gradient flows back from the new state: is there NumPy, .detach() or no_grad()?")
    weights = torch.linspace(-1, 2, state.numel()).view_as(state)
    return torch.autograd.grad((state * weights).sum(), inputs, materialize_grads=True)


def _new_state_attends(s, y, H, mask, score, cell, *, step=_bahdanau_step):
    new, _ = step(s, y, H, mask, score, cell)
    return new, masked_softmax(score(new, H), mask)


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


bahdanau_step = Check(
    "bahdanau_step",
    reference=_bahdanau_step,
    cases=[
        Case("one sentence without padding", partial(_decoder, 4)),
        Case("two sentences, one of them padded", partial(_decoder, 4, 2)),
        Case("a sentence of one word", partial(_decoder, 1, 3)),
        Case("the gradients of the new state", partial(_decoder, 4, 2), _state_gradient),
    ],
    traps={
        "the new state asks. Then s_t is made without having looked: it knows c_{t-1} or nothing. Ask with the "
        "previous state, and step afterwards.": (
            partial(_new_state_attends, step=partial(_bahdanau_step, join=lambda y, c: torch.cat([y, 0 * c], -1)))
        ),
        "the state is right, but the weights you return come from the new state. Return those that made c_t.": (
            _new_state_attends
        ),
        "the weights of a padded sentence do not sum to one: it looks as if you masked after the softmax.": (
            partial(_bahdanau_step, attend=lambda scores, mask: scores.softmax(-1) * mask)
        ),
        "padding is looked at. Give the mask to the softmax.": (
            partial(_bahdanau_step, attend=lambda scores, mask: scores.softmax(-1))
        ),
        "a score of 0 is a score like any other (exp(0) = 1). Which score has the exponential zero?": (
            partial(_bahdanau_step, attend=lambda scores, mask: (scores * mask).softmax(-1))
        ),
        "the mask is read the wrong way round: True means a real token.": (
            partial(_bahdanau_step, attend=lambda scores, mask: scores.masked_fill(mask, -math.inf).softmax(-1))
        ),
        "the scores were divided by a root. (7.4) takes `score` as it is: a tanh keeps it small already.": (
            lambda s, y, H, mask, score, cell: _bahdanau_step(
                s, y, H, mask, lambda s, H: score(s, H) / s.shape[-1] ** 0.5, cell
            )
        ),
        "the numbers are right, but no gradient passes through the context: the attention would never learn.": (
            partial(_bahdanau_step, join=lambda y, c: torch.cat([y, c.detach()], -1))
        ),
        "the numbers are right, but no gradient passes through the weights: the scores would never learn.": (
            partial(_bahdanau_step, attend=lambda scores, mask: masked_softmax(scores, mask).detach())
        ),
        "the cell reads [y; c], the word first and then the context. Yours are the other way round.": (
            partial(_bahdanau_step, join=lambda y, c: torch.cat([c, y], -1))
        ),
    },
)


# Exercise 7.3: one step of beam search


def _only_end(log_probs, finished, end):
    """A finished text continues with `end` alone, at no cost."""
    stay = torch.full_like(log_probs[0], -math.inf)
    stay[end] = 0.0
    return torch.where(finished[:, None], stay, log_probs)


def _as_is(log_probs, finished, end):
    return log_probs


def _add(scores, log_probs):
    return scores[:, None] + log_probs


def _beam_step(scores, log_probs, finished, k, end, *, extend=_only_end, total=_add, result=lambda *best: best):
    table = total(scores, extend(log_probs, finished, end))  # (K, V)
    best, flat = table.flatten().topk(k)
    return result(best, flat // table.shape[1], flat % table.shape[1])


def _texts(so_far, rows, finished, k=2, end=0, before=0.0):
    """Arguments from probabilities: of each text so far, and of each next word; `before` is added to the scores."""
    return torch.tensor(so_far).log() + before, torch.tensor(rows).log(), torch.tensor(finished).bool(), k, end


_OPEN = [[0.1, 0.5, 0.4], [0.05, 0.15, 0.8]]
_TEN_WORDS = [[0.01] * 9 + [0.91], [0.005] * 9 + [0.955]]

beam_step = Check(
    "beam_step",
    reference=_beam_step,
    cases=[
        Case("one text", partial(_texts, [1.0], [[0.2, 0.5, 0.3]], [0])),
        Case("two texts, none of them finished", partial(_texts, [0.4, 0.3], _OPEN, [0, 0])),
        Case("a text that deserves both places", partial(_texts, [0.9, 0.1], _OPEN, [0, 0])),
        Case("a finished text", partial(_texts, [0.5, 0.3], _OPEN, [1, 0])),
        Case("two finished texts", partial(_texts, [0.4, 0.3], _OPEN, [1, 1])),
        Case(
            "long texts, whose probabilities are 0 in float32",
            partial(_texts, [0.4, 0.3], _OPEN, [0, 0], before=-138.0),
        ),
        Case("a finished text that is no longer good enough", partial(_texts, [0.1, 0.9], _OPEN, [1, 0])),
        Case("another end and more words", partial(_texts, [0.3, 0.6], _TEN_WORDS, [0, 1], end=5)),
        Case("two texts, of which three grow", partial(_texts, [0.4, 0.3], _OPEN, [0, 0], k=3)),
        Case("two texts, of which one is kept", partial(_texts, [0.4, 0.3], _OPEN, [0, 0], k=1)),
    ],
    traps={
        "a finished text went on growing: its score fell by words after its end. Let it continue with `end` alone, at "
        "no cost.": partial(_beam_step, extend=_as_is),
        "a finished text fills the beam with copies of itself, one for every word at no cost. Only `end` is "
        "free, all other words are impossible (-inf).": (
            partial(_beam_step, extend=lambda p, finished, end: p.masked_fill(finished[:, None], 0.0))
        ),
        "a finished text was thrown out. It keeps its place as long as its score is among the k best.": (
            partial(_beam_step, extend=lambda p, finished, end: p.masked_fill(finished[:, None], -math.inf))
        ),
        "log-probabilities were multiplied. A product of probabilities is a sum of logs.": (
            partial(_beam_step, extend=_as_is, total=lambda scores, log_probs: scores[:, None] * log_probs)
        ),
        "the scores so far play no part: add them to those of the next word.": (
            partial(_beam_step, total=lambda scores, log_probs: log_probs)
        ),
        "scores are log-probabilities, these are probabilities. Stay in logs: over long texts products become 0.": (
            partial(_beam_step, result=lambda best, row, word: (best.exp(), row, word))
        ),
        "row and word are swapped: of index i in the flattened table of width V the row is i // V and the column "
        "i % V.": partial(_beam_step, result=lambda best, row, word: (best, word, row)),
    },
)


# Exercise 7.4: where the long text overtakes the short one. ln 0.30 / 2^a = ln 0.1615 / 4^a

_SHORT, _LONG = math.log(0.40 * 0.75), math.log(0.50 * 0.34 * 0.95)

crossing = ValueCheck(
    "crossing",
    expected=math.log2(_LONG / _SHORT),
    tolerance=0.02,
    traps={
        "that is the ratio of the two sums of logs. It equals (4/2)^alpha: one more step.": _LONG / _SHORT,
        "that is what comes out if the full stop does not count. Here it does: 2 tokens against 4.": (
            math.log(_LONG / _SHORT, 3)
        ),
        "that is where `aab.` overtakes `b.`, and `abb.` has the larger probability of the two.": (
            math.log2(math.log(0.50 * 0.35 * 0.72) / _SHORT)
        ),
        "that is what comes out if probabilities are divided. (7.7) divides the sums of logs.": (
            math.log2(0.1615 / 0.30)
        ),
    },
)


# Exercise 7.5: point


def _pointer_weights(
    x, h, W, U, v, mask, *, join=lambda items, state: torch.tanh(items + state), normalize=masked_softmax
):
    return normalize(join(x @ W.T, (h @ U.T)[:, None]) @ v, mask)


def _items(*rows):
    mask = torch.tensor(rows).bool()
    W, U, v = _normal(5, 3, seed=1), _normal(5, 3, seed=2), 2 * _normal(5, seed=3)
    return _normal(*mask.shape, 3), _normal(len(rows), 3, seed=4), W, U, v, mask


pointer_weights = Check(
    "pointer_weights",
    reference=_pointer_weights,
    cases=[
        Case("four items, all free", partial(_items, [1, 1, 1, 1])),
        Case("an item that was chosen before", partial(_items, [1, 0, 1, 1])),
        Case("two rows, one of them padded", partial(_items, [1, 1, 1, 1], [1, 1, 0, 0])),
        Case("only one item left", partial(_items, [0, 0, 1, 0])),
        Case("two rows of one item", partial(_items, [1], [1])),
    ],
    traps={
        "the probabilities of a row do not sum to one: it looks as if you masked after the softmax.": (
            partial(_pointer_weights, normalize=lambda scores, mask: scores.softmax(-1) * mask)
        ),
        "it points at items it may not point at: `mask` plays no part yet.": (
            partial(_pointer_weights, normalize=lambda scores, mask: scores.softmax(-1))
        ),
        "a score of 0 is a score like any other (exp(0) = 1). Which score has the exponential zero?": (
            partial(_pointer_weights, normalize=lambda scores, mask: (scores * mask).softmax(-1))
        ),
        "the mask is read the wrong way round: True means that an item may be chosen.": (
            partial(_pointer_weights, normalize=lambda scores, mask: scores.masked_fill(mask, -math.inf).softmax(-1))
        ),
        "there is no tanh. Without it U h adds the same to all items, and the softmax does not see it.": (
            partial(_pointer_weights, join=torch.add)
        ),
        "the state makes no difference. Is it left out, or does it have a tanh of its own? (7.8) has one, around the "
        "sum, so that each item is seen together with the state.": (
            partial(_pointer_weights, join=lambda items, state: items.tanh() + state.tanh())
        ),
        "these are logs of probabilities: give the probabilities.": (
            partial(_pointer_weights, normalize=lambda scores, mask: masked_softmax(scores, mask).log())
        ),
        "W and U are swapped: in (7.8) W is for the items, U for the state.": (
            lambda x, h, W, U, v, mask: _pointer_weights(x, h, U, W, v, mask)
        ),
    },
)


# Exercise 7.6: the probability of an order


def _order_log_prob(
    log_p, order, lengths, *, pick=lambda log_p, order: log_p.gather(-1, order[..., None])[..., 0], total=None
):
    total = total or (lambda each, real: each.masked_fill(~real, 0.0).sum(1))
    return total(pick(log_p, order), torch.arange(log_p.shape[1]) < lengths[:, None])


def _orders(*rows, repeats=False):
    """Orders of up to four items, padded with 0: log p (B, M, N), orders and lengths. Without `repeats`, log p is -inf
    for an item that was chosen before; with them nothing is masked, at padding neither."""
    lengths, size = torch.tensor([len(row) for row in rows]), max(map(len, rows))
    order = torch.tensor([[*row, *[0] * (size - len(row))] for row in rows])
    may = torch.arange(size) < lengths[:, None, None]  # (B, 1, N)
    chosen = nn.functional.one_hot(order, size).cumsum(1).roll(1, 1).bool()
    chosen[:, 0] = False
    return masked_softmax(_normal(*chosen.shape), (may & ~chosen) | repeats).log(), order, lengths


def _nan_at_padding():
    log_p, order, lengths = _orders([3, 1, 0, 2], [1, 0])
    log_p[1, 2:] = math.nan
    return log_p, order, lengths


order_log_prob = Check(
    "order_log_prob",
    reference=_order_log_prob,
    cases=[
        Case("one row of three items", partial(_orders, [2, 0, 1])),
        Case("two rows of three items", partial(_orders, [2, 0, 1], [0, 1, 2])),
        Case("two rows, one of them padded", partial(_orders, [3, 1, 0, 2], [1, 0])),
        Case("a row of one item, padded", partial(_orders, [0], [1, 2, 0])),
        Case("rows in which an item may be chosen again", partial(_orders, [2, 0, 2], [1, 1], repeats=True)),
        Case("padding that holds NaN", _nan_at_padding),
        Case("an order of forty items", partial(_orders, range(40)), tolerance=1e-4),
        Case("an order that cannot be", partial(_orders, [2, 0, 2])),
    ],
    traps={
        "steps after the end of a row are counted. A row of two items has two steps.": (
            partial(_order_log_prob, total=lambda each, real: each.sum(1))
        ),
        "you multiplied by the mask, and 0 times minus infinity is NaN. Replace, with masked_fill or torch.where.": (
            partial(_order_log_prob, total=lambda each, real: (each * real).sum(1))
        ),
        "you took the mean over the steps. A product of probabilities is a sum of logs.": (
            partial(_order_log_prob, total=lambda each, real: each.masked_fill(~real, 0.0).sum(1) / real.sum(1))
        ),
        "this is the probability. Return its log: the sum of the logs.": (
            partial(_order_log_prob, total=lambda each, real: each.masked_fill(~real, 0.0).sum(1).exp())
        ),
        "log-probabilities were multiplied. A product of probabilities is a sum of logs.": (
            partial(_order_log_prob, total=lambda each, real: each.masked_fill(~real, 1.0).prod(1))
        ),
        "the likeliest item of each step was taken, not the one in `order`.": (
            partial(_order_log_prob, pick=lambda log_p, order: log_p.amax(-1))
        ),
        "steps and items are swapped: log_p has one row for each step, one column for each item.": (
            partial(_order_log_prob, pick=lambda log_p, order: log_p.gather(1, order[:, None])[:, 0])
        ),
        "the last step of each row is missing. Only where every other item is gone is its factor 1.": (
            partial(
                _order_log_prob,
                total=lambda each, real: each.masked_fill(real.cumsum(1) >= real.sum(1)[:, None], 0.0).sum(1),
            )
        ),
        "minus infinity was made 0. It is to be left out after the end of a row; before, it says that the order "
        "cannot be.": partial(_order_log_prob, total=lambda each, real: each.nan_to_num(neginf=0.0).sum(1)),
        "this is one number for all rows together. Each row has a probability of its own: shape (B,).": (
            partial(_order_log_prob, total=lambda each, real: each[real].sum())
        ),
    },
)


# Exercise 7.7: the whole translator


class _Translator(nn.Module):
    """A right answer, and with names of mistakes in `wrong` a wrong one."""

    def __init__(self, n_source, n_target, dim=32, hidden=64, wrong=()):
        super().__init__()
        self.read, self.write = nn.Embedding(n_source, dim), nn.Embedding(n_target, dim)
        self.encoder = nn.GRU(dim, hidden, batch_first=True, bidirectional=True)
        self.W_q, self.W_k = nn.Linear(hidden, hidden, bias=False), nn.Linear(2 * hidden, hidden, bias=False)
        self.w_v = nn.Linear(hidden, 1, bias=False)
        self.decoder, self.readout = nn.GRUCell(dim + 2 * hidden, hidden), nn.Linear(hidden, n_target)
        self.wrong = wrong

    def encode(self, source):
        x, n = self.read(source), (source != PAD).sum(1)
        if "padding is encoded" in self.wrong:
            H, last = self.encoder(x)
            s_0 = H[torch.arange(len(x)), n - 1, : last.shape[-1]] if "only backwards" in self.wrong else last[0]
        else:
            H, last = self.encoder(nn.utils.rnn.pack_padded_sequence(x, n, batch_first=True, enforce_sorted=False))
            H, s_0 = nn.utils.rnn.pad_packed_sequence(H, batch_first=True, total_length=x.shape[1])[0], last[0]
        return H, last[1] if "backward state" in self.wrong else s_0

    def look(self, s, H, mask):
        keys = self.W_k(H) if "no tanh" in self.wrong else torch.tanh(self.W_q(s)[:, None] + self.W_k(H))
        scores = self.w_v(keys)[..., 0]
        alpha = scores.softmax(-1) if "no mask" in self.wrong else masked_softmax(scores, mask)
        if "mask late" in self.wrong:
            alpha = scores.softmax(-1) * mask
        return (alpha[:, None] @ H)[:, 0], alpha

    def step(self, tokens, s, H, mask):
        y, c = self.write(tokens), self.look(s, H, mask)[0]
        if "late" in self.wrong:
            c = self.look(self.decoder(torch.cat([y, 0 * c], -1), s), H, mask)[0]
        s = self.decoder(torch.cat([c, y] if "swapped" in self.wrong else [y, c], -1), s)
        return self.readout(s), s

    def forward(self, source, target):
        (H, s), mask, logits = self.encode(source), source != PAD, []
        for tokens in (target if "not shifted" in self.wrong else shift_right(target)).unbind(1):
            tokens = logits[-1].argmax(-1) if "free" in self.wrong and logits else tokens
            out, s_new = self.step(tokens, s, H, mask)
            s = s if "forgets" in self.wrong else s_new
            logits.append(out)
        return torch.stack(logits, 1)

    @torch.no_grad()
    def generate(self, source, max_len):
        (H, s), mask, written = self.encode(source), source != PAD, []
        tokens, done = shift_right(source[:, :1])[:, 0], torch.zeros(len(source), dtype=torch.bool)
        for _ in range(max_len):
            logits, s = self.step(tokens, s, H, mask)
            tokens = logits.argmax(-1)
            written.append(tokens if "no end" in self.wrong else tokens.masked_fill(done, PAD))
            done = done | (tokens == END)
            if "end of one" in self.wrong and done.any():
                break
            tokens = shift_right(source[:, :1])[:, 0] if "reads begin" in self.wrong else tokens
        return nn.functional.pad(torch.stack(written, 1), (0, max_len - len(written)), value=PAD)


SIZES = {"n_source": 9, "n_target": 8, "dim": 5, "hidden": 6}  # all different, so that mistakes show in a shape


@cache
def _weights():
    """Weights large enough for every part to be seen in the output."""
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        weights = _Translator(**SIZES).state_dict()
        return {name: 0.9 * normal(*value.shape, seed=i) for i, (name, value) in enumerate(weights.items())}


def _filled(make):
    """An object of the student's class with the weights copied in; else the failure is recorded and raised."""

    def fail(message):
        make.failure = make.failure or (message if isinstance(message, Failure) else Failure(message, message))
        raise RuntimeError

    model = make(*SIZES.values())
    if not isinstance(model, nn.Module):
        fail("the class is not a torch.nn.Module: it begins with `class Translator(nn.Module):`.")
    own = dict(model.named_parameters())
    if not own:
        fail(MISSING)
    for name, value in _weights().items():
        part = name.split(".")[0]
        if not any(other.split(".")[0] == part for other in own):
            fail(f"the part `{part}` is missing, or has another name.")
        if name not in own:
            fail(f"`{part}` has no parameter `{name.removeprefix(part + '.')}`: is it the layer of the table?")
        if own[name].shape != value.shape:
            sizes = ", ".join(f"{size} = {n}" for size, n in SIZES.items())
            fail(f"`{name}` has the shape {tuple(own[name].shape)}, expected {tuple(value.shape)} (here {sizes}).")
    for name in sorted(own.keys() - _weights().keys()):
        fail(f"the parameter `{name}` is not in the table: a bias or a layer too many?")
    with torch.no_grad():
        for name, value in _weights().items():
            own[name].copy_(value)
    return model


def _stage(name, n_results, select=lambda result, *args: result):
    """What a method of the student's object returns, with the weights copied in."""

    def observe(make, *args):
        result = getattr(_filled(make), name, lambda *args: None)(*args)
        message = None
        if result is None or result is ...:
            message = f"`{name}` is not there yet, or returns nothing; the parts before it are right."
        elif n_results > 1 and not (isinstance(result, tuple | list) and len(result) == n_results):
            message = f"`{name}` returns {n_results} tensors: see its docstring."
        if message:
            make.failure = make.failure or Failure(message, message)
            raise RuntimeError
        return select(tuple(result) if n_results > 1 else result, *args)

    return observe


def _at_tokens(result, source):
    """States of the encoder at real tokens only: what stands at padding is free."""
    H, s_0 = result
    real = source != PAD
    if isinstance(H, torch.Tensor) and H.shape[:2] != real.shape:
        expected = (*real.shape, 2 * SIZES["hidden"])
        raise Complaint(f"`encode`: H has the shape {tuple(H.shape)}, expected {expected}.")
    return (H[real] if isinstance(H, torch.Tensor) else H), s_0


def _all_gradients(make, source, target):
    model = _filled(make)
    out = model.forward(source, target)
    if out.requires_grad:
        # padding of the target has no loss, so its vector may stay as it is (padding_idx)
        (out * torch.linspace(-1, 2, out.numel()).view_as(out))[target != PAD].sum().backward()
    silent = [name for name, p in model.named_parameters() if p.grad is None or not p.grad.any()]
    if silent:
        message = f"the logits are right, but no gradient reaches `{silent[0]}`: was something detached on the way?"
        make.failure = make.failure or Failure(message, message)
        raise RuntimeError
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


def _wrong(*names):
    return partial(_Translator, wrong=names)


Translator = Check(
    "Translator",
    reference=_Translator,
    cases=[
        Case("the parameters", tuple, lambda make: len(list(_filled(make).parameters()))),
        Case("`encode`, of a row without padding", lambda: (_sources([3, 5, 8, 4]),), _stage("encode", 2, _at_tokens)),
        Case("`encode`, of rows with padding", lambda: (_sources(*_ROWS),), _stage("encode", 2, _at_tokens)),
        Case(
            "`encode`, of rows padded further than the longest",
            lambda: (nn.functional.pad(_sources([3, 5, 8, 4], [6, 3]), (0, 2), value=PAD),),
            _stage("encode", 2, _at_tokens),
        ),
        Case("`look`, of a single row", partial(_attended, 3), _stage("look", 2)),
        Case("`look`, of rows of one token", partial(_attended, 1, 1), _stage("look", 2)),
        Case("`look`, without padding", partial(_attended, 4, 4), _stage("look", 2)),
        Case("`look`, with padding", partial(_attended, 4, 2, 1), _stage("look", 2)),
        Case("`step`", lambda: (torch.tensor([3, 7, 1]), *_attended(4, 2, 1)), _stage("step", 2)),
        Case("`forward`", _pair, _stage("forward", 1)),
        Case("`generate`", lambda: (_sources(*_ANSWERED), 9), _stage("generate", 1)),
        Case("`generate`, where all rows end early", lambda: (_sources(*_ANSWERED[:3]), 9), _stage("generate", 1)),
        Case("the gradients of the parameters", _pair, _all_gradients, 1e-4),
    ],
    traps={
        "`encode`: padding is read, and the last state of both directions has seen it. Pack the rows.": (
            _wrong("padding is encoded")
        ),
        "`encode`: s_0 is right, but the backward direction starts in the padding: pack the rows, or reverse each by "
        "itself.": _wrong("padding is encoded", "only backwards"),
        "`encode`: s_0 is the last state of the encoder that reads forwards. This is the other one.": (
            _wrong("backward state")
        ),
        "`look`: the query plays no part, or there is no tanh around the sum.": _wrong("no tanh"),
        "`look`: padding is looked at. Give the mask to the softmax.": _wrong("no mask"),
        "`look`: the weights of a padded row do not sum to one. Mask before the softmax.": _wrong("mask late"),
        "`step`: the new state asks. Look with the previous one, then step: (7.4), then (7.5).": _wrong("late"),
        "`step`: the cell reads [y; c], the word first and then the context. Yours are swapped.": _wrong("swapped"),
        "`forward`: the decoder reads the very word that it should say. Shift the target by one: BEGIN comes first.": (
            _wrong("not shifted")
        ),
        "`forward`: the decoder reads its own words. In training it reads the right ones: teacher forcing.": (
            _wrong("free")
        ),
        "`forward`: every step starts from s_0. Pass the new state on.": _wrong("forgets"),
        "`generate`: it goes on after the end. What follows END is padding.": _wrong("no end"),
        "`generate`: it stops when the first row has ended. The others are not finished.": _wrong("end of one"),
        "`generate`: each step reads BEGIN. It reads the word that was just written.": _wrong("reads begin"),
    },
)
