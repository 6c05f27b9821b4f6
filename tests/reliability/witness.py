"""What stands in a broken file, seen without the package's readers.

`.npz` is read with `numpy.load`, MATLAB files by a parser of its own and NWB straight from HDF5. What cannot be made
out raises an error, of whichever kind.
"""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import numpy as np


def seen_in_npz(path: Path) -> dict:
    with np.load(path, allow_pickle=False) as file:
        arrays = dict(file)
    if "behavior_clock" in arrays:
        start, rate, n = (arrays.pop("behavior_clock") * np.float64(1)).tolist()  # text has no product
        arrays["behavior_times"] = start + np.arange(int(n)) / rate
    texts = {}
    arrays.setdefault("format", np.array("possm-lite recording 1"))  # a file of somebody's own making has none
    for name in ("format", "velocity_unit", "session_id"):
        (texts[name],) = arrays[name].ravel().tolist()
    texts["notes"] = tuple(arrays["notes"].ravel().tolist())
    if not all(isinstance(text, str) and text for text in (*list(texts.values())[:3], *texts["notes"])):
        raise ValueError("a text that is none")
    if texts["format"] != "possm-lite recording 1":
        raise ValueError("another format")
    return arrays | texts


V4 = ("d", "f", "i", "h", "H", "B")  # by the third digit of the kind
V5 = {1: "b", 2: "B", 3: "h", 4: "H", 5: "i", 6: "I", 7: "f", 9: "d", 12: "q", 13: "Q"}  # by the type of an element
CLASSES = range(6, 16)  # of numbers; what is stored under one of them is what there is, whichever it says


def seen_in_mat(path: Path) -> dict:
    """`time`, `spikes` and `handVel` in a MATLAB v4 or v5 file, the latter as its format has them."""
    content = path.read_bytes()
    if 0 in content[:4]:
        return _seen_in_v4(content)
    order = "<" if content[126:128] == b"IM" else ">"
    found = {}
    for kind, element in _elements(content[128:], order):
        if kind == 15:
            ((kind, element),) = _elements(zlib.decompress(element), order)
        if kind != 14:
            continue
        flags = struct.unpack(f"{order}I", element[8:12])[0]
        parts = list(_elements(element[16:], order))  # flags are eight bytes, whatever their own size says
        name = parts[1][1].decode("latin1")
        if name in ("time", "spikes", "handVel"):
            if name in found or flags & 0x800 or flags & 0xFF not in CLASSES:
                raise ValueError(f"{name} is there twice, or complex, or holds no numbers")
            dims = np.frombuffer(parts[0][1], f"{order}i4")
            values = np.frombuffer(parts[2][1], order + V5[parts[2][0]])
            found[name] = values.reshape(dims, order="F")
    return found


def _elements(content: bytes, order: str):
    at = 0
    while at + 8 <= len(content):
        kind, size = struct.unpack(f"{order}II", content[at : at + 8])
        if kind >> 16:  # a short one, in the place of the size
            yield kind & 0xFFFF, content[at + 4 : at + 4 + (kind >> 16)]
            at += 8
            continue
        if at + 8 + size > len(content):
            raise ValueError("an element goes on after the end")
        yield kind, content[at + 8 : at + 8 + size]
        at += 8 + size + (-size % 8 if kind != 15 else 0)


def _seen_in_v4(content: bytes) -> dict:
    found, at = {}, 0
    while at + 20 <= len(content):
        kind, rows, columns, imaginary, name_bytes = struct.unpack("<5i", content[at : at + 20])
        dtype = np.dtype("<" + V4[kind // 10 % 10])
        name = content[at + 20 : at + 20 + name_bytes].rstrip(b"\0").decode("latin1")
        at += 20 + name_bytes
        if name in ("time", "spikes", "handVel"):
            if name in found or imaginary or kind % 10:
                raise ValueError(f"{name} is there twice, or complex, or holds no numbers")
            found[name] = np.frombuffer(content, dtype, rows * columns, at).reshape((rows, columns), order="F")
        at += rows * columns * dtype.itemsize * (1 + bool(imaginary))
    return found


def seen_in_nwb(path: Path) -> dict:
    """Straight from HDF5: spikes sorted by time, rows of behaviour that are no NaN, all trials."""
    import h5py

    with h5py.File(path, "r") as file:
        units, behavior = file["units"], file["processing/behavior/hand_vel"]
        index = "spike_times_index" if "spike_times_index" in units else "spike_times_index_"  # its target counts
        counts = np.diff(units[index][()].astype(np.int64), prepend=0)
        spikes = units["spike_times"][()].astype(np.float64)
        order = np.argsort(spikes, kind="stable")
        about = behavior["data"].attrs
        velocity = behavior["data"][()][:, :2].astype(np.float64)
        velocity = velocity * float(about.get("conversion", 1)) + float(about.get("offset", 0))
        if "timestamps" in behavior:
            times = behavior["timestamps"][()].astype(np.float64)
        else:
            start = behavior["starting_time"]
            times = float(start[()]) + np.arange(len(velocity)) / float(start.attrs["rate"])
        there = ~np.isnan(velocity).any(axis=1)
        trials = file.get("intervals", {}).get("trials", {})
        ends = (
            [np.asarray(trials[name][()], np.float64) for name in ("start_time", "stop_time")] if trials else [[], []]
        )
        return {
            "spike_times": spikes[order],
            "spike_units": np.repeat(np.arange(len(counts)), counts)[order],
            "unit_ids": units["id"][()].astype(str),
            "behavior_times": times[there],
            "velocity": velocity[there],
            "trials": np.stack(ends, axis=1),
        }
