"""Exercises of chapter 01: Gaussian weights, leave-one-out error, attention pooling, saliency, learned widths."""

from functools import partial

import torch

from possm_lite.classroom.checks import Case, Check, ValueCheck, gradient, normal


def _softmax(scores):
    return torch.softmax(scores, -1)


def _divide(weights, **axis):
    return weights / weights.sum(**axis)


def _points():
    """Times in s, in order but not evenly spaced, and velocities in mm/s."""
    return torch.tensor([0.06, 0.56, 0.81, 1.5, 1.52, 1.6]), 100 * normal(6, seed=1)


# Exercise 1.1: Gaussian weights


def _weights(x, x_i, w, *, exponent=lambda u, w: -0.5 * (w * u) ** 2, share=_softmax):
    return share(exponent(x[:, None] - x_i, w))


gaussian_weights = Check(
    "gaussian_weights",
    reference=_weights,
    cases=[
        Case("one query, w = 1", lambda: (torch.tensor([0.2]), torch.tensor([0.0, 1.0, 3.0]), 1.0)),
        Case("one query, w = 3", lambda: (torch.tensor([0.2]), torch.tensor([0.0, 0.5, 1.0]), 3.0)),
        Case("four queries and six points", lambda: (torch.linspace(0, 2, 4), _points()[0], 4.0)),
        Case("a query far from all points", lambda: (torch.tensor([10.0]), torch.tensor([0.0, 1.9, 2.0]), 5.0)),
        Case("a query near the points and one far", lambda: (torch.tensor([1.8, 10.0]), torch.tensor([0.0, 2.0]), 5.0)),
    ],
    traps={
        "it looks as if w is outside the square. It belongs inside: w multiplies the distance, then all of it is "
        "squared.": partial(_weights, exponent=lambda u, w: -0.5 * w * u**2),
        "it looks as if you divided the distance by w. w is one over the width, so it multiplies.": (
            partial(_weights, exponent=lambda u, w: -0.5 * (u / w) ** 2)
        ),
        "it looks as if the distance is not squared.": partial(_weights, exponent=lambda u, w: -0.5 * w * u.abs()),
        "the weights fall too fast: the factor 1/2 in front of the square seems to be missing.": (
            partial(_weights, exponent=lambda u, w: -((w * u) ** 2))
        ),
        "far points get the larger weights. Where is the minus sign?": (
            partial(_weights, exponent=lambda u, w: 0.5 * (w * u) ** 2)
        ),
        "the weights of a query do not sum to one. Which function makes shares of numbers?": (
            partial(_weights, share=torch.exp)
        ),
        "it looks as if the softmax runs over the queries. The weights of one query are a row: sum over the points, "
        "the last axis.": partial(_weights, share=lambda e: torch.softmax(e, 0)),
        "that is the softmax of K. K is an exponential already: give the softmax the exponents.": (
            partial(_weights, share=lambda e: _softmax(e.exp()))
        ),
        "it looks as if all questions share one sum. Each row is divided by the sum of that row.": (
            partial(_weights, share=lambda e: _divide(e.exp()))
        ),
        "there is one softmax for the whole table. Every question makes its own shares: each row sums to one.": (
            partial(_weights, share=lambda e: _softmax(e.flatten()).view_as(e))
        ),
        "the sums of the rows have shape (Q,) and are laid along the points. With keepdim=True they stay a column, "
        "(Q, 1).": partial(_weights, share=lambda e: _divide(e.exp(), dim=-1)),
        "far from all points every exp(...) is rounded to 0, and 0 / 0 is NaN. torch.softmax of the exponents does not "
        "have that problem.": partial(_weights, share=lambda e: _divide(e.exp(), dim=-1, keepdim=True)),
        "the largest exponent of the whole table is subtracted, and in the row of a far query every exp(...) is then "
        "rounded to 0. Subtract the largest of each row, or let torch.softmax do it.": (
            partial(_weights, share=lambda e: _divide((e - e.max()).exp(), dim=-1, keepdim=True))
        ),
    },
)

# Exercise 1.2: double w. K = exp(-1/2 (20 * 0.1)^2)

doubled_weight = ValueCheck(
    "doubled_weight",
    expected=0.1353,
    tolerance=0.006,
    traps={
        "that is exp(-1): twice the exponent. But w is inside the square, so what becomes of the exponent?": 0.368,
        "that is half of 0.61. The weight does not halve: look at what doubling w does to the exponent.": 0.303,
        "that is the weight at half the w: a larger w makes a narrower kernel, and far points lose.": 0.882,
        "that is the weight before: w has doubled.": 0.607,
        "the factor 1/2 in front of the square seems to be missing.": 0.018,
        "that is twice 0.61. K is largest at distance zero, where it is 1.": 1.213,
        "that is the share among the two. Wanted is K of the far point when K of the near one is 1.": 0.119,
    },
)

