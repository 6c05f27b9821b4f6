"""Arrays in files: read without trusting the file, written whole or not at all."""

from __future__ import annotations

import contextlib
import math
import os
import re
import stat
import uuid
import zipfile
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from ..errors import FileFormatError, prefix_errors, wrap_errors

_MEMBER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*\.npy")
_KINDS = "biufcUS"  # plain numbers and text; objects would need pickle, which runs code
_MAX_MEMBERS = 10_000
MAX_BYTES = 2 * 2**30


def read_arrays(
    path: str | Path, max_bytes: int = MAX_BYTES, error: type[FileFormatError] = FileFormatError
) -> dict[str, np.ndarray]:
    """The arrays of an `.npz` file by name, read without pickle.

    Everything a file declares is compared before anything is unpacked: the names, the sizes of the members against
    `max_bytes` and, array by array, shape times item size against the member. The checksums are compared as it is read.

    Args:
        path: the file.
        max_bytes: most bytes the arrays may have in memory, all together.
        error: what to raise.

    Raises:
        error: the file is missing, damaged or holds anything but plain arrays. One line, the file's name in front.
    """
    with prefix_errors(path, error):
        return read_members(path, max_bytes)


def write_arrays(path: str | Path, arrays: Mapping[str, np.ndarray], error: type[FileFormatError] = FileFormatError):
    """Write arrays of numbers or text to `path` as a compressed `.npz`, for `read_arrays`.

    It is written under another name beside `path` and renamed when it is whole, so `path` is never half a file.

    Raises:
        error: nothing was written, and what stood at `path` still stands. One line, the file's name in front.
    """
    with prefix_errors(path, error):
        arrays = {name: np.asarray(array) for name, array in arrays.items()}
        for name, array in arrays.items():
            _check_member(f"{name}.npy", array.dtype)
        with atomic_write(path) as partial, open(partial, "xb") as file:
            np.savez_compressed(file, **arrays)


@contextlib.contextmanager
def atomic_write(path: str | Path) -> Iterator[Path]:
    """Gives another name beside `path` to write to; when that went well, the file there takes the place of `path`.

    Raises:
        FileFormatError: it could not be written; what stood at `path` still stands.
    """
    path = Path(path)
    partial = path.with_name(f".{uuid.uuid4().hex}.partial")
    try:
        yield partial
        with open(partial, "rb+") as file:
            os.fsync(file.fileno())
        os.replace(partial, path)
    except OSError as trouble:
        raise FileFormatError(f"could not be written: {trouble.strerror or trouble}") from trouble
    finally:
        with contextlib.suppress(OSError):  # it is gone where all went well, or never was
            partial.unlink()


def read_members(path: str | Path, max_bytes: int = MAX_BYTES) -> dict[str, np.ndarray]:
    """`read_arrays` for a caller who names the file himself. Raises FileFormatError."""
    check_readable(path)
    with wrap_errors("is damaged or no .npz file"):
        archive = zipfile.ZipFile(path)
    with archive:
        members = archive.infolist()
        _check_members(members, max_bytes)
        return {member.filename.removesuffix(".npy"): _read_member(archive, member) for member in members}


def _check_members(members: list[zipfile.ZipInfo], max_bytes: int):
    if len(members) > _MAX_MEMBERS:
        raise FileFormatError(f"has {len(members)} members, more than {_MAX_MEMBERS}.")
    times_there = Counter(member.filename for member in members)
    for member in members:
        _check_member(member.filename)
        if member.flag_bits & 1 or member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise FileFormatError(f"member {member.filename!r} is encrypted or packed as NumPy never packs.")
        if times_there[member.filename] > 1:
            raise FileFormatError(f"member {member.filename!r} is there twice.")
    declared = sum(member.file_size for member in members)
    if declared > max_bytes:
        raise FileFormatError(f"declares {declared} bytes of arrays, more than the {max_bytes} allowed.")


def _check_member(name: str, dtype: np.dtype | None = None):
    if not _MEMBER.fullmatch(name):
        raise FileFormatError(f"member {name[:80]!r} is not the name of an array.")
    if dtype is not None and dtype.kind not in _KINDS:
        raise FileFormatError(f"{name.removesuffix('.npy')} must hold plain numbers or text, not {dtype}.")


def _read_member(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> np.ndarray:
    damaged = f"{member.filename.removesuffix('.npy')} is damaged"
    with wrap_errors(damaged), archive.open(member) as file:
        version = np.lib.format.read_magic(file)
        read_header = {1: np.lib.format.read_array_header_1_0, 2: np.lib.format.read_array_header_2_0}[version[0]]
        shape, _, dtype = read_header(file)
        header_bytes = file.tell()
    _check_member(member.filename, dtype)
    # An empty item counts as one byte: an array of 10^12 of them is no small thing either.
    data_bytes = min(math.prod(shape) * max(dtype.itemsize, 1), 2**63)
    if min(shape, default=0) < 0 or header_bytes + data_bytes != member.file_size:
        raise FileFormatError(
            f"{damaged}: it declares shape {str(shape)[:60]} of {dtype}, {data_bytes} bytes, "
            f"but has {member.file_size - header_bytes}."
        )
    with wrap_errors(damaged), archive.open(member) as file:
        array = np.lib.format.read_array(file, allow_pickle=False)
        if dtype.kind == "U":
            "".join(array.ravel().tolist()).encode()  # numbers that stand for no character
    return array


def check_readable(path: str | Path):
    """Refuse what is no readable file with something in it, in words. Raises FileFormatError without the name."""
    try:
        status = os.stat(path)
        if stat.S_ISREG(status.st_mode):  # to open a pipe would wait for ever
            open(path, "rb").close()
    except (OSError, ValueError) as trouble:  # ValueError: a null character in the name
        raise FileFormatError(f"cannot be read: {getattr(trouble, 'strerror', None) or trouble}") from trouble
    if stat.S_ISDIR(status.st_mode):
        raise FileFormatError("is a folder, not a file.")
    if not stat.S_ISREG(status.st_mode):
        raise FileFormatError("is no regular file.")
    if status.st_size == 0:
        raise FileFormatError("is empty.")


def read_dataset(data, field: str, finite: bool = False, kinds: str = "iuf") -> np.ndarray:
    """A data set of an HDF5 file in memory, as float64 or, where `kinds` has no "f", as int64.

    What it declares is compared before it is read. Raises FileFormatError without the name of the file.
    """
    with wrap_errors(f"{field} cannot be read"):
        shape, dtype = data.shape, np.dtype(data.dtype)
        items = max(math.prod(shape), math.prod(getattr(data, "chunks", None) or ()))  # a chunk is unpacked whole
    if dtype.kind not in kinds:
        raise FileFormatError(f"{field} must hold {'numbers' if 'f' in kinds else 'whole numbers'}, not {dtype}.")
    if items * dtype.itemsize > MAX_BYTES:
        raise FileFormatError(f"{field} declares shape {shape} of {dtype}, or chunks, of more than {MAX_BYTES} bytes.")
    with wrap_errors(f"{field} cannot be read"):
        array = np.asarray(data[()]).astype(np.float64 if "f" in kinds else np.int64, copy=False)
    if finite and not np.isfinite(array).all():
        place = np.flatnonzero(~np.isfinite(array.ravel()))[0]
        raise FileFormatError(f"{field} must be finite: {field}[{place}] = {array.ravel()[place]}.")
    return array
