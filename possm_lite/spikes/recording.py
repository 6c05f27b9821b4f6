"""A recording session: spike times with their units, behaviour with its times, trials."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..errors import RecordingError
from .arrays import write_arrays
from .derivative import differentiate
from .lecture_notes import from_notes, to_notes
from .npz_format import to_arrays
from .trains import check_bins, in_seconds, merge_trains, spread_counts


@dataclass(frozen=True, eq=False)  # arrays have no single answer to ==
class Recording:
    """One recording session, checked on construction and never repaired silently.

    Raises:
        RecordingError: naming the field or argument, the first offending index and the value; so do the class methods.
    """

    spike_times: np.ndarray  # seconds, sorted, (N,), float64
    spike_units: np.ndarray  # for each spike the index of its unit in `unit_ids`, from 0, (N,), int64
    unit_ids: np.ndarray  # the laboratory's names of the units, (U,); units without spikes are included
    # seconds on the clock of the spikes, strictly increasing, (T,), float64. T may be 0: spikes alone can be decoded,
    # but not trained on
    behavior_times: np.ndarray = ()
    behavior: np.ndarray = ()  # what is decoded, at these times, (T, C), float64; (T,) becomes one column
    behavior_unit: str = "a.u."  # such as "mm/s"
    trials: np.ndarray = ()  # start and stop of each trial in seconds, in order, not overlapping, (n, 2); may be empty
    session_id: str = "recording"
    notes: tuple[str, ...] = ()  # decisions made by the reader of the file, a sentence each; reported with every result
    behavior_name: str = "velocity"  # what is decoded, such as "hand_vel" or "EMG"
    behavior_columns: np.ndarray = ()  # names of the columns, (C,); default x, y, z up to three, else "0", "1", ...

    def __post_init__(self):
        for name, (shape, dtype) in _FIELDS.items():
            object.__setattr__(self, name, _as_array(name, getattr(self, name), shape, dtype))
        if len(self.behavior_columns) == 0:
            object.__setattr__(self, "behavior_columns", default_columns(self.n_columns))
        for name in ("behavior_name", "behavior_unit", "session_id"):
            if not isinstance(getattr(self, name), str) or not getattr(self, name):
                raise RecordingError(f"{name} must be a non-empty text, not {getattr(self, name)!r}.")
        object.__setattr__(self, "notes", tuple(self.notes))
        _check_lengths(self)
        _check_units(self)
        check_order("spike_times", self.spike_times, strict=False)
        check_order("behavior_times", self.behavior_times, strict=True)
        _check_trials(self)

    @classmethod
    def from_trains(cls, trains: Mapping | Iterable, behavior_times=(), behavior=(), **fields) -> "Recording":
        """A recording from one array of spike times per unit.

        Args:
            trains: spike times in seconds, in any order, or in a unit of their own (Neo, quantities): a mapping from
                the unit's id, or one array per unit, whose ids are then "0", "1", ...
            behavior_times, behavior, fields: as in `Recording`; times may have a unit of their own.
        """
        spike_times, spike_units, ids = merge_trains(trains)
        unit_ids = fields.pop("unit_ids", ids)
        if len(unit_ids) != len(ids):
            raise RecordingError(f"unit_ids must be as many as the units: {len(unit_ids)} against {len(ids)} units.")
        return cls(spike_times, spike_units, unit_ids, behavior_times, behavior, **fields)

    @classmethod
    def from_position(cls, trains: Mapping | Iterable, times, position, unit: str = "a.u.", **fields) -> "Recording":
        """`from_trains` with the velocity of a position, differentiated at its real resolution; a note says how.

        Args:
            trains, fields: as in `from_trains`.
            times, position: seconds, shape (T,), and what is differentiated, (T, C) or (T,); NaN where it is missing.
            unit: of the position, such as "mm"; the behaviour is in "mm/s".
        """
        times = _as_array("times", times, "(n,)", np.float64)
        position = _as_array("position", position, "(n, columns)", np.float64, finite=False)
        if len(times) != len(position):
            raise RecordingError(f"position must have a row per time: {len(position)} for {len(times)} times.")
        check_order("times", times, strict=True)
        velocity, how = differentiate(times, position)
        valid = np.isfinite(velocity).all(axis=1)
        if valid.sum() < 2:
            empty = np.flatnonzero(~np.isfinite(position).any(axis=0)).tolist()
            raise RecordingError(f"position must have two neighbouring finite rows. Columns without any: {empty}.")
        missing = f"; {(~valid).sum()} of {len(valid)} rows have none" if not valid.all() else ""
        note = f"Velocity is the derivative of the position{missing}{'; ' if how else ''}{how}."
        fields = {"behavior_unit": f"{unit}/s"} | fields | {"notes": (*fields.get("notes", ()), note)}
        return cls.from_trains(trains, times[valid], velocity[valid], **fields)

    @classmethod
    def from_counts(cls, counts, bin_width_s: float, behavior=(), bin_starts=None, **fields) -> "Recording":
        """A recording from spike counts in bins. The spikes of a bin are spread evenly over it; a note says so.

        Args:
            counts: whole numbers, shape (bins, units).
            bin_width_s: seconds.
            bin_starts: seconds, shape (bins,); there may be gaps between bins. Default: 0, 1, 2, ... widths.
            behavior, fields: as in `from_trains`. The default of `behavior_times` is the middle of each bin, which is
                the time of an average over the bin.
        """
        counts, starts = check_bins(counts, bin_width_s, bin_starts)
        note = f"Spikes came as counts in bins of {1000 * bin_width_s:g} ms: those of a bin are spread evenly over it."
        fields["notes"] = (*fields.get("notes", ()), note)
        if len(behavior) and "behavior_times" not in fields:
            if len(behavior) != len(counts):
                found = f"{len(counts)} bins for {len(behavior)} rows of behavior"
                raise RecordingError(f"counts has {found}: transpose it to (bins, units), or give behavior_times.")
            fields["behavior_times"] = starts + bin_width_s / 2
        return cls.from_trains(spread_counts(counts, starts, bin_width_s), behavior=behavior, **fields)

    @classmethod
    def from_lecture_notes(cls, trials: Iterable[Mapping], bin_width_s: float = 0.05, **fields) -> "Recording":
        """A recording from trials `{"trial_id": ..., "spikes": [bin, ...], "vel": [bin, ...]}`, one after the other.

        Args:
            trials: a bin of `spikes` is a list of (unit, seconds since the start of the bin), or 0; one of `vel` has
                shape (samples, C), spaced evenly from the start of the bin.
            bin_width_s, fields: seconds, and as in `from_trains`.
        """
        trains, times, behavior, intervals = from_notes(trials, bin_width_s)
        return cls.from_trains(trains, times, behavior, trials=intervals, **fields)

    def to_lecture_notes(self, bin_width_s: float = 0.05) -> list[dict]:
        """The trials in the form that `from_lecture_notes` reads, without the last bin of a trial if it is not whole.

        A trial shorter than a bin is left out. The form has no clock: the time between trials is lost, and the samples
        of a bin are evenly spaced from its start. A RecordingError names the first sample which that would move by more
        than the sample interval.
        """
        ids = self.unit_ids.tolist()
        if all(is_number(name) for name in ids):
            ids = [int(name) for name in ids]
        return to_notes(self, ids, bin_width_s)

    def save(self, path: str | Path, extra: Mapping[str, np.ndarray] | None = None):
        """Write the recording to an `.npz` file that `load_recording` reads back bit for bit.

        `extra` are further arrays under names that begin with `truth_`, which `load_recording` ignores. After a
        RecordingError nothing was written, and a file that was at `path` is unchanged.
        """
        if Path(path).suffix.lower() != ".npz":
            raise RecordingError(f"{path}: a recording is saved as .npz.")
        write_arrays(path, {**to_arrays(vars(self)), **(extra or {})}, RecordingError)

    @property
    def n_units(self) -> int:
        return len(self.unit_ids)

    @property
    def n_columns(self) -> int:
        return self.behavior.shape[1]

    @property
    def span(self) -> tuple[float, float]:
        """Start and stop in seconds of the trials, or without trials of the behaviour, or without both of the spikes.

        The last behaviour sample lasts one sample interval, so it lies inside the span. The last of spikes alone is at
        its end.
        """
        if len(self.trials):
            return float(self.trials[0, 0]), float(self.trials[-1, 1])
        if len(self.behavior_times) == 0:
            return float(self.spike_times[0]), float(self.spike_times[-1])
        return float(self.behavior_times[0]), float(self.behavior_times[-1] + self.sample_interval)

    @property
    def sample_interval(self) -> float:
        """Median seconds between two behaviour samples; NaN of spikes alone."""
        return float(np.median(np.diff(self.behavior_times))) if len(self.behavior_times) else np.nan


_FIELDS = {
    "spike_times": ("(n,)", np.float64),
    "spike_units": ("(n,)", np.int64),
    "unit_ids": ("(n,)", np.str_),
    "behavior_times": ("(n,)", np.float64),
    "behavior": ("(n, columns)", np.float64),
    "behavior_columns": ("(n,)", np.str_),
    "trials": ("(n, 2)", np.float64),
}


def is_number(unit_id: str) -> bool:
    """Whether the name of a unit is that of a whole number, from which it can be made again: "7", not "07"."""
    return unit_id.isascii() and unit_id.isdecimal() and str(int(unit_id)) == unit_id


def default_columns(n: int) -> np.ndarray:
    """Names of n columns, shape (n,)."""
    return np.array(list("xyz"[:n]) if n <= 3 else [str(i) for i in range(n)])


def _as_array(name: str, value, shape: str, dtype: type, finite: bool = True) -> np.ndarray:
    """A read-only copy of `value` with this type and shape; another kind, such as text for numbers, is refused."""
    value = in_seconds(value) if name == "trials" or name.endswith("times") else value
    array = np.ma.filled(value, np.nan)  # masked: refused as NaN; np.asarray would ignore the mask
    if array.size and dtype is not np.str_ and not np.can_cast(array.dtype, dtype, "same_kind"):
        kind = "whole numbers" if dtype is np.int64 else "numbers"
        raise RecordingError(f"{name} must hold {kind}, not {array.dtype}.")
    array = array.astype(dtype)
    if array.ndim == 1 and shape != "(n,)":  # one column, or an empty list
        array = array[:, None] if len(array) else array.reshape(0, 2)
    if array.ndim != (1 if shape == "(n,)" else 2) or (shape == "(n, 2)" and array.shape[1] != 2):
        raise RecordingError(f"{name} must have shape {shape}, not {array.shape}.")
    if finite and dtype is np.float64 and not np.isfinite(array).all():
        index = np.argwhere(~np.isfinite(array))[0].tolist()
        remedy = "Drop such rows together with their times; a gap in time is allowed."
        raise RecordingError(f"{name} must be finite: {name}{index} = {array[tuple(index)]}. {remedy}")
    array.flags.writeable = False
    return array


def _check_lengths(r: Recording):
    if len(r.behavior_times) == 1 or len(r.behavior_times) == len(r.spike_times) == 0:
        raise RecordingError(f"behavior_times needs at least two samples, not {len(r.behavior_times)}.")
    for name, n, others in (
        ("spike_units", len(r.spike_times), "spike_times"),
        ("behavior", len(r.behavior_times), "behavior_times"),
        ("behavior_columns", r.n_columns, "columns of behavior"),
    ):
        found = len(getattr(r, name))
        if found != n:
            raise RecordingError(f"{name} must be as many as the {others}: {found} against {n} {others}.")


def _check_units(r: Recording):
    names, counts = np.unique(r.unit_ids, return_counts=True)
    if (counts > 1).any():
        i = counts.argmax()
        raise RecordingError(f"unit_ids must differ: {str(names[i])!r} occurs {counts[i]} times.")
    outside = (r.spike_units < 0) | (r.spike_units >= r.n_units)
    if outside.any():
        found = f"spike_units[{outside.argmax()}] = {r.spike_units[outside.argmax()]}"
        raise RecordingError(f"spike_units, indices in unit_ids, must lie in 0..{r.n_units - 1}: {found}.")


def _check_trials(r: Recording):
    def trial(i: int) -> str:
        return f"trials[{i}] is {format_seconds(start[i])} to {format_seconds(stop[i])}"

    start, stop = r.trials.T
    backwards = stop <= start
    if backwards.any():
        raise RecordingError(f"trials must stop after they start: {trial(backwards.argmax())}.")
    overlap = start[1:] < stop[:-1]
    if overlap.any():
        i = overlap.argmax()
        raise RecordingError(f"trials must be in order and not overlap: {trial(i)}, {trial(i + 1)}.")
    if len(r.behavior_times) == 0:
        return
    covered = covered_trials(r.trials, r.behavior_times)
    if not covered.all():
        i = covered.argmin()
        n = np.diff(np.searchsorted(r.behavior_times, r.trials[i]))[0]
        raise RecordingError(f"behavior_times must cover every trial: {trial(i)}, behaviour has {n} samples there.")


def format_seconds(seconds: float, digits: int = 6) -> str:
    """`seconds` for a message: fixed point, or scientific notation from 1e9 s."""
    return f"{seconds:.{digits}f} s" if abs(seconds) < 1e9 else f"{seconds:g} s"


def check_order(name: str, times: np.ndarray, strict: bool):
    """Raise RecordingError unless seconds, shape (T,), never decrease or, if `strict`, increase."""
    step = np.diff(times)
    bad = step <= 0 if strict else step < 0
    if not bad.any():
        return
    i = bad.argmax() + 1
    remedy = "Sort them together with their values: order = np.argsort(times, kind='stable')."
    if times[i] == times[i - 1]:
        remedy = "Two samples cannot share one time."
    # few steps go back, and all of the next samples lie before the one at i - 1
    elif np.sum(step < 0) <= len(times) / 100 and np.all(times[i : i + 10] < times[i - 1]):
        sort = "" if strict else " If they are trains of units one after the other, sort them with their units."
        remedy = f"The clock restarts: save the two blocks as two recordings.{sort}"
    found = f"{name}[{i}] = {format_seconds(times[i])} comes after {format_seconds(times[i - 1])}"
    raise RecordingError(f"{name} must be sorted: {found}. {remedy}")


def covered_trials(trials: np.ndarray, behavior_times: np.ndarray) -> np.ndarray:
    """True for each trial, (n, 2), with behaviour inside it, within two sample intervals of its start and of its stop.

    `behavior_times`, shape (T,), increase and are at least two. All are in seconds.
    """
    slack = 2 * np.median(np.diff(behavior_times)) * (1 + 1e-6)
    start, stop = trials.T
    first, end = np.searchsorted(behavior_times, start), np.searchsorted(behavior_times, stop)  # (n,), (n,)
    earliest = behavior_times[np.minimum(first, len(behavior_times) - 1)]
    latest = behavior_times[np.maximum(end - 1, 0)]
    return (first < end) & (earliest <= start + slack) & (latest >= stop - slack)
