"""The spikes of the units that are chosen, sorted by time.

Rules about spikes and units, for all formats, belong here; what is special to one format, such as
the labels of its sorter, belongs to its reader.
"""

import numpy as np

from ...errors import RecordingError
from ..clocks import check_possible, check_trains, impossible_times, note_impossible, padding
from .contents import Contents
from .select_rows import as_numbers, select_rows


def select_units(contents: Contents, expression: str, notes: list[str]) -> dict[str, np.ndarray]:
    """The spikes of the units that a filter chooses.

    Args:
        contents: what is in the file.
        expression: the filter, of the columns of the file's table of units, `id` and `rate` in Hz;
            "" for all.
        notes: gets a note of each choice and of spikes that are left out.

    Returns:
        `spike_times`, `spike_units` and `unit_ids` as in `Recording`.

    Raises:
        RecordingError: the filter chooses no unit, or the clock of those that it chooses restarts.
    """
    times = as_numbers(contents.spike_times)
    units = np.asarray(contents.spike_units).astype(np.int64, casting="same_kind")
    names = np.asarray(contents.unit_ids).astype(str)
    if len(times) != len(units):
        raise RecordingError(
            f"there are {len(times):,} spike times, but units of {len(units):,} spikes: one of the "
            "two was cut, or is of another sorting. Export both again."
        )
    impossible = impossible_times(times) | padding(times, units)
    rate = _rates(*_rows(~impossible, times, units), len(names))
    table = {"id": names, "rate": rate, **contents.unit_table}
    kept = select_rows("units", expression, table, notes)
    # filters come before checks: a unit with bad times can be left out
    times, units, impossible = _rows(kept[units], times, units, impossible)
    if impossible.any():
        check_possible(impossible, times, units, names)
        notes += note_impossible(impossible, times, units, names)
        times, units = _rows(~impossible, times, units)
    notes += check_trains(times, units, names)
    order = np.argsort(times, kind="stable")
    new_units = np.cumsum(kept) - 1  # index among the units that are kept, (U,)
    return {
        "spike_times": times[order],
        "spike_units": new_units[units[order]],
        "unit_ids": names[kept],
    }


def _rows(kept: np.ndarray, *arrays: np.ndarray) -> tuple[np.ndarray, ...]:
    """The rows of arrays, (N,) each, that are kept; the arrays themselves if all are."""
    return arrays if kept.all() else tuple(array[kept] for array in arrays)


def _rates(times: np.ndarray, units: np.ndarray, n_units: int) -> np.ndarray:
    """Spikes of each unit per second of the time from the first to the last of all, (U,) Hz."""
    span = np.ptp(times) if len(times) else 0.0
    # raises for a unit below 0
    return np.bincount(units, minlength=n_units) / max(span, 1e-9)
