"""NWB files, in the layout of the Neural Latents Benchmark (MC_Maze, MC_RTT: DANDI 000128, 129, 138-140).

* `units` with `spike_times`: all units, those marked `heldout` included. `obs_intervals` are not needed.
* `processing/behavior`, itself or a container in it such as `Position`: the velocity is the first of `hand_vel`,
  `finger_vel` and `cursor_vel`, or else the derivative of the first of `hand_pos`, `finger_pos` and `cursor_pos`.
* `intervals/trials` with `start_time` and `stop_time`, if there are trials.
"""

from __future__ import annotations

import contextlib
import math
import os
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from ...errors import FileFormatError, RecordingError, wrap_errors
from ..arrays import MAX_BYTES
from ..recording import Recording, check_order, check_trial_order, covered_trials, format_seconds

VELOCITIES = ("hand_vel", "finger_vel", "cursor_vel")
POSITIONS = ("hand_pos", "finger_pos", "cursor_pos")
_NO_CACHE = "PYNWB_NO_CACHE_DIR"
# pynwb omits what it cannot open, with this warning: a recording whose trials are damaged would seem to have none.
_READ = ("units", "intervals/trials", "processing/behavior", "general/session_id", "general/subject")
_BROKEN = f"Path to Group altered/broken at /({'|'.join(_READ)}|(intervals|processing|general)$)"
_ROUNDING = 1e-6  # s: trials that overlap by less are adjacent, with rounded times


def read_nwb(path: Path, behavior: str | None = None) -> Recording:
    """The recording in an NWB file of the layout above.

    Args:
        path: the file.
        behavior: a series in processing/behavior, as "hand_vel" or "Position/hand_pos", instead of the default. It is
            taken as a velocity, unless its name ends in "_pos" or "position" or, with a name that does not end in
            "_vel" or "velocity", it is an NWB SpatialSeries: those are positions, and differentiated.

    Raises:
        FileFormatError: without the name of the file; `load_recording` adds it.
    """
    with _opened(path) as file:
        spike_times, spike_units, unit_ids = _read_units(file)
        times, velocity, unit, notes = _read_behavior(file, behavior)
        trials, trial_notes = _read_trials(file, times)
        return Recording(
            spike_times=spike_times,
            spike_units=spike_units,
            unit_ids=unit_ids,
            behavior_times=times,
            velocity=velocity,
            velocity_unit=unit,
            trials=trials,
            session_id=_session_id(file),
            notes=(*notes, *trial_notes),
        )


@contextlib.contextmanager
def _opened(path: Path) -> Iterator:
    """The NWB file, closed at the end."""
    pynwb = import_pynwb()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # mostly about versions of the format; the fields we need are checked
        warnings.filterwarnings("error", _BROKEN)
        with wrap_errors("is damaged or not an NWB file"):
            io = pynwb.NWBHDF5IO(str(path), "r")
        try:
            with wrap_errors("is damaged or not an NWB file"):
                file = io.read()
            yield file
        finally:
            with wrap_errors("cannot be closed"):
                io.close()


def import_pynwb():
    """The module pynwb, imported without the pickle of its types that it would write to the user's cache and load.

    Raises:
        RecordingError: it is not installed. Without the name of the file.
    """
    before = os.environ.get(_NO_CACHE)
    os.environ[_NO_CACHE] = "1"
    try:
        import pynwb
    except ImportError as exc:
        raise RecordingError("NWB files need pynwb: pip install possm-lite[recordings]") from exc
    finally:
        if before is None:
            del os.environ[_NO_CACHE]
        else:
            os.environ[_NO_CACHE] = before
    return pynwb


def _session_id(file) -> str:
    """Subject and session, as session names repeat between subjects; without a session the file's identifier."""
    if not file.session_id:
        return str(file.identifier)
    subject = file.subject.subject_id if file.subject else None
    return f"{subject}_{file.session_id}" if subject else str(file.session_id)


def _read_dataset(data, field: str, finite: bool = False, kinds: str = "iuf") -> np.ndarray:
    """An HDF5 data set as float64 or, where `kinds` has no "f", as int64. Its declared size is checked first."""
    with wrap_errors(f"{field} cannot be read"):
        shape, dtype = data.shape, np.dtype(data.dtype)
        items = max(math.prod(shape), math.prod(getattr(data, "chunks", None) or ()))  # chunks are unpacked whole
        if dtype.kind not in kinds:
            raise FileFormatError(f"{field} must hold {'numbers' if 'f' in kinds else 'whole numbers'}, not {dtype}.")
        if items * dtype.itemsize > MAX_BYTES:
            raise FileFormatError(
                f"{field} declares shape {shape} of {dtype}, or chunks, of more than {MAX_BYTES} bytes."
            )
        array = np.asarray(data[()]).astype(np.float64 if "f" in kinds else np.int64, copy=False)
    if finite and not np.isfinite(array).all():
        index = np.flatnonzero(~np.isfinite(array.ravel()))[0]
        raise FileFormatError(f"{field} must be finite: {field}[{index}] = {array.ravel()[index]}.")
    return array


