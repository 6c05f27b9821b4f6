"""NWB files, in the layout of the Neural Latents Benchmark (MC_Maze, MC_RTT: DANDI 000128, 129, 138-140).

* `units` with `spike_times`: all units, those marked `heldout` included. `obs_intervals` are not needed.
* `processing/behavior`, itself or a container in it such as `Position`: the velocity is the first of `hand_vel`,
  `finger_vel` and `cursor_vel`, or else the derivative of the first of `hand_pos`, `finger_pos` and `cursor_pos`.
* `intervals/trials` with `start_time` and `stop_time`, if there are trials.
"""

import math
import os
import warnings
from pathlib import Path

import numpy as np

from ...errors import RecordingError, wrap_errors
from ..arrays import MAX_BYTES
from ..recording import Recording, check_order, check_trial_order, covered_trials, format_seconds

SERIES = ("hand_vel", "finger_vel", "cursor_vel", "hand_pos", "finger_pos", "cursor_pos")
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
    pynwb = import_pynwb()
    import h5py

    with warnings.catch_warnings(), wrap_errors("is damaged or not an NWB file"):
        warnings.simplefilter("ignore")  # mostly about versions of the format; the fields we need are checked
        warnings.filterwarnings("error", _BROKEN)
        with h5py.File(path, "r") as hdf5, pynwb.NWBHDF5IO(file=hdf5, mode="r") as io:
            file = io.read()
            intervals = hdf5.get("intervals", {})
            if file.trials is None and (isinstance(intervals, h5py.Dataset) or "trials" in intervals):
                # pynwb ignores, without a warning, what is not a table
                raise RecordingError("intervals/trials exists, but is not a table of trials.")
            units, (samples, notes) = _read_units(file), _read_behavior(file, behavior)
            trials, trial_notes = _read_trials(file, samples["behavior_times"])
            # session names repeat between subjects
            subject = file.subject.subject_id if file.subject and file.session_id else None
            session = file.session_id or file.identifier
            session_id = f"{subject}_{session}" if subject else str(session)
            return Recording(**units, **samples, trials=trials, session_id=session_id, notes=notes + trial_notes)


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
        del os.environ[_NO_CACHE]
        if before is not None:
            os.environ[_NO_CACHE] = before
    return pynwb


def _read_dataset(data, field: str, finite: bool = False, kinds: str = "iuf") -> np.ndarray:
    """An HDF5 data set as float64 or, where `kinds` has no "f", as int64. Its declared size is checked first."""
    with wrap_errors(f"{field} cannot be read"):
        shape, dtype = data.shape, np.dtype(data.dtype)
        items = max(math.prod(shape), math.prod(getattr(data, "chunks", None) or ()))  # chunks are unpacked whole
        if dtype.kind not in kinds:
            raise RecordingError(f"{field} must hold {'numbers' if 'f' in kinds else 'whole numbers'}, not {dtype}.")
        if items * dtype.itemsize > MAX_BYTES:
            raise RecordingError(
                f"{field} declares shape {shape} of {dtype}, or chunks, of more than {MAX_BYTES} bytes."
            )
        array = np.asarray(data[()]).astype(np.float64 if "f" in kinds else np.int64, copy=False)
    for index in np.flatnonzero(~np.isfinite(array))[:1] if finite else ():
        raise RecordingError(f"{field} must be finite: {field}[{index}] = {array.ravel()[index]}.")
    return array


def _read_units(file) -> dict[str, np.ndarray]:
    """`spike_times`, `spike_units` and `unit_ids` of a Recording."""
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
    spike_units = np.repeat(np.arange(len(counts)), counts)[order]
    return {"spike_times": times[order], "spike_units": spike_units, "unit_ids": unit_ids}


def _read_behavior(file, behavior: str | None) -> tuple[dict, list[str]]:
    """`behavior_times`, `behavior` and `behavior_unit` of a Recording, and notes. Rows with NaN are left out."""
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
    return {"behavior_times": times[valid], "behavior": values[valid], "behavior_unit": unit}, notes


def _behavior_series(file) -> dict:
    """The time series in processing/behavior by name, followed by those in containers as "container/series"."""
    from pynwb import TimeSeries

    if "behavior" not in file.processing:
        raise RecordingError(
            f"processing/behavior is missing (processing has {', '.join(sorted(file.processing)) or 'nothing'}). "
            "Test files of the Neural Latents Benchmark come without behaviour: use the training file."
        )
    items = file.processing["behavior"].data_interfaces
    series = {name: item for name, item in items.items() if isinstance(item, TimeSeries)}
    children = {f"{name}/{child.name}": child for name in items.keys() - series for child in items[name].children}
    return series | {name: children[name] for name in sorted(children) if isinstance(children[name], TimeSeries)}


