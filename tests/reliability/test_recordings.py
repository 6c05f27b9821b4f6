"""Every broken recording is read as a reference reader reads it, or refused in one line, within seconds and 1 GB."""

import shutil
import socket
import tracemalloc
import zipfile
import zlib
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import strategies as st

pytest.importorskip("resource", reason="processes cannot be limited on this system")

from possm_lite.spikes import RecordingError, load_recording

from .fuzz_runner import SECONDS, FuzzRunner, check_file, difference
from .malicious_files import MAT, NPZ, NWB, malicious_mat, malicious_npz, malicious_nwb
from .mutations import FIELD_CHANGES, GOOD, change_field, good_variables, mutated_bytes, write_good

MAX_MEGABYTES = 1000  # for a file of less than one
CRASHES = ("exit status -11", "exit status -6", "exit status -7", "exit status -8")  # SEGV, ABRT, BUS, FPE


@pytest.fixture(params=GOOD)
def suffix(request, tmp_path) -> str:
    if request.param == ".nwb":
        pytest.importorskip("pynwb")
    write_good(tmp_path, request.param)
    return request.param


@pytest.fixture(scope="module")
def runner():
    runner = FuzzRunner()
    yield runner
    runner.close()


@pytest.fixture
def check(runner, tmp_path, suffix):
    """`check(path, source, part)`: the file is read rightly or refused, soon; `check.outcomes` counts."""

    def check(path: Path, source: str, part: str):
        report = runner(path, source, part)
        if report["outcome"] == "died" and suffix != ".npz" and report["reason"] in CRASHES:
            # a crash of the parser must be a RecordingError, since users have it in another process
            report["outcome"], report["reason"] = check_file(path, source, part)
        assert report["outcome"] in ("read", "refused"), report["reason"]
        assert report["seconds"] < SECONDS and report["megabytes"] < MAX_MEGABYTES, report
        check.outcomes[report["outcome"]] += 1

    check.outcomes = Counter()
    return check


def test_mutated_bytes(for_all, check, suffix, tmp_path):
    contents, path = {source: (tmp_path / source).read_bytes() for source in GOOD[suffix]}, tmp_path / f"a{suffix}"

    @for_all(25 if suffix == ".nwb" else 60, 3000, st.sampled_from(GOOD[suffix]), st.data())
    def check_mutation(source, data):
        path.write_bytes(data.draw(mutated_bytes(contents[source])))
        check(path, source, "bytes")

    assert min(check.outcomes.values()) > 2 and len(check.outcomes) == 2


def test_changed_fields(check, suffix, rounds, tmp_path):
    rng, path = np.random.default_rng(rounds(0, 1)), tmp_path / f"changed{suffix}"
    for _ in range(rounds(1, 30)):
        for change in FIELD_CHANGES.values():
            source = str(rng.choice(GOOD[suffix]))
            change_field(rng, tmp_path / source, path, change)
            check(path, source, "field")
    assert min(check.outcomes["read"], check.outcomes["refused"]) > 8


def test_malicious_containers(check, suffix, rounds, tmp_path):
    rng, path = np.random.default_rng(rounds(0, 1)), tmp_path / f"malicious{suffix}"
    for _ in range(rounds(1 if suffix == ".nwb" else 4, 60)):
        for kind in {".npz": NPZ, ".mat": MAT, ".nwb": NWB}[suffix]:
            source = str(rng.choice(GOOD[suffix]))
            if suffix == ".mat":
                malicious_mat(rng, kind, good_variables(), path)
            else:
                (malicious_npz if suffix == ".npz" else malicious_nwb)(rng, kind, tmp_path / source, path)
            check(path, source, "container")
    assert check.outcomes["refused"] > 8


# Paths and file types


@pytest.fixture
def good(suffix, tmp_path) -> Path:
    return tmp_path / GOOD[suffix][0]


def refusal(path: Path) -> str:
    with pytest.raises(RecordingError) as caught:
        load_recording(path)
    assert str(caught.value).startswith(" ".join(str(path).split())) and "\n" not in str(caught.value)
    return str(caught.value)


