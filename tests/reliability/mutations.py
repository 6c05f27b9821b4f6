"""Mutations of recordings: of the bytes of any file, of one array in it."""

import warnings
from collections.abc import Callable, Iterator, MutableMapping
from contextlib import contextmanager
from pathlib import Path

import h5py
import numpy as np
import scipy.io


class Payload:
    """Unpickling it makes a folder in the working directory."""

    def __reduce__(self):
        return __import__("os").mkdir, ("unpickled",)


# Bytes: changes of content from a random index on


def _flip(rng, content: bytes, i: int) -> bytes:
    flipped = bytearray(content)
    for k in [i, *rng.integers(len(content), size=rng.integers(8))]:
        flipped[k] ^= 1 << int(rng.integers(8))
    return bytes(flipped)


BYTES: dict[str, Callable] = {
    "flip": _flip,
    "cut out": lambda rng, content, i: content[:i] + content[i + rng.integers(1, 200) :],
    "zeros": lambda rng, content, i: content[:i] + bytes(100) + content[i + 100 :],
    "noise": lambda rng, content, i: content[:i] + rng.bytes(100) + content[i + 100 :],
    "truncate": lambda rng, content, i: content[:i],
    "extend": lambda rng, content, i: content + rng.bytes(100),
}


def mutate_bytes(rng, path: Path, kind: str):
    """Often in the header of the file or in the directory at its end."""
    content = path.read_bytes()
    n = len(content)
    i = [rng.integers(min(n, 1024)), n - 1 - rng.integers(min(n, 1024)), rng.integers(n)][rng.integers(3)]
    path.write_bytes(BYTES[kind](rng, content, int(i)))


# Arrays


def _put(value: float) -> Callable:
    def change(rng, array: np.ndarray) -> np.ndarray:
        array = array.astype(np.float64)
        array.ravel()[rng.integers(array.size)] = value
        return array

    return change


VALUES = {f"{value} at an index": _put(value) for value in (np.nan, np.inf, -np.inf, 1e300, 1e17, -7.5)}
FIELDS: dict[str, Callable] = {
    **VALUES,
    **{f"as {t}": lambda rng, array, t=t: array.astype(t) for t in ("f4", ">f8", "c16", "i4", "S9")},
    "removed": lambda rng, array: None,
    "empty": lambda rng, array: array[:0],
    "shorter": lambda rng, array: array[:-1],
    "transposed": lambda rng, array: array.T,
    "row": lambda rng, array: array[None],
    "reversed": lambda rng, array: array[::-1],
    "constant": lambda rng, array: np.repeat(array[:1], len(array), axis=0),
    "pickled": lambda rng, array: np.full(array.shape, Payload(), dtype=object),  # in files of NumPy
}


@contextmanager
def opened(path: Path) -> Iterator[MutableMapping]:
    """The arrays of a file by name, to be changed; written on leaving."""
    if h5py.is_hdf5(path):
        with h5py.File(path, "r+") as file:
            yield file
        return
    if path.suffix == ".mat":
        arrays = {name: array for name, array in scipy.io.loadmat(path).items() if not name.startswith("__")}
    elif path.suffix == ".npy":
        arrays = {"": np.load(path)}
    else:
        with np.load(path) as file:
            arrays = {name: file[name] for name in file.files if name not in ("_metadata", "columns")}
    yield arrays
    if path.suffix == ".mat":
        scipy.io.savemat(path, arrays)
    elif path.suffix == ".npz":
        np.savez(path, **arrays)
    else:
        np.save(path, arrays[""]) if arrays else path.unlink()


def mutate_field(rng, path: Path, kind: str):
    """Change one array of numbers of a file, chosen at random; text stays as it is, but may be removed."""
    with opened(path) as arrays:
        names = list(arrays)
        if isinstance(arrays, h5py.File):
            names = []
            arrays.visititems(lambda name, item: names.append(name) if isinstance(item, h5py.Dataset) else None)
            names = [name for name in names if not name.startswith(("specifications", "general"))]
        if not names:
            raise ValueError(f"{path.name} has no array that could be changed: give it one, or mutate its bytes.")
        name = str(rng.choice(sorted(names)))
        old, attributes = np.asarray(arrays[name]), dict(getattr(arrays[name], "attrs", {}))
        new = old
        is_numpy = path.suffix in (".npy", ".npz")
        if kind == "removed" or (old.dtype.kind in "iuf" and old.size and (kind != "pickled" or is_numpy)):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of casts
                new = FIELDS[kind](rng, np.atleast_1d(old))
        if new is old:
            return
        del arrays[name]
        if new is not None:
            arrays[name] = new.reshape(()) if old.ndim == 0 and new.size == 1 else new
            if attributes:
                arrays[name].attrs.update(attributes)


def mutate(rng, path: Path, parts: tuple[str, ...] = ("bytes", "field")) -> tuple[str, str]:
    """Break a file, or one file of a folder, in a random way of these parts; returns the part and the kind."""
    files = sorted(path.iterdir()) if path.is_dir() else [path]
    file = files[rng.integers(len(files))]
    has_arrays = h5py.is_hdf5(file) or file.suffix in (".npz", ".npy", ".mat")
    part = str(rng.choice([part for part in parts if part == "bytes" or has_arrays]))
    kinds, change = (BYTES, mutate_bytes) if part == "bytes" else (FIELDS, mutate_field)
    kind = str(rng.choice(list(kinds)))
    change(rng, file, kind)
    return part, kind
