"""Intact recordings in small files of every format, and mutations of their bytes, fields and containers.

A format is an entry of `FORMATS`: how an intact file is written, its kind of container, what may be selected.
"""

import csv
import os
import shutil
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple

import numpy as np
import scipy.io

from possm_lite.spikes import Recording

MAT_OPTIONS = {"compressed": {"do_compression": True}, "plain": {"do_compression": False}, "v4": {"format": "4"}}


class Payload:
    """Unpickling it makes a folder in the working directory."""

    def __reduce__(self):
        return os.mkdir, ("unpickled",)


def good_recording(on_a_clock: bool) -> Recording:
    """Five seconds of six units in three trials; without a clock there is a gap outside of the trials."""
    rng = np.random.default_rng(5)
    times = np.arange(250) / 50
    if not on_a_clock:
        times = np.delete(times, np.s_[130:140]) + 1 / 3  # 2.9 s to 3.1 s are missing
    return Recording(
        spike_times=np.sort(rng.uniform(0, 5, 90)),
        spike_units=rng.integers(0, 6, 90),
        unit_ids=[str(2 * i) for i in range(6)],
        behavior_times=times,
        behavior=rng.normal(size=(len(times), 2)),
        behavior_unit="mm/s",
        trials=[[0.4, 1.5], [1.5, 2.5], [3.5, 4.5]],
        session_id="monday",
        notes=("Made for a test.",),
    )


def good_variables() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(6)
    counts = rng.poisson(0.5, (5, 60)).astype(float)
    return {"time": 2.0 + 0.05 * np.arange(60)[None], "spikes": counts, "handVel": rng.normal(size=(2, 60))}


# Bytes


def _index(rng, n: int) -> int:
    """Often in the header or the directory at the end."""
    return int([rng.integers(min(n, 1024)), n - 1 - rng.integers(min(n, 1024)), rng.integers(n)][rng.integers(3)])


def _flip(rng, content: bytes, i: int) -> bytes:
    flipped = bytearray(content)
    for k in [i, *(_index(rng, len(content)) for _ in range(rng.integers(8)))]:
        flipped[k] ^= 1 << int(rng.integers(8))
    return bytes(flipped)


def _piece(make: Callable) -> Callable:
    def change(rng, content: bytes, i: int) -> bytes:
        piece = content[i : i + rng.integers(1, 200)]
        return content[:i] + make(rng, piece) + content[i + len(piece) :]

    return change


BYTE_CHANGES: dict[str, Callable] = {  # of content, from a random index on
    "flip": _flip,
    "flip again": _flip,
    "cut out": _piece(lambda rng, piece: b""),
    "zeros": _piece(lambda rng, piece: bytes(len(piece))),
    "ones": _piece(lambda rng, piece: b"\xff" * len(piece)),
    "twice": _piece(lambda rng, piece: 2 * piece),
    "backwards": _piece(lambda rng, piece: piece[::-1]),
    "noise": _piece(lambda rng, piece: rng.bytes(len(piece))),
    "truncate": lambda rng, content, i: content[:i],
    "behead": lambda rng, content, i: content[i + 1 :],
    "extend": lambda rng, content, i: content + rng.bytes(rng.integers(1, 1000)),
    "repeat": lambda rng, content, i: 2 * content,
}


def _any_file(rng, path: Path) -> Path:
    files = sorted(path.iterdir()) if path.is_dir() else [path]
    return files[rng.integers(len(files))]


# Fields


def _put(array: np.ndarray, rng, value) -> np.ndarray:
    if array.dtype.kind not in "iuf" or not array.size:
        return array
    array = array.astype(np.int64 if array.dtype.kind in "iu" and isinstance(value, int) else float)
    array.ravel()[rng.integers(array.size)] = value
    return array


def _retyped(array: np.ndarray, rng, dtype: str) -> np.ndarray:
    if array.dtype.kind in "SUO" and np.dtype(dtype).kind not in "SU":
        return array
    with np.errstate(all="ignore"):
        return array.astype(dtype)


def _numeric(change: Callable) -> Callable:
    return lambda array, rng: change(array) if array.dtype.kind in "if" else array


