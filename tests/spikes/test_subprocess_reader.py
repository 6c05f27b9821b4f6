"""MATLAB and NWB files are read in another process: its crash or timeout is a RecordingError."""

import numpy as np
import pytest

from possm_lite.errors import RecordingError
from possm_lite.spikes import load_recording
from possm_lite.spikes.io import subprocess_reader
from tests.reliability.mutations import MAT, write_good


def test_the_selection_reaches_the_other_process(tmp_path):
    pytest.importorskip("pynwb")
    write_good(tmp_path, "nwb")
    with pytest.raises(RecordingError, match=r"times\.nwb: behavior='foot_vel' is not among"):
        load_recording(tmp_path / "times.nwb", behavior="foot_vel")
    recording = load_recording(tmp_path / "times.nwb", None, ["1"], "id in [2, 4]", "start > 1", False)
    assert recording.unit_ids.tolist() == ["2", "4"] and recording.behavior.shape[1] == 1 and len(recording.trials) == 2
    assert load_recording(tmp_path / "times.nwb", spikes_only=True).behavior_times.size == 0


def test_files_that_crash_scipy_are_refused(tmp_path):
    """False types of the data crash SciPy 1.17 with a segmentation fault; other versions refuse or read them."""
    messages = []
    for seed in (1, 2):
        MAT.malicious["kind"](np.random.default_rng(seed), tmp_path / "a.mat")
        try:
            load_recording(tmp_path / "a.mat")
        except RecordingError as exc:
            messages.append(str(exc))
    assert messages and all(text.startswith(f"{tmp_path / 'a.mat'}: ") and "\n" not in text for text in messages)


@pytest.mark.parametrize(
    "program, error, message",
    [
        ("import os; os.abort()", RecordingError, "its reader crashed on it, with exit status"),
        ("import time; time.sleep(60)", RecordingError, "did not finish in 1 s"),
        ("raise TypeError('our error')", RuntimeError, "our error"),
    ],
)
def test_crashes_and_timeouts_are_recording_errors(tmp_path, monkeypatch, program, error, message):
    write_good(tmp_path, "mat")
    monkeypatch.setattr(subprocess_reader, "_PROGRAM", program)
    monkeypatch.setattr(subprocess_reader, "_MAX_SECONDS", 1)
    with pytest.raises(error, match=message):
        load_recording(tmp_path / "plain.mat")
