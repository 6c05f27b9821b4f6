"""A recording session: spike times with their units, behaviour with its times, trials."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..errors import RecordingError, prefix_errors, wrap_errors
from .arrays import write_arrays
from .derivative import differentiate
from .npz_format import to_arrays
from .trains import check_bins, in_seconds, merge_trains, spread_counts


@dataclass(frozen=True, eq=False)  # arrays have no single answer to ==
class Recording:
    """One recording session, checked on construction and never repaired silently.

    Args:
        spike_times: seconds, sorted, shape (N,), float64.
        spike_units: for each spike the index of its unit in `unit_ids`, from 0, shape (N,), int64.
        unit_ids: the laboratory's names of the units, shape (U,). Units without spikes are included.
        behavior_times: seconds on the clock of the spikes, strictly increasing, shape (T,), float64. T may be 0:
            spikes alone can be decoded, but not trained on.
        behavior: what is decoded, at these times, shape (T, C), float64: any continuous columns, one or more. Shape
            (T,) becomes one column.
        behavior_unit: their unit, such as "mm/s".
        trials: start and stop of each trial in seconds, in order, not overlapping, shape (n, 2). May be empty.
        session_id: the name of the session.
        notes: decisions made by the reader of the file, one sentence each; reported with every result.
        behavior_name: what is decoded, such as "velocity", "hand_vel" or "EMG".
        behavior_columns: names of the columns, shape (C,); default x, y, z up to three, else "0", "1", ...

    Raises:
        RecordingError: naming the field or argument, the first offending index and the value; so do the class methods.
            (What NumPy can make no array of raises an error of its own there.)
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

    def __post_init__(self):
        for name, (shape, dtype) in _ARRAYS.items():
            object.__setattr__(self, name, _as_array(name, getattr(self, name), shape, dtype))
        if len(self.behavior_columns) == 0:
            object.__setattr__(self, "behavior_columns", default_columns(self.n_columns))
        for name in ("behavior_name", "behavior_unit", "session_id"):
            if not isinstance(getattr(self, name), str) or not getattr(self, name):
                raise RecordingError(f"{name} must be a non-empty text, not {getattr(self, name)!r}.")
        object.__setattr__(self, "notes", _sentences(self.notes))
        _check_spikes(self)
        _check_lengths(self)
        check_order("behavior_times", self.behavior_times, strict=True)
        _check_trials(self)

    @classmethod
    def from_trains(cls, trains: Mapping | Iterable, behavior_times=(), behavior=(), **fields) -> "Recording":
        """A recording from one array of spike times per unit.

        Args:
            trains: spike times in seconds, in any order, or in a unit of their own (Neo, quantities): a mapping from
                the unit's id, or one array per unit, whose ids are then "0", "1", ...
            behavior_times: seconds, or in a unit of their own, shape (T,). Without them the recording has spikes alone.
            behavior: what is decoded, shape (T, C), or (T,) for one column.
            fields: `behavior_unit`, `trials`, `session_id` and others of `Recording`.
        """
        spike_times, spike_units, unit_ids = merge_trains(trains)
        fields = {"unit_ids": unit_ids} | fields
        _check_number_of_ids(fields["unit_ids"], len(unit_ids))
        return cls(spike_times, spike_units, behavior_times=behavior_times, behavior=behavior, **fields)

    @classmethod
    def from_position(cls, trains: Mapping | Iterable, times, position, unit: str = "a.u.", **fields) -> "Recording":
        """`from_trains` with the velocity of a position, differentiated at its real resolution; a note says how.

        Args:
            trains, fields: as in `from_trains`.
            times, position: seconds, shape (T,), and what is differentiated, (T, C) or (T,); NaN or masked where it is
                missing.
            unit: of the position, such as "mm"; the behaviour is in "mm/s".
        """
        if np.asarray(position).dtype.kind not in "iuf":
            raise RecordingError(f"position must hold real numbers, not {np.asarray(position).dtype}.")
        times = _as_array("times", times, "(n,)", np.float64)
        position = np.ma.filled(np.ma.asarray(position).astype(np.float64), np.nan)
        position = position[:, None] if position.ndim == 1 else position
        if position.ndim != 2 or times.shape != position.shape[:1]:
            raise RecordingError(f"position must have a row per time: {position.shape} for times {times.shape}.")
        check_order("times", times, strict=True)
        velocity, how = differentiate(times, position)
        valid = np.isfinite(velocity).all(axis=1)
        if valid.sum() < 2:
            empty = np.flatnonzero(~np.isfinite(position).any(axis=0)).tolist() or "none"
            raise RecordingError(
                f"position must have two neighbouring rows of finite values. Columns without any: {empty}."
            )
        missing = f"; {(~valid).sum()} of {len(valid)} rows have none" if not valid.all() else ""
        fields = {"behavior_unit": f"{unit}/s"} | fields
        note = f"Velocity is the derivative of the position{missing}{'; ' if how else ''}{how}."
        fields["notes"] = (*_sentences(fields.get("notes", ())), note)
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
        spike_times, spike_units, note = spread_counts(counts, starts, bin_width_s)
        fields = {"unit_ids": np.arange(counts.shape[1])} | fields
        _check_number_of_ids(fields["unit_ids"], counts.shape[1])
        fields["notes"] = (*_sentences(fields.get("notes", ())), note)
        if len(behavior) and "behavior_times" not in fields:
            if len(behavior) != len(counts):
                rows = f"behavior has {len(behavior)} rows, counts have {len(counts)} bins"
                raise RecordingError(f"{rows}: transpose counts to (bins, units), or give behavior_times.")
            fields["behavior_times"] = starts + bin_width_s / 2
        return cls(spike_times, spike_units, behavior=behavior, **fields)

    @classmethod
    def from_lecture_notes(cls, trials: Iterable[Mapping], bin_width_s: float = 0.05, **fields) -> "Recording":
        """A recording from trials `{"trial_id": ..., "spikes": [bin, ...], "vel": [bin, ...]}`, one after the other.

        Args:
            trials: a bin of `spikes` is a list of (unit, seconds since the start of the bin), or 0; one of `vel` has
                shape (samples, C), spaced evenly from the start of the bin.
            bin_width_s, fields: seconds, and as in `from_trains`.
        """
        trains, times, velocity, intervals, first = {}, [], [], [], 0
        with prefix_errors("trials"), wrap_errors("have another form"):
            for i, trial in enumerate(trials):
                if not len(trial["spikes"]):
                    raise RecordingError(f"must have a bin or more each, and trials[{i}] has none: leave it out.")
                for b, (pairs, samples) in enumerate(zip(trial["spikes"], trial["vel"], strict=True), first):
                    for unit, time in pairs if np.ndim(pairs) else ():
                        if not -1e-6 <= time / bin_width_s <= 1 + 1e-6:
                            raise RecordingError(f"time {time} s is not within a bin of {bin_width_s} s.")
                        trains.setdefault(unit, []).append(b * bin_width_s + time)
                    times += [(b + j / len(samples)) * bin_width_s for j in range(len(samples))]
                    velocity += list(samples)
                intervals.append((first * bin_width_s, (b + 1) * bin_width_s))
                first = b + 20  # a pause, as nothing is known of the time between trials
            trains = dict(sorted(trains.items()))
        return cls.from_trains(trains, times, velocity, trials=intervals, **fields)

    def to_lecture_notes(self, bin_width_s: float = 0.05) -> list[dict]:
        """The trials in the form that `from_lecture_notes` reads, without the last bin of a trial if it is not whole.

        A trial shorter than a bin is left out. The form has no clock: the time between trials is lost, and the samples
        of a bin are evenly spaced from its start. A RecordingError names the first sample which that would move by more
        than the sample interval.
        """
        ids = self.unit_ids.tolist()
        ids = [int(name) for name in ids] if all(is_number(name) for name in ids) else ids
        notes, units, interval = [], [ids[unit] for unit in self.spike_units], self.sample_interval
        for trial_id, (start, stop) in enumerate(self.trials):
            edges = start + bin_width_s * np.arange(int((stop - start) / bin_width_s + 1e-6) + 1)
            s, v = (np.searchsorted(t, edges - 1e-6 * bin_width_s) for t in (self.spike_times, self.behavior_times))
            spikes, vel = [], []
            for i, edge in enumerate(edges[:-1]):
                offsets = np.maximum(self.spike_times[s[i] : s[i + 1]] - edge, 0.0)
                spikes.append(list(zip(units[s[i] : s[i + 1]], offsets.tolist(), strict=True)) or 0)
                times = self.behavior_times[v[i] : v[i + 1]]
                moved = np.abs(times - edge - bin_width_s * np.arange(len(times)) / max(len(times), 1))
                for j in np.flatnonzero(moved > 1.01 * interval)[:1] + v[i]:
                    where = f"behavior_times[{j}] = {self.behavior_times[j]:.6f} s, trial {trial_id}"
                    raise RecordingError(f"behavior_times must be without a gap in each bin: {where}. Drop this trial.")
                vel.append(self.behavior[v[i] : v[i + 1]].tolist())
            if spikes:
                notes.append({"trial_id": trial_id, "spikes": spikes, "vel": vel})
        return notes

    def save(self, path: str | Path, extra: Mapping[str, np.ndarray] | None = None):
        """Write the recording to an `.npz` file that `load_recording` reads back bit for bit.

        Args:
            path: the file.
            extra: further arrays under names that begin with `truth_`, which `load_recording` ignores.

        Raises:
            RecordingError: nothing was written, and a file that was at `path` is unchanged.
        """
        path = Path(path)
        with prefix_errors(path):
            if path.suffix.lower() != ".npz":
                raise RecordingError(f"has the suffix {path.suffix!r}; a recording is saved as .npz.")
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


