"""Exercises of chapter 01: Gaussian weights, points heard, leave-one-out error, attention pooling, saliency, widths."""

import torch

from possm_course.checks import Case, ValueCheck, exercise, gradient, normal


def _points():
    """Times in s, in order but not evenly spaced, and velocities in mm/s."""
    times = torch.tensor([0.06, 0.56, 0.81, 1.5, 1.52, 1.6]).double()
    return times, 100 * normal(6, seed=1).double()


# Exercise 1.1: Gaussian weights
@exercise(
    cases={
        "one query, w = 1": lambda: (torch.tensor([0.2]), torch.tensor([0.0, 1.0, 3.0]), 1.0),
        "one query, w = 3": lambda: (torch.tensor([0.2]), torch.tensor([0.0, 0.5, 1.0]), 3.0),
        "four queries and six points": lambda: (torch.linspace(0, 2, 4).double(), _points()[0], 4.0),
        "a query far from all points": lambda: (torch.tensor([10.0]), torch.tensor([0.0, 1.9, 2.0]), 5.0),
        "a query near the points and one far": lambda: (torch.tensor([1.8, 10.0]), torch.tensor([0.0, 2.0]), 5.0),
    },
    mistakes={
        ("w * (x[:, None] - x_i) → x[:, None] - x_i", "u**2 → w * u**2"): "it looks as if w is outside the square.",
        "w * (x[:, None] - x_i) → (x[:, None] - x_i) / w": "you divide by w, but w is one over the width: multiply.",
        "-0.5 * u**2 → -(u**2)": "the weights fall too fast: the factor 1/2 before the square seems to be missing.",
        "dim=-1 → dim=0": "it looks as if the softmax runs over the queries: a row sums to one.",
        "torch.softmax(-0.5 * u**2, dim=-1) → torch.exp(-0.5 * u**2)": "the weights of a query do not sum to one.",
        "torch.softmax(-0.5 * u**2, dim=-1) → (K := torch.exp(-0.5 * u**2)) / K.sum(-1, keepdim=True)": (
            "far from all points every exp(...) is rounded to 0, and 0 / 0 is NaN: let torch.softmax do it."
        ),
        "torch.softmax(-0.5 * u**2, dim=-1) → w / (2 * torch.pi) ** 0.5 * torch.exp(-0.5 * u**2)": (
            "this is the density of the normal distribution. Weights of a query should sum to one: divide by "
            "their sum instead."
        ),
        "-0.5 * u**2 → -0.5 * u.abs()": "the distance is not squared.",
        "-0.5 * u**2 → 0.5 * u**2": "the sign: far points get the largest weights. A Gaussian falls with the distance.",
        "return torch.softmax(-0.5 * u**2, dim=-1) → "
        "K = torch.exp(-0.5 * u**2); return K / (K.sum(-1, keepdim=True) + 1e-6)": (
            "the small number in the denominator takes over where all K are tiny: far away the weights should "
            "still sum to one."
        ),
        "return torch.softmax(-0.5 * u**2, dim=-1) → return torch.softmax(-0.5 * u**2, dim=-1).T": (
            "keys and queries have changed places: rows are queries, columns are points."
        ),
        "torch.softmax(-0.5 * u**2, dim=-1) → (K := torch.exp(-0.5 * u**2)) / K.sum()": (
            "one sum over the whole table. Each query should have its own."
        ),
    },
)
def gaussian_weights(x, x_i, w):
    """Weights of all points for each question. x (Q,), x_i (M,), w a number; returns (Q, M), rows sum to one."""
    u = w * (x[:, None] - x_i)  # (Q, M): distance, counted in widths
    return torch.softmax(-0.5 * u**2, dim=-1)  # (Q, M): over the points


