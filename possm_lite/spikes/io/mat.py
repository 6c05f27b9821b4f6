"""MATLAB files of spike counts in bins.

The layout: `time` (1, n) s, the start of each bin; `spikes` (units, n), counts; `handVel` (C, n) m/s, of which rows
that never change are left out. It has no trials, and the times of spikes within a bin are unknown.
"""

import math
import struct
import zlib
from pathlib import Path

import numpy as np

from ...errors import RecordingError, wrap_errors
from ..arrays import MAX_BYTES
from ..recording import Recording
from ..trains import spread_counts, whole_counts

_NAMES = ("time", "spikes", "handVel")
_NUMBERS = ("double", "single", "logical", *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)))
_JITTER = 0.02  # of a bin: largest distance of a bin's start from the regular clock
_COMPRESSED = 15  # miCOMPRESSED, the type of a deflated element


def read_mat(path: Path) -> Recording:
    """The recording in a MATLAB file (v4, v6 or v7) of the layout above.

    The spikes of a bin are placed by `spread_counts`. The bins are placed on the
    clock time[0] + k * width if every start is within 2 % of a bin of it: such starts were rounded. Behaviour has the
    times of the bins' starts, units are named "0", "1", ...

    Raises:
        FileFormatError: without the name of the file; `load_recording` adds it.
    """
    time, counts, velocity = _read_variables(path)
    n = time.size
    if 1 not in time.shape or n < 2:
        raise RecordingError(f"time must have shape (1, bins), with at least two bins, not {time.shape}.")
    if counts.shape[1] != n:
        raise RecordingError(f"spikes must have shape (units, {n}), as time has {n} bins, not {counts.shape}.")
    if velocity.shape[1] != n:
        raise RecordingError(f"handVel must have {n} columns, as time has {n} bins, not shape {velocity.shape}.")
    starts, width, jitter = _regular_clock(time.ravel().astype(np.float64))
    spike_times, spike_units, note = spread_counts(whole_counts("spikes", counts).T, starts, width)
    notes = [note]
    if jitter > 1e-6 * width:
        notes.append(f"Bin starts up to {1000 * jitter:.2g} ms off were put on a regular clock of {1000 * width:g} ms.")
    varies = velocity.min(1) != velocity.max(1)  # True for NaN
    if varies.any() and not varies.all():
        notes.append(f"Rows {np.flatnonzero(~varies).tolist()} of handVel never change and were left out.")
        velocity = velocity[varies]
    return Recording(
        spike_times=spike_times,
        spike_units=spike_units,
        unit_ids=np.arange(len(counts)),
        behavior_times=starts,
        behavior=velocity.T,
        behavior_unit="m/s",
        trials=[],
        session_id=path.stem,
        notes=tuple(notes),
        behavior_name="hand velocity",
    )


def _read_variables(path: Path) -> list[np.ndarray]:
    """`time`, `spikes` and `handVel`; their declared types and shapes are checked before they are read."""
    from scipy.io import loadmat, whosmat
    from scipy.io.matlab import matfile_version

    with wrap_errors("is damaged or not a MATLAB file"):
        version, _ = matfile_version(path)  # 0: v4, 1: v6 and v7, 2: v7.3
        if version == 2:
            raise RecordingError("is a MATLAB v7.3 (HDF5) file: save it again with -v7.")
        if version == 1:
            _check_elements(path)
        listed = whosmat(path)
    for name in _NAMES:
        declared = [(shape, kind) for other, shape, kind in listed if other == name]
        if len(declared) != 1:
            available = ", ".join(other for other, _, _ in listed)[:200] or "nothing"
            raise RecordingError(f"{name} must occur once, not {len(declared)} times. The file has {available}.")
        shape, kind = declared[0]
        if kind not in _NUMBERS:
            raise RecordingError(f"{name} must hold numbers, not {kind}.")
        if len(shape) != 2 or min(shape) < 1:
            raise RecordingError(f"{name} must have two dimensions and not be empty, not shape {shape}.")
        if 8 * math.prod(shape) > MAX_BYTES:
            raise RecordingError(f"{name} declares shape {shape}, more than {MAX_BYTES} bytes.")
    with wrap_errors("is damaged"):
        variables = loadmat(path, variable_names=_NAMES)
    for name in _NAMES:
        if not isinstance(variables.get(name), np.ndarray) or variables[name].dtype.kind not in "iuf":
            raise RecordingError(f"{name} must hold real numbers.")
    return [variables[name] for name in _NAMES]


def _check_elements(path: Path):
    """Unpack and discard each compressed element of a v5 file: SciPy ignores their checksums, and has no size limit."""
    file_size = path.stat().st_size
    with open(path, "rb") as file:
        order = "<" if file.read(128)[126:] == b"IM" else ">"
        while tag := file.read(8):
            kind, size = struct.unpack(f"{order}II", tag)
            end = file.tell() + size
            if end > file_size:
                raise RecordingError(f"is truncated: it has {file_size} bytes, an element ends at {end}.")
            if kind == _COMPRESSED:
                unpacker = zlib.decompressobj()
                if len(unpacker.decompress(file.read(size), MAX_BYTES)) == MAX_BYTES:
                    raise RecordingError(f"has a variable that unpacks to more than {MAX_BYTES} bytes.")
                if not unpacker.eof:
                    raise RecordingError("is damaged: a compressed variable is truncated.")
            file.seek(end)


def _regular_clock(time: np.ndarray) -> tuple[np.ndarray, float, float]:
    """Starts on a regular clock (n,), its width, and the largest distance of the file's starts from it, in seconds.

    The width is the median step rounded to a microsecond or, if that drifts away, the mean step.
    """
    for k in np.flatnonzero(~np.isfinite(time))[:1]:
        raise RecordingError(f"time must be finite: time[{k}] = {time[k]}.")
    steps = np.diff(time)
    median = np.median(steps)
    for width in (round(float(median), 6), (time[-1] - time[0]) / len(steps)):
        if width <= 0:
            continue
        rate = 1 / width  # exactly a whole number of Hz for common widths
        starts = time[0] + np.arange(len(time)) / rate
        jitter = np.abs(time - starts).max()
        if jitter <= _JITTER * width * (1 + 1e-6):  # the margin allows for float error in starts rounded to 1 ms
            return starts, width, float(jitter)
    k = int(np.argmax(np.abs(steps - median)))
    raise RecordingError(
        f"time must be a regular clock: time[{k + 1}] = {time[k + 1]:.8g} s is {steps[k]:.6g} s after the previous "
        f"one, the median step is {median:.6g} s. Save the parts before and after a gap as two recordings."
    )
