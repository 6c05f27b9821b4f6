"""Folders of phy or Kilosort, and of pynapple.

* phy: `spike_times.npy`, `spike_clusters.npy`, `params.py`, tables of clusters, and beside them a CSV file of behaviour
  whose first column is the time in seconds since the first sample, and perhaps `trials.csv` with `start` and `stop`.
* pynapple: a `TsGroup`, and `Tsd`, `TsdFrame` and `IntervalSet`, each saved as an `.npz`. What is in them as a pickle,
  `_metadata` and names of columns, is not read.
"""

import re
from pathlib import Path

import numpy as np

from ...errors import RecordingError
from ..arrays import load_npz
from .contents import Contents, Series, intervals


def read_phy(path: Path) -> Contents:
    """Spikes without the clusters labelled noise, the tables of clusters for filters, behaviour and trials."""
    import pandas

    def columns(frame) -> dict[str, np.ndarray]:
        return {n: c.to_numpy() if c.dtype.kind in "biuf" else c.fillna("").to_numpy(str) for n, c in frame.items()}

    # mapped, as a header may declare more than the file has
    samples, clusters = (np.load(path / f"spike_{x}.npy", mmap_mode="r").ravel() for x in ("times", "clusters"))
    rate = re.search(r"^\s*sample_rate\s*=\s*([\d._eE+]+)", (path / "params.py").read_text("utf-8"), re.MULTILINE)
    if samples.dtype.kind not in "iu" or not rate:
        raise RecordingError(f"needs spike_times.npy in samples, not {samples.dtype}, and a sample_rate in params.py.")
    info = path / "cluster_info.tsv"
    files = [info] if info.exists() else sorted(path.glob("cluster_*.tsv"))
    table = pandas.concat([pandas.DataFrame(), *(pandas.read_csv(f, sep="\t", index_col=0) for f in files)], axis=1)
    noise = table.index[table.get("group", table.get("KSLabel", table.index)) == "noise"]
    kept = ~np.isin(clusters, noise)
    unit_ids, spike_units = np.unique(clusters[kept], return_inverse=True)
    tables = {file.name: columns(pandas.read_csv(file)) for file in path.glob("*.csv")}
    trials = tables.pop("trials.csv", {})
    if len(tables) > 1:
        raise RecordingError(f"has {len(tables)} tables of behaviour, {', '.join(tables)[:200]}.")
    behavior = next(iter(tables.values()), {"time": np.empty(0)})
    if not re.fullmatch(r"(time|timestamp|t)s?( \(s\))?", first := next(iter(behavior)), re.IGNORECASE):
        raise RecordingError(f"the first column of the table of behaviour must be time in seconds, not {first!r}.")
    times = behavior.pop(first)
    return Contents(
        samples[kept] / float(rate[1]),
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
    objects = {file.stem: load_npz(file, omit=("_metadata", "columns")) for file in sorted(path.glob("*.npz"))}
    kinds = {name: str(arrays.get("type", ["no object of pynapple"])[0]) for name, arrays in objects.items()}
    groups, trials = ([objects[n] for n in objects if kinds[n] == kind] for kind in ("TsGroup", "IntervalSet"))
    if len(groups) != 1 or len(trials) > 1:
        raise RecordingError(f"must have one TsGroup and at most one IntervalSet, not {kinds}. See CONVERTERS.md.")
    group = groups[0]  # its keys are sorted
    keys, spike_units = np.unique(np.append(group["keys"], group["index"]), return_inverse=True)
    return Contents(
        group["t"],
        spike_units[len(group["keys"]) :],
        keys,
        [
            Series(name, lambda a=arrays: (a["t"], a["d"]), shape=arrays["d"].shape)
            for name, arrays in objects.items()
            if kinds[name] in ("Tsd", "TsdFrame")
        ],
        session_id=path.resolve().name,
        trials=intervals(trials[0] if trials else {}, "start", "end"),
    )