_ARRAYS = {
    "spike_times": ("(n,)", np.float64),
    "spike_units": ("(n,)", np.int64),
    "unit_ids": ("(n,)", str),
    "behavior_times": ("(n,)", np.float64),
    "behavior": ("(n, columns)", np.float64),
    "behavior_columns": ("(n,)", str),
    "trials": ("(n, 2)", np.float64),
}
_KINDS = {np.float64: ("numbers", "iuf"), np.int64: ("whole numbers", "iu"), str: ("text", "U")}  # converted from


def is_number(unit_id: str) -> bool:
    """Whether the name of a unit is that of a whole number, from which it can be made again: "7", not "07"."""
    return unit_id.isascii() and unit_id.isdecimal() and str(int(unit_id)) == unit_id


def default_columns(n: int) -> np.ndarray:
    """Names of n columns, shape (n,)."""
    return np.array(list("xyz"[:n]) if n <= 3 else [str(i) for i in range(n)])


def _as_array(name: str, value, shape: str, dtype: type) -> np.ndarray:
    """A read-only copy of `value` with the required type and shape; of another kind, such as text, it is refused."""
    words, kinds = _KINDS[dtype]
    value = in_seconds(value) if name == "trials" or name.endswith("times") else value
    if np.ma.is_masked(value):
        raise RecordingError(f"{name} has masked values: leave out these rows together with their times.")
    try:
        array = np.asarray(value, str if dtype is str else None)
    except ValueError as exc:  # rows of different lengths, bytes that are not text
        raise RecordingError(f"{name} is not an array of {words}: {' '.join(str(exc).split())}") from exc
    if array.size and array.dtype.kind not in kinds:
        raise RecordingError(f"{name} must hold {words}, not {array.dtype}.")
    array = array.astype(dtype)
    if array.shape == (0,) and shape != "(n,)":  # an empty list
        array = array.reshape(0, 2)
    elif array.ndim == 1 and shape == "(n, columns)":
        array = array[:, None]
    n_columns = array.shape[1] if array.ndim == 2 else 0
    if not {"(n,)": array.ndim == 1, "(n, columns)": n_columns > 0, "(n, 2)": n_columns == 2}[shape]:
        raise RecordingError(f"{name} must have shape {shape}, not {array.shape}.")
    for index in np.argwhere(~np.isfinite(array))[:1].tolist() if dtype is np.float64 else ():
        raise RecordingError(
            f"{name} must be finite: {name}{index} = {array[tuple(index)]}. "
            "Drop such rows together with their times; a gap in time is allowed."
        )
    array.flags.writeable = False
    return array


