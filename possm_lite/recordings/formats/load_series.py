"""The samples of one series: at increasing times, a position differentiated."""

import numpy as np

from ..derivative import differentiate
from ..recording import check_order, default_columns
from .contents import Series
from .select_rows import as_numbers, drop_rows
from .series_names import is_position

_FEW = 0.01  # share of samples with a time out of order that are left out; with more, the clock is refused


def load_series(
    series: Series, raw: bool, notes: list[str]
) -> tuple[Series, np.ndarray, np.ndarray]:
    """What is decoded of a series, at times (T,) that increase, (T, C); positions are differentiated unless `raw`."""
    name = series.name
    times, values = map(as_numbers, series.read())
    values = values[:, None] if values.ndim == 1 else values
    times, values = drop_rows(
        ~np.isfinite(times), (times, values), f"samples of {name} without a time", notes
    )
    late = np.zeros(len(times), dtype=bool)  # than a sample before
    late[1:] = times[1:] <= np.maximum.accumulate(times)[:-1]
    if late.sum() > _FEW * len(times):
        check_order(f"times of {name}", times, strict=True)
    times, values = drop_rows(
        late, (times, values), f"samples of {name} with a time out of order or repeated", notes
    )
    columns = series.columns or tuple(default_columns(values.shape[1]).tolist())
    series = series._replace(unit=series.unit or "a.u.", columns=columns)
    if raw or not (is_position(name) if series.is_position is None else series.is_position):
        return series, times, values
    values, how = differentiate(times, values)
    notes.append(f"Velocity is the derivative of the position {name}{': ' if how else ''}{how}.")
    return series._replace(name=f"velocity of {name}", unit=f"{series.unit}/s"), times, values