# Exercise 1.2: double w. The effective number of points at 1.0 s falls from 13.7 to 7.2
heard_number = ValueCheck(
    "heard_number",
    expected=7.2,
    tolerance=1.5,
    mistakes={
        3.4: "that is a quarter. The exponents are four times as large, but how much narrower is the kernel?",
        13.7: "that is the number at w = 10. Of a narrower kernel, do more points get a share, or fewer?",
        27.4: "that is twice as many. A larger w makes a narrower kernel: fewer points get a share.",
        9.7: "that is divided by the root of two. How does the width follow from w?",
    },
    hint="A kernel of half the width reaches half as far: about how many points lie there?",
)

# Exercise 1.3: a query far from all points
far_answer = ValueCheck(
    "far_answer",
    expected="first",
    mistakes={
        "zero": "all K are tiny there, but tiny is not zero: they are divided by their sum, and the shares sum to one.",
        "last": "that is the far end. The question comes before all points, not after them.",
        "mean": "the mean is what a very *small* w would give. Which of the exponents is the least negative?",
    },
    hint="Compare the exponents of the first, the middle and the last point: which is the least negative?",
)


# Exercise 1.4: leave-one-out error
@exercise(
    cases={
        "two points": lambda: (torch.tensor([0.0, 0.1]), torch.tensor([1.0, 3.0]), 10.0),
        "three points": lambda: (torch.tensor([0.0, 0.1, 0.3]), torch.tensor([1.0, 3.0, 2.0]), 10.0),
        "six points": lambda: (*_points(), 8.0),
        "points many widths apart": lambda: (torch.tensor([0.0, 1.0, 3.0]), torch.tensor([1.0, 2.0, 4.0]), 1e8),
        "two points at one time": lambda: (torch.tensor([0.0, 0.1, 0.1]), torch.tensor([1.0, 3.0, 2.0]), 10.0),
        "its slope over w": Case(lambda: (*_points(), torch.tensor(8.0).double()), gradient(2)),
    },
    mistakes={
        "scores.masked_fill(itself, -torch.inf) → scores": "every point still sees itself: which score has weight 0?",
        ("scores.masked_fill(itself, -torch.inf) → scores", "p @ y_i → p.masked_fill(itself, 0.0) @ y_i"): (
            "the own weight is cleared, but after the softmax: what is left of each row no longer sums to one."
        ),
        (
            "scores.masked_fill(itself, -torch.inf) → scores",
            "(y_i - p @ y_i) → ((y_i - p @ y_i) / (1 - p.diagonal()))",
        ): (
            "exact on paper, to divide by what is left of a row, 1 - p_ii. With a narrow kernel that loses its digits, "
            "and at last it is 0 / 0. Take the point out before the softmax."
        ),
        "(w * (x_i[:, None] - x_i)) ** 2 → w * (x_i[:, None] - x_i) ** 2": "it looks as if w is outside the square.",
        "-torch.inf → -1e6": "a finite score is not the least where all others are lower still: which score always is?",
        ".mean() → .mean().sqrt()": "this is the root, as in the pictures. (1.7) is the mean of the squares.",
        "-0.5 * (w → -1.0 * (w": "the factor 1/2 before the square is missing.",
        (
            "((y_i - p @ y_i) ** 2).mean() → (y_i - p @ y_i).abs().mean()"
        ): "this is the mean of the sizes. (1.7) has squares.",
        ".mean() → .sum()": "the errors are summed. (1.7) has their mean.",
        "dim=-1) → dim=0)": "the softmax runs over the points that are asked: the shares of a row should sum to one.",
        "(w * (x_i[:, None] - x_i)) ** 2 → ((x_i[:, None] - x_i) / w) ** 2": (
            "you divide by w, but w is one over the width: multiply."
        ),
    },
)
def loo_error(x_i, y_i, w):
    """Leave-one-out error (1.7) of the Gaussian. x_i (M,), y_i (M,), w a number or tensor (); returns a tensor ()."""
    scores = -0.5 * (w * (x_i[:, None] - x_i)) ** 2  # (M, M)
    itself = torch.eye(len(x_i), dtype=torch.bool)  # (M, M)
    p = torch.softmax(scores.masked_fill(itself, -torch.inf), dim=-1)  # (M, M): exp(-inf) = 0, no share for itself
    return ((y_i - p @ y_i) ** 2).mean()


