"""The samples of one series: at increasing times, a position differentiated.

Rules about the samples of a series, for all formats, belong here: times that cannot be, positions
that become velocities.
"""

from typing import NamedTuple

import numpy as np

from ...errors import RecordingError, as_option
from ..derivative import differentiate
from ..labels import CLASS_UNIT, are_few, check_classes, encode_labels, is_text, sample_trials
from ..recording import check_order, default_columns
from ..tracking import labels
from .contents import Series
from .join_series import one_time_each
from .select_rows import as_numbers, drop_rows
from .series_names import CLASS, RAW, is_position

# share of samples with a time out of order that are left out; with more, the clock is refused
_FEW = 0.01
_NO_TRIALS = np.empty((0, 2))
_SURE = 0.6  # confidence below which a keypoint is left out, as DeepLabCut's pcutoff


class Samples(NamedTuple):
    """What is decoded of a series.

    Attributes:
        series: the series, with name, unit and columns of what is decoded.
        times: seconds, increasing, shape (T,).
        values: shape (T, C), NaN where missing; of classes their places, (T, 1).
        classes: names of the classes; (): of amounts.
        trials: start and stop of those that have a value, seconds, (n, 2), where there is one a
            trial; else None.
        are_labels: True of the velocity of labels, which means nothing.
    """

    series: Series
    times: np.ndarray
    values: np.ndarray
    classes: tuple[str, ...] = ()
    trials: np.ndarray | None = None
    are_labels: bool = False


def load_series(
    series: Series, suffix: str | None, notes: list[str], trials: np.ndarray = _NO_TRIALS
) -> Samples:
    """What is decoded of a series: its values or classes, or of a position the velocity.

    Text and truth values are classes, and so are whole numbers of few values of a series that was
    asked for by its name.

    Args:
        series: of a file.
        suffix: `RAW`, a position or numbers are decoded as they are; `CLASS`, as classes; "", as
            usual; None, as usual of a series that nobody has asked for.
        notes: gets a note of samples that are left out, of a derivative, and of a choice.
        trials: start and stop of each, seconds, (n, 2): a series with a sample in each is one label
            a trial.

    Raises:
        RecordingError: more than 1 % of the times are out of order, there is not one time for each
            sample, or the values cannot be classes, or amounts.
    """
    times, values, classes = _read(series, notes)
    columns = series.columns or tuple(default_columns(values.shape[1]).tolist())
    name = series.name
    if suffix is not None and values.shape[1] == 1:
        of_trials = _values_of_trials(times, values[:, 0], trials)
        may_be_classes = classes or suffix == CLASS or (values % 1 == 0).all()
        if of_trials is not None and may_be_classes and (classes or are_few(of_trials)):
            if classes:
                of_trials = np.array([*classes, ""])[np.nan_to_num(of_trials, nan=-1).astype(int)]
            return load_labels(name, of_trials, trials, suffix, notes)
        if not classes and suffix != RAW:
            values, classes = _classes_of_numbers(name, times, values, suffix, notes)
    if suffix == CLASS and not classes:
        raise RecordingError(f"{name}{CLASS}: it has {values.shape[1]} columns, classes are one.")
    if classes and suffix != RAW:
        check_classes(name, classes)
        series = series._replace(unit=CLASS_UNIT, columns=(name.rpartition("/")[2],))
        return Samples(series, times, values, classes)
    series = series._replace(unit=series.unit or "a.u.", columns=columns)
    has_positions = is_position(name) if series.is_position is None else series.is_position
    if suffix == RAW or not has_positions:
        return Samples(series, times, values)
    # issue 50: choices and targets, R² 0.575; both may be a SpatialSeries of NWB
    n_labels = max(len(labels(times, column)) for column in values.T)
    if n_labels:
        notes.append(
            f"warning: {name} holds only {n_labels} values, as labels do, so its velocity means "
            f"nothing. The values themselves: {as_option('behavior', f'{name}{RAW}')}."
        )
    velocity, how = differentiate(times, values)
    how = f": {how}" if how else ""
    notes.append(f"Velocity is the derivative of the position {name}{how}.")
    series = series._replace(name=f"velocity of {name}", unit=f"{series.unit}/s")
    return Samples(series, times, velocity, are_labels=n_labels > 0)


