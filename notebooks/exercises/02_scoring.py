"""Exercises of chapter 02: a softmax under a mask, scores, the largest of real items, the surrogate loss, pooling."""

import math
import warnings
from functools import partial

import torch

from possm_lite.blocks.selection import leave_one_out_mean
from possm_lite.classroom.checks import Case, Check, Complaint, ValueCheck, as_tensor, gradient, normal


def _first(x, *_):
    """The first argument, unchanged: a step that is left out."""
    return x


def _gradients(*names):
    """Observe the gradient for each of the first arguments, by name."""

    def observe(function, *args):
        observed = gradient(*range(len(names)))(function, *args)
        return {f"the gradient for {name}": x for name, x in zip(names, observed.values(), strict=True)}

    return observe


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


def _from_largest_with_zeros(scores, mask):
    """exp of the distance to the largest score, with zeros for padding among the scores: it underflows."""
    e = (scores - (scores * mask).amax(-1, keepdim=True)).exp() * mask
    return e / e.sum(-1, keepdim=True).clamp(min=1e-30)


def _hidden_by_where(scores, mask):
    """Weights in which padding is hidden after exp: inf there is gone from the weights, but not from the gradient."""
    largest = _minus_infinity(scores, mask).amax(-1, keepdim=True).nan_to_num(neginf=0.0)
    e = torch.where(mask, (scores - largest).exp(), 0.0)
    return e / e.sum(-1, keepdim=True).clamp(min=1e-30)


def _all_slots_of_an_index(scores, mask):
    """One softmax for each index of the first axis, also where that holds several rows."""
    weights = torch.zeros_like(scores)
    for i in range(len(scores)):
        weights[i, mask[i]] = torch.softmax(scores[i, mask[i]], 0)
    return weights


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
            by_scores = gradient(0)(function, scores, mask)
            # which numbers are NaN depends on how the largest score is found
            return by_scores.fill_(math.nan) if by_scores.isnan().any() else by_scores, "NaN on the way back"


_FULL = ([1.0, 2.0, 0.5], [1, 1, 1])
_PADDED = ([1.0, 2.0, 0.5], [1, 1, 0])
_FAR = ([-200.0, -201.0, 0.0], [1, 1, 0]), ([-97.0, -98.0, 7.0], [1, 1, 0])
_HIGH = ([1.0, 2.0, 1e6], [1, 1, 0])
_EMPTY = ([0.3, 1.0, -0.5], [0, 0, 0])

