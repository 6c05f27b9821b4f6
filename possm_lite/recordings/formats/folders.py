"""Folders of phy or Kilosort, and of pynapple.

* phy: `spike_times.npy`, samples; `spike_clusters.npy`; `params.py`; tables of clusters; and beside
  them a CSV file of behaviour whose first column, time or time_s, is seconds since the first
  sample, and perhaps `trials.csv` with the columns start and stop.
* pynapple: a TsGroup, and Tsd, TsdFrame and IntervalSet, each saved as an `.npz`. What is in them
  as a pickle, metadata and names of columns, is not read.
"""

import re
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

from ...errors import RecordingError, listed, prefix_errors, wrap_errors
from ..arrays import load_npz
from .contents import Contents, Series, intervals, series_in_memory
from .explain import check_content, explain

# pynapple before 0.6 wrote no `type`; its own reader tells kinds by what they hold, in this order
_KINDS = {
    "TsGroup": {"t", "index"},
    "TsdFrame": {"t", "d", "columns"},
    "Tsd": {"t", "d"},
    "Ts": {"t"},
    "IntervalSet": set(),
}


def read_phy(path: Path) -> Contents:
    """What is in a folder of phy or Kilosort.

    Args:
        path: the folder.

    Returns:
        Spikes in seconds, without the clusters labelled noise; the tables of clusters for filters;
        a series for each column of the table of behaviour; trials.

    Raises:
        RecordingError: a file is missing or cannot be used. Without the path.
    """
    samples = _read(path / "spike_times.npy", np.load).ravel()
    clusters = _read(path / "spike_clusters.npy", np.load).ravel()
    if samples.dtype.kind not in "iu":
        raise RecordingError(
            f"spike_times.npy must be samples, whole numbers, not {samples.dtype}."
        )
    table = _read_clusters(path)
    noise = _noise_clusters(table)
    kept = ~np.isin(clusters, noise)
    unit_ids, spike_units = np.unique(clusters[kept], return_inverse=True)
    tables = {file.name: _columns(_read(file, _read_table)) for file in sorted(path.glob("*.csv"))}
    trials = tables.pop("trials.csv", {})
    series = _behavior_series(tables)
    notes = ()
    if len(noise):
        notes = (f"{len(noise)} of {len(table)} clusters, labelled noise, were left out.",)
    return Contents(
        samples[kept] / _read(path / "params.py", _read_rate),
        spike_units,
        unit_ids,
        series,
        session_id=path.resolve().name,
        trials=intervals(trials),
        unit_table=_columns(table.reindex(unit_ids)),
        trial_table=trials,
        notes=notes,
    )


def _read_clusters(path: Path):
    """The table of clusters of phy, of pandas, with a row for each and its number as the index."""
    import pandas

    info = path / "cluster_info.tsv"
    files = [info] if info.exists() else sorted(path.glob("cluster_*.tsv"))
    tables = [pandas.DataFrame()]
    for file in files:
        table = _read(file, _read_table)
        tables.append(table.set_index(table.columns[0]))  # the number of the cluster
    return pandas.concat(tables, axis=1)


def _noise_clusters(table):
    """The numbers of the clusters labelled noise, by a person or, without such, by Kilosort."""
    for column in ("group", "KSLabel"):
        if column in table:
            return table.index[table[column] == "noise"]
    return table.index[:0]


def _behavior_series(tables: dict[str, dict[str, np.ndarray]]) -> list[Series]:
    """A series for each column of the one table of behaviour, whose first column is the time."""
    if not tables:
        return []
    if len(tables) > 1:
        raise RecordingError(f"has {len(tables)} tables of behaviour, {', '.join(tables)[:200]}.")
    ((file_name, behavior),) = tables.items()
    first, *names = behavior
    if first not in ("time", "time_s"):
        raise RecordingError(
            f"{file_name}: the first column must be time, in seconds, not {first!r:.80}."
        )
    return [series_in_memory(name, behavior[first], behavior[name]) for name in names]


