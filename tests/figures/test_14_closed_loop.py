"""The closed loop: spikes as in the recording, timing of cursor and screen, the task, known facts of control."""

import numpy as np
import pytest

from possm_lite.course.load import load_figures
from possm_lite.simulate import simulate_session
from possm_lite.simulate.neurons import SimulationConfig, firing_rate

from ..exercises.helpers import NOTEBOOKS

sim = load_figures("14_closed_loop", NOTEBOOKS)


@pytest.fixture(scope="module")
def truth():
    return simulate_session(1, SimulationConfig(n_trials=4, n_units=30)).truth


class Scripted:
    """A decoder with fixed velocities, one a bin, the last one repeated."""

    def __init__(self, *velocities):
        self.velocities = velocities

    def reset(self):
        self.n, self.units = 0, []

    def step(self, units, offsets):
        self.units.append(units)
        velocity = self.velocities[min(self.n, len(self.velocities) - 1)]
        self.n += 1
        return np.zeros(2), np.array([[-999.0, -999.0], velocity])  # only the last one of a bin is used


def make_loop(truth, decoder, targets=None, user=None, seed=0, latency_s=0.0, gain=1.0, **task):
    task = sim.ReachingTask(targets or sim.circle_targets(), **task)
    return sim.ClosedLoop(decoder, sim.Population(truth, seed), task, user or sim.SimulatedUser(), latency_s, gain)


def test_population_at_rest_fires_at_baseline(truth):
    population, n_bins = sim.Population(truth), 6000
    units = np.concatenate([population.fire(np.zeros((5, 2)), np.zeros((5, 2)))[0] for _ in range(n_bins)])
    rate = np.bincount(units, minlength=31)[1:] / (0.05 * n_bins)
    z = np.random.default_rng(0).standard_normal((20_000, 1, 3))  # E[rate] over the fluctuations
    still = np.zeros((1, 30, 2))
    expected = firing_rate(truth.units, slice(None), still, still, z).mean(0)
    expected = expected / (1 + expected * truth.config.refractory_s)
    assert abs(rate.sum() / expected.sum() - 1) < 0.1  # the fluctuation common to all units is drawn for a minute only
    assert np.corrcoef(rate, expected)[0, 1] > 0.99


def test_velocity_moves_the_cursor_in_the_next_bin(truth):
    loop = make_loop(truth, Scripted((100.0, 0.0), (0.0, -200.0), (0.0, 0.0))).run(0.2)
    velocity = np.repeat([[0, 0], [100, 0], [0, -200], [0, 0]], 5, axis=0)  # mm/s at each 10 ms
    np.testing.assert_allclose(loop.cursor_mm, 0.01 * velocity.cumsum(0), atol=1e-9)


def test_gain_scales_and_latency_delays_the_cursor(truth):
    decoder = Scripted((100.0, 40.0), (0.0, 0.0))
    path, delayed = (make_loop(truth, decoder, latency_s=s, gain=2.0).run(0.5).cursor_mm for s in (0.0, 0.1))
    np.testing.assert_allclose(delayed[10:], path[:-10])
    assert not delayed[:10].any()
    np.testing.assert_allclose(path[-1], [10, 4])


def test_user_sees_the_screen_late(truth):
    user = sim.SimulatedUser(visual_delay_s=0.1, gain_per_s=2.0, max_speed_mm_s=1e9)
    loop = make_loop(truth, Scripted((300.0, 0.0)), [(80.0, 0.0)], user, latency_s=0.05).run(1.0)
    seen = np.concatenate([np.zeros((10, 2)), loop.cursor_mm[:-10]])  # the screen, 0.1 s ago
    np.testing.assert_allclose(loop.intended_mm_s, 2.0 * (np.array([80.0, 0.0]) - seen), atol=1e-6)


def test_reach_time_ends_when_the_hold_starts(truth):
    """40 mm at 100 mm/s: the edge of the target is 20 mm away, reached 0.2 s after the first velocity at 0.05 s."""
    loop = make_loop(truth, Scripted((100.0, 0.0)), [(40.0, 0.0)], radius_mm=20.0, hold_s=0.1).run(n_reaches=1)
    (reach,) = loop.reaches
    assert reach.reached and reach.shown_s == 0 and reach.seconds == pytest.approx(0.25, abs=0.011)


def test_timeout_shows_the_next_target(truth):
    loop = make_loop(truth, Scripted((0.0, 0.0)), [(80.0, 0.0), (-80.0, 0.0)], timeout_s=0.5).run(seconds=1.2)
    assert [(r.reached, r.target_mm) for r in loop.reaches] == [(False, (80.0, 0.0)), (False, (-80.0, 0.0))]
    assert [r.seconds for r in loop.reaches] == pytest.approx([0.5, 0.5])
    assert loop.target_mm == (80.0, 0.0)


def test_delay_makes_a_perfect_decoder_oscillate(truth):
    """Delayed integrator: gain times delay below 1/e does not overshoot, above pi/2 it never settles."""

    def run(gain_per_s, seconds, targets=None, latency_s=0.0):
        decoder = Scripted()  # with the intended velocity
        loop = make_loop(truth, decoder, targets, sim.SimulatedUser(gain_per_s=gain_per_s), latency_s=latency_s)
        decoder.step = lambda *spikes: (np.zeros(1), loop.intended_mm_s[-1:])
        return loop.run(seconds)

    assert sum(r.reached for r in run(2.0, 4.0).reaches) >= 2
    oscillating = run(8.0, 6.0, [(80.0, 0.0)], latency_s=0.3)
    assert not any(r.reached for r in oscillating.reaches)
    assert oscillating.cursor_mm[:, 0].max() > 120
