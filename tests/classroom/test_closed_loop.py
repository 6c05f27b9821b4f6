"""The closed loop: the units fire as those of the recording do, the circle is closed where it is said to be."""

import numpy as np
import pytest

from possm_lite.classroom.closed_loop import MOMENT_S, ClosedLoop, Population, Task, User, star
from possm_lite.spikes import simulate_session
from possm_lite.spikes.simulation.neurons import SimulationConfig, firing_rate


@pytest.fixture(scope="module")
def truth():
    return simulate_session(1, SimulationConfig(n_trials=4, n_units=30)).truth


class Told:
    """A decoder that answers what it is told, whatever the spikes."""

    def __init__(self, *answers):
        self.answers = answers
        self.reset()

    def reset(self):
        self.n = 0

    def step(self, units, offsets):
        answer = self.answers[min(self.n, len(self.answers) - 1)]
        self.n += 1
        return np.zeros(2), np.array([[-999.0, -999.0], answer])  # the last answer of a bin counts


class Seeing:
    """A decoder that knows the intention: a perfect brain and electrode."""

    def __init__(self):
        self.loop = None

    def reset(self):
        pass

    def step(self, units, offsets):
        return np.zeros(1), self.loop.intended_mm_s[-1:]


def seeing(truth, task, **options):
    decoder = Seeing()
    decoder.loop = ClosedLoop(decoder, Population(truth), task, **options)
    return decoder.loop


def test_a_population_at_rest_fires_at_its_baselines(truth):
    """Mean counts of ten minutes, with the common fluctuations and the refractory period as the session has them."""
    population, n_bins = Population(truth), 6000
    units = np.concatenate([population.fire(np.zeros((5, 2)), np.zeros((5, 2)))[0] for _ in range(n_bins)])
    rate = np.bincount(units, minlength=31)[1:] / (0.05 * n_bins)
    # E[rate] over the fluctuations, by many draws of z
    z = np.random.default_rng(0).standard_normal((20_000, 1, 3))
    still = np.zeros((1, 30, 2))
    expected = firing_rate(truth.units, slice(None), still, still, z).mean(0)
    expected = expected / (1 + expected * truth.config.refractory_s)
    assert abs(rate.sum() / expected.sum() - 1) < 0.1  # the one fluctuation of all units is drawn for a minute only
    assert np.corrcoef(rate, expected)[0, 1] > 0.99


def test_spikes_fit_a_decoder_and_keep_their_distance(truth):
    population, last = Population(truth, seed=3), {}
    for b in range(200):
        units, offsets = population.fire(np.full((5, 2), 80.0), np.full((5, 2), 500.0))
        assert units.min() >= 1 and units.max() <= 30 and offsets.min() >= 0 and offsets.max() < 0.05
        for unit, time in sorted(zip(units.tolist(), (b * 0.05 + offsets).tolist(), strict=True), key=lambda x: x[1]):
            assert time - last.get(unit, -1.0) >= 0.002 - 1e-9
            last[unit] = time


def test_early_units_fire_first(truth):
    """An intention that begins at once reaches each unit when its lead on the movement says."""
    units = truth.units
    wanted = units.lag_s.max() - units.lag_s
    population = Population(truth)
    age = np.array([population._pick[0, u] for u in range(30)])
    np.testing.assert_allclose((age.max() - age) * MOMENT_S, wanted, atol=MOMENT_S / 2 + 1e-9)


def test_lost_units_are_silent_and_the_same_ones_come_first(truth):
    heard = []
    for lost in (0.0, 0.5, 1.0):
        population = Population(truth, lost=lost)
        fired = [population.fire(np.zeros((5, 2)), np.full((5, 2), 300.0))[0] for _ in range(100)]
        heard.append(set(np.concatenate(fired).tolist()))
    assert len(heard[0]) == 30 and len(heard[1]) == 15 and not heard[2] and heard[1] < heard[0]


def test_the_same_seed_gives_the_same_run_and_another_another(truth):
    def path(seed):
        loop = ClosedLoop(Told((100.0, 0.0)), Population(truth, seed), Task(star()))
        spikes = []
        step = loop.stream.step
        loop.stream.step = lambda u, o: spikes.append(u) or step(u, o)
        loop.run(0.5)
        again, first = [], list(spikes)
        spikes.clear()
        loop.reset()
        loop.run(0.5)
        again = list(spikes)
        assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))
        return np.concatenate(first)

    assert not np.array_equal(path(0), path(1))