def _sentences(notes: Iterable[str]) -> tuple[str, ...]:
    if isinstance(notes, str):
        raise RecordingError(f"notes must be a sequence of sentences, not the single text {notes!r}.")
    return tuple(str(note) for note in notes)


def _check_number_of_ids(unit_ids, n_units: int):
    if len(unit_ids) != n_units:
        raise RecordingError(f"unit_ids must be as many as the units: {len(unit_ids)} against {n_units} units.")


def _check_lengths(r: Recording):
    if len(r.behavior_times) == 1 or len(r.behavior_times) == len(r.spike_times) == 0:
        raise RecordingError(f"behavior_times needs at least two samples, not {len(r.behavior_times)}.")
    for name, n, others in (
        ("spike_units", len(r.spike_times), "spike_times"),
        ("behavior", len(r.behavior_times), "behavior_times"),
        ("behavior_columns", r.n_columns, "columns of behavior"),
    ):
        if (found := len(getattr(r, name))) != n:
            raise RecordingError(f"{name} must be as many as the {others}: {found} against {n} {others}.")


def _check_spikes(r: Recording):
    names, counts = np.unique(r.unit_ids, return_counts=True)
    if len(names) == 0:
        raise RecordingError("unit_ids is empty: a recording needs at least one unit.")
    for i in np.flatnonzero(counts > 1)[:1]:
        raise RecordingError(f"unit_ids must differ: {str(names[i])!r} occurs {counts[i]} times.")
    for i in np.flatnonzero((r.spike_units < 0) | (r.spike_units >= r.n_units))[:1]:
        found = f"spike_units[{i}] = {r.spike_units[i]}"
        raise RecordingError(f"spike_units, indices in unit_ids, must lie in 0..{r.n_units - 1}: {found}.")
    check_order("spike_times", r.spike_times, strict=False)


