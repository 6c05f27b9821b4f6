"""Folders of phy or Kilosort, and of pynapple.

* phy: `spike_times.npy`, samples; `spike_clusters.npy`; `params.py`; tables of clusters; and beside
  them a CSV file of behaviour whose first column, time or time_s, is seconds since the first
  sample, and perhaps `trials.csv` with the columns start and stop.
* pynapple: a TsGroup, and Tsd, TsdFrame and IntervalSet, each saved as an `.npz`. What is in them
  as a pickle, metadata and names of columns, is not read: labels of trials are a Tsd with a sample
  in each trial, or an array beside start and end.
"""

import io
import re
import warnings
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import numpy as np

from ...errors import RecordingError, listed, prefix_errors, wrap_errors
from ..arrays import load_npz
from .clusters import (
    cluster_column,
    cluster_table,
    labels_in_words,
    noise_clusters,
    note_unlabelled,
)
from .contents import Contents, Series, columns_of_trials, intervals, series_in_memory
from .explain import check_content, explain
from .text import read_text

# names of the first column of behaviour, in lower case and without a unit, which must be seconds
_TIME = ("time", "times", "time_s", "timestamp", "timestamps", "t", "seconds", "sec")
_SECONDS = re.compile(r"[\s_]*[\[(]\s*(s|sec|seconds?)\s*[\])]$")
_USUAL_BEHAVIOR = ("behavior.csv", "behaviour.csv")
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
    notes: list[str] = []
    samples = _whole(path / "spike_times.npy", "samples")
    clusters = _whole(_cluster_file(path, notes), "numbers of clusters")
    if len(samples) != len(clusters):
        raise RecordingError(
            f"spike_times.npy has {len(samples)} spikes, spike_clusters.npy {len(clusters)}: "
            "one of them is of another sorting."
        )
    tables = {file.name: _read(file, _read_table) for file in _table_files(path, notes)}
    table = cluster_table(tables, notes)
    is_noise = np.isin(clusters, noise_clusters(table))
    _note_labels(clusters, is_noise, table, notes)
    note_unlabelled(table, np.unique(clusters[~is_noise]), notes)
    # Kilosort #645: before the first sample; as unsigned integers they wrapped
    is_early = _signed(samples) < 0
    if is_early.any():
        notes.append(
            f"{is_early.sum()} of {len(samples)} spikes without a possible time were left out: "
            "they are before the first sample."
        )
    kept = ~is_noise & ~is_early
    unit_ids = np.unique(clusters[~is_noise])
    trials = _columns(tables["trials.csv"]) if "trials.csv" in tables else {}
    series, behavior_error = _behavior_series(tables, notes)
    return Contents(
        samples[kept] / _read_params(path),
        np.searchsorted(unit_ids, clusters[kept]),
        unit_ids,
        series,
        session_id=path.resolve().name,
        trials=_trials(trials),
        unit_table=_columns(table.reindex(unit_ids)),
        trial_table=trials,
        behavior_error=behavior_error,
        notes=tuple(notes),
    )


def _whole(file: Path, what: str) -> np.ndarray:
    """The whole numbers in a file of NumPy, (N,); MATLAB may write them as floating-point numbers.

    Args:
        file: of the folder.
        what: they are, for a message.
    """
    numbers = _read(file, np.load).ravel()
    if numbers.dtype.kind == "f" and (numbers % 1 == 0).all():
        numbers = numbers.astype(np.int64)
    if numbers.dtype.kind not in "iu":
        found = "numbers with decimals" if numbers.dtype.kind == "f" else "no numbers"
        raise RecordingError(
            f"{file.name} must hold {what}, whole numbers, as the sorter writes them, not {found}."
        )
    return numbers


def _cluster_file(path: Path, notes: list[str]) -> Path:
    """The file with the cluster of each spike; before anybody curates, that of its template."""
    templates = path / "spike_templates.npy"
    if (path / "spike_clusters.npy").exists() or not templates.exists():
        return path / "spike_clusters.npy"
    notes.append("There is no spike_clusters.npy: clusters are those of spike_templates.npy.")
    return templates


