"""MATLAB files of spike counts in bins.

The layout: `time` (1, n) s, the start of each bin; `spikes` (units, n), counts; `handVel` (C, n)
m/s. It has no trials.
"""

from pathlib import Path

import numpy as np

from ...errors import RecordingError
from ..recording import Recording

_NAMES = ("time", "spikes", "handVel")
# of a bin: largest distance of its start from the regular clock, as of times in whole ms
_JITTER = 0.02 * (1 + 1e-6)


def read_mat(path: Path) -> Recording:
    """The recording in a MATLAB file of the layout above.

    The spikes of a bin are placed by `Recording.from_counts`, the bins on a regular clock if every
    start is within 2 % of a bin of it, as such starts were rounded; else they may have gaps.
    Behaviour has the times of the bins' starts.

    Args:
        path: a file of MATLAB v4, v6 or v7.

    Raises:
        RecordingError: a variable is missing or has another shape. Without the path.
    """
    from scipy.io import loadmat

    variables = loadmat(path, variable_names=_NAMES)
    time, counts, velocity = (variables.get(name, np.array("absent")) for name in _NAMES)
    _check_shapes(time, counts, velocity)
    notes: list[str] = []
    time = time.ravel().astype(np.float64)
    width = round(float(np.median(np.diff(time))), 6)
    time = _on_regular_clock(time, width, notes)
    velocity = _moving_rows(velocity, notes)
    return Recording.from_counts(
        counts.T,
        width,
        velocity.T,
        time,
        behavior_times=time,
        notes=notes,
        behavior_unit="m/s",
        behavior_name="hand velocity",
        session_id=path.stem,
    )


def _check_shapes(time: np.ndarray, counts: np.ndarray, velocity: np.ndarray):
    """Raise RecordingError unless all are numbers with a column for each bin."""
    n_bins = time.size
    for array in (time.ravel()[None], counts, velocity):
        is_number = array.dtype.kind in "iuf"
        if not is_number or array.shape != (len(array), n_bins):
            raise RecordingError(
                f"needs {', '.join(_NAMES)}, shape (1, bins), (units, bins), (C, bins), "
                f"found: {time.shape}, {counts.shape}, {velocity.shape}; "
                "other layouts: CONVERTERS.md."
            )


def _on_regular_clock(time: np.ndarray, width: float, notes: list[str]) -> np.ndarray:
    """Starts of bins, (n,) s, put on a regular clock of this width if all are near it."""
    # 1 / width is exactly a whole number for common widths
    regular = time[0] + np.arange(len(time)) / (1 / width)
    off = np.abs(time - regular).max()
    if not off <= _JITTER * width:
        return time
    if off > 1e-6 * width:
        notes.append(
            f"Bin starts up to {1e3 * off:.2g} ms off were put on a regular clock of "
            f"{1e3 * width:g} ms."
        )
    return regular


def _moving_rows(velocity: np.ndarray, notes: list[str]) -> np.ndarray:
    """Velocity, (C, n), without the rows that never change, unless none does."""
    varies = velocity.min(1) != velocity.max(1)  # True for NaN
    if varies.all() or not varies.any():
        return velocity
    still = np.flatnonzero(~varies).tolist()
    notes.append(f"Rows {still} of handVel never change and were left out.")
    return velocity[varies]