def _check_trials(r: Recording):
    def trial(i: int) -> str:
        return f"trials[{i}] is {format_seconds(start[i])} to {format_seconds(stop[i])}"

    start, stop = r.trials.T
    for i in np.flatnonzero(stop <= start)[:1]:
        raise RecordingError(f"trials must stop after they start: {trial(i)}.")
    for i in np.flatnonzero(start[1:] < stop[:-1])[:1]:
        raise RecordingError(f"trials must be in order and not overlap: {trial(i)}, {trial(i + 1)}.")
    for i in np.flatnonzero(~covered_trials(r.trials, r.behavior_times))[:1] if len(r.behavior_times) else ():
        n = np.diff(np.searchsorted(r.behavior_times, r.trials[i]))[0]
        raise RecordingError(f"behavior_times must cover every trial: {trial(i)}, behaviour has {n} samples there.")


def format_seconds(seconds: float, digits: int = 6) -> str:
    """`seconds` for a message: fixed point, or scientific notation from 1e9 s."""
    return f"{seconds:.{digits}f} s" if abs(seconds) < 1e9 else f"{seconds:g} s"


def check_order(name: str, times: np.ndarray, strict: bool):
    """Raise RecordingError unless seconds, shape (T,), never decrease or, if `strict`, increase."""
    step = np.diff(times)
    for i in np.flatnonzero(step <= 0 if strict else step < 0)[:1] + 1:
        # few steps go back, and all of the next samples lie before the one at i - 1
        restarts = np.sum(step < 0) <= len(times) / 100 and np.all(times[i : i + 10] < times[i - 1])
        remedy = "Sort them together with their values: order = np.argsort(times, kind='stable')."
        if times[i] == times[i - 1]:
            remedy = "Two samples cannot share one time."
        elif restarts:
            sort = "" if strict else " If they are trains of units one after the other, sort them with their units."
            remedy = f"The clock restarts: save the two blocks as two recordings.{sort}"
        time, before = format_seconds(times[i]), format_seconds(times[i - 1])
        raise RecordingError(f"{name} must be sorted: {name}[{i}] = {time} comes after {before}. {remedy}")


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
