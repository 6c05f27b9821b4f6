"""The judge of broken recordings can find fault, and the files are broken as they say."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("resource", reason="a process cannot be given limits here")

from possm_lite.spikes import RecordingError, load_recording
from possm_lite.spikes import io as files

from .hostile import Payload
from .judge import difference, fault, judged, read_here, verdict
from .mutations import GOOD, Broken, break_file, good_recording, write_good


@pytest.mark.parametrize(
    "changes",
    [
        {"velocity": -good_recording(True).velocity},
        {"spike_units": good_recording(True).spike_units[::-1]},
        {"spike_times": good_recording(True).spike_times + 0.001},
        {"trials": good_recording(True).trials[:2]},
        {"behavior_times": np.nextafter(good_recording(True).behavior_times, 9)},
        {"spike_times": [], "spike_units": []},
    ],
    ids=lambda changes: next(iter(changes)),
)
@pytest.mark.parametrize("suffix", GOOD)
def test_the_judge_sees_a_recording_that_was_read_wrongly(suffix, changes, write_all, tmp_path, monkeypatch):
    write_all(suffix)
    name = GOOD[suffix][0]
    path = (tmp_path / name).rename(tmp_path / f"a{suffix}")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(files, "read_in_subprocess", read_here)
    good = load_recording(path)
    assert verdict(path, Broken(name, "bytes", "")) == verdict(path, Broken(name, "field", "")) == ("read", "")
    if suffix == ".mat":  # it has another shape and no trials
        changes = {"velocity": -good.velocity, "behavior_times": good.behavior_times + 0.01} | {"notes": ()}
    monkeypatch.setattr(files, "load_recording", lambda path: replace(good, **changes))
    for part in ("bytes", "field", "container"):
        assert verdict(path, Broken(name, part, ""))[0] == "wrong"


@pytest.mark.parametrize("says", ["no file in front", "{path}: two\nlines", "{path}: " + "long" * 200, "{path}: why?"])
def test_the_judge_sees_a_refusal_that_is_none(says, tmp_path, monkeypatch):
    def refuse(path):
        raise RecordingError(says.replace("{path}", str(path)))

    write_good(tmp_path, ".npz")
    monkeypatch.setattr(files, "load_recording", refuse)
    assert verdict(tmp_path / "clock.npz", Broken("clock.npz", "field", "nothing"))[0] == "wrong"


FAULTS = {
    "spike_times is not finite": {"spike_times": np.append(np.arange(89.0), np.inf)},
    "spike_units holds float64": {"spike_units": np.zeros(90)},
    "trials has shape (3, 3)": {"trials": np.zeros((3, 3))},
    "spikes without units": {"spike_times": np.arange(91.0)},
    "spikes out of order": {"spike_times": np.arange(90.0)[::-1]},
    "a unit that is not there": {"spike_units": np.full(90, 6)},
    "units of one name": {"unit_ids": np.array(list("aabcdef"))},
    "times without velocity": {"velocity": np.zeros((3, 2))},
    "times out of order": {"behavior_times": np.zeros(250)},
    "a trial backwards": {"trials": np.array([[1.0, 0.5]])},
    "trials that overlap": {"trials": np.array([[0.5, 1.5], [1.0, 2.0]])},
}


@pytest.mark.parametrize("what, changes", FAULTS.items(), ids=FAULTS.keys())
def test_the_judge_knows_every_fault(what, changes):
    good = vars(good_recording(True))
    assert fault(good) is None and difference(good_recording(True), good) is None
    assert fault(good | changes) == what


@pytest.mark.parametrize(
    "does, outcome, says",
    [
        ("os.abort()", "died", "exit status -6"),
        ("sum(iter(int, 1))", "died", "exit status -"),  # -24 at the limit of time, -14 where it has to share it
        ("signal.pause()", "died", "exit status -14"),
        ("bytearray(8 * 2**30)", "error", "MemoryError"),
        ("{}['a fault of ours']", "error", "KeyError"),
        ("os.mkdir('unpickled') or ('read', '')", "wrong", "code in the file was run"),
    ],
)
def test_the_judge_sees_crashes_endless_readers_and_memory(does, outcome, says, tmp_path):
    write_good(tmp_path, ".npz")
    before = f"import os, signal; judge.SECONDS, judge.MEMORY, judge.verdict = 1, 2**30, lambda *_: {does}"
    (report,) = judged(".npz", 0, 1, 0, tmp_path, before)
    assert report["outcome"] == outcome and says in report["says"], report


def test_the_payload_would_leave_its_mark(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("a.npy", np.array([Payload()], dtype=object), allow_pickle=True)
    np.load("a.npy", allow_pickle=True)
    assert (tmp_path / "unpickled").is_dir()


@pytest.mark.parametrize("suffix", GOOD)
def test_the_same_number_breaks_the_same_way(suffix, write_all, tmp_path):
    write_all(suffix)
    parts = Counter()
    for number in range(6):
        one, other = (tmp_path / f"{name}{suffix}" for name in "ab")
        assert (broken := break_file(suffix, number, 3, tmp_path, one)) == break_file(
            suffix, number, 3, tmp_path, other
        )
        parts[broken.part] += 1
        if suffix == ".npz":  # the others have the date in them
            assert one.read_bytes() == other.read_bytes()
    assert parts == {"bytes": 2, "field": 2, "container": 2}