# Spikes


def _read_units(file) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Spike times in seconds, sorted, and their units, both (N,); the names of the units (U,)."""
    if file.units is None or "spike_times" not in file.units.colnames:
        raise RecordingError("units/spike_times is missing.")
    column = file.units["spike_times"]
    if not hasattr(column, "target"):
        raise RecordingError("units/spike_times_index is missing: it assigns spikes to units.")
    times = _read_dataset(column.target.data, "units/spike_times", finite=True)
    ends = _read_dataset(column.data, "units/spike_times_index", kinds="iu")
    unit_ids = _read_dataset(file.units.id.data, "units/id", kinds="iu")
    counts = np.diff(ends, prepend=0)
    if times.ndim != 1 or ends.shape != unit_ids.shape or counts.min(initial=0) < 0 or counts.sum() != times.size:
        raise RecordingError(
            f"units/spike_times_index must divide {times.size} spike times among {unit_ids.size} units: "
            f"it has {ends.size} entries, the last is {ends[-1] if ends.size else 'none'}."
        )
    order = np.argsort(times, kind="stable")
    return times[order], np.repeat(np.arange(len(counts)), counts)[order], unit_ids.astype(str)


# Behaviour


def _read_behavior(file, behavior: str | None) -> tuple[np.ndarray, np.ndarray, str, list[str]]:
    """Times (T,) in seconds, velocity (T, 2), its unit, and notes. Rows with NaN are left out."""
    series = _behavior_series(file)
    name = _choose(series, behavior)
    field = f"processing/behavior/{name}"
    times, values = _samples(series[name], field)
    unit = str(series[name].unit) or "a.u."
    others = sorted(set(series) - {name})
    also = f"; there are also {', '.join(others)}." if others else "."
    if _is_position(name, series[name]):
        values, unit = _derivative(times, values), f"{unit}/s"
        notes = [f"Velocity is the derivative of the position {field}{also}"]
    else:
        notes = [f"Velocity is {field}{also}"]
    valid = ~np.isnan(values).any(axis=1)
    if valid.sum() < 2:
        raise RecordingError(f"{field} must have at least two rows without NaN, not {valid.sum()}.")
    if not valid.all():
        notes.append(f"{(~valid).sum()} of {len(valid)} rows of {name} without a velocity were left out.")
    return times[valid], values[valid], unit, notes


def _behavior_series(file) -> dict:
    """The time series in processing/behavior by name, "container/series" for those in a container."""
    from pynwb import TimeSeries

    if "behavior" not in file.processing:
        raise RecordingError(
            f"processing/behavior is missing (processing has {', '.join(sorted(file.processing)) or 'nothing'}). "
            "Test files of the Neural Latents Benchmark come without behaviour: use the training file."
        )
    series = {}
    for name, interface in file.processing["behavior"].data_interfaces.items():
        if isinstance(interface, TimeSeries):
            series[name] = interface
        else:
            children = [child for child in interface.children if isinstance(child, TimeSeries)]
            series |= {f"{name}/{child.name}": child for child in children}
    return series


def _choose(series: dict, behavior: str | None) -> str:
    """The key of the series called `behavior`, or of the default among those with two columns."""
    available = ", ".join(sorted(series)) or "no series"
    if behavior is not None:
        matches = [behavior] if behavior in series else _matches(series, behavior)
        if len(matches) != 1:
            problem = f"matches {len(matches)} series of" if matches else "is not in"
            raise RecordingError(f"behavior={behavior!r} {problem} processing/behavior, which has {available}.")
        return matches[0]
    planar = [name for name in series if _has_two_columns(series[name])]
    for default in (*VELOCITIES, *POSITIONS):
        if matches := _matches(planar, default):
            return matches[0]
    raise RecordingError(
        f"processing/behavior has none of {', '.join((*VELOCITIES, *POSITIONS))} with two columns; "
        f"it has {available}: name one with behavior=."
    )


def _has_two_columns(series) -> bool:
    shape = getattr(series.data, "shape", None) or ()
    return len(shape) == 2 and shape[1] >= 2


def _matches(names, name: str) -> list[str]:
    """The series with this name, or in a container with this name; those outside of containers come first."""
    return sorted((key for key in names if name in key.split("/")), key=lambda key: (key.count("/"), key))


def _is_position(name: str, series) -> bool:
    for part in reversed(name.lower().split("/")):  # the series, then its container
        if part.endswith(("_pos", "position")):
            return True
        if part.endswith(("_vel", "velocity")):
            return False
    return series.neurodata_type == "SpatialSeries"


def _samples(series, field: str) -> tuple[np.ndarray, np.ndarray]:
    """Times (T,) in seconds and values (T, 2) in the unit of the series."""
    if not _has_two_columns(series):
        raise RecordingError(f"{field} must have shape (T, 2), or more columns, not {np.shape(series.data)}.")
    values = _read_dataset(series.data, field)[:, :2]
    values = values * _number(series, "conversion", field) + _number(series, "offset", field)
    with wrap_errors(f"{field}/timestamps cannot be read"):
        timestamps = series.timestamps
    if timestamps is not None:
        times = _read_dataset(timestamps, f"{field}/timestamps", finite=True)
    else:
        times = _number(series, "starting_time", field) + np.arange(len(values)) / _number(series, "rate", field)
    if times.shape != values.shape[:1]:
        raise RecordingError(f"{field}/timestamps has shape {times.shape} for {len(values)} rows of data.")
    check_order(f"{field}/timestamps", times, strict=True)
    return times, values


def _number(series, name: str, field: str) -> float:
    with wrap_errors(f"{field}/{name} must be a number"):
        number = float(getattr(series, name))
    if not np.isfinite(number) or (name == "rate" and number <= 0):
        raise RecordingError(f"{field}/{name} must be finite, and a rate positive, not {number}.")
    return number


def _derivative(times: np.ndarray, position: np.ndarray) -> np.ndarray:
    """Velocity (T, 2) by central differences, NaN where a position is missing, not taken across a gap.

    A gap is a row with NaN, or more than twice the median step between two times.
    """
    velocity = np.full(position.shape, np.nan)
    valid = np.flatnonzero(~np.isnan(position).any(axis=1))
    gap = (np.diff(valid) > 1) | (np.diff(times[valid]) > 2 * np.median(np.diff(times)))
    for segment in np.split(valid, np.flatnonzero(gap) + 1):
        if len(segment) > 1:
            velocity[segment] = np.gradient(position[segment], times[segment], axis=0)
    return velocity


# Trials


def _read_trials(file, behavior_times: np.ndarray) -> tuple[np.ndarray, list[str]]:
    """Start and stop in seconds of the trials that behaviour covers, (n, 2), and notes."""
    trials = _trial_table(file)
    if len(trials) == 0:
        return trials, ["There are no trials in intervals/trials."]
    notes = _clip_rounded_overlaps(trials)
    check_trial_order(trials)
    covered = covered_trials(trials, behavior_times)
    if not covered.any():
        first, last, start, stop = (
            format_seconds(time, 3) for time in (*behavior_times[[0, -1]], trials[0, 0], trials[-1, 1])
        )
        raise RecordingError(
            f"intervals/trials: behaviour, {first} to {last}, covers none of the {len(trials)} trials, "
            f"{start} to {stop}."
        )
    if not covered.all():
        notes.append(f"{(~covered).sum()} of {len(trials)} trials that behaviour does not cover were left out.")
    return trials[covered], notes


def _trial_table(file) -> np.ndarray:
    """All trials of the file, (n, 2)."""
    if file.trials is None:
        _check_trials_absent(file.container_source)
        return np.empty((0, 2))
    with wrap_errors("intervals/trials cannot be read"):
        columns = [file.trials[name].data for name in ("start_time", "stop_time")]
    start = _read_dataset(columns[0], "intervals/trials/start_time", finite=True)
    stop = _read_dataset(columns[1], "intervals/trials/stop_time", finite=True)
    if start.ndim != 1 or start.shape != stop.shape:
        raise RecordingError(f"intervals/trials has start_time of shape {start.shape}, stop_time of {stop.shape}.")
    return np.stack((start, stop), axis=1)


def _check_trials_absent(path: str):
    """Raise RecordingError if `intervals/trials` exists: pynwb ignores it, without a warning, if it is not a table."""
    import h5py

    with wrap_errors("intervals cannot be read"), h5py.File(path, "r") as file:
        intervals = file.get("intervals", {})
        if not isinstance(intervals, dict | h5py.Group) or "trials" in intervals:
            raise RecordingError("intervals/trials exists, but is not a table of trials.")


def _clip_rounded_overlaps(trials: np.ndarray) -> list[str]:
    """Clip, in place, trials that overlap the next one by a rounding error; a note if there are any."""
    overlap = trials[:-1, 1] - trials[1:, 0]
    rounded = np.flatnonzero((overlap > 0) & (overlap < _ROUNDING))
    trials[rounded, 1] = trials[rounded + 1, 0]
    note = f"{len(rounded)} trials that overlapped the next one by less than a microsecond end where it starts."
    return [note] if len(rounded) else []
