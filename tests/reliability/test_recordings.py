"""Every broken recording is read as a reference reader reads it, or refused in one line, within seconds and 1 GB."""

import shutil
import socket
import time
import tracemalloc
import zipfile
import zlib
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("resource", reason="processes cannot be limited on this system")

from possm_lite.spikes import RecordingError, io, load_recording
from possm_lite.spikes.io import subprocess_reader

from .fuzz_runner import SECONDS, FuzzRunner, check_file, fault, read_in_process
from .mutations import FORMATS, cases, good_recording, mutate, write_good

MAX_MEGABYTES = 1000  # for a file of less than one
CRASHES = tuple(f"exit status -{signal}" for signal in (11, 6, 7, 8, 9, 24))  # SEGV, ABRT, BUS, FPE, KILL, XCPU
FILES = tuple(name for name, layout in FORMATS.items() if "." in layout.names[0])  # not folders


@pytest.fixture(scope="module", params=FORMATS)
def name(request) -> str:
    if request.param not in ("npz", "mat"):
        pytest.importorskip("pynwb")  # with it come h5py and pandas
    return request.param


@pytest.fixture
def good(name, tmp_path) -> Path:
    """A folder with the intact files of one format."""
    write_good(tmp_path, name)
    return tmp_path


@pytest.fixture(scope="module")
def runner():
    runner = FuzzRunner()
    yield runner
    runner.close()


def test_broken_recordings_are_read_rightly_or_refused(name, good, runner, rounds, record, monkeypatch):
    monkeypatch.setattr(subprocess_reader, "_MAX_SECONDS", SECONDS)
    seed = rounds(0, int(time.time()))
    rng, outcomes, layout = np.random.default_rng(seed), Counter(), FORMATS[name]
    for i, (part, kind) in enumerate(cases(name, rounds(1, 10))):
        source = good / layout.names[rng.integers(len(layout.names))]
        options = ({}, layout.selections[rng.integers(len(layout.selections))])[rng.integers(2)]
        path = good / "broken" / source.name
        path.parent.mkdir()
        (shutil.copytree if source.is_dir() else shutil.copy)(source, path)
        mutate(rng, name, path, part, kind)
        report = runner(name, path, part, options)
        if report["outcome"] == "died" and name != "npz" and report["reason"] in CRASHES:
            # a crash or an endless loop of the parser is a refusal, since users have it in another process
            report |= {"outcome": "refused" if refusal(path, **options) else "", "seconds": 0}
        case = f"seed {seed}, case {i}: {part}, {kind} of {source.name} with {options}: {report}"
        assert report["outcome"] in ("read", "refused"), case
        assert report["seconds"] < SECONDS and report["megabytes"] < MAX_MEGABYTES, case
        outcomes[part, report["outcome"]] += 1
        shutil.rmtree(path.parent)
    for part in ("bytes", "field"):
        assert min(outcomes[part, "read"], outcomes[part, "refused"]) > 2, outcomes
    n_read = sum(n for (_, outcome), n in outcomes.items() if outcome == "read")
    n_refused = outcomes.total() - n_read
    record(
        f"broken recordings, {name}",
        f"{outcomes.total():,}: {n_read:,} read as a second reader reads them, {n_refused:,} refused in one line",
    )


def test_number_of_broken_recordings(rounds):
    assert sum(1 for name in FORMATS for _ in cases(name, rounds(1, 10))) > rounds(1000, 10_000)


# The checks above


def test_wrong_recordings_and_refusals_are_reported(name, good, monkeypatch):
    monkeypatch.setattr(io, "read_in_subprocess", read_in_process)
    path, parts = good / FORMATS[name].names[-1], ("bytes", "field", "container")
    recording = io.load_recording(path)
    for options in ({}, *FORMATS[name].selections):
        assert {check_file(name, path, part, options) for part in parts} == {("read", "")}

    def refuse(path):
        raise RecordingError(f"{path}: two\nlines")

    changes = {
        "behavior": -recording.behavior,
        "spike_units": recording.spike_units[::-1],
        "spike_times": recording.spike_times + 0.03,
    }
    readers = [lambda path, change=change: replace(recording, **dict([change])) for change in changes.items()]
    for reader in (refuse, *readers):
        monkeypatch.setattr(io, "load_recording", reader)
        assert {check_file(name, path, part, {})[0] for part in parts} == {"wrong"}


def test_faults_are_found():
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
    report = runner("npz", tmp_path / "a.npz", "bytes", {})
    runner.close()
    assert report["outcome"] == outcome and reason in report["reason"], report


# Paths and file types


def refusal(path: Path, **options) -> str:
    with pytest.raises(RecordingError) as caught:
        load_recording(path, **options)
    assert str(caught.value).startswith(" ".join(str(path).split())) and "\n" not in str(caught.value)
    return str(caught.value)


def test_links_and_odd_names_are_read(name, good, monkeypatch):
    path = good / FORMATS[name].names[0]
    odd = "-rf 'μs'; %s{0}\n" + ("" if name in ("mat", "indy") else "\udcff")  # it names the session: a text
    links = [good / f"{stem}{path.suffix}" for stem in ("first", odd)]
    for target, link in zip((path.name, links[0].name), links, strict=True):
        link.symlink_to(target)
    recording = load_recording(links[1])
    monkeypatch.setattr(io, "read_in_subprocess", read_in_process)
    expected = load_recording(path)
    assert recording.session_id == (odd if name in ("mat", "indy") else expected.session_id)
    for field in ("spike_times", "spike_units", "unit_ids", "behavior_times", "behavior", "trials"):
        np.testing.assert_array_equal(getattr(recording, field), getattr(expected, field))


@pytest.mark.parametrize("name", FILES, indirect=True)
def test_paths_that_are_not_files_are_refused(name, tmp_path, monkeypatch):
    suffix = Path(FORMATS[name].names[0]).suffix
    for stem, target, reason in (
        ("nowhere", "missing", "No such file"),
        ("loop", f"loop{suffix}", "symbolic link"),
        ("up", "..", "is a folder"),
        ("zero", "/dev/zero", "is not a regular file"),
        ("null", "/dev/null", "is not a regular file"),
    ):
        path = tmp_path / (stem + suffix)
        path.symlink_to(target)
        assert reason in refusal(path)
    assert "File name too long" in refusal(tmp_path / ("a" * 300 + suffix))
    monkeypatch.chdir(tmp_path)  # the name of a socket must be short
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(f"socket{suffix}")
        assert "is not a regular file" in refusal(Path(f"socket{suffix}"))


@pytest.mark.parametrize("name", FILES, indirect=True)
def test_empty_and_foreign_files_are_refused(name, good, monkeypatch):
    monkeypatch.setattr(io, "read_in_subprocess", read_in_process)
    other = good / FORMATS[name].names[0]
    foreign = good / f"foreign{other.suffix}"
    for content in (b"", bytes(10**6), b"cposix\nmkdir\n(S'unpickled'\ntR."):
        foreign.write_bytes(content)
        refusal(foreign)
    refusal(other.rename(other.with_suffix(".nwb" if other.suffix != ".nwb" else ".h5")))


@pytest.mark.parametrize("declared", [2**32 - 2**20, 2**20, 100])
def test_zip_bombs_are_refused_without_unpacking(declared, tmp_path):
    """4 GiB of zeros in a few megabytes; the zip directory declares their size truly or not."""
    compressor = zlib.compressobj(9, zlib.DEFLATED, -15)
    compressed = (compressor.compress(bytes(2**20)) + compressor.flush(zlib.Z_FULL_FLUSH)) * 2**12
    write_good(tmp_path, "npz")
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
