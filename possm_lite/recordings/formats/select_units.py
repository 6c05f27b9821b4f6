"""The spikes of the units that are chosen, sorted by time.

Rules about spikes and units, for all formats, belong here; what is special to one format, such as
the labels of its sorter, belongs to its reader.
"""

import numpy as np

from ...errors import RecordingError
from .contents import Contents
from .select_rows import as_numbers, drop_rows, select_rows


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
        RecordingError: the clock of the spikes restarts, or the filter chooses no unit.
    """
    times = as_numbers(contents.spike_times)
    units = np.asarray(contents.spike_units).astype(np.int64, casting="same_kind")
    names = np.asarray(contents.unit_ids).astype(str)
    times, units = drop_rows(~np.isfinite(times), (times, units), "spikes without a time", notes)
    span = np.ptp(times) if len(times) else 0.0
    _check_restart(times, units, len(names), span)
    order = np.argsort(times, kind="stable")
    times, units = times[order], units[order]
    rate = np.bincount(units, minlength=len(names)) / max(span, 1e-9)  # raises for a unit below 0
    table = {"id": names, "rate": rate, **contents.unit_table}
    kept = select_rows("units", expression, table, notes)
    is_kept = kept[units]
    new_units = np.cumsum(kept) - 1  # index among the units that are kept, (U,)
    return {
        "spike_times": times[is_kept],
        "spike_units": new_units[units[is_kept]],
        "unit_ids": names[kept],
    }


def _check_restart(times: np.ndarray, units: np.ndarray, n_units: int, span: float):
    """Raise RecordingError if the times of a few units go back by 1 % of the span or more.

    Times, (N,) s, and units, (N,), are in the order of the file. Where there are more steps back,
    the spikes of a unit are not sorted at all.
    """
    by_unit = np.argsort(units, kind="stable")
    is_same_unit = np.diff(units[by_unit]) == 0
    back = (np.diff(times[by_unit]) < -0.01 * span) & is_same_unit
    if 0 < back.sum() <= 2 * n_units:
        seconds = times[by_unit[back.argmax()]]
        raise RecordingError(
            f"spike_times restart after {seconds:.1f} s: save the two blocks as two recordings."
        )