masked_weights = Check(
    "masked_weights",
    reference=_masked_weights,
    cases=[
        Case("a row in which all keys may be read", lambda: _rows(_FULL)),
        Case("a row with one padded slot", lambda: _rows(_PADDED)),
        Case("a mask with a gap", lambda: _rows(([1.0, 2.0, 0.5], [1, 0, 1]))),
        Case("a padded slot that holds 1,000,000", lambda: _rows(_HIGH)),
        Case("scores above 100, where exp overflows", lambda: _rows(([120.0, 121.0, 0.0], [1, 1, 0]))),
        Case("a query that may read nothing", lambda: _rows(_PADDED, _EMPTY)),
        Case("real scores near -200", lambda: _rows(*_FAR)),
        # scores in float32 are exact to 1e-3 here, and so is a right answer that subtracts their logsumexp
        Case("real scores near -30,000", lambda: _rows(([-30000.0, -30001.0, 0.0], [1, 1, 0])), tolerance=1e-3),
        Case("scores of shape (1, 2, 3)", lambda: tuple(x[None] for x in _rows(_PADDED, _EMPTY))),
        Case("scores of shape (2, 2, 3)", lambda: tuple(x.expand(2, 2, 3).clone() for x in _rows(_PADDED, _FULL))),
        Case("the gradient of rows with keys", lambda: _rows(_PADDED), _gradient_and_nan),
        Case("the gradient beside padding of 1,000,000", lambda: _rows(_HIGH), _gradient_and_nan),
        Case("the gradient beside a row that may read nothing", lambda: _rows(_PADDED, _EMPTY), _gradient_and_nan),
    ],
    traps={
        "the weights of a row do not sum to one: it looks as if you masked after the softmax. Mask the scores before "
        "it.": partial(_masked_weights, before=_first),
        "a large score of padding has pushed the others to zero, and dividing again cannot bring them back. Mask the "
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
        "weights and gradient are right, but there is a NaN on the way back, inside the softmax, and only the filling "
        "wipes it out. The softmax must never see a row of -inf alone.": (
            partial(_masked_weights, before=_minus_infinity, after=lambda p, m: p.nan_to_num(0.0))
        ),
        "the weights are right, the gradient is NaN: exp of a large score of padding is infinite, and zeros in its "
        "place are too late, on the way back it is met again. Mask the scores before exp.": _hidden_by_where,
        "the mask is only counted: it need not hide the last slots, so take it as it is.": lambda scores, mask: (
            _masked_weights(scores, torch.arange(scores.shape[-1]) < mask.sum(-1, keepdim=True))
        ),
        "a row that may read nothing reads all slots equally: with one large negative number in every slot, softmax "
        "sees no difference. Set the weights of such a row to zero.": partial(_masked_weights, after=_first),
        "it looks as if the mask is upside down: True means that a key may be read.": (
            lambda scores, mask: _masked_weights(scores, ~mask)
        ),
        "large scores overflow in exp, and far below zero nothing is left of them. torch.softmax subtracts the largest "
        "score first; let it do the work, on masked scores.": partial(
            _masked_weights,
            before=lambda s, m: s.exp() * m,
            softmax=lambda e: e / e.sum(-1, keepdim=True),
            after=_first,
        ),
        "padding has a score of -100, and a real score can be lower than that. Which score loses against all?": partial(
            _masked_weights, before=lambda s, m: s.masked_fill(~m, -100.0)
        ),
        "a row of low scores vanishes: the largest score that is subtracted is one of padding, filled with zero. Take "
        "it over the real scores.": _from_largest_with_zeros,
        "a row sums to less than one where there are several rows to an index: each needs a softmax of its own, over "
        "the last axis.": _all_slots_of_an_index,
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
        Case("the gradients", lambda: _additive_inputs(3, 4, 6), _gradients("q", "k", "W_q", "W_k", "w_v")),
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
        "a sigmoid, not a tanh: it is never below zero.": partial(_additive_scores, activation=torch.sigmoid),
        "the key's part is taken off. The two are added.": (
            partial(_additive_scores, pair=lambda q, k: q[:, :, None] - k[:, None])
        ),
        "these are weights already: the softmax comes later, the scores are wanted.": (
            partial(_additive_scores, readout=lambda h, w_v: torch.softmax(h @ w_v, -1))
        ),
        "the hidden numbers are added up as they are: each has its own weight in w_v.": (
            partial(_additive_scores, readout=lambda h, w_v: h.sum(-1))
        ),
    },
)

# Exercise 2.3: two projections of a bilinear score


def _two_projections(W, d, *, left=torch.sqrt, right=torch.sqrt):
    U, sigma, Vh = torch.linalg.svd(W, full_matrices=False)
    W_q, W_k = (W.new_zeros(d, n) for n in W.shape)  # rows of zeros if d is larger than both sizes
    n = min(d, len(sigma))
    W_q[:n], W_k[:n] = left(sigma)[:n, None] * U[:, :n].T, right(sigma)[:n, None] * Vh[:n]
    return W_q, W_k


def _bilinear_matrix(function, W, d):
    """W_q^T W_k, which all right answers share."""
    pair = function(W, d)
    if not isinstance(pair, list | tuple | torch.Tensor) or len(pair) != 2:
        raise Complaint("expected two matrices, W_q and W_k.")
    pair = [as_tensor(x) for x in pair]
    for name, x, n in zip(("W_q", "W_k"), pair, W.shape, strict=True):
        if not isinstance(x, torch.Tensor) or x.shape != (d, n):
            got = tuple(x.shape) if isinstance(x, torch.Tensor) else type(x).__name__
            raise Complaint(f"{name} should have shape {(d, n)}, got {got}.")
    return pair[0].to(W.dtype).T @ pair[1].to(W.dtype)


def _of_rank(rank, d_q, d_k):
    return normal(d_q, rank, seed=1) @ normal(rank, d_k, seed=2)


