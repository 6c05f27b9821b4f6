"""MATLAB files of spike counts in bins: `time` (1, n) s, `spikes` (units, n), `handVel` (C, n) m/s; no trials."""

from pathlib import Path

import numpy as np

from ...errors import RecordingError
from ..recording import Recording

_NAMES = ("time", "spikes", "handVel")
_JITTER = 0.02 * (
    1 + 1e-6
)  # of a bin: largest distance of its start from the regular clock, as of times in whole ms


def read_mat(path: Path) -> Recording:
    """The recording in a MATLAB file (v4, v6 or v7) of the layout above.

    The spikes of a bin are placed by `Recording.from_counts`, the bins on a regular clock if every start is within 2 %
    of a bin of it, as such starts were rounded; else they may have gaps. Behaviour has the times of the bins' starts.
    """
    from scipy.io import loadmat

    variables = loadmat(path, variable_names=_NAMES)
    time, counts, velocity = (variables.get(name, np.array("absent")) for name in _NAMES)
    if any(
        a.dtype.kind not in "iuf" or a.shape != (len(a), time.size)
        for a in (time.ravel()[None], counts, velocity)
    ):
        found = f"{time.shape}, {counts.shape}, {velocity.shape}; other layouts: CONVERTERS.md"
        raise RecordingError(
            f"needs {', '.join(_NAMES)}, shape (1, bins), (units, bins), (C, bins), found: {found}."
        )
    time = time.ravel().astype(np.float64)
    width = round(float(np.median(np.diff(time))), 6)
    regular = time[0] + np.arange(len(time)) / (
        1 / width
    )  # 1 / width is exactly a whole number for common widths
    notes = []
    if (off := np.abs(time - regular).max()) <= _JITTER * width:
        if off > 1e-6 * width:
            notes.append(
                f"Bin starts up to {1e3 * off:.2g} ms off were put on a regular clock of {1e3 * width:g} ms."
            )
        time = regular
    varies = velocity.min(1) != velocity.max(1)  # True for NaN
    if varies.any() and not varies.all():
        notes.append(
            f"Rows {np.flatnonzero(~varies).tolist()} of handVel never change and were left out."
        )
        velocity = velocity[varies]
    names = {"behavior_unit": "m/s", "behavior_name": "hand velocity", "session_id": path.stem}
    return Recording.from_counts(
        counts.T, width, velocity.T, time, behavior_times=time, notes=notes, **names
    )
