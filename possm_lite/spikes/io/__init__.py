"""Recordings from files: our own `.npz`, MATLAB, NWB and others."""

import os
from collections.abc import Sequence
from pathlib import Path

from ...errors import prefix_errors
from ..arrays import load_npz
from ..npz_format import from_arrays
from ..recording import Recording
from .contents import Selection, select
from .subprocess_reader import read_in_subprocess

__all__ = ["load_recording"]


def load_recording(
    path: str | Path,
    behavior: str | Sequence[str] | None = None,
    columns: Sequence[str] = (),
    units: str = "",
    trials: str = "",
    spikes_only: bool = False,
) -> Recording:
    """Read a recording: `.npz`, `.mat`, `.nwb`, `.h5` of brainsets, a folder of phy or of pynapple's `.npz` files.

    An `.npz` written by `Recording.save` gives the same recording. One from another source needs `spike_times`,
    `spike_units` and, unless it has spikes alone, `behavior_times` and `behavior`, as in `Recording`. Defaults of the
    others: `unit_ids` "0", "1", ... up to the largest in `spike_units`, no `trials`, no `notes`, `session_id` the name
    of the file, `behavior_unit` "a.u.". Keys that begin with `truth_` are ignored; any other unknown key is an error.
    For the other formats see the modules of `possm_lite.spikes.io`. What was chosen, left out or mended in a file is
    in the notes of the recording.

    Args:
        path: the file or folder.
        behavior: the series to decode, by its name, or that of its container; several are decoded side by side.
            Default: a velocity of hand, finger or cursor, or the derivative of its position. A position that is named
            is differentiated; "hand_pos:raw" is the position itself.
        columns: of these series, by name or by number from 0. Default: all.
        units: the units to read, such as "quality == 'good' and rate > 1": comparisons of columns of the file's table
            of units, with `id` and `rate` in Hz, joined by and, or, not.
        trials: the trials to read, such as "result == 'R'", with `start`, `stop` and `duration` in seconds.
        spikes_only: behaviour is not read and need not be there.

    Raises:
        RecordingError: the file cannot be used. One line: the file, the field, the value.
    """
    path = Path(path)
    suffix = path.suffix.lower()
    selection = Selection(behavior, columns, units, trials, spikes_only)
    with prefix_errors(path):
        if suffix != ".npz" or os.path.isdir(path):
            return Recording(**from_arrays(read_in_subprocess(path, selection), path.stem))
        return select(Recording(**from_arrays(load_npz(path, omit=("_metadata",)), path.stem)), selection)
