"""Closed-form baselines fitted to a session, and the lag found with one of them."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from possm_lite.errors import RecordingError
from possm_lite.recordings import Recording
from possm_lite.training import evaluate, prepare
from possm_lite.training.linear import binned, fit_wiener, search_lag

LAGS_S = np.arange(-4, 5) * 0.05


@pytest.fixture
def delayed(rng) -> Recording:
    """Ten units with a random velocity 100 ms later; no trials."""
    width, n = 0.05, 4000
    smooth = np.convolve(rng.standard_normal(n + 2), np.ones(3), "same")
    velocity = np.stack([smooth, rng.permutation(smooth)], 1)[: n + 2]  # (n + 2, 2)
    gain = rng.normal(0, 0.4, (10, 2))
    counts = rng.poisson(np.exp(velocity[2:] @ gain.T))  # (n, 10): velocity two bins later
    return Recording.from_counts(counts, width, velocity[:n], behavior_times=np.arange(n) * width)


def test_binned_counts_and_velocity(small_recording):
    session = prepare(small_recording)
    counts, velocity = binned(session, "train")
    (start, stop), r = session.segments("train")[0], small_recording
    n_bins = int((stop - start) / 0.05 + 1e-6)
    inside = (r.spike_times >= start) & (r.spike_times < start + n_bins * 0.05)
    assert round(float((counts[0].astype(float) ** 2).sum())) == inside.sum()
    assert counts[0].shape[0] == velocity[0].shape[0] == n_bins
    samples = np.concatenate([v.reshape(-1, 2) for v in velocity])
    np.testing.assert_allclose(np.nanmean(samples, 0), 0, atol=0.05)  # standardised by the same part
    np.testing.assert_allclose(np.nanstd(samples, 0), 1, atol=0.05)


def test_ridge_is_chosen_without_the_test_part(delayed):
    """With the opposite velocity in the test part, the largest penalty would decode it best."""
    velocity = delayed.behavior.copy()
    velocity[round(0.81 * len(velocity)) :] *= -1
    sessions = [prepare(recording, lag_s=0.1) for recording in (delayed, replace(delayed, behavior=velocity))]
    one, other = (fit_wiener(session, n_history=1, ridges=(1.0, 1e6)) for session in sessions)
    assert torch.equal(one.weight, other.weight) and one.weight.abs().max() > 1e-2


def test_search_finds_the_lag_without_the_test_part(delayed):
    scores = search_lag(delayed, LAGS_S, n_history=1, ridges=(10.0,))
    assert scores.shape == LAGS_S.shape and LAGS_S[scores.argmax()] == pytest.approx(0.1)
    velocity = delayed.behavior.copy()
    velocity[round(0.81 * len(velocity)) :] = 1e6
    other = search_lag(replace(delayed, behavior=velocity), LAGS_S, n_history=1, ridges=(10.0,))
    np.testing.assert_array_equal(scores, other)


def test_search_is_nan_without_movement_in_the_validation_part(delayed):
    validation = (delayed.behavior_times > 139)[:, None] & (delayed.behavior_times < 161)[:, None]
    assert np.isnan(search_lag(replace(delayed, behavior=np.where(validation, 0, delayed.behavior)), [0.0])).all()


def test_samples_with_jitter_are_not_left_out(rng):
    """Hardly a bin of 100 ms then has a sample in every slot of 10 ms."""
    clock = np.arange(60_000) / 1000
    velocity = np.sin(2 * clock) + np.cos(3.1 * clock)
    rate = np.exp(2.3 + 0.6 * velocity * rng.normal(size=(30, 1)))
    trains = [clock[spikes] for spikes in rng.random(rate.shape) < rate / 1000]
    regular = np.arange(0, 59, 0.01)
    scores = []
    for times in (regular, regular + rng.uniform(0, 0.0099, len(regular))):
        session = prepare(Recording.from_trains(trains, times, np.interp(times, clock, velocity)), bin_width_s=0.1)
        scores.append(evaluate(fit_wiener(session), session).r2)
    assert scores[0] > 0.8 and scores[1] == pytest.approx(scores[0], abs=0.02)


def test_a_slot_without_samples_is_refused(small_recording):
    session = prepare(small_recording)
    counts, behavior = binned(session, "train")
    behavior = [np.where(np.arange(x.shape[1])[:, None] == 0, np.nan, x) for x in behavior]
    with pytest.raises(RecordingError, match="no sample in one of the slots"):
        fit_wiener(session).solve(counts, behavior, [1.0])
