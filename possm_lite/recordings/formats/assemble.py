"""What a reader finds in a file, and the one way from there to a `Recording`: chosen, filtered, mended, checked."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import numpy as np

from ...errors import RecordingError, listed
from ..derivative import differentiate
from ..recording import Recording, check_order, covered_trials, default_columns
from .filters import matching_rows

SERIES = (
    "hand_vel",
    "finger_vel",
    "cursor_vel",
    "vel",
    "hand_pos",
    "finger_pos",
    "cursor_pos",
    "pos",
)
SERIES += ("preprocessed_emg", "openloopkinematicsvel")  # of FALCON M1 and H1
RAW = ":raw"  # ends the name of a position that is itself decoded
_AXIS = re.compile(r"_[xyz]$|^[xyz]_", re.IGNORECASE)  # hand_vel_x, x_vel
_KIND = re.compile(
    r"(pos|vel)(ition|ocity)?(_\w{1,2})?$", re.IGNORECASE
)  # hand_pos, Velocity, position_x, pos_3d
_FEW = 0.01  # share of samples with a time out of order that are left out; with more, the clock is refused


@dataclass(frozen=True)
class Selection:
    """What of a file is wanted."""

    behavior: tuple[
        str, ...
    ] = ()  # names of series, decoded side by side; (): the default of the file
    columns: tuple[str, ...] = ()  # of them, by name or by number from 0; (): all
    units: str = ""  # filter of units such as "quality == 'good'"
    trials: str = ""  # filter of trials such as "result == 'R' and duration > 0.3"
    spikes_only: bool = False  # behaviour is not read

    def __post_init__(self):
        for name in ("behavior", "columns"):
            value = getattr(self, name) or ()
            values = (value,) if isinstance(value, str) else value
            object.__setattr__(self, name, tuple(map(str, values)))


class Series(NamedTuple):
    """One behavioural time series of a file, read only when it is chosen."""

    name: str  # "hand_vel", "Position/hand_pos"
    read: Callable[
        [], tuple[np.ndarray, np.ndarray]
    ]  # times (T,) in s, values (T,) or (T, C), NaN where missing
    unit: str = "a.u."
    is_position: bool | None = (
        None  # differentiated, unless the position itself is asked for; None: as its name says
    )
    columns: tuple[str, ...] = ()  # names; (): x, y, z up to three, else "0", "1", ...
    shape: tuple[int, ...] = ()  # of the values


class Contents(NamedTuple):
    """What a reader finds in a file, before anything is chosen, mended or checked."""

    spike_times: np.ndarray  # (N,) s, in any order
    spike_units: np.ndarray  # (N,) index into unit_ids
    unit_ids: np.ndarray  # (U,)
    series: Sequence[Series]
    session_id: str
    trials: np.ndarray = np.empty((0, 2))  # (n, 2) s, as in the file
    unit_table: Mapping[str, np.ndarray] = {}  # further columns of units, (U,) each
    trial_table: Mapping[str, np.ndarray] = {}  # further columns of trials, (n,) each
    observed: np.ndarray | None = None  # (m, 2) s, when the recording was on; None: always
    default: tuple[
        str, ...
    ] = ()  # series to decode if none is named; (): the first of SERIES that moves
    notes: tuple[str, ...] = ()


def assemble(found: Contents | Recording, selection: Selection) -> Recording:
    """The recording that a selection makes of what is in a file; every choice and repair is a note.

    Where a file holds a recording as it is, that is returned unless something is selected; its behaviour is never
    differentiated. Raises RecordingError.
    """
    if isinstance(found, Recording):
        if selection == Selection():
            return found
        if len(found.behavior_times) == 0 and not selection.behavior:
            selection = replace(selection, spikes_only=True)
        r = found
        columns = tuple(r.behavior_columns.tolist())
        series = [
            Series(
                r.behavior_name,
                lambda: (r.behavior_times, r.behavior),
                r.behavior_unit,
                False,
                columns,
            )
        ]
        series = series if len(r.behavior_times) else []
        spikes = r.spike_times, r.spike_units, r.unit_ids
        found = Contents(
            *spikes, series, r.session_id, r.trials, default=(r.behavior_name,), notes=r.notes
        )
    notes = list(found.notes)
    spikes = _select_spikes(found, selection.units, notes)
    trials = _select_trials(found, selection.trials, notes)
    behavior = {}
    if not selection.spikes_only:
        behavior = _select_behavior(found, selection, notes)
        covered = covered_trials(trials, behavior["behavior_times"])
        if len(trials) and not covered.any():
            raise RecordingError(
                "behaviour covers none of the trials: is their unit of time or clock another?"
            )
        (trials,) = _drop_rows(~covered, (trials,), "trials that behaviour does not cover", notes)
    return Recording(
        **spikes, **behavior, trials=trials, session_id=found.session_id, notes=tuple(notes)
    )


def intervals(table: dict[str, np.ndarray], start: str = "start", stop: str = "stop") -> np.ndarray:
    """These two columns, (n, 2), which are taken out of a table; (0, 2) of one without columns."""
    return np.stack([table.pop(start), table.pop(stop)], axis=1) if table else np.empty((0, 2))


def _drop_rows(
    bad: np.ndarray, arrays: Sequence[np.ndarray], what: str, notes: list[str]
) -> list[np.ndarray]:
    """The arrays without the bad rows, which a note counts."""
    if bad.any():
        notes.append(f"{bad.sum()} of {len(bad)} {what} were left out.")
    return [array[~bad] for array in arrays]


def _numbers(array) -> np.ndarray:
    """A copy as float64. Raises TypeError for text, which NumPy would convert, and for complex numbers."""
    return np.asarray(array).astype(np.float64, casting="same_kind")


def _select_spikes(contents: Contents, expression: str, notes: list[str]) -> dict[str, np.ndarray]:
    times = _numbers(contents.spike_times)
    units = np.asarray(contents.spike_units).astype(np.int64, casting="same_kind")
    names = np.asarray(contents.unit_ids).astype(str)
    times, units = _drop_rows(~np.isfinite(times), (times, units), "spikes without a time", notes)
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
    kept = _select_rows(
        "units", expression, {"id": names, "rate": rate, **contents.unit_table}, notes
    )
    is_kept = kept[units]
    new_units = np.cumsum(kept) - 1
    return {
        "spike_times": times[is_kept],
        "spike_units": new_units[units[is_kept]],
        "unit_ids": names[kept],
    }


def _select_rows(
    option: str, expression: str, table: Mapping[str, np.ndarray], notes: list[str]
) -> np.ndarray:
    """The units or trials for which the filter holds, (n,) bool."""
    lengths = {len(column) for column in table.values()}
    if len(lengths) > 1:
        raise RecordingError(
            f"the columns of the table of {option} differ in length: {sorted(lengths)}."
        )
    kept = np.ones(*lengths, dtype=bool)
    if expression:
        kept = matching_rows(expression, table, option)
        notes.append(f"{kept.sum()} of {len(kept)} {option} were chosen: {expression}.")
        if not kept.any():
            raise RecordingError(
                f"{option}={expression!r} holds for none of the {len(kept)} {option}."
            )
    return kept


def _select_trials(contents: Contents, expression: str, notes: list[str]) -> np.ndarray:
    """Start and stop of the trials that the filter chooses, in order and without overlap, (n, 2)."""
    if len(contents.trials) == 0:
        notes.append("There are no trials.")
        if expression:
            raise RecordingError(f"trials={expression!r}: the file has no trials to choose from.")
        return np.empty((0, 2))
    trials = _numbers(contents.trials)
    start, stop = trials.T
    table = {"start": start, "stop": stop, "duration": stop - start, **contents.trial_table}
    trials = trials[_select_rows("trials", expression, table, notes)]
    bad = ~(trials[:, 0] < trials[:, 1]) | np.isinf(trials).any(axis=1)  # True for NaN
    (trials,) = _drop_rows(bad, (trials,), "trials without a stop after their start", notes)
    trials = trials[np.argsort(trials[:, 0], kind="stable")]
    overlap = trials[:-1, 1] - trials[1:, 0]
    if n := (overlap > 0).sum():
        by = f"by up to {overlap.max():.1g} s"
        notes.append(
            f"{n} of {len(trials)} trials overlapped the next one {by} and now end where it starts."
        )
    trials[:-1, 1] = np.minimum(trials[:-1, 1], trials[1:, 0])
    return trials


def _select_behavior(contents: Contents, selection: Selection, notes: list[str]) -> dict:
    """The fields of a Recording that begin with `behavior`."""
    series = [*_joined(contents.series), *contents.series]
    names = selection.behavior or contents.default
    loaded = [
        _load(_find(name.removesuffix(RAW), series), name.endswith(RAW), notes) for name in names
    ]
    loaded = loaded or [_load_default(series, notes)]
    parts = [part for part, _, _ in loaded]
    times = _common_times({part.name: times for part, times, _ in loaded})
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
        f"Behaviour is {name} in {unit}: {listed(columns)}. The file has {_list(contents.series)}."
    )
    if contents.observed is not None:
        start, stop = np.sort(contents.observed, axis=0).T
        # outside of all intervals, bounds included, as many have ended as have begun
        outside = np.searchsorted(start, times, "right") <= np.searchsorted(stop, times, "left")
        times, values = _drop_rows(
            outside, (times, values), "samples of behaviour outside the observed times", notes
        )
    missing = ~np.isfinite(values)
    if (~missing.any(axis=1)).sum() < 2:
        raise RecordingError(
            f"{name} has fewer than two rows without a missing value; choose other --columns."
        )
    times, values = _drop_rows(
        missing.any(axis=1), (times, values), f"rows of {name} without a value", notes
    )
    names = {"behavior_unit": unit, "behavior_name": name, "behavior_columns": columns}
    return {"behavior_times": times, "behavior": values, **names}


def _joined(series: Sequence[Series]) -> list[Series]:
    """1-D series of one movement as one: those for its axes (hand_vel_x, hand_vel_y) or all of a container."""
    groups: dict[str, dict[str, Series]] = {}
    taken = {one.name for one in series}
    for one in (one for one in series if one.shape[1:] in ((), (1,))):
        container, slash, last = one.name.rpartition("/")
        if match := _AXIS.search(last):
            base = container + slash + _AXIS.sub("", last, count=1)
            groups.setdefault(base, {})[match[0].strip("_").lower()] = one
        if container:
            groups.setdefault(container, {})[last] = one
    return [
        parts[min(parts)]._replace(
            name=name, read=partial(_read_joined, parts), columns=tuple(sorted(parts)), shape=()
        )
        for name, parts in groups.items()
        if len(parts) > 1 and name not in taken
    ]


def _read_joined(parts: Mapping[str, Series]) -> tuple[np.ndarray, np.ndarray]:
    samples = {one.name: one.read() for _, one in sorted(parts.items())}
    times = _common_times({name: times for name, (times, _) in samples.items()})
    return times, np.column_stack([values for _, values in samples.values()])


def _find(name: str, series: Sequence[Series]) -> Series:
    """The series with this name, or with this as the last part of its name, or in a container with this name."""
    by_last = [one for one in series if one.name.rpartition("/")[2].lower() == name.lower()]
    by_part = [one for one in series if name.lower() in one.name.lower().split("/")]
    found = [one for one in series if one.name == name] or by_last or by_part
    if len(found) != 1:
        raise RecordingError(
            f"behavior={name!r} must name one of the series of the file: {_list(series)}."
        )
    return found[0]


def _list(series: Sequence[Series]) -> str:
    return ", ".join(f"{one.name} {one.shape or ''}".rstrip() for one in series)[:600] or "none"


def _load_default(
    series: Sequence[Series], notes: list[str]
) -> tuple[Series, np.ndarray, np.ndarray]:
    """The first of `SERIES` in the file that is not zero throughout."""
    still: list[str] = []
    for one in (one for role in SERIES for one in series if _role(one.name) == role):
        own_notes: list[str] = []
        loaded = _load(one, False, own_notes)
        if np.nan_to_num(loaded[2]).any():
            notes += still + own_notes
            return loaded
        still.append(f"{one.name} is zero or missing throughout, so it was not decoded.")
    cure = f"Name what to decode with --behavior NAME, one or more of {_list(series)}; see CONVERTERS.md."
    raise RecordingError(" ".join([*still, cure]))


def _role(name: str) -> str:
    """Its name in `SERIES`, or "": of "Velocity/cursor_vel" cursor_vel, of "hand/vel" and "Velocity/Hand" hand_vel."""
    *containers, last = (
        name.lower().replace("velocity", "vel").replace("position", "pos").split("/")
    )
    container = containers[-1:]
    roles = (
        "_".join([*container, last]),
        last,
        "_".join([last, *container]).removeprefix("spatialseries_"),
    )
    return next((role for role in roles if role in SERIES), "")


def is_position(name: str, default: bool = False) -> bool:
    """Whether the name of a series says that it is a position or, if it says neither, that of its container."""
    found = (_KIND.search(part) for part in reversed(name.split("/")))
    return next((match[1].lower() == "pos" for match in found if match), default)


def _load(series: Series, raw: bool, notes: list[str]) -> tuple[Series, np.ndarray, np.ndarray]:
    """What is decoded of a series, at times (T,) that increase, (T, C); positions are differentiated unless `raw`."""
    name = series.name
    times, values = map(_numbers, series.read())
    values = values[:, None] if values.ndim == 1 else values
    times, values = _drop_rows(
        ~np.isfinite(times), (times, values), f"samples of {name} without a time", notes
    )
    late = np.zeros(len(times), dtype=bool)  # than a sample before
    late[1:] = times[1:] <= np.maximum.accumulate(times)[:-1]
    if late.sum() > _FEW * len(times):
        check_order(f"times of {name}", times, strict=True)
    times, values = _drop_rows(
        late, (times, values), f"samples of {name} with a time out of order or repeated", notes
    )
    columns = series.columns or tuple(default_columns(values.shape[1]).tolist())
    series = series._replace(unit=series.unit or "a.u.", columns=columns)
    if raw or not (is_position(name) if series.is_position is None else series.is_position):
        return series, times, values
    values, how = differentiate(times, values)
    notes.append(f"Velocity is the derivative of the position {name}{': ' if how else ''}{how}.")
    return series._replace(name=f"velocity of {name}", unit=f"{series.unit}/s"), times, values


def _common_times(times: Mapping[str, np.ndarray]) -> np.ndarray:
    """The times of the first series, (T,), if all others have the same to half a sample. RecordingError otherwise."""
    first, *others = times.values()
    half = np.median(np.diff(first)) / 2
    if any(
        len(other) != len(first) or not (np.abs(other - first) <= half).all() for other in others
    ):
        raise RecordingError(
            f"{', '.join(times)} have samples at different times: they are not decoded side by side."
        )
    return first
