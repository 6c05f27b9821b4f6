"""MATLAB and NWB files are read in another process: same result, and its crash is a RecordingError."""

import numpy as np
import pytest

from possm_lite.errors import RecordingError
from possm_lite.spikes import load_recording
from possm_lite.spikes.io import subprocess_reader
from possm_lite.spikes.io.subprocess_reader import read_in_process
from tests.reliability.malicious_files import malicious_mat
from tests.reliability.mutations import good_variables, write_good


def assert_equal(recording, expected):
    for name, value in vars(expected).items():
        np.testing.assert_array_equal(getattr(recording, name), value, err_msg=name)


@pytest.mark.parametrize("name", ["compressed.mat", "times.nwb"])
def test_the_result_equals_reading_in_process(tmp_path, name):
    if name.endswith(".nwb"):
        pytest.importorskip("pynwb")
    write_good(tmp_path, (tmp_path / name).suffix)
    assert_equal(load_recording(tmp_path / name), read_in_process(tmp_path / name, None))


def test_files_that_crash_scipy_are_refused(tmp_path):
    """False types of the data crash SciPy 1.17 with a segmentation fault; other versions refuse or read them."""
    messages = []
    for seed in (1, 2):
        malicious_mat(np.random.default_rng(seed), "kind", good_variables(), tmp_path / "a.mat")
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
    write_good(tmp_path, ".mat")
    monkeypatch.setattr(subprocess_reader, "_PROGRAM", program)
    monkeypatch.setattr(subprocess_reader, "_MAX_SECONDS", 1)
    with pytest.raises(error, match=message):
        load_recording(tmp_path / "plain.mat")
