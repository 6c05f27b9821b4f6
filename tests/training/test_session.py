"""`prepare` pairs spikes with behaviour and takes the scale of velocity from the training part."""

from dataclasses import replace

import numpy as np
import pytest

from possm_lite.training import prepare


def add_velocity(recording, where, value):
    velocity = recording.behavior.copy()
    velocity[where] += value
    return replace(recording, behavior=velocity)


def test_scale_uses_the_training_part_only(small_recording):
    before = prepare(small_recording)
    of_training = small_recording.behavior_times < before.split.train[-1, 1]
    after = prepare(add_velocity(small_recording, ~of_training, 1e4))
    assert np.array_equal(after.mean, before.mean) and np.array_equal(after.std, before.std)
    moved = prepare(add_velocity(small_recording, of_training, [10.0, 0.0]))
    np.testing.assert_allclose(moved.mean - before.mean, [10.0, 0.0], atol=1e-9)
    np.testing.assert_allclose(moved.std, before.std)


@pytest.mark.parametrize("split", ["chronological", "random"])
@pytest.mark.parametrize("lag_s", [0.0, 0.12])
def test_scale_does_not_depend_on_the_lag(small_recording, split, lag_s):
    session = prepare(small_recording, split, lag_s, seed=3)
    times, velocity = small_recording.behavior_times[::10], small_recording.behavior[::10]
    of_training = np.any([(times >= a) & (times < b) for a, b in session.split.train], axis=0)
    np.testing.assert_allclose(session.mean, velocity[of_training].mean(0), rtol=1e-3, atol=0.5)
    np.testing.assert_allclose(session.std, velocity[of_training].std(0), rtol=1e-2)
    assert session.timeline.lag_s == lag_s and session.recording is small_recording


def test_axis_without_movement_has_scale_one(small_recording):
    session = prepare(replace(small_recording, behavior=small_recording.behavior * [1.0, 0.0] + [0.0, 2.5]))
    assert session.mean[1] == 2.5 and session.std[1] == 1.0


def test_adjacent_trials_are_one_segment(small_recording):
    session = prepare(small_recording)
    np.testing.assert_array_equal(session.segments("train"), [[session.split.train[0, 0], session.split.train[-1, 1]]])
    dealt = prepare(small_recording, "random:50/20/30", seed=1)
    pieces = dealt.segments("test")
    assert 1 < len(pieces) <= len(dealt.split.test)
    lengths = dealt.split.test[:, 1] - dealt.split.test[:, 0]
    assert (pieces[:, 1] - pieces[:, 0]).sum() == pytest.approx(lengths.sum())
