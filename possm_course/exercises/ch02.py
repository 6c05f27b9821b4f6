"""Exercises of chapter 02: a softmax under a mask, scores, pooling; deeper: projections, gates, a surrogate loss."""

import math

import torch
from torch.nn import functional as F

from possm_course.chapters.ch02.selection import leave_one_out_mean
from possm_course.checks import Case, ValueCheck, as_tensor, exercise, gradient, normal


# Exercise 2.1: softmax under a mask
def _rows(*rows):
    """Scores and mask, each (rows, keys), of rows that are pairs of both."""
    scores, mask = zip(*rows, strict=True)
    return torch.tensor(scores), torch.tensor(mask).bool()


_FULL = ([1.0, 2.0, 0.5], [1, 1, 1])
_PADDED = ([1.0, 2.0, 0.5], [1, 1, 0])
_FAR = ([-200.0, -201.0, 0.0], [1, 1, 0]), ([-97.0, -98.0, 7.0], [1, 1, 0])
_HIGH = ([1.0, 2.0, 1e30], [1, 1, 0])
_EMPTY = ([0.3, 1.0, -0.5], [0, 0, 0])


@exercise(
    cases={
        "a row in which all keys may be read": lambda: _rows(_FULL),
        "a row with one padded slot": lambda: _rows(_PADDED),
        "a mask with a gap": lambda: _rows(([1.0, 2.0, 0.5], [1, 0, 1])),
        "a padded slot that holds 1e30": lambda: _rows(_HIGH),
        "scores above 100, where exp overflows": lambda: _rows(([120.0, 121.0, 0.0], [1, 1, 0])),
        "a query that may read nothing": lambda: _rows(_PADDED, _EMPTY),
        "real scores near -200": lambda: _rows(*_FAR),
        # scores in float32 are exact to 1e-3 here, and so is a right answer that subtracts their logsumexp
        "real scores near -30,000": Case(lambda: _rows(([-30000.0, -30001.0, 0.0], [1, 1, 0])), tolerance=1e-3),
        "scores of shape (1, 2, 3)": lambda: tuple(x[None] for x in _rows(_PADDED, _EMPTY)),
        "scores of shape (2, 2, 3)": lambda: tuple(x.expand(2, 2, 3).clone() for x in _rows(_PADDED, _FULL)),
        "the gradient beside padding of 1e30": Case(lambda: _rows(_HIGH), gradient(0)),
        "the gradient beside a row that may read nothing": Case(lambda: _rows(_PADDED, _EMPTY), gradient(0)),
    },
    mistakes={
        (
            "scores.masked_fill(~mask, -math.inf) → scores",
            "(scores, -1).masked_fill(~readable, 0.0) → (scores, -1) * mask",
        ): "the weights of a row do not sum to one: it looks as if you masked after the softmax.",
        (
            "scores.masked_fill(~mask, -math.inf) → scores * mask",
            "(scores, -1).masked_fill(~readable, 0.0) → (scores, -1)",
        ): "padding still takes part: a score of zero is a score like any other (exp(0) = 1).",
        ("scores.masked_fill(~readable, 0.0) → scores", "-1).masked_fill(~readable, 0.0) → -1)"): (
            "a row that may read nothing gives NaN: its scores are all -inf. Give the softmax something else there."
        ),
        (
            "scores.masked_fill(~mask, -math.inf) → scores + (1 - mask.float()) * -1e9",
            "(scores, -1).masked_fill(~readable, 0.0) → (scores, -1) * mask",
        ): "what is added to padding does not hide a large number there: fill it in, with `masked_fill` or `where`.",
        (
            "scores.masked_fill(~mask, -math.inf) → scores.masked_fill(mask, -math.inf)",
            "readable = mask → readable = (~mask)",
        ): "the mask is the wrong way round: True means that a key *may* be read.",
        (
            "scores.masked_fill(~mask, -math.inf) → scores.masked_fill(~mask, -1e9)",
            "scores.masked_fill(~readable, 0.0) → scores",
            "torch.softmax(scores, -1).masked_fill(~readable, 0.0) → torch.softmax(scores, 0) * mask",
        ): "the softmax runs over the first axis. It should run over the keys, the last axis.",
        (
            "scores.masked_fill(~mask, -math.inf) → scores.masked_fill(~mask, -1e9)",
            "scores.masked_fill(~readable, 0.0) → scores",
            "torch.softmax(scores, -1).masked_fill(~readable, 0.0) → "
            "torch.softmax(scores, 1 if scores.dim() > 1 else 0) * mask",
        ): "the softmax runs over axis 1, which is not the last one in every case. It should run over the keys.",
        "torch.softmax(scores, -1).masked_fill(~readable, 0.0) → torch.softmax(scores, -1)": (
            "a row that may read nothing is read all the same, with equal weights. Its weights should be zeros."
        ),
        (
            "scores.masked_fill(~mask, -math.inf) → scores",
            "scores.masked_fill(~readable, 0.0) → scores",
            "return torch.softmax(scores, -1).masked_fill(~readable, 0.0) → "
            "p = torch.softmax(scores, -1) * mask; return p / p.sum(-1, keepdim=True).clamp(min=1e-30)",
        ): (
            "masked after the softmax, and divided again: right on paper, but a large score in the padding has taken "
            "everything by then, and what is left of the real ones is rounded to 0. The mask belongs before the "
            "softmax."
        ),
        (
            "scores.masked_fill(~mask, -math.inf) → scores",
            "scores.masked_fill(~readable, 0.0) → scores",
            "return torch.softmax(scores, -1).masked_fill(~readable, 0.0) → "
            "p = torch.softmax(scores, -1) * mask; return p / p.sum(-1, keepdim=True)",
        ): (
            "masked after the softmax, and divided again: where nothing is left that is 0 / 0. The mask belongs "
            "before it."
        ),
        (
            "scores.masked_fill(~mask, -math.inf) → scores * mask",
            "scores.masked_fill(~readable, 0.0) → scores",
            "return torch.softmax(scores, -1).masked_fill(~readable, 0.0) → "
            "p = torch.softmax(scores, -1) * mask; return p / (p.sum(-1, keepdim=True) + 1e-13)",
        ): (
            "scores are multiplied by the mask, so padding has the score 0, which is large beside -200: real "
            "weights are "
            "rounded to 0, and dividing once more does not bring them back. Fill padding in before the softmax."
        ),
        (
            "scores.masked_fill(~readable, 0.0) → scores",
            "return torch.softmax(scores, -1).masked_fill(~readable, 0.0) → "
            "e = torch.exp(scores) * mask; return e / (e.sum(-1, keepdim=True) + 1e-9)",
        ): (
            "exp of a large score is infinite. The largest score of a row that may be read should be subtracted first."
        ),
        (
            "scores.masked_fill(~mask, -math.inf) → scores",
            "scores.masked_fill(~readable, 0.0) → scores",
            "return torch.softmax(scores, -1).masked_fill(~readable, 0.0) → "
            "e = torch.exp(scores) * mask; return e / (e.sum(-1, keepdim=True) + 1e-9)",
        ): "exp of what stands in the padding is infinite, and infinity times 0 is NaN: fill it in before exp.",
        (
            "scores.masked_fill(~mask, -math.inf) → scores + (1 - mask.float()) * -math.inf",
            "scores.masked_fill(~readable, 0.0) → scores",
            ".masked_fill(~readable, 0.0)\n → \n",
        ): "minus infinity is multiplied by the mask, and 0 times infinity is NaN: use `masked_fill` or `torch.where`.",
        (
            "scores.masked_fill(~mask, -math.inf) → scores.masked_fill(~mask, -1e4)",
            "torch.softmax(scores, -1).masked_fill(~readable, 0.0) → torch.softmax(scores, -1) * mask",
        ): "-10,000 is not small beside scores of -30,000: the padding wins. Is there a number below all?",
        (
            "scores.masked_fill(~mask, -math.inf) → torch.where(mask, scores, torch.finfo(scores.dtype).tiny)",
            "torch.softmax(scores, -1).masked_fill(~readable, 0.0) → torch.softmax(scores, -1) * mask",
        ): "the fill is a tiny *positive* number, so padding has a score like any other. It should be far below all.",
    },
)
def masked_weights(scores, mask):
    """Softmax over the last axis in which only keys with mask True take part. scores, mask and result (..., M)."""
    readable = mask.any(-1, keepdim=True)  # (..., 1): is there anything to read?
    scores = scores.masked_fill(~mask, -math.inf)
    scores = scores.masked_fill(~readable, 0.0)  # a row of -inf alone becomes a row of zeros: harmless
    return torch.softmax(scores, -1).masked_fill(~readable, 0.0)


