"""Reads all formats but `.npz` in a separate process.

SciPy's and HDF5's parsers trust the sizes in a file: a wrong byte can crash them or keep them busy without end. That
ends the other process only, and is a RecordingError here.
"""

import importlib
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

import numpy as np

from ...errors import FileFormatError, RecordingError, wrap_errors
from ..arrays import check_readable, load_npz
from ..npz_format import to_arrays
from ..recording import Recording
from .contents import Selection, assemble, select

_MAX_SECONDS = 900
_MAX_BYTES = 16 * 2**30  # of the converted file, which we wrote
_PROGRAM = (
    "import json, sys; sys.path[:], *arguments = json.loads(sys.argv[1]); "
    "from possm_lite.spikes.io.subprocess_reader import convert; convert(*arguments)"
)
# The function, in a module beside this one, that reads a format: `Path` to `Contents`, or to a `Recording` where there
# is nothing to choose from.
READERS = {
    ".mat": ("mat", "read_mat"),
    ".mat v7.3": ("hdf5", "read_indy"),
    ".nwb": ("nwb", "read_nwb"),
    ".h5": ("hdf5", "read_brainsets"),
    ".hdf5": ("hdf5", "read_brainsets"),
    "folder of phy": ("folders", "read_phy"),
    "folder of pynapple": ("folders", "read_pynapple"),
}


def find_format(path: Path) -> str:
    """The key of `READERS` for a file or folder. Raises RecordingError, without the name of the file."""
    kind = path.suffix.lower() or "file without a suffix"
    if os.path.isdir(path):
        kind = "folder of pynapple" if any(path.glob("*.npz")) else "folder"
        kind = "folder of phy" if any(path.glob("spike_*.npy")) else kind
    elif kind == ".mat" and os.path.isfile(path):  # opening a named pipe would block
        with open(path, "rb") as file:
            start = file.read(520)
        kind += " v7.3" if b"\x89HDF" in (start[:4], start[512:516]) else ""  # MATLAB puts 512 bytes before it
    if kind not in READERS:
        raise RecordingError(f"is a {kind}, which is not read: read are .npz, {', '.join(READERS)}. See CONVERTERS.md.")
    return kind


def read_in_subprocess(path: Path, selection: Selection) -> dict[str, np.ndarray]:
    """The recording in a file as `to_arrays` gives it, read by `convert` in another process.

    Raises:
        RecordingError: without the name of the file.
        RuntimeError: an unexpected exception in our own code, with its traceback.
    """
    if not os.path.isdir(path):
        check_readable(path)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        command = [sys.executable, "-I", "-c", _PROGRAM, json.dumps([sys.path, str(path), asdict(selection), folder])]
        try:
            run = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=_MAX_SECONDS)
        except subprocess.TimeoutExpired as exc:
            raise RecordingError(f"is damaged: reading it did not finish in {_MAX_SECONDS} s.") from exc
        if run.returncode == 1:  # Python's exit status after an uncaught exception
            raise RuntimeError(run.stderr.decode(errors="replace"))
        if run.returncode != 0:
            raise RecordingError(f"is damaged: its reader crashed on it, with exit status {run.returncode}.")
        if (error := Path(folder, "error.txt")).exists():
            raise RecordingError(error.read_text(encoding="utf-8"))
        return load_npz(Path(folder, "recording.npz"), _MAX_BYTES)


def convert(path: str, selection: dict, folder: str):
    """Write the recording in the file to `folder` as recording.npz, or the reason why not as error.txt."""
    try:
        with wrap_errors("is damaged or has another layout"):
            recording = _read(Path(path), Selection(**selection))
            np.savez(Path(folder, "recording.npz"), **to_arrays(vars(recording)))
    except FileFormatError as exc:
        Path(folder, "error.txt").write_text(str(exc), encoding="utf-8", errors="replace")


def _read(path: Path, selection: Selection) -> Recording:
    module, function = READERS[find_format(path)]
    try:
        module = importlib.import_module(f".{module}", __package__)  # only now: h5py and pynwb are slow to import
        found = getattr(module, function)(path)
    except ImportError as exc:
        raise RecordingError(f"needs {exc.name} to be read: pip install possm-lite[recordings]") from exc
    return select(found, selection) if isinstance(found, Recording) else assemble(found, selection)
