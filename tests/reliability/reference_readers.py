"""Reference readers: `numpy.load`, `csv`, SciPy and h5py, without a line of the package's own readers.

They raise an exception of any type for what they cannot read, and check nothing else.
"""

import csv
import re
from collections.abc import Callable
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple

import numpy as np
import scipy.io

FORMAT = "possm-lite recording 2"
Table = dict[str, np.ndarray]


class Reference(NamedTuple):
    """What a file holds, with nothing chosen or mended."""

    spike_times: np.ndarray
    spike_units: np.ndarray
    unit_ids: np.ndarray
    trials: np.ndarray
    series: Callable[[str], tuple[np.ndarray, np.ndarray]]  # times and values by the name of a series
    unit_table: Table = {}
    trial_table: Table = {}


def read_npz(path: Path) -> dict:
    with np.load(path, allow_pickle=False) as file:
        fields = {"format": np.array(FORMAT), **file}
    if "behavior_clock" in fields:
        start, rate, n = (fields.pop("behavior_clock") * np.float64(1)).tolist()  # text cannot be multiplied
        fields["behavior_times"] = start + np.arange(int(n)) / rate
    for name in ("format", "behavior_name", "behavior_unit", "session_id"):
        (fields[name],) = fields[name].ravel().tolist()
    fields["notes"] = tuple(fields["notes"].ravel().tolist())
    texts = (*(fields[name] for name in ("behavior_name", "behavior_unit", "session_id")), *fields["notes"])
    if fields["format"] != FORMAT or not all(isinstance(text, str) and text for text in texts):
        raise ValueError("not a recording")
    return fields


def as_reference(fields: dict) -> Reference:
    arrays = (fields[name] for name in ("spike_times", "spike_units", "unit_ids", "trials"))
    return Reference(*arrays, lambda name: (fields["behavior_times"], fields["behavior"]))


def read_mat(path: Path) -> dict:
    """`time`, `spikes` and `handVel`, each of which must occur once and be real."""
    names = [name for name, _, _ in scipy.io.whosmat(path)]
    variables = {name: scipy.io.loadmat(path)[name] for name in ("time", "spikes", "handVel")}
    for name, array in variables.items():
        if names.count(name) != 1 or array.dtype.kind not in "iuf":
            raise ValueError(f"{name} occurs {names.count(name)} times as {array.dtype}")
    return variables


def _whole(array: np.ndarray) -> np.ndarray:
    if array.dtype.kind not in "iu":
        raise ValueError(f"{array.dtype} are not whole numbers")
    return array.astype(np.int64)


def _joined(name: str, series: dict[str, Callable]) -> tuple[np.ndarray, np.ndarray]:
    """The series of this name, or those in a container or for the axes of something with this name, side by side."""
    axis = re.compile(r"_[xyz]$|^[xyz]_", re.IGNORECASE)
    parts = [key for key in sorted(series) if key == name] or [
        key for key in sorted(series) if key.startswith(f"{name}/") or axis.sub("", key, count=1) == name
    ]
    times, values = zip(*(series[part]() for part in parts), strict=True)
    return times[0], np.column_stack(values)


# Folders


def _read_table(path: Path) -> Table:
    separator = "," if path.suffix == ".csv" else "\t"
    with open(path, newline="", encoding="utf-8") as file:
        header, *rows = (row for row in csv.reader(file, delimiter=separator, strict=True) if row)
    if any(len(row) > len(header) for row in rows):
        raise ValueError("a row is longer than the header")
    columns = list(zip_longest(*rows, fillvalue="")) or [()] * len(header)
    columns += [("",) * len(rows)] * (len(header) - len(columns))
    return {name: _numbers(column) for name, column in zip(header, columns, strict=True)}


def _numbers(column: tuple[str, ...]) -> np.ndarray:
    try:
        return np.array([float(text) if text.strip() else np.nan for text in column])
    except ValueError:
        return np.array(column)


def read_phy(path: Path) -> Reference:
    samples, clusters = (_whole(np.load(path / f"spike_{name}.npy").ravel()) for name in ("times", "clusters"))
    lines = [line.partition("=") for line in (path / "params.py").read_text(encoding="utf-8").split("\n")]
    *_, rate = (float(value.partition("#")[0]) for name, _, value in lines if name.strip() == "sample_rate")
    tables = {file.name: _read_table(file) for file in path.glob("*.csv")}
    trials = tables.pop("trials.csv", {})
    columns = {}  # of clusters: label by cluster
    for file in sorted(path.glob("cluster_*.tsv")):
        cluster, *others = _read_table(file).items()
        columns |= {name: dict(zip(cluster[1].tolist(), column.tolist(), strict=True)) for name, column in others}
    labels = columns.get("group", columns.get("KSLabel", {}))
    kept = np.array([labels.get(cluster) != "noise" for cluster in clusters.tolist()])
    unit_ids, spike_units = np.unique(clusters[kept], return_inverse=True)
    unit_table = {name: np.array([str(c.get(i, "")) for i in unit_ids.tolist()]) for name, c in columns.items()}
    behavior = next(iter(tables.values()), {"": np.empty(0)})
    times, *_ = behavior.values()
    series = {name: lambda column=column: (times, column) for name, column in list(behavior.items())[1:]}
    starts_stops = np.column_stack([trials.pop("start"), trials.pop("stop")]) if trials else np.empty((0, 2))
    spike_times = samples[kept] / rate
    return Reference(spike_times, spike_units, unit_ids, starts_stops, _by_name(series), unit_table, trials)


def _by_name(series: dict[str, Callable]) -> Callable[[str], tuple[np.ndarray, np.ndarray]]:
    return lambda name: _joined(name, series)


