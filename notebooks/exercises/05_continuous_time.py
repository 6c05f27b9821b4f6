"""Exercises of chapter 05: features of time, kernels, frequencies that learn, periods, scores of events and units."""

import math
from functools import partial

import torch

from possm_lite.blocks.time_features import gaussian_kernel, rotary_kernel
from possm_lite.classroom.checks import Case, Check, ValueCheck, as_tensor, normal


def _float64(*rows):
    return tuple(torch.tensor(row, dtype=torch.float64) for row in rows)


# Exercise 5.1: features of time. The order of the features is free, so their kernel is compared


def _features(t, omega, *, scale=1.0, waves=(torch.cos, torch.sin), norm=math.sqrt):
    angle = t[:, None] * omega * scale
    return torch.cat([wave(angle) for wave in waves], -1) / norm(len(omega))


def _shape(function, *args):
    result = as_tensor(function(*args))
    return torch.zeros(*result.shape) if hasattr(result, "shape") else result


def _kernel(function, t, omega):
    """Of the features of two calls, as those of queries and keys are made, with other times first and last."""
    first, second = (as_tensor(function(times, omega)) for times in (t, torch.cat([t[1:], t[:1] + 2])))
    return first @ second.mT


time_features = Check(
    "time_features",
    reference=_features,
    cases=[
        Case("three times and two frequencies", lambda: _float64([0.0, 0.1, 0.7], [2.0, 3.0]), _shape),
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
        "the dot product grows with the number of frequencies: the factor sqrt(1/F) of (5.3) is missing.": (
            partial(_features, norm=lambda d: 1.0)
        ),
        "the dot product of a time with itself is one half, it must be one: F counts frequencies, not the 2F "
        "features.": partial(_features, norm=lambda d: math.sqrt(2 * d)),
        "the dot product shrinks with the number of frequencies: divide by the root of F. It enters twice, "
        "once on either side.": partial(_features, norm=float),
        "only the cosines are there. cos a cos b alone is not cos(a - b): the sines are the other half.": (
            partial(_features, waves=(torch.cos,))
        ),
        "the kernel runs 2π too fast: omega is already in rad/s, so the angle is omega times t.": (
            partial(_features, scale=2 * math.pi)
        ),
        "the features depend on the other times of the call, as if t[0] were subtracted. Queries and keys are made in "
        "two calls, and their features have to fit.": lambda t, omega: _features(t - t[0], omega),
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
        "ten would do if the error fell as 1/F. Look at the slope you have just seen: it is not -1.": 10.0,
        "that is the root of ten: you went the wrong way round. Which power of F makes the error ten times "
        "smaller?": math.sqrt(10),
        "more frequencies are needed, not fewer: say F_new / F_old.": 0.01,
    },
)

# Exercise 5.3: catch the box


def _sum_of_box(function):
    t, alpha = (torch.as_tensor(x, dtype=torch.float64).flatten() for x in function())
    if len(t) != len(alpha):
        return f"{len(t)} times and {len(alpha)} weights"
    if (alpha >= 0).all() or (alpha <= 0).all():
        return "weights of one sign, which make no negative sum from ones and zeros"
    box = ((t[:, None] - t).abs() < 1).double()
    if box.sum() == len(t):
        return "no two events within the box, which leaves a sum of squares"
    return "a negative sum" if alpha @ box @ alpha < -1e-9 * alpha @ alpha else "a sum that is not negative"


def _caught(t=(0.0, 0.6, 1.2), alpha=(1.0, -1.0, 1.0)):
    return torch.tensor(t), torch.tensor(alpha)


catch_box = Check(
    "catch_box",
    reference=_caught,
    cases=[Case("the sum (5.6) for the box", lambda: (), _sum_of_box)],
    traps={
        "the weights have one sign, and the box has ones and zeros: no such sum is negative.": (
            partial(_caught, alpha=(1.0, 1.0, 1.0))
        ),
        "no two of these events are within the box of each other: only squares are left, and their sum is positive.": (
            partial(_caught, t=(0.0, 2.0, 4.0))
        ),
        "this sum is not negative. Take three events: the first and the last too far apart, the one between close to "
        "both. Which sign should it have?": partial(_caught, t=(0.0, 0.1, 0.2)),
    },
)

# Exercise 5.4: draws with gradients


def _draw(mu, sigma, n, *, noise=torch.randn, center=lambda mu: mu, spread=lambda sigma: sigma):
    return center(mu) + spread(sigma) * noise(n)


