"""Recording: valid ones are accepted, invalid ones refused by field, index and value."""

import re

import numpy as np
import pytest

from possm_lite.errors import RecordingError
from possm_lite.spikes.recording import Recording, check_order, covered_trials, is_number


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
    wide = Recording(**fields(behavior=np.zeros((1000, 4)), unit_ids=["07", "7"]))
    assert wide.behavior_columns.tolist() == ["0", "1", "2", "3"] and [*map(is_number, wide.unit_ids)] == [False, True]


def changed(name, index, value):
    """A field of the good recording with one other value."""
    array = fields()[name].copy()
    array[index] = value
    return {name: array}


BAD = {
    "a NaN time": ({"spike_times": [0.5, np.nan, 2.0, 3.0]}, "spike_times[1] = nan"),
    "an infinite time": (changed("behavior_times", 999, np.inf), "behavior_times[999] = inf"),
    "a NaN velocity": (changed("behavior", (417, 1), np.nan), "behavior[417, 1] = nan"),
    "a masked velocity": ({"behavior": np.ma.masked_less(np.arange(1000.0), 7)}, "behavior[0, 0] = nan"),
    "unsorted spikes": ({"spike_times": [0.5, 1.25, 1.0, 7.0]}, "[2] = 1.000000 s comes after 1.250000 s"),
    "unsorted behavior": (changed("behavior_times", 5, 0.01), "behavior_times[5] = 0.010000 s comes after"),
    "a clock that restarts": ({"behavior_times": np.arange(1000) % 500 / 50}, "The clock restarts: save"),
    "two samples at one time": (changed("behavior_times", 5, 0.04), "behavior_times[5] = 0.040000 s"),
    "a unit out of range": ({"spike_units": [0, 1, 2, 1]}, "must lie in 0..1: spike_units[2] = 2"),
    "a unit below 0": ({"spike_units": [0, -1, 0, 1]}, "spike_units[1] = -1"),
    "units that are floats": ({"spike_units": [0.0, 1.0, 0.0, 1.0]}, "spike_units must hold whole numbers"),
    "times that are text": ({"spike_times": ["1", "2", "3", "4"]}, "spike_times must hold numbers"),
    "times that are complex": ({"spike_times": np.zeros(4, complex)}, "spike_times must hold numbers"),
    "fewer units than spikes": ({"spike_units": [0, 1]}, "2 against 4 spike_times"),
    "a name twice": ({"unit_ids": ["a", "a"]}, "'a' occurs 2 times"),
    "one sample of behavior": (
        {"behavior_times": [1.0], "behavior": [[0.0, 0.0]]},
        "behavior_times needs at least two",
    ),
    "velocity in three dimensions": ({"behavior": np.zeros((1000, 2, 2))}, "(n, columns), not (1000, 2, 2)"),
    "velocity shorter than its times": ({"behavior": np.zeros((999, 2))}, "999 against 1000 behavior_times"),
    "three names for two columns": ({"behavior_columns": ["x", "y", "z"]}, "behavior_columns must be as many"),
    "times in two dimensions": ({"spike_times": np.zeros((2, 2))}, "spike_times must have shape (n,)"),
    "starts of trials alone": ({"trials": [1.0, 2.0]}, "trials must have shape (n, 2)"),
    "a trial backwards": ({"trials": [[2.0, 1.0]]}, "trials[0] is 2.000000 s to 1.000000 s"),
    "trials that overlap": ({"trials": [[1.0, 2.0], [1.9, 3.0]]}, "not overlap: trials[0] is 1.000000 s to 2.000000 s"),
    "a trial before behavior": ({"trials": [[-5.0, -4.0]]}, "behaviour has 0 samples there."),
    "a trial longer than behavior": ({"trials": [[1.0, 2.0], [9.0, 11.0]]}, "trials[1] is 9.000000 s to 11.000000 s"),
    "no unit of velocity": ({"behavior_unit": ""}, "behavior_unit must be a non-empty text"),
    "a session without a name": ({"session_id": None}, "session_id must be a non-empty text"),
}


@pytest.mark.parametrize("changes, message", BAD.values(), ids=BAD.keys())
def test_invalid_recording_is_refused_by_field_and_value(changes, message):
    with pytest.raises(RecordingError, match=re.escape(message)) as caught:
        Recording(**fields(**changes))
    assert "\n" not in str(caught.value)


def test_many_steps_back_are_no_restart():
    times = np.arange(1000.0)
    with pytest.raises(RecordingError, match=r"times\[500\] .* The clock restarts"):
        check_order("times", np.r_[times[:500], times[:500]], strict=False)
    with pytest.raises(RecordingError, match=r"times\[500\] .* Sort them together"):
        check_order("times", np.r_[times[:500], 0.5, times[500:]], strict=False)  # one sample alone is late
    with pytest.raises(RecordingError, match="Sort them together"):
        check_order("times", times[::-1], strict=False)


def test_covered_trials_allows_two_samples_at_either_end():
    times = np.arange(100) / 100 + 10.0
    trials = np.array([[9.985, 10.5], [9.97, 10.5], [10.5, 11.005], [10.5, 11.02], [3.0, 4.0], [20.0, 21.0]])
    assert covered_trials(trials, times).tolist() == [True, False, True, False, False, False]
    assert covered_trials(np.empty((0, 2)), times).tolist() == []
    assert covered_trials(np.array([[0.0, 2.0]]), np.append(0.0, times)).tolist() == [False]
    starts = np.random.default_rng(0).uniform(0, 100, 100)  # exactly two samples, but for rounding
    assert all(covered_trials(np.array([[x, x + 1]]), x + 0.01 * np.arange(2, 200)).all() for x in starts)
