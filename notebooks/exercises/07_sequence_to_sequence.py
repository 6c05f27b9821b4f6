"""Exercises of chapter 07: a loss without padding, attend before the step, a step of the beam, a pointer."""

import math
from functools import partial

import torch

from possm_lite.blocks.attention import masked_softmax
from possm_lite.classroom.checks import Case, Check, ValueCheck, gradient, normal

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


def _texts(before, rows, finished, k=2, end=0):
    """Arguments from probabilities: of each text so far, and of each next word."""
    return torch.tensor(before).log(), torch.tensor(rows).log(), torch.tensor(finished).bool(), k, end


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
        Case("a finished text that is no longer good enough", partial(_texts, [0.1, 0.9], _OPEN, [1, 0])),
        Case("another end and more words", partial(_texts, [0.3, 0.6], _TEN_WORDS, [0, 1], end=5)),
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
        "that is what comes out if probabilities are divided. (7.6) divides the sums of logs.": (
            math.log2(0.1615 / 0.30)
        ),
    },
)


# Exercise 7.5: point


def _pointer_weights(x, h, W, U, v, mask, *, squash=torch.tanh, normalize=masked_softmax):
    return normalize(squash(x @ W.T + (h @ U.T)[:, None]) @ v, mask)


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
            partial(_pointer_weights, squash=lambda a: a)
        ),
        "W and U are swapped: in (7.7) W is for the items, U for the state.": (
            lambda x, h, W, U, v, mask: _pointer_weights(x, h, U, W, v, mask)
        ),
    },
)
