"""The units of an NWB file: where their tables are, and ids that differ."""

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from ...errors import RecordingError, as_option, listed
from .hdf5 import find, read_columns

# in the name of a column that tells two probes apart, the likeliest first
_PROBES = ("probe", "imec", "group", "device", "array", "shank", "area", "location", "")


class Units(NamedTuple):
    """Units of one or several tables.

    Attributes:
        spike_times: seconds, in the order of the file, (N,).
        spike_units: index of the unit of each spike, (N,).
        ids: of the units, all different, (U,).
        table: further columns, (U,) each.
        observed: start and stop in seconds of the intervals in which any unit was observed, (m, 2);
            None: nothing is said of it.
    """

    spike_times: np.ndarray
    spike_units: np.ndarray
    ids: np.ndarray
    table: dict[str, np.ndarray]
    observed: np.ndarray | None


def read_units(file, notes: list[str]) -> Units:
    """The units of /units, or without spikes there of all tables of units in other places.

    From reports: a table for each probe in processing/ecephys (neuroconv #1447); a table without
    spike_times (neuroconv #422).

    Args:
        file: of h5py.
        notes: gets a note of tables in other places, and of ids that repeat.

    Raises:
        RecordingError: there is no table with spikes, or ids repeat and no column tells them apart.
    """
    main = find_group(file, "units")
    elsewhere = _other_tables(file)
    if "spike_times" in main:
        if elsewhere:
            others = listed(list(elsewhere))
            notes.append(f"Units were read from units; there are others in {others}, not read.")
        units = _read_table(main)
    elif elsewhere:
        units = _joined(elsewhere)
        n_units = [f"{name} ({len(table['id'])})" for name, table in elsewhere.items()]
        note = f"Units are not in units, but in {listed(n_units)}, and were read from there"
        if "probe" in units.table:
            probe = units.table["probe"][0]
            note += f"; one probe: {as_option('units', f'probe == {str(probe)!r}')}"
        notes.append(f"{note}.")
    elif main:
        raise RecordingError(
            f"the table of units has no spike_times, only {listed(list(main))}: export the sorted "
            "spikes too."
        )
    else:
        raise RecordingError(
            "has no table of units, in units or elsewhere: it needs sorted spikes, spike_times of "
            "each unit; of counts in bins see CONVERTERS.md."
        )
    return units._replace(ids=distinct_ids(units.ids, units.table, notes))


def _other_tables(file) -> dict:
    """Tables of units with spikes in processing modules, in analysis and scratch, by address."""
    modules = [f"processing/{name}" for name in find_group(file, "processing")]
    tables = {}
    for address in [*modules, "analysis", "scratch"]:
        for name, group in members(find_group(file, address)).items():
            if hasattr(group, "keys") and {"spike_times", "id"} <= set(group.keys()):
                tables[f"{address}/{name}"] = group
    return tables


def _read_table(table) -> Units:
    """The units of one table."""
    times, units = _read_ragged(table, "spike_times")
    observed = None
    if "obs_intervals" in table:
        observed = np.unique(_read_ragged(table, "obs_intervals")[0], axis=0)
    return Units(times, units, table["id"][()], plain_columns(table), observed)


def _joined(tables: Mapping) -> Units:
    """The units of all tables, those of several as "imec0/3" of the table units_imec0."""
    parts = [_read_table(table) for table in tables.values()]
    if len(parts) == 1:
        return parts[0]
    names = [re.sub(r"^units?_|_units?$", "", name.rpartition("/")[2]) for name in tables]
    if len(set(names)) < len(names):
        names = list(tables)
    sizes = [len(part.ids) for part in parts]
    first = np.cumsum(sizes) - sizes
    ids = [f"{name}/{i}" for name, part in zip(names, parts, strict=True) for i in part.ids]
    # a probe that says nothing of when it was on may have been on throughout
    observed = [part.observed for part in parts]
    is_known = all(one is not None for one in observed)
    return Units(
        np.concatenate([part.spike_times for part in parts]),
        np.concatenate([k + part.spike_units for k, part in zip(first, parts, strict=True)]),
        np.array(ids),
        {"probe": np.repeat(names, sizes), **_common_columns(parts)},
        np.concatenate(observed) if is_known else None,
    )


