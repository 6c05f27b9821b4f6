"""A recording session: spike times with their units, behaviour with its times, trials."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from ..errors import RecordingError
from .arrays import PLACES_OF_UNITS, to_arrays, write_arrays
from .clocks import (
    check_trains,
    check_unit_of_time,
    find_restarts,
    impossible_times,
    note_impossible,
    restarted,
)
from .derivative import differentiate
from .trains import in_seconds, merge_trains, refuse, spread_counts, whole_counts


@dataclass(frozen=True, eq=False)  # arrays have no single answer to ==
class Recording:
    """One recording session: spikes, behaviour and trials on one clock.

    It is checked on construction and never repaired silently. The arrays are read-only copies.
    `Recording.from_trains` takes one array of spike times per unit, `Recording.from_position` the
    same with a position whose velocity is decoded, `Recording.from_counts` spike counts in bins,
    and `load_recording` a file:

        trains = {"unit 3": [0.012, 0.480, 1.201], "unit 8": [0.250, 0.900]}  # seconds
        recording = Recording.from_trains(trains, times, velocity, behavior_unit="mm/s")
        recording.save("monday.npz")

    Attributes:
        spike_times: seconds, sorted, shape (N,), float64.
        spike_units: for each spike the index of its unit in `unit_ids`, from 0, shape (N,), int64.
        unit_ids: the laboratory's names of the units, all different, shape (U,), text. Units
            without spikes are included.
        behavior_times: seconds on the clock of the spikes, strictly increasing, shape (T,),
            float64; gaps are allowed. T may be 0: spikes alone can be decoded, but not trained on.
        behavior: what is decoded, at these times, shape (T, C), float64: any continuous columns,
            one or more. Shape (T,) becomes one column.
        behavior_unit: the unit of the columns, such as "mm/s".
        trials: start and stop of each trial in seconds, in order, not overlapping, shape (n, 2),
            float64; behaviour covers each trial, to two sample intervals. May be empty.
        session_id: the name of the session.
        notes: decisions made by the reader of the file, a sentence each; reported with every
            result.
        behavior_name: what is decoded, such as "velocity", "hand_vel" or "EMG".
        behavior_columns: names of the columns, shape (C,), text; default x, y, z up to three, else
            "0", "1", ...
        classes: names of the K classes of labels, shape (K,), text; `behavior` is then one column
            of places in this list, whole numbers from 0. Empty: behaviour is continuous.
            `labels.label_trials` makes such a recording of one label a trial.

    Raises:
        RecordingError: an array has another shape or type, is not finite, not sorted or of another
            length than required, or a unit or a trial is invalid. The message names the field or
            argument, the first offending index and the value; so in the class methods.
    """

    spike_times: np.ndarray
    spike_units: np.ndarray
    unit_ids: np.ndarray
    behavior_times: np.ndarray = ()
    behavior: np.ndarray = ()
    behavior_unit: str = "a.u."
    trials: np.ndarray = ()
    session_id: str = "recording"
    notes: tuple[str, ...] = ()
    behavior_name: str = "velocity"
    behavior_columns: np.ndarray = ()
    classes: np.ndarray = ()

    def __post_init__(self):
        for name, (shape, dtype) in _FIELDS.items():
            object.__setattr__(self, name, _as_array(name, getattr(self, name), shape, dtype))
        if len(self.behavior_columns) == 0:
            object.__setattr__(self, "behavior_columns", default_columns(self.n_columns))
        object.__setattr__(self, "notes", tuple(self.notes))
        _check_lengths(self)
        _check_classes(self)
        _check_units(self)
        _check_spike_order(self)
        check_order("behavior_times", self.behavior_times, strict=True)
        _check_trials(self)

    def __repr__(self) -> str:
        """One line, since the arrays of a session fill pages."""
        start, stop = self.span
        decoded = "spikes alone"
        if len(self.behavior_times):
            decoded = f"{self.behavior_name} in {self.behavior_unit}, columns: {self.n_columns}"
        if len(self.classes):
            decoded = f"{self.behavior_name}, classes: {len(self.classes)}"
        return (
            f"<Recording {self.session_id!r}, units: {self.n_units}, spikes: "
            f"{len(self.spike_times):,}, trials: {len(self.trials)}, "
            f"{start:,.1f} to {stop:,.1f} s, {decoded}>"
        )

    @classmethod
    def from_trains(
        cls, trains: Mapping | Iterable, behavior_times=(), behavior=(), **fields
    ) -> "Recording":
        """A recording from one array of spike times per unit.

        Args:
            trains: spike times in seconds, in any order, or in a unit of their own (Neo,
                quantities): a mapping from the unit's id, or one array per unit, whose ids are then
                "0", "1", ...
            behavior_times: seconds, or in a unit of their own, shape (T,). Without them the
                recording has spikes alone.
            behavior: what is decoded, shape (T, C), or (T,) for one column.
            **fields: `behavior_unit`, `trials`, `session_id` and others of `Recording`.

        Raises:
            RecordingError: as for `Recording`, or a train is not times of spikes.
        """
        spike_times, spike_units, ids = merge_trains(trains)
        fields = {"unit_ids": ids} | fields
        return cls(
            spike_times, spike_units, behavior_times=behavior_times, behavior=behavior, **fields
        )

    @classmethod
    def from_position(
        cls, trains: Mapping | Iterable, times, position, unit: str = "a.u.", **fields
    ) -> "Recording":
        """`from_trains` with the velocity of a position; a note says how it was taken.

        The position is differentiated at its real resolution, see `differentiate`; rows without a
        velocity are left out.

        Args:
            trains: spike times per unit, as in `from_trains`.
            times: of the position, seconds, shape (T,).
            position: what is differentiated, shape (T, C) or (T,); NaN or masked where it is
                missing.
            unit: of the position, such as "mm"; the behaviour is in "mm/s".
            **fields: as in `from_trains`.

        Raises:
            RecordingError: as for `Recording`, or no two neighbouring rows are finite.
        """
        times = _as_array("times", times, "(n,)", np.float64)
        position = _as_array("position", position, "(n, columns)", np.float64, finite=False)
        velocity, how = differentiate(times, position)
        valid = np.isfinite(velocity).all(axis=1)
        if not valid.any():
            raise RecordingError(
                "position must have two neighbouring rows that are finite in all columns."
            )
        note = "Velocity is the derivative of the position"
        if not valid.all():
            note += f"; {(~valid).sum()} of {len(valid)} rows have none"
        if how:
            note += f"; {how}"
        fields = {"behavior_unit": f"{unit}/s"} | fields
        fields["notes"] = (*fields.get("notes", ()), f"{note}.")
        return cls.from_trains(trains, times[valid], velocity[valid], **fields)

    @classmethod
    def from_counts(
        cls, counts, bin_width_s: float, behavior=(), bin_starts=None, **fields
    ) -> "Recording":
        """A recording from spike counts in bins.

        The spikes of a bin are spread evenly over it; a note says so.

        Args:
            counts: whole numbers, shape (bins, units).
            bin_width_s: width of a bin, seconds.
            behavior: as in `from_trains`.
            bin_starts: seconds, shape (bins,); there may be gaps. Default: 0, 1, 2, ... widths.
            **fields: as in `from_trains`. `behavior_times` are by default the middles of the bins,
                which is the time of an average over a bin.

        Raises:
            RecordingError: as for `Recording`; the counts are not whole, or the bins overlap.
        """
        counts = whole_counts(np.ma.filled(counts, np.nan))  # masked: refused as NaN
        if bin_starts is None:
            bin_starts = bin_width_s * np.arange(len(counts))
        starts = np.asarray(bin_starts, np.float64)
        _check_bins(starts, len(counts), bin_width_s)
        note = (
            f"Spikes came as counts in bins of {1000 * bin_width_s:g} ms: "
            "those of a bin are spread evenly over it."
        )
        fields["notes"] = (*fields.get("notes", ()), note)
        if len(behavior):
            fields.setdefault("behavior_times", starts + bin_width_s / 2)
        trains = spread_counts(counts, starts, bin_width_s)
        return cls.from_trains(trains, behavior=behavior, **fields)

    def save(self, path: str | Path, extra: Mapping[str, np.ndarray] | None = None):
        """Write the recording to an `.npz` file that `load_recording` reads back bit for bit.

        Args:
            path: the file; its name ends in .npz.
            extra: further arrays by name, which begins with `truth_`, ignored by `load_recording`,
                or with `trials_`: a label or number for each trial, for `--behavior` and filters.

        Raises:
            RecordingError: nothing was written, and a file that was at `path` is unchanged.
        """
        if Path(path).suffix.lower() != ".npz":
            raise RecordingError(f"{path}: a recording is saved as .npz.")
        write_arrays(path, {**to_arrays(vars(self)), **(extra or {})}, RecordingError)

    @property
    def n_units(self) -> int:
        """U: units, with those that have no spikes."""
        return len(self.unit_ids)

    @property
    def n_columns(self) -> int:
        """C: columns of behaviour."""
        return self.behavior.shape[1]

    @property
    def outputs(self) -> np.ndarray:
        """Names of what a decoder gives: the classes, (K,), or the columns of behaviour, (C,)."""
        return self.classes if len(self.classes) else self.behavior_columns

    @property
    def span(self) -> tuple[float, float]:
        """Start and stop in seconds of the trials; without them, of the behaviour or the spikes.

        The last sample of behaviour lasts one sample interval, so it lies inside the span. The last
        of spikes alone is at its end.
        """
        if len(self.trials):
            return float(self.trials[0, 0]), float(self.trials[-1, 1])
        if len(self.behavior_times) == 0:
            return float(self.spike_times[0]), float(self.spike_times[-1])
        stop = self.behavior_times[-1] + self.sample_interval
        return float(self.behavior_times[0]), float(stop)

    @cached_property
    def trial_labels(self) -> np.ndarray | None:
        """The class of each trial, (n,), int64; None unless each has one label throughout."""
        if not len(self.classes) or not len(self.trials) or not len(self.behavior):
            return None
        first, end = np.searchsorted(self.behavior_times, self.trials - 1e-6).T
        labels = self.behavior[:, 0].astype(np.int64)
        n_changes = np.append(0, np.cumsum(np.diff(labels) != 0))  # before each sample
        is_one = (first < end) & (n_changes[end - 1] == n_changes[np.minimum(first, end - 1)])
        return labels[first] if is_one.all() else None

    @cached_property
    def sample_interval(self) -> float:
        """Median seconds between two behaviour samples; NaN of spikes alone."""
        if len(self.behavior_times) == 0:
            return np.nan
        return float(np.median(np.diff(self.behavior_times)))


_FIELDS = {
    "spike_times": ("(n,)", np.float64),
    "spike_units": ("(n,)", np.int64),
    "unit_ids": ("(n,)", np.str_),
    "behavior_times": ("(n,)", np.float64),
    "behavior": ("(n, columns)", np.float64),
    "behavior_columns": ("(n,)", np.str_),
    "classes": ("(n,)", np.str_),
    "trials": ("(n, 2)", np.float64),
}


def default_columns(n: int) -> np.ndarray:
    """Names of n columns, shape (n,): x, y, z up to three, else "0", "1", ..."""
    if n <= 3:
        return np.array(list("xyz"[:n]))
    return np.array([str(i) for i in range(n)])


def _as_array(name: str, value, shape: str, dtype: type, finite: bool = True) -> np.ndarray:
    """A read-only copy of `value` with this type and shape; another kind is refused."""
    if name == "trials" or name.endswith("times"):
        value = in_seconds(value)
    array = np.ma.filled(value, np.nan)  # masked: refused as NaN; np.asarray would ignore the mask
    if array.size and dtype is not np.str_ and not np.can_cast(array.dtype, dtype, "same_kind"):
        if dtype is np.int64:
            raise RecordingError(f"{name} {PLACES_OF_UNITS}")
        found = {"U": "text", "S": "text", "O": "objects of Python", "c": "complex numbers"}
        found |= {"M": "dates", "m": "durations"}
        raise RecordingError(
            f"{name} holds {found.get(array.dtype.kind, array.dtype)}: save numbers"
            f"{', in seconds' * name.endswith('times')}."
        )
    array = array.astype(dtype)
    if array.ndim == 1 and shape != "(n,)":  # one column, or an empty list
        array = array[:, None] if len(array) else array.reshape(0, 2)
    n_dimensions = 1 if shape == "(n,)" else 2
    if array.ndim != n_dimensions or (shape == "(n, 2)" and array.shape[1] != 2):
        size = " x ".join(f"{n:,}" for n in array.shape)
        if shape == "(n, 2)" and array.ndim == 2 and len(array) == 2 < array.shape[1]:
            raise RecordingError(
                f"{name} is lying on its side, {size}: save its transpose, a row for each trial "
                "with start and stop."
            )
        wanted = {
            "(n,)": "one list of values",
            "(n, 2)": "a row for each trial, with start and stop",
        }.get(shape, "a row for each sample, a column for each signal")
        raise RecordingError(f"{name} must have shape {shape}, {wanted}, not {size}.")
    if finite and dtype is np.float64 and not np.isfinite(array).all():
        raise RecordingError(_missing(name, array))
    array.flags.writeable = False
    return array


def _missing(name: str, array: np.ndarray) -> str:
    """In how many rows of an array, (n,) or (n, C), a value is not finite, and what to do."""
    rows = ~np.isfinite(array.reshape(len(array), -1)).all(axis=1)
    index = np.argwhere(~np.isfinite(array))[0].tolist()
    value = array[tuple(index)]
    what, remedy = {
        "spike_times": ("spikes", "delete these spikes in spike_times and spike_units"),
        "trials": ("trials", "delete these trials"),
    }.get(name, ("samples", "delete these samples and their times; gaps are allowed"))
    is_missing = np.isnan(array[~np.isfinite(array)]).all()
    found = "no value (NaN)" if is_missing else "a value that is not finite"
    return (
        f"{name} has {found} in {rows.sum():,} of {len(rows):,} {what}, first "
        f"{name}{index} = {value}: {remedy}."
    )


def _check_bins(starts: np.ndarray, n_bins: int, width: float):
    """Raise RecordingError unless there are as many starts (s) as bins, and a width apart."""
    # starts may have been rounded
    is_apart = width > 0 and (np.diff(starts) >= 0.98 * width).all()
    if not is_apart or len(starts) != n_bins:
        found = f"{len(starts)} for {n_bins} bins of {width} s"
        raise RecordingError(
            f"bin_starts must be one for each bin, and a positive bin_width_s apart: {found}."
        )


def _check_lengths(r: Recording):
    """Raise RecordingError if there is too little, or arrays differ in length that must not."""
    n_samples = len(r.behavior_times)
    n_spikes = len(r.spike_times)
    if n_samples == 1 or n_samples == n_spikes == 0:
        raise RecordingError(f"behavior_times needs at least two samples, not {n_samples}.")
    if (n := len(r.spike_units)) != n_spikes:
        raise RecordingError(
            f"spike_units has {n:,} values, spike_times {n_spikes:,} times: one of them was cut, "
            "or is of another sorting; save both again."
        )
    if (n := len(r.behavior)) != n_samples:
        raise RecordingError(
            f"behavior has {n:,} samples, behavior_times {n_samples:,} times: one of them was cut; "
            "save both again."
        )
    if (n := len(r.behavior_columns)) != r.n_columns:
        raise RecordingError(
            f"behavior_columns has {n} names, behavior {r.n_columns} columns: give each its name."
        )


def _check_classes(r: Recording):
    """Raise RecordingError unless labels are places in a list of classes that differ."""
    n = len(r.classes)
    if n == 0 or len(r.behavior) == 0:
        return
    is_place = (r.behavior % 1 == 0) & (r.behavior >= 0) & (r.behavior < n)
    if r.n_columns != 1 or not is_place.all() or len(set(r.classes.tolist())) < n:
        raise RecordingError(
            f"classes must be {n} names that differ, and behavior one column of their places, "
            f"whole numbers from 0 to {n - 1}."
        )


def _check_units(r: Recording):
    """Raise RecordingError if two units have one id, or a spike has no unit."""
    repeated = np.ones(r.n_units, bool)
    repeated[np.unique(r.unit_ids, return_index=True)[1]] = False
    refuse("unit_ids", r.unit_ids, repeated, "must differ")
    if len(r.spike_units) == 0:
        return
    low, high = r.spike_units.min(), r.spike_units.max()
    if low == 1 and high == r.n_units:  # of MATLAB
        raise RecordingError(f"spike_units look counted from 1 (1 to {high}): subtract 1.")
    refuse("spike_units", r.spike_units, r.spike_units < 0, "are counted from 0")
    if high >= r.n_units:
        i = r.spike_units.argmax()
        raise RecordingError(
            f"spike_units goes up to spike_units[{i}] = {high}, but there are {r.n_units} "
            f"unit_ids, counted from 0 to {r.n_units - 1}."
        )


def _check_trials(r: Recording):
    """Raise RecordingError if a trial stops too early, overlaps the last, or lacks behaviour."""
    start, stop = r.trials.T
    refuse("trials", r.trials, stop <= start, "must stop after they start")
    overlaps = np.append(False, start[1:] < stop[:-1])
    refuse("trials", r.trials, overlaps, "must be in order and not overlap")
    if len(r.behavior_times):
        uncovered = ~covered_trials(r.trials, r.behavior_times)
        if uncovered.any() and min(len(r.spike_times), len(r.behavior_times)) > 1:
            check_unit_of_time(r.spike_times, r.n_units, r.behavior_times)  # the likelier cause
        refuse("trials", r.trials, uncovered, "must be covered by behavior_times")


def _check_spike_order(r: Recording):
    """Raise RecordingError unless spikes are sorted: for impossible times and restarts as such.

    Own arrays of a list of trains put one unit, or one probe, after the other: no clock restarts.
    """
    times = r.spike_times
    if not (np.diff(times) < 0).any():
        return
    impossible = impossible_times(times)
    if impossible.any():
        (note,) = note_impossible(impossible, times, r.spike_units, r.unit_ids)
        raise RecordingError(f"spike_times: {note.replace('were left out', 'must be left out')}")
    order = np.argsort(r.spike_units, kind="stable")
    by_unit, unit = times[order], r.spike_units[order]
    is_sorted = not (np.diff(by_unit)[np.diff(unit) == 0] < 0).any()
    restarts = find_restarts(times)
    n_changes = np.count_nonzero(np.diff(r.spike_units))
    units_apart = 0 < n_changes == np.count_nonzero(np.diff(unit))
    if units_apart or not len(restarts):  # of all, but perhaps of a few units
        check_trains(times, r.spike_units, r.unit_ids)
    if units_apart or (len(restarts) and is_sorted):  # a clock that restarts leaves no unit sorted
        groups = "unit" if units_apart else "group"
        raise RecordingError(
            f"spike_times come {groups} after {groups}, not in order of time: sort all spikes by "
            "time, and spike_units in the same order."
        )
    check_order("spike_times", times, strict=False)


def check_order(name: str, times: np.ndarray, strict: bool):
    """Raise RecordingError, with the likely remedy, unless times are sorted.

    Args:
        name: of the field, for the message.
        times: seconds, (T,).
        strict: they must increase; otherwise, they must not decrease.
    """
    step = np.diff(times)
    bad = step <= 0 if strict else step < 0
    if not bad.any():
        return
    restarts = find_restarts(times)
    if len(restarts):  # and nobody is told to sort what sorting destroys
        raise RecordingError(restarted(name, len(restarts), times[restarts[0] - 1]))
    i = bad.argmax() + 1
    found = f"{name}[{i}] = {times[i]:.12g} s comes after {times[i - 1]:.12g} s"
    remedy = "Sort them together with their values."
    if times[i] == times[i - 1]:
        remedy = "Two samples cannot share one time."
    raise RecordingError(f"{name} must be sorted: {found}. {remedy}")


def covered_trials(trials: np.ndarray, behavior_times: np.ndarray) -> np.ndarray:
    """Whether behaviour covers each trial, within two sample intervals of its start and its stop.

    Args:
        trials: start and stop, seconds, (n, 2).
        behavior_times: of the samples, seconds, increasing, (T,).

    Returns:
        True for each trial with samples from its start to its stop, (n,), bool.
    """
    slack = 2 * np.median(np.diff(behavior_times)) * (1 + 1e-6)
    start, stop = trials.T
    first = np.searchsorted(behavior_times, start)  # (n,)
    end = np.searchsorted(behavior_times, stop)  # (n,)
    earliest = behavior_times[np.minimum(first, len(behavior_times) - 1)]
    latest = behavior_times[np.maximum(end - 1, 0)]
    return (first < end) & (earliest <= start + slack) & (latest >= stop - slack)
