"""Broken recordings by the hundred: each is read rightly or refused with a RecordingError, soon and in little memory.

What is broken and how stands in `mutations` and `hostile`, what counts as right in `judge`.
"""

import socket
import tracemalloc
import zipfile
import zlib
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("resource", reason="a process cannot be given limits here")

from possm_lite.spikes import RecordingError, load_recording

from .judge import SECONDS, difference, judged, verdict
from .mutations import ARRAY, BYTES, GOOD, Broken, write_good

SHORT = {".npz": 200, ".mat": 200, ".nwb": 135}
LONG = {".npz": 4000, ".mat": 4000, ".nwb": 3000}
MEGABYTES = 1000  # at most for one file of less than one
CRASHES = ("exit status -11", "exit status -6", "exit status -7", "exit status -8")  # SEGV, ABRT, BUS, FPE


def is_contained(report: dict, suffix: str, seed: int, folder: Path) -> bool:
    """A reader that crashed: for the user that must be a RecordingError, of the process that read it."""
    if suffix == ".npz" or report["says"] not in CRASHES:
        return False
    own = folder / f"{suffix[1:]}-{seed}-{report['number']}"
    outcome, _ = verdict(own / f"a{suffix}", Broken(*(own / "what.txt").read_text().split(", ", 2)))
    return outcome in ("read", "refused")


def test_there_are_five_hundred_broken_files_at_least():
    assert sum(SHORT.values()) >= 500 and all(LONG[suffix] > 10 * SHORT[suffix] for suffix in SHORT)
    assert all(count // 3 >= max(len(BYTES), len(ARRAY)) for count in SHORT.values())  # each way is taken


@pytest.mark.parametrize("suffix", GOOD)
def test_a_broken_file_is_read_rightly_or_refused(suffix, rounds, write_all, tmp_path):
    write_all(suffix)
    count, seed = rounds(SHORT[suffix], LONG[suffix]), rounds(0, 1)
    reports = judged(suffix, 0, count, seed, tmp_path)
    assert [report["number"] for report in reports] == list(range(count))
    outcomes = Counter(report["outcome"] for report in reports)
    assert outcomes["read"] > count / 10 and outcomes["refused"] > count / 3, outcomes
    at_fault = [
        report
        for report in reports
        if report["outcome"] not in ("read", "refused")
        and not (report["outcome"] == "died" and is_contained(report, suffix, seed, tmp_path))
    ]
    assert at_fault == []
    assert max(report["seconds"] for report in reports) < SECONDS
    assert max(report["megabytes"] for report in reports) < MEGABYTES


# What stands under the name


@pytest.fixture(params=GOOD)
def good(request, write_all, tmp_path) -> Path:
    write_all(request.param)
    return tmp_path / GOOD[request.param][0]


def refusal(path: Path) -> str:
    with pytest.raises(RecordingError) as caught:
        load_recording(path)
    assert str(caught.value).startswith(" ".join(str(path).split())) and "\n" not in str(caught.value)
    return str(caught.value)


def test_a_link_is_followed_to_what_it_names(good):
    one, two = good.with_name(f"one{good.suffix}"), good.with_name(f"two{good.suffix}")
    one.symlink_to(good.name)
    two.symlink_to(one.name)
    expected, seen = load_recording(good), vars(load_recording(two))
    names = {"session_id": seen["session_id"]} if good.suffix == ".mat" else {}
    assert difference(replace(expected, **names), seen) is None


def test_links_to_nothing_folders_devices_and_sockets_are_refused(good, monkeypatch):
    for name, target, says in (
        ("nowhere", "missing", "No such file"),
        ("loop", f"loop{good.suffix}", "symbolic link"),
        ("up", "..", "is a folder"),
        ("zero", "/dev/zero", "is not a regular file"),
        ("null", "/dev/null", "is not a regular file"),
    ):
        path = good.with_name(name + good.suffix)
        path.symlink_to(target)
        assert says in refusal(path)
    monkeypatch.chdir(good.parent)  # the name of a socket may not be long
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(f"socket{good.suffix}")
        assert "is not a regular file" in refusal(Path(f"socket{good.suffix}"))


def test_what_is_empty_a_folder_or_of_another_kind_is_refused(good):
    other = next(suffix for suffix in GOOD if suffix != good.suffix)
    for name, put in (
        ("empty", b""),
        ("zeros", bytes(10**6)),
        ("pickle", b"cposix\nmkdir\n(S'unpickled'\ntR."),
    ):
        path = good.with_name(name + good.suffix)
        path.write_bytes(put)
        refusal(path)
    good.with_name("folder" + good.suffix).mkdir()
    assert "is a folder" in refusal(good.with_name("folder" + good.suffix))
    refusal(good.rename(good.with_suffix(other)))


@pytest.mark.parametrize("stem", ["two\nlines", "-rf μs '; %s{0}", "a" * 300, "\udcff"])
def test_a_file_may_have_any_name(good, stem):
    path = good.with_name(stem + good.suffix)
    if len(stem) > 200:
        assert "File name too long" in refusal(path)
        return
    path.write_bytes(good.read_bytes())
    if stem == "\udcff" and good.suffix == ".mat":  # the name of the session, and no text
        assert "session_id" in refusal(path)
        return
    recording = load_recording(path)
    assert recording.n_units == (5 if good.suffix == ".mat" else 6)
    assert recording.session_id == (stem if good.suffix == ".mat" else "monday")


@pytest.mark.parametrize("place", ["intervals/trials", "intervals", "units", "general/session_id"])
def test_a_part_of_an_nwb_file_that_cannot_be_opened_is_not_taken_for_absent(place, write_all, tmp_path):
    """pynwb leaves it out with a warning; a recording whose trials are damaged would seem to have none."""
    write_all(".nwb")
    h5py = pytest.importorskip("h5py")
    path = tmp_path / "clock.nwb"
    with h5py.File(path, "r+") as file:
        file["acquisition/elsewhere"] = h5py.ExternalLink("elsewhere.nwb", "/video")  # not ours to read
    assert len(load_recording(path).trials) == 3
    with h5py.File(path, "r+") as file:
        del file[place]
        file[place] = h5py.SoftLink("/nowhere")
    assert f"altered/broken at /{place}" in refusal(path)


@pytest.mark.parametrize("place", ["intervals", "intervals/trials"])
@pytest.mark.parametrize("instead", ["a text", np.arange(6.0)], ids=["text", "numbers"])
def test_what_stands_in_the_place_of_trials_is_not_taken_for_none(place, instead, write_all, tmp_path):
    write_all(".nwb")
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "clock.nwb", "r+") as file:
        del file[place]
    assert len(load_recording(tmp_path / "clock.nwb").trials) == 0  # there are none indeed
    with h5py.File(tmp_path / "clock.nwb", "r+") as file:
        file[place] = instead
    assert "is not a table of trials" in refusal(tmp_path / "clock.nwb")


