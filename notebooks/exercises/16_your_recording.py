"""Exercises of chapter 16: intervals that are too short, coincidences by chance, smoothing, the number to report.

A recording is made of NumPy arrays, so these exercises are too. Cases hold tensors, which share their numbers with the
arrays the student gets: that is how a change in place is noticed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from possm_lite.classroom.checks import Case, Check, ValueCheck


def _returned(function: Callable, *args: Any) -> Any:
    """What the function makes of NumPy arrays."""
    return function(*(x.numpy() if isinstance(x, Tensor) else x for x in args))


def _as_tensor(answer: Any) -> Tensor:
    """An array, a list or a number as float64: which of them it is, and how precise, is not what is asked."""
    return answer.double() if isinstance(answer, Tensor) else torch.from_numpy(np.array(answer, dtype=np.float64))


# Exercise 16.1: the share of intervals that are too short, unit by unit


def _counted(function: Callable, *args: Any) -> Tensor:
    """NaN, which equals nothing, as -1."""
    return _as_tensor(_returned(function, *args)).nan_to_num(nan=-1.0)


def _of_units(share: Callable[[NDArray, float], float]) -> Callable:
    """An answer that gives the times of each unit by themselves to `share`."""

    def isi_violations(spike_times: NDArray, spike_units: NDArray, n_units: int, refractory_s: float) -> NDArray:
        return np.array([share(spike_times[spike_units == u], refractory_s) for u in range(n_units)])

    return isi_violations


def _share(below: Callable[[NDArray, float], NDArray], of: Callable[[NDArray], int], empty: float = np.nan) -> Callable:
    def share(times: NDArray, refractory_s: float) -> float:
        return below(np.diff(times), refractory_s).sum() / of(times) if len(times) > 1 else empty

    return _of_units(share)


def _short(interval: NDArray, refractory_s: float) -> NDArray:
    return interval < refractory_s


def _n_intervals(times: NDArray) -> int:
    return len(times) - 1


def _of_all_spikes(spike_times: NDArray, spike_units: NDArray, n_units: int, refractory_s: float) -> NDArray:
    short = np.bincount(spike_units[1:], np.diff(spike_times) < refractory_s, minlength=n_units)
    with np.errstate(divide="ignore", invalid="ignore"):
        return short / (np.bincount(spike_units, minlength=n_units) - 1)


def _up_to_last_that_fired(spike_times: NDArray, spike_units: NDArray, n_units: int, refractory_s: float) -> NDArray:
    return _isi_violations(spike_times, spike_units, int(spike_units.max()) + 1, refractory_s)


def _of_all_by_unit(spike_times: NDArray, spike_units: NDArray, n_units: int, refractory_s: float) -> NDArray:
    short, unit = np.diff(spike_times) < refractory_s, spike_units[1:]
    return np.array([short[unit == u].mean() if np.sum(spike_units == u) > 1 else np.nan for u in range(n_units)])


_isi_violations = _share(_short, _n_intervals)


def _spikes(*train: tuple[float, int], n_units: int, refractory_s: float = 0.002) -> Callable[[], tuple]:
    """Arguments from (time in ms, unit) of each spike."""
    times = torch.tensor([t / 1000 for t, _ in train], dtype=torch.float64)
    return lambda: (times.clone(), torch.tensor([u for _, u in train]), n_units, refractory_s)


isi_violations = Check(
    "isi_violations",
    reference=_isi_violations,
    cases=[
        Case("one unit with five spikes", _spikes((0, 0), (1, 0), (11, 0), (12.5, 0), (500, 0), n_units=1), _counted),
        Case(
            "two units whose spikes come between each other",
            _spikes((0, 0), (1, 1), (1.5, 0), (9, 0), (10, 1), (11.5, 1), (30, 0), (60, 1), n_units=2),
            _counted,
        ),
        Case(
            "an interval of exactly the refractory period, 0.25 s",
            _spikes((0, 0), (125, 0), (375, 0), (1375, 0), n_units=1, refractory_s=0.25),
            _counted,
        ),
        Case(
            "a unit with one spike and a silent one",
            _spikes((0, 2), (5, 0), (6, 0), (9, 1), (30, 2), n_units=4),
            _counted,
        ),
    ],
    traps={
        "intervals were taken between neighbours in the whole list, which are mostly spikes of two different units. "
        "Pick out the spikes of one unit first.": _of_all_spikes,
        "you divide by the number of spikes. Between N spikes there are N - 1 intervals.": _share(_short, len),
        "these are counts. Divide by how many intervals the unit has.": _share(_short, lambda times: 1),
        "an interval of exactly the refractory period is long enough: (16.2) has <, not <=.": _share(
            np.less_equal, _n_intervals
        ),
        "a unit without an interval has no share: NaN, not 0. A 0 would say that it is clean.": _share(
            _short, _n_intervals, empty=0.0
        ),
        "no interval is ever too short. Are milliseconds compared with seconds? Here all times are in s.": _share(
            lambda interval, refractory_s: 1000 * interval < refractory_s, _n_intervals
        ),
        "one number per unit is wanted, silent ones included: there are `n_units` of them.": _up_to_last_that_fired,
        "these are intervals that end at a spike of the unit, but most begin at a spike of another. Pick out the "
        "spikes of one unit first.": _of_all_by_unit,
        "that is in percent. A share lies between 0 and 1.": _share(lambda *args: 100 * _short(*args), _n_intervals),
    },
)


# Exercise 16.2: 20 Hz and 5 Hz for 600 s: 12000 windows of 2 ms, in each of which the other fires 0.01 times

chance_coincidences = ValueCheck(
    "chance_coincidences",
    expected=120.0,
    tolerance=0.5,
    traps={
        "half of it: the window reaches to both sides of a spike, so it is 2 ms long.": 60.0,
        "that is per second, or a share. How many are there in all of the ten minutes?": 0.2,
        "are milliseconds in there as if they were seconds? The window is 0.002 s long.": 120_000.0,
        "that is how often the slower unit fires at all.": 3000.0,
        "twice too many: each coincidence is counted once, from one of the two units.": 240.0,
    },
)


# Exercise 16.3: a mean over the last n rows


def _mean_of(
    first: Callable[[int, int], int], stop: Callable[[int, int], int], divide: Callable | None = None
) -> Callable:
    """The mean of rows first(t, n) to stop(t, n), cut to those there are; `divide(n, how many there are)`."""

    def causal_mean(x: NDArray, n: int) -> NDArray:
        rows = []
        for t in range(len(x)):
            some = x[max(first(t, n), 0) : max(stop(t, n), 0)]
            rows.append(some.sum(0) / (max(len(some), 1) if divide is None else divide(n, len(some))))
        return np.stack(rows)

    return causal_mean


def _first(t: int, n: int) -> int:
    return t - n + 1


def _stop(t: int, n: int) -> int:
    return t + 1


_causal_mean = _mean_of(_first, _stop)


def _both_axes_at_once(x: NDArray, n: int) -> NDArray:
    flat = _causal_mean(x.reshape(-1, 1), n)
    return flat.reshape(x.shape)


def _smoothed(function: Callable, *args: Any) -> Tensor:
    return _as_tensor(_returned(function, *args))


def _trace(n_rows: int, n: int, jump: bool = False) -> Callable[[], tuple]:
    def make() -> tuple:
        x = torch.randn(n_rows, 2, generator=torch.Generator().manual_seed(16), dtype=torch.float64)
        if jump:
            x = torch.zeros(n_rows, 2, dtype=torch.float64)
            x[n_rows // 2 :] = torch.tensor([1.0, -2.0])
        return x, n

    return make


causal_mean = Check(
    "causal_mean",
    reference=_causal_mean,
    cases=[
        Case("a hand that rests and then moves at once", _trace(12, 3, jump=True), _smoothed),
        Case("ten rows and a mean of three", _trace(10, 3), _smoothed),
        Case("ten rows and a mean of four", _trace(10, 4), _smoothed),
        Case("a mean of one row", _trace(5, 1), _smoothed),
        Case("a mean of more rows than there are", _trace(4, 6), _smoothed),
    ],
    traps={
        "your answer moves before the hand does: as with the friend, half of the rows are of the future. "
        "`mode='same'` puts the middle of the kernel at t. (And at the start it takes missing rows for 0.)": _mean_of(
            lambda t, n: t + (n - 1) // 2 - n + 1, lambda t, n: t + (n - 1) // 2 + 1, lambda n, there: n
        ),
        "your answer moves before the hand does: the mean is around each row. It must end there.": _mean_of(
            lambda t, n: t + n // 2 - n + 1, lambda t, n: t + n // 2 + 1
        ),
        "the mean begins at each row and goes on into the future. It must end there.": _mean_of(
            lambda t, n: t, lambda t, n: t + n
        ),
        "causal, but at the start you divide by n where there are fewer rows: the answer is too small there.": _mean_of(
            _first, _stop, lambda n, there: n
        ),
        "one row too many: the last n rows are t - n + 1 to t.": _mean_of(lambda t, n: t - n, _stop),
        "the row itself is missing: the last n rows end *with* t.": _mean_of(lambda t, n: t - n, lambda t, n: t),
        "the mean is over all rows so far. Only the last n are wanted.": _mean_of(lambda t, n: 0, _stop),
        "x and y are mixed: smooth each axis by itself.": _both_axes_at_once,
    },
)


# Exercise 16.4: which number to report


def _reported(setting: Callable[[NDArray, NDArray], int], of: str = "test", correction: int = 1) -> Callable:
    """Mean and standard deviation over seeds for the setting that is picked."""

    def honest_r2(valid: NDArray, test: NDArray) -> tuple[float, float]:
        seeds = (test if of == "test" else valid)[setting(valid, test)]
        return seeds.mean(), seeds.std(ddof=correction)

    return honest_r2


def _by_validation(valid: NDArray, test: NDArray) -> int:
    return valid.mean(1).argmax()


def _best_seed(valid: NDArray, test: NDArray) -> tuple[float, float]:
    chosen = test[_by_validation(valid, test)]
    return chosen.max(), chosen.std(ddof=1)


def _standard_error(valid: NDArray, test: NDArray) -> tuple[float, float]:
    chosen = test[_by_validation(valid, test)]
    return chosen.mean(), chosen.std(ddof=1) / len(chosen) ** 0.5


def _a_setting_for_each_seed(valid: NDArray, test: NDArray) -> tuple[float, float]:
    chosen = np.take_along_axis(test, valid.argmax(0)[None], 0)
    return chosen.mean(), chosen.std(ddof=1)


def _two_numbers(function: Callable, *args: Any) -> Any:
    """An array or a list of two is as good as a tuple."""
    answer = _returned(function, *args)
    if np.ndim(answer) == 0:
        return answer
    return tuple(_as_tensor(x) for x in answer)


def _scores(valid: list[list[float]], test: list[list[float]]) -> Callable[[], tuple]:
    return lambda: (torch.tensor(valid, dtype=torch.float64), torch.tensor(test, dtype=torch.float64))


honest_r2 = Check(
    "honest_r2",
    reference=_reported(_by_validation),
    cases=[
        Case("one setting and three seeds", _scores([[0.7, 0.8, 0.75]], [[0.6, 0.8, 0.73]]), _two_numbers),
        Case(
            "two settings of which one is better everywhere",
            _scores([[0.5, 0.6, 0.55], [0.7, 0.8, 0.75]], [[0.4, 0.5, 0.48], [0.6, 0.8, 0.73]]),
            _two_numbers,
        ),
        Case(
            "settings on whose order validation and test disagree",
            _scores([[0.5, 0.6, 0.55], [0.7, 0.8, 0.75]], [[0.8, 0.9, 0.88], [0.6, 0.8, 0.73]]),
            _two_numbers,
        ),
        Case(
            "a setting with one lucky seed beside a steady one",
            _scores([[0.9, 0.3, 0.3, 0.3], [0.6, 0.7, 0.6, 0.7]], [[0.8, 0.2, 0.3, 0.4], [0.6, 0.66, 0.7, 0.62]]),
            _two_numbers,
        ),
    ],
    traps={
        "the setting was chosen by its R² on the test part. Then the test has been used up: choose on the validation "
        "part.": _reported(lambda valid, test: test.mean(1).argmax()),
        "that is the R² of the validation part. It chose the setting, so it is too good: report the test part.": (
            _reported(_by_validation, of="valid")
        ),
        "that is the best seed. A seed means nothing, so report the mean of all.": _best_seed,
        "the setting with the luckiest seed was chosen. Compare the *means* over seeds.": _reported(
            lambda valid, test: valid.max(1).argmax()
        ),
        "each seed has chosen a setting of its own. One setting is reported, with all its seeds.": (
            _a_setting_for_each_seed
        ),
        "the mean is right, the standard deviation too small: it divides by S. What is left after the mean was taken "
        "is S - 1.": _reported(_by_validation, correction=0),
        "the mean is right, the second number is the error of the mean. Asked is how much seeds differ.": (
            _standard_error
        ),
        "that is over all settings. Only the one you chose is reported.": (
            lambda valid, test: (test.mean(), test.std(ddof=1))
        ),
    },
)
