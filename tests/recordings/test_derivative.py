"""Velocity from positions as rigs log them: held between updates of the screen, or rounded to pixels."""

import numpy as np
import pytest

from possm_lite.recordings.derivative import differentiate
from possm_lite.simulate.neurons import SimulationConfig
from possm_lite.simulate.reaches import hand_at
from possm_lite.simulate.session import simulate_session


@pytest.fixture(scope="module")
def reaches():
    return simulate_session(1, SimulationConfig(n_trials=20, n_units=1)).truth.reaches


@pytest.mark.parametrize(
    "logged_hz, screen_hz, pixel_mm, how",
    [
        (1000, 0, 0, ""),
        (100, 0, 0, ""),
        (1000, 0, 0.05, ""),
        (1000, 120, 0, "logged at 1000 Hz, it changes at 120"),
        (240, 60, 0, "logged at 240 Hz, it changes at 60"),
        (1000, 60, 1, "logged at 1000 Hz, it changes at 60"),
        (1000, 0, 1, "rounded to steps, so taken over"),
        (1000, 0, 0.25, "rounded to steps, so taken over"),
    ],
)
def test_velocity_is_true_however_position_was_logged(reaches, logged_hz, screen_hz, pixel_mm, how):
    times = np.arange(0, reaches.stop_s[-1], 1 / logged_hz)
    shown = np.floor(times * screen_hz) / screen_hz if screen_hz else times
    position = hand_at(reaches, shown)[0]
    position = np.round(position / pixel_mm) * pixel_mm if pixel_mm else position
    velocity, note = differentiate(times, position)
    true = hand_at(reaches, times)[1]
    assert 1 - np.mean((velocity - true) ** 2) / np.var(true) > 0.99
    assert how in note and bool(how) == bool(note), note


def test_a_slow_screen_need_not_be_regular(rng):
    times = np.arange(0, 20, 0.001)
    frames = np.r_[0.0, 0.04 * np.arange(1, 500) + rng.uniform(-0.0015, 0.0015, 499)]
    shown = frames[np.searchsorted(frames, times, "right") - 1]
    velocity, note = differentiate(times, 100 * shown[:, None])
    assert "it changes at 25" in note and np.abs(velocity - 100).max() < 20


def test_rounded_position_is_exact_after_hours():
    """Running sums would lose their digits: 250 Hz for two hours, steps of a quarter."""
    times = np.arange(1_800_000) / 250
    position = np.round(4 * np.stack([500 * np.sin(2.5 * times), 400 * np.sin(1.9 * times)], 1)) / 4
    velocity, _ = differentiate(times, position)
    true = np.stack([1250 * np.cos(2.5 * times), 760 * np.cos(1.9 * times)], 1)
    assert np.abs(velocity - true)[-10_000:].mean() < 0.05 * true.std()


def test_a_lost_frame_is_no_gap():
    """Twice the step between two samples, at the limit: rounding must not decide."""
    times = np.delete(np.arange(1000) * 0.01, np.s_[5::10])
    velocity, _ = differentiate(times, times[:, None] ** 2)
    np.testing.assert_allclose(velocity[1:-1, 0], 2 * times[1:-1], rtol=0, atol=1e-6)


def test_held_position_ends_with_its_last_slope_and_a_piece_within_one_update_has_none():
    times = np.arange(0, 5, 0.001)
    shown = np.floor(times * 60) / 60
    position = (10 * shown + np.sin(2 * np.pi * shown))[:, None]
    position[1000:1050] = position[1055:1105] = np.nan
    velocity, _ = differentiate(times, position)
    assert np.isnan(velocity[1050:1055]).all()
    end = slice(-40, None)
    assert np.abs(velocity[end, 0] - 10 - 2 * np.pi * np.cos(2 * np.pi * times[end])).max() < 0.5


def test_a_piece_that_begins_between_two_updates_has_the_slope_of_the_next():
    times = np.arange(0, 20, 0.001)
    position = (100 * np.floor(times * 60) / 60)[:, None]
    position[np.arange(500, 20_000, 503)] = np.nan  # pieces begin anywhere within an update
    velocity = differentiate(times, position)[0]
    assert np.nanmin(velocity) > 95 and np.nanmax(velocity) < 105  # mm/s; updates are 16 or 17 samples apart
