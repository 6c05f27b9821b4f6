"""A recording session: spike times with their units, behaviour with its times, trials."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..errors import RecordingError
from .arrays import to_arrays, write_arrays
from .derivative import differentiate
from .trains import in_seconds, merge_trains, refuse, spread_counts, whole_counts


@dataclass(frozen=True, eq=False)  # arrays have no single answer to ==
class Recording:
    """One recording session, checked on construction and never repaired silently.

    A RecordingError names the field or argument, the first offending index and the value; so in the class methods.
    """

    spike_times: np.ndarray  # seconds, sorted, (N,), float64
    spike_units: (
        np.ndarray
    )  # for each spike the index of its unit in `unit_ids`, from 0, (N,), int64
    unit_ids: (
        np.ndarray
    )  # the laboratory's names of the units, (U,); units without spikes are included
    behavior_times: np.ndarray = ()  # seconds on the clock of the spikes, increasing, (T,), float64; T may be 0
    behavior: np.ndarray = ()  # what is decoded, at these times, (T, C), float64; (T,) becomes one column
    behavior_unit: str = "a.u."  # such as "mm/s"
    trials: np.ndarray = ()  # start and stop of each trial in seconds, in order, not overlapping, (n, 2); may be empty
    session_id: str = "recording"
    notes: tuple[
        str, ...
    ] = ()  # decisions made by the reader of the file, a sentence each; reported with every result
    behavior_name: str = "velocity"  # what is decoded, such as "hand_vel" or "EMG"
    behavior_columns: np.ndarray = ()  # names of the columns, (C,); default x, y, z up to three, else "0", "1", ...

    def __post_init__(self):
        for name, (shape, dtype) in _FIELDS.items():
            object.__setattr__(self, name, _as_array(name, getattr(self, name), shape, dtype))
        if len(self.behavior_columns) == 0:
            object.__setattr__(self, "behavior_columns", default_columns(self.n_columns))
        object.__setattr__(self, "notes", tuple(self.notes))
        _check(self)

    @classmethod
    def from_trains(
        cls, trains: Mapping | Iterable, behavior_times=(), behavior=(), **fields
    ) -> "Recording":
        """A recording from one array of spike times per unit.

        `trains` is a mapping from the unit's id, or one array per unit, called "0", "1", ... Times are in any order, in
        seconds or in a unit of their own (Neo, quantities); `fields` are those of `Recording`.
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
        """`from_trains` with the velocity of a position, differentiated at its real resolution; a note says how.

        `times` are seconds, (T,), `position` is (T, C) or (T,), NaN where it is missing. A `unit` of "mm" gives "mm/s".
        """
        times = _as_array("times", times, "(n,)", np.float64)
        position = _as_array("position", position, "(n, columns)", np.float64, finite=False)
        velocity, how = differentiate(times, position)
        valid = np.isfinite(velocity).all(axis=1)
        if not valid.any():
            raise RecordingError(
                "position must have two neighbouring rows that are finite in all columns."
            )
        missing = f"{(~valid).sum()} of {len(valid)} rows have none" if not valid.all() else ""
        note = (
            "; ".join(filter(None, ("Velocity is the derivative of the position", missing, how)))
            + "."
        )
        fields = (
            {"behavior_unit": f"{unit}/s"} | fields | {"notes": (*fields.get("notes", ()), note)}
        )
        return cls.from_trains(trains, times[valid], velocity[valid], **fields)

    @classmethod
    def from_counts(
        cls, counts, bin_width_s: float, behavior=(), bin_starts=None, **fields
    ) -> "Recording":
        """A recording from spike counts in bins. The spikes of a bin are spread evenly over it; a note says so.

        Args:
            counts: whole numbers, shape (bins, units).
            bin_starts: seconds, (bins,); there may be gaps. Default: 0, 1, 2, ... widths.
            behavior, fields: as in `from_trains`; `behavior_times` are by default the middles of the bins.
        """
        counts = whole_counts(np.ma.filled(counts, np.nan))  # masked: refused as NaN
        starts = (
            bin_width_s * np.arange(len(counts))
            if bin_starts is None
            else np.asarray(bin_starts, np.float64)
        )
        is_apart = (
            bin_width_s > 0 and (np.diff(starts) >= 0.98 * bin_width_s).all()
        )  # starts may have been rounded
        if not is_apart or len(starts) != len(counts):
            found = f"{len(starts)} for {len(counts)} bins of {bin_width_s} s"
            raise RecordingError(
                f"bin_starts must be one for each bin, and a positive bin_width_s apart: {found}."
            )
        note = f"Spikes came as counts in bins of {1000 * bin_width_s:g} ms: those of a bin are spread evenly over it."
        fields["notes"] = (*fields.get("notes", ()), note)
        if len(behavior):
            fields.setdefault("behavior_times", starts + bin_width_s / 2)
        return cls.from_trains(
            spread_counts(counts, starts, bin_width_s), behavior=behavior, **fields
        )

    def save(self, path: str | Path, extra: Mapping[str, np.ndarray] | None = None):
        """Write the recording to an `.npz` file that `load_recording` reads back bit for bit.

        `extra` are further arrays, named `truth_...`, which it ignores. After a RecordingError, nothing was written.
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
        """Start and stop in seconds of the trials; without trials of the behaviour, and without both of the spikes."""
        if len(self.trials):
            return float(self.trials[0, 0]), float(self.trials[-1, 1])
        if len(self.behavior_times) == 0:
            return float(self.spike_times[0]), float(self.spike_times[-1])
        return float(self.behavior_times[0]), float(
            self.behavior_times[-1] + self.sample_interval
        )  # of the last, too

    @property
    def sample_interval(self) -> float:
        """Median seconds between two behaviour samples; NaN of spikes alone."""
        return (
            float(np.median(np.diff(self.behavior_times))) if len(self.behavior_times) else np.nan
        )


_FIELDS = {
    "spike_times": ("(n,)", np.float64),
    "spike_units": ("(n,)", np.int64),
    "unit_ids": ("(n,)", np.str_),
    "behavior_times": ("(n,)", np.float64),
    "behavior": ("(n, columns)", np.float64),
    "behavior_columns": ("(n,)", np.str_),
    "trials": ("(n, 2)", np.float64),
}


def default_columns(n: int) -> np.ndarray:
    """Names of n columns, shape (n,)."""
    return np.array(list("xyz"[:n]) if n <= 3 else [str(i) for i in range(n)])


def _as_array(name: str, value, shape: str, dtype: type, finite: bool = True) -> np.ndarray:
    """A read-only copy of `value` with this type and shape; another kind, such as text for numbers, is refused."""
    value = in_seconds(value) if name == "trials" or name.endswith("times") else value
    array = np.ma.filled(value, np.nan)  # masked: refused as NaN; np.asarray would ignore the mask
    if array.size and dtype is not np.str_ and not np.can_cast(array.dtype, dtype, "same_kind"):
        raise RecordingError(
            f"{name} must hold {dtype.__name__}, not {array.dtype}: convert it by astype."
        )
    array = array.astype(dtype)
    if array.ndim == 1 and shape != "(n,)":  # one column, or an empty list
        array = array[:, None] if len(array) else array.reshape(0, 2)
    if array.ndim != (1 if shape == "(n,)" else 2) or (shape == "(n, 2)" and array.shape[1] != 2):
        raise RecordingError(f"{name} must have shape {shape}, not {array.shape}.")
    if finite and dtype is np.float64:
        refuse(
            name,
            array,
            ~np.isfinite(array),
            "must be finite (drop such rows and their times: gaps are allowed)",
        )
    array.flags.writeable = False
    return array


def _check(r: Recording):
    if len(r.behavior_times) == 1 or len(r.behavior_times) == len(r.spike_times) == 0:
        raise RecordingError(
            f"behavior_times needs at least two samples, not {len(r.behavior_times)}."
        )
    for name, others, required in (
        ("spike_units", "spike_times", r.spike_times),
        ("behavior", "behavior_times", r.behavior_times),
        ("behavior_columns", "columns of behavior", r.behavior.T),
    ):
        if (n := len(getattr(r, name))) != len(required):
            raise RecordingError(
                f"{name} must be as many as the {others}: {n} against {len(required)} {others}."
            )
    check_order("spike_times", r.spike_times, strict=False)
    check_order("behavior_times", r.behavior_times, strict=True)
    repeated = np.ones(r.n_units, bool)
    repeated[np.unique(r.unit_ids, return_index=True)[1]] = False
    refuse("unit_ids", r.unit_ids, repeated, "must differ")
    outside = (r.spike_units < 0) | (r.spike_units >= r.n_units)
    refuse(
        "spike_units",
        r.spike_units,
        outside,
        f"are indices in unit_ids, and must lie in 0..{r.n_units - 1}",
    )
    start, stop = r.trials.T
    refuse("trials", r.trials, stop <= start, "must stop after they start")
    refuse(
        "trials",
        r.trials,
        np.append(False, start[1:] < stop[:-1]),
        "must be in order and not overlap",
    )
    if len(r.behavior_times):
        refuse(
            "trials",
            r.trials,
            ~covered_trials(r.trials, r.behavior_times),
            "must be covered by behavior_times",
        )


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
    elif np.sum(step < 0) == 1 and np.all(times[i : i + 10] < times[i - 1]):
        remedy = "The clock restarts: save the two blocks as two recordings."
    found = f"{name}[{i}] = {times[i]:.12g} s comes after {times[i - 1]:.12g} s"
    raise RecordingError(f"{name} must be sorted: {found}. {remedy}")


def covered_trials(trials: np.ndarray, behavior_times: np.ndarray) -> np.ndarray:
    """True for each trial, (n, 2) s, with behaviour inside, within two sample intervals of its start and its stop."""
    slack = 2 * np.median(np.diff(behavior_times)) * (1 + 1e-6)
    start, stop = trials.T
    first, end = (
        np.searchsorted(behavior_times, start),
        np.searchsorted(behavior_times, stop),
    )  # (n,), (n,)
    earliest = behavior_times[np.minimum(first, len(behavior_times) - 1)]
    latest = behavior_times[np.maximum(end - 1, 0)]
    return (first < end) & (earliest <= start + slack) & (latest >= stop - slack)
