"""The particle filter of chapter 13 moves and weighs its guesses as the simulator makes hands and rates."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from possm_course.chapters.ch13 import particle_filter
from possm_course.chapters.ch13.particle_filter import FINE_S, ParticleFilter, Plans
from possm_lite.simulate import simulate_session
from possm_lite.simulate.neurons import SimulationConfig, firing_rate
from possm_lite.simulate.reaches import TaskConfig, hand_at, plan_reaches
from possm_lite.training.evaluate import r2_score


@pytest.fixture(scope="module")
def session():
    return simulate_session(3, SimulationConfig(n_trials=12, n_units=60))


def plans_of(reaches) -> Plans:
    """The reaches of a simulation as plans, one a particle."""
    as_float = {
        name: torch.as_tensor(getattr(reaches, name), dtype=torch.float32)
        for name in ("start_s", "stop_s", "origin_mm", "target_mm", "bend_rad")
    }
    n = len(reaches.start_s)
    return Plans(**as_float, leg=torch.zeros(n, dtype=torch.int64), random_target=torch.ones(n, dtype=torch.bool))


def test_hand_of_a_plan_is_the_hand_of_the_simulation(session):
    reaches = session.truth.reaches
    middle = (reaches.start_s + reaches.stop_s) / 2
    found = particle_filter.hand_of(plans_of(reaches), torch.as_tensor(middle, dtype=torch.float32)).numpy()
    position, velocity = hand_at(reaches, middle)
    np.testing.assert_allclose(found[:, :2], position, atol=0.02)
    np.testing.assert_allclose(found[:, 2:], velocity, atol=0.5)


def test_rates_are_those_of_the_simulation(session):
    guesses = ParticleFilter(session.truth, 5)
    for _ in range(60):
        guesses.absorb(torch.zeros(60))
    middle = round((guesses.step + 0.5) * particle_filter.STEP_S / FINE_S)
    common = torch.randn(5, 3)
    guesses._extend_to(middle + guesses.n_ahead)
    hand = guesses.path[(middle + guesses.lead) % len(guesses.path)].double().numpy().transpose(1, 0, 2)  # (N, U, 4)
    wanted = firing_rate(session.truth.units, slice(None), hand[..., :2], hand[..., 2:], common.numpy()[:, None])
    np.testing.assert_allclose(guesses.log_rates(middle, common).exp().numpy(), wanted, rtol=1e-4)


def test_rests_reaches_and_targets_have_the_distribution_of_the_task():
    task, n = TaskConfig(), 4000
    rng = torch.Generator().manual_seed(0)
    before = Plans(
        start_s=torch.full((n,), -1.0),
        stop_s=torch.zeros(n),
        origin_mm=torch.zeros(n, 2),
        target_mm=torch.zeros(n, 2),
        bend_rad=torch.zeros(n),
        leg=torch.zeros(n, dtype=torch.int64),
        random_target=torch.ones(n, dtype=torch.bool),
    )
    set_off = torch.full((n,), torch.nan)
    for step in range(110):
        now = particle_filter.begins(before, step * FINE_S, FINE_S, task, rng) & set_off.isnan()
        set_off[now] = step * FINE_S
    assert not set_off.isnan().any() and set_off.min() >= 0.2 and set_off.max() <= 0.5
    assert abs(float(set_off.mean()) - 0.35) < 0.01  # uniform between 0.2 and 0.5 s
    after = particle_filter.next_reaches(before, 0.0, task, rng)
    for _ in range(5):  # reaches from anywhere, as in a chain of random targets
        after = particle_filter.next_reaches(replace(after, leg=torch.zeros(n, dtype=torch.int64)), 0.0, task, rng)
    reaches = plan_reaches(np.random.default_rng(0), replace(task, n_trials=1500, random_target_share=1.0))
    duration = reaches.stop_s - reaches.start_s
    assert abs(float((after.stop_s - after.start_s).mean()) - duration.mean()) < 0.005
    assert abs(float((after.stop_s - after.start_s).std()) - duration.std()) < 0.005
    assert float((after.target_mm - after.origin_mm).norm(dim=1).min()) >= task.min_reach_mm
    assert bool((after.leg == 1).all()) and abs(float(after.bend_rad.std()) - np.radians(task.bend_deg)) < 0.01


def test_resampling_keeps_the_mean_and_makes_weights_equal(session):
    guesses = ParticleFilter(session.truth, 20_000, jitter=0.0)
    guesses.log_weight = torch.randn(20_000)
    mean = guesses.weights() @ guesses.plans.target_mm
    guesses._resample()
    torch.testing.assert_close(guesses.weights() @ guesses.plans.target_mm, mean, atol=0.5, rtol=0)
    assert guesses.n_effective() == pytest.approx(20_000)


def r2_of(session, known, n_particles: int) -> float:
    """R² on eight seconds of a filter that takes `known` for the truth."""
    recording, times = session.recording, np.arange(0.0, 8.0, 0.02)
    true = np.stack([np.interp(times + 4.0, recording.behavior_times, v) for v in recording.behavior.T], -1)
    return r2_score(true, particle_filter.decode(recording, 4.0, times, ParticleFilter(known, n_particles))[0]).mean()


def test_a_filter_decodes_with_more_guesses_better_and_with_a_wrong_tuning_worse(session):
    truth = session.truth
    turned = replace(truth.units, preferred_direction_rad=truth.units.preferred_direction_rad + np.radians(45))
    r2 = r2_of(session, truth, 600)
    assert r2 > 0.5 and r2 > r2_of(session, truth, 30) + 0.1
    assert r2 > r2_of(session, replace(truth, units=turned), 600) + 0.1


def test_quantiles_follow_the_weights():
    values = np.arange(5.0)[::-1].reshape(1, 5, 1)
    weight = np.array([0.1, 0.1, 0.1, 0.1, 0.6])  # the last, 0, has most
    low, high = (particle_filter.weighted_quantile(values, weight, share)[0, 0] for share in (0.5, 0.95))
    assert (low, high) == (0.0, 4.0)