DTYPES = ("f2", "f4", ">f8", "i4", "u1", ">i8", "u8", "c16", "?", "S9", "U9")
VALUES = (np.nan, np.inf, -np.inf, 1e300, -1e300, 1e17, -1, -7.5, 6, 2, 10**6, 0)
FIELD_CHANGES: dict[str, Callable] = {  # of one array
    "removed": lambda array, rng: None,
    "empty": lambda array, rng: array[:0],
    "shorter": lambda array, rng: array[:-1],
    "longer": lambda array, rng: np.concatenate((array, array[-1:])),
    "scalar": lambda array, rng: array.ravel()[:1].reshape(()) if array.size else array,
    "column": lambda array, rng: array.reshape(-1, 1),
    "row": lambda array, rng: array[None],
    "flat": lambda array, rng: array.ravel(),
    "transposed": lambda array, rng: array.T,
    "three columns": lambda array, rng: np.repeat(array.reshape(-1, 1), 3, axis=1),
    "pickled": lambda array, rng: np.full(array.shape, Payload(), dtype=object),
    **{f"as {dtype}": lambda array, rng, dtype=dtype: _retyped(array, rng, dtype) for dtype in DTYPES},
    **{f"{value} at an index": lambda array, rng, value=value: _put(array, rng, value) for value in VALUES},
    "constant": lambda array, rng: np.repeat(array[:1], len(array), axis=0),
    "reversed": lambda array, rng: array[::-1],
    "swapped": lambda array, rng: array[[1, 0, *range(2, len(array))]] if len(array) > 1 else array,
    "shuffled": lambda array, rng: rng.permutation(array),
    "repeated": lambda array, rng: np.concatenate((array[:1], array[:-1])),
    "a day later": _numeric(lambda array: array + np.float64(86_400)),
    "1e16 s later": _numeric(lambda array: array + 1e16),
    "denormal": _numeric(lambda array: array * 1e-310),
    "negative": _numeric(lambda array: -array),
}


# Containers: the arrays that they hold by name, and how one of them, changed or removed, is written back


class Container(NamedTuple):
    """A kind of file or folder."""

    load: Callable[[Path], dict[str, np.ndarray]]
    save: Callable[[Path, dict[str, np.ndarray], str], object]  # all arrays, and the name of the one that was changed
    malicious: dict[str, Callable] = {}  # changes of the whole, of a random generator and a path


def _load_npz(path: Path) -> dict:
    with np.load(path) as file:
        return {name: file[name] for name in file.files if name not in ("_metadata", "columns")}  # pickles of pynapple


def _save_npy(path: Path, arrays: dict, name: str):
    np.save(path, arrays[name]) if arrays else path.unlink()


def _save_mat(path: Path, arrays: dict, name: str):
    cell = np.array([["a", 1.0]], dtype=object)  # the nearest MATLAB type to objects
    arrays = {key: cell if array.dtype.kind == "O" else array for key, array in arrays.items()}
    try:
        scipy.io.savemat(path, arrays, **MAT_OPTIONS[path.stem])
    except (ValueError, TypeError, KeyError, AttributeError):  # v4 has no such type
        scipy.io.savemat(path, arrays)


def _separator(path: Path) -> str:
    return "," if path.suffix == ".csv" else "\t"


def _load_table(path: Path) -> dict:
    """Columns of numbers, where all cells are, or text."""
    with open(path, newline="", encoding="utf-8") as file:
        header, *rows = (row for row in csv.reader(file, delimiter=_separator(path), strict=True) if row)
    rows = [row + [""] * (len(header) - len(row)) for row in rows]
    table = dict(zip(header, zip(*rows, strict=True) if rows else [()] * len(header), strict=True))
    for name, column in table.items():
        try:
            table[name] = np.array([float({"True": 1, "False": 0}.get(cell, cell or "nan")) for cell in column])
        except ValueError:
            table[name] = np.array(column)
    return table


def _save_table(path: Path, arrays: dict, name: str):
    """Missing cells are empty, and an array in place of a number is several cells."""
    join = _separator(path).join
    cells = [[join(np.ravel(cell).astype(str)) for cell in np.atleast_1d(column)] for column in arrays.values()]
    path.write_text("".join(join(line) + "\n" for line in [arrays, *zip_longest(*cells, fillvalue="")]))


def _load_hdf5(path: Path) -> dict:
    """Arrays, numbers and, as "name@attribute", numbers among the attributes; without what cannot be read."""
    import h5py

    found = {}

    def walk(group, prefix: str):
        for key in group.keys() - {"general", "specifications"}:
            with suppress(Exception):
                name, item = prefix + key, group[key]
                if isinstance(item, h5py.Group) and name.count("/") < 5:  # there may be cycles
                    walk(item, f"{name}/")
                elif (item.shape or item.dtype.kind in "iuf") and item.size < 10**6:
                    found[name] = item[()]
                # last: where they are damaged, the array itself may be whole
                found.update({f"{name}@{k}": v for k, v in item.attrs.items() if np.asarray(v).dtype.kind in "iuf"})

    with h5py.File(path, "r") as file:
        walk(file, "")
    return dict(sorted(found.items()))


