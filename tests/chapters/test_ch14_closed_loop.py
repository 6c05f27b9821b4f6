"""The closed loop: spikes as in the recording, the task, known facts of control; its path: browser/test_figures."""

import numpy as np
import pytest

from possm_course.chapters.ch14 import closed_loop as sim
from possm_lite.simulate import simulate_session
from possm_lite.simulate.neurons import SimulationConfig, firing_rate


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


@pytest.mark.parametrize("gain", [2.0, 3.0])
def test_the_two_limits_of_a_delayed_loop(truth, gain):
    """dp/dt = -gain p(t - delay): no overshoot up to gain * delay = 1/e, smaller and smaller swings up to pi/2."""

    def swings(product):
        """How far a cursor with a perfect decoder passes its target at first, and is off it at last, mm."""
        latency_s = product / gain - 0.125  # the eye is 0.1 s late, and a velocity is held for 0.025 s on average
        user, task = sim.SimulatedUser(0.1, gain, 1e9), {"timeout_s": np.inf, "hold_s": np.inf}
        loop = make_loop(truth, Scripted(), [(80.0, 0.0)], user, latency_s=latency_s, **task)
        loop.population.fire = lambda *intended: ()
        loop.decoder.step = lambda: (np.zeros(1), loop.intended_mm_s[-1:])
        x = loop.run(16.0).cursor_mm[:, 0] - 80
        return x[:600].max(), np.abs(x[-600:]).max()

    assert swings(1.02 / np.e)[0] < 0.5 and swings(1.3 / np.e)[0] > 1
    for product, grows in ((0.9 * np.pi / 2, False), (1.1 * np.pi / 2, True)):
        first, last = swings(product)
        assert (last > 1.5 * first) == grows and (last < 0.5 * first) != grows
