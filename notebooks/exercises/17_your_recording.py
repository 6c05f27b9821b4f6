"""Exercises of chapter 17: intervals that are too short, coincidences by chance, smoothing, the number to report, and
how much of a unit is foreign.

A recording is made of NumPy arrays, so these exercises are too. Cases hold tensors, which share their memory with the
arrays that the student's function gets, so that a change in place is noticed.
"""

from functools import partial

import numpy as np
import torch
from torch import Tensor

from possm_lite.classroom.checks import Case, Check, ValueCheck


def _on_arrays(function, *args):
    return function(*(x.numpy() if isinstance(x, Tensor) else x for x in args))


# Exercise 17.1: the share of intervals that are too short, unit by unit


def _violations(
    spike_times,
    spike_units,
    n_units,
    refractory_s,
    *,
    intervals=lambda times, units, u: np.diff(times[units == u]),
    short=np.less,
    divisor=lambda n_intervals, n_spikes: n_intervals,
    empty=np.nan,
):
    shares = []
    for u in range(n_units):
        interval, n_spikes = intervals(spike_times, spike_units, u), np.sum(spike_units == u)
        n_short = short(interval, refractory_s).sum()
        shares.append(n_short / divisor(len(interval), n_spikes) if n_spikes > 1 else empty)
    return np.array(shares)


def _all_pairs_too_close(spike_times, spike_units, n_units, refractory_s):
    counted = []
    for u in range(n_units):
        t = spike_times[spike_units == u]
        n_close = np.searchsorted(t, t + refractory_s) - np.arange(1, len(t) + 1)
        counted.append(n_close.sum() / (len(t) - 1) if len(t) > 1 else np.nan)
    return np.array(counted)


def _ending_at(times, units, u):
    """The intervals of the whole list that end at a spike of unit u."""
    return np.diff(times)[units[1:] == u]


def _between_neighbours(times, units, n_units, refractory_s, *, whose):
    """The share of the intervals of the whole list that `whose` gives to a unit."""
    short = [np.diff(times)[whose(units) == u] < refractory_s for u in range(n_units)]
    return np.array([s.mean() if len(s) else np.nan for s in short])


def _violations_of_a_sort(spike_times, spike_units, n_units, refractory_s):
    order = np.argsort(spike_units)
    return _violations(spike_times[order], spike_units[order], n_units, refractory_s)


def _spikes(*train, n_units, refractory_s=0.002):
    """Arguments from (time in ms, unit) of each spike."""
    times = torch.tensor([t / 1000 for t, _ in train], dtype=torch.float64)
    return lambda: (times.clone(), torch.tensor([u for _, u in train]), n_units, refractory_s)


def _many():
    draw = torch.Generator().manual_seed(1)
    times = (4 * torch.rand(400, generator=draw, dtype=torch.float64)).sort().values
    return times, torch.randint(5, (400,), generator=draw), 5, 0.002


