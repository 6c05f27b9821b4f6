"""Containers with false declarations: zip directories, array headers, MATLAB elements, HDF5 links and data sets."""

from __future__ import annotations

import io
import os
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np


class Payload:
    """Unpickling it makes a folder in the working directory."""

    def __reduce__(self):
        return os.mkdir, ("unpickled",)


def _npy(descr: str, shape: str, data: bytes = bytes(24)) -> bytes:
    """An array with a header that NumPy would not write."""
    header = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}}}\n".encode()
    return b"\x93NUMPY\x02\x00" + len(header).to_bytes(4, "little") + header + data


def _pickled_array() -> bytes:
    file = io.BytesIO()
    np.lib.format.write_array(file, np.array([Payload()], dtype=object), allow_pickle=True)
    return file.getvalue()


SHAPES = ("(-3,)", "(True,)", "(3.0,)", "'3'", "(3, -1, 0)", "None")
DTYPES = ("'|O'", "'<U0'", "'(9,)<f8'", "'<M8[s]'", "[('a', '<f8')]", "'|V8'")
NPZ: dict[str, Callable] = {  # name and content of a member instead of the old ones
    "bomb": lambda rng, name, old: (name, _npy("'<f8'", "(500000,)", bytes(4_000_000))),
    "hidden bomb": lambda rng, name, old: (name, _npy("'<f8'", "(3,)", bytes(4_000_000))),
    "pickle": lambda rng, name, old: (name, _pickled_array()),
    "path traversal": lambda rng, name, old: (
        ("../" * int(rng.integers(1, 9)) + name, "/" + name)[rng.integers(2)],
        old,
    ),
    "folder": lambda rng, name, old: (name + "/", b""),
    "false size": lambda rng, name, old: (name, old),
    "shared offset": lambda rng, name, old: (name, old),
    "deep header": lambda rng, name, old: (name, _npy("'<f8'", "(" * int(rng.integers(1, 9000)))),
    "call in header": lambda rng, name, old: (name, _npy("__import__('os').mkdir('unpickled')", "(3,)")),
    "huge shape": lambda rng, name, old: (name, _npy("'<f8'", f"({2 ** int(rng.integers(30, 80))},)", old)),
    "invalid shape": lambda rng, name, old: (name, _npy("'<f8'", SHAPES[rng.integers(6)])),
    "invalid dtype": lambda rng, name, old: (name, _npy(DTYPES[rng.integers(6)], "(3,)")),
}


def malicious_npz(rng, kind: str, good: Path, path: Path) -> str:
    with zipfile.ZipFile(good) as archive:
        members = {info.filename: archive.read(info) for info in archive.infolist()}
    victim = str(rng.choice(list(members)))
    name, content = NPZ[kind](rng, victim, members.pop(victim))
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for other, other_content in members.items():
            archive.writestr(other, other_content)
        archive.writestr(name, content)
        if kind == "false size":
            setattr(archive.filelist[-1], str(rng.choice(["file_size", "compress_size"])), int(2 ** rng.uniform(3, 62)))
        elif kind == "shared offset":
            archive.filelist[-1].header_offset = archive.filelist[0].header_offset
    return victim


MAT = ("kind", "class", "flags", "dims", "name", "size")


def _element(kind: int, content: bytes, size: int | None = None) -> bytes:
    """One element of a MATLAB v5 file; `size` is the declared one."""
    declared = len(content) if size is None else size
    return np.array([kind, declared], "<u4").tobytes() + content + bytes(-len(content) % 8)


def malicious_mat(rng, lie: str, variables: dict[str, np.ndarray], path: Path) -> str:
    """A v5 file in which the header of one variable has one false entry."""
    victim, elements = str(rng.choice(list(variables))), []
    for name, array in variables.items():
        false = lie if name == victim else ""
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
    return victim


def malicious_nwb(rng, kind: str, good: Path, path: Path) -> str:
    """Links, groups, attributes and data sets that pynwb does not write, in place of a random one."""
    import h5py

    path.write_bytes(good.read_bytes())
    with h5py.File(path, "r+") as file:
        names: list[str] = []
        file.visit(lambda name: None if name.startswith("specifications") else names.append(name))
        victim = str(rng.choice(names))
        if kind == "attribute":
            _change_attribute(rng, file, victim)
        elif kind == "renamed":
            file.move(victim, victim + "_")
        else:
            attributes = dict(file[victim].attrs)
            del file[victim]
            NWB[kind](file, victim)
            if isinstance(file.get(victim, getlink=True), h5py.HardLink):
                file[victim].attrs.update(attributes)
    return victim


def _change_attribute(rng, file, name: str):
    attributes = file[name].attrs
    values = (None, 7, -1.5, np.nan, "a", b"\xff\xfe", np.arange(9), [], ["start_time", "x"], file["units"].ref)
    value = values[rng.integers(len(values))]
    if not attributes:
        return
    key = str(rng.choice(list(attributes)))
    if value is None:
        del attributes[key]
    else:
        attributes[key] = value


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