def load_labels(
    name: str, values: np.ndarray, trials: np.ndarray, suffix: str, notes: list[str]
) -> Samples:
    """What is decoded of one value a trial: its class, or a number, at regular times through it.

    Numbers that repeat are classes, such as directions in degrees or radians.

    Args:
        name: of the values.
        values: text, truth values or numbers, (n,).
        trials: start and stop of each, seconds, in order, (n, 2).
        suffix: as in `load_series`, but for None.
        notes: gets a note of trials without a value, which are left out, and of a choice.

    Raises:
        RecordingError: the values cannot be classes, or amounts.
    """
    values = np.asarray(values)
    index, classes = encode_labels(values)
    known = np.isfinite(index)
    if (~known).any():
        notes.append(f"{(~known).sum()} of {len(known)} trials have no {name} and were left out.")
    are_classes = is_text(values) or suffix == CLASS
    if suffix == RAW and values.dtype.kind not in "biuf":
        raise RecordingError(f"{name}{RAW}: it holds text, which is no amount.")
    if not are_classes and suffix != RAW:
        is_number_of_trial = len(classes) == known.sum() and (values[known] % 1 == 0).all()
        are_classes = are_few(values) or is_number_of_trial
        if are_classes and not is_number_of_trial:
            notes.append(_chosen(name, len(classes)))
    if are_classes and suffix != RAW:
        check_classes(name, classes, known.sum())
        unit, amounts = CLASS_UNIT, index
    else:
        unit, amounts, classes = "a.u.", as_numbers(values), ()
    times, trial = sample_trials(trials[known])
    series = Series(name, lambda: (times, amounts), unit, columns=(name,))
    return Samples(series, times, amounts[known][trial][:, None], classes, trials[known])


def _chosen(name: str, n_classes: int) -> str:
    """That numbers were taken as classes, and how to have them as amounts, as a note."""
    return (
        f"{name} holds only {n_classes} values, as labels do, and is decoded as classes; as "
        f"amounts: {as_option('behavior', f'{name}{RAW}')}."
    )


def _values_of_trials(
    times: np.ndarray, column: np.ndarray, trials: np.ndarray
) -> np.ndarray | None:
    """The value of each trial, (n,), NaN where it has none; None if a trial has two, or few have.

    So events are saved, such as a choice at the start of each trial.
    """
    first, end = np.searchsorted(times, trials).T
    n = end - first
    if not len(trials) or n.max() > 1 or n.mean() < 0.5:
        return None
    return np.where(n == 1, column[np.minimum(first, len(column) - 1)], np.nan)


def _classes_of_numbers(
    name: str, times: np.ndarray, values: np.ndarray, suffix: str, notes: list[str]
) -> tuple[np.ndarray, tuple[str, ...]]:
    """Numbers, (T, 1), as places in classes and the names of these; (): they are no classes."""
    known = np.isfinite(values[:, 0])
    few = labels(times[known], values[known, 0])
    if suffix != CLASS and (not len(few) or (few % 1 != 0).any()):
        return values, ()
    index, classes = encode_labels(values[:, 0])
    if suffix != CLASS:
        notes.append(_chosen(name, len(classes)))
    return index[:, None], classes


def _read(series: Series, notes: list[str]) -> tuple[np.ndarray, np.ndarray, tuple[str, ...]]:
    """Times (T,) that increase, and values (T, C), as in the file; of labels also their classes."""
    name, classes = series.name, series.classes
    times, values = series.read()
    values = np.asarray(values)
    if is_text(values):
        if values.size != len(values):
            raise RecordingError(f"{name} holds text in several columns: save one of them.")
        values, classes = encode_labels(values.ravel())
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
    return times, values, classes


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
