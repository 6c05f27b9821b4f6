"""Exercises of chapter 05: features of time, kernels, scores; deeper: an inverse CDF, a period, eigenvectors."""

import math

import torch

from possm_course.checks import Case, ValueCheck, as_tensor, exercise, gradient, normal


def _float64(*rows):
    """A tensor in float64 of each row."""
    return tuple(torch.tensor(row, dtype=torch.float64) for row in rows)


# Exercise 5.1: features of time. The order of the features is free, so their kernel is compared
def _shape(function, *args):
    """Observe the shape alone: zeros of that shape."""
    result = as_tensor(function(*args))
    return torch.zeros(*result.shape) if hasattr(result, "shape") else result


def _kernel(function, t, *args):
    """Of the features of two calls, as those of queries and keys are made, with other times first and last."""
    other_times = torch.cat([t[1:], t[:1] + 2])
    first = as_tensor(function(t, *args))
    second = as_tensor(function(other_times, *args))
    return first @ second.mT


@exercise(
    cases={
        "three times and two frequencies": Case(lambda: _float64([0.0, 0.1, 0.7], [2.0, 3.0]), _shape),
        "a single frequency": Case(lambda: _float64([0.0, 0.1, 0.7], [2.0]), _kernel),
        "three frequencies": Case(lambda: _float64([0.0, 0.1, 0.7, -3.0], [0.5, 2.0, 9.0]), _kernel),
        "negative frequencies": Case(lambda: _float64([0.0, 0.4], [-1.5, 1.0, 4.0, -8.0]), _kernel),
        "spikes one hour after the start, given in float64": Case(
            lambda: _float64([3600.0, 3600.003, 3600.0101], [310.0, 40.0]), _kernel
        ),
    },
    mistakes={
        " / math.sqrt(len(omega)) → ": (
            "the dot product grows with the number of frequencies: the factor sqrt(1/F) of (5.3) is missing."
        ),
        "math.sqrt(len(omega)) → math.sqrt(2 * len(omega))": (
            "the dot product of a time with itself is one half: F counts frequencies, not the 2F features."
        ),
        ", angle.sin()] → ]": (
            "only the cosines are there. cos a cos b alone is not cos(a - b): the sines are the other half."
        ),
        "math.sqrt(len(omega)) → len(omega)": "the dot product has the square of your factor in it: (5.3) has a root.",
        "/ math.sqrt(len(omega)) → * math.sqrt(2 / len(omega))": (
            "the factor is that of random features with one random phase, sqrt(2/F). With a cosine *and* a sine "
            "for each "
            "frequency it should be sqrt(1/F)."
        ),
        "t[:, None] * omega → 2 * math.pi * t[:, None] * omega": (
            "a factor 2π too much: omega is in radians per second already."
        ),
        "t[:, None] * omega → t.float()[:, None] * omega.float()": (
            "times were rounded to float32: an hour in, that loses fractions of a millisecond. Multiply in float64."
        ),
        "return torch.cat([angle.cos(), angle.sin()], -1) → return torch.cat([angle.cos(), angle.cos()], -1)": (
            "both halves are cosines. One of them should be the sines."
        ),
        "return torch.cat([angle.cos(), angle.sin()], -1) / math.sqrt(len(omega)) → "
        "f = torch.cat([angle.cos(), angle.sin()], -1) / math.sqrt(len(omega)); f[:, 0] = angle[:, 0]; return f": (
            "the first feature grows with the time, as in Time2Vec. Then the dot product is no function of the "
            "difference."
        ),
        "return torch.cat([angle.cos(), angle.sin()], -1) / math.sqrt(len(omega)) → w = torch.cat([omega, omega]); "
        "b = 6.28 * torch.linspace(0, 1, len(w), dtype=t.dtype); return math.sqrt(2 / len(w)) * "
        "torch.cos(t[:, None] * w + b)": (
            "cosines with phases of their own give the kernel only on average. A cosine and a sine of each give "
            "it exactly."
        ),
    },
)
def time_features(t, omega):
    """Bochner features of times t (N,) with frequencies omega (F,): shape (N, 2F)."""
    angle = t[:, None] * omega  # (N, F)
    return torch.cat([angle.cos(), angle.sin()], -1) / math.sqrt(len(omega))  # (N, 2F)


