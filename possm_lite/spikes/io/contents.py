"""What a reader finds in a file, and the one way from there to a `Recording`: chosen, filtered, mended, checked."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ...errors import RecordingError
from ..derivative import differentiate
from ..recording import Recording, check_order, covered_trials, format_seconds
from .filters import matching_rows

SERIES = ("hand_vel", "finger_vel", "cursor_vel", "vel", "hand_pos", "finger_pos", "cursor_pos", "pos")
RAW = ":raw"  # ends the name of a position that is decoded itself
_AXIS = re.compile(r"(.+)_([xyz])|([xyz])_(.+)", re.IGNORECASE)  # hand_vel_x, x_vel
_FEW = 0.01  # share of samples with a time out of order that are left out; with more, the clock is refused
_ROUNDING = 1e-6  # s: trials that overlap by less are adjacent, with rounded times
_MANY_VALUES = 8  # columns with more distinct values are not listed in notes


@dataclass(frozen=True)
class Selection:
    """What of a file is wanted. It may come from an untrusted checkpoint, as JSON.

    Args:
        behavior: names of series, decoded side by side; (): the default of the file. "hand_pos" is differentiated,
            "hand_pos:raw" is the position itself.
        columns: columns of them, by name or by number from 0; (): all.
        units: filter of units, such as "quality == 'good'".
        trials: filter of trials, such as "result == 'R' and duration > 0.3".
        spikes_only: behaviour is not read.

    Raises:
        RecordingError: a field has another type. None, a text and lists are taken for `behavior` and `columns`.
    """

    behavior: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    units: str = ""
    trials: str = ""
    spikes_only: bool = False

    def __post_init__(self):
        for name in ("behavior", "columns"):
            value = getattr(self, name)
            values = (value,) if isinstance(value, str | int) else tuple(value or ())
            object.__setattr__(self, name, tuple(str(v) if type(v) is int else v for v in values))
            if not all(isinstance(v, str) and v for v in getattr(self, name)):
                raise RecordingError(f"{name} must be names, not {value!r}.")
        for name in ("units", "trials"):
            if not isinstance(getattr(self, name), str):
                raise RecordingError(f"{name} must be a filter such as 'id != 3', not {getattr(self, name)!r}.")
        if not isinstance(self.spikes_only, bool):
            raise RecordingError(f"spikes_only must be true or false, not {self.spikes_only!r}.")


class Series(NamedTuple):
    """One behavioural time series of a file, read only when it is chosen.

    Args:
        name: such as "hand_vel" or "Position/hand_pos".
        read: returns times (T,) in seconds and values (T,) or (T, C), NaN where missing.
        unit: of the values.
        is_position: it is differentiated, unless the position itself is asked for.
        columns: names; (): x, y, z up to three, else "0", "1", ...
        shape: of the values, for messages; (): unknown.
    """

    name: str
    read: Callable[[], tuple[np.ndarray, np.ndarray]]
    unit: str = "a.u."
    is_position: bool = False
    columns: tuple[str, ...] = ()
    shape: tuple[int, ...] = ()


class Contents(NamedTuple):
    """What a reader finds in a file, before anything is chosen, mended or checked.

    Args:
        spike_times: seconds, any order, shape (N,).
        spike_units: index into `unit_ids`, shape (N,).
        unit_ids: names of the units, shape (U,).
        series: behavioural time series.
        session_id: the name of the session.
        trials: start and stop in seconds, shape (n, 2), as in the file.
        unit_table: further columns of the units, shape (U,) each, for `Selection.units`.
        trial_table: further columns of the trials, shape (n,) each, for `Selection.trials`.
        observed: start and stop in seconds of the times that were recorded, shape (m, 2); None: all.
        default: names of the series to decode if none is named; (): the first of `SERIES` that moves.
        notes: decisions of the reader, one sentence each.
    """

    spike_times: np.ndarray
    spike_units: np.ndarray
    unit_ids: np.ndarray
    series: Sequence[Series]
    session_id: str
    trials: np.ndarray = np.empty((0, 2))
    unit_table: Mapping[str, np.ndarray] = {}
    trial_table: Mapping[str, np.ndarray] = {}
    observed: np.ndarray | None = None
    default: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


class _Samples(NamedTuple):
    """Behaviour that was read: times (T,) in seconds, values (T, C), names of their columns."""

    name: str
    times: np.ndarray
    values: np.ndarray
    unit: str
    columns: tuple[str, ...]


def assemble(contents: Contents, selection: Selection) -> Recording:
    """The recording that a selection makes of a file; every choice and repair is a note that counts.

    Raises:
        RecordingError: without the name of the file.
    """
    notes = list(contents.notes)
    spikes = _select_spikes(contents, selection.units, notes)
    trials = _select_trials(contents, selection.trials, notes)
    if selection.spikes_only:
        behavior = {"behavior_times": [], "behavior": np.empty((0, 2)), "behavior_unit": "a.u."}
    else:
        behavior = _select_behavior(contents, selection, notes)
        trials = _drop_uncovered(trials, behavior["behavior_times"], notes)
    return Recording(**spikes, **behavior, trials=trials, session_id=contents.session_id, notes=tuple(notes))


# Units and spikes


def _select_spikes(contents: Contents, expression: str, notes: list[str]) -> dict[str, np.ndarray]:
    times, units = np.asarray(contents.spike_times, np.float64), np.asarray(contents.spike_units, np.int64)
    names = np.asarray(contents.unit_ids).astype(str)
    if times.shape != units.shape or times.ndim != 1:
        raise RecordingError(f"spike_times has shape {times.shape}, spike_units {units.shape}.")
    for i in np.flatnonzero((units < 0) | (units >= len(names)))[:1]:
        raise RecordingError(f"spike_units must lie in 0..{len(names) - 1}: spike_units[{i}] = {units[i]}.")
    finite = np.isfinite(times)
    if not finite.all():
        notes.append(f"{(~finite).sum()} of {len(times)} spikes without a time were left out.")
        times, units = times[finite], units[finite]
    _refuse_restarted_trains(times, units, names)
    order = np.argsort(times, kind="stable")
    times, units = times[order], units[order]
    span = max(times[-1] - times[0], 1e-9) if len(times) else 1.0
    rate = np.bincount(units, minlength=len(names)) / span
    kept = _select_rows("units", expression, {**contents.unit_table, "id": names, "rate": rate}, len(names), notes)
    index = np.cumsum(kept) - 1
    spikes = kept[units]
    return {
        "spike_times": times[spikes],
        "spike_units": index[units[spikes]],
        "unit_ids": _unique_names(names[kept], notes),
    }


def _refuse_restarted_trains(times: np.ndarray, units: np.ndarray, names: np.ndarray):
    """Raise RecordingError where the trains of most units go back in time once or twice: a clock that restarted."""
    order = np.argsort(units, kind="stable")
    back = np.flatnonzero((np.diff(times[order]) < 0) & (np.diff(units[order]) == 0))
    n_spikes, n_back = (np.bincount(u, minlength=len(names)) for u in (units, units[order][back]))
    active = n_spikes >= 10
    restarted = active & (n_back > 0) & (n_back <= 3)
    if restarted.any() and restarted.sum() > 0.7 * active.sum():
        first = back[np.flatnonzero(restarted[units[order][back]])[0]]
        before, after = (format_seconds(t, 1) for t in times[order][[first, first + 1]])
        raise RecordingError(
            f"spike_times restart: in unit {names[units[order][first]]} {before} is followed by {after}. These are "
            "two blocks with a clock each; save them as two recordings."
        )


def _unique_names(names: np.ndarray, notes: list[str]) -> list[str]:
    unique: list[str] = []
    taken = set(names.tolist())
    for name in names.tolist():
        new, k = name, 1
        while new in unique or (k > 1 and new in taken):
            k += 1
            new = f"{name}#{k}"
        unique.append(new)
    if repeated := sum(a != b for a, b in zip(unique, names.tolist(), strict=True)):
        example = next(b for a, b in zip(names.tolist(), unique, strict=True) if a != b)
        notes.append(f"{repeated} of {len(unique)} units had the name of another and got a number, such as {example}.")
    return unique


def _select_rows(option: str, expression: str, table: Mapping, n: int, notes: list[str]) -> np.ndarray:
    """The rows of a table of units or trials for which the filter holds, (n,) bool; columns not used are noted."""
    kept = np.ones(n, dtype=bool) if not expression else matching_rows(expression, table, option)
    if not kept.any() and n:
        raise RecordingError(f"{option}={expression!r} holds for none of the {n} {option}.")
    if expression:
        notes.append(f"{(~kept).sum()} of {n} {option} were left out: only those with {expression}.")
    unused = []
    for name, column in table.items():
        values, counts = np.unique(column, return_counts=True) if np.asarray(column).dtype.kind in "Ub" else ((), ())
        if 1 < len(values) <= _MANY_VALUES and name != "id" and not re.search(rf"\b{re.escape(name)}\b", expression):
            listed = ", ".join(f"{value} {count}" for value, count in zip(values, counts, strict=True))
            unused.append(f"{name} ({listed[:120]})")
    if unused:
        notes.append(f"Columns of {option} that were not used: {'; '.join(unused[:6])}. Choose with --{option}.")
    return kept


# Trials


def _select_trials(contents: Contents, expression: str, notes: list[str]) -> np.ndarray:
    """Start and stop of the trials that the filter selects, in order and without overlap, (n, 2)."""
    trials = np.array(contents.trials, dtype=np.float64).reshape(-1, 2)
    start, stop = trials.T
    table = {**contents.trial_table, "start": start, "stop": stop, "duration": stop - start}
    if len(trials) == 0:
        if expression:
            raise RecordingError(f"trials={expression!r}: the file has no trials to choose from.")
        notes.append("There are no trials.")
        return trials
    trials = trials[_select_rows("trials", expression, table, len(trials), notes)]
    n = len(trials)

    def drop(bad: np.ndarray, reason: str) -> np.ndarray:
        if bad.any():
            notes.append(f"{bad.sum()} of {n} trials {reason} were left out.")
        return trials[~bad]

    trials = drop(~np.isfinite(trials).all(axis=1), "without a start or a stop")
    trials = drop(trials[:, 1] <= trials[:, 0], "that stop before they start")
    order = np.lexsort((trials[:, 1], trials[:, 0]))
    if moved := (order != np.arange(len(order))).sum():
        notes.append(f"{moved} of {n} trials were not in order and were sorted.")
    trials = trials[order]
    overlap = trials[:-1, 1] - trials[1:, 0]
    for cut, amount in ((overlap >= _ROUNDING, ""), ((overlap > 0) & (overlap < _ROUNDING), " by less than 1 µs")):
        if cut.any():
            notes.append(f"{cut.sum()} of {n} trials that overlapped the next one{amount} end where it starts.")
    trials[:-1, 1] -= np.maximum(overlap, 0)
    trials[:-1, 1] = np.minimum(trials[:-1, 1], trials[1:, 0])
    return drop(trials[:, 1] <= trials[:, 0], "with the same start as the next one")


def _drop_uncovered(trials: np.ndarray, times: np.ndarray, notes: list[str]) -> np.ndarray:
    covered = covered_trials(trials, times)
    if len(trials) and not covered.any():
        first, last, begin, end = (format_seconds(t, 3) for t in (*times[[0, -1]], trials[0, 0], trials[-1, 1]))
        raise RecordingError(
            f"behaviour, {first} to {last}, covers none of the {len(trials)} trials, {begin} to {end}: "
            "they may have another clock or unit of time."
        )
    if not covered.all():
        notes.append(f"{(~covered).sum()} of {len(trials)} trials that behaviour does not cover were left out.")
    return trials[covered]


# Behaviour


def _select_behavior(contents: Contents, selection: Selection, notes: list[str]) -> dict:
    """`behavior_times`, `behavior`, `behavior_unit`, `behavior_name` and `behavior_columns` of a Recording."""
    series = _with_joined_axes(contents.series)
    names = selection.behavior or contents.default
    if names:
        parts = [_load(_find(name.removesuffix(RAW), series), name.endswith(RAW), notes) for name in names]
    else:
        parts = [_load_default(contents, series, notes)]
    _check_same_times(parts)
    name, times, columns = " + ".join(part.name for part in parts), parts[0].times, parts[0].columns
    if len(parts) > 1:
        columns = [p.name if len(p.columns) == 1 else f"{p.name} {column}" for p in parts for column in p.columns]
    index = _find_columns(selection.columns, columns, name)
    columns = [columns[i] for i in index]
    values = np.concatenate([part.values for part in parts], axis=1)[:, index]
    unit = ", ".join(dict.fromkeys(part.unit for part in parts))
    others = sorted({one.name for one in contents.series} - {part.name for part in parts})
    also = f"; there are also {', '.join(others)[:300]}" if others else ""
    notes.append(f"Behaviour is {name} in {unit}, {len(index)} columns: {', '.join(columns)[:200]}{also}.")
    if contents.observed is not None:
        times, values = _drop_unobserved(times, values, contents.observed, notes)
    valid = np.isfinite(values).all(axis=1)
    if valid.sum() < 2:
        empty = [columns[i] for i in np.flatnonzero(~np.isfinite(values).any(axis=0))]
        cure = f"; {', '.join(empty)} never has a value: choose others with --columns" if empty else ""
        raise RecordingError(f"{name} must have at least two rows without NaN, not {valid.sum()}{cure}.")
    if not valid.all():
        notes.append(f"{(~valid).sum()} of {len(valid)} rows of {name} without a value were left out.")
    return {
        "behavior_times": times[valid],
        "behavior": values[valid],
        "behavior_unit": unit,
        "behavior_name": name,
        "behavior_columns": columns,
    }


def _with_joined_axes(series: Sequence[Series]) -> list[Series]:
    """The series, and those for single axes, such as hand_vel_x and hand_vel_y, also as one: hand_vel."""
    axes: dict[str, dict[str, Series]] = {}
    for one in series:
        container, slash, last = one.name.rpartition("/")
        if match := _AXIS.fullmatch(last):
            base, axis = match[1] or match[4], match[2] or match[3]
            axes.setdefault(container + slash + base, {})[axis.lower()] = one
    names = {one.name for one in series}
    joined = [_join(name, parts) for name, parts in axes.items() if len(parts) > 1 and name not in names]
    return [*series, *joined]


def _join(name: str, parts: Mapping[str, Series]) -> Series:
    columns = tuple(sorted(parts))
    first = parts[columns[0]]

    def read() -> tuple[np.ndarray, np.ndarray]:
        samples = [_Samples(parts[axis].name, *parts[axis].read(), first.unit, (axis,)) for axis in columns]
        if any(np.ndim(part.values) != 1 and np.shape(part.values)[1:] != (1,) for part in samples):
            raise RecordingError(f"{', '.join(part.name for part in samples)} must have one column each.")
        _check_same_times(samples)
        return samples[0].times, np.column_stack([part.values for part in samples])

    return Series(name, read, first.unit, first.is_position, columns, (*first.shape[:1], len(columns)))


def _find(name: str, series: Sequence[Series]) -> Series:
    """The series with this name, or with this last part of its name, or in a container with this name."""
    by_name = [one for one in series if one.name == name]
    by_last = [one for one in series if one.name.rpartition("/")[2].lower() == name.lower()]
    by_part = [one for one in series if name.lower() in one.name.lower().split("/")]
    found = by_name or by_last or by_part
    if len(found) != 1:
        problem = f"matches {', '.join(one.name for one in found)} of" if found else "is not among"
        raise RecordingError(f"behavior={name!r} {problem} the series of the file: {_listing(series)}.")
    return found[0]


def _listing(series: Sequence[Series]) -> str:
    shapes = [" x ".join(map(str, one.shape)) for one in series]
    listed = [f"{one.name} ({shape})" if shape else one.name for one, shape in zip(series, shapes, strict=True)]
    return ", ".join(listed[:40]) + (", ..." if len(listed) > 40 else "") or "none"


def _load_default(contents: Contents, series: Sequence[Series], notes: list[str]) -> _Samples:
    """The first of `SERIES` in the file whose values are not all zero."""
    by_role: dict[str, list[Series]] = {}
    for one in series:
        by_role.setdefault(_role(one.name), []).append(one)
    still = []
    for one in (one for role in SERIES for one in by_role.get(role, ())):
        own_notes: list[str] = []
        samples = _load(one, False, own_notes)
        if np.nan_to_num(samples.values).any():
            notes += [f"{name} is zero throughout and was passed over." for name in still] + own_notes
            return samples
        still.append(one.name)
    if still:
        raise RecordingError(f"{', '.join(still)} does not move: name another series with --behavior NAME.")
    if series:
        raise RecordingError(
            f"has none of the series {', '.join(SERIES)}; name what to decode with --behavior NAME. "
            f"The file has {_listing(series)}."
        )
    benchmark = " Test files of the Neural Latents Benchmark come without it: use the training file."
    raise RecordingError(
        f"has no behaviour, so nothing can be trained on it.{benchmark if 'heldout' in contents.unit_table else ''}"
    )


def _role(name: str) -> str:
    """The name of `SERIES` that a series has: "Velocity/cursor_vel" is cursor_vel, "Position/Hand" is hand_pos."""
    *containers, last = name.lower().split("/")
    if containers and last in ("hand", "finger", "cursor"):
        kind = {"position": "_pos", "velocity": "_vel"}
        return last + kind.get(containers[-1], "")
    return next((part for part in (last, *reversed(containers)) if part in SERIES), last)


def _load(series: Series, raw: bool, notes: list[str]) -> _Samples:
    """The samples of a series with times in order; positions are differentiated unless `raw`."""
    times, values = (np.asarray(array, np.float64) for array in series.read())
    values = values[:, None] if values.ndim == 1 else values
    if times.ndim != 1 or values.ndim != 2 or len(times) != len(values) or values.shape[1] == 0:
        raise RecordingError(
            f"{series.name} must have shape (T,) or (T, columns) for T times, not {values.shape} for {times.shape}."
        )
    times, values = _mend_clock(series.name, times, values, notes)
    columns = tuple(series.columns) or _default_columns(values.shape[1])
    unit = series.unit or "a.u."
    if not series.is_position or raw:
        return _Samples(series.name, times, values, unit, columns)
    values, how = differentiate(times, values)
    notes.append(f"Velocity is the derivative of the position {series.name}{'; ' if how else ''}{how}.")
    return _Samples(f"velocity of {series.name}", times, values, f"{unit}/s", columns)


def _mend_clock(name: str, times: np.ndarray, values: np.ndarray, notes: list[str]) -> tuple[np.ndarray, np.ndarray]:
    """Times that increase, with their values: a few samples out of order are left out, more are refused."""
    n, finite = len(times), np.isfinite(times)
    if not finite.all():
        notes.append(f"{(~finite).sum()} of {n} samples of {name} without a time were left out.")
        times, values = times[finite], values[finite]
    if len(times) < 2:
        raise RecordingError(f"{name} needs at least two samples, not {len(times)}.")
    late = np.append(False, times[1:] <= np.maximum.accumulate(times)[:-1])  # an earlier sample has a later time
    early = np.append(times[:-1] >= np.minimum.accumulate(times[::-1])[::-1][1:], False)
    bad = min(late, early, key=np.sum)
    if bad.mean() > _FEW:
        check_order(f"times of {name}", times, strict=True)
    if bad.any():
        notes.append(f"{bad.sum()} of {n} samples of {name} with a time out of order or repeated were left out.")
    return times[~bad], values[~bad]


def _check_same_times(parts: Sequence[_Samples]):
    """Raise RecordingError unless all have the times of the first, to half a sample."""
    first = parts[0]
    for other in parts[1:]:
        if first.name == other.name:
            raise RecordingError(f"behavior names {first.name} twice.")
        n, m = len(first.times), len(other.times)
        if n != m or np.abs(first.times - other.times).max() > np.median(np.diff(first.times)) / 2:
            a, b = (
                f"{part.name} ({len(part.times)} samples at {1 / np.median(np.diff(part.times)):.6g} Hz "
                f"from {format_seconds(part.times[0], 3)})"
                for part in (first, other)
            )
            raise RecordingError(
                f"{a} and {b} have different times: only series with the same can be decoded together."
            )


def _find_columns(wanted: Sequence[str], columns: Sequence[str], name: str) -> list[int]:
    numbers = {str(i): i for i in range(len(columns))} | {column: i for i, column in enumerate(columns)}
    for column in wanted:
        if column not in numbers:
            listed = ", ".join(columns)[:300]
            raise RecordingError(f"columns={column!r} is not a column of {name}, nor a number from 0: {listed}.")
    index = [numbers[column] for column in wanted] or list(range(len(columns)))
    if len(set(index)) < len(index):
        raise RecordingError(f"columns names a column twice: {', '.join(wanted)[:200]}.")
    return index


def _drop_unobserved(
    times: np.ndarray, values: np.ndarray, observed: np.ndarray, notes: list[str]
) -> tuple[np.ndarray, np.ndarray]:
    start, stop = np.sort(np.asarray(observed, np.float64).reshape(-1, 2), axis=0).T
    # begun minus ended intervals at each time; bounds belong to the interval
    inside = np.searchsorted(start, times, "right") > np.searchsorted(stop, times, "left")
    if inside.sum() < 2:
        notes.append("The times marked as observed cover no behaviour and were not used.")
        return times, values
    if not inside.all():
        notes.append(f"{(~inside).sum()} of {len(inside)} samples outside of the observed times were left out.")
    return times[inside], values[inside]


def _default_columns(n: int) -> tuple[str, ...]:
    return tuple("xyz"[:n]) if n <= 3 else tuple(map(str, range(n)))
