"""Intact recordings in small files of all three formats, and mutations of their bytes, fields and containers."""

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import scipy.io
from hypothesis import strategies as st

from possm_lite.spikes import Recording

GOOD = {
    ".npz": ("clock.npz", "times.npz"),
    ".mat": ("compressed.mat", "plain.mat", "v4.mat"),
    ".nwb": ("clock.nwb", "times.nwb"),
}
MAT_OPTIONS = ({"do_compression": True}, {"do_compression": False}, {"format": "4"})


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


def write_good(folder: Path, suffix: str):
    """Write the intact files of one format; NWB needs pynwb."""
    if suffix == ".mat":
        for name, options in zip(GOOD[suffix], MAT_OPTIONS, strict=True):
            scipy.io.savemat(folder / name, good_variables(), **options)
        return
    from possm_lite.spikes.io.nwb_write import write_nwb

    for name in GOOD[suffix]:
        recording = good_recording(on_a_clock=name.startswith("clock"))
        recording.save(folder / name) if suffix == ".npz" else write_nwb(recording, folder / name)


# Bytes


@st.composite
def mutated_bytes(draw, content: bytes) -> bytes:
    """`content` with flipped bits, truncated, extended, or with a slice replaced, removed or repeated."""
    headers, directories = st.integers(0, 1023), st.integers(len(content) - 1024, len(content) - 1)
    index = headers | directories | st.integers(0, len(content) - 1)
    kind = draw(st.sampled_from(["flip", "flip", "slice", "slice", "truncate", "behead", "extend", "repeat"]))
    if kind == "flip":
        flipped = bytearray(content)
        for i in draw(st.lists(index, min_size=1, max_size=8)):
            flipped[i] ^= 1 << draw(st.integers(0, 7))
        return bytes(flipped)
    if kind == "slice":
        start = draw(index)
        piece = content[start : start + draw(st.integers(1, 200))]
        replacements = [b"", bytes(len(piece)), b"\xff" * len(piece), 2 * piece, piece[::-1]]
        noise = st.binary(min_size=len(piece), max_size=len(piece))
        return content[:start] + draw(st.sampled_from(replacements) | noise) + content[start + len(piece) :]
    if kind in ("truncate", "behead"):
        cut = draw(index)
        return content[:cut] if kind == "truncate" else content[cut + 1 :]
    return 2 * content if kind == "repeat" else content + draw(st.binary(min_size=1, max_size=999))


# Fields


def _put(array: np.ndarray, rng, value) -> np.ndarray:
    if array.dtype.kind not in "iuf" or not array.size:
        return array
    array = array.astype(np.int64 if array.dtype.kind in "iu" and isinstance(value, int) else float)
    array.ravel()[rng.integers(array.size)] = value
    return array


def _retyped(array: np.ndarray, rng, dtype: str) -> np.ndarray:
    if array.dtype.kind == "U" and np.dtype(dtype).kind not in "SU":
        return array
    with np.errstate(all="ignore"):
        return array.astype(dtype)


def _numeric(change: Callable) -> Callable:
    return lambda array, rng: change(array) if array.dtype.kind in "if" else array