def _save_hdf5(path: Path, arrays: dict, name: str):
    import h5py

    array, (name, _, key) = arrays.get(name), name.partition("@")
    if array is not None and array.dtype.kind in "UO" and not isinstance(next(array.flat, None), h5py.Reference):
        array = array.astype(str).astype("S")
    with h5py.File(path, "r+") as file:
        attributes = dict(file[name].attrs)
        if key:
            del file[name].attrs[key]
            file[name].attrs.update({} if array is None else {key: array})
            return
        del file[name]
        if array is not None:
            dtype = h5py.ref_dtype if array.dtype.kind == "O" else None
            file.create_dataset(name, data=array, dtype=dtype).attrs.update(attributes)


def _load_folder(path: Path) -> dict:
    files = [file for file in sorted(path.iterdir()) if file.suffix in FILES]
    return {f"{file.name}/{name}": array for file in files for name, array in FILES[file.suffix].load(file).items()}


def _save_folder(path: Path, arrays: dict, name: str):
    file, _, name = name.partition("/")
    own = {key.partition("/")[2]: array for key, array in arrays.items() if key.startswith(f"{file}/")}
    FILES[Path(file).suffix].save(path / file, own, name)


# Containers with false declarations; those of .npz files are in tests/spikes/test_arrays.py


def _element(kind: int, content: bytes, size: int | None = None) -> bytes:
    """One element of a MATLAB v5 file; `size` is the declared one."""
    declared = len(content) if size is None else size
    return np.array([kind, declared], "<u4").tobytes() + content + bytes(-len(content) % 8)


def _malicious_mat(false_entry: str) -> Callable:
    """Writes a v5 file in which the header of one variable has one false entry."""

    def write(rng, path: Path):
        variables = good_variables()
        victim, elements = str(rng.choice(list(variables))), []
        for name, array in variables.items():
            false = false_entry if name == victim else ""
            dims = [(*array.shape, 1), (-1, -60), (2**31 - 1, 60), (0, 60), (60,), (60, 1)][rng.integers(6)]
            flags = int(rng.integers(256)) << 8 if false == "flags" else 0
            array_class = int(rng.integers(20)) if false == "class" else 6  # double
            kind = int(rng.integers(20)) if false == "kind" else 9  # miDOUBLE
            size = int(2 ** rng.uniform(0, 32)) if false == "size" else None
            content = _element(6, np.array([flags | array_class, 0], "<u4").tobytes())
            content += _element(5, np.array(dims if false == "dims" else array.shape, "<i4").tobytes())
            content += _element(1, b"handVel" if false == "name" else name.encode())
            content += _element(kind, array.tobytes("F"), size)
            elements.append(_element(14, content))
        path.write_bytes(b"MATLAB 5.0 MAT-file".ljust(124) + b"\x00\x01IM" + b"".join(elements))

    return write


def _malicious_hdf5(change: Callable) -> Callable:
    """Makes a change of a random generator, a file and a random name in it."""

    def write(rng, path: Path):
        import h5py

        with h5py.File(path, "r+") as file:
            names: list[str] = []
            file.visit(lambda name: None if name.startswith("specifications") else names.append(name))
            change(rng, file, str(rng.choice(names)))

    return write


def _false_attribute(rng, file, name: str):
    attributes, anything = file[name].attrs, file[next(other for other in file if other != "specifications")].ref
    false = [None, 7, -1.5, np.nan, "a", b"\xff\xfe", np.arange(9), [], ["start_time", "x"], anything]
    for key in rng.permutation(list(attributes))[:1]:
        value = false[rng.integers(len(false))]
        del attributes[key]
        attributes.update({} if value is None else {key: value})


def _in_its_place(make: Callable) -> Callable:
    """Puts a link, group or data set in the place of another, whose attributes it gets."""

    def change(rng, file, name: str):
        import h5py

        attributes = dict(file[name].attrs)
        del file[name]
        make(file, name)
        if isinstance(file.get(name, getlink=True), h5py.HardLink):
            file[name].attrs.update(attributes)

    return change


def _link(kind: str, *target: str) -> Callable:
    def make(file, name):
        import h5py

        file[name] = getattr(h5py, kind)(*(part.format(name=name, file=file.filename) for part in target))

    return make


def _dataset(*shape, **options) -> Callable:
    return lambda file, name: file.create_dataset(name, *shape, **options)