# Exercise 5.2: catch the box
def _sum_of_box(function):
    """In words, whether times and weights make a negative sum, and what is in the way."""
    t, alpha = (torch.as_tensor(x, dtype=torch.float64).flatten() for x in function())
    if len(t) != len(alpha):
        return f"{len(t)} times and {len(alpha)} weights"
    if (alpha >= 0).all() or (alpha <= 0).all():
        return "weights of one sign, which make no negative sum from ones and zeros"
    box = ((t[:, None] - t).abs() < 1).double()
    if box.all():
        return "events all within one second: each box is one, and the sum is (alpha_1 + alpha_2 + ...) squared"
    if box.sum() == len(t):
        return "no two events within the box of one second, which leaves a sum of squares"
    is_negative = alpha @ box @ alpha < -1e-9 * alpha @ alpha
    return "a negative sum" if is_negative else "a sum that is not negative"


@exercise(
    cases={"the sum (5.6) for the box": Case(lambda: (), _sum_of_box)},
    mistakes={
        "-1.0 → 1.0": "the weights, which come second, have one sign: no such sum of ones and zeros is negative.",
        "[1.0, -1.0, 1.0] → [1.0, 1.0, -1.0]": "this sum is not negative. What sign and size must the middle one have?",
    },
)
def catch_box():
    """Times t (n,) in s and weights alpha (n,) for which the sum (5.6) of the box is negative."""
    return torch.tensor([0.0, 0.6, 1.2]), torch.tensor([1.0, -1.0, 1.0])


# Exercise 5.3: score of two events
def _events(content=1.0, span=2.0, start=0.0):
    """Two queries, three keys, their times, two frequencies; content has 4 numbers, so that Z + Phi can be added."""
    z_q, z_k = normal(2, 4, seed=0).double(), normal(3, 4, seed=1).double()
    t_q, t_k = normal(2, seed=2).double(), normal(3, seed=3).double()
    omega = torch.tensor([1.0, 7.0]).double()
    return content * z_q, content * z_k, start + span * t_q, start + span * t_k, omega


def _added(z_q, z_k, t_q, t_k, omega):
    """The scores where features of time are added to content."""
    features = time_features.reference
    return (z_q + features(t_q, omega)) @ (z_k + features(t_k, omega)).T


@exercise(
    cases={
        "events that happen all at once": lambda: _events(span=0.0),
        "events without content": lambda: _events(content=0.0),
        "two queries and three keys": _events,
        "a clock that was started an hour earlier": lambda: _events(start=3600.0),
    },
    mistakes={
        _added: "content and time were added, and the dot product of sums has cross terms of content with time.",
        ".mean(-1) → .sum(-1)": "the part of the time is too large: it is the mean over the frequencies.",
        "z_q @ z_k.T + kernel → (z_q @ z_k.T + kernel) / z_q.shape[1] ** 0.5": "(5.7) has no division by sqrt(D).",
        " + kernel →  * kernel": "content and kernel are added, not multiplied.",
        (
            "lag[..., None] * omega → 2 * math.pi * lag[..., None] * omega"
        ): "a factor 2π too much: omega is in rad/s already.",
        "t_q[:, None] - t_k → t_q.float()[:, None] - t_k.float()": (
            "times were rounded to float32 before the difference: after an hour that is wrong. Subtract first."
        ),
        (
            "torch.cos(lag[..., None] * omega) → torch.sin(lag[..., None] * omega)"
        ): "these are sines. The kernel is of cosines.",
        (
            "return z_q @ z_k.T + kernel → return kernel"
        ): "the content is missing: z_q . z_k is the other part of the score.",
        (
            "return z_q @ z_k.T + kernel → return z_q @ z_k.T"
        ): "the time is missing: the kernel is the other part of the score.",
        "return z_q @ z_k.T + kernel → return torch.softmax(z_q @ z_k.T + kernel, -1)": (
            "these are weights. Return the scores, before the softmax."
        ),
        "return z_q @ z_k.T + kernel → return (z_q @ z_k.T + kernel) / math.sqrt(z_q.shape[1] + 2 * len(omega))": (
            "divided by the root of the size of joined vectors. (5.7) has no division."
        ),
    },
)
def event_score(z_q, z_k, t_q, t_k, omega):
    """Scores of queries (z_q, t_q) and keys (z_k, t_k): content plus Bochner kernel of the time between, (Q, M)."""
    lag = t_q[:, None] - t_k  # (Q, M)
    kernel = torch.cos(lag[..., None] * omega).mean(-1)  # (Q, M)
    return z_q @ z_k.T + kernel


