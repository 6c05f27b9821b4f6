"""Exercises of chapter 17: intervals that are too short, smoothing, the number to report, and how much of a unit is
foreign.

A recording is made of NumPy arrays, so these exercises are too. Cases hold tensors, which share their memory with the
arrays that the student's function gets, so that a change in place is noticed.
"""

import numpy as np
import torch
from torch import Tensor

from possm_lite.course.checks import Case, exercise


def _on_arrays(make):
    def observe(function, *args):
        return function(*(x.numpy() if isinstance(x, Tensor) else x for x in args))

    return Case(make, observe)


# Exercise 17.1: the share of intervals that are too short, unit by unit
def _spikes(*train, n_units, refractory_s=0.002):
    """From (time in ms, unit) of each spike."""
    times = torch.tensor([t / 1000 for t, _ in train], dtype=torch.float64)
    return _on_arrays(lambda: (times.clone(), torch.tensor([u for _, u in train]), n_units, refractory_s))


def _many():
    draw = torch.Generator().manual_seed(1)
    times = (4 * torch.rand(400, generator=draw, dtype=torch.float64)).sort().values
    return times, torch.randint(5, (400,), generator=draw), 5, 0.002


@exercise(
    cases={
        "one unit with five spikes": _spikes((0, 0), (1, 0), (11, 0), (12.5, 0), (500, 0), n_units=1),
        "two units whose spikes come between each other": _spikes(
            (0, 0), (1, 1), (1.5, 0), (9, 0), (10, 1), (11.5, 1), (30, 0), (60, 1), n_units=2
        ),
        "an interval of exactly the refractory period, 0.25 s": _spikes(
            (0, 0), (125, 0), (375, 0), (1375, 0), n_units=1, refractory_s=0.25
        ),
        "a unit with one spike and a silent one": _spikes((0, 2), (5, 0), (9, 1), (16, 0), (30, 2), n_units=4),
        "three spikes within the refractory period, which make two intervals": _spikes(
            (0, 0), (0.5, 0), (1.25, 0), (80, 0), (200, 0), n_units=1
        ),
        "an interval a hair longer than the refractory period, two hours into a recording": _spikes(
            (7_200_000, 0), (7_200_002.0625, 0), (7_200_003, 0), (7_200_050, 0), n_units=1
        ),
        "400 spikes of five units": _on_arrays(_many),
    },
    mistakes={
        "np.diff(spike_times[spike_units == u]) → np.diff(spike_times)[spike_units[1:] == u]": (
            "intervals were taken between neighbours in the whole list, which are mostly spikes of two different units."
        ),
        ").mean() → ).sum() / (len(intervals) + 1)": "you divide by the number of spikes.",
        ").mean() → ).sum()": "these are counts. Divide by how many intervals the unit has.",
        "intervals < → intervals <=": (
            "an interval of exactly the refractory period is long enough: (17.2) has <, not <=."
        ),
    },
)
def isi_violations(spike_times, spike_units, n_units, refractory_s):
    """Formula (17.2), (U,). spike_times (N,) in s, sorted; spike_units (N,), from 0."""
    share = np.full(n_units, np.nan)
    for u in range(n_units):
        intervals = np.diff(spike_times[spike_units == u])  # (N_u - 1,)
        if len(intervals):
            share[u] = (intervals < refractory_s).mean()
    return share


# Exercise 17.2: a mean over the last n rows
def _trace(n_rows, n, *, artefact=False):
    x = torch.randn(n_rows, 2, generator=torch.Generator().manual_seed(16), dtype=torch.float64)
    x = torch.cat([torch.tensor([[1e9, -1e9]], dtype=torch.float64), x]) if artefact else x
    return _on_arrays(lambda: (x.clone(), n))


def _jump():
    return torch.cat([torch.zeros(6, 2), torch.tensor([[1.0, -2.0]]).repeat(6, 1)]).double(), 3


@exercise(
    cases={
        "a hand that rests and then moves at once": _on_arrays(_jump),
        "ten rows and a mean of three": _trace(10, 3),
        "ten rows and a mean of four": _trace(10, 4),
        "a mean of one row": _trace(5, 1),
        "a mean of more rows than there are": _trace(4, 6),
        "one wild answer of 1e9 mm/s, long before": _trace(12, 3, artefact=True),
    },
    mistakes={
        lambda x, n: np.stack([np.convolve(v, np.ones(n) / n, mode="same") for v in x.T], 1): (
            "your answer moves before the hand does: as with the friend, half of the rows are in the future. "
            "`mode='same'` puts the middle of the kernel at t. (And at the start it takes missing rows for 0.)"
        ),
        "max(t - n + 1, 0) : t + 1 → t : t + n": "the mean begins at each row and goes on into the future.",
        ".mean(0) → .sum(0) / n": (
            "causal, but at the start you divide by n where there are fewer rows: the result is too small there."
        ),
        "t - n + 1 → t - n": "one row too many: the last n rows are t - n + 1 to t.",
    },
)
def causal_mean(x, n):
    """The mean of the last n rows of x (T, 2), or of as many as there are: (T, 2)."""
    return np.stack([x[max(t - n + 1, 0) : t + 1].mean(0) for t in range(len(x))])


# Exercise 17.3: which number to report
def _scores(valid, test):
    return _on_arrays(lambda: (torch.tensor(valid, dtype=torch.float64), torch.tensor(test, dtype=torch.float64)))


