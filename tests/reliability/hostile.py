"""Containers that lie: zip directories, headers of arrays, MATLAB elements, links and data sets of HDF5."""

from __future__ import annotations

import io
import os
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np


class Payload:
    """What a pickle can do: here it makes a folder where the reader runs, for the test to find."""

    def __reduce__(self):
        return os.mkdir, ("unpickled",)


def hostile_zip(rng, good: Path, path: Path) -> str:
    """A member more, or one in the place of another, that no array is."""
    with zipfile.ZipFile(good) as archive:
        members = {info.filename: archive.read(info) for info in archive.infolist()}
    victim, what = str(rng.choice(list(members))), str(rng.choice(list(ZIP)))
    name, content = ZIP[what](rng, victim, members[victim])
    members.pop(victim)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for other, whole in members.items():
            archive.writestr(other, whole)
        archive.writestr(name, content)
        if what == "directory that lies":
            setattr(archive.filelist[-1], str(rng.choice(["file_size", "compress_size"])), int(2 ** rng.uniform(3, 62)))
        elif what == "two in one place":
            archive.filelist[-1].header_offset = archive.filelist[0].header_offset
    return f"{what} for {victim}"


def _npy(descr: str, shape: str, data: bytes = b"") -> bytes:
    """An array with a header that NumPy would not write."""
    header = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}}}\n".encode()
    return b"\x93NUMPY\x02\x00" + len(header).to_bytes(4, "little") + header + data


def _pickle_of_payload() -> bytes:
    file = io.BytesIO()
    np.lib.format.write_array(file, np.array([Payload()], dtype=object), allow_pickle=True)
    return file.getvalue()


ZIP: dict[str, Callable] = {
    "bomb": lambda rng, name, old: (name, _npy("'<f8'", "(500000,)", bytes(4_000_000))),
    "bomb that hides": lambda rng, name, old: (name, _npy("'<f8'", "(3,)", bytes(4_000_000))),
    "pickle": lambda rng, name, old: (name, _pickle_of_payload()),
    "way out": lambda rng, name, old: (("../" * int(rng.integers(1, 9)) + name, "/" + name)[rng.integers(2)], old),
    "folder": lambda rng, name, old: (name + "/", b""),
    "directory that lies": lambda rng, name, old: (name, old),
    "two in one place": lambda rng, name, old: (name, old),
    "deep header": lambda rng, name, old: (name, _npy("'<f8'", "(" * int(rng.integers(1, 9000)))),
    "call in header": lambda rng, name, old: (name, _npy("__import__('os').mkdir('unpickled')", "(3,)", bytes(24))),
    "shape too large": lambda rng, name, old: (name, _npy("'<f8'", f"({2 ** int(rng.integers(30, 80))},)", old)),
    "shape of strange things": lambda rng, name, old: (
        name,
        _npy("'<f8'", ("(-3,)", "(True,)", "(3.0,)", "'3'", "(3, -1, 0)", "None")[rng.integers(6)], bytes(24)),
    ),
    "strange type": lambda rng, name, old: (
        name,
        _npy(("'|O'", "'<U0'", "'(9,)<f8'", "'<M8[s]'", "[('a', '<f8')]", "'|V8'")[rng.integers(6)], "(3,)", bytes(24)),
    ),
}


def _element(kind: int, content: bytes, size: int | None = None) -> bytes:
    """One element of a MATLAB v5 file; `size` is what it says of itself."""
    return (
        np.array([kind, len(content) if size is None else size], "<u4").tobytes() + content + bytes(-len(content) % 8)
    )


def hostile_mat(rng, variables: dict[str, np.ndarray], path: Path) -> str:
    """Variables whose headers lie: in one of them one thing is not what it should be."""
    victim, what = str(rng.choice(list(variables))), str(rng.choice(["kind", "class", "flags", "dims", "name", "size"]))
    elements = []
    for name, array in variables.items():
        lie = what if name == victim else ""
        dims = {
            0: array.shape,
            1: (*array.shape, 1),
            2: (-1, -60),
            3: (2**31 - 1, 60),
            4: (0, 60),
            5: (60,),
            6: (60, 1),
        }
        flags = int(rng.integers(256)) << 8 if lie == "flags" else 0
        array_class = int(rng.integers(20)) if lie == "class" else 6  # double
        kind = int(rng.integers(20)) if lie == "kind" else 9  # miDOUBLE
        said = "handVel" if lie == "name" else name
        size = int(2 ** rng.uniform(0, 32)) if lie == "size" else None
        inside = _element(6, np.array([flags | array_class, 0], "<u4").tobytes())
        inside += _element(5, np.array(dims[int(rng.integers(7)) if lie == "dims" else 0], "<i4").tobytes())
        inside += _element(1, said.encode()) + _element(kind, array.tobytes("F"), size)
        elements.append(_element(14, inside))
    path.write_bytes(b"MATLAB 5.0 MAT-file".ljust(124) + b"\x00\x01IM" + b"".join(elements))
    return f"{what} of {victim}"


