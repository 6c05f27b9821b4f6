"""The exercises of chapter 02: a softmax under a mask, two scores, the largest of real items, the surrogate loss."""

import math
import warnings

import torch
from torch import Tensor

from possm_lite.blocks.attention import masked_softmax, scaled_dot_score
from possm_lite.blocks.scores import additive_score
from possm_lite.blocks.selection import leave_one_out_mean, max_pool_items, reinforce_loss
from possm_lite.classroom.checks import Case, Check, ValueCheck, normal

# --- masked_weights


def _rows(*rows: tuple[list[float], list[int]]) -> tuple[Tensor, Tensor]:
    scores, mask = zip(*rows, strict=True)
    return torch.tensor(scores), torch.tensor(mask).bool()


def _gradient(function, scores: Tensor, mask: Tensor) -> tuple[Tensor, str]:
    """Of a loss that looks at the rows with keys only, and whether a NaN was met on the way back."""
    scores = scores.clone().requires_grad_()
    weights = function(scores, mask)
    loss = (weights * normal(*weights.shape)).masked_select(mask).sum()
    (gradient,) = torch.autograd.grad(loss, scores, retain_graph=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # entering the mode below warns that it is slow
        try:
            with torch.autograd.detect_anomaly():
                torch.autograd.grad(loss, scores)
        except RuntimeError:
            return gradient, "NaN on the way back"
    return gradient, "no NaN on the way back"


def _normalised_again(scores, mask):
    weights = torch.softmax(scores, -1) * mask
    return weights / weights.sum(-1, keepdim=True)


def _exponentials_by_hand(scores, mask):
    e = torch.exp(scores) * mask
    return e / e.sum(-1, keepdim=True).clamp(min=1e-30)


_EMPTY = ([0.3, 1.0, -0.5], [0, 0, 0])

masked_weights = Check(
    "masked_weights",
    reference=masked_softmax,
    cases=[
        Case("a row in which all keys may be read", lambda: _rows(([1.0, 2.0, 0.5], [1, 1, 1]))),
        Case("a row with one padded slot", lambda: _rows(([1.0, 2.0, 0.5], [1, 1, 0]))),
        Case("a padded slot that holds 1,000,000", lambda: _rows(([1.0, 2.0, 1e6], [1, 1, 0]))),
        Case("scores above 100, where exp overflows", lambda: _rows(([120.0, 121.0, 0.0], [1, 1, 0]))),
        Case("a query that may read nothing", lambda: _rows(([1.0, 2.0, 0.5], [1, 1, 0]), _EMPTY)),
        Case("scores of shape (1, 2, 3)", lambda: tuple(x[None] for x in _rows(([1.0, 2.0, 0.5], [1, 1, 0]), _EMPTY))),
        Case("the gradient of rows with keys", lambda: _rows(([1.0, 2.0, 0.5], [1, 1, 0])), observe=_gradient),
        Case(
            "the gradient beside a row that may read nothing",
            lambda: _rows(([1.0, 2.0, 0.5], [1, 1, 0]), _EMPTY),
            observe=_gradient,
        ),
    ],
    traps={
        "the weights of a row do not sum to one: it looks as if you masked after the softmax. Mask the scores before "
        "it.": (lambda scores, mask: torch.softmax(scores, -1) * mask),
        "dividing again after the softmax cannot bring back what a large padded score has pushed to zero. Mask the "
        "scores before the softmax.": _normalised_again,
        "padding still takes part: a score of zero is a score like any other (exp(0) = 1). Which score has the "
        "exponential zero?": (lambda scores, mask: torch.softmax(scores * mask, -1)),
        "a row that may read nothing gives NaN: its scores are all -inf. Give the softmax something else in such a "
        "row, and clear the weights behind it.": (
            lambda scores, mask: torch.softmax(scores.masked_fill(~mask, -math.inf), -1)
        ),
        "the weights are right, the gradient is NaN: replacing NaN after the softmax is too late, on the way back it "
        "is met again. The softmax must never see a row of -inf alone.": (
            lambda scores, mask: torch.softmax(scores + mask.to(scores.dtype).log(), -1).nan_to_num(0.0)
        ),
        "weights and gradient are right by luck: there is a NaN on the way back, inside the softmax, and only the "
        "filling wipes it out. The softmax must never see a row of -inf alone.": (
            lambda scores, mask: torch.softmax(scores.masked_fill(~mask, -math.inf), -1).nan_to_num(0.0)
        ),
        "a row that may read nothing reads everything alike: with one large negative number in every slot, softmax "
        "sees no difference. Clear the weights of such a row.": (
            lambda scores, mask: torch.softmax(scores.masked_fill(~mask, -1e9), -1)
        ),
        "it looks as if the mask is upside down: True means that a key may be read.": (
            lambda scores, mask: masked_softmax(scores, ~mask)
        ),
        "large scores overflow in exp. torch.softmax subtracts the largest score first; let it do the work, on masked "
        "scores.": _exponentials_by_hand,
    },
)


# --- additive_scores


def _additive_inputs(B: int, n_queries: int, n_keys: int) -> tuple:
    q, k = normal(B, n_queries, 3, seed=1), normal(B, n_keys, 2, seed=2)
    return q, k, normal(5, 3, seed=3), normal(5, 2, seed=4), normal(5, seed=5)


def _transposed(q, k, W_q, W_k, w_v):
    return torch.tanh((q @ W_q.T)[:, None] + (k @ W_k.T)[:, :, None]) @ w_v


def _trial_for_query(q, k, W_q, W_k, w_v):
    return torch.tanh((q @ W_q.T)[:, :, None] + k @ W_k.T) @ w_v


def _each_with_its_own(q, k, W_q, W_k, w_v):
    return torch.tanh(q @ W_q.T + k @ W_k.T) @ w_v


def _no_tanh(q, k, W_q, W_k, w_v):
    return ((q @ W_q.T)[:, :, None] + (k @ W_k.T)[:, None]) @ w_v


def _two_tanh(q, k, W_q, W_k, w_v):
    return (torch.tanh(q @ W_q.T)[:, :, None] + torch.tanh(k @ W_k.T)[:, None]) @ w_v


def _no_readout(q, k, W_q, W_k, w_v):
    return torch.tanh((q @ W_q.T)[:, :, None] + (k @ W_k.T)[:, None]).sum(-1)


additive_scores = Check(
    "additive_scores",
    reference=additive_score,
    cases=[
        Case("one trial with as many queries as keys", lambda: _additive_inputs(1, 4, 4)),
        Case("one trial with 4 queries and 6 keys", lambda: _additive_inputs(1, 4, 6)),
        Case("three trials", lambda: _additive_inputs(3, 4, 6)),
        Case("as many trials as queries and keys", lambda: _additive_inputs(4, 4, 4)),
    ],
    traps={
        "queries and keys have changed places: the new axis of q belongs on the right of its queries, that of k on "
        "the left of its keys, so that the result is (B, Q, M).": _transposed,
        "an axis of k is missing: its trials meet the queries. k needs an axis of size one where q has its "
        "queries.": _trial_for_query,
        "query i meets key i only, there is no new axis. Every query should meet every key.": _each_with_its_own,
        "the tanh is missing. Without it the query's part is the same for all keys, and softmax drops it.": _no_tanh,
        "tanh of the parts is not tanh of their sum: add first, then bend.": _two_tanh,
        "the hidden numbers are added up as they are: each has its own weight in w_v.": _no_readout,
    },
)


# --- growth_of_spread

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


# --- head_scores


def _split(x: Tensor, n_heads: int) -> Tensor:
    return x.unflatten(-1, (n_heads, x.shape[-1] // n_heads)).transpose(1, 2)  # (B, H, n, d)


def _head_scores(queries: Tensor, keys: Tensor, n_heads: int) -> Tensor:
    return scaled_dot_score(_split(queries, n_heads), _split(keys, n_heads))


def _products(queries, keys, n_heads):
    return _split(queries, n_heads) @ _split(keys, n_heads).transpose(-1, -2)


def _wrong_split(queries, keys, n_heads):
    B, d = len(queries), queries.shape[-1] // n_heads
    q, k = (x.reshape(B, n_heads, x.shape[1], d) for x in (queries, keys))
    return scaled_dot_score(q, k)


def _head_inputs(n_heads: int, D: int, n_keys: int = 3) -> tuple:
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
            lambda q, k, H: _products(q, k, H) / math.sqrt(q.shape[-1])
        ),
        "no scale at all: the spread is the root of d now, not one.": _products,
        "that is the root of the number of heads. How many terms does the sum of one head have?": (
            lambda q, k, H: _products(q, k, H) / math.sqrt(H)
        ),
        "divided by d, not by its root: the variance is d, the standard deviation its root.": (
            lambda q, k, H: _products(q, k, H) / (q.shape[-1] // H)
        ),
        "the scale is right, the heads are not: a reshape straight to (B, H, n, d) mixes positions. Cut the last axis "
        "first, then transpose, as the given code does.": _wrong_split,
    },
)


# --- largest_of_real


def _items(*lengths: int, below: float = 0.0) -> tuple[Tensor, Tensor]:
    """Trials of 4 items of 3 features, the first `lengths` of them real, all moved down by `below`; garbage behind."""
    mask = torch.arange(4) < torch.tensor(lengths)[:, None]
    return (normal(len(lengths), 4, 3) - below).masked_fill(~mask[..., None], 1e6), mask


largest_of_real = Check(
    "largest_of_real",
    reference=lambda items, mask: max_pool_items(items, mask)[0],
    cases=[
        Case("trials without padding", lambda: _items(4, 4)),
        Case("padding that holds large numbers", lambda: _items(4, 2, 1)),
        Case("features that are negative in all items", lambda: _items(3, 1, below=5.0)),
        Case("a trial without any item", lambda: _items(2, 0)),
    ],
    traps={
        "padding can win: nothing keeps it out of the maximum.": lambda x, mask: x.max(1).values,
        "padding counts as zero, and zero wins over negative numbers. What loses against everything?": (
            lambda x, mask: (x * mask[..., None]).max(1).values
        ),
        "the largest feature of each item. For each feature the largest item is wanted: the other axis.": (
            lambda x, mask: x.masked_fill(~mask[..., None], 0.0).max(-1).values
        ),
        "a trial without items gives minus infinity: give zeros there.": (
            lambda x, mask: x.masked_fill(~mask[..., None], -math.inf).max(1).values
        ),
    },
)


# --- surrogate


def _surrogate_inputs(baseline: float | None = None) -> tuple:
    """log p and losses of four choices; a baseline of None is the mean of the other losses."""
    log_p, loss = torch.tensor([-0.5, -1.2, -0.1, -2.0]), torch.tensor([2.0, 0.5, 1.0, 3.0])
    return log_p, loss, baseline


def _shape(function, *args) -> Tensor:
    return torch.zeros_like(function(*args))


def _gradients(function, log_p: Tensor, loss: Tensor, baseline: float | None) -> tuple[Tensor, Tensor]:
    """For log p, and for a weight a that made the loss (and, if it is made of the losses, the baseline)."""
    log_p, a = log_p.clone().requires_grad_(), torch.tensor(1.0, requires_grad=True)
    made = loss * a
    result = function(log_p, made, leave_one_out_mean(made) if baseline is None else baseline)
    total = (result * torch.tensor([1.0, 2.0, 3.0, 4.0])).sum() + 0 * (log_p.sum() + a)
    return torch.autograd.grad(total, (log_p, a))


def _for_log_p(function, *args) -> Tensor:
    return _gradients(function, *args)[0]


surrogate = Check(
    "surrogate",
    reference=reinforce_loss,
    cases=[
        Case("the shape of the result", lambda: _surrogate_inputs(0.0), observe=_shape),
        Case("the gradient for log_p, baseline 0", lambda: _surrogate_inputs(0.0), observe=_for_log_p),
        Case("the gradient for log_p, baseline 1.5", lambda: _surrogate_inputs(1.5), observe=_for_log_p),
        Case("the gradients for log_p and for what made the loss", lambda: _surrogate_inputs(1.5), observe=_gradients),
        Case("a baseline made of the other losses", _surrogate_inputs, observe=_gradients),
    ],
    traps={
        "the sign is that of a reward: a choice with a high loss becomes more likely. A loss goes the other way.": (
            lambda log_p, loss, b: loss - (loss - b).detach() * log_p
        ),
        "nothing is stopped: the weights that made the loss get a second gradient, through the factor (L - b). It "
        "should be a plain number: detach it.": (lambda log_p, loss, b: loss + (loss - b) * log_p),
        "the baseline is not stopped: gradient flows into what it was made of. Detach the whole bracket.": (
            lambda log_p, loss, b: loss + (loss.detach() - b) * log_p
        ),
        "the first term is missing: whatever made the loss out of the chosen item would not learn.": (
            lambda log_p, loss, b: (loss - b).detach() * log_p
        ),
        "the baseline is taken off twice: it belongs in the bracket only, the loss itself stays as it is.": (
            lambda log_p, loss, b: loss - b + (loss - b).detach() * log_p
        ),
        "p where log p should be: each draw comes with frequency p already, so its own p must not count again.": (
            lambda log_p, loss, b: loss + (loss - b).detach() * log_p.exp()
        ),
        "the baseline is not used.": (lambda log_p, loss, b: loss + loss.detach() * log_p),
        "the mean is taken already: one number for each choice is wanted, the caller averages.": (
            lambda log_p, loss, b: reinforce_loss(log_p, loss, b).mean()
        ),
    },
)
