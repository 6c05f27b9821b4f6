"""Reference readers, from the arrays that `numpy.load`, `csv`, SciPy and h5py find in a file or folder.

They raise an exception of any type for what they cannot read, and check nothing else.
"""

import re
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import scipy.io

from .mutations import FOLDER, HDF5, NPZ

FORMAT = "possm-lite recording 2"
Arrays = dict[str, np.ndarray]


class Reference(NamedTuple):
    """What a file holds, with nothing chosen or mended."""

    spike_times: np.ndarray
    spike_units: np.ndarray
    unit_ids: np.ndarray
    trials: np.ndarray
    series: Callable[[str], tuple[np.ndarray, np.ndarray]]  # times and values by the name of a series
    unit_table: Arrays = {}
    trial_table: Arrays = {}


def read_npz(path: Path) -> dict:
    fields = {"format": np.array(FORMAT), **NPZ.load(path)}
    if "behavior_clock" in fields:
        start, rate, n = (fields.pop("behavior_clock") * np.float64(1)).tolist()  # text cannot be multiplied
        fields["behavior_times"] = start + np.arange(int(n)) / rate
    for name in ("format", "behavior_name", "behavior_unit", "session_id"):
        (fields[name],) = fields[name].ravel().tolist()
    fields["notes"] = tuple(fields["notes"].ravel().tolist())
    columns = fields.get("behavior_columns", np.array([], str)).ravel().tolist()
    texts = (*columns, *(fields[name] for name in ("behavior_name", "behavior_unit", "session_id")), *fields["notes"])
    if fields["format"] != FORMAT or not all(isinstance(text, str) and text for text in texts):
        raise ValueError("not a recording")
    return fields


def as_reference(fields: dict) -> Reference:
    arrays = (fields[name] for name in ("spike_times", "spike_units", "unit_ids", "trials"))
    return Reference(*arrays, lambda name: (fields["behavior_times"], fields["behavior"]))


def read_mat(path: Path) -> Arrays:
    """`time`, `spikes` and `handVel`, each of which must occur once and be real."""
    names = [name for name, _, _ in scipy.io.whosmat(path)]
    variables = {name: scipy.io.loadmat(path)[name] for name in ("time", "spikes", "handVel")}
    for name, array in variables.items():
        if names.count(name) != 1 or array.dtype.kind not in "iuf":
            raise ValueError(f"{name} occurs {names.count(name)} times as {array.dtype}")
    return variables


def read_phy(path: Path) -> Reference:
    arrays = FOLDER.load(path)
    samples, clusters = (_whole(arrays[f"spike_{name}.npy/"]).ravel() for name in ("times", "clusters"))
    lines = [line.partition("=") for line in (path / "params.py").read_text(encoding="utf-8").split("\n")]
    (rate,) = (float(value.partition("#")[0]) for name, _, value in lines if name.strip() == "sample_rate")
    labels = {}  # of clusters, by column
    for file in sorted({name.split("/")[0] for name in arrays if name.startswith("cluster_")}):
        (_, ids), *columns = _columns(arrays, file).items()
        labels |= {name: dict(zip(ids.tolist(), column.tolist(), strict=True)) for name, column in columns}
    noise = labels.get("group", labels.get("KSLabel", {}))
    kept = np.array([noise.get(cluster) != "noise" for cluster in clusters.tolist()])
    unit_ids, spike_units = np.unique(clusters[kept], return_inverse=True)
    unit_table = {name: np.array([str(one.get(i, "")) for i in unit_ids.tolist()]) for name, one in labels.items()}
    trials = _columns(arrays, "trials.csv")
    (table,) = {name.split("/")[0] for name in arrays if ".csv" in name} - {"trials.csv"} or {""}
    series = _columns(arrays, table)
    times = series.pop(next(iter(series), ""), None)
    spans = _spans(trials, "start", "stop")
    return Reference(
        samples[kept] / rate, spike_units, unit_ids, spans, lambda n: (times, _joined(n, series)), unit_table, trials
    )


def read_pynapple(path: Path) -> Reference:
    arrays = FOLDER.load(path)
    kinds = {name.split("/")[0]: str(array[0]) for name, array in arrays.items() if name.endswith("/type")}
    (file,) = (file for file, kind in kinds.items() if kind == "TsGroup")
    group = {name: arrays[f"{file}/{name}"] for name in ("t", "index", "keys")}  # keys of any shape
    (trials,) = [_columns(arrays, file) for file, kind in kinds.items() if kind == "IntervalSet"] or [{}]
    keys, index = np.unique(_whole(group["keys"])), _whole(group["index"])
    if not np.isin(index, keys).all():
        raise ValueError("spikes of units that are not listed")
    spans = _spans(trials, "start", "end")
    series = lambda name: (arrays[f"{name}.npz/t"], arrays[f"{name}.npz/d"])  # noqa: E731
    return Reference(group["t"], np.searchsorted(keys, index), keys, spans, series)


