"""Exercises of chapter 05: features of time, frequencies that learn, the spread of periods, scores of events."""

import math
from functools import partial

import torch

from possm_lite.classroom.checks import Case, Check, ValueCheck, gradient, normal


def _float64(*rows):
    return tuple(torch.tensor(row, dtype=torch.float64) for row in rows)


# Exercise 5.1: features of time. The order of the features is free, so their kernel is compared


def _features(t, omega, *, scale=1.0, waves=(torch.cos, torch.sin), norm=math.sqrt):
    angle = t[:, None] * omega * scale
    return torch.cat([wave(angle) for wave in waves], -1) / norm(len(omega))


def _kernel(function, t, omega):
    features = function(t, omega)
    return float(features.shape[-1]), features @ features.mT


time_features = Check(
    "time_features",
    reference=_features,
    cases=[
        Case("a single frequency", lambda: _float64([0.0, 0.1, 0.7], [2.0]), _kernel),
        Case("three frequencies", lambda: _float64([0.0, 0.1, 0.7, -3.0], [0.5, 2.0, 9.0]), _kernel),
        Case("negative frequencies", lambda: _float64([0.0, 0.4], [-1.5, 1.0, 4.0, -8.0]), _kernel),
        Case(
            "spikes one hour after the start, given in float64",
            lambda: _float64([3600.0, 3600.003, 3600.0101], [310.0, 40.0]),
            _kernel,
        ),
    ],
    traps={
        "the dot product grows with the number of frequencies: the factor sqrt(1/d) of (5.3) is missing.": (
            partial(_features, norm=lambda d: 1.0)
        ),
        "the dot product of a time with itself is one half, it must be one: d counts frequencies, not the 2d "
        "features.": partial(_features, norm=lambda d: math.sqrt(2 * d)),
        "the dot product shrinks with the number of frequencies: divide by the root of d. It enters twice, "
        "once on either side.": partial(_features, norm=float),
        "only the cosines are there. cos a cos b alone is not cos(a - b): the sines are the other half.": (
            partial(_features, waves=(torch.cos,))
        ),
        "the kernel runs 2π too fast: omega is already in rad/s, so the angle is omega times t.": (
            partial(_features, scale=2 * math.pi)
        ),
        "times in float32 cannot tell spikes of one millisecond apart after an hour. Leave t in float64 until the "
        "cosine is taken.": lambda t, omega: _features(t.float().double(), omega),
        "times in float32 cannot tell spikes of one millisecond apart after an hour. Leave t in float64, also "
        "omega.": lambda t, omega: _features(t.float(), omega.float()),
    },
)

# Exercise 5.2: the price of precision

my_factor = ValueCheck(
    "my_factor",
    expected=100.0,
    tolerance=1e-6,
    traps={
        "ten would do if the error fell as 1/d. Look at the slope you have just seen: it is not -1.": 10.0,
        "that is the root of ten: you went the wrong way round. Which power of d makes the error ten times "
        "smaller?": math.sqrt(10),
        "more frequencies are needed, not fewer: say d_new / d_old.": 0.01,
    },
)

# Exercise 5.3: draws with gradients


def _draw(mu, sigma, d, *, noise=torch.randn, spread=lambda sigma: sigma):
    return mu + spread(sigma) * noise(d)


def _mu_sigma(mu=3.0, d=15_000):
    """By default so many draws that statistics of right answers differ by 0.01 or less; few enough for a loop."""
    return torch.tensor(mu, requires_grad=True), torch.tensor(0.5, requires_grad=True), d


def _shape(function, *args):
    omega = function(*args)
    return torch.zeros(omega.shape) if isinstance(omega, torch.Tensor) else omega


def _moments(function, *args):
    omega = function(*args).detach()
    within = ((omega - omega.mean()).abs() < omega.std()).double().mean()  # 0.68 of a Gaussian, 0.58 of a uniform
    return omega.mean().item(), omega.std().item(), within.item()


def _gradient_of(statistic, i):
    """Observes the gradient by argument i, which is zero (by `+ 0 * args[i]`) where the draw has lost it."""
    return lambda function, *args: gradient(i)(lambda *args: statistic(function(*args)) + 0 * args[i], *args)


def _two_calls(function, *args):
    return "the same numbers again" if torch.equal(function(*args), function(*args)) else "other numbers"


draw_frequencies = Check(
    "draw_frequencies",
    reference=_draw,
    cases=[
        Case("seven draws", lambda: _mu_sigma(d=7), _shape),
        Case("the mean, the spread and the share within one spread of many draws", _mu_sigma, _moments, 0.025),
        Case(
            "the mean, the spread and the share within one spread around -1", lambda: _mu_sigma(-1.0), _moments, 0.025
        ),
        Case("the gradient of the mean draw with respect to mu", _mu_sigma, _gradient_of(torch.mean, 0), 0.05),
        Case("the gradient of the draws' spread with respect to sigma", _mu_sigma, _gradient_of(torch.std, 1), 0.05),
        Case("a second call", lambda: _mu_sigma(d=7), _two_calls),
    ],
    traps={
        "the gradient is zero: the draw has swallowed mu and sigma. Draw noise that knows neither, and build the "
        "frequencies from it.": lambda mu, sigma, d: torch.normal(mu.expand(d), sigma.expand(d)),
        "mu gets its gradient, sigma gets none: something took sigma out of the graph. Use neither .item() nor "
        ".detach().": partial(_draw, spread=torch.detach),
        "the spread is sigma squared: sigma is the standard deviation already.": partial(_draw, spread=torch.square),
        "the noise is uniform: torch.rand lies in 0..1, torch.randn is Gaussian.": partial(_draw, noise=torch.rand),
        "every draw is the same: one noise was drawn for all, d are needed.": (
            partial(_draw, noise=lambda d: torch.randn(1).expand(d))
        ),
        "every call gives the same draws: the noise must be new each time, so set no seed inside the "
        "function.": partial(_draw, noise=normal),
    },
)

