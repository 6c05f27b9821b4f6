"""The exercises of chapter 07: a loss without padding, a look before the step, a step of the beam, and a pointer."""

import math
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor
from torch.nn import functional as F

from possm_lite.blocks.attention import masked_softmax
from possm_lite.blocks.pointer import pointer_log_probs
from possm_lite.blocks.seq2seq import masked_cross_entropy
from possm_lite.classroom.checks import Case, Check, ValueCheck, normal

_normal = partial(normal, seed=7)


# Exercise 7.1: token_loss


def _each(logits: Tensor, targets: Tensor) -> Tensor:
    return F.cross_entropy(logits.transpose(1, 2), targets, reduction="none")  # (B, T)


def _mean_of_sequence_means(logits: Tensor, targets: Tensor, pad: int = 0) -> Tensor:
    real = targets != pad
    return ((_each(logits, targets) * real).sum(1) / real.sum(1).clamp(min=1)).mean()


def _over_all_slots(logits: Tensor, targets: Tensor, pad: int = 0) -> Tensor:
    return (_each(logits, targets) * (targets != pad)).mean()


def _logits_not_made_probabilities(logits: Tensor, targets: Tensor, pad: int = 0) -> Tensor:
    real = targets != pad
    return -logits.gather(-1, targets[..., None])[..., 0][real].mean()


def _sentences(*rows: list[int], n_words: int = 5, scale: float = 1.0) -> Callable[[], tuple]:
    def make() -> tuple:
        targets = torch.tensor(rows)
        return scale * _normal(*targets.shape, n_words), targets

    return make


def _loss_gradient(function: Callable, logits: Tensor, targets: Tensor) -> Tensor:
    logits = logits.clone().requires_grad_()
    return torch.autograd.grad(function(logits, targets), logits)[0]


token_loss = Check(
    "token_loss",
    reference=masked_cross_entropy,
    cases=[
        Case("two sentences without padding", _sentences([3, 4, 2], [4, 4, 2])),
        Case("a sentence with two padded slots", _sentences([3, 4, 3, 4, 2], [4, 3, 2, 0, 0])),
        Case("logits in the hundreds", _sentences([3, 4, 2], [3, 2, 0], scale=300.0)),
        Case("the gradient", _sentences([3, 4, 3, 4, 2], [4, 3, 2, 0, 0]), observe=_loss_gradient),
        Case("a pad that is not 0", lambda: (*_sentences([3, 4, 2], [0, 2, 4])(), 4)),
    ],
    traps={
        "padding is counted: the model is paid for saying <pad> after the end, and every padded slot weighs as much as "
        "a word. Leave these slots out of the sum and out of the count.": (
            lambda logits, targets, pad=0: _each(logits, targets).mean()
        ),
        "padding is out of the sum but still in the count: you divide by all slots, so more padding makes a smaller "
        "loss. Divide by the number of real words.": _over_all_slots,
        "you took a mean for each sentence, then the mean of these: a word in a short sentence then weighs more than "
        "one in a long sentence. (7.3) has one sum and one count.": _mean_of_sequence_means,
        "you divide by the number of sentences. (7.3) divides by the number of real words.": (
            lambda logits, targets, pad=0: (_each(logits, targets) * (targets != pad)).sum() / len(targets)
        ),
        "these are logits, not log-probabilities: nothing makes them sum to one. Where is the log-softmax?": (
            _logits_not_made_probabilities
        ),
        "it looks as if the softmax was taken twice: cross_entropy takes logits and does it itself.": (
            lambda logits, targets, pad=0: masked_cross_entropy(torch.softmax(logits, -1), targets, pad)
        ),
    },
)


# Exercise 7.2: bahdanau_step. The score and the cell are functions, as in the chapter


def _step(s: Tensor, y: Tensor, H: Tensor, mask: Tensor, score: Callable, cell: Callable) -> tuple[Tensor, Tensor]:
    alpha = masked_softmax(score(s, H), mask)
    return cell(torch.cat([y, (alpha[:, None] @ H)[:, 0]], -1), s), alpha


def _looks_too_late(s, y, H, mask, score, cell):
    """The state moves on without a context, then the new one looks."""
    s = cell(torch.cat([y, torch.zeros_like(H[:, 0])], -1), s)
    return s, masked_softmax(score(s, H), mask)


def _looks_again(s, y, H, mask, score, cell):
    new, _ = _step(s, y, H, mask, score, cell)
    return new, masked_softmax(score(new, H), mask)