@pytest.mark.parametrize("name, value", [("spike_times", 1e300), ("behavior_clock", 1e300)])
def test_a_huge_time_does_not_make_a_huge_message(name, value, tmp_path):
    write_good(tmp_path, ".npz")
    with np.load(tmp_path / "clock.npz", allow_pickle=False) as file:
        arrays = dict(file)
    arrays[name][0] = value
    np.savez(tmp_path / "a.npz", **arrays)
    assert "1e+300 s" in refusal(tmp_path / "a.npz") and len(refusal(tmp_path / "a.npz")) < len(str(tmp_path)) + 250


@pytest.mark.parametrize("declared", [2**32 - 2**20, 2**20, 100])
def test_a_bomb_of_four_gigabytes_is_refused_without_being_unpacked(declared, tmp_path):
    """Whether the directory says how much it is or not. The stream is one megabyte of zeros, over and over again."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    packed = (packer.compress(bytes(2**20)) + packer.flush(zlib.Z_FULL_FLUSH)) * 2**12
    write_good(tmp_path, ".npz")
    path = tmp_path / "clock.npz"
    with zipfile.ZipFile(path, "a") as archive:
        info = zipfile.ZipInfo("truth_bomb.npy")
        info.compress_size, info.file_size, info.compress_type = len(packed), declared, zipfile.ZIP_DEFLATED
        info.CRC, info.header_offset = 0, archive.start_dir
        archive.fp.seek(archive.start_dir)
        archive.fp.write(info.FileHeader() + packed)
        archive.start_dir = archive.fp.tell()
        archive.filelist.append(info)
        archive._didModify = True
    tracemalloc.start()
    with pytest.raises(RecordingError):
        load_recording(path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 50 * 2**20