def read_indy(path: Path) -> Reference:
    import h5py

    arrays, trains, names = HDF5.load(path), [], []
    grid = arrays["spikes"]
    with h5py.File(path, "r") as file:
        channels = ["".join(map(chr, _whole(file[cell][()]).ravel())) for cell in arrays["chan_names"].flat]
        for (unit, channel), cell in np.ndenumerate(grid):
            if file[cell].size and "MATLAB_empty" not in file[cell].attrs:
                trains.append(np.float64(file[cell][()]).ravel())
                names.append(f"{channels[channel]}/{unit}")
    if grid.shape[1] != len(channels):
        raise ValueError("channels without spikes")

    def series(name: str) -> tuple[np.ndarray, np.ndarray]:
        values = np.float64(arrays[name]).T
        return np.float64(arrays["t"]).ravel(), values[:, [1, 2, 0]] * [-1, -1, 1] if name == "finger_pos" else values

    units = np.repeat(np.arange(len(trains)), [len(train) for train in trains])
    table = {"unit": np.array([int(name.split("/")[1]) for name in names])}
    return Reference(np.concatenate(trains), units, np.array(names), np.empty((0, 2)), series, table)


def read_brainsets(path: Path) -> Reference:
    arrays = HDF5.load(path)
    texts = {name: np.char.decode(array) for name, array in arrays.items() if array.dtype.kind == "S"}
    units, trials = (_columns(arrays | texts, name) for name in ("units", "trials"))

    def series(name: str) -> tuple[np.ndarray, np.ndarray]:
        values, group = np.float64(arrays[name]), name.split("/")[0]
        if f"{group}/timestamps" in arrays:
            return np.float64(arrays[f"{group}/timestamps"]), values
        return arrays[f"{group}/domain/start"][0] + np.arange(len(values)) / arrays[f"{group}@sampling_rate"], values

    spikes = np.float64(arrays["spikes/timestamps"]), _whole(arrays["spikes/unit_index"]), units.pop("id")
    return Reference(*spikes, _spans(trials, "start", "end"), series, units, trials)


def read_nwb(path: Path) -> Reference:
    """All spikes, series and trials, with a NaN conversion as 1."""
    arrays = HDF5.load(path)
    index = arrays.get("units/spike_times_index", arrays.get("units/spike_times_index_"))  # its target counts
    counts, spikes = np.diff(np.int64(index), prepend=0), np.float64(arrays["units/spike_times"])
    units = np.repeat(np.arange(len(counts)), counts)

    def read(name: str) -> tuple[np.ndarray, np.ndarray]:
        conversion, offset = (float(arrays.get(f"{name}/data@{k}", v)) for k, v in (("conversion", 1), ("offset", 0)))
        values = np.float64(arrays[f"{name}/data"]) * (1 if np.isnan(conversion) else conversion) + offset
        if f"{name}/timestamps" in arrays:
            return np.float64(arrays[f"{name}/timestamps"]), values
        n, last, rate = len(values), spikes.max(initial=0), float(arrays[f"{name}/starting_time@rate"])
        if 0 < rate < 1 and abs(n * rate - last) < min(last / 2, abs(n / rate - last)):
            rate = 1 / rate  # it was the step
        return float(arrays[f"{name}/starting_time"]) + np.arange(n) / rate, values

    def series(name: str) -> tuple[np.ndarray, np.ndarray]:
        paths = [key.removesuffix("/data") for key in arrays if key.endswith("/data")]
        paths = {re.sub(r"^(processing/[^/]*|acquisition)/", "", path): path for path in paths}
        found = {key: read(paths[key]) for key in _parts(name, paths)}
        return next(iter(found.values()))[0], _joined(name, {key: values for key, (_, values) in found.items()})

    spans = _spans(_columns(arrays, "intervals/trials"), "start_time", "stop_time")
    return Reference(spikes, units, arrays["units/id"].astype(str), spans, series)


READERS = {name: globals()[f"read_{name}"] for name in ("phy", "pynapple", "indy", "brainsets", "nwb")}
READERS["nwb layouts"] = read_nwb


def _whole(array: np.ndarray) -> np.ndarray:
    if array.dtype.kind not in "iu":
        raise ValueError(f"{array.dtype} are not whole numbers")
    return array


def _columns(arrays: Arrays, table: str) -> Arrays:
    """The arrays (n,) of a group or file by their own names."""
    names = {name.removeprefix(f"{table}/"): name for name in arrays if name.startswith(f"{table}/")}
    return {key: arrays[name] for key, name in names.items() if not set("/@") & set(key) and arrays[name].ndim == 1}


def _spans(table: Arrays, start: str, stop: str) -> np.ndarray:
    """These two columns, (n, 2), which are taken out of the table."""
    return np.column_stack([table.pop(start), table.pop(stop)]).astype(float) if table else np.empty((0, 2))


def _parts(name: str, names) -> list[str]:
    """The name itself, or those in a container or for the axes of something with this name."""
    joined = [key for key in names if key.startswith(f"{name}/") or re.sub(r"_[xyz]$|^[xyz]_", "", key) == name]
    return [name] if name in names else sorted(joined)


def _joined(name: str, series: Arrays) -> np.ndarray:
    return np.column_stack([series[part] for part in _parts(name, series)])