def _masked_after(s, y, H, mask, score, cell):
    alpha = torch.softmax(score(s, H), -1) * mask
    return cell(torch.cat([y, (alpha[:, None] @ H)[:, 0]], -1), s), alpha


def _context_first(s, y, H, mask, score, cell):
    alpha = masked_softmax(score(s, H), mask)
    return cell(torch.cat([(alpha[:, None] @ H)[:, 0], y], -1), s), alpha


def _decoder(lengths: list[int], n: int = 4, size: int = 3) -> Callable[[], tuple]:
    """States, words and encoder states all of one size, so that no mistake is told by a shape."""

    def make() -> tuple:
        B = len(lengths)
        W_q, W_k, w_v = 2 * _normal(size, size), 2 * _normal(size, size, seed=8), 2 * _normal(size, seed=9)
        W_x, W_h = _normal(size, 2 * size, seed=10), _normal(size, size, seed=11)
        s, y, H = _normal(B, size, seed=1), _normal(B, size, seed=2), _normal(B, n, size, seed=3)
        mask = torch.arange(n) < torch.tensor(lengths)[:, None]
        score = lambda s, H: torch.tanh((s @ W_q.T)[:, None] + H @ W_k.T) @ w_v  # noqa: E731
        cell = lambda x, s: torch.tanh(x @ W_x.T + s @ W_h.T)  # noqa: E731
        return s, y, H, mask, score, cell

    return make


bahdanau_step = Check(
    "bahdanau_step",
    reference=_step,
    cases=[
        Case("one sentence without padding", _decoder([4])),
        Case("two sentences, one of them padded", _decoder([4, 2])),
        Case("a sentence of one word", _decoder([1, 3])),
    ],
    traps={
        "the new state asks. Then s_t is made without having looked: it knows c_{t-1} or nothing. Ask with the "
        "previous state, and step afterwards.": _looks_too_late,
        "the state is right, but the weights you return were made anew by the new state. Return those that made c_t.": (
            _looks_again
        ),
        "the weights of a padded sentence do not sum to one: it looks as if you masked after the softmax.": (
            _masked_after
        ),
        "padding is looked at. Give the mask to the softmax.": (
            lambda s, y, H, mask, score, cell: _step(s, y, H, torch.ones_like(mask), score, cell)
        ),
        "the cell reads [y; c], the word first and the context behind it. Yours are the other way round.": (
            _context_first
        ),
    },
)


# Exercise 7.3: beam_step


def _best(total: Tensor, k: int) -> tuple[Tensor, Tensor, Tensor]:
    """The k best of a table of candidates, with their rows and columns."""
    best, flat = total.flatten().topk(k)
    return best, flat // total.shape[1], flat % total.shape[1]


def _beam_step(scores: Tensor, log_probs: Tensor, finished: Tensor, k: int, end: int) -> tuple:
    stay = torch.full_like(log_probs[0], -math.inf)
    stay[end] = 0.0
    return _best(scores[:, None] + torch.where(finished[:, None], stay, log_probs), k)


def _finished_grow(scores, log_probs, finished, k, end):
    return _beam_step(scores, log_probs, torch.zeros_like(finished), k, end)


def _finished_free_to_say_anything(scores, log_probs, finished, k, end):
    return _best(scores[:, None] + log_probs.masked_fill(finished[:, None], 0.0), k)


def _finished_dropped(scores, log_probs, finished, k, end):
    return _beam_step(scores.masked_fill(finished, -math.inf), log_probs, finished, k, end)


def _logs_multiplied(scores, log_probs, finished, k, end):
    return _best(scores[:, None] * log_probs, k)


def _probabilities(scores, log_probs, finished, k, end):
    best, parent, token = _beam_step(scores, log_probs, finished, k, end)
    return best.exp(), parent, token


def _quotient_and_rest_swapped(scores, log_probs, finished, k, end):
    best, parent, token = _beam_step(scores, log_probs, finished, k, end)
    return best, token, parent


def _in_log(*rows: list[float]) -> Tensor:
    return torch.tensor(rows).log()


def _beam(before: list[float], rows: list[list[float]], finished: list[int], k: int, end: int = 0) -> Callable:
    return lambda: (_in_log(before)[0], _in_log(*rows), torch.tensor(finished).bool(), k, end)