def hostile_nwb(rng, good: Path, path: Path) -> str:
    """Links, groups, attributes and data sets that pynwb does not write."""
    import h5py

    path.write_bytes(good.read_bytes())
    with h5py.File(path, "r+") as file:
        places: list[str] = []
        file.visit(lambda name: None if name.startswith("specifications") else places.append(name))
        victim, what = str(rng.choice(places)), str(rng.choice(list(HDF5)))
        HDF5[what](rng, file, victim)
    return f"{what} at {victim}"


def _attribute(rng, file, place: str):
    """An attribute lost, or something else in its place."""
    attributes = file[place].attrs
    if len(attributes) == 0:
        return
    name = str(rng.choice(list(attributes)))
    values = (None, 7, -1.5, np.nan, "a", b"\xff\xfe", np.arange(9), [], ["start_time", "x"], file["units"].ref)
    value = values[rng.integers(len(values))]
    if value is None:
        del attributes[name]
    else:
        attributes[name] = value


def _instead(make: Callable) -> Callable:
    """Something else under the name of what is there, with the same attributes."""

    def replaced(rng, file, place: str):
        attributes = dict(file[place].attrs)
        del file[place]
        make(file, place)
        if isinstance(file.get(place, getlink=True), _hard_link()):
            file[place].attrs.update(attributes)

    return replaced


def _hard_link():
    import h5py

    return h5py.HardLink


def _link(kind: str, *where: str) -> Callable:
    def made(file, place):
        import h5py

        file[place] = getattr(h5py, kind)(*(part.format(place=place, file=file.filename) for part in where))

    return _instead(made)


HDF5: dict[str, Callable] = {
    "an attribute": _attribute,
    "another attribute": _attribute,
    "lost": lambda rng, file, place: file.__delitem__(place),
    "another name": lambda rng, file, place: file.move(place, place + "_"),
    "link to nowhere": _link("SoftLink", "/nowhere"),
    "link to itself": _link("SoftLink", "/{place}"),
    "link to the root": _link("SoftLink", "/"),
    "link to no file": _link("ExternalLink", "nowhere.h5", "/units"),
    "link to a device": _link("ExternalLink", "/dev/zero", "/units"),
    "link to this file": _link("ExternalLink", "{file}", "/units"),
    "circle": _instead(lambda file, place: file.__setitem__(place, file["/"])),
    "a group": _instead(lambda file, place: file.create_group(place)),
    "a number": _instead(lambda file, place: file.create_dataset(place, data=3.0)),
    "nothing": _instead(lambda file, place: file.create_dataset(place, dtype="f8")),
    "text": _instead(lambda file, place: file.create_dataset(place, data="Monday")),
    "records": _instead(lambda file, place: file.create_dataset(place, data=np.zeros(6, [("x", "f8"), ("y", "S3")]))),
    "three dimensions": _instead(lambda file, place: file.create_dataset(place, data=np.zeros((6, 2, 2)))),
    "kept elsewhere": _instead(
        lambda file, place: file.create_dataset(place, (90,), "f8", external=[("nowhere.raw", 0, 720)])
    ),
    "terabytes": _instead(lambda file, place: file.create_dataset(place, (2**37,), "f8", chunks=(2**10,))),
    "terabytes of text": _instead(lambda file, place: file.create_dataset(place, (2**37,), "S9", chunks=(2**10,))),
    "one long text": _instead(lambda file, place: file.create_dataset(place, (), f"S{2**31 - 1}")),
    "a chunk of gigabytes": _instead(
        lambda file, place: file.create_dataset(place, (90,), "f8", chunks=(2**28 + 9,), maxshape=(None,))
    ),
}
