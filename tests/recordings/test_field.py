"""What happened to people, from public reports: read rightly, or refused in one line that helps."""

import re

import numpy as np
import pytest

from possm_lite.recordings import RecordingError, load_recording
from possm_lite.recordings.data_report import data_report

pytest.importorskip("h5py")
pytest.importorskip("pynwb")

from .field import CASES


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_field_case(case, tmp_path, small_recording):
    path = case.write(small_recording, tmp_path)
    if case.expected is None:
        with pytest.raises(RecordingError) as refused:
            load_recording(path, **case.options)
        lines = [str(refused.value)]
        assert "\n" not in lines[0]
    else:
        recording = load_recording(path, **case.options)
        lines = [*recording.notes, *data_report(recording)]
        assert_same(recording, case.expected(small_recording))
    assert not case.says or any(re.search(case.says, line) for line in lines), lines
    assert not [line for line in lines if re.search(case.silent, line)]


def assert_same(recording, expected):
    """The same spikes of the same units, in order, and the same behaviour."""
    assert recording.n_units == expected.n_units
    np.testing.assert_allclose(recording.spike_times, expected.spike_times, rtol=0, atol=1e-4)  # of samples at 30 kHz
    np.testing.assert_array_equal(recording.spike_units, expected.spike_units)
    assert recording.behavior_times is None or len(recording.behavior_times) == len(expected.behavior_times)
    if len(recording.behavior):
        error = np.sqrt(np.mean((recording.behavior - expected.behavior) ** 2))
        assert error < 0.05 * expected.behavior.std()  # of a derivative
