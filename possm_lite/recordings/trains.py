"""Spikes as `Recording` keeps them, from one array of times per unit and from counts in bins."""

from collections.abc import Iterable, Mapping

import numpy as np

from ..errors import RecordingError

_MAX_COUNT = 10_000


def merge_trains(trains: Mapping | Iterable) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """The spikes of all units in one array, for `Recording.from_trains`.

    Args:
        trains: spike times, (n,) each, in any order, in seconds or in a unit of their own: a
            mapping from the unit's id, or one array per unit, whose ids are then "0", "1", ...

    Returns:
        Spike times in seconds, sorted, (N,); the index of the unit of each, (N,); and U unit ids.

    Raises:
        RecordingError: a train that is no single dimension of numbers, or one number a unit.
    """
    named = trains if isinstance(trains, Mapping) else dict(enumerate(trains))
    # one of them may be a single spike
    if len(named) > 1 and all(np.ndim(times) == 0 for times in named.values()):
        raise RecordingError(
            "trains must hold the spike times of each unit, not one number for each."
        )
    arrays = [_train(name, times) for name, times in named.items()]
    spike_times = np.concatenate([np.empty(0), *arrays])
    spike_units = np.repeat(np.arange(len(arrays)), [len(times) for times in arrays])
    order = np.argsort(spike_times, kind="stable")
    return spike_times[order], spike_units[order], [str(name) for name in named]


def _train(name, times) -> np.ndarray:
    """The spike times of one unit, (n,) s; a single row or column, as in MATLAB, is flattened."""
    times = np.atleast_1d(np.ma.filled(in_seconds(times), np.nan))  # masked: refused as NaN
    is_number = times.dtype.kind in "iuf"
    if times.size and (not is_number or times.size != max(times.shape)):
        raise RecordingError(
            f"trains[{name!r}] must be times of spikes, not {times.dtype} of shape {times.shape}."
        )
    return times.ravel().astype(np.float64)


def in_seconds(times):
    """The `times` as they are, or in seconds if they have a unit of their own.

    Such are the quantities of Neo, with trains in ms; NumPy would drop their unit.
    """
    return times.rescale("s").magnitude if hasattr(times, "rescale") else times


def refuse(name: str, values: np.ndarray, invalid: np.ndarray, rule: str):
    """Raise a RecordingError for the first invalid value, if there is one.

    Args:
        name: of the field or argument.
        values: what it holds, of any shape.
        invalid: True where a value breaks the rule, with the first dimensions of `values`.
        rule: what they must be, such as "must differ".
    """
    if invalid.any():
        index = np.argwhere(invalid)[0].tolist()
        raise RecordingError(f"{name} {rule}: {name}{index} = {values[tuple(index)]}.")


def whole_counts(counts: np.ndarray, name: str = "counts") -> np.ndarray:
    """The `counts`, (bins, units) or its transpose, as int64.

    Stands for rates in Hz and smoothed counts that are saved in their place (issue 50).

    Args:
        counts: what should be counts.
        name: of them, for messages.

    Raises:
        RecordingError: they are not whole, below 0 or above 10,000, or all multiples of a number
            above 1, as rates in Hz are.
    """
    invalid = (counts != np.floor(counts)) | (counts < 0) | (counts > _MAX_COUNT)
    rule = f"must be whole counts from 0 to {_MAX_COUNT:,}"
    if (counts != np.floor(counts)).any():
        rule += " (smoothed rates are not read, save the counts)"
    refuse(name, counts, invalid, rule)
    counts = counts.astype(np.int64)
    factor = np.gcd.reduce(counts, axis=None)
    if factor > 1 and np.count_nonzero(counts) > 100:
        raise RecordingError(
            f"{name} are all multiples of {factor}: if they are rates, multiply by the bin width."
        )
    return counts


def spread_counts(counts: np.ndarray, starts: np.ndarray, width: float) -> list[np.ndarray]:
    """Spike times of each unit: n spikes in a bin are at (0.5, 1.5, ... n - 0.5) / n of it.

    Args:
        counts: whole numbers, (bins, units).
        starts: of the bins, seconds, (bins,).
        width: of a bin, seconds.

    Returns:
        For each unit its spike times in seconds, (spikes,).
    """
    trains = []
    for n in counts.T:
        k = np.repeat(np.arange(len(n)), n)  # bin of each spike
        first = np.cumsum(n) - n  # spikes before each bin
        rank = np.arange(len(k)) - first[k]  # 0, 1, ... n - 1 within its bin
        trains.append(starts[k] + (rank + 0.5) / n[k] * width)
    return trains