def _mu_sigma(mu=3.0, n=15_000):
    """By default so many draws that statistics of right answers differ by 0.01 or less; few enough for a loop."""
    return torch.tensor(mu, requires_grad=True), torch.tensor(0.5, requires_grad=True), n


def _mean(function, *args):
    return as_tensor(function(*args)).detach().mean().item()


def _spread(function, *args):
    return as_tensor(function(*args)).detach().std().item()


def _share(function, *args):
    """Within one spread of the mean: 0.68 of a Gaussian, 0.58 of a uniform."""
    omega = as_tensor(function(*args)).detach()
    return ((omega - omega.mean()).abs() < omega.std()).double().mean().item()


def _mean_of_few(function, mu, sigma, n):
    means = [as_tensor(function(mu, sigma, n)).detach().mean() for _ in range(20)]
    return "scatters around mu" if torch.stack(means).std() > 0.02 else "is the same at every call"


def _gradient_of(statistic, i):
    """Observes the gradient by argument i, which is zero (by `+ 0 * args[i]`) where the draw has lost it."""

    def observe(function, *args):
        return torch.autograd.grad(statistic(as_tensor(function(*args))) + 0 * args[i], args[i])[0]

    return observe


def _two_calls(function, *args):
    same = (as_tensor(function(*args)) == as_tensor(function(*args))).all()
    return "the same numbers again" if same else "other numbers"


draw_frequencies = Check(
    "draw_frequencies",
    reference=_draw,
    cases=[
        Case("seven draws", lambda: _mu_sigma(n=7), _shape),
        Case("the mean of many draws", _mu_sigma, _mean, 0.025),
        Case("the mean of many draws around -1", lambda: _mu_sigma(-1.0), _mean, 0.025),
        Case("the spread of many draws", _mu_sigma, _spread, 0.025),
        Case("the share of many draws within one spread of their mean", _mu_sigma, _share, 0.025),
        Case("the gradient of the mean draw with respect to mu", _mu_sigma, _gradient_of(torch.mean, 0), 0.05),
        Case("the gradient of the draws' spread with respect to sigma", _mu_sigma, _gradient_of(torch.std, 1), 0.05),
        Case("a second call", lambda: _mu_sigma(n=7), _two_calls),
        Case("the mean of four draws, which", lambda: _mu_sigma(n=4), _mean_of_few),
    ],
    traps={
        "the gradient is zero: the draw has swallowed mu and sigma. Draw noise that knows neither, and build the "
        "frequencies from it.": lambda mu, sigma, n: torch.normal(mu.expand(n), sigma.expand(n)),
        "mu gets its gradient, sigma gets none: something took sigma out of the graph. Use neither .item() nor "
        ".detach().": partial(_draw, spread=torch.detach),
        "sigma gets its gradient, mu gets none: something took mu out of the graph. Use neither .item() nor "
        ".detach().": partial(_draw, center=torch.detach),
        "the spread is sigma squared: sigma is the standard deviation already.": partial(_draw, spread=torch.square),
        "the noise is uniform: torch.rand lies in 0..1, torch.randn is Gaussian.": partial(_draw, noise=torch.rand),
        "every draw is the same: one noise was drawn for all, n are needed.": (
            partial(_draw, noise=lambda n: torch.randn(1).expand(n))
        ),
        "every call gives the same draws: the noise must be new each time, so set no seed inside the "
        "function.": partial(_draw, noise=normal),
        "the noise of each call was centred and scaled: the mean of a few draws is exactly mu, of independent draws it "
        "scatters.": partial(_draw, noise=lambda n: (z := torch.randn(n)).sub(z.mean()) / z.std()),
    },
)

# Exercise 5.5: half periods with equal ratios


def _half_periods(n, shortest, longest, *, share=lambda i, n: i / (n - 1)):
    return shortest * (longest / shortest) ** share(torch.arange(n, dtype=torch.float64), n)


def _in_ms(function, n, shortest, longest):
    half_periods = function(n, shortest, longest)
    return 1000 * torch.as_tensor(half_periods, dtype=torch.float64)