HDF5_OBJECTS: dict[str, Callable] = {
    "removed": lambda file, name: None,
    "dangling link": _link("SoftLink", "/nowhere"),
    "link to itself": _link("SoftLink", "/{name}"),
    "link to the root": _link("SoftLink", "/"),
    "link to a missing file": _link("ExternalLink", "nowhere.h5", "/units"),
    "link to a device": _link("ExternalLink", "/dev/zero", "/units"),
    "link to this file": _link("ExternalLink", "{file}", "/units"),
    "cycle": lambda file, name: file.__setitem__(name, file["/"]),
    "group": lambda file, name: file.create_group(name),
    "number": _dataset(data=3.0),
    "no data": _dataset(dtype="f8"),
    "text": _dataset(data="Monday"),
    "records": _dataset(data=np.zeros(6, [("x", "f8"), ("y", "S3")])),
    "three dimensions": _dataset(data=np.zeros((6, 2, 2))),
    "external data": _dataset((90,), "f8", external=[("nowhere.raw", 0, 720)]),
    "terabytes": _dataset((2**37,), "f8", chunks=(2**10,)),
    "terabytes of text": _dataset((2**37,), "S9", chunks=(2**10,)),
    "one long text": _dataset((), f"S{2**31 - 1}"),
    "chunk of gigabytes": _dataset((90,), "f8", chunks=(2**28 + 9,), maxshape=(None,)),
}
HDF5_CHANGES = {
    "attribute": _false_attribute,
    "renamed": lambda rng, file, name: file.move(name, name + "_"),
    **{kind: _in_its_place(make) for kind, make in HDF5_OBJECTS.items()},
}


def _of_a_file(make: Callable) -> Callable:
    def change(rng, path: Path):
        victim = _any_file(rng, path)
        other = _any_file(rng, path)
        kept = path.parent / "kept"
        victim.rename(kept)
        make(victim, other if other != victim else kept, kept)

    return change


FOLDER_CHANGES: dict[str, Callable] = {  # of a file in it, given another one and where the file itself is now
    "missing": lambda path, other, kept: None,
    "empty": lambda path, other, kept: path.touch(),
    "folder": lambda path, other, kept: path.mkdir(),
    "dangling link": lambda path, other, kept: path.symlink_to("nowhere"),
    "link to itself": lambda path, other, kept: path.symlink_to(path.name),
    "link to the file": lambda path, other, kept: path.symlink_to(kept),
    "link to another": lambda path, other, kept: path.symlink_to(other),
    "link to a device": lambda path, other, kept: path.symlink_to("/dev/zero"),
    "named pipe": lambda path, other, kept: os.mkfifo(path),
    "renamed": lambda path, other, kept: shutil.copy(kept, path.with_stem(f"{path.stem}_")),
    "twice": lambda path, other, kept: [shutil.copy(kept, path.with_stem(stem)) for stem in (path.stem, "again")],
    "gigabytes of nothing": lambda path, other, kept: os.truncate(shutil.copy(kept, path), 2**32),  # sparse
}

# The formats

MAT_ENTRIES = ("kind", "class", "flags", "dims", "name", "size")
NPZ = Container(_load_npz, lambda path, arrays, name: np.savez(path, **arrays))
MAT = Container(lambda path: good_variables(), _save_mat, {entry: _malicious_mat(entry) for entry in MAT_ENTRIES})
HDF5 = Container(_load_hdf5, _save_hdf5, {kind: _malicious_hdf5(change) for kind, change in HDF5_CHANGES.items()})
FOLDER = Container(_load_folder, _save_folder, {kind: _of_a_file(change) for kind, change in FOLDER_CHANGES.items()})
TABLE = Container(_load_table, _save_table)
FILES = {".npz": NPZ, ".npy": Container(lambda path: {"": np.load(path)}, _save_npy), ".csv": TABLE, ".tsv": TABLE}


class Format(NamedTuple):
    """A format of recordings that is read."""

    names: tuple[str, ...]  # of its intact files or folders
    write: Callable[[Path], object]  # one of them
    container: Container
    byte_rounds: int  # how often `BYTE_CHANGES` are tried in a short run; slow formats have fewer
    selections: tuple[dict, ...]  # options of load_recording that are tried


def _write_own(path: Path):
    from possm_lite.spikes.io.nwb_write import write_nwb

    recording = good_recording(on_a_clock=path.stem == "clock")
    recording.save(path) if path.suffix == ".npz" else write_nwb(recording, path)