# Exercise 5.4: half periods with equal ratios


def _half_periods(k, shortest, longest, *, share=lambda i, k: i / (k - 1)):
    return shortest * (longest / shortest) ** share(torch.arange(k, dtype=torch.float64), k)


def _in_ms(function, k, shortest, longest):
    half_periods = function(k, shortest, longest)
    return 1000 * half_periods.double() if isinstance(half_periods, torch.Tensor) else half_periods


spread_half_periods = Check(
    "spread_half_periods",
    reference=_half_periods,
    cases=[
        Case("three half periods from 0.1 s to 10 s, shown in ms", lambda: (3, 0.1, 10.0), _in_ms, tolerance=1e-4),
        Case("six from 1 s to 2 s, shown in ms", lambda: (6, 1.0, 2.0), _in_ms, tolerance=1e-4),
        Case("eight from 10 ms to 0.5 s, shown in ms", lambda: (8, 0.01, 0.5), _in_ms, tolerance=1e-4),
    ],
    traps={
        "this is the formula of the lecture notes: plot it once in seconds and once in milliseconds.": (
            lambda k, a, b: b - (b - a) ** (torch.arange(1, k + 1, dtype=torch.float64) / k)
        ),
        "the steps are equal, the ratios should be: of a range over three decades, most of it would lie in the last "
        "one.": lambda k, a, b: torch.linspace(a, b, k),
        "the longest is missing: k values have k - 1 steps between them.": (
            partial(_half_periods, share=lambda i, k: i / k)
        ),
        "the shortest is missing: the first of the k values is the shortest itself.": (
            partial(_half_periods, share=lambda i, k: (i + 1) / k)
        ),
        "torch.logspace wants exponents: give it log10 of the two ends, not the ends.": (
            lambda k, a, b: torch.logspace(a, b, k)
        ),
        "torch.logspace counts in powers of ten: give it log10, not the natural logarithm.": (
            lambda k, a, b: torch.logspace(math.log(a), math.log(b), k)
        ),
        "these run from the longest to the shortest: reverse them.": lambda k, a, b: _half_periods(k, b, a),
    },
)

# Exercise 5.5: score of two events


def _event_score(
    z_q,
    z_k,
    t_q,
    t_k,
    omega,
    *,
    content=lambda q, k: q @ k.T,
    time=lambda angle_q, angle_k: torch.cos(angle_q - angle_k).mean(-1),
    join=torch.add,
):
    return join(content(z_q, z_k), time(t_q[:, None, None] * omega, t_k[:, None] * omega))  # angles (Q, 1, d), (M, d)


def _events(content=1.0, span=2.0, start=0.0):
    """Two queries, three keys, their times, two frequencies; content has 4 numbers, so that Z + Phi can be added."""
    z_q, z_k, t_q, t_k = (normal(*n, seed=i).double() for i, n in enumerate(((2, 4), (3, 4), (2,), (3,))))
    return content * z_q, content * z_k, start + span * t_q, start + span * t_k, torch.tensor([1.0, 7.0]).double()


event_score = Check(
    "event_score",
    reference=_event_score,
    cases=[
        Case("events that happen all at once", lambda: _events(span=0.0)),
        Case("events without content", lambda: _events(content=0.0)),
        Case("two queries and three keys", _events),
        Case("a clock that was started an hour earlier", lambda: _events(start=3600.0)),
    ],
    traps={
        "content and time were added, and the dot product of sums has cross terms of content with time. Join them "
        "with torch.cat, or add the two scores.": lambda z_q, z_k, t_q, t_k, omega: (
            (z_q + _features(t_q, omega)) @ (z_k + _features(t_k, omega)).T
        ),
        "the part of the time is too large: it is the mean over the frequencies, so sqrt(1/d) belongs on "
        "both sides.": partial(_event_score, time=lambda a, b: torch.cos(a - b).sum(-1)),
        "the times were added, not subtracted: cos a cos b + sin a sin b has the difference in it.": partial(
            _event_score, time=lambda a, b: torch.cos(a + b).mean(-1)
        ),
        "rows and columns are exchanged: a row belongs to a query.": lambda *args: _event_score(*args).T,
        "the sines are missing: cos a cos b alone depends on more than a - b.": (
            partial(_event_score, time=lambda a, b: (a.cos() * b.cos()).mean(-1))
        ),
        "content and time were multiplied: in (5.11) they are added.": partial(_event_score, join=torch.mul),
        "the content is divided by the root of its size, as in chapter 02: (5.11) has it as it is.": partial(
            _event_score, content=lambda q, k: q @ k.T / math.sqrt(q.shape[-1])
        ),
        "the score is divided by the root of a size, as in chapter 02: (5.11) has it as it is.": (
            lambda z_q, *rest: _event_score(z_q, *rest) / math.sqrt(z_q.shape[-1] + 2 * len(rest[-1]))
        ),
        "only the content is there: whenever the events happened, you say the same.": (
            partial(_event_score, join=lambda content, time: content)
        ),
        "only the time is there: whatever the events were, you say the same.": (
            partial(_event_score, join=lambda content, time: time)
        ),
    },
)
