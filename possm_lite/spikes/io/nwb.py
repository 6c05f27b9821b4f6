"""NWB files: `units` with `spike_times`, and behaviour in any processing module or in `acquisition`.

Read so: MC_Maze, MC_RTT, Area2_Bump, Perich-Miller (DANDI 000127-129, 138-140, 688), Churchland-Shenoy and Even-Chen
(000070, 000121), FALCON M1, M2 and H1 (000941, 000953, 000954), and what NeuroConv writes.

* Behaviour: time series by name, "hand_vel", or "container/series", "Position/Hand".
* Trials: `intervals/trials` with `start_time` and `stop_time`. All plain columns of `units` and trials are for filters.
* Observed: FALCON's `eval_mask`, or else `obs_intervals`, when half of the units or more were recorded.
"""

import math
import os
import re
import warnings
from pathlib import Path

import numpy as np

from ...errors import RecordingError, wrap_errors
from ..arrays import MAX_BYTES
from .contents import Contents, Series
from .hdf5 import read_dataset

_DEFAULTS = ("preprocessed_emg", "OpenLoopKinematicsVelocity")  # what FALCON M1 and H1 decode
_NOT_BEHAVIOR = {"ElectricalSeries", "ImageSeries"}
_MAX_TEXT = 80  # characters of a text in a table that are read
_NO_CACHE = "PYNWB_NO_CACHE_DIR"
# pynwb omits what it cannot open, with this warning: a recording whose trials are damaged would seem to have none.
_READ = ("units", "intervals/trials", "processing/behavior", "general/session_id", "general/subject")
_BROKEN = f"Path to Group altered/broken at /({'|'.join(_READ)}|(intervals|processing|general)$)"


def read_nwb(path: Path) -> Contents:
    """What is in an NWB file. A series is read from the file only when it is chosen.

    A series is a position if its name ends in "pos" or "position" or, with a name that does not end in "vel" or
    "velocity", it is an NWB SpatialSeries. A conversion that is NaN, as some converters write, is taken as 1.

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
            notes: list[str] = []
            units = _read_units(file)
            series = _find_series(file, path, units["spike_times"].max(initial=0), notes)
            mask = series.pop("eval_mask", None)
            observed = _observed_by_units(file.units, notes) if mask is None else _observed_by_mask(mask)
            trials, trial_table = _read_trials(file)
            # session names repeat between subjects
            subject = file.subject.subject_id if file.subject and file.session_id else None
            session = file.session_id or file.identifier
            return Contents(
                **units,
                series=list(series.values()),
                session_id=f"{subject}_{session}" if subject else str(session),
                trials=trials,
                trial_table=trial_table,
                observed=observed,
                default=tuple(d for d in _DEFAULTS if any(d in name.split("/") for name in series))[:1],
                notes=tuple(notes),
            )


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


def _read_ragged(column, field: str, n: int) -> tuple[np.ndarray, np.ndarray]:
    """All entries of a ragged column and the unit of each."""
    if not hasattr(column, "target"):
        raise RecordingError(f"{field}_index is missing: it assigns entries to units.")
    values = read_dataset(column.target.data, field)
    ends = read_dataset(column.data, f"{field}_index", kinds="iu")
    counts = np.diff(ends, prepend=0)
    if ends.shape != (n,) or counts.min(initial=0) < 0 or counts.sum() != len(values):
        raise RecordingError(
            f"{field}_index must divide {len(values)} entries among {n} units: it has {ends.size} entries, "
            f"the last is {ends[-1] if ends.size else 'none'}."
        )
    return values, np.repeat(np.arange(n), counts)


def _read_units(file) -> dict:
    """`spike_times`, `spike_units`, `unit_ids` and `unit_table` of Contents."""
    if file.units is None or "spike_times" not in file.units.colnames:
        raise RecordingError("units/spike_times is missing.")
    unit_ids = read_dataset(file.units.id.data, "units/id", kinds="iu")
    times, units = _read_ragged(file.units["spike_times"], "units/spike_times", unit_ids.size)
    table = _plain_columns(file.units, len(unit_ids))
    return {"spike_times": times, "spike_units": units, "unit_ids": unit_ids, "unit_table": table}


def _plain_columns(table, n: int) -> dict[str, np.ndarray]:
    """The columns of a table that hold one number, text or truth value a row, (n,) each."""
    import h5py

    columns = {}
    for name in table.colnames:
        column = table[name]
        data = column.data
        if hasattr(column, "target") or getattr(data, "shape", None) != (n,) or n * 8 * _MAX_TEXT > MAX_BYTES:
            continue
        with wrap_errors(f"{table.name}/{name} cannot be read"):
            if data.dtype.kind in "iufb":
                columns[name] = np.asarray(data[()])
            elif h5py.check_string_dtype(data.dtype) and data.dtype.itemsize <= 8 * _MAX_TEXT:
                texts = [text.decode(errors="replace") if isinstance(text, bytes) else str(text) for text in data[()]]
                columns[name] = np.array([text[:_MAX_TEXT] for text in texts], dtype=str)
    return columns


def _read_trials(file) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Start and stop of the trials in seconds, (n, 2), and their other columns."""
    if file.trials is None:
        return np.empty((0, 2)), {}
    with wrap_errors("intervals/trials cannot be read"):
        columns = {name: file.trials[name].data for name in ("start_time", "stop_time")}
    start, stop = (read_dataset(data, f"intervals/trials/{name}") for name, data in columns.items())
    if start.ndim != 1 or start.shape != stop.shape:
        raise RecordingError(f"intervals/trials has start_time of shape {start.shape}, stop_time of {stop.shape}.")
    return np.stack((start, stop), axis=1), _plain_columns(file.trials, len(start))