isi_violations = Check(
    "isi_violations",
    reference=_violations,
    cases=[
        Case("one unit with five spikes", _spikes((0, 0), (1, 0), (11, 0), (12.5, 0), (500, 0), n_units=1), _on_arrays),
        Case(
            "two units whose spikes come between each other",
            _spikes((0, 0), (1, 1), (1.5, 0), (9, 0), (10, 1), (11.5, 1), (30, 0), (60, 1), n_units=2),
            _on_arrays,
        ),
        Case(
            "an interval of exactly the refractory period, 0.25 s",
            _spikes((0, 0), (125, 0), (375, 0), (1375, 0), n_units=1, refractory_s=0.25),
            _on_arrays,
        ),
        Case(
            "a unit with one spike and a silent one",
            _spikes((0, 2), (5, 0), (6, 0), (9, 1), (30, 2), n_units=4),
            _on_arrays,
        ),
        Case(
            "three spikes within the refractory period, which make two intervals",
            _spikes((0, 0), (0.5, 0), (1.25, 0), (80, 0), (200, 0), n_units=1),
            _on_arrays,
        ),
        Case(
            "an interval a hair longer than the refractory period, two hours into a recording",
            _spikes((7_200_000, 0), (7_200_002.0625, 0), (7_200_003, 0), (7_200_050, 0), n_units=1),
            _on_arrays,
        ),
        Case("400 spikes of five units", _many, _on_arrays),
    ],
    traps={
        "intervals were taken between neighbours in the whole list, which are mostly spikes of two different units. "
        "Pick out the spikes of one unit first.": (
            partial(_violations, intervals=_ending_at, divisor=lambda n_intervals, n_spikes: n_spikes - 1)
        ),
        "intervals were taken between neighbours in the whole list, and given to the unit of the later spike. Pick out "
        "the spikes of one unit first.": partial(_between_neighbours, whose=lambda units: units[1:]),
        "intervals were taken between neighbours in the whole list, and given to the unit of the earlier spike. Pick "
        "out the spikes of one unit first.": partial(_between_neighbours, whose=lambda units: units[:-1]),
        "you divide by the number of spikes. Between N spikes there are N - 1 intervals.": (
            partial(_violations, divisor=lambda n_intervals, n_spikes: n_spikes)
        ),
        "these are counts. Divide by how many intervals the unit has.": (
            partial(_violations, divisor=lambda n_intervals, n_spikes: 1)
        ),
        "an interval of exactly the refractory period is long enough: (17.2) has <, not <=.": (
            partial(_violations, short=np.less_equal)
        ),
        "a unit without an interval has no share: NaN, not 0. A 0 would say that it is clean.": (
            partial(_violations, empty=0.0)
        ),
        "no interval is ever too short. Are milliseconds compared with seconds? Here all times are in s.": (
            partial(_violations, short=lambda interval, refractory_s: 1000 * interval < refractory_s)
        ),
        "return one number per unit, silent ones included: there are `n_units` of them.": (
            lambda times, units, n_units, refractory_s: _violations(times, units, units.max() + 1, refractory_s)
        ),
        "these are intervals that end at a spike of the unit, but most begin at a spike of another. Pick out the "
        "spikes of one unit first.": partial(_violations, intervals=_ending_at),
        "that is in percent. A share is between 0 and 1.": lambda *args: 100 * _violations(*args),
        "you count every pair of spikes that are too close. An interval is between *neighbours*: three spikes have "
        "two.": _all_pairs_too_close,
        "the spikes are sorted by their unit, and spikes of one unit have changed places: np.argsort keeps their order "
        'with kind="stable" alone.': _violations_of_a_sort,
        "the times are in float32: two hours into a recording, neighbours there are 0.5 ms apart. Keep float64.": (
            lambda times, *rest: _violations(times.astype(np.float32), *rest)
        ),
    },
)


# Exercise 17.2: 20 Hz and 5 Hz for 600 s: 12000 windows of 2 ms, in each of which the other fires 0.01 times

chance_coincidences = ValueCheck(
    "chance_coincidences",
    expected=120.0,
    tolerance=0.5,
    traps={
        "half of it: the window reaches to both sides of a spike, so it is 2 ms long.": 60.0,
        "that is per second, a share, or none. Units that know nothing of each other still meet by chance: how many "
        "times in all of the ten minutes?": 0.2,
        "are milliseconds in there as if they were seconds? The window is 0.002 s long.": 120_000.0,
        "is a time in there in minutes? Rates are per second, and the recording lasts 600 s.": 2.0,
        "is the length of the recording missing? N_a N_b 2 delta is divided by T (17.4).": 72_000.0,
        "that is how often the slower unit fires at all.": 3000.0,
        "twice too many: each coincidence is counted once, from one of the two units.": 240.0,
    },
)


# Exercise 17.3: a mean over the last n rows


def _mean(x, n, *, rows=lambda t, n: (t - n + 1, t + 1), divisor=lambda n, n_rows: max(n_rows, 1)):
    means = []
    for t in range(len(x)):
        first, stop = rows(t, n)
        chosen = x[max(first, 0) : max(stop, 0)]
        means.append(chosen.sum(0) / divisor(n, len(chosen)))
    return np.stack(means)


def _trace(n_rows, n):
    x = torch.randn(n_rows, 2, generator=torch.Generator().manual_seed(16), dtype=torch.float64)
    return lambda: (x.clone(), n)


def _jump():
    return torch.cat([torch.zeros(6, 2), torch.tensor([[1.0, -2.0]]).repeat(6, 1)]).double(), 3