# Exercise 1.3: a query far from all points

far_answer = ValueCheck(
    "far_answer",
    expected="first",
    traps={
        "all K are tiny there, but tiny is not zero: they are divided by their sum, and the shares sum to one.": "zero",
        "that is the far end. The question comes before all points, not after them.": "last",
        "the mean is what a very *small* w would give. Which of the exponents is the least negative?": "mean",
    },
)

# Exercise 1.4: leave-one-out error


def _without_diagonal(weights, value=0.0):
    return weights.masked_fill(torch.eye(len(weights), dtype=torch.bool), value)


def _loo_error(
    x_i,
    y_i,
    w,
    *,
    exponent=lambda u, w: -0.5 * (w * u) ** 2,
    share=lambda e: _softmax(_without_diagonal(e, -torch.inf)),
    reduce=lambda residual: residual.square().mean(),
):
    return reduce(y_i - _weights(x_i, x_i, w, exponent=exponent, share=share) @ y_i)


def _without_equal_times(x_i, y_i, w):
    scores = (-0.5 * (w * (x_i[:, None] - x_i)) ** 2).masked_fill(x_i[:, None] == x_i, -torch.inf)
    return (y_i - _softmax(scores) @ y_i).square().mean()


loo_error = Check(
    "loo_error",
    reference=_loo_error,
    cases=[
        Case("two points", lambda: (torch.tensor([0.0, 0.1]), torch.tensor([1.0, 3.0]), 10.0)),
        Case("three points", lambda: (torch.tensor([0.0, 0.1, 0.3]), torch.tensor([1.0, 3.0, 2.0]), 10.0)),
        Case("six points", lambda: (*_points(), 8.0)),
        Case("points many widths apart", lambda: (torch.tensor([0.0, 1.0, 3.0]), torch.tensor([1.0, 2.0, 4.0]), 300.0)),
        Case("two points at one time", lambda: (torch.tensor([0.0, 0.1, 0.1]), torch.tensor([1.0, 3.0, 2.0]), 10.0)),
        Case("its slope over w", lambda: (*_points(), torch.tensor(8.0)), observe=gradient(2)),
    ],
    traps={
        "every point still sees itself. (A score of 0 on the diagonal does not help: it is the score of distance zero, "
        "the best there is. Which score has weight 0?)": partial(_loo_error, share=_softmax),
        "the own weight is cleared, but after the softmax: what is left of each row no longer sums to one. Take the "
        "point out before shares are made.": partial(_loo_error, share=lambda e: _without_diagonal(_softmax(e))),
        "it looks as if w is outside the square. It belongs inside: w multiplies the distance, then all of it is "
        "squared.": partial(_loo_error, exponent=lambda u, w: -0.5 * w * u**2),
        "a second point at the same time was taken out, too. Only the point itself keeps quiet: look for it by its "
        "place in the list, not by its time.": _without_equal_times,
        "K is divided by the number of other points. Divide by the sum of their K, row by row.": (
            partial(_loo_error, share=lambda e: _without_diagonal(e.exp()) / (len(e) - 1))
        ),
        "a second softmax on top of the weights makes other weights of them, and what is 0 is not 0 any more. One "
        "softmax is enough, of scores without the point itself.": (
            partial(_loo_error, share=lambda e: _softmax(_without_diagonal(_softmax(e))))
        ),
        "the sums of the rows are laid along the columns. With keepdim=True they stay a column, (M, 1).": (
            partial(_loo_error, share=lambda e: _divide(_without_diagonal(_softmax(e)), dim=-1))
        ),
        "the errors are summed. The formula has their mean.": partial(_loo_error, reduce=lambda r: r.square().sum()),
        "the mean is over the M points, yet it looks as if you divided by M - 1.": (
            partial(_loo_error, reduce=lambda r: r.square().sum() / (len(r) - 1))
        ),
        "that is the root of the error. The formula stops at the mean of the squares.": (
            partial(_loo_error, reduce=lambda r: r.square().mean().sqrt())
        ),
        "that is the mean absolute error. The formula squares.": partial(_loo_error, reduce=lambda r: r.abs().mean()),
        "where all others are many widths away, every exp(...) is rounded to 0, and 0 / 0 is NaN. Put -inf on the "
        "diagonal of the scores and take their softmax.": (
            partial(_loo_error, share=lambda e: _divide(_without_diagonal(e.exp()), dim=-1, keepdim=True))
        ),
        "the number is right, but no gradient flows back to w. Keep it a tensor: no .item(), no float(...).": (
            partial(_loo_error, reduce=lambda r: r.square().mean().item())
        ),
    },
)

# Exercise 1.5: attention pooling


