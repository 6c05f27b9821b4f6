"""Recordings made of spike trains, counts and positions."""

import numpy as np
import pytest

from possm_lite.errors import RecordingError
from possm_lite.recordings import Recording

from .layouts import Quantity

TIMES = np.arange(400) / 100
BEHAVIOR = np.column_stack((np.sin(TIMES), np.cos(TIMES)))
TRAINS = {"e1": [1.5, 0.5], 7: np.array([[1.0], [1.5], [2.5]]), "silent": []}


def test_trains_are_merged_in_order_of_time():
    recording = Recording.from_trains(TRAINS, TIMES, BEHAVIOR, trials=[(0, 2), (2, 3)], behavior_unit="cm/s")
    assert recording.spike_times.tolist() == [0.5, 1.0, 1.5, 1.5, 2.5]
    assert recording.spike_units.tolist() == [0, 1, 0, 1, 1]
    assert recording.unit_ids.tolist() == ["e1", "7", "silent"]
    assert (recording.behavior_unit, recording.session_id, len(recording.trials)) == ("cm/s", "recording", 2)
    np.testing.assert_array_equal(recording.behavior, BEHAVIOR)


def test_list_of_trains_numbers_the_units():
    cells = np.empty(3, dtype=object)  # as loadmat reads a cell array: columns, an empty cell, a number
    cells[:] = [np.array([[2.0], [1.0]]), np.empty((0, 0)), np.array([[3.0]])]
    recording = Recording.from_trains(cells)
    assert recording.unit_ids.tolist() == ["0", "1", "2"] and recording.spike_units.tolist() == [0, 0, 2]
    assert len(recording.behavior_times) == 0
    assert Recording.from_trains([[1.0], [2.0]], unit_ids=["a", "b"]).unit_ids.tolist() == ["a", "b"]


def test_trains_with_a_unit_become_seconds():
    trains, times, trials = Quantity([1500, 500], "ms"), Quantity(1e3 * TIMES, "ms"), Quantity([[1000, 2000]], "ms")
    recording = Recording.from_trains([trains], times, BEHAVIOR[:, 0], trials=trials)
    assert recording.spike_times.tolist() == [0.5, 1.5] and recording.trials.tolist() == [[1.0, 2.0]]
    np.testing.assert_allclose(recording.behavior_times, TIMES)
    assert recording.behavior.shape == (400, 1) and recording.behavior_columns.tolist() == ["x"]


def test_counts_are_spread_over_their_bins():
    counts = np.array([[2, 0], [0, 0], [1, 4]])
    recording = Recording.from_counts(counts, 0.1, BEHAVIOR[:3], [1.0, 1.1, 5.0], unit_ids=["a", "b"])
    expected = [1.025, 1.075, 5.0125, 5.0375, 5.05, 5.0625, 5.0875]
    np.testing.assert_allclose(recording.spike_times, expected, rtol=0, atol=1e-12)
    assert recording.spike_units.tolist() == [0, 0, 1, 1, 0, 1, 1] and recording.unit_ids.tolist() == ["a", "b"]
    np.testing.assert_allclose(recording.behavior_times, [1.05, 1.15, 5.05])
    assert "counts in bins of 100 ms" in recording.notes[0]
    recording = Recording.from_counts(counts, 0.1, BEHAVIOR, behavior_times=TIMES, notes=["Monday."])
    np.testing.assert_array_equal(recording.behavior_times, TIMES)
    assert recording.notes[0] == "Monday." and len(recording.notes) == 2
    np.testing.assert_allclose(recording.spike_times, [0.025, 0.075, 0.2125, 0.2375, 0.25, 0.2625, 0.2875])


def test_position_becomes_velocity_and_gaps_stay():
    position = np.ma.masked_array(np.sin(2 * TIMES))
    position[100:110] = np.ma.masked
    position[110:120] = np.nan
    recording = Recording.from_position(TRAINS, TIMES, position, "mm", session_id="monday")
    expected = 2 * np.cos(2 * recording.behavior_times)
    assert np.abs(recording.behavior[:, 0] - expected).max() < 0.05
    assert not ((recording.behavior_times > 0.995) & (recording.behavior_times < 1.195)).any()
    assert recording.behavior_unit == "mm/s" and "derivative of the position; 20 of 400" in recording.notes[0]


RATES = 20 * np.random.default_rng(0).integers(0, 9, (200, 2))
BAD = [  # a constructor, its arguments, and what the message names
    (Recording.from_trains, ({7: np.ones((2, 3))},), r"trains\[7\] .* shape \(2, 3\)"),
    (Recording.from_trains, ([np.ones(9, bool)],), r"trains\[0\] .* bool"),
    (Recording.from_trains, (np.arange(9.0),), "trains must hold the spike times of each unit"),
    (Recording.from_trains, ([np.ma.masked_less([1.0, 2.0], 2)],), r"spike_times\[1\] = nan"),
    (Recording.from_counts, (np.ones((3, 400)), 0.1, BEHAVIOR), "behavior has 400 samples, behavior_times 3 times"),
    (Recording.from_counts, (RATES, 0.05), "counts are all multiples of 20"),
    (Recording.from_counts, ([[1.0, 0.5]], 0.1), r"counts\[0, 1\] = 0.5"),
    (Recording.from_counts, (np.ma.masked_equal([[2.0], [1.0]], 1), 0.1), r"counts\[1, 0\] = nan"),
    (Recording.from_counts, ([[1], [-1]], 0.1), r"counts\[1, 0\] = -1"),
    (Recording.from_counts, ([[10_001]], 0.1), r"counts\[0, 0\] = 10001"),
    (Recording.from_counts, ([[1]], 0.0), "bin_width_s"),
    (Recording.from_counts, ([[1], [1]], 20, (), [0, 0.02]), "bin_starts"),
    (Recording.from_counts, ([[1], [1]], 0.1, (), [0.0]), "bin_starts"),
    (Recording.from_position, ([[1]], [0], [1]), "two neighbouring rows"),
    (Recording.from_position, (TRAINS, TIMES, np.c_[BEHAVIOR, np.nan * TIMES]), "two neighbouring rows"),
    (Recording.from_position, ([[1]], [0, np.nan], [1, 2]), r"times\[1\] = nan"),
]


@pytest.mark.parametrize("construct, arguments, message", BAD, ids=[message for *_, message in BAD])
def test_unusable_argument_is_named(construct, arguments, message):
    with pytest.raises(RecordingError, match=message):
        construct(*arguments)
