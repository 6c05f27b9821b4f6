"""The lag that was put into a recording is the one that is found, and the test part plays no role in it."""

from dataclasses import replace

import numpy as np
import pytest

from possm_lite.spikes import Recording
from possm_lite.training.baselines import search_lag

LAGS_S = np.arange(-4, 5) * 0.05


@pytest.fixture
def late_hand(rng) -> Recording:
    """Ten units that follow a random velocity 100 ms before it happens; no trials."""
    width, n = 0.05, 4000
    smooth = np.convolve(rng.standard_normal(n + 2), np.ones(3), "same")
    velocity = np.stack([smooth, rng.permutation(smooth)], 1)[: n + 2]  # (n + 2, 2)
    gain = rng.normal(0, 0.4, (10, 2))
    counts = rng.poisson(np.exp(velocity[2:] @ gain.T))  # (n, 10): what the hand does two bins later
    times = np.repeat(np.arange(n) * width + 0.02, counts.sum(1))
    units = np.concatenate([np.repeat(np.arange(10), row) for row in counts])
    clock = np.arange(n) * width
    return Recording(times, units, np.arange(10).astype(str), clock, velocity[:n], "mm/s", [], "late")


def test_the_lag_is_found(late_hand):
    scores = search_lag(late_hand, LAGS_S, n_history=1, ridges=(10.0,))
    assert scores.shape == LAGS_S.shape
    assert LAGS_S[scores.argmax()] == pytest.approx(0.1)


def test_the_test_part_is_not_looked_at(late_hand):
    velocity = late_hand.velocity.copy()
    velocity[round(0.81 * len(velocity)) :] = 1e6
    spoiled = replace(late_hand, velocity=velocity)
    np.testing.assert_array_equal(search_lag(late_hand, [0.0, 0.1]), search_lag(spoiled, [0.0, 0.1]))


def test_an_axis_that_never_moves_is_left_out(late_hand):
    still = replace(late_hand, velocity=late_hand.velocity * [1.0, 0.0])
    scores = search_lag(still, LAGS_S, n_history=1, ridges=(10.0,))
    assert np.isfinite(scores).all() and LAGS_S[scores.argmax()] == pytest.approx(0.1)
    assert np.isnan(search_lag(replace(late_hand, velocity=0 * late_hand.velocity), [0.0])).all()