def _pool(scores, values, *, share=_softmax, combine=torch.matmul):
    weights = share(scores)
    return combine(weights, values), weights


_TWO_VALUES = [[1.0, 10.0], [3.0, 40.0]]

pool = Check(
    "pool",
    reference=_pool,
    cases=[
        Case("one query and two keys", lambda: (torch.tensor([[1.0, 2.0]]), torch.tensor(_TWO_VALUES))),
        Case("three queries, three keys, values of three numbers", lambda: (normal(3, 3), normal(3, 3, seed=1))),
        Case("three queries, four keys, values of two numbers", lambda: (normal(3, 4), normal(4, 2, seed=1))),
        # scores in float32 are exact to 1e-4 here, and so is a right answer that subtracts their logsumexp
        Case("scores near 1000", lambda: (torch.tensor([[1000.0, 1001.0]]), torch.tensor(_TWO_VALUES)), tolerance=1e-3),
        Case(
            "scores of 1000 and of 0 for one query",
            lambda: (torch.tensor([[1000.0, 0.0], [0.0, 1000.0]]), torch.tensor(_TWO_VALUES)),
        ),
        Case(
            "one query with scores near 1000 beside one near 0",
            lambda: (torch.tensor([[1000.0, 1001.0], [0.0, 1.0]]), torch.tensor(_TWO_VALUES)),
            tolerance=1e-3,
        ),
    ],
    traps={
        "the softmax runs over the queries. The weights of one query are a row: it is the row that sums to one.": (
            partial(_pool, share=lambda s: torch.softmax(s, 0))
        ),
        "the scores themselves are taken as weights. First make shares of them.": partial(_pool, share=lambda s: s),
        "the exponentials are taken as weights, and do not sum to one. Divide each row by its sum.": (
            partial(_pool, share=torch.exp)
        ),
        "there is one softmax for the whole table. Every query makes its own shares: each row sums to one.": (
            partial(_pool, share=lambda s: torch.softmax(s.flatten(), 0).view_as(s))
        ),
        "the sums of the rows have shape (Q,) and are laid along the keys. With keepdim=True they stay a column, "
        "(Q, 1).": partial(_pool, share=lambda s: _divide(s.exp(), dim=-1)),
        "the values are weighted, but not added up: the axis of the keys is still there. Sum over it.": (
            partial(_pool, combine=lambda p, v: p[..., None] * v)
        ),
        "the weighted values are averaged over the keys. The weights are shares already: add up, and that is all.": (
            partial(_pool, combine=lambda p, v: (p[..., None] * v).mean(-2))
        ),
        "`*` multiplies number by number and adds nothing up. A sum over the keys of weight times value: which product "
        "of matrices is that?": partial(_pool, combine=torch.mul),
        "it looks as if the values are transposed. Compare the shapes: (Q, M) times (M, V).": (
            partial(_pool, combine=lambda p, v: p @ v.T)
        ),
        "it looks as if the weights are transposed. Compare the shapes: (Q, M) times (M, V).": (
            partial(_pool, combine=lambda p, v: p.T @ v)
        ),
        "the two results are in the other order: first the pooled values, then the weights.": (
            lambda scores, values: _pool(scores, values)[::-1]
        ),
        "exp of a large score is too large for the computer, and inf / inf is NaN. Subtract the largest score of the "
        "row first, or let torch.softmax do it.": (
            partial(_pool, share=lambda s: _divide(s.exp(), dim=-1, keepdim=True))
        ),
        "the largest score of the whole table is subtracted, and in a row of small scores every exp is then rounded to "
        "0. Subtract the largest of each row.": (
            partial(_pool, share=lambda s: _divide((s - s.max()).exp(), dim=-1, keepdim=True))
        ),
    },
)

# Exercise 1.6: one thing fits with score 0, three with -1; saliency adds 2 to one of the three

book_weight = ValueCheck(
    "book_weight",
    expected=0.2245,
    tolerance=0.006,
    traps={
        "that is the weight before the phone rings. It now has the score -1 + 2, and the shares are made anew.": 0.4754,
        "that is the weight of the phone. The question is what is left for the book.": 0.6103,
        "that is the share against the phone alone. The other two things still take part.": 0.2689,
        "that counts the phone twice: once as one of three with score -1, and once with its new score.": 0.2073,
        "that gives the phone the score 2. Its saliency is added to the score it has.": 0.1096,
        "that adds 2 to the *weight* of the phone. Add it to the score, and make the shares anew.": 0.1585,
        "that is the weight with no focus at all. The scores 0 and -1 still count, next to the saliency.": 0.0963,
    },
)

# Exercise 1.7: build it, a width for every feature


