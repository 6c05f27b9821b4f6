"""Recording: valid ones are accepted, invalid ones refused by field, index and value."""

import re

import numpy as np
import pytest

from possm_lite.errors import RecordingError
from possm_lite.recordings.recording import Recording, check_order, covered_trials


def fields(**changes) -> dict:
    """A good recording of two units and ten seconds at 100 Hz, with `changes`."""
    good = {
        "spike_times": np.array([0.5, 1.25, 1.25, 7.0]),
        "spike_units": np.array([0, 1, 0, 1]),
        "unit_ids": ["left", "right"],
        "behavior_times": np.arange(1000) / 100,
        "behavior": np.zeros((1000, 2)),
        "behavior_unit": "mm/s",
        "trials": [[1.0, 2.0], [2.0, 4.5]],
        "session_id": "monday",
    }
    return good | changes


def test_a_valid_recording_copies_its_arrays():
    times = np.array([0.5, 1.25, 1.25, 7.0])
    recording = Recording(**fields(spike_times=times, notes=["spread evenly"]))
    times[0] = 99.0
    assert recording.spike_times.tolist() == [0.5, 1.25, 1.25, 7.0]
    assert recording.spike_units.dtype == np.int64 and recording.behavior_columns.tolist() == ["x", "y"]
    assert recording.notes == ("spread evenly",) and recording.n_units == 2
    with pytest.raises(ValueError):
        recording.spike_times[0] = 0.0


def test_span_is_of_trials_or_behaviour_or_spikes():
    assert Recording(**fields()).span == (1.0, 4.5)
    recording = Recording(**fields(spike_times=[], spike_units=[], trials=[]))
    assert recording.spike_times.shape == (0,) and recording.n_units == 2
    assert recording.span == pytest.approx((0.0, 10.0)) and recording.sample_interval == pytest.approx(0.01)
    alone = Recording(**fields(behavior_times=[], behavior=[], trials=[]))
    assert alone.span == (0.5, 7.0) and np.isnan(alone.sample_interval)


def test_numbers_of_other_types_are_converted():
    recording = Recording(**fields(spike_times=np.array([1, 2, 3, 4]), unit_ids=[7, 9], trials=np.float32([[1, 2]])))
    assert recording.spike_times.dtype == np.float64 and recording.unit_ids.tolist() == ["7", "9"]
    assert recording.trials.dtype == np.float64
    wide = Recording(**fields(behavior=np.zeros((1000, 4))))
    assert wide.behavior_columns.tolist() == ["0", "1", "2", "3"]


def changed(name, index, value):
    """A field of the good recording with one other value."""
    array = fields()[name].copy()
    array[index] = value
    return {name: array}


BAD = [  # other fields, and what the message names
    ({"spike_times": [0.5, np.nan, 2.0, 3.0]}, "spike_times[1] = nan"),
    (changed("behavior", (417, 1), np.nan), "behavior[417, 1] = nan"),
    ({"behavior": np.ma.masked_less(np.arange(1000.0), 7)}, "behavior[0, 0] = nan"),
    ({"spike_times": [0.5, 1.25, 1.0, 7.0]}, "spike_times[2] = 1 s comes after 1.25 s"),
    (changed("behavior_times", 5, 0.04), "behavior_times[5] = 0.04 s"),
    ({"spike_units": [0, 1, 2, 1]}, "spike_units[2] = 2"),
    ({"spike_units": [0, -1, 0, 1]}, "spike_units[1] = -1"),
    ({"spike_units": [0.0, 1.0, 0.0, 1.0]}, "spike_units"),
    ({"spike_units": [0, 1]}, "spike_units has 2 values, spike_times 4 times"),
    ({"unit_ids": ["a", "a"]}, "unit_ids[1] = a"),
    ({"behavior_times": [1.0], "behavior": [[0.0, 0.0]]}, "behavior_times needs at least two"),
    ({"behavior_times": [], "behavior": [], "spike_times": [], "spike_units": [], "trials": []}, "behavior_times"),
    ({"behavior": np.zeros((1000, 2, 2))}, "a column for each signal, not 1,000 x 2 x 2"),
    ({"behavior": np.zeros((999, 2))}, "behavior has 999 samples, behavior_times 1,000 times: one of them was cut"),
    ({"behavior_columns": ["x", "y", "z"]}, "behavior_columns"),
    ({"spike_times": np.zeros((2, 2))}, "spike_times must have shape (n,)"),
    ({"trials": np.ones((2, 12))}, "trials is lying on its side, 2 x 12: save its transpose"),
    ({"behavior": np.full((1000, 2), "left")}, "behavior holds text: save numbers."),
    ({"spike_units": [1, 2, 1, 2]}, "spike_units look counted from 1 (1 to 2): subtract 1."),
    ({"trials": [1.0, 2.0]}, "trials must have shape (n, 2)"),
    ({"trials": [[0.5, 1.0], [2.0, 2.0]]}, "trials[1] = [2. 2.]"),
    ({"trials": [[1.0, 2.0], [1.9, 3.0]]}, "not overlap: trials[1] = [1.9 3. ]"),
    ({"trials": [[1.0, 2.0], [9.0, 11.0]]}, "covered by behavior_times: trials[1] = [ 9. 11.]"),
]


