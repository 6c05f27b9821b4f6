"""Exercises of chapter 01: Gaussian weights, the width, a query far away, leave-one-out error, attention pooling."""

import torch

from possm_lite.blocks.attention import attend
from possm_lite.blocks.kernels import kernel_weights, leave_one_out_error
from possm_lite.classroom.checks import Case, Check, ValueCheck


def _points(n: int = 6):
    """Times in s, in order but not evenly spaced, and velocities in mm/s."""
    generator = torch.Generator().manual_seed(1)
    x_i = (2 * torch.rand(n, generator=generator)).sort().values
    return x_i, 100 * torch.randn(n, generator=generator)


# ---------------------------------------------------------------------------------------------- gaussian_weights
def _exponent(x, x_i, w, half=0.5):
    return -half * (w * (x[:, None] - x_i)) ** 2


def _w_outside(x, x_i, w):
    return torch.softmax(-0.5 * w * (x[:, None] - x_i) ** 2, -1)


def _w_is_the_width(x, x_i, w):
    return torch.softmax(_exponent(x, x_i, 1 / w), -1)


def _not_squared(x, x_i, w):
    return torch.softmax(-0.5 * w * (x[:, None] - x_i).abs(), -1)


def _no_half(x, x_i, w):
    return torch.softmax(_exponent(x, x_i, w, half=1.0), -1)


def _no_minus(x, x_i, w):
    return torch.softmax(-_exponent(x, x_i, w), -1)


def _not_divided(x, x_i, w):
    return torch.exp(_exponent(x, x_i, w))


def _over_queries(x, x_i, w):
    return torch.softmax(_exponent(x, x_i, w), 0)


def _quotient(x, x_i, w):
    k = _not_divided(x, x_i, w)
    return k / k.sum(-1, keepdim=True)


def _divides_columns(x, x_i, w):
    k = _not_divided(x, x_i, w)
    return k / k.sum(-1)


def _one_sum_for_all(x, x_i, w):
    k = _not_divided(x, x_i, w)
    return k / k.sum()


gaussian_weights = Check(
    "gaussian_weights",
    reference=lambda x, x_i, w: kernel_weights(x, x_i, w),
    cases=[
        Case("one query, w = 1", lambda: (torch.tensor([0.2]), torch.tensor([0.0, 1.0, 3.0]), 1.0)),
        Case("one query, w = 3", lambda: (torch.tensor([0.2]), torch.tensor([0.0, 0.5, 1.0]), 3.0)),
        Case("four queries and six points", lambda: (torch.linspace(0, 2, 4), _points()[0], 4.0)),
        Case("a query far from all points", lambda: (torch.tensor([10.0]), torch.tensor([0.0, 1.9, 2.0]), 5.0)),
    ],
    traps={
        "it looks as if w stands outside the square. It belongs inside, w multiplies the distance, then all of it is "
        "squared.": _w_outside,
        "it looks as if you divided the distance by w. w is one over the width, so it multiplies.": _w_is_the_width,
        "it looks as if the distance is not squared.": _not_squared,
        "the weights fall too fast: the factor 1/2 in front of the square seems to be missing.": _no_half,
        "far points get the larger weights. Where is the minus sign?": _no_minus,
        "the weights of a query do not sum to one. Which function makes shares of numbers?": _not_divided,
        "it looks as if the softmax runs over the queries. The weights of one query are a row: sum over the points, "
        "the last axis.": _over_queries,
        "that is the softmax of K. K is an exponential already: give the softmax the exponents.": (
            lambda x, x_i, w: torch.softmax(_not_divided(x, x_i, w), -1)
        ),
        "it looks as if all questions share one sum. Each row is divided by the sum of that row.": _one_sum_for_all,
        "the sums of the rows have shape (Q,) and are laid along the points. With keepdim=True they stay a column, "
        "(Q, 1).": _divides_columns,
        "far from all points every exp(...) is rounded to 0, and 0 / 0 is NaN. torch.softmax of the exponents does not "
        "have that trouble.": _quotient,
    },
)

# ------------------------------------------------------------------------------------------------ doubled_weight
doubled_weight = ValueCheck(
    "doubled_weight",
    expected=0.1353,  # exp(-1/2 (20 * 0.1)^2)
    tolerance=0.006,
    traps={
        "that is exp(-1): twice the exponent. But w stands inside the square, so what becomes of the exponent?": 0.368,
        "that is half of 0.61. The weight does not halve: look at what doubling w does to the exponent.": 0.303,
        "that is the weight at half the w: a larger w makes a narrower kernel, and far points lose.": 0.882,
        "that is the weight before: w has doubled.": 0.607,
        "the factor 1/2 in front of the square seems to be missing.": 0.018,
        "that is twice 0.61. K is largest at distance zero, where it is 1.": 1.213,
        "that is the share among the two. Wanted is K of the far point when K of the near one is 1.": 0.119,
    },
)