DTYPES = ("f2", "f4", ">f8", "i4", "u1", ">i8", "u8", "c16", "?", "S9", "U9")
VALUES = (np.nan, np.inf, -np.inf, 1e300, -1e300, 1e17, -1, -7.5, 6, 2, 10**6, 0)
FIELD_CHANGES: dict[str, Callable] = {  # of one array; None removes it
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
NWB_FIELDS = ("units/spike_times", "units/spike_times_index", "units/id", "intervals/trials/start_time")
NWB_FIELDS += ("intervals/trials/stop_time", "processing/behavior/hand_vel/data", "processing/behavior/hand_vel/CLOCK")


def change_field(rng, good: Path, path: Path, change: Callable):
    """Write `good` to `path` with one of `FIELD_CHANGES` made to a random field."""
    if path.suffix == ".nwb":
        return _change_nwb_field(rng, good, path, change)
    if path.suffix == ".npz":
        with np.load(good, allow_pickle=False) as file:
            arrays = dict(file)
    else:
        arrays = good_variables()
    name = str(rng.choice(list(arrays)))
    array = change(np.atleast_1d(arrays.pop(name)), rng)
    if array is not None:
        arrays[name] = array
    if path.suffix == ".npz":
        return np.savez(path, **arrays)
    if array is not None and array.dtype.kind == "O":
        arrays[name] = np.array([["a", 1.0]], dtype=object)  # a cell array, the nearest MATLAB type
    try:
        scipy.io.savemat(path, arrays, **MAT_OPTIONS[GOOD[".mat"].index(good.name)])
    except (ValueError, TypeError, KeyError, AttributeError):  # v4 has no such type
        scipy.io.savemat(path, arrays)


def _change_nwb_field(rng, good: Path, path: Path, change: Callable):
    import h5py

    path.write_bytes(good.read_bytes())
    with h5py.File(path, "r+") as file:
        clock = "starting_time" if good.name.startswith("clock") else "timestamps"
        name = str(rng.choice(NWB_FIELDS)).replace("CLOCK", clock)
        attributes, array = dict(file[name].attrs), change(np.atleast_1d(file[name][()]), rng)
        del file[name]
        if array is None:
            return
        if array.dtype.kind in "UO":
            array = array.astype("S")
        file[name] = array.reshape(()) if name.endswith("starting_time") and array.size == 1 else array
        if "rate" in attributes and rng.integers(2):
            attributes["rate"] = rng.choice([0.0, -50.0, np.nan, np.inf, 1e-300, 1e300])
        file[name].attrs.update(attributes)


# Containers with false declarations; those of .npz files are in tests/spikes/test_arrays.py

MAT = ("kind", "class", "flags", "dims", "name", "size")


def _element(kind: int, content: bytes, size: int | None = None) -> bytes:
    """One element of a MATLAB v5 file; `size` is the declared one."""
    declared = len(content) if size is None else size
    return np.array([kind, declared], "<u4").tobytes() + content + bytes(-len(content) % 8)


def malicious_mat(rng, false_entry: str, path: Path):
    """Write a v5 file in which the header of one variable has one false entry, of `MAT`."""
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


def malicious_nwb(rng, kind: str, good: Path, path: Path):
    """Write `good` with a link, group or data set of `NWB` in place of a random one, or a false attribute of it."""
    import h5py

    path.write_bytes(good.read_bytes())
    with h5py.File(path, "r+") as file:
        names: list[str] = []
        file.visit(lambda name: None if name.startswith("specifications") else names.append(name))
        victim = str(rng.choice(names))
        attributes = dict(file[victim].attrs)
        if kind == "attribute":
            false = [None, 7, -1.5, np.nan, "a", b"\xff\xfe", np.arange(9), [], ["start_time", "x"], file["units"].ref]
            for key in rng.permutation(list(attributes))[:1]:
                value = false[rng.integers(len(false))]
                attributes.pop(key) if value is None else attributes.update({key: value})
            file[victim].attrs.clear()
        elif kind == "renamed":
            file.move(victim, victim + "_")
            return
        else:
            del file[victim]
            NWB[kind](file, victim)
        if isinstance(file.get(victim, getlink=True), h5py.HardLink):
            file[victim].attrs.update(attributes)


def _link(kind: str, *target: str) -> Callable:
    def make(file, name):
        import h5py

        file[name] = getattr(h5py, kind)(*(part.format(name=name, file=file.filename) for part in target))

    return make


def _dataset(*shape, **options) -> Callable:
    return lambda file, name: file.create_dataset(name, *shape, **options)


NWB: dict[str, Callable] = {
    "attribute": None,
    "renamed": None,
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
