"""The samples of one series: at increasing times, a position differentiated.

Rules about the samples of a series, for all formats, belong here: times that cannot be, positions
that become velocities.
"""

from typing import NamedTuple

import numpy as np

from ...errors import as_option
from ..derivative import differentiate
from ..recording import check_order, default_columns
from ..tracking import labels
from .contents import Series
from .join_series import one_time_each
from .select_rows import as_numbers, drop_rows
from .series_names import is_position

# share of samples with a time out of order that are left out; with more, the clock is refused
_FEW = 0.01
_SURE = 0.6  # confidence below which a keypoint is left out, as DeepLabCut's pcutoff


class Samples(NamedTuple):
    """What is decoded of a series.

    Attributes:
        series: the series, with name, unit and columns of what is decoded.
        times: seconds, increasing, shape (T,).
        values: shape (T, C), NaN where missing.
    """

    series: Series
    times: np.ndarray
    values: np.ndarray


def load_series(series: Series, raw: bool, notes: list[str]) -> Samples:
    """What is decoded of a series: its values, or of a position the velocity.

    Args:
        series: of a file.
        raw: a position is decoded as it is.
        notes: gets a note of samples that are left out, and of a derivative.

    Raises:
        RecordingError: more than 1 % of the times are out of order, or there is not one time for
            each sample.
    """
    times, values = _read(series, notes)
    columns = series.columns or tuple(default_columns(values.shape[1]).tolist())
    series = series._replace(unit=series.unit or "a.u.", columns=columns)
    name = series.name
    has_positions = is_position(name) if series.is_position is None else series.is_position
    if raw or not has_positions:
        return Samples(series, times, values)
    # issue 50: choices and targets, R² 0.575; both may be a SpatialSeries of NWB
    if n_labels := max(len(labels(times, column)) for column in values.T):
        notes.append(
            f"warning: {name} holds only {n_labels} values, as labels do, so its velocity means "
            f"nothing. The values themselves: {as_option('behavior', f'{name}:raw')}."
        )
    velocity, how = differentiate(times, values)
    how = f": {how}" if how else ""
    notes.append(f"Velocity is the derivative of the position {name}{how}.")
    series = series._replace(name=f"velocity of {name}", unit=f"{series.unit}/s")
    return Samples(series, times, velocity)


def _read(series: Series, notes: list[str]) -> tuple[np.ndarray, np.ndarray]:
    """Times (T,) that increase, and values (T, C), as in the file."""
    name = series.name
    times, values = series.read()
    times, values = one_time_each(name, as_numbers(times), as_numbers(values), notes)
    if values.ndim == 1:
        values = values[:, None]  # (T, 1)
    if series.confidence is not None:
        values = _without_unsure(name, values, series.confidence(), notes)
    times, values = drop_rows(
        ~np.isfinite(times), (times, values), f"samples of {name} without a time", notes
    )
    late = np.zeros(len(times), dtype=bool)  # not after all samples before
    late[1:] = times[1:] <= np.maximum.accumulate(times)[:-1]
    if late.sum() > _FEW * len(times):
        check_order(f"times of {name}", times, strict=True)
    times, values = drop_rows(
        late, (times, values), f"samples of {name} with a time out of order or repeated", notes
    )
    return times, values


def _without_unsure(
    name: str, values: np.ndarray, confidence: np.ndarray, notes: list[str]
) -> np.ndarray:
    """The values, (T, C), NaN where a keypoint was tracked with little confidence, (T,).

    From reports: keypoints of DeepLabCut jump where it is unsure (DLC2NWB #24).
    """
    confidence = as_numbers(confidence).ravel()
    if len(confidence) != len(values):
        notes.append(
            f"The confidence of {name} was not used: it has {len(confidence):,} values for "
            f"{len(values):,} samples."
        )
        return values
    unsure = confidence < _SURE
    if not unsure.any():
        return values
    share = f"{unsure.sum()} of {len(unsure)} samples of {name} with a confidence below {_SURE}"
    if unsure.mean() > 0.5:
        notes.append(f"{share} were not left out: that would be most of them.")
        return values
    notes.append(f"{share} were left out.")
    return np.where(unsure[:, None], np.nan, values)
