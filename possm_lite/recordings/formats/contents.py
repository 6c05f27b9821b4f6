"""What a reader finds in a file, and what of it is wanted.

Nothing is chosen, mended or checked here.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ..recording import Recording


@dataclass(frozen=True)
class Selection:
    """What of a file is wanted.

    It is also read from checkpoints, as JSON, so names may be of any type and are made text.

    Attributes:
        behavior: names of series, decoded side by side; a single text is one name. Default: that of
            the file.
        columns: of these series, by name or by number from 0. Default: all.
        units: filter of units, such as "quality == 'good'"; "" for all.
        trials: filter of trials, such as "result == 'R' and duration > 0.3"; "" for all.
        spikes_only: behaviour is not read.
    """

    behavior: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    units: str = ""
    trials: str = ""
    spikes_only: bool = False

    def __post_init__(self):
        for name in ("behavior", "columns"):
            value = getattr(self, name) or ()
            values = (value,) if isinstance(value, str) else value
            object.__setattr__(self, name, tuple(map(str, values)))


class Series(NamedTuple):
    """One behavioural time series of a file, read only when it is chosen.

    Attributes:
        name: such as "hand_vel" or, in a container, "Position/hand_pos".
        read: a function that returns times in seconds, (T,), and values, (T,) or (T, C), NaN where
            missing.
        unit: of the values, such as "mm".
        is_position: True if it is differentiated, unless the position itself is asked for; False if
            not; None: as its name says.
        columns: their names; (): x, y, z up to three, else "0", "1", ...
        shape: of the values, (T,) or (T, C); () where it is not known.
        confidence: a function that returns how sure the tracking was of each sample, 0 to 1, (T,);
            None: it is not known.
        classes: names of classes, of which the values are places; (): of other values.
    """

    name: str
    read: Callable[[], tuple[np.ndarray, np.ndarray]]
    unit: str = "a.u."
    is_position: bool | None = None
    columns: tuple[str, ...] = ()
    shape: tuple[int, ...] = ()
    confidence: Callable[[], np.ndarray] | None = None
    classes: tuple[str, ...] = ()


class Contents(NamedTuple):
    """What a reader finds in a file, before anything is chosen, mended or checked.

    Attributes:
        spike_times: seconds, in any order, shape (N,).
        spike_units: index in `unit_ids` of each spike, shape (N,).
        unit_ids: names or numbers of the units, shape (U,).
        series: of behaviour, all that the file has.
        session_id: the name of the session.
        trials: start and stop in seconds, as in the file, shape (n, 2).
        unit_table: further columns of units for filters, by name, shape (U,) each.
        trial_table: further columns of trials, by name, shape (n,) each, for filters; each may be
            decoded as one label a trial.
        observed: start and stop in seconds of the times at which the recording was on, shape
            (m, 2); None: always.
        observed_name: what the file calls them.
        default: names of series to decode if none is named; (): the first of `SERIES` that moves.
        behavior_error: why there are no series, where that is an error if behaviour is wanted.
        notes: what the reader decided, a sentence each.
        recording: what the file holds as it is, if nothing is selected; None: not a recording.
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
    observed_name: str = "the observed times"
    default: tuple[str, ...] = ()
    behavior_error: str = ""
    notes: tuple[str, ...] = ()
    recording: Recording | None = None


def contents_of(recording: Recording, trial_table: Mapping[str, np.ndarray] = {}) -> Contents:
    """A `recording` as contents of a file, whose behaviour is decoded as it is.

    Args:
        recording: the recording.
        trial_table: columns of its trials, as in `Contents`.
    """
    series = []
    if len(recording.behavior_times):
        decoded = Series(
            recording.behavior_name,
            lambda: (recording.behavior_times, recording.behavior),
            recording.behavior_unit,
            is_position=False,
            columns=tuple(recording.behavior_columns.tolist()),
            classes=tuple(recording.classes.tolist()),
        )
        series.append(decoded)
    return Contents(
        recording.spike_times,
        recording.spike_units,
        recording.unit_ids,
        series,
        recording.session_id,
        recording.trials,
        trial_table=trial_table,
        default=(recording.behavior_name,),
        notes=recording.notes,
        recording=recording,
    )


def columns_of_trials(arrays: Mapping[str, np.ndarray], n_trials: int) -> dict[str, np.ndarray]:
    """The arrays as long as the trials: each is one label a trial, or one number.

    Args:
        arrays: by name.
        n_trials: how many there are; without trials there are no labels of them.
    """
    flat = {name: np.squeeze(array) for name, array in arrays.items() if np.size(array) == n_trials}
    return {name: array for name, array in flat.items() if array.ndim == 1 and n_trials}


def series_in_memory(name: str, times: np.ndarray, values: np.ndarray) -> Series:
    """A series that is read already.

    Args:
        name: of the series.
        times: seconds, (T,).
        values: (T,) or (T, C).
    """
    return Series(name, lambda: (times, values), shape=values.shape)


def intervals(table: dict[str, np.ndarray], start: str = "start", stop: str = "stop") -> np.ndarray:
    """Two columns of a table as intervals; they are taken out of it.

    Args:
        table: columns by name, (n,) each.
        start: the name of the column of starts, in seconds.
        stop: the name of the column of stops, in seconds.

    Returns:
        Starts and stops, (n, 2); (0, 2) of a table without columns.

    Raises:
        KeyError: the table has columns, but not these.
    """
    if not table:
        return np.empty((0, 2))
    return np.stack([table.pop(start), table.pop(stop)], axis=1)