# Exercise 1.5: attention pooling
_TWO_VALUES = [[1.0, 10.0], [3.0, 40.0]]


@exercise(
    cases={
        "one query and two keys": lambda: (torch.tensor([[1.0, 2.0]]), torch.tensor(_TWO_VALUES)),
        "three queries, three keys, values of three numbers": lambda: (normal(3, 3), normal(3, 3, seed=1)),
        "three queries, four keys, values of two numbers": lambda: (normal(3, 4), normal(4, 2, seed=1)),
        # scores in float32 are exact to 1e-4 here, and so is a right answer that subtracts their logsumexp
        "scores near 1000": Case(lambda: (torch.tensor([[1000.0, 1001.0]]), torch.tensor(_TWO_VALUES)), tolerance=1e-3),
        "scores of 1000 and of 0 for one query": lambda: (
            torch.tensor([[1000.0, 0.0], [0.0, 1000.0]]),
            torch.tensor(_TWO_VALUES),
        ),
        "one query with scores near 1000 beside one near 0": Case(
            lambda: (torch.tensor([[1000.0, 1001.0], [0.0, 1.0]]), torch.tensor(_TWO_VALUES)), tolerance=1e-3
        ),
    },
    mistakes={
        "dim=-1 → dim=0": "the softmax runs over the queries: it is a row that sums to one.",
        "torch.softmax(scores, dim=-1) → torch.exp(scores)": (
            "the exponentials are taken as weights, and do not sum to one. Divide each row by its sum."
        ),
        "torch.softmax(scores, dim=-1) → (e := torch.exp(scores)) / e.sum(-1, keepdim=True)": (
            "exp of a large score is infinite, and inf / inf is NaN. Subtract the largest score of the row first."
        ),
        "torch.softmax(scores, dim=-1) → (e := torch.exp(scores - scores.max())) / e.sum(-1, keepdim=True)": (
            "the largest score of the whole table is subtracted. Subtract the largest of each row."
        ),
        "weights @ values, weights → weights, weights @ values": "the two results have changed places.",
        "torch.softmax(scores, dim=-1) → torch.softmax(torch.softmax(scores, -1), -1)": (
            "the softmax is taken twice. Once makes weights of scores."
        ),
        "torch.softmax(scores, dim=-1) → torch.softmax(scores[..., None], -1)[..., 0]": (
            "all weights are 1: the softmax runs over an axis of size one. It should run over the keys."
        ),
        "torch.softmax(scores, dim=-1) → scores / scores.sum(-1, keepdim=True)": (
            "the scores themselves are divided by their sum: exp is missing."
        ),
        "torch.softmax(scores, dim=-1) → torch.log_softmax(scores, dim=-1)": (
            "these are logarithms of the weights: `softmax`, not `log_softmax`."
        ),
        "torch.softmax(scores, dim=-1) → torch.softmax(scores / scores.shape[-1] ** 0.5, -1)": (
            "the scores are divided by a root. Here they come ready."
        ),
        "torch.softmax(scores, dim=-1) → torch.sigmoid(scores)": (
            "each score goes through a sigmoid of its own: weights should compete, and sum to one."
        ),
    },
)
def pool(scores, values):
    """Attention pooling (1.9). scores (Q, M), values (M, V); returns pooled values (Q, V) and weights (Q, M)."""
    weights = torch.softmax(scores, dim=-1)  # (Q, M): over the keys
    return weights @ values, weights  # (Q, V), (Q, M)


# Exercise 1.7: one thing fits with score 0, three with -1; saliency adds 2 to one of the three
book_weight = ValueCheck(
    "book_weight",
    expected=0.2245,
    tolerance=0.006,
    mistakes={
        0.4754: "that is the weight before the phone rings. It now has the score -1 + 2, and the shares are made anew.",
        0.6103: "that is the weight of the phone. The question is what is left for the book.",
        0.2073: "that counts the phone twice: once as one of three with score -1, and once with its new score.",
        0.25: "that is an equal share of four. The scores differ.",
    },
    hint="Write down the four scores as they are now, take exp of each, and divide by the sum.",
)


