"""Recordings in files: our own `.npz`, written and read here, and the door to MATLAB and NWB files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from ...errors import RecordingError, prefix_errors
from ..arrays import read_arrays, read_members, write_arrays
from ..layout import FORMAT, from_arrays, to_arrays
from ..recording import Recording
from .subprocess_reader import read_in_subprocess

__all__ = ["FORMAT", "load_recording", "read_arrays", "save_recording", "write_arrays"]


def load_recording(path: str | Path, behavior: str | None = None) -> Recording:
    """Read a recording from an `.npz`, `.mat` or `.nwb` file.

    Our own `.npz` comes back as it was saved. One written by hand needs `spike_times`, `spike_units`, `behavior_times`
    and `velocity`, as in `Recording`; the others may be left out: `unit_ids` are then "0", "1", ... up to the largest
    in `spike_units`, there are no `trials` and no `notes`, `session_id` is the name of the file and `velocity_unit` is
    "a.u.". Keys that begin with `truth_` are passed over; any other unknown key is an error.
    For the other two see `possm_lite.spikes.io.mat` and `possm_lite.spikes.io.nwb`.

    Args:
        path: the file; its suffix says what it is.
        behavior: for NWB, the name of the series to decode instead of the first choice.

    Raises:
        RecordingError: whatever is wrong with the file. One line: the file, the field, the value.
    """
    path = Path(path)
    suffix = path.suffix.lower()
    with prefix_errors(path):
        if suffix not in (".npz", ".mat", ".nwb"):
            raise RecordingError(f"has the suffix {suffix!r}; a recording is an .npz, .mat or .nwb file.")
        if behavior is not None and suffix != ".nwb":
            raise RecordingError(f"behavior={behavior!r} chooses a series of an .nwb file; others have just one.")
        arrays = read_members(path) if suffix == ".npz" else read_in_subprocess(path, behavior)
        return from_arrays(arrays, path.stem)


def save_recording(recording: Recording, path: str | Path, extra: Mapping[str, np.ndarray] | None = None):
    """Write a recording to an `.npz` file that `load_recording` reads back bit for bit.

    Args:
        recording: what to write.
        path: the file.
        extra: further arrays, under names that begin with `truth_`; `read_arrays` reads them.

    Raises:
        RecordingError: it could not be written; what stood at `path` still stands.
    """
    path = Path(path)
    if path.suffix.lower() != ".npz":
        with prefix_errors(path):
            raise RecordingError(f"has the suffix {path.suffix!r}; a recording is saved as .npz.")
    unknown = [name for name in extra or {} if not name.startswith("truth_")]
    if unknown:
        with prefix_errors(path):
            raise RecordingError(f"extra arrays must have names that begin with truth_, not {unknown[0]!r}.")
    write_arrays(path, {**to_arrays(recording), **(extra or {})}, RecordingError)