two_projections = Check(
    "two_projections",
    reference=_two_projections,
    cases=[
        Case("a square W and d = 3", lambda: (_of_rank(3, 3, 3), 3), _bilinear_matrix, 1e-4),
        Case("a W of rank one and d = 1", lambda: (_of_rank(1, 4, 3), 1), _bilinear_matrix, 1e-4),
        Case("a W (4, 6) of rank two and d = 2", lambda: (_of_rank(2, 4, 6), 2), _bilinear_matrix, 1e-4),
        Case("a d above the rank", lambda: (_of_rank(1, 5, 3), 2), _bilinear_matrix, 1e-4),
    ],
    traps={
        "W_q and W_k have changed places: the first one belongs to the query.": (
            lambda W, d: _two_projections(W, d)[::-1]
        ),
        "the singular values are in neither matrix. Give them to one, or their roots to both.": partial(
            _two_projections, left=torch.ones_like, right=torch.ones_like
        ),
        "the singular values are in both matrices, so each counts squared. Give them to one, or their roots to "
        "both.": partial(_two_projections, left=_first, right=_first),
        "the roots of the singular values are in one matrix only. Give them to both.": partial(
            _two_projections, right=torch.ones_like
        ),
    },
)

# Exercise 2.4: the spread of a dot product, sqrt(256 / 16)

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

# Exercise 2.5: scaled scores of each head


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
        "the scale is right, the heads are not: they take their numbers in turn. Head h has those from h*d to "
        "h*d + d-1, side by side.": (
            partial(_head_scores, split=lambda x, H: x.unflatten(-1, (-1, H)).permute(0, 3, 1, 2))
        ),
        "the scale is right, the heads are not: a reshape straight to (B, H, n, d) mixes positions. Cut the last axis "
        "first, then transpose, as the given code does.": (
            partial(_head_scores, split=lambda x, H: x.reshape(len(x), H, x.shape[1], -1))
        ),
    },
)

# Exercise 2.6: the largest of the real items


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


def _gaps():
    """Trials whose padding is not at the end."""
    mask = torch.tensor([[False, True, False, True], [False, False, True, True]])
    return normal(2, 4, 3).masked_fill(~mask[..., None], 1e6), mask


def _first_of(items, mask):
    """The largest of the first items, as many as are real."""
    return _largest(items, torch.arange(mask.shape[1]) < mask.sum(1, keepdim=True))


largest_of_real = Check(
    "largest_of_real",
    reference=_largest,
    cases=[
        Case("trials without padding", lambda: _items(4, 4)),
        Case("padding that holds large numbers", lambda: _items(4, 2, 1)),
        Case("features that are negative in all items", lambda: _items(3, 1, below=5.0)),
        Case("features far below zero", lambda: _items(3, 1, below=20_000.0)),
        Case("a mask with gaps", _gaps),
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
        "the mask does not only count: which items are real, it says slot by slot, and the first may be padding.": (
            _first_of
        ),
        "padding has -100, and a real feature can be lower than that. What loses against everything?": partial(
            _largest, before=lambda x, m: x.masked_fill(~m, -100.0)
        ),
        "it looks as if the mask is upside down: True means that an item is real.": (
            lambda items, mask: _largest(items, ~mask)
        ),
        "it looks as if the items are masked upside down: True means that an item is real.": partial(
            _largest, before=lambda x, m: _minus_infinity(x, ~m)
        ),
    },
)

# Exercise 2.7: the surrogate loss


def _surrogate(log_p, loss, baseline, *, first=_first, factor=lambda loss, b: (loss - b).detach()):
    return first(loss, baseline) + factor(loss, baseline) * log_p


def _choices(*baseline):
    """log p and losses of four choices, and a baseline if there is one."""
    return torch.tensor([-0.5, -1.2, -0.1, -2.0]), torch.tensor([2.0, 0.5, 1.0, 3.0]), *baseline


def _gradients_with_leave_one_out(function, *args):
    return _gradients("log_p", "loss")(lambda log_p, loss: function(log_p, loss, leave_one_out_mean(loss)), *args)