spread_half_periods = Check(
    "spread_half_periods",
    reference=_half_periods,
    cases=[
        Case("three half periods from 0.1 s to 10 s, shown in ms", lambda: (3, 0.1, 10.0), _in_ms, tolerance=1e-4),
        Case("six from 1 s to 2 s, shown in ms", lambda: (6, 1.0, 2.0), _in_ms, tolerance=1e-4),
        Case("eight from 10 ms to 0.5 s, shown in ms", lambda: (8, 0.01, 0.5), _in_ms, tolerance=1e-4),
    ],
    traps={
        "this is (5.10): plot it once in seconds and once in milliseconds.": (
            lambda n, a, b: b - (b - a) ** (torch.arange(1, n + 1, dtype=torch.float64) / n)
        ),
        "the steps are equal, the ratios should be: of a range over three decades, most of it would lie in the last "
        "one.": lambda n, a, b: torch.linspace(a, b, n),
        "the longest is missing: n values have n - 1 steps between them.": (
            partial(_half_periods, share=lambda i, n: i / n)
        ),
        "the shortest is missing: the first of the n values is the shortest itself.": (
            partial(_half_periods, share=lambda i, n: (i + 1) / n)
        ),
        "torch.logspace wants exponents: give it log10 of the two ends, not the ends.": (
            lambda n, a, b: torch.logspace(a, b, n)
        ),
        "torch.logspace counts in powers of ten: give it log10, not the natural logarithm.": (
            lambda n, a, b: torch.logspace(math.log(a), math.log(b), n)
        ),
        "these run from the longest to the shortest: reverse them.": lambda n, a, b: _half_periods(n, b, a),
    },
)

