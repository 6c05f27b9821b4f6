"""Good recordings in small files of all three kinds, and ways to break them: bits, bytes, fields, whole containers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import scipy.io

from possm_lite.spikes import Recording

from .hostile import Payload, hostile_mat, hostile_nwb, hostile_zip

GOOD = {
    ".npz": ("clock.npz", "times.npz"),
    ".mat": ("packed.mat", "plain.mat", "old.mat"),
    ".nwb": ("clock.nwb", "times.nwb"),
}
MAT_OPTIONS = ({"do_compression": True}, {"do_compression": False}, {"format": "4"})
REMOVED = object()


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
        velocity=rng.normal(size=(len(times), 2)),
        velocity_unit="mm/s",
        trials=[[0.4, 1.5], [1.5, 2.5], [3.5, 4.5]],
        session_id="monday",
        notes=("Made for a test.",),
    )


def good_variables() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(6)
    counts = rng.poisson(0.5, (5, 60)).astype(float)
    return {"time": 2.0 + 0.05 * np.arange(60)[None], "spikes": counts, "handVel": rng.normal(size=(2, 60))}


def write_good(folder: Path, suffix: str):
    """The good files of one kind; NWB needs pynwb."""
    if suffix == ".mat":
        for name, options in zip(GOOD[suffix], MAT_OPTIONS, strict=True):
            scipy.io.savemat(folder / name, good_variables(), **options)
        return
    from possm_lite.spikes.io.nwb_write import write_nwb

    for name in GOOD[suffix]:
        recording = good_recording(on_a_clock=name.startswith("clock"))
        recording.save(folder / name) if suffix == ".npz" else write_nwb(recording, folder / name)


# Bytes, whatever they mean


def _place(rng, content: bytes) -> int:
    """Anywhere, or in the first kilobyte, where headers are, or in the last, where directories are."""
    low, high = ((0, len(content)), (0, 1024), (len(content) - 1024, len(content)))[rng.integers(3)]
    return int(rng.integers(max(low, 0), min(high, len(content))))


def _flip(rng, content: bytes, n_bits: int) -> bytes:
    flipped = bytearray(content)
    for _ in range(n_bits):
        flipped[_place(rng, content)] ^= 1 << rng.integers(8)
    return bytes(flipped)


def _splice(rng, content: bytes, put: Callable[[bytes], bytes], most: int = 200) -> bytes:
    start = _place(rng, content)
    stop = start + int(rng.integers(1, most))
    return content[:start] + put(content[start:stop]) + content[stop:]


BYTES: dict[str, Callable] = {
    "one bit": lambda rng, content: _flip(rng, content, 1),
    "eight bits": lambda rng, content: _flip(rng, content, 8),
    "cut": lambda rng, content: content[: rng.integers(len(content))],
    "beginning lost": lambda rng, content: content[rng.integers(1, len(content)) :],
    "piece lost": lambda rng, content: _splice(rng, content, lambda piece: b""),
    "piece zero": lambda rng, content: _splice(rng, content, lambda piece: bytes(len(piece))),
    "piece of ones": lambda rng, content: _splice(rng, content, lambda piece: b"\xff" * len(piece)),
    "piece of noise": lambda rng, content: _splice(rng, content, lambda piece: rng.bytes(len(piece))),
    "piece twice": lambda rng, content: _splice(rng, content, lambda piece: 2 * piece),
    "piece backwards": lambda rng, content: _splice(rng, content, lambda piece: piece[::-1]),
    "more at the end": lambda rng, content: content + rng.bytes(int(rng.integers(1, 99_999))),
    "twice": lambda rng, content: 2 * content,
}


# One array, whatever its field


def _put(array: np.ndarray, rng, value) -> np.ndarray:
    if array.dtype.kind not in "iuf":
        return array
    array = np.array(array, dtype=np.int64 if array.dtype.kind in "iu" and isinstance(value, int) else float, ndmin=1)
    if array.size:
        array.ravel()[rng.integers(array.size)] = value
    return array


def _swapped(array: np.ndarray, rng) -> np.ndarray:
    if array.size < 2:
        return array
    flat = array.ravel().copy()
    one, other = rng.choice(flat.size, 2, replace=False)
    flat[[one, other]] = flat[[other, one]]
    return flat.reshape(array.shape)


def _doubled(array: np.ndarray, rng) -> np.ndarray:
    flat = np.array(array).ravel()
    place = rng.integers(max(flat.size - 1, 1))
    flat[place + 1 : place + 2] = flat[place : place + 1]
    return flat.reshape(np.shape(array))


def _as(dtype: str) -> Callable:
    def retyped(array, rng):
        if array.dtype.kind == "U" and np.dtype(dtype).kind not in "SU":
            return array  # a name is no number
        with np.errstate(all="ignore"):
            return array.astype(dtype)

    return retyped


ARRAY: dict[str, Callable] = {
    "removed": lambda array, rng: REMOVED,
    "emptied": lambda array, rng: array[:0],
    "one shorter": lambda array, rng: array[:-1],
    "one longer": lambda array, rng: np.concatenate((array, array[-1:])),
    "one number": lambda array, rng: array.ravel()[:1].reshape(()) if array.size else array,
    "a column": lambda array, rng: array.reshape(-1, 1),
    "a row": lambda array, rng: array[None],
    "flat": lambda array, rng: array.ravel(),
    "transposed": lambda array, rng: array.T,
    "three columns": lambda array, rng: np.repeat(array.reshape(-1, 1), 3, axis=1),
    "pickled": lambda array, rng: np.full(array.shape, Payload(), dtype=object),
    **{f"as {dtype}": _as(dtype) for dtype in ("f2", "f4", ">f8", "i4", "u1", ">i8", "u8", "c16", "?", "S9", "U9")},
    **{
        f"{value} somewhere": lambda array, rng, value=value: _put(array, rng, value)
        for value in (np.nan, np.inf, -np.inf, 1e300, -1e300, 1e17, -1, -7.5, 6, 2, 10**6, 0)
    },
    "all the same": lambda array, rng: np.repeat(array[:1], len(array), axis=0),
    "backwards": lambda array, rng: array[::-1],
    "two swapped": _swapped,
    "shuffled": lambda array, rng: rng.permutation(array),
    "one twice": _doubled,
    "a day later": lambda array, rng: array + np.float64(86_400) if array.dtype.kind in "iuf" else array,
    "ages later": lambda array, rng: array + 1e16 if array.dtype.kind in "iuf" else array,
    "denormal": lambda array, rng: array * 1e-310 if array.dtype.kind in "iuf" else array,
    "negative": lambda array, rng: -array if array.dtype.kind in "if" else array,
}
NWB_FIELDS = ("units/spike_times", "units/spike_times_index", "units/id", "intervals/trials/start_time")
NWB_FIELDS += ("intervals/trials/stop_time", "processing/behavior/hand_vel/data", "processing/behavior/hand_vel/CLOCK")


def _npz_field(rng, good: Path, path: Path, change: Callable) -> str:
    with np.load(good, allow_pickle=False) as file:
        arrays = dict(file)
    name = str(rng.choice(list(arrays)))
    array = arrays[name] if arrays[name].ndim else arrays[name][None]
    arrays[name] = change(array, rng)
    np.savez(path, **{name: array for name, array in arrays.items() if array is not REMOVED})
    return name


def _mat_field(rng, good: Path, path: Path, change: Callable) -> str:
    variables = good_variables()
    name = str(rng.choice(list(variables)))
    variables[name] = change(variables[name], rng)
    if np.asarray(variables[name]).dtype.kind == "O" and variables[name] is not REMOVED:
        variables[name] = np.array([["a", 1.0]], dtype=object)  # a cell array, the nearest that MATLAB has
    options = MAT_OPTIONS[GOOD[".mat"].index(good.name)]
    try:
        scipy.io.savemat(path, {n: array for n, array in variables.items() if array is not REMOVED}, **options)
    except (ValueError, TypeError, KeyError, AttributeError):  # the old format has no such type
        scipy.io.savemat(path, {n: array for n, array in variables.items() if array is not REMOVED})
    return name


def _nwb_field(rng, good: Path, path: Path, change: Callable) -> str:
    import h5py

    path.write_bytes(good.read_bytes())
    with h5py.File(path, "r+") as file:
        name = str(rng.choice(NWB_FIELDS))
        clock = "starting_time" if good.name.startswith("clock") else "timestamps"
        name = name.replace("CLOCK", clock)
        attributes, array = dict(file[name].attrs), np.atleast_1d(file[name][()])
        array = change(array, rng)
        del file[name]
        if array is REMOVED:
            return name
        if np.asarray(array).dtype.kind in "UO":
            array = np.asarray(array).astype("S")
        file[name] = array.reshape(()) if name.endswith("starting_time") and array.size == 1 else array
        if "rate" in attributes and rng.integers(2):
            attributes["rate"] = rng.choice([0.0, -50.0, np.nan, np.inf, 1e-300, 1e300])
        file[name].attrs.update(attributes)
    return name


FIELD = {".npz": _npz_field, ".mat": _mat_field, ".nwb": _nwb_field}
HOSTILE = {
    ".npz": hostile_zip,
    ".mat": lambda rng, source, path: hostile_mat(rng, good_variables(), path),
    ".nwb": hostile_nwb,
}


class Broken(NamedTuple):
    """What was done to a file: to which good one, to its bytes, a field or the container, and how."""

    source: str
    part: str
    how: str


def break_file(suffix: str, number: int, seed: int, good: Path, path: Path) -> Broken:
    """Write broken file `number` to `path`; the same numbers give the same file.

    Args:
        suffix: ".npz", ".mat" or ".nwb".
        number: from 0; bytes, fields and containers take turns, and so do the ways of each.
        seed: of the chance in it.
        good: the folder that `write_good` has filled.
        path: of the file to write.
    """
    rng = np.random.default_rng((seed, number))
    source = good / str(rng.choice(GOOD[suffix]))
    turn, part = number // 3, ("bytes", "field", "container")[number % 3]
    if part == "bytes":
        how = list(BYTES)[turn % len(BYTES)]
        path.write_bytes(BYTES[how](rng, source.read_bytes()))
    elif part == "field":
        change = list(ARRAY)[turn % len(ARRAY)]
        how = f"{FIELD[suffix](rng, source, path, ARRAY[change])}: {change}"
    else:
        how = HOSTILE[suffix](rng, source, path)
    return Broken(source.name, part, how)