def _learn_widths(
    x_i,
    y_i,
    w,
    steps,
    step,
    *,
    exponent=lambda u, w: -0.5 * (w * u).square().sum(-1),
    share=lambda e: _softmax(_without_diagonal(e, -torch.inf)),
    reduce=torch.mean,
    keep=0.0,
    update=lambda w, slope, step: (w.log() - step * w * slope).exp(),
):
    total = 0.0
    for _ in range(steps):
        w = w.detach().clone().requires_grad_()
        error = reduce((y_i - share(exponent(x_i[:, None] - x_i, w)) @ y_i).square())
        (slope,) = torch.autograd.grad(error, w)  # dE/dlog w is w dE/dw
        total = keep * total + w.detach() * slope
        w = update(w.detach(), total / w.detach(), step)
    return w


def _scattered(n_points, n_features, seed):
    x_i = normal(n_points, n_features, seed=seed, dtype=torch.float64)
    return x_i, x_i[:, 0].sin() + 0.1 * normal(n_points, seed=seed + 1, dtype=torch.float64)


def _tied():
    x_i, y_i = _scattered(6, 2, 4)
    x_i[3] = x_i[2]
    return x_i, y_i


def _widths(*w):
    return torch.tensor(w, dtype=torch.float64)


learn_widths = Check(
    "learn_widths",
    reference=_learn_widths,
    cases=[
        Case("one feature, one step", lambda: (*_scattered(6, 1, 0), _widths(2.0), 1, 0.5), tolerance=1e-4),
        Case("two features, one step", lambda: (*_scattered(8, 2, 2), _widths(2.0, 0.5), 1, 0.5), tolerance=1e-4),
        Case("two features, twenty steps", lambda: (*_scattered(8, 2, 2), _widths(1.0, 3.0), 20, 0.5), tolerance=1e-4),
        Case("points many widths apart", lambda: (*_scattered(4, 2, 6), _widths(60.0, 60.0), 2, 1e-4), tolerance=1e-4),
        Case("two points at one place", lambda: (*_tied(), _widths(1.5, 0.5), 2, 0.5), tolerance=1e-4),
        Case("no step", lambda: (*_scattered(6, 2, 4), _widths(1.5, 0.5), 0, 0.5), tolerance=1e-4),
    ],
    traps={
        "every point still predicts itself. The error that is worth going down leaves one out.": (
            partial(_learn_widths, share=_softmax)
        ),
        "the own weight is cleared, but after the softmax: what is left of a row no longer sums to one.": (
            partial(_learn_widths, share=lambda e: _without_diagonal(_softmax(e)))
        ),
        "the steps go uphill: take a step *against* the slope.": (
            partial(_learn_widths, update=lambda w, slope, step: (w.log() + step * w * slope).exp())
        ),
        "the steps are taken on w. Take them on log w, with the slope of E by log w, and w stays positive.": (
            partial(_learn_widths, update=lambda w, slope, step: w - step * slope)
        ),
        "it looks as if the slope by w was used for log w. By the chain rule, dE/d log w is w times dE/dw.": (
            partial(_learn_widths, update=lambda w, slope, step: (w.log() - step * slope).exp())
        ),
        "the slopes of all steps pile up: `.backward()` adds to `.grad`. Set it to zero before each step.": (
            partial(_learn_widths, keep=1.0)
        ),
        "it looks as if all features share one step. Each width has its own slope.": (
            partial(_learn_widths, update=lambda w, slope, step: (w.log() - step * (w * slope).sum()).exp())
        ),
        "the differences are added over the features before they are squared. Square each, then add.": (
            partial(_learn_widths, exponent=lambda u, w: -0.5 * (w * u).sum(-1).square())
        ),
        "w is outside the square. It belongs inside, as in (1.5).": (
            partial(_learn_widths, exponent=lambda u, w: -0.5 * (w * u.square()).sum(-1))
        ),
        "the factor 1/2 in front of the square seems to be missing.": (
            partial(_learn_widths, exponent=lambda u, w: -(w * u).square().sum(-1))
        ),
        "the errors are summed. (1.7) has their mean.": partial(_learn_widths, reduce=torch.sum),
        "it looks as if you go down the root of the error. (1.7) stops at the mean of the squares.": (
            partial(_learn_widths, reduce=lambda squares: squares.mean().sqrt())
        ),
        "the slope is the one by log w, but the steps are taken on w.": (
            partial(_learn_widths, update=lambda w, slope, step: w - step * w * slope)
        ),
        "far from all others every exp(...) is rounded to 0, and 0 / 0 is NaN. Put -inf on the diagonal of the scores "
        "and take their softmax.": (
            partial(_learn_widths, share=lambda e: _divide(_without_diagonal(e.exp()), dim=-1, keepdim=True))
        ),
        "that is log w. Return w.": lambda *args: _learn_widths(*args).log(),
    },
)