def _read_params(path: Path) -> float:
    """The sampling rate of a folder of phy, Hz."""
    if not (path / "params.py").exists():
        raise RecordingError(
            "has no params.py, which says the sampling rate: write one with the line "
            "sample_rate = 30000., or with what your amplifier has."
        )
    return _read(path / "params.py", _read_rate)


def _signed(samples: np.ndarray) -> np.ndarray:
    """Whole numbers, (N,), as the signed ones of 64 bits that they are, or that wrapped."""
    return samples.view(np.int64) if samples.dtype == np.uint64 else samples


def _note_labels(clusters: np.ndarray, is_noise: np.ndarray, table, notes: list[str]):
    """Note how many clusters are used of each label, and left out as noise.

    Kilosort #498: most label their clusters by KSLabel alone, and mua is used with the good ones.

    Args:
        clusters: number of the cluster of each spike, (N,).
        is_noise: for each spike whether its cluster is noise, (N,), bool.
        table: of `cluster_table`.
        notes: gets the note.

    Raises:
        RecordingError: all are noise.
    """
    used = np.unique(clusters[~is_noise])
    n_noise = len(np.unique(clusters[is_noise]))
    if n_noise and not len(used):
        raise RecordingError(f"all {n_noise} clusters are labelled noise: no spikes are left.")
    labels = labels_in_words(table, used)
    noise = f"; {n_noise} labelled noise {'was' if n_noise == 1 else 'were'} left out" * (
        n_noise > 0
    )
    if labels or noise:
        notes.append(f"{len(used)} clusters were used{labels}{noise}.")


def _trials(table: dict[str, np.ndarray]) -> np.ndarray:
    """Start and stop of each trial in s, (n, 2), taken out of the columns of `trials.csv`."""
    if table and not {"start", "stop"} <= table.keys():
        raise RecordingError(
            f"trials.csv must have the columns start and stop, in seconds, not {listed([*table])}."
        )
    return intervals(table)


def _behavior_series(tables: Mapping, notes: list[str]) -> tuple[list[Series], str]:
    """A series for each column of the table of behaviour.

    It is the CSV file whose first column is time. Tables of clusters are none, whatever their name
    (SpikeInterface #1167: a copy of `cluster_info.tsv` as .csv), nor is `trials.csv`, nor one
    without numbers, as of events.

    Args:
        tables: of pandas, by the names of their files.
        notes: gets a note if there are others.

    Returns:
        The series, and why they are none, which is an error only if behaviour is wanted.
    """
    others = {
        name: _columns(_without_index(table))
        for name, table in tables.items()
        if name.endswith(".csv") and name != "trials.csv" and cluster_column(name, table) is None
    }
    timed = {name: table for name, table in others.items() if _has_time_and_numbers(table)}
    usual = [name for name in timed if name.lower() in _USUAL_BEHAVIOR]
    if len(timed) > 1 and len(usual) == 1:
        notes.append(f"Of the tables {listed(list(timed))} {usual[0]} was used as behaviour.")
        timed = {usual[0]: timed[usual[0]]}
    if len(timed) > 1:
        names = ", ".join(timed)[:200]
        return [], f"has {len(timed)} tables of behaviour, {names}: keep one, move the others."
    untimed = {name: table for name, table in others.items() if not _is_timed(table)}
    if not timed and untimed:
        name, table = next(iter(untimed.items()))
        first = next(iter(table), "")
        return [], f"{name}: the first column must be time, in seconds, not {first!r:.80}."
    if not timed:
        return [], (
            "has no table of behaviour: put behavior.csv into the folder, with a first column time "
            "(s from the first sample of the recording) and a column for each signal, such as "
            "hand_vel_x, hand_vel_y."
        )
    series = []
    for table in timed.values():
        first, *names = table
        series += [series_in_memory(name, table[first], table[name]) for name in names]
    return series, ""


