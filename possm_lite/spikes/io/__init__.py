"""Recordings from files: our own `.npz`, MATLAB and NWB."""

from pathlib import Path

from ...errors import RecordingError, prefix_errors
from ..arrays import load_npz
from ..npz_format import from_arrays
from ..recording import Recording
from .subprocess_reader import read_in_subprocess

__all__ = ["load_recording"]


def load_recording(path: str | Path, behavior: str | None = None) -> Recording:
    """Read a recording from an `.npz`, `.mat` or `.nwb` file.

    An `.npz` written by `Recording.save` gives the same recording. One from another source needs `spike_times`,
    `spike_units`, `behavior_times` and `velocity`, as in `Recording`. Defaults of the others: `unit_ids` "0", "1", ...
    up to the largest in `spike_units`, no `trials`, no `notes`, `session_id` the name of the file, `behavior_unit`
    "a.u.". Keys that begin with `truth_` are ignored; any other unknown key is an error.
    For the other two formats see `possm_lite.spikes.io.mat` and `possm_lite.spikes.io.nwb`.

    Args:
        path: the file; its suffix selects the format.
        behavior: for NWB, the name of the series to decode instead of the default.

    Raises:
        RecordingError: the file cannot be used. One line: the file, the field, the value.
    """
    path = Path(path)
    suffix = path.suffix.lower()
    with prefix_errors(path):
        if suffix not in (".npz", ".mat", ".nwb"):
            raise RecordingError(f"has the suffix {suffix!r}; a recording is an .npz, .mat or .nwb file.")
        if behavior is not None and suffix != ".nwb":
            raise RecordingError(f"behavior={behavior!r} selects a series of an .nwb file; others have only one.")
        arrays = load_npz(path) if suffix == ".npz" else read_in_subprocess(path, behavior)
        return Recording(**from_arrays(arrays, path.stem))
