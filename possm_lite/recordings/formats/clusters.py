"""Tables of clusters of phy, Kilosort and what others put beside them.

A table is what its columns say, not what its name says. Seen in folders:

* Kilosort 2.5 to 4 copy `cluster_KSLabel.tsv` as `cluster_group.tsv`, with the column KSLabel
  (Kilosort #498), until somebody saves in phy.
* `cluster_groups.csv` of the first phy has tabs, and so have copies as .csv (SpikeInterface #1167).
* `cluster_info.tsv` has all columns, and repeats those of the other files.
"""

import re
from collections.abc import Hashable, Mapping, Sequence

from ...errors import listed

_IDS = ("cluster_id", "unit_id", "cluster", "id")
_LABELS = ("group", "label", "kslabel")  # columns with labels, a person's first
_NUMBER = r"-?\d+(\.0)?"


def cluster_column(file_name: str, table) -> Hashable | None:
    """The column of a table that has the numbers of clusters; None if it is no table of clusters.

    Args:
        file_name: of the table. In `cluster*` the first column of whole numbers will do; elsewhere
            the column must be called cluster_id or unit_id, and the first not be time; in
            `*metrics*` the first may also have no name, as SpikeInterface writes it.
        table: of pandas.
    """
    names = {str(name).lower(): name for name in reversed(table.columns)}
    is_named_so = file_name.lower().startswith("cluster")
    first = next(iter(table.columns), None)
    if not is_named_so and str(first).lower() in ("time", "time_s"):
        return None
    for name in _IDS if is_named_so else _IDS[:2]:
        if name in names:
            return names[name]
    is_unnamed = "metrics" in file_name.lower() and str(first).startswith("Unnamed")
    may_be_first = len(table) > 0 and (is_named_so or is_unnamed)
    is_whole = may_be_first and (_numbers(table[first]) % 1 == 0).all()
    return first if is_whole else None


def cluster_table(tables: Mapping, notes: list[str]):
    """All columns of the tables of clusters, one row for each cluster and one column for each name.

    A column that several tables have is that of `cluster_info`, then that of the table which is
    called like the column, then of the others; where one has nothing, the next is asked.

    Args:
        tables: of pandas, by the names of their files; others than those of clusters are ignored.
        notes: gets a note of tables that differ, and of those that cannot be used.

    Returns:
        A table of pandas, whose index is the number of the cluster.
    """
    import pandas

    found: dict[str, dict] = {}  # by column and file
    for file_name, table in tables.items():
        id_column = cluster_column(file_name, table)
        if id_column is not None:
            for name, column in _by_cluster(table, id_column).items():
                found.setdefault(str(name), {})[file_name] = column
        elif file_name.startswith("cluster"):
            notes.append(f"{file_name} has no column cluster_id, and was not used.")
    merged = {}
    for name, columns in found.items():
        first, *others = sorted(columns, key=lambda file: _rank(file, name))
        column = columns[first]
        for file_name in others:
            _note_difference(name, column, columns[file_name], (first, file_name), notes)
            column = column.combine_first(columns[file_name])
        merged[name] = column
    return pandas.DataFrame(merged)


def _by_cluster(table, id_column: Hashable):
    """A table with the number of the cluster as its index, without rows that have none.

    Of a cluster with several rows the last one counts.
    """
    numbers = _numbers(table[id_column])
    is_valid = numbers % 1 == 0
    table = table[is_valid].drop(columns=id_column)
    table.index = numbers[is_valid].astype("int64")
    return table[~table.index.duplicated(keep="last")]


def _numbers(column):
    """A column of pandas as numbers, NaN for what is none."""
    import pandas

    return pandas.to_numeric(column, errors="coerce")


def _rank(file_name: str, column: str) -> tuple[bool, bool, str]:
    """Where a file stands among those that have this column: first ones count."""
    stem, _, suffix = file_name.rpartition(".")
    is_own = stem in ("cluster_info", f"cluster_{column}")
    return not is_own, suffix != "tsv", stem != "cluster_info", file_name


def _note_difference(name: str, column, other, files: tuple[str, str], notes: list[str]):
    """Note for how many clusters two columns of pandas of one name have different values."""
    column, other = column.dropna(), other.dropna()
    both = column.index.intersection(other.index)
    n = (column[both].astype(str) != other[both].astype(str)).sum()
    if n:
        notes.append(
            f"{name} of {n} clusters differs in {files[0]} and {files[1]}: {files[0]} was used."
        )


def noise_clusters(table):
    """The numbers of the clusters labelled noise, by a person or, without such, by Kilosort.

    Args:
        table: of `cluster_table`.
    """
    name = _label_column(table)
    if name is None:
        return table.index[:0]
    labels = table[name].astype(str).str.strip().str.lower()
    return table.index[labels == "noise"]


def _label_column(table) -> Hashable | None:
    """The column with the labels of clusters: a person's or, without such, Kilosort's."""
    names = {str(name).lower(): name for name in reversed(table.columns)}
    return next((names[name] for name in _LABELS if name in names), None)


def labels_in_words(table, clusters: Sequence[int]) -> str:
    """How many clusters have each label, and the filter of the good ones, to go on a sentence.

    "" where all have one label, or labels are numbers.

    Args:
        table: of `cluster_table`.
        clusters: numbers of those that are used.
    """
    column = _label_column(table)
    if column is None:
        return ""
    written = table[column].reindex(clusters).fillna("").astype(str)
    counts = written.str.strip().replace("", "without a label").value_counts()
    if len(counts) < 2 or counts.index.str.fullmatch(_NUMBER).any():
        return ""
    found = listed([f"{n} {label}" for label, n in counts.items()])
    good = written[written.str.strip().str.lower() == "good"].unique()
    name = re.sub(r"\W", "_", str(column))
    rule = f"; the good ones alone: --units \"{name} == '{good[0]}'\"" if len(good) == 1 else ""
    return f": {found} ({column}){rule}"


def note_unlabelled(table, clusters: Sequence[int], notes: list[str]):
    """Note how many clusters have spikes but no label, where most have one.

    phy: it writes those alone that somebody labelled, and a table that was cut has fewer: whoever
    labelled noise may believe that the others are left out too.

    Args:
        table: of `cluster_table`.
        clusters: numbers of those that are used.
        notes: gets the note.
    """
    name = _label_column(table)
    if name is None:
        return
    labels = table[name].reindex(clusters).fillna("").astype(str).str.strip()
    if len(labels) and labels.str.fullmatch(_NUMBER).all():
        notes.append(
            f"The labels of clusters, {name}, are numbers: which is noise is not known, so all "
            f'were used; leave some out with --units "{name} != 0".'
        )
    without = labels.index[labels == ""]
    if 0 < len(without) <= len(labels) / 2:  # else somebody labelled a few alone
        numbers = listed([str(number) for number in without])
        notes.append(
            f"{len(without)} of {len(labels)} clusters have spikes but no label in the column "
            f"{name}, and were used: {numbers}."
        )
