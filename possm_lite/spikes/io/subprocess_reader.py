"""MATLAB and NWB files are read in a process of their own.

Their readers are C libraries that believe what a file says: a byte that is wrong can crash them, or keep them busy for
ever. That is then the end of another process, and a RecordingError here.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from ...errors import FileFormatError, RecordingError
from ..arrays import check_readable, read_members
from ..layout import to_arrays
from ..recording import Recording

_MAX_SECONDS = 900
_MAX_BYTES = 16 * 2**30  # of the answer, which is our own
_PROGRAM = (
    "import json, sys; sys.path[:], *question = json.loads(sys.argv[1]); "
    "from possm_lite.spikes.io.subprocess_reader import answer; answer(*question)"
)


def read_in_subprocess(path: Path, behavior: str | None) -> dict[str, np.ndarray]:
    """The recording in a `.mat` or `.nwb` file, read by `answer` in another process, as `to_arrays` gives it.

    Raises:
        RecordingError: without the name of the file.
        RuntimeError: the fault is in our own code; with the traceback.
    """
    check_readable(path)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        question = json.dumps([sys.path, str(path), behavior, folder])
        try:
            command = [sys.executable, "-c", _PROGRAM, question]
            run = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=_MAX_SECONDS)
        except subprocess.TimeoutExpired as trouble:
            raise RecordingError(f"is damaged: reading it did not come to an end in {_MAX_SECONDS} s.") from trouble
        except OSError as trouble:
            raise RecordingError(f"cannot be read: no process to read it could be started ({trouble}).") from trouble
        if run.returncode == 1:  # so Python ends on an exception that nobody expected
            raise RuntimeError(run.stderr.decode(errors="replace"))
        if run.returncode != 0:
            raise RecordingError(f"is damaged: its reader crashed on it, with exit status {run.returncode}.")
        trouble = Path(folder, "trouble.txt")
        if trouble.exists():
            raise RecordingError(trouble.read_text(encoding="utf-8"))
        return read_members(Path(folder, "recording.npz"), _MAX_BYTES)


def answer(path: str, behavior: str | None, folder: str):
    """What `read_in_subprocess` runs in the other process: it leaves recording.npz or trouble.txt in `folder`."""
    try:
        np.savez(Path(folder, "recording.npz"), **to_arrays(read(Path(path), behavior)))
    except (FileFormatError, MemoryError, OSError) as trouble:  # a file that is too big; a disk that is full
        text = str(trouble) if isinstance(trouble, FileFormatError) else f"cannot be read: {trouble!r}"
        Path(folder, "trouble.txt").write_text(text, encoding="utf-8", errors="replace")


def read(path: Path, behavior: str | None) -> Recording:
    """The recording in a `.mat` or `.nwb` file, read here and now."""
    if path.suffix.lower() == ".mat":
        from .mat import read_mat

        return read_mat(path)
    from .nwb import read_nwb

    return read_nwb(path, behavior)
