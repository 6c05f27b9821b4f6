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

from ...errors import RecordingError, wrap_errors
from .contents import Contents, Series, intervals, is_position
from .hdf5 import read_dataset

_NOT_BEHAVIOR = {"ElectricalSeries", "ImageSeries"}
_MAX_TEXT = 80  # characters of a text in a table that are read
_MAX_ROWS = 1_000_000  # of a table whose columns are read
# pynwb omits what it cannot open, with this warning: a recording whose trials are damaged would seem to have none.
_READ = ("units", "intervals/trials", "processing/behavior", "general/session_id", "general/subject")
_BROKEN = f"Path to Group altered/broken at /({'|'.join(_READ)}|(intervals|processing|general)$)"


def read_nwb(path: Path) -> Contents:
    """What is in an NWB file. A series is read from the file only when it is chosen.

    A conversion that is NaN, as some converters write, is taken as 1.

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
            tables = hdf5.get("intervals", {})  # pynwb ignores, without a warning, what is not a table
            if file.trials is None and (isinstance(tables, h5py.Dataset) or "trials" in tables):
                raise RecordingError("intervals/trials exists, but is not a table of trials.")
            notes: list[str] = []
            units = _read_units(file)
            series = _find_series(file, path, units["spike_times"].max(initial=0), notes)
            mask = series.pop("eval_mask", None)
            with wrap_errors("intervals/trials cannot be read"):
                trial_table = _plain_columns(file.trials) if file.trials else {}
                trials = intervals(trial_table, "start_time", "stop_time")
            # session names repeat between subjects
            subject = file.subject.subject_id if file.subject and file.session_id else None
            session = file.session_id or file.identifier
            return Contents(
                **units,
                series=list(series.values()),
                session_id=f"{subject}_{session}" if subject else str(session),
                trials=trials,
                trial_table=trial_table,
                observed=_observed_by_units(file.units, notes) if mask is None else _observed_by_mask(mask),
                notes=tuple(notes),
            )


def import_pynwb():
    """The module pynwb, imported without the pickle of its types that it would write to the user's cache and load.

    Raises:
        RecordingError: it is not installed. Without the name of the file.
    """
    os.environ["PYNWB_NO_CACHE_DIR"] = "1"
    try:
        import pynwb
    except ImportError as exc:
        raise RecordingError("NWB files need pynwb: pip install possm-lite[recordings]") from exc
    return pynwb


def _read_ragged(units, name: str, n: int) -> tuple[np.ndarray, np.ndarray]:
    """All entries of a ragged column of the n units, and the unit of each."""
    column, field = units[name], f"units/{name}"
    if not hasattr(column, "target"):
        raise RecordingError(f"{field}_index is missing: it assigns entries to units.")
    values = read_dataset(column.target.data, field)
    ends = read_dataset(column.data, f"{field}_index", kinds="iu")
    counts = np.diff(ends, prepend=0)
    if ends.shape != (n,) or counts.min(initial=0) < 0 or counts.sum() != len(values):
        raise RecordingError(
            f"{field}_index must divide {len(values)} entries among {n} units, not end at {ends[-1:]} of {ends.size}."
        )
    return values, np.repeat(np.arange(n), counts)


def _read_units(file) -> dict:
    """`spike_times`, `spike_units`, `unit_ids` and `unit_table` of Contents."""
    if file.units is None or "spike_times" not in file.units.colnames:
        raise RecordingError("units/spike_times is missing. See CONVERTERS.md for files of counts.")
    unit_ids = read_dataset(file.units.id.data, "units/id", kinds="iu")
    times, units = _read_ragged(file.units, "spike_times", unit_ids.size)
    return {"spike_times": times, "spike_units": units, "unit_ids": unit_ids, "unit_table": _plain_columns(file.units)}


def _plain_columns(table) -> dict[str, np.ndarray]:
    """The columns of a table that hold one number, text or truth value a row, (n,) each."""
    import h5py

    columns = {}
    for name in table.colnames:
        data = table[name].data
        is_plain = getattr(data, "shape", None) == table.id.data.shape and len(data) <= _MAX_ROWS
        if hasattr(table[name], "target") or not is_plain:
            continue
        is_text = h5py.check_string_dtype(data.dtype) and data.dtype.itemsize <= 8 * _MAX_TEXT
        if is_text or data.dtype.kind in "iufb":
            column = read_dataset(data, f"{table.name}/{name}", "iufbOS")
            texts = [text.decode(errors="replace") if isinstance(text, bytes) else str(text) for text in column]
            columns[name] = np.array([text[:_MAX_TEXT] for text in texts], dtype=str) if is_text else column
    return columns


def _observed_by_units(units, notes: list[str]) -> np.ndarray | None:
    """Start and stop of the times at which any unit was observed, (m, 2)."""
    if "obs_intervals" not in units.colnames:
        return None
    observed, _ = _read_ragged(units, "obs_intervals", len(units))
    distinct = np.unique(observed, axis=0)
    if len(distinct) * len(units) != len(observed):
        notes.append("Units were not all observed at the same times: the times at which any was observed were used.")
    return distinct


def _observed_by_mask(mask: Series) -> np.ndarray:
    """First and last time of each run of samples that are to be scored, (m, 2)."""
    times, values = mask.read()
    edges = np.flatnonzero(np.diff(values.ravel() > 0, prepend=False, append=False))
    return np.column_stack((times[edges[::2]], times[edges[1::2] - 1]))


# Behaviour


def _find_series(file, path: Path, last_spike: float, notes: list[str]) -> dict[str, Series]:
    """Time series of one or two dimensions by name: of processing/behavior, other modules, and acquisition."""
    from pynwb import TimeSeries

    groups = {"behavior": {}} | {name: module.data_interfaces for name, module in file.processing.items()}
    found: dict[str, Series] = {}
    for group, items in (groups | {"acquisition": file.acquisition}).items():
        series = {name: item for name, item in items.items() if isinstance(item, TimeSeries)}
        children = {f"{name}/{child.name}": child for name in items.keys() - series for child in items[name].children}
        for name, one in [*series.items(), *sorted(children.items())]:
            kinds = {kind.__name__ for kind in type(one).__mro__}
            if "TimeSeries" in kinds and not kinds & _NOT_BEHAVIOR and len(getattr(one.data, "shape", ())) in (1, 2):
                name = f"{group}/{name}" if name in found else name
                found[name] = _as_series(path, name, one, last_spike, notes)
    return found


def _as_series(path: Path, name: str, series, last_spike: float, notes: list[str]) -> Series:
    """A `pynwb.TimeSeries` as a Series, which opens the file again to be read."""
    import h5py

    shape = tuple(series.data.shape)
    conversion, offset, start, rate = (
        float(getattr(series, field) or 0) for field in ("conversion", "offset", "starting_time", "rate")
    )
    if math.isnan(conversion):
        notes.append(f"The conversion of {name} is NaN and was taken as 1.")
        conversion = 1.0
    if 0 < rate < 1 and abs(shape[0] * rate - last_spike) < min(last_spike / 2, abs(shape[0] / rate - last_spike)):
        notes.append(f"The rate of {name}, {rate:g}, was taken as seconds a sample: so it ends as the spikes do.")
        rate = 1 / rate
    data, timestamps = (getattr(array, "name", None) for array in (series.data, series.timestamps))
    names = tuple(str(series.description).split(","))
    is_named = len(names) == shape[-1] > 1 and all(re.fullmatch(r"\w{1,16}", name) for name in names)

    def read() -> tuple[np.ndarray, np.ndarray]:
        with wrap_errors(f"{name} cannot be read"), h5py.File(path, "r") as file:
            values = read_dataset(file[data], name, kinds="biuf")
            if timestamps is not None:
                times = read_dataset(file[timestamps], f"{name}/timestamps")
            elif rate != 0:
                times = start + np.arange(len(values)) / rate
            else:  # as of timestamps that are a table
                raise RecordingError(f"{name} has neither readable times nor a rate.")
        return times, values * conversion + offset

    position = is_position(name, default=series.neurodata_type == "SpatialSeries")
    return Series(name, read, str(series.unit), position, names if is_named else (), shape)
