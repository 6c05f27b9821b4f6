"""Checks of chapter 05: features of time, frequencies that learn, how to spread periods, scores of events."""

import math

import torch

from possm_lite.blocks.time_features import (
    bochner_features,
    content_and_time_score,
    gaussian_frequencies,
    geometric_half_periods,
)
from possm_lite.classroom.checks import Case, Check, ValueCheck


def _float64(*rows):
    return tuple(torch.tensor(row, dtype=torch.float64) for row in rows)


# ---- time_features: the kernel is what counts, in which order the features stand does not -------------------------


def _kernel(function, t, omega):
    features = function(t, omega)
    return float(features.shape[-1]), features @ features.transpose(-1, -2)


def _features(scale=1.0, sine=True, root=math.sqrt):
    def trap(t, omega):
        angle = t[:, None] * omega * scale
        both = torch.cat([angle.cos(), angle.sin()] if sine else [angle.cos()], -1)
        return both / root(len(omega))

    return trap


time_features = Check(
    "time_features",
    reference=bochner_features,
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
        "the dot product grows with the number of frequencies: the factor sqrt(1/d) of (5.3) is missing.": _features(
            root=lambda d: 1.0
        ),
        "the dot product of a time with itself is one half, it must be one: d counts frequencies, not the 2d "
        "features.": _features(root=lambda d: math.sqrt(2 * d)),
        "the dot product shrinks with the number of frequencies: divide by the root of d. It enters twice, "
        "once on either side.": _features(root=float),
        "only the cosines are there. cos a cos b alone is not cos(a - b): the sines are the other half.": _features(
            sine=False
        ),
        "the kernel runs 2π too fast: omega is already in rad/s, so the angle is omega times t.": _features(
            scale=2 * math.pi
        ),
        "times in float32 cannot tell spikes of one millisecond apart after an hour. Leave t in float64 until the "
        "cosine is taken.": lambda t, omega: bochner_features(t.float().double(), omega),
        "times in float32 cannot tell spikes of one millisecond apart after an hour. Leave t in float64, also "
        "omega.": lambda t, omega: _features()(t.float(), omega.float()),
    },
)


# ---- my_factor ---------------------------------------------------------------------------------------------------

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


# ---- draw_frequencies: distribution and gradients -----------------------------------------------------------------

N_DRAWS = 15_000  # statistics of right answers differ by 0.01 or less; few enough for a loop over draws


def _mu_sigma(mu=3.0, sigma=0.5, d=N_DRAWS):
    return torch.tensor(mu, requires_grad=True), torch.tensor(sigma, requires_grad=True), d


def _shape(function, *args):
    omega = function(*args)
    return torch.zeros(omega.shape) if isinstance(omega, torch.Tensor) else omega


def _moments(function, mu, sigma, d):
    omega = function(mu, sigma, d).detach()
    within = ((omega - omega.mean()).abs() < omega.std()).double().mean()  # 0.68 of a Gaussian, 0.58 of a uniform
    return omega.mean().item(), omega.std().item(), within.item()


def _twice(function, *args):
    first, second = function(*args), function(*args)
    return "the same numbers again" if torch.equal(first, second) else "other numbers"


def _gradient(place, statistic):
    def observe(function, *args):
        outcome = statistic(function(*args))
        if not outcome.requires_grad:
            return 0.0
        (gradient,) = torch.autograd.grad(outcome, args[place], allow_unused=True)
        return 0.0 if gradient is None else gradient.item()

    return observe


def _reparametrised(mu, sigma, d):
    return gaussian_frequencies(mu, sigma, torch.randn(d))


draw_frequencies = Check(
    "draw_frequencies",
    reference=_reparametrised,
    cases=[
        Case("seven draws", lambda: _mu_sigma(d=7), _shape),
        Case("the mean, the spread and the share within one spread of many draws", _mu_sigma, _moments, 0.025),
        Case(
            "the mean, the spread and the share within one spread around -1", lambda: _mu_sigma(-1.0), _moments, 0.025
        ),
        Case("the gradient of the mean draw with respect to mu", _mu_sigma, _gradient(0, torch.mean), 0.05),
        Case("the gradient of the draws' spread with respect to sigma", _mu_sigma, _gradient(1, torch.std), 0.05),
        Case("a second call", lambda: _mu_sigma(d=7), _twice),
    ],
    traps={
        "the gradient is zero: the draw has swallowed mu and sigma. Draw noise that knows neither, and build the "
        "frequencies from it.": lambda mu, sigma, d: torch.normal(mu.expand(d), sigma.expand(d)),
        "mu gets its gradient, sigma gets none: something took sigma out of the graph. Use neither .item() nor "
        ".detach().": lambda mu, sigma, d: mu + sigma.detach() * torch.randn(d),
        "the spread is sigma squared: sigma is the standard deviation already.": lambda mu, sigma, d: (
            mu + sigma**2 * torch.randn(d)
        ),
        "the noise is uniform: torch.rand lies in 0..1, torch.randn is Gaussian.": lambda mu, sigma, d: (
            mu + sigma * torch.rand(d)
        ),
        "every draw is the same: one noise was drawn for all, d are needed.": lambda mu, sigma, d: (
            mu + sigma * torch.randn(1)
        ).expand(d),
        "every call gives the same draws: the noise must be new each time, so set no seed inside the "
        "function.": lambda mu, sigma, d: mu + sigma * torch.randn(d, generator=torch.Generator().manual_seed(0)),
    },
)


# ---- spread_half_periods ------------------------------------------------------------------------------------------


