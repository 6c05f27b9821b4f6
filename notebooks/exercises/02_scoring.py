"""Exercises of chapter 02: a softmax under a mask, two scores, the largest of real items, the surrogate loss."""

import math
import warnings
from functools import partial

import torch

from possm_lite.blocks.selection import leave_one_out_mean
from possm_lite.classroom.checks import Case, Check, ValueCheck, gradient, normal


def _first(x, *_):
    """The first argument, unchanged: a step that is left out."""
    return x


# Exercise 2.1: softmax under a mask


def _masked_weights(
    scores,
    mask,
    *,
    before=lambda s, m: s.masked_fill(~m, torch.finfo(s.dtype).min),
    softmax=lambda s: torch.softmax(s, -1),
    after=torch.mul,
):
    return after(softmax(before(scores, mask)), mask)


def _minus_infinity(scores, mask):
    return scores.masked_fill(~mask, -math.inf)


def _rows(*rows):
    scores, mask = zip(*rows, strict=True)
    return torch.tensor(scores), torch.tensor(mask).bool()


def _gradient_and_nan(function, scores, mask):
    """The gradient, and whether there is a NaN in the backward pass, even one that is replaced later."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # detect_anomaly warns that it is slow
        try:
            with torch.autograd.detect_anomaly():
                return gradient(0)(function, scores, mask), "no NaN on the way back"
        except RuntimeError:
            return gradient(0)(function, scores, mask), "NaN on the way back"


_FULL = ([1.0, 2.0, 0.5], [1, 1, 1])
_PADDED = ([1.0, 2.0, 0.5], [1, 1, 0])
_EMPTY = ([0.3, 1.0, -0.5], [0, 0, 0])

masked_weights = Check(
    "masked_weights",
    reference=_masked_weights,
    cases=[
        Case("a row in which all keys may be read", lambda: _rows(_FULL)),
        Case("a row with one padded slot", lambda: _rows(_PADDED)),
        Case("a padded slot that holds 1,000,000", lambda: _rows(([1.0, 2.0, 1e6], [1, 1, 0]))),
        Case("scores above 100, where exp overflows", lambda: _rows(([120.0, 121.0, 0.0], [1, 1, 0]))),
        Case("a query that may read nothing", lambda: _rows(_PADDED, _EMPTY)),
        Case("scores of shape (1, 2, 3)", lambda: tuple(x[None] for x in _rows(_PADDED, _EMPTY))),
        Case("the gradient of rows with keys", lambda: _rows(_PADDED), _gradient_and_nan),
        Case("the gradient beside a row that may read nothing", lambda: _rows(_PADDED, _EMPTY), _gradient_and_nan),
    ],
    traps={
        "the weights of a row do not sum to one: it looks as if you masked after the softmax. Mask the scores before "
        "it.": partial(_masked_weights, before=_first),
        "dividing again after the softmax cannot bring back what a large padded score has pushed to zero. Mask the "
        "scores before the softmax.": (
            partial(_masked_weights, before=_first, after=lambda p, m: p * m / (p * m).sum(-1, keepdim=True))
        ),
        "padding still takes part: a score of zero is a score like any other (exp(0) = 1). Which score has the "
        "exponential zero?": partial(_masked_weights, before=torch.mul, after=_first),
        "a row that may read nothing gives NaN: its scores are all -inf. Give the softmax something else in such a "
        "row, and set its weights to zero afterwards.": partial(_masked_weights, before=_minus_infinity, after=_first),
        "the weights are right, the gradient is NaN: replacing NaN after the softmax is too late, on the way back it "
        "is met again. The softmax must never see a row of -inf alone.": partial(
            _masked_weights, before=lambda s, m: s + m.to(s.dtype).log(), after=lambda p, m: p.nan_to_num(0.0)
        ),
        "weights and gradient are right by luck: there is a NaN on the way back, inside the softmax, and only the "
        "filling wipes it out. The softmax must never see a row of -inf alone.": (
            partial(_masked_weights, before=_minus_infinity, after=lambda p, m: p.nan_to_num(0.0))
        ),
        "a row that may read nothing reads all slots equally: with one large negative number in every slot, softmax "
        "sees no difference. Set the weights of such a row to zero.": partial(_masked_weights, after=_first),
        "it looks as if the mask is upside down: True means that a key may be read.": (
            lambda scores, mask: _masked_weights(scores, ~mask)
        ),
        "large scores overflow in exp. torch.softmax subtracts the largest score first; let it do the work, on masked "
        "scores.": partial(
            _masked_weights,
            before=lambda s, m: s.exp() * m,
            softmax=lambda e: e / e.sum(-1, keepdim=True).clamp(min=1e-30),
            after=_first,
        ),
    },
)

# Exercise 2.2: additive scores


def _additive_scores(
    q,
    k,
    W_q,
    W_k,
    w_v,
    *,
    pair=lambda q, k: q[:, :, None] + k[:, None],
    activation=torch.tanh,
    readout=torch.matmul,
):
    return readout(activation(pair(q @ W_q.T, k @ W_k.T)), w_v)


def _additive_inputs(B, n_queries, n_keys):
    q, k = normal(B, n_queries, 3, seed=1), normal(B, n_keys, 2, seed=2)
    return q, k, normal(5, 3, seed=3), normal(5, 2, seed=4), normal(5, seed=5)


additive_scores = Check(
    "additive_scores",
    reference=_additive_scores,
    cases=[
        Case("one trial with as many queries as keys", lambda: _additive_inputs(1, 4, 4)),
        Case("one trial with 4 queries and 6 keys", lambda: _additive_inputs(1, 4, 6)),
        Case("three trials", lambda: _additive_inputs(3, 4, 6)),
        Case("as many trials as queries and keys", lambda: _additive_inputs(4, 4, 4)),
    ],
    traps={
        "queries and keys have changed places: the new axis of q belongs on the right of its queries, that of k on "
        "the left of its keys, so that the result is (B, Q, M).": (
            partial(_additive_scores, pair=lambda q, k: q[:, None] + k[:, :, None])
        ),
        "an axis of k is missing: its trials meet the queries. k needs an axis of size one where q has its "
        "queries.": partial(_additive_scores, pair=lambda q, k: q[:, :, None] + k),
        "query i meets key i only, there is no new axis. Every query should meet every key.": (
            partial(_additive_scores, pair=torch.add)
        ),
        "the tanh is missing. Without it the query's part is the same for all keys, and softmax drops it.": (
            partial(_additive_scores, activation=_first)
        ),
        "tanh of the parts is not tanh of their sum: add first, then bend.": (
            partial(_additive_scores, pair=lambda q, k: q.tanh()[:, :, None] + k.tanh()[:, None], activation=_first)
        ),
        "the hidden numbers are added up as they are: each has its own weight in w_v.": (
            partial(_additive_scores, readout=lambda h, w_v: h.sum(-1))
        ),
    },
)

# Exercise 2.3: the spread of a dot product, sqrt(256 / 16)

growth_of_spread = ValueCheck(
    "growth_of_spread",
    expected=4.0,
    tolerance=0.01,
    traps={
        "that is how the variance grows. The standard deviation is its square root.": 16.0,
        "the dot product does grow: it is not divided by anything yet.": 1.0,
        "the right number, the wrong way round: a sum of more terms spreads wider.": 0.25,
        "that is the square root once too often: variance 16-fold, and then one root.": 2.0,
    },
)

# Exercise 2.4: scaled scores of each head


def _split(x, n_heads):
    return x.unflatten(-1, (n_heads, -1)).transpose(1, 2)  # (B, H, n, d)


def _head_scores(queries, keys, n_heads, *, split=_split, scale=lambda D, H: math.sqrt(D // H)):
    return split(queries, n_heads) @ split(keys, n_heads).mT / scale(queries.shape[-1], n_heads)


def _head_inputs(n_heads, D, n_keys=3):
    return normal(2, 4, D, seed=1), normal(2, n_keys, D, seed=2), n_heads


head_scores = Check(
    "head_scores",
    reference=_head_scores,
    cases=[
        Case("a single head", lambda: _head_inputs(1, 6)),
        Case("eight heads of two", lambda: _head_inputs(8, 16)),
        Case("two heads of eight", lambda: _head_inputs(2, 16)),
        Case("three heads of three", lambda: _head_inputs(3, 9, n_keys=5)),
    ],
    traps={
        "still divided by the root of the model's size D. The sum of one head has only d = D / n_heads terms.": (
            partial(_head_scores, scale=lambda D, H: math.sqrt(D))
        ),
        "no scale at all: the spread is the root of d now, not one.": partial(_head_scores, scale=lambda D, H: 1),
        "that is the root of the number of heads. How many terms does the sum of one head have?": (
            partial(_head_scores, scale=lambda D, H: math.sqrt(H))
        ),
        "divided by d, not by its root: the variance is d, the standard deviation its root.": (
            partial(_head_scores, scale=lambda D, H: D // H)
        ),
        "the scale is right, the heads are not: a reshape straight to (B, H, n, d) mixes positions. Cut the last axis "
        "first, then transpose, as the given code does.": (
            partial(_head_scores, split=lambda x, H: x.reshape(len(x), H, x.shape[1], -1))
        ),
    },
)

# Exercise 2.5: the largest of the real items


def _largest(
    items,
    mask,
    *,
    before=_minus_infinity,
    axis=1,
    after=lambda largest, mask: largest.masked_fill(~mask.any(1), 0.0),
):
    return after(before(items, mask[..., None]).max(axis).values, mask[..., None])


def _items(*lengths, below=0.0):
    """Trials of 4 items of 3 features, the first `lengths` of them real, all reduced by `below`; large padding."""
    mask = torch.arange(4) < torch.tensor(lengths)[:, None]
    return (normal(len(lengths), 4, 3) - below).masked_fill(~mask[..., None], 1e6), mask


largest_of_real = Check(
    "largest_of_real",
    reference=_largest,
    cases=[
        Case("trials without padding", lambda: _items(4, 4)),
        Case("padding that holds large numbers", lambda: _items(4, 2, 1)),
        Case("features that are negative in all items", lambda: _items(3, 1, below=5.0)),
        Case("a trial without any item", lambda: _items(2, 0)),
    ],
    traps={
        "padding can win: nothing keeps it out of the maximum.": partial(_largest, before=_first, after=_first),
        "padding counts as zero, and zero wins over negative numbers. What loses against everything?": (
            partial(_largest, before=torch.mul)
        ),
        "the largest feature of each item. For each feature the largest item is wanted: the other axis.": (
            partial(_largest, before=torch.mul, axis=-1, after=_first)
        ),
        "a trial without items gives minus infinity: give zeros there.": partial(_largest, after=_first),
    },
)

# Exercise 2.6: the surrogate loss


def _surrogate(log_p, loss, baseline, *, first=_first, factor=lambda loss, b: (loss - b).detach()):
    return first(loss, baseline) + factor(loss, baseline) * log_p


def _choices(*baseline):
    """log p and losses of four choices, and a baseline if there is one."""
    return torch.tensor([-0.5, -1.2, -0.1, -2.0]), torch.tensor([2.0, 0.5, 1.0, 3.0]), *baseline


def _shape(function, *args):
    return torch.zeros_like(function(*args))


def _gradients_with_leave_one_out(function, *args):
    return gradient(0, 1)(lambda log_p, loss: function(log_p, loss, leave_one_out_mean(loss)), *args)


surrogate = Check(
    "surrogate",
    reference=_surrogate,
    cases=[
        Case("the shape of the result", lambda: _choices(0.0), _shape),
        Case("the gradient for log_p, baseline 0", lambda: _choices(0.0), gradient(0)),
        Case("the gradient for log_p, baseline 1.5", lambda: _choices(1.5), gradient(0)),
        Case("the gradients for log_p and for what made the loss", lambda: _choices(1.5), gradient(0, 1)),
        Case("a baseline made of the other losses", _choices, _gradients_with_leave_one_out),
    ],
    traps={
        "the sign is that of a reward: a choice with a high loss becomes more likely. A loss goes the other way.": (
            partial(_surrogate, factor=lambda loss, b: (b - loss).detach())
        ),
        "nothing is stopped: the weights that made the loss get a second gradient, through the factor (L - b). It "
        "should be a plain number: detach it.": partial(_surrogate, factor=torch.sub),
        "the baseline is not stopped: gradient flows into what it was made of. Detach the whole bracket.": (
            partial(_surrogate, factor=lambda loss, b: loss.detach() - b)
        ),
        "the first term is missing: whatever made the loss out of the chosen item would not learn.": (
            partial(_surrogate, first=lambda loss, b: 0)
        ),
        "the baseline is taken off twice: it belongs in the bracket only, the loss itself stays as it is.": (
            partial(_surrogate, first=torch.sub)
        ),
        "p where log p should be: each draw comes with frequency p already, so its own p must not count again.": (
            lambda log_p, loss, b: _surrogate(log_p.exp(), loss, b)
        ),
        "the baseline is not used.": partial(_surrogate, factor=lambda loss, b: loss.detach()),
        "the mean is taken already: one number for each choice is wanted, the caller averages.": (
            lambda log_p, loss, b: _surrogate(log_p, loss, b).mean()
        ),
    },
)
