"""The spikes of the units that are chosen, sorted by time."""

import numpy as np

from ...errors import RecordingError
from .contents import Contents
from .select_rows import as_numbers, drop_rows, select_rows


def select_units(contents: Contents, expression: str, notes: list[str]) -> dict[str, np.ndarray]:
    times = as_numbers(contents.spike_times)
    units = np.asarray(contents.spike_units).astype(np.int64, casting="same_kind")
    names = np.asarray(contents.unit_ids).astype(str)
    times, units = drop_rows(~np.isfinite(times), (times, units), "spikes without a time", notes)
    span = np.ptp(times) if len(times) else 0.0
    by_unit = np.argsort(units, kind="stable")
    back = (np.diff(times[by_unit]) < -0.01 * span) & (np.diff(units[by_unit]) == 0)
    if 0 < back.sum() <= 2 * len(names):  # more: the spikes of a unit are not sorted at all
        seconds = times[by_unit[back.argmax()]]
        raise RecordingError(
            f"spike_times restart after {seconds:.1f} s: save the two blocks as two recordings."
        )
    order = np.argsort(times, kind="stable")
    times, units = times[order], units[order]
    rate = np.bincount(units, minlength=len(names)) / max(span, 1e-9)  # raises for a unit below 0
    kept = select_rows(
        "units", expression, {"id": names, "rate": rate, **contents.unit_table}, notes
    )
    is_kept = kept[units]
    new_units = np.cumsum(kept) - 1
    return {
        "spike_times": times[is_kept],
        "spike_units": new_units[units[is_kept]],
        "unit_ids": names[kept],
    }