def _write_nwb_layout(path: Path):
    """The good recording from 18 s on, of which a mask spares the time until 20 s."""
    from tests.spikes.nwb_files import write_layout

    r, times = good_recording(True), 18 + np.arange(5000) / 1000
    later = {"spike_times": r.spike_times + 18, "trials": r.trials + 18, "behavior_times": times}
    later = replace(r, **later, behavior=r.behavior.repeat(20, axis=0))
    write_layout(f"NWB: {path.stem}", path.parent, later).path.rename(path)


def _write_layout(name: str) -> Callable[[Path], object]:
    def write(path: Path):
        from tests.spikes import layout_files

        return layout_files.WRITERS[name](layout_files.make_session(), path.parent)

    return write


NWB_LAYOUTS = ("FALCON M1", "FALCON M2", "FALCON H1", "Churchland-Shenoy", "MC_RTT", "Perich-Miller", "x_vel, y_vel")
SOME, RAW, NO_BEHAVIOR = {"units": "id != '2' and rate > 2"}, {"behavior": "cursor_pos:raw"}, {"spikes_only": True}
OWN = (SOME, {"trials": "duration < 1.05"}, {"columns": ("1",)}, NO_BEHAVIOR)
GOOD_UNITS, M1, REWARDED = {"units": "group == 'good'"}, {"units": "area == 'M1'"}, {"trials": "result == 'R'"}
FINGER, SORTED = {"behavior": "finger_pos:raw", "columns": ("2",)}, {"units": "unit > 0"}
INDY = "indy_20160915_01"
FORMATS = {
    "npz": Format(("clock.npz", "times.npz"), _write_own, NPZ, 12, OWN),
    "mat": Format(
        ("compressed.mat", "plain.mat", "v4.mat"),
        lambda path: scipy.io.savemat(path, good_variables(), **MAT_OPTIONS[path.stem]),
        MAT,
        8,
        ({"columns": ("1",)}, {"units": "id != '2'"}),
    ),
    "indy": Format((f"{INDY}.mat",), _write_layout("indy"), HDF5, 4, (RAW, FINGER, SORTED, NO_BEHAVIOR)),
    "brainsets": Format(
        (f"{INDY}.h5",), _write_layout("brainsets"), HDF5, 4, ({"behavior": "gaze/angle"}, M1, REWARDED, NO_BEHAVIOR)
    ),
    "phy": Format(("phy",), _write_layout("phy"), FOLDER, 6, (RAW, GOOD_UNITS, REWARDED, NO_BEHAVIOR)),
    "pynapple": Format(
        ("pynapple",), _write_layout("pynapple"), FOLDER, 6, (RAW, {"behavior": "speed"}, SOME, NO_BEHAVIOR)
    ),
    "nwb": Format(("clock.nwb", "times.nwb"), _write_own, HDF5, 3, OWN),
    "nwb layouts": Format(tuple(f"{name}.nwb" for name in NWB_LAYOUTS), _write_nwb_layout, HDF5, 3, OWN),
}


def write_good(folder: Path, name: str):
    """Write the intact files of one format."""
    for file in FORMATS[name].names:
        FORMATS[name].write(folder / file)


def cases(name: str, rounds: int = 1) -> Iterator[tuple[str, str]]:
    """Part and kind of each mutation of a format."""
    changes = {"bytes": BYTE_CHANGES, "field": FIELD_CHANGES, "container": FORMATS[name].container.malicious}
    for part, kinds in changes.items():
        for _ in range(rounds * (FORMATS[name].byte_rounds if part == "bytes" else 1)):
            yield from ((part, kind) for kind in kinds)


def mutate(rng, name: str, path: Path, part: str, kind: str):
    """Break the file or folder at `path`, of a format, in one way."""
    container = FORMATS[name].container
    if part == "bytes":
        path = _any_file(rng, path)
        content = path.read_bytes()
        path.write_bytes(BYTE_CHANGES[kind](rng, content, _index(rng, len(content))))
    elif part == "field":  # a random one; those whose names begin alike are drawn together
        arrays = container.load(path)
        group = rng.choice(sorted({key.split("/")[0] for key in arrays}))
        field = str(rng.choice([key for key in arrays if key.split("/")[0] == group]))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of casts
            old = arrays.pop(field)
            new = FIELD_CHANGES[kind](np.atleast_1d(old), rng)
        if new is not None:
            arrays[field] = new.reshape(()) if np.ndim(old) == 0 and new.size == 1 else new
        container.save(path, arrays, field)
    else:
        container.malicious[kind](rng, path)
