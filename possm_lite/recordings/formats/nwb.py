"""NWB files: units with spike_times, and behaviour in any processing module or in acquisition.

Read so: MC_Maze, MC_RTT, Area2_Bump, Perich-Miller (DANDI 000127-129, 138-140, 688),
Churchland-Shenoy and Even-Chen (000070, 000121), FALCON M1, M2 and H1 (000941, 000953, 000954), and
what NeuroConv writes. A series is called "hand_vel", or in a container "Position/Hand". Samples
outside of FALCON's eval_mask or of obs_intervals are unused.
"""

import json
import re
from functools import partial
from pathlib import Path

import numpy as np

from ...errors import RecordingError
from ..labels import is_text
from .contents import Contents, Series, intervals
from .hdf5 import find, read_values
from .nwb_units import find_group, members, plain_columns, read_units
from .series_names import is_position


def read_nwb(path: Path) -> Contents:
    """What is in an NWB file.

    Args:
        path: the file.

    Returns:
        Spikes, trials, the columns of the tables of units and trials, and every series of
        behaviour, which is read from the file only when it is chosen.

    Raises:
        RecordingError: there are no units with spikes, ids of units repeat, or an index does not
            fit its column. Without the path.
    """
    import h5py

    with h5py.File(path, "r") as file:
        notes: list[str] = []
        units = read_units(file, notes)
        last_spike = units.spike_times.max(initial=0)
        series = _find_series(file, path, last_spike, notes)
        mask = series.pop("eval_mask", None)
        observed = _observed_by_mask(mask) if mask else units.observed
        trial_table = plain_columns(find(file, "intervals/trials"))
        return Contents(
            units.spike_times,
            units.spike_units,
            units.ids,
            list(series.values()),
            session_id=_session_id(file),
            trials=intervals(trial_table, "start_time", "stop_time"),
            unit_table=units.table,
            trial_table=trial_table,
            observed=observed,
            observed_name="eval_mask" if mask else "obs_intervals of the units",
            behavior_error="" if series else _without_series(file),
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
    modules = find_group(file, "processing")
    behavior_first = sorted(modules, key=lambda name: name != "behavior")
    addresses = [f"processing/{name}" for name in behavior_first]
    found: dict[str, Series] = {}
    kinds = _kinds_of_positions(file)
    for address in [*addresses, "acquisition"]:
        module = address.rpartition("/")[2]
        for name, group in members(find_group(file, address)).items():
            if _is_series(group):
                if name in found:
                    name = f"{module}/{name}"
                found[name] = _as_series(path, name, group, kinds, last_spike, notes)
    return found


def _without_series(file) -> str:
    """Why a file has no series of behaviour that can be read, in a sentence.

    From reports: shapes that do not fit (pynwb #1775), links to a file that was not moved along.
    """
    unread = []
    modules = [f"processing/{name}" for name in find_group(file, "processing")]
    for address in [*modules, "acquisition"]:
        for name, group in members(find_group(file, address)).items():
            shape = getattr(group.get("data"), "shape", None) if hasattr(group, "keys") else None
            if group is None:
                unread.append(_lost_link(file, f"{address}/{name}"))
            elif shape is not None:
                size = " x ".join(f"{n}" for n in shape)
                hint = "of pictures, it seems"
                if np.prod(shape[1:]) <= 20:
                    hint = "write it with a row for each sample and a column for each axis"
                unread.append(f"{name} has {size} values: {hint}")
    if unread:
        return f"has no series of behaviour that can be read: {'; '.join(unread[:3])}."
    return (
        "has no series of behaviour that can be read in its processing modules and in acquisition: "
        "add one, such as hand_vel with timestamps. The layouts that are read: CONVERTERS.md."
    )


def _lost_link(file, address: str) -> str:
    """Where a link leads that leads to nothing, and what to do, in a clause."""
    name = address.rpartition("/")[2]
    link = file.get(address, getlink=True)
    target = getattr(link, "filename", "")
    if not target:
        return f"{name} is a link to {getattr(link, 'path', 'what')}, which is not there"
    return f"{name} is a link into {target}, which is not there: put {target} beside this file"


def _is_series(group) -> bool:
    """Whether a group of HDF5 is a time series of one or two dimensions."""
    has_data = hasattr(group, "keys") and "data" in group
    return has_data and getattr(group["data"], "ndim", 0) in (1, 2)


def _kinds_of_positions(file) -> set[str]:
    """SpatialSeries, and the types of NWB that are made from it, as the file itself describes them.

    From reports: a keypoint of DeepLabCut is a PoseEstimationSeries (spyglass #1321, DLC2NWB #24).
    """
    parents = {"PoseEstimationSeries": "SpatialSeries"}
    specifications = find(file, "specifications")
    for name, namespace in getattr(specifications, "items", dict)():
        if name == "core" or not hasattr(namespace, "values"):
            continue
        for version in namespace.values():
            for text in getattr(version, "values", list)():
                parents |= _parents(_parse_json(text))
    kinds = {"SpatialSeries"}
    while more := {kind for kind, parent in parents.items() if parent in kinds} - kinds:
        kinds |= more
    return kinds


def _parse_json(data):
    """What is in a data set of JSON; None where it is none."""
    if getattr(data, "shape", None) != ():
        return None
    try:
        return json.loads(data.asstr()[()])
    except (AttributeError, TypeError, ValueError):
        return None


def _parents(specification) -> dict[str, str]:
    """Of each type that a specification defines, the type that it is made from."""
    parents = {}
    groups = specification.get("groups", []) if isinstance(specification, dict) else []
    for group in groups:
        kind, parent = group.get("neurodata_type_def"), group.get("neurodata_type_inc")
        if kind and parent:
            parents[kind] = parent
        parents |= _parents(group)
    return parents


def _as_series(
    path: Path, name: str, group, kinds: set[str], last_spike: float, notes: list[str]
) -> Series:
    """A TimeSeries of NWB as a Series, which opens the file again to be read.

    Those of these `kinds` are positions.
    """
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
        is_position=is_position(name, default=group.attrs.get("neurodata_type") in kinds),
        columns=_column_names(group),
        shape=data.shape,
        confidence=partial(_read_confidence, path, group.name) if "confidence" in group else None,
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
        values = read_values(group["data"])
        if not is_text(values):
            values = values * conversion + offset
        if "timestamps" in group:
            return group["timestamps"][()], values
        if not rate > 0:
            raise RecordingError(
                f"{group.name.rpartition('/')[2]} has neither timestamps nor a rate: it is not "
                "known when its samples were taken. Add one of them, or name another --behavior."
            )
        return start + np.arange(len(values)) / rate, values


def _read_confidence(path: Path, address: str) -> np.ndarray:
    """How sure the tracking was of each sample of a PoseEstimationSeries, 0 to 1, (T,)."""
    import h5py

    with h5py.File(path, "r") as file:
        return file[address]["confidence"][()]