def read_pynapple(path: Path) -> Contents:
    """What is in a folder of pynapple's `.npz` files.

    Args:
        path: the folder.

    Returns:
        The TsGroup as spikes, each Tsd and TsdFrame as a series with the name of its file, an
        IntervalSet as trials.

    Raises:
        RecordingError: there is no TsGroup, or more than one, or a file cannot be used. Without the
            path.
    """
    objects = {file.stem: _read(file, _read_object) for file in sorted(path.glob("*.npz"))}
    kinds = {name: _kind(arrays) for name, arrays in objects.items()}
    notes: list[str] = []
    group = _one_of("TsGroup", ("spikes", "units"), kinds, notes)
    if not group:
        found = [f"{name} ({kind or 'not of pynapple'})" for name, kind in kinds.items()]
        raise RecordingError(
            "has no TsGroup of pynapple, which would hold the spikes. "
            f"Its files: {listed(found)}. What is read: CONVERTERS.md."
        )
    trials = _one_of("IntervalSet", ("trials",), kinds, notes)
    group = objects[group]
    if "keys" not in group:  # before pynapple 0.6
        group["keys"] = np.unique(group["index"])
    keys = np.unique(group["keys"])
    if not np.isin(group["index"], keys).all():
        raise RecordingError("index of the TsGroup must be of its keys.")
    return Contents(
        group["t"],
        np.searchsorted(keys, group["index"]),
        keys,
        [
            series_in_memory(name, objects[name]["t"], objects[name]["d"])
            for name, kind in kinds.items()
            if kind in ("Tsd", "TsdFrame")
        ],
        session_id=path.resolve().name,
        trials=intervals(objects[trials], "start", "end") if trials else np.empty((0, 2)),
        notes=tuple(notes),
    )


def _kind(arrays: dict[str, np.ndarray]) -> str:
    """The kind of an object of pynapple, "" of arrays of another program."""
    if "type" in arrays:
        return str(np.ravel(arrays["type"])[0])
    for kind, names in _KINDS.items():
        if names | {"start", "end"} <= arrays.keys():
            return kind
    return ""


def _one_of(
    kind: str, usual: tuple[str, ...], kinds: dict[str, str], notes: list[str]
) -> str | None:
    """The name of the file of a kind: the only one, or one with a usual name.

    pynapple #53: a folder of a session has epochs, sleep and wake beside the trials. Without a
    usual name, spikes are refused and trials are not used, with a note.
    """
    names = [name for name, found in kinds.items() if found == kind]
    if len(names) == 1:
        return names[0]
    if not names:
        return None
    others = f"has {len(names)} files of a {kind}, {listed(names)}"
    for name in names:
        if name.lower() in usual:
            notes.append(f"The folder {others}: {name} was used.")
            return name
    remedy = f"call the one that is meant {usual[0]}.npz"
    if kind == "TsGroup":
        raise RecordingError(f"{others}: {remedy}.")
    notes.append(f"The folder {others}: none was used as trials; {remedy}.")
    return None


def _read(file: Path, read: Callable):
    """`read(file)`; the name of the file is in each error."""
    with prefix_errors(file.name):
        check_content(file)
        with wrap_errors(partial(explain, path=file, kind=file.suffix)):
            return read(file)


def _read_object(file: Path) -> dict[str, np.ndarray]:
    """The arrays of an object of pynapple, without those that it pickles; {} of other arrays."""
    with np.load(file, allow_pickle=False) as archive:
        if not {"start", "end"} <= set(archive.files):  # every object of pynapple has both
            return {}
    return load_npz(file, omit=("_metadata", "columns"))


def _read_rate(file: Path) -> float:
    """`sample_rate` of `params.py`, in Hz. The file is not executed."""
    assignment = r"^\s*sample_rate\s*=\s*([\d._eE+]+)\s*(?:#.*)?$"
    (rate,) = re.findall(assignment, file.read_text("utf-8"), re.MULTILINE)
    return float(rate)


def _read_table(file: Path):
    """A table of pandas. Refuses rows longer than the header, whose last cells would be lost."""
    import pandas

    with warnings.catch_warnings():
        warnings.simplefilter("error", pandas.errors.ParserWarning)
        return pandas.read_csv(file, sep="\t" if file.suffix == ".tsv" else ",", index_col=False)


def _columns(frame) -> dict[str, np.ndarray]:
    """The columns of a table of pandas by name, numbers or text."""
    columns = {}
    for name, column in frame.items():
        is_number = column.dtype.kind in "biuf"
        columns[str(name)] = column.to_numpy() if is_number else column.fillna("").to_numpy(str)
    return columns
