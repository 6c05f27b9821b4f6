"""Mutations of recordings: of the bytes of any file, of one array in it."""

import warnings
from collections.abc import Callable
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
    **{f"as {t}": lambda rng, array, t=t: array.astype(t) for t in ("f4", ">f8", "c16", "i4", "S9", "U9")},
    "removed": lambda rng, array: None,
    "empty": lambda rng, array: array[:0],
    "shorter": lambda rng, array: array[:-1],
    "transposed": lambda rng, array: array.T,
    "row": lambda rng, array: array[None],
    "reversed": lambda rng, array: array[::-1],
    "constant": lambda rng, array: np.repeat(array[:1], len(array), axis=0),
    "pickled": lambda rng, array: np.full(array.shape, Payload(), dtype=object),
}


def mutate_field(rng, path: Path, kind: str):
    """Change one array of numbers of a file, chosen at random; text stays as it is."""
    load, save = (_load_hdf5, _save_hdf5) if h5py.is_hdf5(path) else FORMATS[path.suffix]
    arrays = load(path)
    name = str(rng.choice(sorted(arrays)))
    old = np.asarray(arrays.pop(name))
    new = old
    if kind == "removed" or (old.dtype.kind in "iuf" and old.size):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of casts
            new = FIELDS[kind](rng, np.atleast_1d(old))
    if new is not None:
        arrays[name] = new.reshape(()) if old.ndim == 0 and new.size == 1 else new
    save(path, arrays, name)


def _load_npz(path: Path) -> dict:
    with np.load(path) as file:
        return {name: file[name] for name in file.files if name not in ("_metadata", "columns")}


def _load_mat(path: Path) -> dict:
    return {name: array for name, array in scipy.io.loadmat(path).items() if not name.startswith("__")}


def _save_mat(path: Path, arrays: dict, name: str):
    cell = np.array([["a", 1.0]], dtype=object)  # the nearest MATLAB type to objects
    scipy.io.savemat(path, {key: cell if array.dtype.kind == "O" else array for key, array in arrays.items()})


def _load_hdf5(path: Path) -> dict:
    found = {}

    def add(name, item):
        if isinstance(item, h5py.Dataset) and not name.startswith(("specifications", "general")):
            found[name] = item[()]

    with h5py.File(path, "r") as file:
        file.visititems(add)
    return found


def _save_hdf5(path: Path, arrays: dict, name: str):
    with h5py.File(path, "r+") as file:
        attributes = dict(file[name].attrs)
        is_reference = h5py.check_ref_dtype(file[name].dtype)
        del file[name]
        if (array := arrays.get(name)) is not None:
            array = array.astype(str).astype("S") if array.dtype.kind in "UO" and not is_reference else array
            dtype = h5py.ref_dtype if array.dtype.kind == "O" else None
            file.create_dataset(name, data=array, dtype=dtype).attrs.update(attributes)


def _save_npy(path: Path, arrays: dict, name: str):
    np.save(path, arrays[name]) if arrays else path.unlink()


FORMATS: dict[str, tuple[Callable, Callable]] = {
    ".npz": (_load_npz, lambda path, arrays, name: np.savez(path, **arrays)),
    ".npy": (lambda path: {"": np.load(path)}, _save_npy),
    ".mat": (_load_mat, _save_mat),
}


MUTATIONS = {"bytes": (BYTES, mutate_bytes), "field": (FIELDS, mutate_field)}


def mutate(rng, path: Path, parts: tuple[str, ...] = tuple(MUTATIONS)) -> tuple[str, str]:
    """Break a file, or one file of a folder, in a random way of these parts; returns the part and the kind."""
    files = sorted(path.iterdir()) if path.is_dir() else [path]
    file = files[rng.integers(len(files))]
    possible = {"bytes", "field"} if h5py.is_hdf5(file) or file.suffix in FORMATS else {"bytes"}
    part = str(rng.choice([part for part in parts if part in possible]))
    kinds, change = MUTATIONS[part]
    kind = str(rng.choice(list(kinds)))
    change(rng, file, kind)
    return part, kind