@pytest.mark.parametrize("changes, message", BAD, ids=[message for _, message in BAD])
def test_invalid_recording_is_refused_by_field_and_value(changes, message):
    with pytest.raises(RecordingError, match=re.escape(message)):
        Recording(**fields(**changes))


def test_one_step_back_is_a_restart():
    times = np.arange(1000.0)
    with pytest.raises(RecordingError, match="the clock of times restarts once, after 499.0 s"):
        check_order("times", np.r_[times[:500], times[:500]], strict=False)
    for unsorted in (np.r_[times[:500], 0.5, times[500:]], times[::-1]):  # one sample alone is late, and all
        with pytest.raises(RecordingError, match="Sort them together"):
            check_order("times", unsorted, strict=False)


def test_covered_trials_allows_two_samples_at_either_end():
    times = np.arange(100) / 100 + 10.0
    trials = np.array([[9.985, 10.5], [9.97, 10.5], [10.5, 11.005], [10.5, 11.02], [3.0, 4.0], [20.0, 21.0]])
    assert covered_trials(trials, times).tolist() == [True, False, True, False, False, False]
    assert covered_trials(np.empty((0, 2)), times).tolist() == []
    assert covered_trials(np.array([[0.0, 2.0]]), np.append(0.0, times)).tolist() == [False]
    starts = np.random.default_rng(0).uniform(0, 100, 100)  # exactly two samples, but for rounding
    assert all(covered_trials(np.array([[x, x + 1]]), x + 0.01 * np.arange(2, 200)).all() for x in starts)


def test_times_in_ms_are_named_before_the_trials_that_they_do_not_cover():
    given = {"spike_times": np.arange(0, 100, 0.05), "spike_units": np.zeros(2000, int), "unit_ids": ["a"]}
    given |= {"behavior": np.zeros((5000, 2)), "trials": np.array([[1.0, 3.0], [4.0, 6.0]])}
    samples = np.arange(0, 100, 0.02)
    assert Recording(**given, behavior_times=samples).n_units == 1
    with pytest.raises(RecordingError, match="behavior_times look like milliseconds"):
        Recording(**given, behavior_times=1000 * samples)
    with pytest.raises(RecordingError, match="trials must be covered"):
        Recording(**given, behavior_times=2 + samples)


def test_a_recording_is_printed_in_a_line():
    given = {"spike_times": [0.5, 1.5], "spike_units": [0, 0], "unit_ids": ["a"], "session_id": "monday"}
    counted = "units: 1, spikes: 2, trials: 0, 0.5 to 1.5 s, spikes alone"
    assert repr(Recording(**given)) == f"<Recording 'monday', {counted}>"
    given |= {"behavior_times": np.arange(4.0), "behavior": np.zeros((4, 2)), "behavior_unit": "mm/s"}
    assert repr(Recording(**given)).endswith("0.0 to 4.0 s, velocity in mm/s, columns: 2>")