# Exercise 5.6: score of two events


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
        "the part of the time is too large: it is the mean over the frequencies, so sqrt(1/F) belongs on "
        "both sides.": partial(_event_score, time=lambda a, b: torch.cos(a - b).sum(-1)),
        "the times were added, not subtracted: cos a cos b + sin a sin b has the difference in it.": partial(
            _event_score, time=lambda a, b: torch.cos(a + b).mean(-1)
        ),
        "rows and columns are exchanged: a row belongs to a query.": lambda *args: _event_score(*args).T,
        "the sines are missing: cos a cos b alone depends on more than a - b.": (
            partial(_event_score, time=lambda a, b: (a.cos() * b.cos()).mean(-1))
        ),
        "the time between was added as it is: (5.11) adds the mean of its cosines.": (
            lambda z_q, z_k, t_q, t_k, omega: z_q @ z_k.T + (t_q[:, None] - t_k).abs()
        ),
        "these are sines of the time between: the kernel of (5.11) is the mean of cosines.": partial(
            _event_score, time=lambda a, b: torch.sin(a - b).mean(-1)
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

# Exercise 5.7: one function of time for each unit


def _table(q, k, n_freqs, *, parts=rotary_kernel, join=lambda a, b, rest: (a, b, rest[:, None])):
    return torch.cat(join(*parts(q, k, n_freqs)), -1)


def _unit_case(n_units=3, d=8):
    return lambda: (normal(d).double(), normal(n_units, d, seed=1).double(), 2)


def _halves(q, k, n_freqs):
    """Pairs of a number of the first half of what is rotated with one of its second half."""
    order = torch.arange(len(q))
    order[: 2 * n_freqs] = order[: 2 * n_freqs].reshape(2, n_freqs).T.flatten()
    return rotary_kernel(q[order], k[:, order], n_freqs)


def _no_bar(q, k, n_freqs):
    mirror = torch.ones_like(q)
    mirror[1 : 2 * n_freqs : 2] = -1
    return rotary_kernel(q * mirror, k, n_freqs)


unit_table = Check(
    "unit_table",
    reference=_table,
    cases=[
        Case("a key that is the query", lambda: (normal(8).double(), normal(8).double()[None], 2)),
        Case("three units", _unit_case()),
        Case("keys that are rotated as a whole", _unit_case(d=4)),
    ],
    traps={
        "all b have the other sign. In (5.13) b is minus the imaginary part, and the bar is above q.": partial(
            _table, join=lambda a, b, rest: (a, -b, rest[:, None])
        ),
        "these pairs are a number of the first half with one of the second. A pair is two neighbours: x[0::2] and "
        "x[1::2].": partial(_table, parts=_halves),
        "the last column is missing: a_0, the dot product of what is not rotated.": partial(
            _table, join=lambda a, b, rest: (a, b)
        ),
        "the last column is the dot product of all numbers: a_0 is that of the ones that are not rotated, from 2F "
        "on.": lambda q, k, n_freqs: torch.cat([_table(q, k, n_freqs)[:, :-1], (k @ q)[:, None]], -1),
        "the bar is missing: of q_f the complex conjugate is wanted.": partial(_table, parts=_no_bar),
        "cosines and sines alternate: the order is all a, then all b, then a_0.": partial(
            _table, join=lambda a, b, rest: (torch.stack([a, b], -1).flatten(-2), rest[:, None])
        ),
    },
)


# Exercise 5.8: frequencies that find their way

_LAGS_S = 0.005 + 0.01 * torch.arange(60)


def _rhythms(hz, start_hz, spread_hz=0.5):
    def make():
        # the first optimizer imports for seconds: not on the student's time
        torch.optim.Adam([torch.zeros(1, requires_grad=True)])
        kernels = [gaussian_kernel(_LAGS_S, 2 * math.pi * f, 2 * math.pi * spread_hz) for f in hz]
        return _LAGS_S, sum(kernels) / len(hz), 2 * math.pi * torch.tensor(start_hz)

    return make


def _fit_of(function, lag_s, measured, start):
    """How well the frequencies fit, in words."""
    omega = torch.as_tensor(function(lag_s, measured, start), dtype=torch.float32).detach()
    if omega.shape != start.shape:
        return f"frequencies of shape {tuple(omega.shape)}"
    if not omega.isfinite().all():
        return "frequencies that are not finite"

    def error(omega):
        return (torch.cos(lag_s[:, None] * omega).mean(1) - measured).square().mean()

    if error(omega) < 0.003:
        return "an error below 0.003"
    if error(2 * math.pi * omega) < 0.003:
        return "frequencies in Hz"
    if (omega - start).abs().max() < 0.1:
        return "frequencies that have not moved"
    waveless = error(omega) > 0.9 * measured.square().mean()
    return "an error as large as without any wave" if waveless else "an error above 0.003, but less than without waves"


def _descend(lag_s, measured, starts, *, first_lags=6, steps=300):
    """Fits from each of the starts (S, F), with lags that join one after the other; the best one (F,)."""
    hz = (starts / (2 * math.pi)).requires_grad_()
    optimizer = torch.optim.Adam([hz], lr=0.2)
    for step in range(steps):
        n = max(first_lags, math.ceil(len(lag_s) * min(1, 1.3 * step / steps)))
        psi = torch.cos(2 * math.pi * lag_s[:, None, None] * hz).mean(-1)  # (L, S)
        error = (psi - measured[:, None]).square()
        optimizer.zero_grad()
        error[:n].mean(0).sum().backward()
        optimizer.step()
    return 2 * math.pi * hz.detach()[error.mean(0).argmin()]


def _learn(lag_s, measured, start, *, n_starts=24, first_lags=6):
    generator = torch.Generator().manual_seed(0)
    spread = 2 * math.pi * 25 * torch.rand(n_starts, len(start), generator=generator)
    return _descend(lag_s, measured, torch.cat([start[None], spread]), first_lags=first_lags)


learn_frequencies = Check(
    "learn_frequencies",
    reference=_learn,
    cases=[
        Case("one rhythm, started from nearby", _rhythms([8.0], [7.0, 7.5, 8.0, 8.5, 9.0, 9.5]), _fit_of),
        Case(
            "one rhythm of 8 Hz, started around 20 Hz", _rhythms([8.0], [19.0, 19.5, 20.0, 20.5, 21.0, 21.5]), _fit_of
        ),
        Case(
            "two rhythms, of 5 and 11 Hz, started around 20 Hz",
            _rhythms([5.0, 11.0], [19.0, 19.5, 20.0, 20.5, 21.0, 21.5]),
            _fit_of,
        ),
        Case(
            "three rhythms, of 3, 9 and 17 Hz, all started near 24 Hz",
            _rhythms([3.0, 9.0, 17.0], [23.0, 23.4, 23.8, 24.2, 24.6, 25.0]),
            _fit_of,
        ),
    ],
    traps={
        "nothing has moved: are the frequencies parameters of the optimizer, and does it step?": (
            lambda lag_s, measured, start: start
        ),
        "found from nearby, lost from afar. Was only the given start used? Add starts of your own, spread over the "
        "whole band, and keep the one with the least error.": partial(_learn, n_starts=0, first_lags=60),
        "better than no waves, not yet below 0.003. Are there starts of your own, spread over the whole band, the best "
        "of which is kept? Are the first few lags fitted first, then more and more? Then take more steps.": partial(
            _learn, first_lags=60
        ),
        "these are in Hz: rad/s are wanted, 2π times as many.": lambda *args: _learn(*args) / (2 * math.pi),
    },
)