def test_symbolic_links_are_followed(good):
    first, second = good.with_name(f"first{good.suffix}"), good.with_name(f"second{good.suffix}")
    first.symlink_to(good.name)
    second.symlink_to(first.name)
    expected, fields = load_recording(good), vars(load_recording(second))
    names = {"session_id": fields["session_id"]} if good.suffix == ".mat" else {}
    assert difference(replace(expected, **names), fields) is None


def test_paths_that_are_not_files_are_refused(good, monkeypatch):
    for name, target, reason in (
        ("nowhere", "missing", "No such file"),
        ("loop", f"loop{good.suffix}", "symbolic link"),
        ("up", "..", "is a folder"),
        ("zero", "/dev/zero", "is not a regular file"),
        ("null", "/dev/null", "is not a regular file"),
    ):
        path = good.with_name(name + good.suffix)
        path.symlink_to(target)
        assert reason in refusal(path)
    good.with_name("folder" + good.suffix).mkdir()
    assert "is a folder" in refusal(good.with_name("folder" + good.suffix))
    monkeypatch.chdir(good.parent)  # the name of a socket must be short
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(f"socket{good.suffix}")
        assert "is not a regular file" in refusal(Path(f"socket{good.suffix}"))


def test_empty_and_foreign_files_are_refused(good):
    foreign = good.with_name("foreign" + good.suffix)
    for content in (b"", bytes(10**6), b"cposix\nmkdir\n(S'unpickled'\ntR."):
        foreign.write_bytes(content)
        refusal(foreign)
    refusal(good.rename(good.with_suffix(next(suffix for suffix in GOOD if suffix != good.suffix))))


@pytest.mark.parametrize("stem", ["two\nlines", "-rf μs '; %s{0}", "a" * 300, "\udcff"])
def test_any_file_name_is_allowed(good, stem):
    path = good.with_name(stem + good.suffix)
    if len(stem) > 200:
        assert "File name too long" in refusal(path)
        return
    shutil.copy(good, path)
    if stem == "\udcff" and good.suffix == ".mat":  # it is the session_id, and not text
        assert "session_id" in refusal(path)
        return
    recording = load_recording(path)
    assert recording.n_units == (5 if good.suffix == ".mat" else 6)
    assert recording.session_id == (stem if good.suffix == ".mat" else "monday")


# Single cases


@pytest.mark.parametrize("name, value", [("spike_times", 1e300), ("behavior_clock", 1e300)])
def test_huge_times_are_reported_briefly(name, value, tmp_path):
    write_good(tmp_path, ".npz")
    with np.load(tmp_path / "clock.npz", allow_pickle=False) as file:
        arrays = dict(file)
    arrays[name][0] = value
    np.savez(tmp_path / "a.npz", **arrays)
    assert "1e+300 s" in refusal(tmp_path / "a.npz") and len(refusal(tmp_path / "a.npz")) < len(str(tmp_path)) + 250


@pytest.mark.parametrize("declared", [2**32 - 2**20, 2**20, 100])
def test_zip_bombs_are_refused_without_unpacking(declared, tmp_path):
    """4 GiB of zeros in a few megabytes; the zip directory declares their size truly or not."""
    compressor = zlib.compressobj(9, zlib.DEFLATED, -15)
    compressed = (compressor.compress(bytes(2**20)) + compressor.flush(zlib.Z_FULL_FLUSH)) * 2**12
    write_good(tmp_path, ".npz")
    path = tmp_path / "clock.npz"
    with zipfile.ZipFile(path, "a") as archive:
        info = zipfile.ZipInfo("truth_bomb.npy")
        info.compress_size, info.file_size, info.compress_type = len(compressed), declared, zipfile.ZIP_DEFLATED
        info.CRC, info.header_offset = 0, archive.start_dir
        archive.fp.seek(archive.start_dir)
        archive.fp.write(info.FileHeader() + compressed)
        archive.start_dir = archive.fp.tell()
        archive.filelist.append(info)
        archive._didModify = True
    tracemalloc.start()
    with pytest.raises(RecordingError):
        load_recording(path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 50 * 2**20
