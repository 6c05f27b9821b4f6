"""The fuzz runner reports wrong recordings, bad refusals, crashes, endless reading, memory and executed code."""

from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("resource", reason="processes cannot be limited on this system")

from possm_lite.spikes import RecordingError, io, load_recording

from .fuzz_runner import FuzzRunner, check_file, difference, fault, read_in_process
from .malicious_files import Payload
from .mutations import GOOD, good_recording, write_good


@pytest.mark.parametrize("name", [name for names in GOOD.values() for name in names])
def test_a_recording_read_wrongly_is_reported(name, tmp_path, monkeypatch):
    if name.endswith(".nwb"):
        pytest.importorskip("pynwb")
    path = tmp_path / name
    write_good(tmp_path, path.suffix)
    monkeypatch.setattr(io, "read_in_subprocess", read_in_process)
    good = load_recording(path)
    assert check_file(path, name, "bytes") == check_file(path, name, "field") == ("read", "")
    changes = [
        {"velocity": -good.velocity},
        {"spike_units": good.spike_units[::-1]},
        {"spike_times": good.spike_times + 0.03},
        {"spike_times": [], "spike_units": []},
        {"behavior_times": good.behavior_times + (0.01 if path.suffix == ".mat" else 1e-15)},
    ]
    if path.suffix != ".mat":  # it has no trials
        changes.append({"trials": good.trials[:2]})
    for change in changes:
        monkeypatch.setattr(io, "load_recording", lambda path, change=change: replace(good, **change))
        for part in ("bytes", "field", "container"):
            assert check_file(path, name, part)[0] == "wrong", (change, part)


@pytest.mark.parametrize("message", ["no file", "{path}: two\nlines", "{path}: " + "long" * 200, "{path}: needless"])
def test_a_bad_refusal_is_reported(message, tmp_path, monkeypatch):
    def refuse(path):
        raise RecordingError(message.replace("{path}", str(path)))

    write_good(tmp_path, ".npz")
    monkeypatch.setattr(io, "load_recording", refuse)
    assert check_file(tmp_path / "clock.npz", "clock.npz", "field")[0] == "wrong"


FAULTS = {
    "spike_times is not finite": {"spike_times": np.append(np.arange(89.0), np.inf)},
    "spike_units holds float64": {"spike_units": np.zeros(90)},
    "trials has shape (3, 3)": {"trials": np.zeros((3, 3))},
    "number of spike_units": {"spike_times": np.arange(91.0)},
    "unsorted spike_times": {"spike_times": np.arange(90.0)[::-1]},
    "unknown unit": {"spike_units": np.full(90, 6)},
    "unit_ids": {"unit_ids": np.array(list("aabcdef"))},
    "number of behavior_times": {"velocity": np.zeros((3, 2))},
    "unsorted behavior_times": {"behavior_times": np.zeros(250)},
    "reversed trial": {"trials": np.array([[1.0, 0.5]])},
    "overlapping trials": {"trials": np.array([[0.5, 1.5], [1.0, 2.0]])},
}


@pytest.mark.parametrize("name, changes", FAULTS.items(), ids=FAULTS.keys())
def test_every_fault_is_found(name, changes):
    good = vars(good_recording(True))
    assert fault(good) is None and difference(good_recording(True), good) is None
    assert fault(good | changes) == name


@pytest.mark.parametrize(
    "statement, outcome, reason",
    [
        ("os.abort()", "died", "exit status -6"),
        ("sum(iter(int, 1))", "died", "exit status -"),  # -24 from the limit of CPU time, -14 on a busy machine
        ("signal.pause()", "died", "exit status -14"),
        ("bytearray(8 * 2**30)", "error", "MemoryError"),
        ("{}['key']", "error", "KeyError"),
        ("os.mkdir('unpickled') or ('read', '')", "wrong", "code in the file was executed"),
    ],
)
def test_crashes_and_exceeded_limits_are_reported(statement, outcome, reason, tmp_path):
    setup = "import os, signal; fuzz_runner.SECONDS, fuzz_runner.MEMORY = 1, 2**30"
    runner = FuzzRunner(f"{setup}; fuzz_runner.check_file = lambda *_: {statement}")
    report = runner(tmp_path / "a.npz", "clock.npz", "bytes")
    runner.close()
    assert report["outcome"] == outcome and reason in report["reason"], report


def test_unpickling_the_payload_leaves_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("a.npy", np.array([Payload()], dtype=object), allow_pickle=True)
    np.load("a.npy", allow_pickle=True)
    assert (tmp_path / "unpickled").is_dir()