# ------------------------------------------------------------------------------------------------------ loo_error
def _scores(x_i, w):
    return _exponent(x_i, x_i, w)


def _mean_square(x_i, y_i, p):
    return ((y_i - p @ y_i) ** 2).mean()


def _sees_itself(x_i, y_i, w):
    return _mean_square(x_i, y_i, torch.softmax(_scores(x_i, w), -1))


def _cleared_weights(x_i, w):
    p = torch.softmax(_scores(x_i, w), -1)
    return p * (1 - torch.eye(len(x_i), dtype=p.dtype))


def _cleared_after(x_i, y_i, w):
    return _mean_square(x_i, y_i, _cleared_weights(x_i, w))


def _divided_by_count(x_i, y_i, w):
    k = torch.exp(_scores(x_i, w)) * (1 - torch.eye(len(x_i), dtype=x_i.dtype))
    return _mean_square(x_i, y_i, k / (len(x_i) - 1))


def _by_quotient(x_i, y_i, w):
    k = torch.exp(_scores(x_i, w)) * (1 - torch.eye(len(x_i), dtype=x_i.dtype))
    return _mean_square(x_i, y_i, k / k.sum(-1, keepdim=True))


def _divided_along_columns(x_i, y_i, w):
    p = _cleared_weights(x_i, w)
    return _mean_square(x_i, y_i, p / p.sum(-1))


def _softmax_twice(x_i, y_i, w):
    return _mean_square(x_i, y_i, torch.softmax(_cleared_weights(x_i, w), -1))


def _slope(function, x_i, y_i, w):
    """d error / d w, or that there is none."""
    w = torch.tensor(w, requires_grad=True)
    error = function(x_i, y_i, w)
    if not isinstance(error, torch.Tensor) or not error.requires_grad:
        return "no gradient"
    return torch.autograd.grad(error, w)[0]


loo_error = Check(
    "loo_error",
    reference=leave_one_out_error,
    cases=[
        Case("two points", lambda: (torch.tensor([0.0, 0.1]), torch.tensor([1.0, 3.0]), 10.0)),
        Case("three points", lambda: (torch.tensor([0.0, 0.1, 0.3]), torch.tensor([1.0, 3.0, 2.0]), 10.0)),
        Case("six points", lambda: (*_points(), 8.0)),
        Case("points many widths apart", lambda: (torch.tensor([0.0, 1.0, 3.0]), torch.tensor([1.0, 2.0, 4.0]), 30.0)),
        Case("its slope over w", lambda: (*_points(), 8.0), observe=_slope),
    ],
    traps={
        "every point still sees itself. (A score of 0 on the diagonal does not help: it is the score of distance zero, "
        "the best there is. Which score has weight 0?)": _sees_itself,
        "the own weight is cleared, but after the softmax: what is left of each row no longer sums to one. Take the "
        "point out before shares are made.": _cleared_after,
        "K is divided by the number of other points. Divide by the sum of their K, row by row.": _divided_by_count,
        "a second softmax on top of the weights makes other weights of them, and what is 0 is not 0 any more. One "
        "softmax is enough, of scores without the point itself.": _softmax_twice,
        "the sums of the rows are laid along the columns. With keepdim=True they stay a column, (M, 1).": (
            _divided_along_columns
        ),
        "the errors are summed. The formula has their mean.": lambda x, y, w: leave_one_out_error(x, y, w) * len(x),
        "the mean is over the M points, yet it looks as if you divided by M - 1.": lambda x, y, w: (
            leave_one_out_error(x, y, w) * len(x) / (len(x) - 1)
        ),
        "that is the root of the error. The formula stops at the mean of the squares.": lambda x, y, w: (
            leave_one_out_error(x, y, w).sqrt()
        ),
        "that is the mean absolute error. The formula squares.": lambda x, y, w: (
            (y - kernel_weights(x, x, w, mask=~torch.eye(len(x), dtype=torch.bool)) @ y).abs().mean()
        ),
        "where all others are many widths away, every exp(...) is rounded to 0, and 0 / 0 is NaN. Put -inf on the "
        "diagonal of the scores and take their softmax.": _by_quotient,
        "the number is right, but no gradient flows back to w. Keep it a tensor: no .item(), no float(...).": (
            lambda x, y, w: leave_one_out_error(x, y, w).item()
        ),
    },
)

