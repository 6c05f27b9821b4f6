"""NWB files: `units` with `spike_times`, and behaviour in any processing module or in `acquisition`.

Read so: MC_Maze, MC_RTT, Area2_Bump, Perich-Miller (DANDI 000127-129, 138-140, 688), Churchland-Shenoy and Even-Chen
(000070, 000121), FALCON M1, M2 and H1 (000941, 000953, 000954), and what NeuroConv writes. A series is called
"hand_vel", or in a container "Position/Hand". Samples outside of FALCON's `eval_mask` or of `obs_intervals` are unused.
"""

import re
from pathlib import Path

import numpy as np

from ...errors import RecordingError
from .contents import Contents, Series, intervals
from .hdf5 import find, read_columns
from .series_names import is_position


def read_nwb(path: Path) -> Contents:
    """What is in an NWB file. A series is read from the file only when it is chosen."""
    import h5py

    with h5py.File(path, "r") as file:
        units = file["units"]
        spike_times, spike_units = _read_ragged(units, "spike_times")
        notes: list[str] = []
        series = _find_series(file, path, spike_times.max(initial=0), notes)
        observed = None
        if mask := series.pop("eval_mask", None):
            observed = _observed_by_mask(mask)
        elif "obs_intervals" in units:  # when any unit was observed
            observed = np.unique(_read_ragged(units, "obs_intervals")[0], axis=0)
        trial_table = _plain_columns(find(file, "intervals/trials"))
        names = ("general/subject/subject_id", "general/session_id", "identifier")
        subject, session, identifier = (
            text and text.asstr()[()] for text in (find(file, name) for name in names)
        )
        return Contents(
            spike_times,
            spike_units,
            units["id"][()],
            list(series.values()),
            session_id=f"{subject}_{session}" if subject and session else session or identifier,
            trials=intervals(trial_table, "start_time", "stop_time"),
            unit_table=_plain_columns(units),
            trial_table=trial_table,
            observed=observed,
            notes=tuple(notes),
        )


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
    """The columns of a table that are not ragged, (n,) each; {} of None."""
    columns = read_columns(table)
    plain = [
        name for name in columns if not name.endswith("_index") and f"{name}_index" not in columns
    ]
    return {name: columns[name] for name in plain if name != "id"}


def _observed_by_mask(mask: Series) -> np.ndarray:
    """First and last time of each run of samples that are to be scored, (m, 2)."""
    times, values = mask.read()
    edges = np.flatnonzero(np.diff(values.ravel() > 0, prepend=False, append=False))
    return np.column_stack((times[edges[::2]], times[edges[1::2] - 1]))


def _find_series(file, path: Path, last_spike: float, notes: list[str]) -> dict[str, Series]:
    """Time series of one or two dimensions by name: of processing/behavior, other modules, and acquisition."""
    modules = sorted((find(file, "processing") or {}).keys(), key=lambda name: name != "behavior")
    found: dict[str, Series] = {}
    for address in (*(f"processing/{name}" for name in modules), "acquisition"):
        group = find(file, address) or {}
        children = {
            name: group.get(name) for name in group
        }  # None for a link to a file that is not there
        containers = [
            name
            for name, child in children.items()
            if hasattr(child, "keys") and "data" not in child
        ]
        nested = {
            f"{name}/{part}": children[name].get(part)
            for name in containers
            for part in children[name]
        }
        for name, one in (children | nested).items():
            if hasattr(one, "keys") and "data" in one and getattr(one["data"], "ndim", 0) in (1, 2):
                name = f"{address.rpartition('/')[2]}/{name}" if name in found else name
                found[name] = _as_series(path, name, one, last_spike, notes)
    return found


def _as_series(path: Path, name: str, group, last_spike: float, notes: list[str]) -> Series:
    """A TimeSeries of NWB as a Series, which opens the file again to be read."""
    import h5py

    address, data = group.name, group["data"]
    conversion, offset = data.attrs.get("conversion", 1.0), data.attrs.get("offset", 0.0)
    start, rate = 0.0, 0.0
    if "starting_time" in group:
        start, rate = group["starting_time"][()], group["starting_time"].attrs["rate"]
    if np.isnan(conversion):  # in DANDI 000070
        notes.append(f"The conversion of {name} is NaN and was taken as 1.")
        conversion = 1.0
    if 0 < rate < 1 and abs(len(data) * rate - last_spike) < last_spike / 2:  # in FALCON H1
        notes.append(
            f"The rate of {name}, {rate:g}, was taken as seconds a sample: so it ends as the spikes do."
        )
        rate = 1 / rate
    listed = re.fullmatch(r"\w+(,\w+)+", str(group.attrs.get("description")))  # of FALCON H1
    names = (
        tuple(listed[0].split(",")) if listed and listed[0].count(",") + 1 == data.shape[-1] else ()
    )

    def read() -> tuple[np.ndarray, np.ndarray]:
        with h5py.File(path, "r") as file:
            values = file[address]["data"][()] * conversion + offset
            if "timestamps" in file[address]:
                return file[address]["timestamps"][()], values
            return start + np.arange(len(values)) / rate, values

    position = is_position(name, default=group.attrs.get("neurodata_type") == "SpatialSeries")
    return Series(name, read, str(data.attrs.get("unit", "")), position, names, data.shape)