# Exercise 2.2: additive scores
def _additive_inputs(B, n_queries, n_keys):
    """Queries of three numbers, keys of two, and W_q, W_k and w_v of five hidden units."""
    q, k = normal(B, n_queries, 3, seed=1), normal(B, n_keys, 2, seed=2)
    return q, k, normal(5, 3, seed=3), normal(5, 2, seed=4), normal(5, seed=5)


@exercise(
    cases={
        "one trial with as many queries as keys": lambda: _additive_inputs(1, 4, 4),
        "one trial with 4 queries and 6 keys": lambda: _additive_inputs(1, 4, 6),
        "three trials": lambda: _additive_inputs(3, 4, 6),
        "as many trials as queries and keys": lambda: _additive_inputs(4, 4, 4),
        "the gradients": Case(lambda: _additive_inputs(3, 4, 6), gradient(0, 1, 2, 3, 4)),
    },
    mistakes={
        ("(q @ W_q.T)[:, :, None] → (q @ W_q.T)[:, None]", "(k @ W_k.T)[:, None] → (k @ W_k.T)[:, :, None]"): (
            "queries and keys have changed places: the result is (B, Q, M)."
        ),
        "(k @ W_k.T)[:, None] → k @ W_k.T": (
            "an axis of k is missing: its trials meet the queries. k needs an axis of size one where q has its queries."
        ),
        "torch.tanh(from_q + from_k) → (from_q + from_k)": "the tanh is missing: without it softmax drops the query.",
        "torch.tanh(from_q + from_k) → (torch.tanh(from_q) + torch.tanh(from_k))": (
            "each part has a tanh of its own. The tanh is of the sum: that is what makes a query matter to each key."
        ),
        "torch.tanh(from_q + from_k) → torch.sigmoid(from_q + from_k)": "this is a sigmoid. The score has a tanh.",
        "torch.tanh(from_q + from_k) → torch.relu(from_q + from_k)": "this is a ReLU. The score has a tanh.",
        (
            "torch.tanh(from_q + from_k) → torch.tanh(from_q * from_k)"
        ): "the two parts are multiplied. They should be added.",
        "@ w_v → @ w_v / w_v.norm()": "w_v is divided by its length. It should stay as it is.",
        "@ w_v → @ w_v / len(w_v) ** 0.5": "divided by the root of the hidden size: this score has no scale.",
        "return torch.tanh(from_q + from_k) @ w_v → return torch.softmax(torch.tanh(from_q + from_k) @ w_v, -1)": (
            "these are weights. Return the scores, before the softmax."
        ),
        "return torch.tanh(from_q + from_k) @ w_v → return (torch.tanh(from_q + from_k) @ w_v).squeeze()": (
            "`squeeze()` without an axis also drops the batch of one: name the axis."
        ),
        "return torch.tanh(from_q + from_k) @ w_v → return torch.tanh(q @ W_q.T + k @ W_k.T) @ w_v": (
            "query 1 meets key 1 alone, query 2 key 2. Every query should meet every key: both need an axis of "
            "size one."
        ),
        "return torch.tanh(from_q + from_k) @ w_v → return torch.tanh((from_q + from_k) @ w_v)": (
            "the tanh is taken of the score. It belongs inside, on the hidden units, before w_v."
        ),
    },
)
def additive_scores(q, k, W_q, W_k, w_v):
    """w_v . tanh(W_q q + W_k k). q (B, Q, d_q), k (B, M, d_k), W_q (h, d_q), W_k (h, d_k), w_v (h,): (B, Q, M)."""
    from_q = (q @ W_q.T)[:, :, None]  # (B, Q, 1, h)
    from_k = (k @ W_k.T)[:, None]  # (B, 1, M, h)
    return torch.tanh(from_q + from_k) @ w_v  # (B, Q, M, h) @ (h,): (B, Q, M)