def _observed_by_units(units, notes: list[str]) -> np.ndarray | None:
    """Start and stop of the times at which half of the units or more were observed, (m, 2)."""
    if "obs_intervals" not in units.colnames:
        return None
    intervals, unit = _read_ragged(units["obs_intervals"], "units/obs_intervals", len(units))
    if intervals.ndim != 2 or intervals.shape[1] != 2 or not np.isfinite(intervals).all() or len(intervals) == 0:
        return None
    times, index = np.unique(intervals.T, return_inverse=True)
    count = np.cumsum(np.bincount(index.ravel(), np.repeat([1, -1], len(intervals))))  # units observed from each time
    n = len(np.unique(unit))
    observed = 2 * count >= n
    if (count[observed] < n).any():
        notes.append("Not all units were observed throughout: times were used at which half of them were or more.")
    return times[np.diff(observed, prepend=False)].reshape(-1, 2)


def _observed_by_mask(mask: Series) -> np.ndarray:
    """First and last time of each run of samples that are to be scored, (m, 2)."""
    times, values = mask.read()
    edges = np.flatnonzero(np.diff(values.ravel() > 0, prepend=False, append=False))
    return np.column_stack((times[edges[::2]], times[edges[1::2] - 1]))


# Behaviour


def _find_series(file, path: Path, last_spike: float, notes: list[str]) -> dict[str, Series]:
    """Time series of one or two dimensions by name: of processing/behavior, other modules, and acquisition."""
    from pynwb import TimeSeries

    groups = {name: module.data_interfaces for name, module in file.processing.items()}
    found: dict[str, Series] = {}
    for group in [*sorted(groups, key=lambda name: (name != "behavior", name)), None]:
        items = file.acquisition if group is None else groups[group]
        series = {name: item for name, item in items.items() if isinstance(item, TimeSeries)}
        children = {f"{name}/{child.name}": child for name in items.keys() - series for child in items[name].children}
        for name, one in [*series.items(), *sorted(children.items())]:
            kinds = {kind.__name__ for kind in type(one).__mro__}
            if "TimeSeries" in kinds and not kinds & _NOT_BEHAVIOR and len(getattr(one.data, "shape", ())) in (1, 2):
                name = f"{group or 'acquisition'}/{name}" if name in found else name
                found[name] = _as_series(path, name, one, last_spike, notes)
    return found


def _as_series(path: Path, name: str, series, last_spike: float, notes: list[str]) -> Series:
    """A `pynwb.TimeSeries` as a Series, which opens the file again to be read."""
    import h5py

    shape = tuple(series.data.shape)
    numbers = {field: _number(series, field) for field in ("conversion", "offset", "starting_time", "rate")}
    if math.isnan(numbers["conversion"]):
        notes.append(f"The conversion of {name} is NaN and was taken as 1.")
        numbers["conversion"] = 1.0
    rate = numbers["rate"]
    if 0 < rate < 1 and abs(shape[0] * rate - last_spike) < last_spike / 2:
        notes.append(f"The rate of {name}, {rate:g}, was taken as seconds a sample: so it ends as the spikes do.")
        numbers["rate"] = 1 / rate
    data, timestamps = (getattr(array, "name", None) for array in (series.data, series.timestamps))
    names = tuple(str(series.description).split(","))
    is_named = len(names) == shape[-1] > 1 and all(re.fullmatch(r"\w{1,16}", name) for name in names)

    def read() -> tuple[np.ndarray, np.ndarray]:
        with wrap_errors(f"{name} cannot be read"), h5py.File(path, "r") as file:
            values = read_dataset(file[data], name, kinds="biuf")
            for field in ("conversion", "offset", *(("starting_time", "rate") if timestamps is None else ())):
                if not math.isfinite(numbers[field]) or (field == "rate" and numbers[field] <= 0):
                    raise RecordingError(f"{name}/{field} must be a finite number, a rate positive: {numbers[field]}.")
            if timestamps is None:
                times = numbers["starting_time"] + np.arange(len(values)) / numbers["rate"]
            else:
                times = read_dataset(file[timestamps], f"{name}/timestamps")
        if times.shape != values.shape[:1]:
            raise RecordingError(f"{name}/timestamps has shape {times.shape} for {len(values)} rows of data.")
        return times, values * numbers["conversion"] + numbers["offset"]

    unit = str(series.unit) or "a.u."
    return Series(name, read, unit, _is_position(name, series), names if is_named else (), shape)


def _number(series, field: str) -> float:
    try:
        return float(getattr(series, field))
    except (TypeError, ValueError):
        return math.inf  # refused if the series is chosen


def _is_position(name: str, series) -> bool:
    for part in reversed(name.lower().split("/")):  # the series, then its container
        part = re.sub("_[xyz]$", "", part)
        if part.endswith(("pos", "position")):
            return True
        if part.endswith(("vel", "velocity")):
            return False
    return series.neurodata_type == "SpatialSeries"
