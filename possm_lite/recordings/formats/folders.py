"""Folders of phy or Kilosort, and of pynapple, in the layouts of CONVERTERS.md."""

import re
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np

from ...errors import RecordingError, prefix_errors, wrap_errors
from ..arrays import load_npz
from .contents import Contents, Series, intervals


def read_phy(path: Path) -> Contents:
    """Spikes without the clusters labelled noise, the tables of clusters for filters, behaviour and trials."""
    import pandas

    samples, clusters = (
        _read(path / f"spike_{name}.npy", np.load).ravel() for name in ("times", "clusters")
    )
    if samples.dtype.kind not in "iu":
        raise RecordingError(
            f"spike_times.npy must be samples, whole numbers, not {samples.dtype}."
        )
    info = path / "cluster_info.tsv"
    files = [info] if info.exists() else sorted(path.glob("cluster_*.tsv"))
    by_cluster = [
        _read(file, _read_table) for file in files
    ]  # the first column is the number of the cluster
    table = pandas.concat(
        [pandas.DataFrame(), *(one.set_index(one.columns[0]) for one in by_cluster)], axis=1
    )
    noise = table.index[table.get("group", table.get("KSLabel", table.index)) == "noise"]
    kept = ~np.isin(clusters, noise)
    unit_ids, spike_units = np.unique(clusters[kept], return_inverse=True)
    tables = {file.name: _columns(_read(file, _read_table)) for file in sorted(path.glob("*.csv"))}
    trials = tables.pop("trials.csv", {})
    if len(tables) > 1:
        raise RecordingError(f"has {len(tables)} tables of behaviour, {', '.join(tables)[:200]}.")
    behavior = next(iter(tables.values()), {"time": np.empty(0)})
    if (first := next(iter(behavior))) not in ("time", "time_s"):
        raise RecordingError(
            f"{', '.join(tables)}: the first column must be time, in seconds, not {first!r:.80}."
        )
    times = behavior.pop(first)
    return Contents(
        samples[kept] / _read(path / "params.py", _read_rate),
        spike_units,
        unit_ids,
        [
            Series(name, lambda values=values: (times, values), shape=values.shape)
            for name, values in behavior.items()
        ],
        session_id=path.resolve().name,
        trials=intervals(trials),
        unit_table=_columns(table.reindex(unit_ids)),
        trial_table=trials,
        notes=(f"{len(noise)} of {len(table)} clusters, labelled noise, were left out.",)
        if len(noise)
        else (),
    )


def read_pynapple(path: Path) -> Contents:
    """The TsGroup as spikes, each Tsd and TsdFrame as a series with the name of its file, an IntervalSet as trials."""
    pickled = ("_metadata", "columns")  # not read
    objects = {
        file.stem: _read(file, lambda file: load_npz(file, pickled))
        for file in sorted(path.glob("*.npz"))
    }
    kinds = {
        name: str(arrays.get("type", ["no object of pynapple"])[0])
        for name, arrays in objects.items()
    }
    groups, trials = (
        [objects[n] for n in objects if kinds[n] == kind] for kind in ("TsGroup", "IntervalSet")
    )
    if len(groups) != 1 or len(trials) > 1:
        found = f"one TsGroup and at most one IntervalSet of pynapple; it has {kinds or 'neither'}"
        raise RecordingError(f"must have files of phy, or {found}. See CONVERTERS.md.")
    keys, index = np.unique(groups[0]["keys"]), groups[0]["index"]
    if not np.isin(index, keys).all():
        raise RecordingError("index of the TsGroup must be of its keys.")
    return Contents(
        groups[0]["t"],
        np.searchsorted(keys, index),
        keys,
        [
            Series(name, lambda a=arrays: (a["t"], a["d"]), shape=arrays["d"].shape)
            for name, arrays in objects.items()
            if kinds[name] in ("Tsd", "TsdFrame")
        ],
        session_id=path.resolve().name,
        trials=intervals(trials[0], "start", "end") if trials else np.empty((0, 2)),
    )


def _read(file: Path, read: Callable):
    """`read(file)`; the name of the file is in each error."""
    with prefix_errors(file.name), wrap_errors("cannot be read"):
        return read(file)


def _read_rate(file: Path) -> float:
    """`sample_rate` of params.py, in Hz. The file is not executed."""
    (rate,) = re.findall(
        r"^\s*sample_rate\s*=\s*([\d._eE+]+)\s*(?:#.*)?$", file.read_text("utf-8"), re.MULTILINE
    )
    return float(rate)


def _read_table(file: Path):
    """A table of pandas. It refuses rows longer than the header, whose last cells would be left out."""
    import pandas

    with warnings.catch_warnings():
        warnings.simplefilter("error", pandas.errors.ParserWarning)
        return pandas.read_csv(file, sep="\t" if file.suffix == ".tsv" else ",", index_col=False)


def _columns(frame) -> dict[str, np.ndarray]:
    """The columns of a table of pandas by name, numbers or text."""
    return {
        str(name): column.to_numpy()
        if column.dtype.kind in "biuf"
        else column.fillna("").to_numpy(str)
        for name, column in frame.items()
    }
