"""`prepare` pairs spikes with behaviour and takes the scale of velocity from the training part."""

from dataclasses import replace

import numpy as np
import pytest

from possm_lite.errors import RecordingError
from possm_lite.training import FitConfig, evaluate, prepare
from possm_lite.training.linear import fit_wiener
from possm_lite.training.windows import WindowSampler


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


def test_scale_knows_no_sample_on_the_edge_of_another_part(small_recording):
    """(t - lag) + lag may be rounded to just below the edge t."""
    trials = np.stack([np.arange(0, 20, 0.5), np.arange(0.5, 20.5, 0.5)], 1) + small_recording.behavior_times[0]
    recording = replace(small_recording, trials=trials)
    for seed in range(10):
        session = prepare(recording, "random:50/25/25", -0.05, seed=seed)
        times = (session.timeline.times - 0.05).round(9)
        inside = [(times >= first - 1e-6) & (times < last - 1e-6) for first, last in session.split.train]
        behavior = session.timeline.behavior[np.any(inside, 0)]
        np.testing.assert_allclose(session.mean, behavior.mean(0), rtol=1e-12)


def test_what_cannot_be_decoded_is_refused(small_recording):
    r = small_recording
    with pytest.raises(RecordingError, match="less than a millionth of its mean"):
        prepare(replace(r, behavior=r.behavior + 1e9))
    late = r.spike_times > prepare(r).split.test[0, 0] - 0.1
    silent = replace(r, spike_times=r.spike_times[~late], spike_units=r.spike_units[~late])
    with pytest.raises(RecordingError, match="the test part, .* has no spike"):
        prepare(silent)


def test_constant_column_has_scale_one_and_no_r2(small_recording):
    constant = 9.81  # its mean is rounded
    session = prepare(replace(small_recording, behavior=small_recording.behavior * [1.0, 0.0] + [0.0, constant]))
    assert session.mean[1] == pytest.approx(constant) and session.std[1] == 1.0
    decoded = evaluate(fit_wiener(session), session)
    assert np.isnan(decoded.r2_columns[1]) and decoded.r2 == decoded.r2_columns[0]


def test_short_trials_are_left_out_with_a_note(small_recording):
    trials = small_recording.trials.copy()
    trials[[2, 5], 1] = trials[[2, 5], 0] + 0.03
    session = prepare(replace(small_recording, trials=trials))
    assert session.recording.notes[-1].startswith("2 of 12 trials shorter than a bin")
    np.testing.assert_array_equal(session.recording.trials, np.delete(trials, [2, 5], 0))
    with pytest.raises(RecordingError, match="at least a bin of 5 s"):
        prepare(small_recording, bin_width_s=5)


def test_a_part_without_behavior_is_refused(small_recording):
    slow = {"behavior_times": [0.0, 1.0, 2.0, 3.0, 4.0], "behavior": [[0.0, 1.0]] * 5, "trials": []}
    with pytest.raises(RecordingError, match="the valid part .* 0 samples of behaviour"):
        prepare(replace(small_recording, **slow))


def test_windows_are_as_long_as_most_of_the_time_allows(small_recording):
    """A piece of 0.2 s between two pauses does not shorten the windows of all."""
    times = small_recording.behavior_times
    kept = (times < 3) | ((times > 5) & (times < 5.2)) | (times > 7)
    paused = replace(small_recording, behavior_times=times[kept], behavior=small_recording.behavior[kept], trials=[])
    session = prepare(paused)
    assert len(session.segments("train")) == 3
    batch = (sampler := WindowSampler(session, FitConfig()))(20)
    assert sampler.window_s == 2.0 and batch.mask.all()