# Exercise 2.3: the spread of a dot product, sqrt(256 / 16)
growth_of_spread = ValueCheck(
    "growth_of_spread",
    expected=4.0,
    tolerance=0.01,
    mistakes={
        16.0: "that is how the variance grows. The standard deviation is its square root.",
        1.0: "the dot product does grow: it is not divided by anything yet.",
        0.25: "the right number, the wrong way round: a sum of more terms spreads wider.",
        256.0: "that is the size itself. Compare two spreads.",
        2.0: "one root too many: the variance grows sixteenfold, the spread by its root.",
    },
    hint="The variance is a sum over the numbers of a vector: how does it grow, and what follows for the spread?",
)


# Exercise 2.4: scaled scores of each head
def _head_inputs(n_heads, D, n_keys=3):
    """Two trials with four queries each, and keys, of D numbers, and the number of heads."""
    return normal(2, 4, D, seed=1), normal(2, n_keys, D, seed=2), n_heads


@exercise(
    cases={
        "a single head": lambda: _head_inputs(1, 6),
        "eight heads of two": lambda: _head_inputs(8, 16),
        "two heads of eight": lambda: _head_inputs(2, 16),
        "three heads of three": lambda: _head_inputs(3, 9, n_keys=5),
    },
    mistakes={
        "math.sqrt(d) → math.sqrt(queries.shape[-1])": "still divided by the root of the model's size D.",
        "math.sqrt(d) → math.sqrt(n_heads)": "divided by the root of how many heads there are, not of their size.",
        " / math.sqrt(d) → ": "no scale at all: the spread is the root of d now, not one.",
        "math.sqrt(d) → d": "divided by d, not by its root: the variance is d, the standard deviation its root.",
        "unflatten(-1, (n_heads, d)).transpose(1, 2) → unflatten(-1, (d, n_heads)).permute(0, 3, 1, 2)": (
            "the scale is right, the heads are not: they take their numbers in turn, not side by side."
        ),
        ("unflatten(-1, (n_heads, d)).transpose(1, 2) → reshape(len(queries), n_heads, -1, d)",): (
            "the heads are cut in one step, (B, Q, D) to (B, H, Q, d): that cuts the tokens. Only the last axis "
            "should be cut, "
            "and then two axes swapped."
        ),
        "/ math.sqrt(d) → / d**-0.5": "divided by d ** -0.5, which multiplies by the root: one of the two is too much.",
        (
            "math.sqrt(d) → math.sqrt(keys.shape[1])"
        ): "divided by the root of how many keys there are, not of a head's size.",
        "/ math.sqrt(d) → / d**0.25": (
            "divided by the fourth root: each of q and k may have one, both together the root of d."
        ),
    },
)
def head_scores(queries, keys, n_heads):
    """Scaled dot scores of every head: queries (B, Q, D), keys (B, M, D) -> (B, H, Q, M)."""
    d = queries.shape[-1] // n_heads  # the size of one head
    q, k = (x.unflatten(-1, (n_heads, d)).transpose(1, 2) for x in (queries, keys))  # (B, H, ., d)
    return q @ k.transpose(-1, -2) / math.sqrt(d)