# Exercise 5.4: one function of time for each unit
@exercise(
    cases={
        "a key that is the query": lambda: (normal(8).double(), normal(8).double()[None], 2),
        "three units": lambda: (normal(8).double(), normal(3, 8, seed=1).double(), 2),
        "keys that are rotated as a whole": lambda: (normal(4).double(), normal(3, 4, seed=1).double(), 2),
    },
    mistakes={
        "y * v - x * w → x * w - y * v": "all b have the other sign: b_f is y_f v_f - x_f w_f, by (5.9).",
        (
            "q[0 : 2 * n_freqs : 2], q[1 : 2 * n_freqs : 2] → q[:n_freqs], q[n_freqs : 2 * n_freqs]",
            "k[:, 0 : 2 * n_freqs : 2], k[:, 1 : 2 * n_freqs : 2] → k[:, :n_freqs], k[:, n_freqs : 2 * n_freqs]",
        ): "these pairs are a number of the first half with one of the second. A pair is two neighbours.",
        ", a_0[:, None]] → ]": "the last column is missing: a_0, the dot product of what is not rotated.",
        "k[:, 2 * n_freqs :] @ q[2 * n_freqs :] → k @ q": "a_0 is the dot product of what is *not* rotated.",
        "k[:, 2 * n_freqs :] @ q[2 * n_freqs :] → k[:, n_freqs:] @ q[n_freqs:]": "a_0 begins after 2F numbers, not F.",
        "x * v + y * w, y * v - x * w → x * v - y * w, -y * v - x * w": (
            "the angles of query and key were added. By (5.9) the sign is plus in a_f = x_f v_f + y_f w_f and minus in "
            "b_f = y_f v_f - x_f w_f."
        ),
        (
            "a_0[:, None]], -1) → a_0[:, None]], -1) / math.sqrt(len(q))"
        ): "divided by the root of d: (5.10) has no division.",
        "[a, b, a_0[:, None]] → [a_0[:, None], a, b]": "a_0 comes first. In (5.10) it is the last column.",
        "[a, b, a_0[:, None]] → [b, a, a_0[:, None]]": "a and b have changed places: the cosines come first.",
        "torch.cat([a, b, a_0[:, None]], -1) → torch.cat([torch.stack([a, b], -1).flatten(1), a_0[:, None]], -1)": (
            "a and b take turns. All a come first, then all b."
        ),
    },
)
def unit_table(q, k, n_freqs):
    """The table P (U, 2F + 1) of (5.10): rows a_1 ... a_F, b_1 ... b_F, a_0, from q (d,) and k (U, d)."""
    x, y = q[0 : 2 * n_freqs : 2], q[1 : 2 * n_freqs : 2]  # (F,), (F,)
    v, w = k[:, 0 : 2 * n_freqs : 2], k[:, 1 : 2 * n_freqs : 2]  # (U, F), (U, F)
    a, b = x * v + y * w, y * v - x * w  # (U, F), (U, F)
    a_0 = k[:, 2 * n_freqs :] @ q[2 * n_freqs :]  # (U,)
    return torch.cat([a, b, a_0[:, None]], -1)  # (U, 2F + 1)


# Exercise 5.5, deeper: the price of precision
my_factor = ValueCheck(
    "my_factor",
    expected=100.0,
    tolerance=0.05,
    mistakes={
        10.0: "ten would do if the error fell as 1/F. Look at the slope you have just seen: it is not -1.",
        math.sqrt(10): "that is the root of ten: you went the wrong way round.",
        0.01: "more frequencies are needed, not fewer: say F_new / F_old.",
        **dict.fromkeys((5.0, 20.0, 50.0), "the slope -1/2 is an exponent of F, not a factor."),
    },
    hint="The slope of the line says by how much the error falls for ten times F. What is needed for a tenth?",
)


# Exercise 5.6, deeper: a learned inverse CDF
def _steps(*u):
    """The steps of a density of time, and where its inverse is asked for."""
    return _float64(2.0, [1.0, 0.1, 5.0], [*u])