def _after_an_artefact():
    make = _trace(12, 3)
    x, n = make()
    return torch.cat([torch.tensor([[1e9, -1e9]], dtype=torch.float64), x]), n


def _float32_running_sum(x, n):
    total = np.concatenate([np.zeros((1, 2), np.float32), np.cumsum(x.astype(np.float32), 0)])
    stop = np.arange(1, len(x) + 1)
    start = np.maximum(stop - n, 0)
    return (total[stop] - total[start]) / (stop - start)[:, None]


causal_mean = Check(
    "causal_mean",
    reference=_mean,
    cases=[
        Case("a hand that rests and then moves at once", _jump, _on_arrays),
        Case("ten rows and a mean of three", _trace(10, 3), _on_arrays),
        Case("ten rows and a mean of four", _trace(10, 4), _on_arrays),
        Case("a mean of one row", _trace(5, 1), _on_arrays),
        Case("a mean of more rows than there are", _trace(4, 6), _on_arrays),
        Case("one wild answer of 1e9 mm/s, long before", _after_an_artefact, _on_arrays),
    ],
    traps={
        "your answer moves before the hand does: as with the friend, half of the rows are in the future. "
        "`mode='same'` puts the middle of the kernel at t. (And at the start it takes missing rows for 0.)": (
            lambda x, n: np.stack([np.convolve(v, np.ones(n) / n, mode="same") for v in x.T], 1)
        ),
        "your answer moves before the hand does: the mean is around each row. It must end there.": (
            partial(_mean, rows=lambda t, n: (t + n // 2 - n + 1, t + n // 2 + 1))
        ),
        "the mean begins at each row and goes on into the future. It must end there.": (
            partial(_mean, rows=lambda t, n: (t, t + n))
        ),
        "causal, but at the start you divide by n where there are fewer rows: the result is too small there.": (
            partial(_mean, divisor=lambda n, n_rows: n)
        ),
        "one row too many: the last n rows are t - n + 1 to t.": partial(_mean, rows=lambda t, n: (t - n, t + 1)),
        "the row itself is missing: the last n rows end *with* t.": partial(_mean, rows=lambda t, n: (t - n, t)),
        "the mean is over all rows so far. Use the last n only.": partial(_mean, rows=lambda t, n: (0, t + 1)),
        "x and y are mixed: smooth each axis by itself.": lambda x, n: _mean(x.reshape(-1, 1), n).reshape(x.shape),
        "a running sum in float32 forgets the small numbers after a large one. Sum in float64, or each window by "
        "itself.": _float32_running_sum,
    },
)


# Exercise 17.4: which number to report


def _report(valid, test, *, choose=lambda v, t: t[v.mean(1).argmax()], mean=np.mean, std=lambda s: s.std(ddof=1)):
    seeds = choose(valid, test)
    return mean(seeds), std(seeds)


def _scores(valid, test):
    return lambda: (torch.tensor(valid, dtype=torch.float64), torch.tensor(test, dtype=torch.float64))


honest_r2 = Check(
    "honest_r2",
    reference=_report,
    cases=[
        Case("one setting and three seeds", _scores([[0.7, 0.8, 0.75]], [[0.6, 0.8, 0.73]]), _on_arrays),
        Case(
            "two settings of which one is better everywhere",
            _scores([[0.5, 0.6, 0.55], [0.7, 0.8, 0.75]], [[0.4, 0.5, 0.48], [0.6, 0.8, 0.73]]),
            _on_arrays,
        ),
        Case(
            "settings on whose order validation and test disagree",
            _scores([[0.5, 0.6, 0.55], [0.7, 0.8, 0.75]], [[0.8, 0.9, 0.88], [0.6, 0.8, 0.73]]),
            _on_arrays,
        ),
        Case(
            "a setting with one lucky seed beside a steady one",
            _scores([[0.9, 0.3, 0.3, 0.3], [0.6, 0.7, 0.6, 0.7]], [[0.8, 0.2, 0.3, 0.4], [0.6, 0.66, 0.7, 0.62]]),
            _on_arrays,
        ),
        Case(
            "a setting with the best mean and one bad seed",
            _scores(
                [[0.8, 0.82, 0.5, 0.84], [0.7, 0.71, 0.69, 0.7], [0.68, 0.745, 0.75, 0.745]],
                [[0.78, 0.8, 0.46, 0.81], [0.69, 0.68, 0.7, 0.71], [0.67, 0.73, 0.74, 0.75]],
            ),
            _on_arrays,
        ),
        Case(
            "two settings that most seeds rank one way and their means the other",
            _scores([[0.8, 0.81, 0.2], [0.7, 0.72, 0.71]], [[0.77, 0.79, 0.25], [0.7, 0.69, 0.72]]),
            _on_arrays,
        ),
    ],
    traps={
        "the setting was chosen by its R² on the test part. Then the test has been used up: choose on the validation "
        "part.": partial(_report, choose=lambda valid, test: test[test.mean(1).argmax()]),
        "that is the R² of the validation part. It chose the setting, so it is too good: report the test "
        "part.": partial(_report, choose=lambda valid, test: valid[valid.mean(1).argmax()]),
        "that is the best seed. A seed means nothing, so report the mean of all.": partial(_report, mean=np.max),
        "the setting with the luckiest seed was chosen. Compare the *means* over seeds.": (
            partial(_report, choose=lambda valid, test: test[valid.max(1).argmax()])
        ),
        "each seed has chosen a setting of its own. Report a single setting, with all its seeds.": (
            partial(_report, choose=lambda valid, test: np.take_along_axis(test, valid.argmax(0)[None], 0))
        ),
        "the mean is right, the standard deviation too small: it divides by S. What is left after the mean was taken "
        "is S - 1.": partial(_report, std=np.std),
        "the mean is right, the second number is the error of the mean. The question is how much seeds differ.": (
            partial(_report, std=lambda seeds: seeds.std(ddof=1) / len(seeds) ** 0.5)
        ),
        "that is over all settings. Report only the one you chose.": partial(_report, choose=lambda valid, test: test),
        "the setting was chosen by its *median* over seeds. Here it is chosen by its mean.": (
            partial(_report, choose=lambda valid, test: test[np.median(valid, 1).argmax()])
        ),
        "the setting was chosen by its *worst* seed. Here it is chosen by its mean.": (
            partial(_report, choose=lambda valid, test: test[valid.min(1).argmax()])
        ),
        "the setting was chosen by mean minus standard deviation. Here it is chosen by its mean alone.": (
            partial(_report, choose=lambda valid, test: test[(valid.mean(1) - valid.std(1, ddof=1)).argmax()])
        ),
    },
)


# Exercise 17.5: a share of foreign spikes that knows how the rate varies


def _pairs(t, least_s, most_s):
    """Pairs of spikes, neighbours or not, from least_s to less than most_s apart."""
    after = np.maximum(np.searchsorted(t, t + least_s), np.arange(1, len(t) + 1))
    return (np.searchsorted(t, t + most_s) - after).sum()


def _neighbours(t, least_s, most_s):
    interval = np.diff(t)
    return ((interval >= least_s) & (interval < most_s)).sum()


def _smaller_root(ratio):
    return (1 - np.sqrt(1 - 2 * ratio)) / 2 if ratio < 0.5 else 0.5


def _foreign(
    spike_times,
    refractory_s,
    near_s,
    far_s,
    *,
    short=_pairs,
    long=_pairs,
    widths=lambda refractory_s, near_s, far_s: (refractory_s, far_s - near_s),
    root=_smaller_root,
    empty=np.nan,
):
    n_short, n_long = short(spike_times, 0.0, refractory_s), long(spike_times, near_s, far_s)
    short_s, long_s = widths(refractory_s, near_s, far_s)
    return root(n_short / short_s / (n_long / long_s)) if n_long else empty


def _by_rate(spike_times, refractory_s, near_s, far_s):
    """The estimate of (17.3)."""
    rate = len(spike_times) / np.ptp(spike_times)
    return _smaller_root(np.mean(np.diff(spike_times) < refractory_s) / -np.expm1(-rate * refractory_s))


def _one_unit(*times_ms, after_s=0.0, windows=(0.002, 0.02, 0.1)):
    times = after_s + torch.tensor(times_ms, dtype=torch.float64) / 1000
    return lambda: (times.clone(), *windows)


def _bursts(n_bursts, n_spikes=12, seed=17):
    """Spikes in bursts of 0.2 s, one burst a second; few are close to each other."""
    draw = torch.rand(n_bursts, n_spikes, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    in_burst = 0.2 / n_spikes * (1.3 * draw + torch.arange(n_spikes))
    return (in_burst + torch.arange(n_bursts)[:, None]).flatten().sort().values


contamination = Check(
    "contamination",
    reference=_foreign,
    cases=[
        Case("a unit without short intervals", _one_unit(0, 30, 65, 140, 190), _on_arrays),
        Case(
            "a unit with one pair that is too close, and few spikes after it",
            _one_unit(0, 1, 30, 70, 96, 150, 185, 210, 260, 300),
            _on_arrays,
        ),
        Case(
            "three spikes within the refractory period, which are three pairs",
            _one_unit(0, 0.5, 1.25, *range(25, 2400, 22)),
            _on_arrays,
        ),
        Case(
            "pairs exactly at the ends of the windows",
            _one_unit(0, 250, 500, 1000, 2000, 4000, 5000, 5500, 9000, 9125, 9500, windows=(0.25, 0.5, 1.0)),
            _on_arrays,
        ),
        Case("two spikes at one time", _one_unit(0, 0, *range(25, 2400, 22)), _on_arrays),
        Case("spikes in bursts", lambda: (_bursts(40), 0.002, 0.02, 0.1), _on_arrays),
        Case("other windows", lambda: (_bursts(40, 9), 0.001, 0.03, 0.05), _on_arrays),
        Case("more short intervals than the equation has a solution for", _one_unit(0, 1, 40, 41, 80, 81), _on_arrays),
        Case("two spikes far apart, from which nothing can be known", _one_unit(0, 500), _on_arrays),
        Case(
            "spikes 2.1 ms apart, two hours into a recording",
            _one_unit(0, 1, 2.1, *range(25, 2400, 22), after_s=7200),
            _on_arrays,
        ),
        Case("an hour of a unit", lambda: (_bursts(3600, 6), 0.002, 0.02, 0.1), _on_arrays),
    ],
    traps={
        "this is (17.3) again: it expects as many close pairs as the *mean* rate would give. Count the pairs that are "
        "near_s to far_s apart, and expect what these give.": _by_rate,
        "the short intervals are between neighbours only. Count *pairs*: three spikes within the refractory period are "
        "three.": partial(_foreign, short=_neighbours),
        "near_s to far_s apart are mostly spikes with others between them. Count all such pairs, not only "
        "neighbours. The same goes for the short ones.": partial(_foreign, long=_neighbours),
        "the two windows are of different width: divide each count by the seconds that it covers.": (
            partial(_foreign, widths=lambda refractory_s, near_s, far_s: (1.0, 1.0))
        ),
        "the long window is far_s - near_s wide, not far_s.": (
            partial(_foreign, widths=lambda refractory_s, near_s, far_s: (refractory_s, far_s))
        ),
        "the long window begins at 0. It must begin at near_s, where refractory periods are over.": partial(
            _foreign,
            long=lambda t, near_s, far_s: _pairs(t, 0.0, far_s),
            widths=lambda refractory_s, near_s, far_s: (refractory_s, far_s),
        ),
        "that is the other solution: f is the *smaller* share, at most a half.": (
            partial(_foreign, root=lambda ratio: 1 - _smaller_root(ratio))
        ),
        "that is the ratio itself. Solve 2 f (1 - f) = ratio for f.": partial(_foreign, root=lambda ratio: ratio),
        "that is half of the ratio, as if f (1 - f) were f. Solve the quadratic equation.": (
            partial(_foreign, root=lambda ratio: min(ratio / 2, 0.5))
        ),
        "where the ratio is above a half there is no solution: return 0.5.": (
            partial(_foreign, root=lambda ratio: _smaller_root(ratio) if ratio <= 0.5 else np.nan)
        ),
        "without any pair near_s to far_s apart nothing is known: return NaN, not 0.": partial(_foreign, empty=0.0),
        "the times are in float32: two hours into a recording, neighbours there are 0.5 ms apart. Keep float64.": (
            lambda times, *rest: _foreign(times.astype(np.float32), *rest)
        ),
    },
)