def test_a_velocity_moves_the_cursor_in_the_bin_after_it(truth):
    loop = ClosedLoop(Told((100.0, 0.0), (0.0, -200.0), (0.0, 0.0)), Population(truth), Task(star()))
    loop.run(0.2)
    expected = np.zeros((20, 2))
    expected[5:10, 0] = 1 + np.arange(5)  # mm: 100 mm/s for 50 ms
    expected[10:] = [5, 0]
    expected[10:15, 1] = -2 * (1 + np.arange(5))
    expected[15:, 1] = -10
    np.testing.assert_allclose(loop.shown_mm, expected, atol=1e-9)


def test_gain_and_latency(truth):
    plain, late = (
        ClosedLoop(Told((100.0, 40.0), (0.0, 0.0)), Population(truth), Task(star()), latency_s=latency, gain=2.0)
        for latency in (0.0, 0.1)
    )
    plain.run(0.5), late.run(0.5)
    np.testing.assert_allclose(late.shown_mm[10:], plain.shown_mm[:-10])
    assert not late.shown_mm[:10].any()
    np.testing.assert_allclose(plain.shown_mm[-1], [10, 4])


def test_the_user_acts_on_what_is_seen(truth):
    user = User(visual_s=0.1, gain_per_s=2.0, max_speed_mm_s=1e9)
    loop = ClosedLoop(Told((300.0, 0.0)), Population(truth), Task([(80.0, 0.0)]), user, latency_s=0.05)
    loop.run(1.0)
    seen = np.concatenate([np.zeros((10, 2)), loop.shown_mm[:-10]])  # of the screen, 0.1 s ago
    np.testing.assert_allclose(loop.intended_mm_s, 2.0 * (np.array([80.0, 0.0]) - seen), atol=1e-6)


def test_the_speed_is_limited_without_bending_the_way(truth):
    loop = ClosedLoop(Told((0.0, 0.0)), Population(truth), Task([(90.0, 120.0)]), User(gain_per_s=50.0))
    loop.run(0.1)
    np.testing.assert_allclose(loop.intended_mm_s, np.tile([240.0, 320.0], (10, 1)))


def test_reaches_are_timed_until_the_stay_begins(truth):
    """40 mm at 100 mm/s: the edge of the circle is 20 mm away, reached 0.2 s after the first answer at 0.05 s."""
    task = Task([(40.0, 0.0)], radius_mm=20.0, hold_s=0.1, patience_s=3.0)
    loop = ClosedLoop(Told((100.0, 0.0)), Population(truth), task).run(n_reaches=1)
    (reach,) = loop.reaches
    assert reach.reached and reach.shown_s == 0 and reach.seconds == pytest.approx(0.25, abs=0.011)


def test_a_target_out_of_reach_is_given_up(truth):
    task = Task([(80.0, 0.0), (-80.0, 0.0)], patience_s=0.5)
    loop = ClosedLoop(Told((0.0, 0.0)), Population(truth), task).run(seconds=1.2)
    assert [(r.reached, r.target_mm) for r in loop.reaches] == [(False, (80.0, 0.0)), (False, (-80.0, 0.0))]
    assert [r.seconds for r in loop.reaches] == pytest.approx([0.5, 0.5])
    assert loop.target_mm == (80.0, 0.0)


def test_a_perfect_decoder_gets_there_and_latency_makes_it_circle(truth):
    """Gain times delay below 1/e does not overshoot, above pi/2 it never settles: a fact of delayed integrators."""
    calm = seeing(truth, Task(star()), user=User(gain_per_s=2.0)).run(seconds=4.0)
    assert sum(r.reached for r in calm.reaches) >= 2
    wild = seeing(truth, Task([(80.0, 0.0)]), user=User(gain_per_s=8.0), latency_s=0.3).run(seconds=6.0)
    assert not any(r.reached for r in wild.reaches)
    assert wild.shown_mm[:, 0].max() > 120


def test_the_star_takes_every_target_once():
    targets = np.array(star())
    np.testing.assert_allclose(np.hypot(*targets.T), 80.0)
    assert len({tuple(t) for t in targets.round(6).tolist()}) == 8