@exercise(
    cases={
        "shares at the ends of the lines": lambda: _steps(0.0, 1 / 3, 2 / 3, 1.0),
        "shares between": lambda: _steps(0.2, 0.5, 0.35, 0.99),
        "the gradients by start and steps": Case(lambda: _steps(0.2, 0.5, 0.35, 0.99), gradient(0, 1)),
    },
    mistakes={
        "+ (u * len(steps) - k) * steps[k] → ": "these are stairs. Between two heights g is a straight line.",
        ".cumsum(0) → ": "the steps were not added up: g(2/K) is start + steps_1 + steps_2.",
        "start + steps.cumsum(0)]) → steps.cumsum(0)])": "g begins at `start`, and every height stands on it.",
        "return → return start.detach() - start +": "the gradient does not reach `start`.",
        "* steps[k] → * steps.detach()[k]": "part of the gradient by `steps` is lost: that of the line that u is on.",
        (
            "(u * len(steps) - k) * steps[k] → u * steps[k]"
        ): "along a line only what is left of u after whole steps counts.",
        "u * len(steps)).long() → u * (len(steps) - 1)).long()": "there are K lines for u from 0 to 1, each 1/K wide.",
        ".clamp(max=len(steps) - 1) → ": "at u = 1 the last line ends: its index should stay K - 1.",
    },
)
def inverse_cdf(start, steps, u):
    """g(u) in rad/s, (F,): from start () at u = 0 up along K straight lines, which rise by steps (K,)."""
    heights = torch.cat([start[None], start + steps.cumsum(0)])  # (K + 1,)
    k = (u * len(steps)).long().clamp(max=len(steps) - 1)  # (F,), the line of each u; u = 1 is on the last
    return heights[k] + (u * len(steps) - k) * steps[k]  # (F,)


# Exercise 5.7, deeper: features of a period
@exercise(
    cases={
        "a single wave, all c one": Case(
            lambda: (*_float64([0.0, 0.1, 0.7]), 0.5, *_float64([1.0, 1.0, 1.0])), _kernel
        ),
        "two waves, each c as it likes": Case(
            lambda: (*_float64([0.0, 0.1, 0.7, -3.0]), 0.8, *_float64([0.3, 1.0, 0.2, 0.5, 0.0])), _kernel
        ),
    },
    mistakes={
        "c.sqrt() → c": "the dot product has c squared in it: the features have the roots of c.",
        "math.pi / w → 2 * math.pi / w": "the waves are twice too fast: w is half a period.",
        "math.pi / w → w": "w is a time, half a period in s, not a frequency.",
        "torch.stack([angle.cos(), angle.sin()], -1).flatten(1) → torch.cat([angle.cos(), angle.sin()], 1)": (
            "c_2, c_3 belong to the cosine and the sine of the first wave: cosine and sine take turns."
        ),
        "torch.ones → torch.zeros": "the constant, with c_1, is missing.",
    },
)
def periodic_features(t, w, c):
    """The features (5.12), (N, 2J + 1), of times t (N,) in s for half a period w in s and coefficients c (2J + 1,)."""
    j = torch.arange(1, len(c) // 2 + 1)  # 1 ... J
    angle = t[:, None] * j * (math.pi / w)  # (N, J)
    waves = torch.stack([angle.cos(), angle.sin()], -1).flatten(1)  # (N, 2J)
    return c.sqrt() * torch.cat([torch.ones(len(t), 1), waves], 1)


# Exercise 5.8, deeper: features of any kernel
def _gram(n):
    """A kernel that is no kernel of differences, at six times, (6, 6), and the number of features."""
    t = torch.tensor([0.0, 0.2, 0.5, 1.1, 1.3, 2.0], dtype=torch.float64)
    gauss = torch.exp(-((t[:, None] - t) ** 2))
    return gauss * (1 + t[:, None] * t), n


def _product(function, *args):
    """Observe the dot products of the features, which do not depend on their signs."""
    features = as_tensor(function(*args))
    return features @ features.mT


@exercise(
    cases={
        "six times and three features": Case(lambda: _gram(3), _shape),
        "as many features as times": Case(lambda: _gram(6), _product),
        "the best three features": Case(lambda: _gram(3), _product),
    },
    mistakes={
        ".sqrt() → ": "the dot product has the eigenvalues squared in it: their roots are wanted.",
        "v[:, -n:] * c[-n:] → v[:, :n] * c[:n]": "these are the smallest eigenvalues: `eigh` sorts upwards.",
        "v[:, -n:] → v.T[:, -n:]": "eigenvectors are the columns of what `eigh` returns, not the rows.",
        ".clamp(min=0).sqrt() → .clamp(min=0).sqrt() ** 0": "the roots of the eigenvalues are missing.",
    },
)
def kernel_features(K, n):
    """Features (N, n) whose dot products come as near to the Gram matrix K (N, N) as those of n features can."""
    c, v = torch.linalg.eigh(K)  # (N,) upwards, (N, N)
    return v[:, -n:] * c[-n:].clamp(min=0).sqrt()
