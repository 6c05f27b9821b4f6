"""What is decoded: the series and columns that are chosen, without rows that cannot be used.

Rules about the rows of all series together belong here, such as samples outside of the observed
times; those about the samples of one series to `load_series`.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from ...errors import RecordingError, as_option, listed
from ..clocks import check_unit_of_time
from ..tracking import labels
from .contents import Contents, Selection, Series
from .join_series import common_times, joined_series, list_series
from .load_series import Samples, load_labels, load_series
from .select_rows import as_numbers, drop_rows
from .series_names import SERIES, find_series, role_of, split_suffix


class _Behavior(NamedTuple):
    """Series side by side: their names and units joined, times (T,) in s, values (T, C).

    Classes and trials are as in `Samples`.
    """

    name: str
    unit: str
    columns: list[str]
    times: np.ndarray
    values: np.ndarray
    classes: tuple[str, ...] = ()
    trials: np.ndarray | None = None
    are_labels: bool = False


def select_behavior(contents: Contents, selection: Selection, notes: list[str]) -> dict:
    """The behaviour that a selection chooses.

    Args:
        contents: what is in the file.
        selection: with the names of series and columns.
        notes: gets a note of what is decoded, and of samples that are left out.

    Returns:
        The fields of a `Recording` that begin with `behavior`, and `classes`; and `trials`, where
        there is one label a trial: those that have one.

    Raises:
        RecordingError: a series or column is not in the file, has no times in common with the
            others, or has too few values.
    """
    found = _side_by_side(_load_chosen(contents, selection.behavior, notes))
    found = _choose_columns(found, selection.columns)
    what = f"{found.name} in {found.unit}: {listed(found.columns)}"
    if found.classes:
        what = f"{found.name}, {len(found.classes)} classes: {listed(found.classes)}"
    others = list_series(contents.series)
    notes.append(f"Behaviour is {what}." + f" The file has {others}." * bool(others))
    times, values = found.times, found.values
    are_labels = [len(labels(times, column)) > 0 for column in values.T]
    if found.classes or found.are_labels or any(are_labels):
        notes += _note_movement(contents.series, found.name)
    _check_clocks(contents, times)
    if contents.observed is not None:
        outside = _outside(contents.observed, times)
        _check_observed(contents, found.name, times, outside, notes)
        what = "samples of behaviour outside the observed times"
        times, values = drop_rows(outside, (times, values), what, notes)
    is_missing = ~np.isfinite(values).all(axis=1)
    if (~is_missing).sum() < 2:
        raise RecordingError(
            f"{found.name} has fewer than two rows without a missing value; choose other --columns."
        )
    share = f"{is_missing.sum()} of {len(is_missing)} samples"
    is_said = any(share in note and "left out" in note for note in notes)  # as lost tracking
    what = f"rows of {found.name} without a value"
    times, values = drop_rows(is_missing, (times, values), what, [] if is_said else notes)
    if found.classes and found.trials is None:
        notes += _note_changes(found.name, times, values[:, 0], contents.trials)
    of_trials = {} if found.trials is None else {"trials": found.trials}
    return of_trials | {
        "classes": found.classes,
        "behavior_times": times,
        "behavior": values,
        "behavior_unit": found.unit,
        "behavior_name": found.name,
        "behavior_columns": found.columns,
    }


def _note_changes(
    name: str, times: np.ndarray, labels: np.ndarray, trials: np.ndarray
) -> list[str]:
    """A note of labels, (T,), that change within trials, (n, 2) s, though they might be of them."""
    ranges = np.searchsorted(times, trials)
    n = sum(len(np.unique(labels[first:end])) > 1 for first, end in ranges)
    if not n:
        return []
    return [
        f"{name} changes within {n} of {len(trials)} trials, so it is decoded as a label at each "
        "time, not of trials."
    ]


def _note_movement(series: Sequence[Series], name: str) -> list[str]:
    """A note of a movement in the file, if labels were chosen in its place."""
    every = [*joined_series(series), *series]
    for role in SERIES:
        for one in every:
            if role_of(one.name) == role and one.name not in name:
                option = as_option("behavior", _short_name(one, every))
                return [f"The file has a movement too: {option}."]
    return []


def _check_clocks(contents: Contents, times: np.ndarray):
    """Raise RecordingError if spikes and behaviour are in different units of time.

    Without this, trials would be blamed that behaviour does not cover. From reports: one of the two
    divided or multiplied once too often (nwbinspector #679).
    """
    spikes = as_numbers(contents.spike_times)
    few = spikes[:: max(1, len(spikes) // 100_000)]
    few = few[np.isfinite(few)]
    if len(few) < 2 or len(times) < 2:
        return
    # without impossible spikes, which are left out elsewhere
    low, high = np.percentile(few, (1, 99))
    ratio = max(high - low, 1e-9) / (times[-1] - times[0])
    if 1 / 500 < ratio < 500:
        return
    possible = np.sort(spikes[(spikes >= low) & (spikes <= high)])
    check_unit_of_time(possible, len(contents.unit_ids), times)


def _check_observed(
    contents: Contents, name: str, times: np.ndarray, outside: np.ndarray, notes: list[str]
):
    """Raise RecordingError if no sample is inside of the observed times.

    If these are far longer than behaviour, a note says so.

    From reports: obs_intervals in ms (nwbinspector #5).
    """
    first, last = np.min(contents.observed, initial=np.inf), np.max(contents.observed, initial=0)
    start, stop = times[[0, -1]] if len(times) else (0.0, 0.0)
    where = f"{contents.observed_name}, {first:,.1f} to {last:,.1f} s,"
    what = f"{name}, {start:,.1f} to {stop:,.1f} s"
    cause, remedy = "they have another clock", "Correct them"
    is_longer = last - first > 10 * (stop - start)
    if is_longer:
        cause = "they look like milliseconds or samples"
        if 300 * stop < last < 1250 * stop:
            cause, remedy = "they look like milliseconds", "Divide them by 1,000"
        elif 3e3 * stop < last < 6e4 * stop:
            cause, remedy = "they look like samples", "Divide them by the sampling rate"
    n_inside = len(times) - outside.sum()
    if n_inside < 2:
        raise RecordingError(
            f"{where} contain {n_inside or 'none'} of the samples of {what}: {cause}. {remedy}, or "
            "save the file without them."
        )
    if outside.any() and is_longer:
        notes.append(f"{where} contain {n_inside} of {len(times)} samples of {what}: {cause}.")


def _load_chosen(contents: Contents, behavior: tuple[str, ...], notes: list[str]) -> list[Samples]:
    """The series that are named, else those of the file, else the first of `SERIES` that moves."""
    series = [*joined_series(contents.series), *contents.series]
    names = behavior or contents.default
    if not names:
        return [_load_default(series, notes)]
    loaded = []
    for name in names:
        name, suffix = split_suffix(name)
        one = _find(name, series, contents.trial_table)
        if isinstance(one, Series):
            is_asked = bool(behavior) or contents.recording is None
            loaded.append(load_series(one, suffix if is_asked else None, notes, contents.trials))
        else:
            loaded.append(load_labels(name, one, contents.trials, suffix, notes))
    if len(loaded) > 1 and any(samples.classes for samples in loaded):
        raise RecordingError(
            f"{', '.join(names)}: classes are decoded alone, not side by side; name one of them."
        )
    return loaded


def _find(
    name: str, series: Sequence[Series], trial_table: Mapping[str, np.ndarray]
) -> Series | np.ndarray:
    """The series that a name means, or else the column of trials, (n,)."""
    try:
        return find_series(name, series)
    except RecordingError as exc:
        if name in trial_table:
            return trial_table[name]
        labels = f" Trials have {listed(list(trial_table))}." if len(trial_table) else ""
        raise RecordingError(f"{exc}{labels}") from exc


def _load_default(series: Sequence[Series], notes: list[str]) -> Samples:
    """The first of `SERIES` in the file that is not zero throughout."""
    candidates = [one for role in SERIES for one in series if role_of(one.name) == role]
    still: list[str] = []
    for one in candidates:
        own_notes: list[str] = []
        loaded = load_series(one, None, own_notes)
        if np.nan_to_num(loaded.values).any():
            notes += still + own_notes
            return loaded
        still.append(f"{one.name} is zero or missing throughout, so it was not decoded.")
    others = [_short_name(one, series) for one in series if one not in candidates]
    if not still:
        still = [
            "has no velocity or position of a hand, finger or cursor under a usual name: "
            f"{_choice(others)}."
        ]
    elif others:
        still.append(f"There are other series: {_choice(others)}.")
    raise RecordingError(" ".join(still))


def _choice(names: Sequence[str]) -> str:
    """How one of several series is chosen, for messages."""
    if len(names) == 1:
        return f"choose with --behavior, here {as_option('behavior', names[0])}"
    options = [as_option("behavior", name).partition(" ")[2] for name in names]
    return f"choose with --behavior, one of: {listed(options)}"


def _short_name(one: Series, series: Sequence[Series]) -> str:
    """The last part of the name of a series, or all of it where several would be meant."""
    last = one.name.rpartition("/")[2]
    alike = [
        name for name in (other.name.lower() for other in series) if last.lower() in name.split("/")
    ]
    return last if len(alike) == 1 else one.name


def _side_by_side(loaded: Sequence[Samples]) -> _Behavior:
    """All series as one; where there are several, columns begin with the name of their series."""
    parts = [samples.series for samples in loaded]
    times = common_times({samples.series.name: samples.times for samples in loaded})
    units = dict.fromkeys(part.unit for part in parts)  # each once
    columns: list[str] = []
    for part in parts:
        prefix = f"{part.name} " if len(parts) > 1 else ""
        columns += [prefix + column for column in part.columns]
    return _Behavior(
        name=" + ".join(part.name for part in parts),
        unit=", ".join(units),
        columns=columns,
        times=times,
        values=np.concatenate([samples.values for samples in loaded], axis=1),
        classes=loaded[0].classes,
        trials=loaded[0].trials,
        are_labels=any(samples.are_labels for samples in loaded),
    )


def _choose_columns(found: _Behavior, chosen: tuple[str, ...]) -> _Behavior:
    """The columns that are chosen by name or by number from 0, in this order; () for all."""
    if not chosen:
        chosen = tuple(found.columns)
    place = {str(i): i for i in range(len(found.columns))}
    place |= {column: i for i, column in enumerate(found.columns)}
    missing = [column for column in chosen if column not in place]
    if missing:
        raise RecordingError(
            f"{as_option('columns', ','.join(missing))}: {found.name} has the columns "
            f"{', '.join(found.columns)[:300]}."
        )
    index = [place[column] for column in chosen]
    columns = [found.columns[i] for i in index]
    return found._replace(columns=columns, values=found.values[:, index])


def _outside(observed: np.ndarray, times: np.ndarray) -> np.ndarray:
    """True for times (T,) outside of all observed intervals (m, 2) s, bounds included, (T,)."""
    start, stop = np.sort(observed, axis=0).T
    # there, as many intervals have ended as have begun
    n_begun = np.searchsorted(start, times, "right")
    n_ended = np.searchsorted(stop, times, "left")
    return n_begun <= n_ended
