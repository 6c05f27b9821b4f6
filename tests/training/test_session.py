"""`prepare` pairs spikes with behaviour and takes the scale of velocity from the training part."""

from dataclasses import replace

import numpy as np
import pytest

from possm_lite.spikes import RecordingError
from possm_lite.training import prepare


def with_velocity(recording, change):
    """The recording with `change(velocity, times)` done to a copy of its velocity."""
    velocity = recording.velocity.copy()
    change(velocity, recording.behavior_times)
    return replace(recording, velocity=velocity)


def test_scale_uses_the_training_part_only(small_recording):
    before = prepare(small_recording)
    end_of_training = before.split.train[-1, 1]

    def later(velocity, times):
        velocity[times >= end_of_training] = 1e4

    def earlier(velocity, times):
        velocity[times < end_of_training] += [10.0, 0.0]

    after = prepare(with_velocity(small_recording, later))
    assert np.array_equal(after.mean, before.mean) and np.array_equal(after.std, before.std)
    moved = prepare(with_velocity(small_recording, earlier))
    np.testing.assert_allclose(moved.mean - before.mean, [10.0, 0.0], atol=1e-9)
    np.testing.assert_allclose(moved.std, before.std)


@pytest.mark.parametrize("split", ["chronological", "random"])
@pytest.mark.parametrize("lag_s", [0.0, 0.12])
def test_scale_does_not_depend_on_the_lag(small_recording, split, lag_s):
    session = prepare(small_recording, split, lag_s, seed=3)
    times, velocity = small_recording.behavior_times[::10], small_recording.velocity[::10]
    of_training = np.any([(times >= a) & (times < b) for a, b in session.split.train], axis=0)
    np.testing.assert_allclose(session.mean, velocity[of_training].mean(0), rtol=1e-3, atol=0.5)
    np.testing.assert_allclose(session.std, velocity[of_training].std(0), rtol=1e-2)
    assert session.timeline.lag_s == lag_s and session.recording is small_recording


def test_lag_pairs_a_sample_with_earlier_spikes(small_recording):
    """A window of behaviour has the spikes from `lag` before it."""
    start = float(small_recording.trials[4, 0])
    for lag in (0.0, 0.1):
        batch = prepare(small_recording, lag_s=lag).timeline.cut(start, 1.0)
        spikes = small_recording.spike_times
        wanted = spikes[(spikes >= start - lag) & (spikes < start - lag + 1.0)]
        real = batch.unit > 0
        np.testing.assert_allclose((batch.offset + 0.05 * batch.bin)[real].sort().values, wanted - (start - lag))
        np.testing.assert_allclose(batch.velocity[0, 0], velocity_at(small_recording, start + batch.times_s[0, 0]))


def velocity_at(recording, time):
    return recording.velocity[np.abs(recording.behavior_times - float(time)).argmin()]


def test_axis_without_movement_has_scale_one(small_recording):
    def freeze_y(velocity, _):
        velocity[:, 1] = 2.5

    session = prepare(with_velocity(small_recording, freeze_y))
    assert session.mean[1] == 2.5 and session.std[1] == 1.0


def test_adjacent_trials_are_one_segment(small_recording):
    session = prepare(small_recording)
    np.testing.assert_array_equal(session.segments("train"), [[session.split.train[0, 0], session.split.train[-1, 1]]])
    dealt = prepare(small_recording, "random:50/20/30", seed=1)
    pieces = dealt.segments("test")
    assert 1 < len(pieces) <= len(dealt.split.test)
    lengths = dealt.split.test[:, 1] - dealt.split.test[:, 0]
    assert (pieces[:, 1] - pieces[:, 0]).sum() == pytest.approx(lengths.sum())


def test_recordings_that_cannot_be_split(small_recording):
    with pytest.raises(RecordingError, match=r"trials\[0\] lasts .* a bin 50.0 s"):
        prepare(small_recording, bin_width_s=50.0)
    with pytest.raises(RecordingError, match="random needs at least 3 trials"):
        prepare(replace(small_recording, trials=np.zeros((0, 2))), "random")
