"""MATLAB files of spike counts in bins.

The layout: `time` (1, n) s, the start of each bin; `spikes` (units, n), counts; `handVel` (C, n) m/s. It has no trials.
"""

from pathlib import Path

import numpy as np

from ...errors import RecordingError
from ..recording import Recording
from ..trains import whole_counts

_NAMES = ("time", "spikes", "handVel")
_JITTER = 0.02  # of a bin: largest distance of a bin's start from the regular clock


def read_mat(path: Path) -> Recording:
    """The recording in a MATLAB file (v4, v6 or v7) of the layout above.

    The spikes of a bin are placed by `Recording.from_counts`, the bins on a regular clock if every start is within 2 %
    of a bin of it, as such starts were rounded; else they may have gaps. Behaviour has the times of the bins' starts.
    """
    from scipy.io import loadmat, whosmat

    listed = [name for name, _, _ in whosmat(path)]
    if missing := set(_NAMES) - set(listed):
        found = ", ".join(listed)[:200]
        raise RecordingError(f"lacks {', '.join(sorted(missing))}; it has {found or 'nothing'}. See CONVERTERS.md.")
    variables = loadmat(path, variable_names=_NAMES)
    time, counts, velocity = (variables[name] for name in _NAMES)
    shapes = f"{time.shape}, {counts.shape} and {velocity.shape} of {time.dtype}, {counts.dtype} and {velocity.dtype}"
    is_real = all(variables[name].dtype.kind in "iuf" for name in _NAMES)
    n = time.size
    if not is_real or n < 2 or (time.shape, counts.shape[1:], velocity.shape[1:]) != ((1, n), (n,), (n,)):
        raise RecordingError(f"{', '.join(_NAMES)} must be numbers (1, bins), (units, bins), (C, bins), not {shapes}.")
    starts, width = _regular_clock(time.ravel().astype(np.float64))
    notes = []
    if (jitter := np.abs(time.ravel() - starts).max()) > 1e-6 * width:
        notes.append(f"Bin starts up to {1000 * jitter:.2g} ms off were put on a regular clock of {1000 * width:g} ms.")
    varies = velocity.min(1) != velocity.max(1)  # True for NaN
    if varies.any() and not varies.all():
        notes.append(f"Rows {np.flatnonzero(~varies).tolist()} of handVel never change and were left out.")
        velocity = velocity[varies]
    counts = whole_counts("spikes", counts).T
    names = {"behavior_unit": "m/s", "behavior_name": "hand velocity", "session_id": path.stem}
    return Recording.from_counts(counts, width, velocity.T, starts, behavior_times=starts, notes=notes, **names)


def _regular_clock(time: np.ndarray) -> tuple[np.ndarray, float]:
    """Starts of the bins (n,) and their width, in seconds: on a regular clock where one fits, else as they are.

    The width is the median step rounded to a microsecond or, if that drifts away, the mean step.
    """
    steps = np.diff(time)
    median = float(np.median(steps))
    for width in (round(median, 6), float(time[-1] - time[0]) / len(steps)):
        rate = 1 / width if 0 < width < np.inf else np.nan  # exactly a whole number of Hz for common widths
        starts = time[0] + np.arange(len(time)) / rate
        if np.abs(time - starts).max() <= _JITTER * width * (1 + 1e-6):  # starts rounded to 1 ms have float errors
            return starts, width
    pauses = np.mean(~(np.abs(steps - median) <= _JITTER * median))  # NaN counts, too
    if pauses > 0.01:
        raise RecordingError(
            f"time must be a regular clock, with few pauses: {pauses:.0%} of steps are not {median:g} s."
        )
    return time, median