_OPEN = [[0.1, 0.5, 0.4], [0.05, 0.15, 0.8]]
_FAR = [[0.01] * 9 + [0.91], [0.005] * 9 + [0.955]]

beam_step = Check(
    "beam_step",
    reference=_beam_step,
    cases=[
        Case("one text", _beam([1.0], [[0.2, 0.5, 0.3]], [0], k=2)),
        Case("two texts, none of them finished", _beam([0.4, 0.3], _OPEN, [0, 0], k=2)),
        Case("a text that deserves both places", _beam([0.9, 0.1], _OPEN, [0, 0], k=2)),
        Case("a finished text", _beam([0.5, 0.3], _OPEN, [1, 0], k=2)),
        Case("a finished text that is no longer good enough", _beam([0.1, 0.9], _OPEN, [1, 0], k=2)),
        Case("another end and more words", _beam([0.3, 0.6], _FAR, [0, 1], k=2, end=5)),
    ],
    traps={
        "a finished text went on growing: its score fell by words behind its end. Let it continue with `end` "
        "alone, at no cost.": _finished_grow,
        "a finished text fills the beam with copies of itself, one for every word at no cost. Only `end` is "
        "free, all other words are impossible (-inf).": _finished_free_to_say_anything,
        "a finished text was thrown out. It keeps its place as long as its score is among the k best.": (
            _finished_dropped
        ),
        "log-probabilities were multiplied. A product of probabilities is a sum of logs.": _logs_multiplied,
        "the scores so far play no part: add them to those of the next word.": (
            lambda scores, *rest: _beam_step(torch.zeros_like(scores), *rest)
        ),
        "scores are log-probabilities, these are probabilities. Stay in logs: over long texts products become 0.": (
            _probabilities
        ),
        "row and word have changed places: of index i in the flattened table of width V the row is i // V and the "
        "column i % V.": _quotient_and_rest_swapped,
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


# Exercise 7.5: pointer_weights


def _pointer(x: Tensor, h: Tensor, W: Tensor, U: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    return pointer_log_probs(x, h[:, None], W, U, v, mask[:, None])[:, 0].exp()


def _scores(x: Tensor, h: Tensor, W: Tensor, U: Tensor, v: Tensor) -> Tensor:
    return torch.tanh(x @ W.T + (h @ U.T)[:, None]) @ v


def _numbers(*rows: list[int]) -> Callable[[], tuple]:
    def make() -> tuple:
        mask = torch.tensor(rows).bool()
        W, U, v = _normal(5, 3, seed=1), _normal(5, 3, seed=2), 2 * _normal(5, seed=3)
        return _normal(*mask.shape, 3), _normal(len(rows), 3, seed=4), W, U, v, mask

    return make


pointer_weights = Check(
    "pointer_weights",
    reference=_pointer,
    cases=[
        Case("four items, all free", _numbers([1, 1, 1, 1])),
        Case("an item that was chosen before", _numbers([1, 0, 1, 1])),
        Case("two rows, one of them padded", _numbers([1, 1, 1, 1], [1, 1, 0, 0])),
        Case("only one item left", _numbers([0, 0, 1, 0])),
    ],
    traps={
        "the probabilities of a row do not sum to one: it looks as if you masked after the softmax.": (
            lambda x, h, W, U, v, mask: torch.softmax(_scores(x, h, W, U, v), -1) * mask
        ),
        "it points at items it may not point at: `mask` plays no part yet.": (
            lambda x, h, W, U, v, mask: torch.softmax(_scores(x, h, W, U, v), -1)
        ),
        "a score of 0 is a score like any other (exp(0) = 1). Which score has the exponential zero?": (
            lambda x, h, W, U, v, mask: torch.softmax(_scores(x, h, W, U, v) * mask, -1)
        ),
        "the mask is read the wrong way round: True means that an item may be chosen.": (
            lambda x, h, W, U, v, mask: torch.softmax(_scores(x, h, W, U, v).masked_fill(mask, -math.inf), -1)
        ),
        "there is no tanh. Without it U h adds the same to all items, and the softmax does not see it.": (
            lambda x, h, W, U, v, mask: masked_softmax((x @ W.T + (h @ U.T)[:, None]) @ v, mask)
        ),
        "W and U have changed places: in (7.7) W is for the items, U for the state.": (
            lambda x, h, W, U, v, mask: masked_softmax(_scores(x, h, U, W, v), mask)
        ),
    },
)