# Exercise 2.5: pooling with one of three scores
def _to_pool(kind, *lengths, scale=1.0, padding=1e12, gaps=False, low=False):
    """Makes queries, keys and values of trials of these lengths, and the learned tensors of a score."""

    def make():
        B, M = len(lengths), max(lengths)
        d_q, d_k = (4, 4) if kind == "dot" else (3, 2)
        shapes = {"dot": [], "bilinear": [(d_q, d_k)], "additive": [(5, d_q), (5, d_k), (5,)]}[kind]
        params = [normal(*shape, seed=4 + i) for i, shape in enumerate(shapes)]
        mask = torch.arange(M) < torch.tensor(lengths)[:, None]  # (B, M)
        if gaps:
            mask = mask.flip(1)
        q, k, v = normal(B, 3, d_q, seed=1), normal(B, M, d_k, seed=2), normal(B, M, 2, seed=3)
        if low:  # all scores below zero
            q, k = -q.abs(), k.abs()
        if params:
            params[-1] = scale * params[-1]
        else:
            q = scale * q
        k = k.masked_fill(~mask[..., None], padding)
        v = v.masked_fill(~mask[..., None], padding)
        return q, k, v, mask, tuple(params)

    return make


def _gradients(function, q, k, v, mask, params):
    """Observe the gradient of what is pooled by every tensor, by name."""
    by_all = gradient(*range(3 + len(params)))
    gradients = by_all(lambda q, k, v, *w: function(q, k, v, mask, w), q, k, v, *params)
    names = {0: "q k v", 1: "q k v W", 3: "q k v W_q W_k w_v"}[len(params)].split()
    return {f"the gradient for {name}": g for name, g in zip(names, gradients.values(), strict=True)}