# Exercise 1.6: build it, a width for every feature
def _scattered(n_points, n_features, seed):
    """Points at random places, and a wave of their first feature with noise."""
    x_i = normal(n_points, n_features, seed=seed, dtype=torch.float64)
    noise = normal(n_points, seed=seed + 1, dtype=torch.float64)
    return x_i, x_i[:, 0].sin() + 0.1 * noise


def _tied():
    """Points of which two are at one place."""
    x_i, y_i = _scattered(6, 2, 4)
    x_i[3] = x_i[2]
    return x_i, y_i


def _widths(*w):
    """One over the width of each feature, in float64."""
    return torch.tensor(w, dtype=torch.float64)


@exercise(
    tolerance=1e-4,
    cases={
        "one feature, one step": lambda: (*_scattered(6, 1, 0), _widths(2.0), 1, 0.5),
        "two features, one step": lambda: (*_scattered(8, 2, 2), _widths(2.0, 0.5), 1, 0.5),
        "two features, twenty steps": lambda: (*_scattered(8, 2, 2), _widths(1.0, 3.0), 20, 0.5),
        "points many widths apart": lambda: (*_scattered(4, 2, 6), _widths(60.0, 60.0), 2, 1e-4),
        "two points at one place": lambda: (*_tied(), _widths(1.5, 0.5), 2, 0.5),
        "no step": lambda: (*_scattered(6, 2, 4), _widths(1.5, 0.5), 0, 0.5),
    },
    mistakes={
        "scores.masked_fill(itself, -torch.inf) → scores": "every point still predicts itself: leave one out.",
        "log_w - step * slope → log_w + step * slope": "the steps go uphill: take a step *against* the slope.",
        "log_w - step * slope → (log_w.exp() - step * slope / log_w.exp()).log()": "the steps are taken on w.",
        (
            "for _ in → total = 0.0\n    for _ in",
            "log_w = (log_w - step * slope) → total = total + slope\n        log_w = (log_w - step * total)",
        ): "the slopes of all steps pile up: `.backward()` adds to `.grad`. Set it to zero before each step.",
        ".mean() → .sum()": "the errors are summed. (1.7) has their mean.",
        "return log_w.exp().detach() → return log_w.detach()": "this is log w. Return w.",
        "torch.autograd.grad(error, log_w) → (torch.autograd.grad(error, log_w)[0] / log_w.exp().detach(),)": (
            "the slope is that by w. The steps are on log w, whose slope is w times as large."
        ),
        "(u**2).sum(-1) → (u**2).mean(-1)": "the mean over the features. (1.11) sums their squares.",
        "-0.5 * (u**2).sum(-1) → -(u**2).sum(-1)": "the factor 1/2 before the squares is missing.",
        "log_w.exp() * (x_i → (1 / log_w.exp()) * (x_i": "you divide by w, but w is one over the width: multiply.",
        ".mean() → .mean().sqrt()": "this is the slope of the root. (1.7) is the mean of the squares.",
    },
)
def learn_widths(x_i, y_i, w, steps, step):
    """w (C,) after plain gradient steps on log w, down (1.7) with (1.11). x_i (M, C), y_i (M,), w (C,)."""
    log_w = w.log().requires_grad_()  # (C,), a new tensor: w stays as it is
    itself = torch.eye(len(x_i), dtype=torch.bool)  # (M, M)
    for _ in range(steps):
        u = log_w.exp() * (x_i[:, None] - x_i)  # (M, M, C): distances, each counted in the widths of its feature
        scores = -0.5 * (u**2).sum(-1)  # (M, M)
        p = torch.softmax(scores.masked_fill(itself, -torch.inf), dim=-1)  # (M, M)
        error = ((y_i - p @ y_i) ** 2).mean()
        (slope,) = torch.autograd.grad(error, log_w)  # (C,)
        log_w = (log_w - step * slope).detach().requires_grad_()
    return log_w.exp().detach()