@exercise(
    cases={
        "one setting and three seeds": _scores([[0.7, 0.8, 0.75]], [[0.6, 0.8, 0.73]]),
        "two settings of which one is better everywhere": _scores(
            [[0.5, 0.6, 0.55], [0.7, 0.8, 0.75]], [[0.4, 0.5, 0.48], [0.6, 0.8, 0.73]]
        ),
        "settings of which validation prefers one by a hair, and the test the other by far": _scores(
            [[0.69, 0.7, 0.71], [0.7, 0.71, 0.72]], [[0.8, 0.9, 0.88], [0.3, 0.5, 0.43]]
        ),
        "a setting with one lucky seed beside a steady one": _scores(
            [[0.9, 0.3, 0.3, 0.3], [0.6, 0.7, 0.6, 0.7]], [[0.8, 0.2, 0.3, 0.4], [0.6, 0.66, 0.7, 0.62]]
        ),
        "a setting with the best mean and one bad seed": _scores(
            [[0.8, 0.82, 0.5, 0.84], [0.7, 0.71, 0.69, 0.7], [0.68, 0.745, 0.75, 0.745]],
            [[0.78, 0.8, 0.46, 0.81], [0.69, 0.68, 0.7, 0.71], [0.67, 0.73, 0.74, 0.75]],
        ),
        "two settings that most seeds rank one way and their means the other": _scores(
            [[0.8, 0.81, 0.2], [0.7, 0.72, 0.71]], [[0.77, 0.79, 0.25], [0.7, 0.69, 0.72]]
        ),
    },
    mistakes={
        "valid.mean(1) → test.mean(1)": "the setting was chosen by its R² on the test part, which is used up then.",
        "test[ → valid[": "that is the R² of the validation part, which chose the setting.",
        "chosen.mean() → chosen.max()": "that is the best seed. A seed means nothing, so report the mean of all.",
        "ddof=1 → ": "the mean is right, the standard deviation too small: divide by S - 1.",
    },
)
def honest_r2(valid, test):
    """Mean and standard deviation over seeds of the R² to report. valid, test (C, S): settings, seeds."""
    chosen = test[valid.mean(1).argmax()]  # (S,)
    return chosen.mean(), chosen.std(ddof=1)


# Exercise 17.4: a share of foreign spikes that knows how the rate varies
def _one_unit(*times_ms, after_s=0.0, windows=(0.002, 0.02, 0.1)):
    times = after_s + torch.tensor(times_ms, dtype=torch.float64) / 1000
    return _on_arrays(lambda: (times.clone(), *windows))


def _bursts(n_spikes, windows=(0.002, 0.02, 0.1)):
    """Forty bursts of 0.2 s, one a second; few spikes are close to each other."""
    draw = torch.rand(40, n_spikes, generator=torch.Generator().manual_seed(17), dtype=torch.float64)
    in_burst = 0.2 / n_spikes * (1.3 * draw + torch.arange(n_spikes))
    times = (in_burst + torch.arange(40)[:, None]).flatten().sort().values
    return _on_arrays(lambda: (times.clone(), *windows))


_REGULAR = range(25, 2400, 22)


@exercise(
    cases={
        "a unit without short intervals": _one_unit(0, 30, 65, 140, 190),
        "a unit with one pair that is too close, and few spikes after it": _one_unit(
            0, 1, 30, 70, 96, 150, 185, 210, 260, 300
        ),
        "three spikes within the refractory period, which are three pairs": _one_unit(0, 0.5, 1.25, *_REGULAR),
        "pairs exactly at the ends of the windows": _one_unit(
            0, 250, 500, 1000, 2000, 4000, 5000, 5500, 9000, 9125, 9500, windows=(0.25, 0.5, 1.0)
        ),
        "two spikes at one time": _one_unit(0, 0, *_REGULAR),
        "spikes in bursts": _bursts(12),
        "other windows": _bursts(9, windows=(0.001, 0.03, 0.05)),
        "more short intervals than the equation has a solution for": _one_unit(0, 1, 40, 41, 80, 81),
        "two spikes far apart, from which nothing can be known": _one_unit(0, 500),
        "spikes 1.9 and 2.1 ms apart, two hours into a recording": _one_unit(
            0, 1, 2.1, *_REGULAR, 2500, 2501.9, after_s=7200
        ),
    },
    mistakes={
        (
            "(np.searchsorted(spike_times, spike_times + refractory_s) - following) → np.diff(spike_times)",
            "np.diff(spike_times).sum() → (np.diff(spike_times) < refractory_s).sum()",
            "(far - near) → ((np.diff(spike_times) >= near_s) & (np.diff(spike_times) < far_s))",
        ): "you count intervals between neighbours. Count pairs.",
        "(n_short / refractory_s) / (n_long / (far_s - near_s)) → n_short / n_long": (
            "the two windows are of different width: divide each count by the seconds that it covers."
        ),
        "(far_s - near_s) → far_s": "the long window is far_s - near_s wide, not far_s.",
        "(1 - np.sqrt → (1 + np.sqrt": "that is the other solution: f is the *smaller* share, at most a half.",
    },
)
def contamination(spike_times, refractory_s, near_s, far_s):
    """Share f of foreign spikes of one unit by (17.10). spike_times (N,) in s, sorted; three numbers in s."""
    following = np.arange(1, len(spike_times) + 1)  # index of the spike after each
    n_short = (np.searchsorted(spike_times, spike_times + refractory_s) - following).sum()
    near, far = (np.searchsorted(spike_times, spike_times + s) for s in (near_s, far_s))
    n_long = (far - near).sum()
    if n_long == 0:
        return np.nan
    ratio = (n_short / refractory_s) / (n_long / (far_s - near_s))
    return (1 - np.sqrt(1 - 2 * ratio)) / 2 if ratio < 0.5 else 0.5