def read_pynapple(path: Path) -> Reference:
    def load(file) -> Table:
        with np.load(file, allow_pickle=False) as arrays:
            return {name: arrays[name] for name in arrays.files if name not in ("_metadata", "columns")}

    objects = {file.stem: load(file) for file in path.glob("*.npz")}
    by_type: dict[str, list[str]] = {}
    for name, arrays in objects.items():
        by_type.setdefault(str(arrays.get("type", [""])[0]), []).append(name)
    (group,) = (objects[name] for name in by_type["TsGroup"])
    keys = np.unique(_whole(group["keys"]))
    (trials,) = [objects[name] for name in by_type.get("IntervalSet", [])] or ({"start": [], "end": []},)
    units = np.searchsorted(keys, _whole(group["index"]))
    if not np.isin(group["index"], keys).all():
        raise ValueError("spikes of units that are not listed")
    series = {name: lambda a=arrays: (a["t"], a["d"]) for name, arrays in objects.items()}
    return Reference(
        group["t"], units, keys, np.column_stack([trials["start"], trials["end"]]).astype(float), _by_name(series)
    )


# HDF5


def read_indy(path: Path) -> Reference:
    import h5py

    with h5py.File(path, "r") as file:
        channels = ["".join(map(chr, _whole(file[ref][()]).ravel())) for ref in file["chan_names"][()].flat]
        trains, names, units = [], [], []
        grid = file["spikes"][()]
        for (unit, channel), ref in np.ndenumerate(grid):
            cell = file[ref]
            if cell.size and "MATLAB_empty" not in cell.attrs:
                trains.append(cell[()].astype(float).ravel())
                names.append(f"{channels[channel]}/{unit}")
                units.append(unit)
        if grid.shape[1] != len(channels):
            raise ValueError("channels without spikes")

    def read(name: str) -> tuple[np.ndarray, np.ndarray]:
        with h5py.File(path, "r") as file:
            values = file[name][()].astype(float).T
            values = values[:, [1, 2, 0]] * [-1, -1, 1] if name == "finger_pos" else values
            return file["t"][()].astype(float).ravel(), values

    spike_units = np.repeat(np.arange(len(trains)), [len(train) for train in trains])
    unit_table = {"unit": np.array(units)}
    return Reference(np.concatenate(trains), spike_units, np.array(names), np.empty((0, 2)), read, unit_table)


def read_brainsets(path: Path) -> Reference:
    import h5py

    def columns(file, name: str) -> Table:
        group = file[name] if name in list(file) else {}  # a link to nothing raises
        arrays = {key: data[()] for key, data in group.items() if isinstance(data, h5py.Dataset) and data.ndim == 1}
        return {key: np.char.decode(a) if a.dtype.kind == "S" else a for key, a in arrays.items()}

    def read(name: str) -> tuple[np.ndarray, np.ndarray]:
        with h5py.File(path, "r") as file:
            values, group = file[name][()].astype(float), file[name.split("/")[0]]
            if "timestamps" in group:
                return group["timestamps"][()].astype(float), values
            return group["domain/start"][0] + np.arange(len(values)) / group.attrs["sampling_rate"], values

    with h5py.File(path, "r") as file:
        units, trials = columns(file, "units"), columns(file, "trials")
        spike_times, spike_units = file["spikes/timestamps"][()], _whole(file["spikes/unit_index"][()])
    spans = np.column_stack([trials.pop("start"), trials.pop("end")]).astype(float) if trials else np.empty((0, 2))
    return Reference(spike_times.astype(float), spike_units, units.pop("id"), spans, read, units, trials)


def read_nwb(path: Path) -> Reference:
    """All spikes, series and trials, with a NaN conversion as 1."""
    import h5py

    with h5py.File(path, "r") as file:
        units = file["units"]
        index = "spike_times_index" if "spike_times_index" in units else "spike_times_index_"  # its target counts
        counts = np.diff(units[index][()].astype(np.int64), prepend=0)
        spikes = units["spike_times"][()].astype(np.float64)
        trials = file.get("intervals", {}).get("trials", {})
        columns = [np.asarray(trials[name][()] if trials else [], np.float64) for name in ("start_time", "stop_time")]
        ids = units["id"][()].astype(str)

    def read(name: str) -> tuple[np.ndarray, np.ndarray]:
        series: dict[str, Callable] = {}
        with h5py.File(path, "r") as file:
            for parent in [*file["processing"].values(), file["acquisition"]]:
                parent.visititems(lambda key, item: _add_series(key, item, series, spikes))
        return _joined(name, series)

    return Reference(spikes, np.repeat(np.arange(len(counts)), counts), ids, np.stack(columns, axis=1), read)


def _add_series(name: str, group, series: dict, spikes: np.ndarray):
    data = group.get("data") if hasattr(group, "keys") else None
    if data is None or data.dtype.kind not in "biuf":
        return
    values = data[()].astype(np.float64)
    conversion = float(data.attrs.get("conversion", 1))
    values = values * (1 if np.isnan(conversion) else conversion) + float(data.attrs.get("offset", 0))
    if "timestamps" in group:
        times = group["timestamps"][()].astype(np.float64)
    else:
        start, n, last = group["starting_time"], len(values), spikes.max(initial=0)
        rate = float(start.attrs["rate"])
        if 0 < rate < 1 and abs(n * rate - last) < min(last / 2, abs(n / rate - last)):
            rate = 1 / rate  # it was the step
        times = float(start[()]) + np.arange(n) / rate
    series[name] = lambda: (times, values)


READERS = {
    "indy": read_indy,
    "brainsets": read_brainsets,
    "phy": read_phy,
    "pynapple": read_pynapple,
    "nwb": read_nwb,
    "nwb layouts": read_nwb,
}
