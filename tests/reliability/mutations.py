"""Intact recordings in small files of all three formats, and mutations of their bytes and of single fields."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import scipy.io
from hypothesis import strategies as st

from possm_lite.spikes import Recording

from .malicious_files import Payload

GOOD = {
    ".npz": ("clock.npz", "times.npz"),
    ".mat": ("compressed.mat", "plain.mat", "v4.mat"),
    ".nwb": ("clock.nwb", "times.nwb"),
}
MAT_OPTIONS = ({"do_compression": True}, {"do_compression": False}, {"format": "4"})


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
    """Write the intact files of one format; NWB needs pynwb."""
    if suffix == ".mat":
        for name, options in zip(GOOD[suffix], MAT_OPTIONS, strict=True):
            scipy.io.savemat(folder / name, good_variables(), **options)
        return
    from possm_lite.spikes.io.nwb_write import write_nwb

    for name in GOOD[suffix]:
        recording = good_recording(on_a_clock=name.startswith("clock"))
        recording.save(folder / name) if suffix == ".npz" else write_nwb(recording, folder / name)


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


def _put(array: np.ndarray, rng, value) -> np.ndarray:
    if array.dtype.kind not in "iuf":
        return array
    array = np.array(array, dtype=np.int64 if array.dtype.kind in "iu" and isinstance(value, int) else float, ndmin=1)
    if array.size:
        array.ravel()[rng.integers(array.size)] = value
    return array


def _swapped(array: np.ndarray, rng) -> np.ndarray:
    flat = array.ravel().copy()
    if array.size > 1:
        i, j = rng.choice(flat.size, 2, replace=False)
        flat[[i, j]] = flat[[j, i]]
    return flat.reshape(array.shape)


def _repeated(array: np.ndarray, rng) -> np.ndarray:
    flat = np.array(array).ravel()
    i = rng.integers(max(flat.size - 1, 1))
    flat[i + 1 : i + 2] = flat[i : i + 1]
    return flat.reshape(np.shape(array))


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
    "swapped": _swapped,
    "shuffled": lambda array, rng: rng.permutation(array),
    "repeated": _repeated,
    "a day later": _numeric(lambda array: array + np.float64(86_400)),
    "1e16 s later": _numeric(lambda array: array + 1e16),
    "denormal": _numeric(lambda array: array * 1e-310),
    "negative": _numeric(lambda array: -array),
}
NWB_FIELDS = ("units/spike_times", "units/spike_times_index", "units/id", "intervals/trials/start_time")
NWB_FIELDS += ("intervals/trials/stop_time", "processing/behavior/hand_vel/data", "processing/behavior/hand_vel/CLOCK")


def change_field(rng, good: Path, path: Path, change: Callable) -> str:
    """Write `good` to `path` with one of `FIELD_CHANGES` made to a random field, and return its name."""
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
        np.savez(path, **arrays)
        return name
    if array is not None and array.dtype.kind == "O":
        arrays[name] = np.array([["a", 1.0]], dtype=object)  # a cell array, the nearest MATLAB type
    try:
        scipy.io.savemat(path, arrays, **MAT_OPTIONS[GOOD[".mat"].index(good.name)])
    except (ValueError, TypeError, KeyError, AttributeError):  # v4 has no such type
        scipy.io.savemat(path, arrays)
    return name


def _change_nwb_field(rng, good: Path, path: Path, change: Callable) -> str:
    import h5py

    path.write_bytes(good.read_bytes())
    with h5py.File(path, "r+") as file:
        clock = "starting_time" if good.name.startswith("clock") else "timestamps"
        name = str(rng.choice(NWB_FIELDS)).replace("CLOCK", clock)
        attributes, array = dict(file[name].attrs), change(np.atleast_1d(file[name][()]), rng)
        del file[name]
        if array is None:
            return name
        if array.dtype.kind in "UO":
            array = array.astype("S")
        file[name] = array.reshape(()) if name.endswith("starting_time") and array.size == 1 else array
        if "rate" in attributes and rng.integers(2):
            attributes["rate"] = rng.choice([0.0, -50.0, np.nan, np.inf, 1e-300, 1e300])
        file[name].attrs.update(attributes)
    return name
