"""NWB files: units with spike_times, and behaviour in any processing module or in acquisition.

Read so: MC_Maze, MC_RTT, Area2_Bump, Perich-Miller (DANDI 000127-129, 138-140, 688),
Churchland-Shenoy and Even-Chen (000070, 000121), FALCON M1, M2 and H1 (000941, 000953, 000954), and
what NeuroConv writes. A series is called "hand_vel", or in a container "Position/Hand". Samples
outside of FALCON's eval_mask or of obs_intervals are unused.
"""

import re
from functools import partial
from pathlib import Path

import numpy as np

from ...errors import RecordingError
from .contents import Contents, Series, intervals
from .hdf5 import find, read_columns
from .series_names import is_position


def read_nwb(path: Path) -> Contents:
    """What is in an NWB file.

    Args:
        path: the file.

    Returns:
        Spikes, trials, the columns of the tables of units and trials, and every series of
        behaviour, which is read from the file only when it is chosen.

    Raises:
        RecordingError: an index does not fit its column. Without the path.
    """
    import h5py

    with h5py.File(path, "r") as file:
        units = file["units"]
        spike_times, spike_units = _read_ragged(units, "spike_times")
        notes: list[str] = []
        series = _find_series(file, path, spike_times.max(initial=0), notes)
        mask = series.pop("eval_mask", None)
        observed = None
        if mask:
            observed = _observed_by_mask(mask)
        elif "obs_intervals" in units:  # when any unit was observed
            observed = np.unique(_read_ragged(units, "obs_intervals")[0], axis=0)
        trial_table = _plain_columns(find(file, "intervals/trials"))
        return Contents(
            spike_times,
            spike_units,
            units["id"][()],
            list(series.values()),
            session_id=_session_id(file),
            trials=intervals(trial_table, "start_time", "stop_time"),
            unit_table=_plain_columns(units),
            trial_table=trial_table,
            observed=observed,
            notes=tuple(notes),
        )


def _session_id(file) -> str:
    """Subject and session, or the session alone, or the identifier of the file."""
    subject = _read_text(file, "general/subject/subject_id")
    session = _read_text(file, "general/session_id")
    identifier = _read_text(file, "identifier")
    if subject and session:
        return f"{subject}_{session}"
    return session or identifier


def _read_text(file, address: str) -> str | None:
    """The text at an address, None where nothing is."""
    data = find(file, address)
    return data and data.asstr()[()]


def _read_ragged(units, name: str) -> tuple[np.ndarray, np.ndarray]:
    """All entries of a ragged column of the table of units, and the unit of each."""
    values = units[name][()]
    counts = np.diff(units[f"{name}_index"][()].astype(np.int64), prepend=0)
    if counts.sum() != len(values):
        raise RecordingError(
            f"units/{name}_index must divide all {len(values)} entries among the units."
        )
    return values, np.repeat(np.arange(len(units["id"])), counts)


def _plain_columns(table) -> dict[str, np.ndarray]:
    """The columns of a table that are not ragged, (n,) each, without its ids; {} of None."""
    columns = read_columns(table)
    plain = {}
    for name, column in columns.items():
        is_ragged = name.endswith("_index") or f"{name}_index" in columns
        if name != "id" and not is_ragged:
            plain[name] = column
    return plain


def _observed_by_mask(mask: Series) -> np.ndarray:
    """First and last time of each run of samples that are to be scored, (m, 2)."""
    times, values = mask.read()
    edges = np.flatnonzero(np.diff(values.ravel() > 0, prepend=False, append=False))
    first, after = edges[::2], edges[1::2]
    return np.column_stack((times[first], times[after - 1]))


def _find_series(file, path: Path, last_spike: float, notes: list[str]) -> dict[str, Series]:
    """Time series of one or two dimensions by name.

    They are in processing/behavior, in other modules, and in acquisition, in this order; one whose
    name is taken gets that of its module before it.
    """
    modules = (find(file, "processing") or {}).keys()
    behavior_first = sorted(modules, key=lambda name: name != "behavior")
    addresses = [f"processing/{name}" for name in behavior_first]
    found: dict[str, Series] = {}
    for address in [*addresses, "acquisition"]:
        module = address.rpartition("/")[2]
        for name, group in _members(find(file, address) or {}).items():
            if _is_series(group):
                if name in found:
                    name = f"{module}/{name}"
                found[name] = _as_series(path, name, group, last_spike, notes)
    return found


def _members(module) -> dict:
    """What is in a module, and what is in its containers, as "container/name"."""
    # None for a link to a file that is not there
    members = {name: module.get(name) for name in module}
    nested = {}
    for name, member in members.items():
        if hasattr(member, "keys") and "data" not in member:
            for part in member:
                nested[f"{name}/{part}"] = member.get(part)
    return members | nested


def _is_series(group) -> bool:
    """Whether a group of HDF5 is a time series of one or two dimensions."""
    has_data = hasattr(group, "keys") and "data" in group
    return has_data and getattr(group["data"], "ndim", 0) in (1, 2)


def _as_series(path: Path, name: str, group, last_spike: float, notes: list[str]) -> Series:
    """A TimeSeries of NWB as a Series, which opens the file again to be read."""
    data = group["data"]
    conversion = data.attrs.get("conversion", 1.0)
    offset = data.attrs.get("offset", 0.0)
    if np.isnan(conversion):  # in DANDI 000070
        notes.append(f"The conversion of {name} is NaN and was taken as 1.")
        conversion = 1.0
    start, rate = _clock(name, group, last_spike, notes)
    return Series(
        name,
        partial(_read_series, path, group.name, conversion, offset, start, rate),
        unit=str(data.attrs.get("unit", "")),
        is_position=is_position(name, default=group.attrs.get("neurodata_type") == "SpatialSeries"),
        columns=_column_names(group),
        shape=data.shape,
    )


def _clock(name: str, group, last_spike: float, notes: list[str]) -> tuple[float, float]:
    """Start in s and rate in Hz of a series without timestamps; 0 and 0 of one that has them."""
    if "starting_time" not in group:
        return 0.0, 0.0
    start = group["starting_time"][()]
    rate = group["starting_time"].attrs["rate"]
    seconds = len(group["data"]) * rate  # if it is not a rate but an interval
    if 0 < rate < 1 and abs(seconds - last_spike) < last_spike / 2:  # in FALCON H1
        notes.append(
            f"The rate of {name}, {rate:g}, was taken as seconds a sample: "
            "so it ends as the spikes do."
        )
        rate = 1 / rate
    return start, rate


def _column_names(group) -> tuple[str, ...]:
    """Names of the columns in the description of a series, as in FALCON H1; () if it has none."""
    listed = re.fullmatch(r"\w+(,\w+)+", str(group.attrs.get("description")))
    if not listed:
        return ()
    names = tuple(listed[0].split(","))
    return names if len(names) == group["data"].shape[-1] else ()


def _read_series(
    path: Path, address: str, conversion: float, offset: float, start: float, rate: float
) -> tuple[np.ndarray, np.ndarray]:
    """Times (T,) in s and values, (T,) or (T, C), of a TimeSeries of NWB."""
    import h5py

    with h5py.File(path, "r") as file:
        group = file[address]
        values = group["data"][()] * conversion + offset
        if "timestamps" in group:
            return group["timestamps"][()], values
        return start + np.arange(len(values)) / rate, values
