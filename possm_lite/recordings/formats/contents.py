"""What a reader finds in a file, and what of it is wanted, before anything is chosen, mended or checked."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np


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


def intervals(table: dict[str, np.ndarray], start: str = "start", stop: str = "stop") -> np.ndarray:
    """These two columns, (n, 2), which are taken out of a table; (0, 2) of one without columns."""
    return np.stack([table.pop(start), table.pop(stop)], axis=1) if table else np.empty((0, 2))