@exercise(
    tolerance=1e-4,
    cases={
        "the dot product of one trial": _to_pool("dot", 5),
        "the bilinear score of one trial": _to_pool("bilinear", 5),
        "the additive score of one trial": _to_pool("additive", 5),
        "the additive score of three trials, queries and keys": _to_pool("additive", 3, 3, 3),
        "padding": _to_pool("dot", 4, 2),
        "padding in as many trials as queries": _to_pool("dot", 4, 2, 3),
        "padding at the beginning": _to_pool("additive", 4, 2, gaps=True),
        "dot products in the thousands": _to_pool("dot", 4, 3, scale=3e3),
        "dot products far below zero": _to_pool("dot", 4, 3, scale=5e3, low=True),
        "additive scores in the thousands": _to_pool("additive", 4, 3, scale=3e3),
        "a trial without any key": _to_pool("bilinear", 4, 0),
        "the gradients beside large padding": Case(_to_pool("dot", 4, 2), _gradients),
        "the gradients of the bilinear score": Case(_to_pool("bilinear", 4, 0), _gradients),
        "the gradients of the additive score": Case(_to_pool("additive", 4, 0, padding=1.0), _gradients),
        "dot products below -10,000": _to_pool("dot", 4, 3, scale=1e5, low=True),
    },
    mistakes={
        " / math.sqrt(q.shape[-1]) → ": "the dot product is not scaled: divide it by the root of d.",
        "q @ params[0] @ k.mT → q @ params[0] @ k.mT / math.sqrt(q.shape[-1])": (
            "the bilinear score is divided, too. (2.4) is not: W sets its scale."
        ),
        "mask = mask[:, None] → mask = mask": ("the mask lacks the axis of the queries, so that its trials meet them."),
        "torch.exp(scores - scores.max(-1, keepdim=True).values) → torch.exp(scores)": (
            "exp of a large score is infinite. Subtract the largest score of each row before exp."
        ),
        "p = torch.where(mask, e / e.sum(-1, keepdim=True), 0.0) → p = e / e.sum(-1, keepdim=True)": (
            "a trial without any key reads its padding: all its scores are equal, and so are its weights. Clear them."
        ),
        "torch.where(mask, scores, -1e30) → scores": "padding is read: the mask has to come before the softmax.",
        "torch.where(mask, scores, -1e30) → torch.where(mask, -1e30, scores)": (
            "the mask is the wrong way round: True means that a key is real."
        ),
        (
            "torch.tanh((q @ W_q.T)[:, :, None] + (k @ W_k.T)[:, None]) → ((q @ W_q.T)[:, :, None] + (k @ "
            "W_k.T)[:, None])"
        ): ("the tanh of the additive score is missing."),
        (
            "math.sqrt(q.shape[-1]) → math.sqrt(k.shape[1])"
        ): "divided by the root of the number of keys, not of their size.",
        "math.sqrt(q.shape[-1]) → q.shape[-1]": "divided by d, and not by its root.",
        (
            "e.sum(-1, keepdim=True) → e.sum(1, keepdim=True)"
        ): "the weights sum to one over the queries. It should be the keys.",
        "torch.where(mask, scores, -1e30) → torch.where(mask, scores, -1e4)": (
            "the fill is not below all real scores: those here go lower. It should be below any."
        ),
    },
)
def masked_pooling(q, k, v, mask, params):
    """Attention pooling over real keys; the score by `params`: () scaled dot, (W,) bilinear, three additive."""
    if len(params) == 3:
        W_q, W_k, w_v = params
        scores = torch.tanh((q @ W_q.T)[:, :, None] + (k @ W_k.T)[:, None]) @ w_v  # (B, Q, M)
    elif len(params) == 1:
        scores = q @ params[0] @ k.mT
    else:
        scores = q @ k.mT / math.sqrt(q.shape[-1])
    mask = mask[:, None]  # (B, 1, M): every query of a trial has the same keys
    scores = torch.where(mask, scores, -1e30)  # finite, so a trial without keys is finite, too
    e = torch.exp(scores - scores.max(-1, keepdim=True).values)  # the largest is exp(0)
    p = torch.where(mask, e / e.sum(-1, keepdim=True), 0.0)  # clears what a trial without keys has read
    return p @ v


