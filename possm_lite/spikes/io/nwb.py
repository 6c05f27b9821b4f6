"""NWB files: `units` with `spike_times`, and behaviour in any processing module or in `acquisition`.

Read so: MC_Maze, MC_RTT, Area2_Bump, Perich-Miller (DANDI 000127-129, 138-140, 688), Churchland-Shenoy and Even-Chen
(000070, 000121), FALCON M1, M2 and H1 (000941, 000953, 000954), and what NeuroConv writes. A series is called
"hand_vel", or in a container "Position/Hand". Samples outside of FALCON's `eval_mask` or of `obs_intervals` are unused.
"""

import math
import os
import re
import warnings
from pathlib import Path

import numpy as np

from ...errors import RecordingError
from .contents import Contents, Series, intervals, is_position

os.environ["PYNWB_NO_CACHE_DIR"] = "1"  # else pynwb loads a pickle of its types from the user's cache
# pynwb omits what it cannot open, with this warning: a recording whose trials are damaged would seem to have none.
_BROKEN = "Path to Group altered/broken at /(units|intervals|processing|general)"


def read_nwb(path: Path) -> Contents:
    """What is in an NWB file. A series is read from the file only when it is chosen."""
    import pynwb

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # mostly about versions of the format
        warnings.filterwarnings("error", _BROKEN)
        with pynwb.NWBHDF5IO(str(path), "r") as io:
            file = io.read()
            if file.units is None or "spike_times" not in file.units.colnames:
                raise RecordingError("units/spike_times is missing. See CONVERTERS.md for files of counts.")
            notes: list[str] = []
            spike_times, spike_units = _read_ragged(file.units, "spike_times")
            series = _find_series(file, path, spike_times.max(initial=0), notes)
            if mask := series.pop("eval_mask", None):
                observed = _observed_by_mask(mask)
            elif "obs_intervals" in file.units.colnames:  # when any unit was observed
                observed = np.unique(_read_ragged(file.units, "obs_intervals")[0], axis=0)
            else:
                observed = None
            trial_table = _plain_columns(file.trials) if file.trials else {}
            # session names repeat between subjects
            subject = file.subject.subject_id if file.subject and file.session_id else None
            session = file.session_id or file.identifier
            return Contents(
                spike_times,
                spike_units,
                file.units.id[:],
                list(series.values()),
                session_id=f"{subject}_{session}" if subject else str(session),
                trials=intervals(trial_table, "start_time", "stop_time"),
                unit_table=_plain_columns(file.units),
                trial_table=trial_table,
                observed=observed,
                notes=tuple(notes),
            )


def _read_ragged(units, name: str) -> tuple[np.ndarray, np.ndarray]:
    """All entries of a ragged column of a table of units, and the unit of each."""
    column = units[name]
    values = column.target.data[:]
    counts = np.diff(column.data[:].astype(np.int64), prepend=0)
    if counts.sum() != len(values):
        raise RecordingError(f"units/{name}_index must divide all {len(values)} entries among the units.")
    return values, np.repeat(np.arange(len(units)), counts)


def _plain_columns(table) -> dict[str, np.ndarray]:
    """The columns of a table that hold one number, text or truth value a row, (n,) each."""
    columns = {}
    for name in table.colnames:
        data = table[name].data
        if not hasattr(table[name], "target") and getattr(data, "shape", None) == (len(table),):
            column = np.asarray(data[:])
            if column.dtype.kind in "iufb":
                columns[name] = column
            elif column.dtype.kind == "S" or all(isinstance(value, str) for value in column):
                columns[name] = column.astype(str)
    return columns


def _observed_by_mask(mask: Series) -> np.ndarray:
    """First and last time of each run of samples that are to be scored, (m, 2)."""
    times, values = mask.read()
    edges = np.flatnonzero(np.diff(values.ravel() > 0, prepend=False, append=False))
    return np.column_stack((times[edges[::2]], times[edges[1::2] - 1]))


# Behaviour


def _find_series(file, path: Path, last_spike: float, notes: list[str]) -> dict[str, Series]:
    """Time series of one or two dimensions by name: of processing/behavior, other modules, and acquisition."""
    from pynwb import TimeSeries
    from pynwb.ecephys import ElectricalSeries
    from pynwb.image import ImageSeries

    groups = {"behavior": {}} | {name: module.data_interfaces for name, module in file.processing.items()}
    found: dict[str, Series] = {}
    for group, items in (groups | {"acquisition": file.acquisition}).items():
        series = {name: item for name, item in items.items() if isinstance(item, TimeSeries)}
        children = {f"{name}/{child.name}": child for name in items.keys() - series for child in items[name].children}
        for name, one in [*series.items(), *sorted(children.items())]:
            is_behavior = isinstance(one, TimeSeries) and not isinstance(one, ElectricalSeries | ImageSeries)
            if is_behavior and len(getattr(one.data, "shape", ())) in (1, 2):
                name = f"{group}/{name}" if name in found else name
                found[name] = _as_series(path, name, one, last_spike, notes)
    return found


def _as_series(path: Path, name: str, series, last_spike: float, notes: list[str]) -> Series:
    """A `pynwb.TimeSeries` as a Series, which opens the file again to be read."""
    import h5py

    shape = tuple(series.data.shape)
    conversion, offset, rate = series.conversion, series.offset, series.rate or 0.0
    start = series.starting_time or 0.0
    if math.isnan(conversion):  # in DANDI 000070
        notes.append(f"The conversion of {name} is NaN and was taken as 1.")
        conversion = 1.0
    if 0 < rate < 1 and abs(shape[0] * rate - last_spike) < last_spike / 2:  # in FALCON H1
        notes.append(f"The rate of {name}, {rate:g}, was taken as seconds a sample: so it ends as the spikes do.")
        rate = 1 / rate
    data, timestamps = series.data.name, getattr(series.timestamps, "name", None)
    named = re.fullmatch(r"\w+(,\w+)+", str(series.description))  # of FALCON H1
    names = tuple(named[0].split(",")) if named and named[0].count(",") + 1 == shape[-1] else ()

    def read() -> tuple[np.ndarray, np.ndarray]:
        with h5py.File(path, "r") as file:
            values = file[data][()] * conversion + offset
            times = file[timestamps][()] if timestamps else start + np.arange(len(values)) / rate
        return times, values

    position = is_position(name, default=series.neurodata_type == "SpatialSeries")
    return Series(name, read, str(series.unit), position, names, shape)
