"""The movements of a simulated session: minimum jerk, on target, in trials of two kinds."""

import numpy as np
import pytest

from possm_lite.simulate.neurons import SimulationConfig
from possm_lite.simulate.reaches import Reaches, hand_at
from possm_lite.simulate.session import simulate_session


@pytest.fixture(scope="module")
def session():
    return simulate_session(4, SimulationConfig(n_trials=100, n_units=1))


def one_reach(bend):
    """A reach of 80 mm along x that takes 0.4 s, from 1 s on."""
    row = [np.array([x]) for x in (1.0, 1.4)]
    return Reaches(*row, np.zeros((1, 2)), np.array([[80.0, 0.0]]), np.array([bend]), *[np.zeros(1)] * 3)


def test_straight_reach_has_minimum_jerk():
    """Minimum jerk in closed form (Flash & Hogan 1985): a polynomial of degree 5 that starts and ends at rest."""
    u = np.linspace(0, 1, 101)
    position, velocity = hand_at(one_reach(bend=0.0), 1 + 0.4 * u)
    np.testing.assert_allclose(position[:, 0], 80 * (10 * u**3 - 15 * u**4 + 6 * u**5), atol=1e-9)
    np.testing.assert_allclose(velocity[:, 0], 80 / 0.4 * (30 * u**2 - 60 * u**3 + 30 * u**4), atol=1e-9)
    assert velocity[50, 0] == pytest.approx(1.875 * 80 / 0.4)
    assert not position[:, 1].any() and not velocity[:, 1].any()


def test_bent_reach_has_same_profile_and_target():
    """A bent path is longer, by a / sin a, and its speed has the profile of a straight one of that length."""
    times = np.linspace(1, 1.4, 4001)
    position, velocity = hand_at(one_reach(bend=0.5), times)
    straight = hand_at(one_reach(bend=0.0), times)[1][:, 0]
    np.testing.assert_allclose(np.hypot(*velocity.T), straight * 0.5 / np.sin(0.5), atol=1e-9)
    np.testing.assert_allclose(np.gradient(position, times, axis=0)[1:-1], velocity[1:-1], atol=0.01)
    np.testing.assert_allclose(position[-1], [80, 0], atol=1e-9)
    assert position[:, 1].max() == pytest.approx(40 * np.tan(0.25))  # bowed to the left


def test_reaches_end_on_targets_and_hand_rests_between(session):
    reaches = session.truth.reaches
    np.testing.assert_allclose(hand_at(reaches, reaches.stop_s)[0], reaches.target_mm, atol=1e-9)
    np.testing.assert_array_equal(reaches.origin_mm[1:], reaches.target_mm[:-1])
    velocity, times = session.recording.behavior, session.recording.behavior_times
    started, ended = (np.searchsorted(x, times, side="right") for x in (reaches.start_s, reaches.stop_s))
    moving = started > ended
    assert not velocity[~moving].any() and (np.hypot(*velocity[moving].T) > 0).mean() > 0.95
    moved = np.cumsum(velocity, axis=0) / 1000 + reaches.origin_mm[0]
    np.testing.assert_allclose(moved, hand_at(reaches, times)[0], atol=1)