surrogate = Check(
    "surrogate",
    reference=_surrogate,
    cases=[
        Case("the value, baseline 0", lambda: _choices(0.0)),
        Case("the gradient for log_p, baseline 0", lambda: _choices(0.0), gradient(0)),
        Case("the gradient for log_p, baseline 1.5", lambda: _choices(1.5), gradient(0)),
        Case("the gradients for log_p and for what made the loss", lambda: _choices(1.5), _gradients("log_p", "loss")),
        Case("a baseline made of the other losses", _choices, _gradients_with_leave_one_out),
    ],
    traps={
        "the sign is that of a reward: a choice with a high loss becomes more likely. A loss goes the other way.": (
            partial(_surrogate, factor=lambda loss, b: (b - loss).detach())
        ),
        "nothing is stopped: the weights that made the loss get a second gradient, through the factor (L - c). It "
        "should be a plain number: detach it.": partial(_surrogate, factor=torch.sub),
        "the baseline is not stopped: gradient flows into what it was made of. Detach the whole bracket.": (
            partial(_surrogate, factor=lambda loss, b: loss.detach() - b)
        ),
        "the first term is stopped, too: only the bracket is a plain number.": (
            partial(_surrogate, first=lambda loss, b: loss.detach())
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
        "the gradient for log p is stopped: only the bracket is a plain number.": (
            lambda log_p, loss, b: _surrogate(log_p.detach(), loss, b)
        ),
        "the value is not right: return (2.15) as it is written, with the loss as its first term.": (
            lambda log_p, loss, b: _surrogate(log_p, loss, b) - loss.detach()
        ),
        "the baseline is not used.": partial(_surrogate, factor=lambda loss, b: loss.detach()),
        "the mean is taken already: one number for each choice is wanted, the caller averages.": (
            lambda log_p, loss, b: _surrogate(log_p, loss, b).mean()
        ),
    },
)

# Exercise 2.8: pooling with one of three scores


def _softmax_by_hand(scores):
    e = (scores - scores.amax(-1, keepdim=True)).exp()
    return e / e.sum(-1, keepdim=True)


def _masked_pooling(
    q,
    k,
    v,
    mask,
    weights,
    *,
    scale=math.sqrt,
    scale_bilinear=lambda d: 1,
    pair=lambda q, k: q[:, :, None] + k[:, None],
    activation=torch.tanh,
    readable=lambda mask: mask[:, None],
    hide=lambda s, m: s.masked_fill(~m, -1e30),
    softmax=_softmax_by_hand,
    clear=lambda p, m: p * m.any(-1, keepdim=True),
    finish=lambda y: y,
):
    if not weights:
        scores = q @ k.mT / scale(q.shape[-1])
    elif len(weights) == 1:
        scores = q @ weights[0] @ k.mT / scale_bilinear(k.shape[-1])
    else:
        W_q, W_k, w_v = weights
        scores = activation(pair(q @ W_q.T, k @ W_k.T)) @ w_v
    mask = readable(mask)  # (B, 1, M)
    return finish(clear(softmax(hide(scores, mask)), mask) @ v)


def _to_pool(kind, *lengths, n_queries=3, scale=1.0, padding=1e3, gaps=False, low=False):
    """Makes queries, keys and values of trials of these lengths, and the weights of a score."""

    def make():
        B, M = len(lengths), max(lengths)
        d_q, d_k = (4, 4) if kind == "dot" else (3, 2)
        shapes = {"dot": [], "bilinear": [(d_q, d_k)], "additive": [(5, d_q), (5, d_k), (5,)]}[kind]
        weights = tuple(normal(*shape, seed=4 + i) for i, shape in enumerate(shapes))
        weights = (*weights[:-1], scale * weights[-1]) if weights else ()
        mask = torch.arange(M) < torch.tensor(lengths)[:, None]
        mask = mask.flip(1) if gaps else mask
        q, k, v = normal(B, n_queries, d_q, seed=1), normal(B, M, d_k, seed=2), normal(B, M, 2, seed=3)
        q, k = (-q.abs(), k.abs()) if low else (q, k)  # all scores below zero
        q = q if weights else scale * q
        k, v = (x.masked_fill(~mask[..., None], padding) for x in (k, v))
        return q, k, v, mask, weights

    return make


def _gradients_of_all(function, q, k, v, mask, weights):
    names = {0: (), 1: ("W",), 3: ("W_q", "W_k", "w_v")}[len(weights)]
    return _gradients("q", "k", "v", *names)(lambda q, k, v, *w: function(q, k, v, mask, w), q, k, v, *weights)


masked_pooling = Check(
    "masked_pooling",
    reference=_masked_pooling,
    cases=[
        Case("the dot product of one trial", _to_pool("dot", 5), tolerance=1e-4),
        Case("the bilinear score of one trial", _to_pool("bilinear", 5), tolerance=1e-4),
        Case("the additive score of one trial", _to_pool("additive", 5), tolerance=1e-4),
        Case("the bilinear score of two trials", _to_pool("bilinear", 4, 4), tolerance=1e-4),
        Case("the additive score of three trials, queries and keys", _to_pool("additive", 3, 3, 3), tolerance=1e-4),
        Case("padding", _to_pool("dot", 4, 2), tolerance=1e-4),
        Case("padding in as many trials as queries", _to_pool("dot", 4, 2, 3), tolerance=1e-4),
        Case("padding at the beginning", _to_pool("additive", 4, 2, gaps=True), tolerance=1e-4),
        Case("dot products in the thousands", _to_pool("dot", 4, 3, scale=3e3), tolerance=1e-4),
        Case("dot products far below zero", _to_pool("dot", 4, 3, scale=5e3, low=True), tolerance=1e-4),
        Case("additive scores in the thousands", _to_pool("additive", 4, 3, scale=3e3), tolerance=1e-4),
        Case("a trial without any key", _to_pool("bilinear", 4, 0), tolerance=1e-4),
        Case("the gradients of the dot product", _to_pool("dot", 4, 0), _gradients_of_all, 1e-4),
        Case("the gradients beside large padding", _to_pool("dot", 4, 2), _gradients_of_all, 1e-4),
        Case("the gradients of the bilinear score", _to_pool("bilinear", 4, 0), _gradients_of_all, 1e-4),
        Case("the gradients of the additive score", _to_pool("additive", 4, 0, padding=1.0), _gradients_of_all, 1e-4),
    ],
    traps={
        "the dot product is not scaled: divide it by the root of d.": partial(_masked_pooling, scale=lambda d: 1),
        "the dot product is divided by d, not by its square root.": partial(_masked_pooling, scale=lambda d: d),
        "the bilinear score is divided, too: (2.4) is not.": partial(_masked_pooling, scale_bilinear=math.sqrt),
        "it looks as if the mask is upside down: True means that a key is real.": partial(
            _masked_pooling, readable=lambda mask: ~mask[:, None]
        ),
        "the mask lacks the axis of the queries, so that its trials meet them.": partial(
            _masked_pooling, readable=lambda mask: mask
        ),
        "the tanh is missing in the additive score.": partial(_masked_pooling, activation=_first),
        "an axis of k is missing in the additive score: its trials meet the queries.": partial(
            _masked_pooling, pair=lambda q, k: q[:, :, None] + k
        ),
        "padding is read: the mask is not used.": partial(_masked_pooling, hide=_first),
        "the mask comes after the softmax, so the weights of a row do not sum to one.": partial(
            _masked_pooling, hide=_first, clear=torch.mul
        ),
        "a real score can be lower than the number that you gave to padding.": partial(
            _masked_pooling, hide=lambda s, m: s.masked_fill(~m, -100.0), clear=torch.mul
        ),
        "exp of a large score is infinite, and infinity times zero is NaN. Mask the scores, not their exponentials, "
        "and subtract the largest of each row.": partial(
            _masked_pooling,
            hide=lambda s, m: s.exp() * m,
            softmax=lambda e: e / e.sum(-1, keepdim=True).clamp(min=1e-9),
            clear=_first,
        ),
        "a large score of padding has pushed the others to zero, and dividing again cannot bring them back. Mask the "
        "scores first.": partial(
            _masked_pooling,
            hide=_first,
            clear=lambda p, m: p * m / (p * m).sum(-1, keepdim=True).clamp(min=1e-9),
        ),
        "the values are right and a gradient is NaN: exp of a large score of padding is infinite, and zeros in its "
        "place are too late. Mask the scores before exp.": lambda q, k, v, mask, weights: _masked_pooling(
            q, k * mask.any(1)[:, None, None], v, mask, weights, hide=_hidden_by_where, softmax=_first, clear=_first
        ),
        "padding has a score of zero. exp(0) is one, a share like any other.": partial(
            _masked_pooling, hide=lambda s, m: s * m, clear=_first
        ),
        "exp of a large score is infinite. Subtract the largest score of each row before exp.": partial(
            _masked_pooling, softmax=lambda s: s.exp() / s.exp().sum(-1, keepdim=True)
        ),
        "a trial without any key reads its padding evenly: give zeros there.": partial(_masked_pooling, clear=_first),
        "a trial without any key is NaN: all its scores are -inf. Let such a row compute on zeros, then clear it.": (
            partial(_masked_pooling, hide=_minus_infinity, clear=_first)
        ),
        "the values are right and a gradient is NaN: the answer of a trial without any key was NaN, and replaced only "
        "afterwards. Let such a row compute on zeros.": partial(
            _masked_pooling, hide=_minus_infinity, clear=_first, finish=torch.nan_to_num
        ),
        "the values are right and a gradient is NaN: all scores of a trial without any key were -inf, and cleared only "
        "afterwards. Let such a row compute on zeros.": partial(
            _masked_pooling, hide=lambda s, m: s + m.to(s.dtype).log(), clear=lambda p, m: p.nan_to_num()
        ),
    },
)