def _choose(series: dict, behavior: str | None) -> str:
    """The key of the series called `behavior`, itself or its container, or of the default of those with two columns."""
    available = ", ".join(sorted(series)) or "no series"
    if behavior is None:
        planar = [key for key in series if _has_two_columns(series[key])]
        found = [key for name in SERIES for key in planar if name in key.split("/")]
        if not found:
            raise RecordingError(
                f"processing/behavior has none of {', '.join(SERIES)} with two columns; it has {available}: "
                "name one with behavior=."
            )
        return found[0]
    found = [behavior] if behavior in series else [key for key in series if behavior in key.split("/")]
    if len(found) != 1:
        problem = f"matches {len(found)} series of" if found else "is not in"
        raise RecordingError(f"behavior={behavior!r} {problem} processing/behavior, which has {available}.")
    return found[0]


def _has_two_columns(series) -> bool:
    shape = getattr(series.data, "shape", None) or ()
    return len(shape) == 2 and shape[1] >= 2


def _is_position(name: str, series) -> bool:
    for part in reversed(name.lower().split("/")):  # the series, then its container
        if part.endswith(("_pos", "position")):
            return True
        if part.endswith(("_vel", "velocity")):
            return False
    return series.neurodata_type == "SpatialSeries"


def _samples(series, field: str) -> tuple[np.ndarray, np.ndarray]:
    """Times (T,) in seconds and values (T, 2) in the unit of the series."""

    def number(name: str) -> float:
        with wrap_errors(f"{field}/{name} must be a number"):
            value = float(getattr(series, name))
        if not np.isfinite(value) or (name == "rate" and value <= 0):
            raise RecordingError(f"{field}/{name} must be finite, and a rate positive, not {value}.")
        return value

    if not _has_two_columns(series):
        raise RecordingError(f"{field} must have shape (T, 2), or more columns, not {np.shape(series.data)}.")
    values = _read_dataset(series.data, field)[:, :2] * number("conversion") + number("offset")
    with wrap_errors(f"{field}/timestamps cannot be read"):
        timestamps = series.timestamps
    if timestamps is not None:
        times = _read_dataset(timestamps, f"{field}/timestamps", finite=True)
    else:
        times = number("starting_time") + np.arange(len(values)) / number("rate")
    if times.shape != values.shape[:1]:
        raise RecordingError(f"{field}/timestamps has shape {times.shape} for {len(values)} rows of data.")
    check_order(f"{field}/timestamps", times, strict=True)
    return times, values


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


def _read_trials(file, behavior_times: np.ndarray) -> tuple[np.ndarray, list[str]]:
    """Start and stop in seconds of the trials that behaviour covers, (n, 2), and notes."""
    start = stop = np.empty(0)
    if file.trials is not None:
        with wrap_errors("intervals/trials cannot be read"):
            columns = {name: file.trials[name].data for name in ("start_time", "stop_time")}
        start, stop = (_read_dataset(data, f"intervals/trials/{name}", finite=True) for name, data in columns.items())
    if start.ndim != 1 or start.shape != stop.shape:
        raise RecordingError(f"intervals/trials has start_time of shape {start.shape}, stop_time of {stop.shape}.")
    trials, notes = np.stack((start, stop), axis=1), []
    if len(trials) == 0:
        return trials, ["There are no trials in intervals/trials."]
    overlap = stop[:-1] - start[1:]
    rounded = np.flatnonzero((overlap > 0) & (overlap < _ROUNDING))
    trials[rounded, 1] = start[rounded + 1]
    if len(rounded):
        notes.append(
            f"{len(rounded)} trials that overlapped the next one by less than a microsecond end where it starts."
        )
    check_trial_order(trials)
    covered = covered_trials(trials, behavior_times)
    if not covered.any():
        first, last, begin, end = (format_seconds(t, 3) for t in (*behavior_times[[0, -1]], start[0], stop[-1]))
        raise RecordingError(
            f"intervals/trials: behaviour, {first} to {last}, covers none of the {len(start)} trials, {begin} to {end}."
        )
    if not covered.all():
        notes.append(f"{(~covered).sum()} of {len(trials)} trials that behaviour does not cover were left out.")
    return trials[covered], notes
