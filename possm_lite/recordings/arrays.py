"""Arrays in `.npz` files: read without pickle, written atomically."""

import contextlib
import os
import uuid
from collections.abc import Container, Iterator, Mapping
from pathlib import Path

import numpy as np

from ..errors import FileFormatError, prefix_errors, wrap_errors


def read_arrays(path: str | Path, error: type[FileFormatError] = FileFormatError) -> dict[str, np.ndarray]:
    """The arrays of an `.npz` file by name. Raises `error`, one line that begins with the path."""
    with prefix_errors(path, error):
        check_readable(path)
        with wrap_errors("is damaged or not an .npz file"):
            return load_npz(path)


def load_npz(path: str | Path, omit: Container[str] = ()) -> dict[str, np.ndarray]:
    """The arrays of an `.npz` file but those in `omit`. Raises what NumPy does, and FileFormatError for a checksum."""
    with np.load(path, allow_pickle=False) as file:
        # an array whose header was damaged may be read only in part, and then NumPy does not reach its checksum
        if damaged := file.zip.testzip():
            raise FileFormatError(f"is damaged: {damaged} has another checksum.")
        return {name: np.asarray(file[name]) for name in file.files if name not in omit}


def write_arrays(path: str | Path, arrays: Mapping[str, np.ndarray], error: type[FileFormatError] = FileFormatError):
    """Write numbers and text to a compressed `.npz`. Raises `error`, one line; a file at `path` is then unchanged."""
    arrays = {name: np.asarray(array) for name, array in arrays.items()}
    with prefix_errors(path, error):
        for name, array in arrays.items():
            if array.dtype.hasobject:  # NumPy would pickle it
                raise FileFormatError(f"{name} must hold plain numbers or text, not {array.dtype}.")
        with atomic_write(path) as partial, open(partial, "xb") as file:
            np.savez_compressed(file, **arrays)


@contextlib.contextmanager
def atomic_write(path: str | Path) -> Iterator[Path]:
    """Yield a temporary name beside `path`, which it replaces on success only. FileFormatError if it cannot."""
    path = Path(path)
    partial = path.with_name(f".{uuid.uuid4().hex}.partial")
    try:
        yield partial
        with open(partial, "rb+") as file:
            os.fsync(file.fileno())
        os.replace(partial, path)
    except OSError as exc:
        raise FileFormatError(f"could not be written: {exc.strerror or exc}") from exc
    finally:
        with contextlib.suppress(OSError):  # already renamed, or never created
            partial.unlink()


def check_readable(path: str | Path):
    """Raise FileFormatError, without the path, unless there is such a file."""
    if not Path(path).is_file():
        raise FileFormatError("cannot be read: No such file.")