def _without_index(table):
    """A table of pandas without a first column that merely counts its rows, as pandas writes it."""
    first = next(iter(table.columns), "")
    if not str(first).startswith("Unnamed") or len(table.columns) < 3:
        return table
    is_count = np.array_equal(table[first].to_numpy(), np.arange(len(table)))
    return table.drop(columns=first) if is_count else table


def _is_timed(table: Mapping[str, np.ndarray]) -> bool:
    """Whether the first column of a table is time in seconds."""
    return _SECONDS.sub("", next(iter(table), "").strip().lower()) in _TIME


def _has_time_and_numbers(table: Mapping[str, np.ndarray]) -> bool:
    """Whether the first column of a table is time in seconds, and another one has numbers."""
    _, *others = [*table, ""]
    return _is_timed(table) and any(table[other].dtype.kind in "biuf" for other in others[:-1])


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
    table = dict(objects[trials]) if trials else {}
    spans = intervals(table, "start", "end")
    table.pop("type", None)
    if "keys" not in group:  # older versions of pynapple
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
        trials=spans,
        trial_table=columns_of_trials(table, len(spans)),
        observed=_support(group),
        observed_name="the epochs of the TsGroup",
        notes=tuple(notes),
    )


def _support(group: Mapping[str, np.ndarray]) -> np.ndarray | None:
    """Epochs, (m, 2) s, in which spikes of a TsGroup are valid; None where it was not restricted.

    pynapple #53: spikes were restricted to epochs before they were saved, behaviour was not. A
    group that was not is valid from its first spike to its last, which is no restriction.
    """
    if len(group["t"]) == 0:
        return None
    epochs = np.column_stack((group["start"], group["end"]))
    extent = np.array([[group["t"].min(), group["t"].max()]])
    is_extent = len(epochs) == 1 and np.allclose(epochs, extent, rtol=0, atol=1e-5)
    return None if is_extent or len(epochs) == 0 else epochs


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
    others = f"has {len(names)} files of the kind {kind}, {listed(names)}"
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
    rates = re.findall(assignment, read_text(file), re.MULTILINE)
    if not rates:
        raise RecordingError("has no line such as sample_rate = 30000.")
    return float(rates[-1])  # as Python would have it


def _table_files(path: Path, notes: list[str]) -> list[Path]:
    """The tables in a folder: all CSV files, and of clusters also TSV files; a note if empty."""
    files = []
    for file in sorted([*path.glob("cluster*.tsv"), *path.glob("*.csv")]):
        if file.is_file() and file.stat().st_size == 0:  # phy was stopped while it saved
            notes.append(f"{file.name} is empty, and was not used.")
        else:
            files.append(file)
    return files


def _read_table(file: Path):
    """A table of pandas, its columns apart by tabs or commas whatever the file is called.

    SpikeInterface #1167: tables with tabs are called .csv. Spreadsheets write semicolons, and
    commas in numbers. Refuses rows longer than the header, whose last cells would be lost.
    """
    import pandas

    text = read_text(file)
    header = text.lstrip().partition("\n")[0]
    usual = "\t" if file.suffix == ".tsv" else ","
    separator = next((one for one in (usual, "\t", ";", ",") if one in header), usual)
    if separator not in header and " " in header.strip():
        separator = r"\s+"
    if ";" in header:  # of a spreadsheet, in whose country commas are in numbers
        separator = ";"
    decimal = "," if separator == ";" and re.search(r"\d,\d", text) else "."
    with warnings.catch_warnings():
        warnings.simplefilter("error", pandas.errors.ParserWarning)
        table = pandas.read_csv(io.StringIO(text), sep=separator, index_col=False, decimal=decimal)
    return table.rename(columns=lambda name: str(name).strip())


def _columns(frame) -> dict[str, np.ndarray]:
    """The columns of a table of pandas by name, numbers or text."""
    columns = {}
    for name, column in frame.items():
        is_number = column.dtype.kind in "biuf"
        columns[str(name)] = column.to_numpy() if is_number else column.fillna("").to_numpy(str)
    return columns