# ----------------------------------------------------------------------------------------------------- far_answer
far_answer = ValueCheck(
    "far_answer",
    expected="first",
    traps={
        "all K are tiny there, but tiny is not zero: they are divided by their sum, and the shares sum to one.": "zero",
        "that is the far end. The question comes before all points, not after them.": "last",
        "the mean is what a very *small* w would answer. Which of the exponents is the least negative?": "mean",
    },
)


# ----------------------------------------------------------------------------------------------------------- pool
def _pooled(weights, values):
    return weights @ values, weights


def _by_exponentials(scores, values):
    e = torch.exp(scores)
    return _pooled(e / e.sum(-1, keepdim=True), values)


def _exponentials_along_columns(scores, values):
    e = torch.exp(scores)
    return _pooled(e / e.sum(-1), values)


def _one_largest_for_all(scores, values):
    return _by_exponentials(scores - scores.max(), values)


def _not_added(scores, values):
    weights = torch.softmax(scores, -1)
    return weights[..., None] * values, weights


def _averaged(scores, values):
    pooled, weights = _not_added(scores, values)
    return pooled.mean(-2), weights


def _elementwise(scores, values):
    weights = torch.softmax(scores, -1)
    return weights * values, weights


def _drawn(queries: int, keys: int, places: int):
    generator = torch.Generator().manual_seed(2)
    return torch.randn(queries, keys, generator=generator), torch.randn(keys, places, generator=generator)


_TWO_VALUES = [[1.0, 10.0], [3.0, 40.0]]

pool = Check(
    "pool",
    reference=attend,
    cases=[
        Case("one query and two keys", lambda: (torch.tensor([[1.0, 2.0]]), torch.tensor(_TWO_VALUES))),
        Case("three queries, three keys, values of three numbers", lambda: _drawn(3, 3, 3)),
        Case("three queries, four keys, values of two numbers", lambda: _drawn(3, 4, 2)),
        # scores in float32 are exact to 1e-4 here, and so is a right answer that takes their logsumexp off
        Case("scores near 1000", lambda: (torch.tensor([[1000.0, 1001.0]]), torch.tensor(_TWO_VALUES)), tolerance=1e-3),
        Case(
            "one query with scores near 1000 beside one near 0",
            lambda: (torch.tensor([[1000.0, 1001.0], [0.0, 1.0]]), torch.tensor(_TWO_VALUES)),
            tolerance=1e-3,
        ),
    ],
    traps={
        "the softmax runs over the queries. The weights of one query are a row: it is the row that sums to one.": (
            lambda scores, values: _pooled(torch.softmax(scores, 0), values)
        ),
        "the scores themselves are taken as weights. First make shares of them.": _pooled,
        "the exponentials are taken as weights, and do not sum to one. Divide each row by its sum.": (
            lambda scores, values: _pooled(torch.exp(scores), values)
        ),
        "there is one softmax for the whole table. Every query makes its own shares: each row sums to one.": (
            lambda scores, values: _pooled(torch.softmax(scores.flatten(), 0).reshape(scores.shape), values)
        ),
        "the sums of the rows have shape (Q,) and are laid along the keys. With keepdim=True they stay a column, "
        "(Q, 1).": _exponentials_along_columns,
        "the values are weighted, but not added up: the axis of the keys is still there. Sum over it.": _not_added,
        "the weighted values are averaged over the keys. The weights are shares already: add up, and that is all.": (
            _averaged
        ),
        "`*` multiplies place by place and adds nothing up. A sum over the keys of weight times value: which product "
        "of matrices is that?": _elementwise,
        "it looks as if the values are transposed. Compare the shapes: (Q, M) times (M, V).": (
            lambda scores, values: (torch.softmax(scores, -1) @ values.T, torch.softmax(scores, -1))
        ),
        "it looks as if the weights are transposed. Compare the shapes: (Q, M) times (M, V).": (
            lambda scores, values: (torch.softmax(scores, -1).T @ values, torch.softmax(scores, -1))
        ),
        "the two results are in the other order: first the pooled values, then the weights.": (
            lambda scores, values: attend(scores, values)[::-1]
        ),
        "exp of a large score is too large for the computer, and inf / inf is NaN. Take the largest score of the row "
        "off first, or let torch.softmax do it.": _by_exponentials,
        "the largest score of the whole table is taken off, and in a row of small scores every exp is then rounded to "
        "0. Take off the largest of each row.": _one_largest_for_all,
    },
)