def _common_columns(parts: Sequence[Units]) -> dict[str, np.ndarray]:
    """The columns that all tables have, as numbers or as text, one table after the other."""
    columns = {}
    for name in parts[0].table:
        found = [part.table[name] for part in parts if name in part.table]
        is_text = {column.dtype.kind == "U" for column in found}
        if len(found) == len(parts) and len(is_text) == 1:
            columns[name] = np.concatenate(found)
    return columns


def distinct_ids(ids: np.ndarray, table: Mapping[str, np.ndarray], notes: list[str]) -> np.ndarray:
    """The ids of units, with the probe before them where they repeat.

    From reports: each probe counts its units from 0 (neuroconv #1447).

    Args:
        ids: of the units, (U,).
        table: further columns, (U,) each.
        notes: gets a note if ids repeat.

    Returns:
        Ids that differ, (U,).

    Raises:
        RecordingError: no column tells units with the same id apart.
    """
    values, counts = np.unique(ids, return_counts=True)
    if len(values) == len(ids):
        return ids
    ranked = sorted(
        table, key=lambda name: next(i for i, word in enumerate(_PROBES) if word in name.lower())
    )
    for name in ranked:
        column = table[name]
        if len(column) != len(ids) or column.dtype.kind not in "iUb":
            continue
        named = np.array([f"{value}/{i}" for value, i in zip(column, ids, strict=True)])
        if len(np.unique(named)) == len(ids):
            n = (counts > 1).sum()
            notes.append(
                f"{n} ids of units repeat, as each probe counts from 0; the column {name} tells "
                f"them apart, so units are named as {named[0]}."
            )
            return named
    columns = listed(list(table)) or "none"
    raise RecordingError(
        f"the id {values[counts > 1][0]} is of several units, and no column of the table tells "
        f"them apart ({columns}): give each unit an id of its own, or a column that says its probe."
    )


def find_group(file, address: str):
    """The group at an address, {} where nothing is.

    Args:
        file: of h5py.
        address: names of groups, with slashes between them.

    Raises:
        RecordingError: there is a data set, which may be too large to be read through.
    """
    group = find(file, address)
    if group is None:
        return {}
    if not hasattr(group, "keys"):
        raise RecordingError(f"{address} must be a group of NWB, but is an array: it is damaged.")
    return group


def members(module) -> dict:
    """What is in a `module` of HDF5, and what is in its containers, as "container/name"."""
    # None for a link to a file that is not there
    members = {name: module.get(name) for name in module}
    nested = {}
    for name, member in members.items():
        if hasattr(member, "keys") and "data" not in member:
            for part in member:
                nested[f"{name}/{part}"] = member.get(part)
    return members | nested


def _read_ragged(units, name: str) -> tuple[np.ndarray, np.ndarray]:
    """All entries of a ragged column of the table of units, and the unit of each."""
    values = units[name][()]
    if f"{name}_index" not in units:
        raise RecordingError(
            f"the table of units has {name}, but no {name}_index, which says whose they are."
        )
    index = units[f"{name}_index"][()]
    if index.dtype.kind not in "iu":
        raise RecordingError(f"units/{name}_index must hold whole numbers, not {index.dtype}.")
    counts = np.diff(index.astype(np.int64), prepend=0)
    if (counts < 0).any() or counts.sum() != len(values):
        raise RecordingError(
            f"units/{name}_index must divide all {len(values)} entries among the units."
        )
    return values, np.repeat(np.arange(len(units["id"])), counts)


def plain_columns(table) -> dict[str, np.ndarray]:
    """The columns of a `table` that are not ragged, (n,) each, without its ids; {} of None.

    Of a column of references (groups of electrodes), the names of what they refer to.
    """
    columns = read_columns(table)
    plain = {}
    for name, column in columns.items():
        is_ragged = name.endswith("_index") or f"{name}_index" in columns
        if name != "id" and not is_ragged:
            plain[name] = column
    for name, data in (table or {}).items():
        if _is_references(data):
            targets = [table.file[target].name if target else "" for target in data[()]]
            plain[name] = np.array([target.rpartition("/")[2] for target in targets], dtype=str)
    return plain


def _is_references(data) -> bool:
    """Whether a data set is a column of references, such as to groups of electrodes."""
    import h5py

    is_column = getattr(data, "ndim", 0) == 1 and "table" not in data.attrs
    return is_column and h5py.check_ref_dtype(data.dtype) is h5py.Reference