# Exercise 2.6: two projections of a bilinear score
def _bilinear_matrix(function, W, d):
    """What all right answers share: W_q^T W_k, and the shapes of the two."""
    W_q, W_k = (as_tensor(x).to(W.dtype) for x in function(W, d))
    return {"the shape of W_q": str([*W_q.shape]), "the shape of W_k": str([*W_k.shape]), "W_q^T W_k": W_q.T @ W_k}


def _of_rank(rank, d_q, d_k):
    """A matrix (d_q, d_k) of this rank."""
    return normal(d_q, rank, seed=1) @ normal(rank, d_k, seed=2)


def _zero_columns():
    """The first columns of a matrix in its decomposition need not span it: here they are zero."""
    return torch.cat([torch.zeros(4, 2), _of_rank(2, 4, 3)], 1), 2


@exercise(
    tolerance=1e-4,
    cases={
        "a square W and d = 3": Case(lambda: (_of_rank(3, 3, 3), 3), _bilinear_matrix),
        "a W of rank one and d = 1": Case(lambda: (_of_rank(1, 4, 3), 1), _bilinear_matrix),
        "a W (4, 6) of rank two and d = 2": Case(lambda: (_of_rank(2, 4, 6), 2), _bilinear_matrix),
        "a d above the rank": Case(lambda: (_of_rank(1, 5, 3), 2), _bilinear_matrix),
        "a W whose first columns are zero": Case(_zero_columns, _bilinear_matrix),
        "a d above both sizes of W": Case(lambda: (_of_rank(2, 3, 4), 6), _bilinear_matrix),
    },
    mistakes={
        "U.T, Vh → U.T, sigma[:, None] * Vh": "the singular values are in both matrices, so each counts squared.",
        "sigma[:, None] * U.T, Vh → U.T, Vh": "the singular values are in neither matrix.",
        "sigma[:, None] * U.T → sigma[:, None].sqrt() * U.T": (
            "the roots of the singular values are in one matrix only. Both together should have each of them once."
        ),
        (
            "sigma[:, None] * U.T, Vh → sigma[:, None] * U, Vh"
        ): "U is not transposed: the rows of W_q are the columns of U.",
        "sigma[:, None] * U.T, Vh → sigma[:, None] * U.T, Vh.T": "`svd` returns V transposed already.",
    },
)
def two_projections(W, d):
    """W_q and W_k with q . W k = (W_q q) . (W_k k) for all q and k. W (d_q, d_k) gives (d, d_q) and (d, d_k)."""
    U, sigma, Vh = torch.linalg.svd(W, full_matrices=False)  # W = U diag(sigma) Vh
    fill = (0, 0, 0, d - len(sigma))  # rows of zeros up to d, or, where negative, rows less
    return tuple(F.pad(x, fill) for x in (sigma[:, None] * U.T, Vh))


# Exercise 2.7: the largest of the gated
def _items(*lengths, below=0.0, bias=(0.0, 0.0, 0.0)):
    """Trials of 4 items of 3 features, the first `lengths` of them real, all reduced by `below`; large padding."""
    mask = torch.arange(4) < torch.tensor(lengths)[:, None]
    items = (normal(len(lengths), 4, 3) - below).masked_fill(~mask[..., None], 1e6)
    return items, mask, normal(3, 3, seed=1), torch.tensor(bias)


