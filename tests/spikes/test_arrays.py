"""Arrays in .npz files: declared sizes are checked before anything is unpacked."""

import io
import os
import pickle
import re
import zipfile

import numpy as np
import pytest

from possm_lite.errors import FileFormatError
from possm_lite.spikes.arrays import read_arrays, write_arrays


def npz_of(path, members: dict[str, bytes], **changes):
    """A zip file of `members`; `changes` are made to the directory entry of the first."""
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
        for name, value in changes.items():
            setattr(archive.filelist[0], name, value)


def npy(array=None, header: dict | None = None) -> bytes:
    file = io.BytesIO()
    if header is None:
        np.lib.format.write_array(file, np.asarray(array))
    else:
        np.lib.format.write_array_header_1_0(file, header)
    return file.getvalue()


def false_header(descr: str, shape: str) -> dict[str, bytes]:
    """An array with a header that NumPy would not write."""
    header = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}}}\n".encode()
    return {"a.npy": b"\x93NUMPY\x02\x00" + len(header).to_bytes(4, "little") + header + bytes(24)}


HUGE = {"descr": "<f8", "fortran_order": False, "shape": (2**40,)}
BAD_MEMBERS = {
    "an object that would be unpickled": ({"a.npy": npy(np.array([print], object))}, {}, "plain numbers or text"),
    "a structured array": ({"a.npy": npy(np.zeros(2, [("x", "f4")]))}, {}, "plain numbers or text"),
    "a header that declares more than there is": ({"a.npy": npy(header=HUGE)}, {}, "declares shape (1099511627776,)"),
    "a directory that declares terabytes": ({"a.npy": npy(header=HUGE)}, {"file_size": 2**43}, "more than the"),
    "items of no size, and many": ({"a.npy": npy(header=HUGE | {"descr": "<U0"})}, {}, "declares shape"),
    "a negative shape": ({"a.npy": npy(header=HUGE | {"shape": (-1, -8)}) + bytes(64)}, {}, "declares shape (-1, -8)"),
    "data after the array": ({"a.npy": npy(np.zeros(3)) + bytes(10**6)}, {}, "declares shape (3,)"),
    "a folder": ({"../a.npy": npy(0.0)}, {}, "'../a.npy' is not the name of an array"),
    "no array": ({"a.txt": b"hello"}, {}, "'a.txt' is not the name of an array"),
    "text instead of an array": ({"a.npy": b"hello, this is not an array"}, {}, "a is damaged"),
    "invalid code points": (
        {"a.npy": npy(header=HUGE | {"descr": "<U1", "shape": ()}) + b"\xff" * 4},
        {},
        "a is damaged",
    ),
    "an encrypted member": ({"a.npy": npy(0.0)}, {"flag_bits": 1}, "is encrypted"),
    "the offset of another member": ({"a.npy": npy(0.0), "b.npy": npy(0.0)}, {"header_offset": 35 + 136}, "damaged"),
    "a call in the header": (false_header("__import__('os').mkdir('unpickled')", "(3,)"), {}, "a is damaged"),
    "a deep header": (false_header("'<f8'", "(" * 9000), {}, "a is damaged"),
    **{f"shape {x}": (false_header("'<f8'", x), {}, "a is damaged") for x in ("(3.0,)", "'3'", "None", "(3, -1, 0)")},
    **{f"dtype {x}": (false_header(x, "(3,)"), {}, "a ") for x in ("'|O'", "'<U0'", "'(9,)<f8'", "'<M8[s]'", "'|V8'")},
    "a packing NumPy does not use": ({"a.npy": npy(0.0)}, {"compress_type": zipfile.ZIP_LZMA}, "or compressed as"),
}


@pytest.mark.parametrize("members, changes, message", BAD_MEMBERS.values(), ids=BAD_MEMBERS.keys())
def test_a_malicious_member_is_refused_before_unpacking(tmp_path, monkeypatch, members, changes, message):
    monkeypatch.chdir(tmp_path)
    npz_of(tmp_path / "a.npz", members, **changes)
    with pytest.raises(FileFormatError, match=re.escape(message)) as caught:
        read_arrays(tmp_path / "a.npz")
    assert str(caught.value).startswith(f"{tmp_path / 'a.npz'}: ") and "\n" not in str(caught.value)
    assert os.listdir(tmp_path) == ["a.npz"]  # code in the file was not executed


def test_a_duplicate_member_is_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("a.npy", npy(1.0))
        with pytest.warns(UserWarning, match="Duplicate"):
            archive.writestr("a.npy", npy(2.0))
    with pytest.raises(FileFormatError, match="'a.npy' occurs twice"):
        read_arrays(tmp_path / "a.npz")


def test_pickles_and_arrays_above_the_limit_are_refused(tmp_path):
    (tmp_path / "pickle.npz").write_bytes(pickle.dumps(print))
    with pytest.raises(FileFormatError, match="is damaged or not an .npz file"):
        read_arrays(tmp_path / "pickle.npz")
    write_arrays(tmp_path / "zeros.npz", {"a": np.zeros(1000), "b": np.zeros(1000)})
    assert (tmp_path / "zeros.npz").stat().st_size < 1000
    assert set(read_arrays(tmp_path / "zeros.npz", max_bytes=16_500)) == {"a", "b"}
    with pytest.raises(FileFormatError, match="declares 16256 bytes of arrays, more than the 16000 allowed"):
        read_arrays(tmp_path / "zeros.npz", max_bytes=16_000)


class CheckpointError(ValueError):
    """The error of another reader."""


def test_arrays_are_read_back_unchanged(tmp_path):
    there = {
        "weights.l0": np.asfortranarray(np.arange(6, dtype=np.float32).reshape(2, 3)),
        "S": np.array([1 + 2j]),
        "flag": np.array(True),
        "none": np.empty((0, 4), dtype=np.int16),
        "name": np.array("µ"),
    }
    write_arrays(tmp_path / "a.npz", there)
    back = read_arrays(tmp_path / "a.npz")
    assert list(back) == list(there)
    for name, array in there.items():
        assert back[name].dtype == array.dtype and back[name].shape == array.shape
        assert back[name].tolist() == array.tolist()
    with pytest.raises(CheckpointError, match="missing.npz: cannot be read"):
        read_arrays(tmp_path / "missing.npz", error=CheckpointError)


def test_unreadable_arrays_are_not_written(tmp_path):
    for arrays, message in (
        ({"a": np.array([None])}, "a must hold plain numbers or text, not object"),
        ({"../a": np.zeros(3)}, "'../a.npy' is not the name of an array"),
    ):
        with pytest.raises(FileFormatError, match=re.escape(f"{tmp_path / 'a.npz'}: ") + ".*" + message):
            write_arrays(tmp_path / "a.npz", arrays)
    assert os.listdir(tmp_path) == []
