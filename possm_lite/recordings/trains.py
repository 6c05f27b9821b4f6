"""Spikes as `Recording` keeps them, from one array of times per unit and from counts in bins."""

from collections.abc import Iterable, Mapping

import numpy as np

from ..errors import RecordingError

_MAX_COUNT = 10_000


def merge_trains(trains: Mapping | Iterable) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """Spike times in seconds, sorted, and the unit of each, (N,), and unit ids, for `Recording.from_trains`."""
    named = trains if isinstance(trains, Mapping) else dict(enumerate(trains))
    if len(named) > 1 and not any(
        np.ndim(times) for times in named.values()
    ):  # one of them may be a single spike
        raise RecordingError(
            "trains must hold the spike times of each unit, not one number for each."
        )
    arrays = [_train(name, times) for name, times in named.items()]
    spike_times = np.concatenate([np.empty(0), *arrays])
    order = np.argsort(spike_times, kind="stable")
    spike_units = np.repeat(np.arange(len(arrays)), [len(times) for times in arrays])
    return spike_times[order], spike_units[order], [str(name) for name in named]


def _train(name, times) -> np.ndarray:
    """The spike times of one unit, shape (n,); a single row or column, as MATLAB has it, becomes one dimension."""
    times = np.atleast_1d(np.ma.filled(in_seconds(times), np.nan))  # masked: refused as NaN
    if times.size and (times.dtype.kind not in "iuf" or times.size != max(times.shape)):
        raise RecordingError(
            f"trains[{name!r}] must be times of spikes, not {times.dtype} of shape {times.shape}."
        )
    return times.ravel().astype(np.float64)


def in_seconds(times):
    """The times, also of a quantity in a unit of its own, such as the ms of Neo's trains, which NumPy would drop."""
    return times.rescale("s").magnitude if hasattr(times, "rescale") else times


def refuse(name: str, values: np.ndarray, invalid: np.ndarray, rule: str):
    """Raise RecordingError with the first invalid value, and its index, if there is one."""
    if invalid.any():
        index = np.argwhere(invalid)[0].tolist()
        raise RecordingError(f"{name} {rule}: {name}{index} = {values[tuple(index)]}.")


def whole_counts(counts: np.ndarray) -> np.ndarray:
    """The counts, (bins, units), as int64. RecordingError unless they are whole, and not too many."""
    invalid = (counts != np.floor(counts)) | (counts < 0) | (counts > _MAX_COUNT)
    refuse("counts", counts, invalid, f"must be whole counts from 0 to {_MAX_COUNT}")
    counts = counts.astype(np.int64)
    factor = np.gcd.reduce(counts, axis=None)
    if factor > 1 and np.count_nonzero(counts) > 100:
        raise RecordingError(
            f"counts are all multiples of {factor}: if they are rates, multiply by the bin width."
        )
    return counts


def spread_counts(counts: np.ndarray, starts: np.ndarray, width: float) -> list[np.ndarray]:
    """Spike times in seconds of every unit: n spikes in a bin are at (0.5, 1.5, ... n - 0.5) / n of it."""
    trains = []
    for n in counts.T:
        k = np.repeat(np.arange(len(n)), n)  # bin of each spike
        rank = np.arange(len(k)) - (np.cumsum(n) - n)[k]  # 0, 1, ... n - 1 within its bin
        trains.append(starts[k] + (rank + 0.5) / n[k] * width)
    return trains