@exercise(
    cases={
        "a trial of one item": lambda: tuple(x[:, :1] if i < 2 else x for i, x in enumerate(_items(4))),
        "trials without padding": lambda: _items(4, 4),
        "gates with a bias": lambda: _items(4, 4, bias=(1.0, -2.0, 0.5)),
        "padding that holds large numbers": lambda: _items(4, 2, 1),
        "features that are negative in all items": lambda: _items(3, 1, below=5.0),
        "a trial without any item": lambda: _items(2, 0),
    },
    mistakes={
        "W_g.T → W_g": "the gates are those of the transposed matrix: W_g x is `x @ W_g.T` in code.",
        "torch.sigmoid(items @ W_g.T + b_g) → torch.softmax(items @ W_g.T + b_g, -1)": (
            "the gates sum to one: that is a softmax, in which they compete. Each gate is a sigmoid of its own."
        ),
        "-math.inf → 0.0": "padding counts as zero, and zero wins over negative numbers.",
        "largest.masked_fill(~mask.any(1)[:, None], 0.0) → largest": (
            "a trial without items gives minus infinity: give zeros there."
        ),
        (
            "torch.sigmoid(items @ W_g.T + b_g) → torch.tanh(items @ W_g.T + b_g)"
        ): "the gates go through a tanh: a sigmoid.",
        "+ b_g → ": "the bias of the gates is missing.",
        ".max(1).values → .mean(1)": "this is a mean over the items. The largest of each feature is wanted.",
        (
            "gated.masked_fill(~mask[..., None], -math.inf) → gated"
        ): "padding takes part: its large numbers are the largest.",
        "torch.sigmoid(items @ W_g.T + b_g) * items → torch.sigmoid(items @ W_g.T + b_g)": (
            "these are the gates themselves. They should be multiplied with the items."
        ),
        "return largest → return gated[torch.arange(len(items)), gated.norm(dim=-1).argmax(1)]; return largest": (
            "one item is chosen as a whole. The largest should be taken of each feature by itself."
        ),
    },
)
def gated_maximum(items, mask, W_g, b_g):
    """For each feature the largest gated value of the real items: items (B, M, V), mask (B, M): result (B, V)."""
    gated = torch.sigmoid(items @ W_g.T + b_g) * items  # (B, M, V)
    largest = gated.masked_fill(~mask[..., None], -math.inf).max(1).values  # (B, V)
    return largest.masked_fill(~mask.any(1)[:, None], 0.0)  # nobody there: zeros


# Exercise 2.8: the surrogate loss
def _choices(*baseline):
    """log p and losses of four choices, and a baseline if there is one."""
    return torch.tensor([-0.5, -1.2, -0.1, -2.0]), torch.tensor([2.0, 0.5, 1.0, 3.0]), *baseline


def _gradients_with_leave_one_out(function, *args):
    """Observe the gradients where the baseline is computed from the losses."""
    return gradient(0, 1)(lambda log_p, loss: function(log_p, loss, leave_one_out_mean(loss)), *args)


@exercise(
    cases={
        "the value, baseline 0": lambda: _choices(0.0),
        "the gradient for log_p, baseline 1.5": Case(lambda: _choices(1.5), gradient(0)),
        "the gradients for log_p and for what made the loss": Case(lambda: _choices(1.5), gradient(0, 1)),
        "a baseline made of the other losses": Case(_choices, _gradients_with_leave_one_out),
    },
    mistakes={
        "loss - baseline → baseline - loss": (
            "the sign is that of a reward: a choice with a high loss becomes more likely. A loss goes the other way."
        ),
        "(loss - baseline).detach() → loss - baseline": (
            "nothing is stopped: the weights that made the loss get a second gradient, through the factor (L - c)."
        ),
        "* log_p → * log_p.exp()": (
            "p where log p should be: each draw comes with frequency p already, so its own p must not count again."
        ),
        (
            "(loss - baseline).detach() → loss.detach()"
        ): "the baseline is not used: it should be subtracted from the loss.",
        "return loss + advantage * log_p → return advantage * log_p": (
            "the loss itself is missing: what made it should get its own gradient."
        ),
        "return loss + advantage * log_p → return loss.detach() + advantage * log_p": (
            "the loss is stopped as well, so that what made it gets no gradient."
        ),
        "advantage * log_p → advantage * log_p.detach()": "log p is stopped: nothing is learned about the choice.",
        (
            "return loss + → return loss - baseline +"
        ): "the value is the loss and a term: the baseline belongs in that term only.",
    },
)
def surrogate(log_p, loss, baseline):
    """L + stop(L - c) log p(choice). log_p and loss (n,), baseline a number or (n,): result (n,)."""
    advantage = (loss - baseline).detach()  # a number from here on
    return loss + advantage * log_p
