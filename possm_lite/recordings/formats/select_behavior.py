"""What is decoded: the series that are chosen, at increasing times, positions differentiated."""

from collections.abc import Sequence

import numpy as np

from ...errors import RecordingError, listed
from .contents import Contents, Selection, Series
from .join_series import common_times, joined_series
from .load_series import load_series
from .select_rows import drop_rows
from .series_names import RAW, SERIES, find_series, list_series, role_of


def select_behavior(contents: Contents, selection: Selection, notes: list[str]) -> dict:
    """The fields of a Recording that begin with `behavior`."""
    series = [*joined_series(contents.series), *contents.series]
    names = selection.behavior or contents.default
    loaded = [
        load_series(find_series(name.removesuffix(RAW), series), name.endswith(RAW), notes)
        for name in names
    ]
    loaded = loaded or [_load_default(series, notes)]
    parts = [part for part, _, _ in loaded]
    times = common_times({part.name: times for part, times, _ in loaded})
    name = " + ".join(part.name for part in parts)
    unit = ", ".join(dict.fromkeys(part.unit for part in parts))
    columns = [
        column if len(parts) == 1 else f"{part.name} {column}"
        for part in parts
        for column in part.columns
    ]
    places = {str(i): i for i in range(len(columns))} | {
        column: i for i, column in enumerate(columns)
    }
    if missing := [column for column in selection.columns if column not in places]:
        raise RecordingError(
            f"columns={', '.join(missing)!r:.80} is not among {name}: {', '.join(columns)[:300]}."
        )
    index = [places[column] for column in selection.columns or columns]
    columns = [columns[i] for i in index]
    values = np.concatenate([values for _, _, values in loaded], axis=1)[:, index]
    notes.append(
        f"Behaviour is {name} in {unit}: {listed(columns)}. The file has {list_series(contents.series)}."
    )
    if contents.observed is not None:
        start, stop = np.sort(contents.observed, axis=0).T
        # outside of all intervals, bounds included, as many have ended as have begun
        outside = np.searchsorted(start, times, "right") <= np.searchsorted(stop, times, "left")
        times, values = drop_rows(
            outside, (times, values), "samples of behaviour outside the observed times", notes
        )
    missing = ~np.isfinite(values)
    if (~missing.any(axis=1)).sum() < 2:
        raise RecordingError(
            f"{name} has fewer than two rows without a missing value; choose other --columns."
        )
    times, values = drop_rows(
        missing.any(axis=1), (times, values), f"rows of {name} without a value", notes
    )
    names = {"behavior_unit": unit, "behavior_name": name, "behavior_columns": columns}
    return {"behavior_times": times, "behavior": values, **names}


def _load_default(
    series: Sequence[Series], notes: list[str]
) -> tuple[Series, np.ndarray, np.ndarray]:
    """The first of `SERIES` in the file that is not zero throughout."""
    still: list[str] = []
    for one in (one for role in SERIES for one in series if role_of(one.name) == role):
        own_notes: list[str] = []
        loaded = load_series(one, False, own_notes)
        if np.nan_to_num(loaded[2]).any():
            notes += still + own_notes
            return loaded
        still.append(f"{one.name} is zero or missing throughout, so it was not decoded.")
    cure = f"Name what to decode with --behavior NAME, one or more of {list_series(series)}; see CONVERTERS.md."
    raise RecordingError(" ".join([*still, cure]))
