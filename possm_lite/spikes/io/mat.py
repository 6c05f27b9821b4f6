"""MATLAB files of spike counts in bins.

The layout: `time` (1, n) s, the start of each bin; `spikes` (units, n), counts; `handVel` (C, n) m/s. It has no trials.
"""

import math
import struct
import zlib
from pathlib import Path

import numpy as np

from ...errors import RecordingError, wrap_errors
from ..arrays import MAX_BYTES
from ..recording import Recording
from ..trains import whole_counts

_NAMES = ("time", "spikes", "handVel")
_NUMBERS = ("double", "single", "logical", *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)))
_JITTER = 0.02  # of a bin: largest distance of a bin's start from the regular clock
_COMPRESSED = 15  # miCOMPRESSED, the type of a deflated element


def read_mat(path: Path) -> Recording:
    """The recording in a MATLAB file (v4, v6 or v7) of the layout above.

    The spikes of a bin are placed by `Recording.from_counts`, the bins on a regular clock if every start is within 2 %
    of a bin of it, as such starts were rounded; else they may have gaps. Behaviour has the times of the bins' starts.

    Raises:
        FileFormatError: without the name of the file; `load_recording` adds it.
    """
    time, counts, velocity = _read_variables(path)
    n = time.size
    if 1 not in time.shape or n < 2 or (counts.shape[1], velocity.shape[1]) != (n, n):
        shapes = f"{time.shape}, {counts.shape} and {velocity.shape}"
        raise RecordingError(f"time, spikes, handVel must be (1, bins), (units, bins), (C, bins), not {shapes}.")
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


def _read_variables(path: Path) -> list[np.ndarray]:
    """`time`, `spikes` and `handVel`; their declared types and shapes are checked before they are read."""
    from scipy.io import loadmat, whosmat
    from scipy.io.matlab import matfile_version

    with wrap_errors("is damaged or not a MATLAB file"):
        if matfile_version(path)[0] == 1:  # v6 and v7
            _check_elements(path)
        listed = whosmat(path)
        for name in _NAMES:
            declared = [(shape, kind) for other, shape, kind in listed if other == name]
            if len(declared) != 1:
                problem = "occurs twice" if declared else "is missing"
                available = ", ".join(other for other, _, _ in listed)[:200] or "nothing"
                needed = f"Needed are {', '.join(_NAMES)}; it has {available}. See CONVERTERS.md."
                raise RecordingError(f"{name} {problem}. {needed}")
            shape, kind = declared[0]
            if kind not in _NUMBERS or len(shape) != 2 or min(shape) < 1 or 8 * math.prod(shape) > MAX_BYTES:
                limit = f"must be a matrix of numbers of at most {MAX_BYTES} bytes"
                raise RecordingError(f"{name} {limit}, not {kind} of shape {shape}.")
        variables = loadmat(path, variable_names=_NAMES)
        arrays = [variables[name] for name in _NAMES]
        if any(array.dtype.kind not in "iuf" for array in arrays):
            raise RecordingError(f"{', '.join(_NAMES)} must hold real numbers.")
    return arrays


def _check_elements(path: Path):
    """Unpack and discard each compressed element of a v5 file: SciPy ignores their checksums, and has no size limit."""
    with open(path, "rb") as file:
        order = "<" if file.read(128)[126:] == b"IM" else ">"
        while tag := file.read(8):
            kind, size = struct.unpack(f"{order}II", tag)
            end = file.tell() + size
            if kind == _COMPRESSED:
                unpacker = zlib.decompressobj()
                if len(unpacker.decompress(file.read(size), MAX_BYTES)) == MAX_BYTES:
                    raise RecordingError(f"has a variable that unpacks to more than {MAX_BYTES} bytes.")
                if not unpacker.eof:
                    raise RecordingError("is damaged: a compressed variable is truncated.")
            file.seek(end)


def _regular_clock(time: np.ndarray) -> tuple[np.ndarray, float]:
    """Starts of the bins (n,) and their width, in seconds: on a regular clock where one fits, else as they are.

    The width is the median step rounded to a microsecond or, if that drifts away, the mean step.
    """
    steps = np.diff(time)
    median = float(np.nanmedian(steps))
    for width in (round(median, 6), float(time[-1] - time[0]) / len(steps)):
        rate = 1 / width if 0 < width < np.inf else np.nan  # exactly a whole number of Hz for common widths
        starts = time[0] + np.arange(len(time)) / rate
        if np.abs(time - starts).max() <= _JITTER * width * (1 + 1e-6):  # starts rounded to 1 ms have float errors
            return starts, width
    pauses = ~(np.abs(steps - median) <= _JITTER * median)  # True for NaN
    if pauses.mean() > 0.01:
        problem = f"{pauses.sum()} of {len(steps)} steps are not {median:g} s"
        raise RecordingError(f"time must be a regular clock, with few pauses: {problem}.")
    return time, median
