"""Arrays in `.npz` files: read without pickle and within a size limit, written atomically."""

import contextlib
import math
import os
import re
import stat
import uuid
import zipfile
from collections.abc import Container, Iterator, Mapping
from pathlib import Path

import numpy as np

from ..errors import FileFormatError, prefix_errors, wrap_errors

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*\.npy")
_KINDS = "biufcUS"  # numbers and text; objects would need pickle, which runs code
_MAX_MEMBERS = 10_000
MAX_BYTES = 2 * 2**30


def read_arrays(
    path: str | Path, max_bytes: int = MAX_BYTES, error: type[FileFormatError] = FileFormatError
) -> dict[str, np.ndarray]:
    """The arrays of an `.npz` file by name, read without pickle.

    The sizes in the zip directory are compared with `max_bytes`, and the shape in each array's header with the size
    of its member, before anything is allocated or unpacked. `zipfile` compares the checksums.

    Args:
        path: the file.
        max_bytes: limit on the size in memory of all arrays together.
        error: the exception to raise.

    Raises:
        error: the file is missing, damaged or contains anything but arrays of numbers and text. One line that begins
            with the path.
    """
    with prefix_errors(path, error):
        return load_npz(path, max_bytes)


def load_npz(path: str | Path, max_bytes: int = MAX_BYTES, omit: Container[str] = ()) -> dict[str, np.ndarray]:
    """`read_arrays` without the arrays in `omit`, and without the name of the file in messages."""
    check_readable(path)
    arrays = {}
    with wrap_errors("is damaged or not an .npz file"), zipfile.ZipFile(path) as archive:
        members = archive.infolist()
        declared = sum(member.file_size for member in members)
        if declared > max_bytes:
            raise FileFormatError(f"declares {declared} bytes of arrays, more than the {max_bytes} allowed.")
        if len(members) > _MAX_MEMBERS:
            raise FileFormatError(f"has {len(members)} members, more than {_MAX_MEMBERS}.")
        for member in members:
            _check_name(member.filename)
            name = member.filename.removesuffix(".npy")
            if name in omit:
                continue
            if name in arrays:
                raise FileFormatError(f"member {member.filename!r} occurs twice.")
            if member.flag_bits & 1 or member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise FileFormatError(f"member {member.filename!r} is encrypted or compressed as NumPy does not.")
            with wrap_errors(f"{name} is damaged"):
                with archive.open(member) as file:
                    _check_header(name, file, member.file_size)
                with archive.open(member) as file:
                    arrays[name] = np.lib.format.read_array(file, allow_pickle=False)
                if arrays[name].dtype.kind == "U":
                    "".join(arrays[name].ravel().tolist()).encode()  # code points that are not characters
    return arrays


def _check_name(member: str):
    if not _NAME.fullmatch(member):
        raise FileFormatError(f"member {member[:80]!r} is not the name of an array.")


def _check_dtype(name: str, dtype: np.dtype):
    if dtype.kind not in _KINDS:
        raise FileFormatError(f"{name} must hold plain numbers or text, not {dtype}.")


def _check_header(name: str, file, member_bytes: int):
    """Raise FileFormatError unless the header of a `.npy` member declares as many bytes as the member has."""
    major, _ = np.lib.format.read_magic(file)
    read_header = {1: np.lib.format.read_array_header_1_0, 2: np.lib.format.read_array_header_2_0}[major]
    shape, _, dtype = read_header(file)
    _check_dtype(name, dtype)
    # an item of size 0 counts as one byte: 10^12 of them also take memory and time
    declared, available = math.prod(shape) * max(dtype.itemsize, 1), member_bytes - file.tell()
    if min(shape, default=0) < 0 or declared != available:
        raise FileFormatError(
            f"{name} is damaged: it declares shape {str(shape)[:60]} of {dtype}, but has {available} bytes of data."
        )


def write_arrays(path: str | Path, arrays: Mapping[str, np.ndarray], error: type[FileFormatError] = FileFormatError):
    """Write arrays of numbers or text to `path` as a compressed `.npz`, for `read_arrays`; see `atomic_write`.

    Raises:
        error: nothing was written, and a file that was at `path` is unchanged. One line that begins with the path.
    """
    with prefix_errors(path, error):
        arrays = {name: np.asarray(array) for name, array in arrays.items()}
        for name, array in arrays.items():
            _check_name(f"{name}.npy")
            _check_dtype(name, array.dtype)
        with atomic_write(path) as partial, open(partial, "xb") as file:
            np.savez_compressed(file, **arrays)


@contextlib.contextmanager
def atomic_write(path: str | Path) -> Iterator[Path]:
    """Yield a temporary name beside `path` to write to; on success the file there replaces `path`.

    Raises:
        FileFormatError: it could not be written; a file that was at `path` is unchanged.
    """
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
    """Raise FileFormatError, without the path, unless the path is a non-empty readable file."""
    try:
        status = os.stat(path)
        if stat.S_ISREG(status.st_mode):  # opening a named pipe would block
            open(path, "rb").close()
    except (OSError, ValueError) as exc:  # ValueError: a null character in the name
        raise FileFormatError(f"cannot be read: {getattr(exc, 'strerror', None) or exc}") from exc
    if not stat.S_ISREG(status.st_mode):
        is_folder = stat.S_ISDIR(status.st_mode)
        raise FileFormatError("is a folder, not a file." if is_folder else "is not a regular file.")
    if status.st_size == 0:
        raise FileFormatError("is empty.")
