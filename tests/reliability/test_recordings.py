"""Every broken recording is read as a reference reader reads it, or refused in one line, within seconds and 1 GB."""

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

from possm_lite.spikes import RecordingError, io, load_recording

from .fuzz_runner import SECONDS, FuzzRunner, check_file, difference, fault, read_in_process
from .mutations import (
    FIELD_CHANGES,
    GOOD,
    MAT,
    NWB,
    change_field,
    good_recording,
    malicious_mat,
    malicious_nwb,
    mutated_bytes,
    write_good,
)

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


@pytest.mark.parametrize("suffix", [".mat", ".nwb"], indirect=True)
def test_malicious_containers(check, suffix, rounds, tmp_path):
    rng, path = np.random.default_rng(rounds(0, 1)), tmp_path / f"malicious{suffix}"
    for _ in range(rounds(1 if suffix == ".nwb" else 4, 60)):
        for kind in MAT if suffix == ".mat" else NWB:
            source = str(rng.choice(GOOD[suffix]))
            if suffix == ".mat":
                malicious_mat(rng, kind, path)
            else:
                malicious_nwb(rng, kind, tmp_path / source, path)
            check(path, source, "container")
    assert check.outcomes["refused"] > 8


# The checks above


def test_wrong_recordings_and_refusals_are_reported(suffix, tmp_path, monkeypatch):
    monkeypatch.setattr(io, "read_in_subprocess", read_in_process)
    name = GOOD[suffix][-1]
    path = tmp_path / name
    good = io.load_recording(path)
    assert check_file(path, name, "bytes") == check_file(path, name, "field") == ("read", "")

    def refuse(path):
        raise RecordingError(f"{path}: two\nlines")

    changes = {
        "behavior": -good.behavior,
        "spike_units": good.spike_units[::-1],
        "spike_times": good.spike_times + 0.03,
    }
    readers = [lambda path, change=change: replace(good, **dict([change])) for change in changes.items()]
    for reader in (refuse, *readers):
        monkeypatch.setattr(io, "load_recording", reader)
        assert {check_file(path, name, part)[0] for part in ("bytes", "field", "container")} == {"wrong"}
    fields = vars(good_recording(True))
    faulty = {"spike_times": np.append(np.arange(89.0), np.inf), "trials": np.array([[0.5, 1.5], [1.0, 2.0]])}
    assert fault(fields) is None and all(fault(fields | dict([change])) for change in faulty.items())


@pytest.mark.parametrize(
    "statement, outcome, reason",
    [
        ("sum(iter(int, 1))", "died", "exit status -"),  # -24 from the limit of CPU time, -14 on a busy machine
        ("bytearray(8 * 2**30)", "error", "MemoryError"),
        ("os.mkdir('unpickled') or ('read', '')", "wrong", "code in the file was executed"),
    ],
)
def test_exceeded_limits_and_executed_code_are_reported(statement, outcome, reason, tmp_path):
    setup = "import os; fuzz_runner.SECONDS, fuzz_runner.MEMORY = 1, 2**30"
    runner = FuzzRunner(f"{setup}; fuzz_runner.check_file = lambda *_: {statement}")
    report = runner(tmp_path / "a.npz", "clock.npz", "bytes")
    runner.close()
    assert report["outcome"] == outcome and reason in report["reason"], report


# Paths and file types


def refusal(path: Path) -> str:
    with pytest.raises(RecordingError) as caught:
        load_recording(path)
    assert str(caught.value).startswith(" ".join(str(path).split())) and "\n" not in str(caught.value)
    return str(caught.value)


def test_links_and_odd_names_are_read(suffix, tmp_path, monkeypatch):
    good = tmp_path / GOOD[suffix][0]
    names = ("first", "-rf 'μs'; %s{0}\n" + ("" if suffix == ".mat" else "\udcff"))  # that of a MATLAB file is a text
    for target, name in zip((good.name, names[0] + suffix), names, strict=True):
        (tmp_path / (name + suffix)).symlink_to(target)
    recording = load_recording(tmp_path / (names[1] + suffix))
    monkeypatch.setattr(io, "read_in_subprocess", read_in_process)
    expected = load_recording(good)
    if suffix == ".mat":
        assert recording.session_id == names[1]
        expected = replace(expected, session_id=names[1])
    assert difference(recording, vars(expected)) is None


def test_paths_that_are_not_files_are_refused(suffix, tmp_path, monkeypatch):
    for name, target, reason in (
        ("nowhere", "missing", "No such file"),
        ("loop", f"loop{suffix}", "symbolic link"),
        ("up", "..", "is a folder"),
        ("zero", "/dev/zero", "is not a regular file"),
        ("null", "/dev/null", "is not a regular file"),
    ):
        path = tmp_path / (name + suffix)
        path.symlink_to(target)
        assert reason in refusal(path)
    assert "File name too long" in refusal(tmp_path / ("a" * 300 + suffix))
    monkeypatch.chdir(tmp_path)  # the name of a socket must be short
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(f"socket{suffix}")
        assert "is not a regular file" in refusal(Path(f"socket{suffix}"))


def test_empty_and_foreign_files_are_refused(suffix, tmp_path, monkeypatch):
    monkeypatch.setattr(io, "read_in_subprocess", read_in_process)
    foreign = tmp_path / f"foreign{suffix}"
    other = tmp_path / GOOD[suffix][0]
    for content in (b"", bytes(10**6), b"cposix\nmkdir\n(S'unpickled'\ntR."):
        foreign.write_bytes(content)
        refusal(foreign)
    refusal(other.rename(other.with_suffix(next(other for other in GOOD if other != suffix))))


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
    refusal(path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 50 * 2**20
