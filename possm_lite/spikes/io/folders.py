"""Folders of phy or Kilosort, and of pynapple.

* phy: `spike_times.npy`, `spike_clusters.npy`, `params.py`, tables of clusters, and beside them a CSV file of behaviour
  whose first column, `time` or `time_s`, is seconds since the first sample, and perhaps `trials.csv` with `start` and
  `stop`.
* pynapple: a `TsGroup`, and `Tsd`, `TsdFrame` and `IntervalSet`, each saved as an `.npz`. What is in them as a pickle,
  `_metadata` and names of columns, is not read.
"""

import re
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from ...errors import RecordingError, prefix_errors, wrap_errors
from ..arrays import MAX_BYTES, check_readable, load_npz
from .contents import Contents, Series, intervals

_SECONDS = re.compile(r"((time|timestamp|t)s?([ _]\(?(s|sec|seconds)\)?)?|s|sec|seconds)", re.IGNORECASE)  # "time (s)"


def read_phy(path: Path) -> Contents:
    """Spikes without the clusters labelled noise, the tables of clusters for filters, behaviour and trials."""
    import pandas

    def columns(frame) -> dict[str, np.ndarray]:
        return {n: c.to_numpy() if c.dtype.kind in "biuf" else c.fillna("").to_numpy(str) for n, c in frame.items()}

    samples, clusters = (_read(path / f"spike_{x}.npy", _read_whole_numbers) for x in ("times", "clusters"))
    if samples.shape != clusters.shape:
        raise RecordingError(f"spike_times.npy has {samples.size} spikes, spike_clusters.npy {clusters.size}.")
    rate = _read(path / "params.py", _read_rate)
    info = path / "cluster_info.tsv"
    files = [info] if info.exists() else sorted(path.glob("cluster_*.tsv"))
    by_cluster = [_read(file, partial(_read_table, index=("cluster_id", "id"))) for file in files]
    table = pandas.concat([pandas.DataFrame(), *by_cluster], axis=1)
    noise = table.index[table.get("group", table.get("KSLabel", table.index)) == "noise"]
    kept = ~np.isin(clusters, noise)
    unit_ids, spike_units = np.unique(clusters[kept], return_inverse=True)
    tables = {file.name: columns(_read(file, _read_table)) for file in sorted(path.glob("*.csv"))}
    trials = tables.pop("trials.csv", {})
    if len(tables) > 1:
        raise RecordingError(f"has {len(tables)} tables of behaviour, {', '.join(tables)[:200]}.")
    file, behavior = next(iter(tables.items()), ("", {"time": np.empty(0)}))
    if not _SECONDS.fullmatch(first := next(iter(behavior))):
        raise RecordingError(f"{file}: the first column must be time or time_s, in seconds, not {first!r:.80}.")
    times = behavior.pop(first)
    return Contents(
        samples[kept] / rate,
        spike_units,
        unit_ids,
        [Series(n, lambda c=c: (times, c), shape=c.shape) for n, c in behavior.items()],
        session_id=path.resolve().name,
        trials=intervals(trials),
        unit_table=columns(table.reindex(unit_ids)),
        trial_table=trials,
        notes=(f"{len(noise)} of {len(table)} clusters, labelled noise, were left out.",) if len(noise) else (),
    )


def read_pynapple(path: Path) -> Contents:
    """The TsGroup as spikes, each Tsd and TsdFrame as a series with the name of its file, an IntervalSet as trials."""
    files = sorted(path.glob("*.npz"))
    objects = {file.stem: _read(file, partial(load_npz, omit=("_metadata", "columns"))) for file in files}
    kinds = {name: str(arrays.get("type", ["no object of pynapple"])[0]) for name, arrays in objects.items()}
    groups, trials = ([objects[n] for n in objects if kinds[n] == kind] for kind in ("TsGroup", "IntervalSet"))
    if len(groups) != 1 or len(trials) > 1:
        raise RecordingError(f"must have one TsGroup and at most one IntervalSet, not {kinds}. See CONVERTERS.md.")
    keys, index = np.unique(groups[0]["keys"]), groups[0]["index"]
    spike_units = np.searchsorted(keys, index)
    if {keys.dtype.kind, index.dtype.kind} - set("iu") or not np.isin(index, keys).all():
        raise RecordingError(
            f"index of the TsGroup must be whole numbers, all of them keys: {str(keys.tolist())[:200]}."
        )
    others = [name for name, kind in kinds.items() if kind not in ("TsGroup", "IntervalSet", "Tsd", "TsdFrame")]
    return Contents(
        groups[0]["t"],
        spike_units,
        keys,
        [
            Series(name, lambda a=arrays: (a["t"], a["d"]), shape=arrays["d"].shape)
            for name, arrays in objects.items()
            if kinds[name] in ("Tsd", "TsdFrame")
        ],
        session_id=path.resolve().name,
        trials=intervals(trials[0] if trials else {}, "start", "end"),
        notes=(f"Not read, as no Tsd, TsdFrame or IntervalSet: {', '.join(others)[:300]}.",) if others else (),
    )


# Files of a folder


def _read(file: Path, read: Callable):
    """`read(file)`; the name of the file is in each error. A folder has files of anybody: pipes, links, huge ones."""
    with prefix_errors(file.name), wrap_errors("is damaged"):
        check_readable(file)
        if (size := file.stat().st_size) > MAX_BYTES:
            raise RecordingError(f"has {size} bytes, more than {MAX_BYTES}.")
        return read(file)


def _read_whole_numbers(file: Path) -> np.ndarray:
    """The array of an `.npy` file, flat, mapped, as a header may declare more than the file has."""
    array = np.load(file, mmap_mode="r").ravel()
    if array.dtype.kind not in "iu":
        raise RecordingError(f"must hold whole numbers, times in samples or clusters, not {array.dtype}.")
    return array


def _read_rate(file: Path) -> float:
    """`sample_rate` of params.py, in Hz."""
    found = re.findall(r"^\s*sample_rate\s*=\s*([\d._eE+]+)\s*(?:#.*)?$", file.read_text("utf-8"), re.MULTILINE)
    if len(found) != 1 or not 0 < float(found[0]) < np.inf:
        raise RecordingError("must have one line sample_rate = NUMBER, in Hz.")
    return float(found[0])


def _read_table(file: Path, index: Sequence[str] = ()):
    """A table of pandas, whose first column names the rows if it must have one of the names in `index`."""
    import pandas

    with warnings.catch_warnings():  # of rows longer than the header, whose last cells would be left out
        warnings.simplefilter("error", pandas.errors.ParserWarning)
        table = pandas.read_csv(file, sep="\t" if file.suffix == ".tsv" else ",", index_col=False)
    names = [str(name) for name in table.columns]  # pandas calls the second of two "stop.1"
    if re.fullmatch(r"[-+.\d][-+.\de]*", names[0]):
        raise RecordingError(f"must have the names of its columns in the first line, not {', '.join(names)[:80]}.")
    if twice := [name for name in names if (first := re.sub(r"\.\d+$", "", name)) != name and first in names]:
        raise RecordingError(f"has two columns of one name: {', '.join(twice)[:200]}.")
    if index and table.columns[0] not in index:
        raise RecordingError(f"has the first column {table.columns[0]!r:.80}, not {' or '.join(index)}.")
    return table.set_index(table.columns[0]) if index else table