def _in_ms(function, k, shortest, longest):
    half_periods = function(k, shortest, longest)
    return 1000 * half_periods.double() if isinstance(half_periods, torch.Tensor) else half_periods


def _lecture(k, shortest, longest):
    i = torch.arange(1, k + 1, dtype=torch.float64)
    return longest - (longest - shortest) ** (i / k)


def _without_an_end(k, shortest, longest):
    return shortest * (longest / shortest) ** (torch.arange(k, dtype=torch.float64) / k)


def _without_a_start(k, shortest, longest):
    return shortest * (longest / shortest) ** (torch.arange(1, k + 1, dtype=torch.float64) / k)


def _without_log(k, shortest, longest):
    return torch.logspace(shortest, longest, k, dtype=torch.float64)


def _natural_log(k, shortest, longest):
    return torch.logspace(math.log(shortest), math.log(longest), k, dtype=torch.float64)


spread_half_periods = Check(
    "spread_half_periods",
    reference=geometric_half_periods,
    cases=[
        Case("three half periods from 0.1 s to 10 s, told in ms", lambda: (3, 0.1, 10.0), _in_ms, tolerance=1e-4),
        Case("six from 1 s to 2 s, told in ms", lambda: (6, 1.0, 2.0), _in_ms, tolerance=1e-4),
        Case("eight from 10 ms to 0.5 s, told in ms", lambda: (8, 0.01, 0.5), _in_ms, tolerance=1e-4),
    ],
    traps={
        "this is the formula of the lecture notes: plot it once in seconds and once in milliseconds.": _lecture,
        "the steps are equal, the ratios should be: of a range over three decades, most of it would lie in the last "
        "one.": lambda k, shortest, longest: torch.linspace(shortest, longest, k, dtype=torch.float64),
        "the longest is missing: k values have k - 1 steps between them.": _without_an_end,
        "the shortest is missing: the first of the k values is the shortest itself.": _without_a_start,
        "torch.logspace wants exponents: give it log10 of the two ends, not the ends.": _without_log,
        "torch.logspace counts in powers of ten: give it log10, not the natural logarithm.": _natural_log,
        "these run from the longest to the shortest: turn them round.": lambda *args: geometric_half_periods(
            *args
        ).flip(0),
    },
)


# ---- event_score --------------------------------------------------------------------------------------------------


def _events(content=1.0, span=2.0, start=0.0):
    """Two queries, three keys, their times, two frequencies; content has 4 numbers, so that Z + Phi can be added."""
    generator = torch.Generator().manual_seed(5)
    z_q, z_k, t_q, t_k = (torch.randn(*s, generator=generator).double() for s in ((2, 4), (3, 4), (2,), (3,)))
    return content * z_q, content * z_k, start + span * t_q, start + span * t_k, torch.tensor([1.0, 7.0]).double()


def _score(z_q, z_k, t_q, t_k, omega):
    return content_and_time_score(z_q, z_k, bochner_features(t_q, omega), bochner_features(t_k, omega))


def _cosines_alone(z_q, z_k, t_q, t_k, omega):
    cos_q, cos_k = (torch.cos(t[:, None] * omega) for t in (t_q, t_k))
    return z_q @ z_k.T + cos_q @ cos_k.T / len(omega)


def _joined_and_scaled(z_q, z_k, t_q, t_k, omega):
    return _score(z_q, z_k, t_q, t_k, omega) / math.sqrt(z_q.shape[-1] + 2 * len(omega))


def _added(z_q, z_k, t_q, t_k, omega):
    return (z_q + bochner_features(t_q, omega)) @ (z_k + bochner_features(t_k, omega)).T


event_score = Check(
    "event_score",
    reference=_score,
    cases=[
        Case("events that happen all at once", lambda: _events(span=0.0)),
        Case("events without content", lambda: _events(content=0.0)),
        Case("two queries and three keys", _events),
        Case("a clock that was started an hour earlier", lambda: _events(start=3600.0)),
    ],
    traps={
        "content and time were added, and the dot product of sums has cross terms of content with time. Join them "
        "with torch.cat, or add the two scores.": _added,
        "the part of the time is too large: it is the mean over the frequencies, so sqrt(1/d) belongs on "
        "both sides.": lambda z_q, z_k, t_q, t_k, omega: (
            z_q @ z_k.T + torch.cos((t_q[:, None] - t_k)[..., None] * omega).sum(-1)
        ),
        "the times were added, not subtracted: cos a cos b + sin a sin b has the difference in "
        "it.": lambda z_q, z_k, t_q, t_k, omega: (
            z_q @ z_k.T + torch.cos((t_q[:, None] + t_k)[..., None] * omega).mean(-1)
        ),
        "rows and columns are exchanged: a row belongs to a query.": lambda *args: _score(*args).T,
        "the sines are missing: cos a cos b alone depends on more than a - b.": _cosines_alone,
        "content and time were multiplied: in (5.11) they are added.": lambda z_q, z_k, *rest: (
            (z_q @ z_k.T) * _score(0 * z_q, 0 * z_k, *rest)
        ),
        "the content is divided by the root of its size, as in chapter 02: (5.11) has it as it "
        "is.": lambda z_q, z_k, *rest: _score(z_q / math.sqrt(z_q.shape[-1]), z_k, *rest),
        "the score is divided by the root of a size, as in chapter 02: (5.11) has it as it is.": _joined_and_scaled,
        "only the content is there: whenever the events happened, you say the same.": lambda z_q, z_k, *_: z_q @ z_k.T,
        "only the time is there: whatever the events were, you say the same.": lambda z_q, z_k, *rest: _score(
            0 * z_q, 0 * z_k, *rest
        ),
    },
)
