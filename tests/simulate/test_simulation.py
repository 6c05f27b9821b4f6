"""The simulated session: tuning, spikes, difficulty, the file in data/; as a script, the figures of its datasheet."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from possm_lite.recordings.formats import load_recording
from possm_lite.simulate.neurons import SimulationConfig, block_refractory, draw_units, firing_rate
from possm_lite.simulate.reaches import hand_at
from possm_lite.simulate.session import load_ground_truth, save_session, simulate_session
from possm_lite.training.evaluate import evaluate
from possm_lite.training.linear import fit_wiener
from possm_lite.training.session import prepare

FILE = Path(__file__).parents[2] / "data" / "simulated_session.npz"
SHORT = SimulationConfig(n_trials=6, n_units=8)


@pytest.fixture(scope="module")
def session():
    """The session in data/, simulated again."""
    return simulate_session()


@pytest.fixture
def rng():
    return np.random.default_rng(3)


def assert_same_truth(ours, theirs):
    assert (ours.seed, ours.config) == (theirs.seed, theirs.config)
    np.testing.assert_allclose(ours.common, theirs.common, rtol=0, atol=2**-10)
    for group in ("units", "reaches"):
        for name, value in vars(getattr(ours, group)).items():
            np.testing.assert_allclose(getattr(getattr(theirs, group), name), value, rtol=1e-9, err_msg=name)


def test_committed_file_is_small_and_equals_the_simulation(session):
    """Up to the last bit of exp or sin on another platform, which may move a spike or a rounded velocity, or two."""
    assert FILE.stat().st_size < 3e6
    ours, theirs = session.recording, load_recording(FILE)
    for name in ("session_id", "behavior_unit", "notes", "trials", "behavior_times", "unit_ids"):
        np.testing.assert_array_equal(getattr(ours, name), getattr(theirs, name))
    spikes = [set(zip(r.spike_times.tolist(), r.spike_units.tolist(), strict=True)) for r in (ours, theirs)]
    assert len(spikes[0] & spikes[1]) >= 0.999 * len(spikes[0] | spikes[1])
    np.testing.assert_allclose(ours.behavior, theirs.behavior, rtol=0, atol=1 / 8)
    assert np.mean(ours.behavior == theirs.behavior) >= 0.999
    assert_same_truth(session.truth, load_ground_truth(FILE))


def test_a_session_is_read_back_bit_for_bit(tmp_path):
    ours = simulate_session(5, SHORT)
    save_session(ours, tmp_path / "s.npz")
    theirs = load_recording(tmp_path / "s.npz")
    for name, value in vars(ours.recording).items():
        np.testing.assert_array_equal(getattr(theirs, name), value, err_msg=name)
    assert_same_truth(ours.truth, load_ground_truth(tmp_path / "s.npz"))


def test_units_can_be_passed():
    """The same units on another day; and other units during the same movements."""
    monday = simulate_session(1, SHORT)
    tuesday = simulate_session(2, SHORT, monday.truth.units)
    assert tuesday.truth.units is monday.truth.units
    assert not np.array_equal(tuesday.recording.trials, monday.recording.trials)
    fewer = simulate_session(1, SHORT, draw_units(np.random.default_rng(0), replace(SHORT, n_units=3)))
    assert fewer.recording.n_units == fewer.truth.config.n_units == 3
    np.testing.assert_array_equal(fewer.recording.behavior, monday.recording.behavior)


def test_rates_of_all_units_equal_the_formula_of_each(session, rng):
    units = session.truth.units
    position, velocity, common = (rng.normal(0, s, (7, n, w)) for s, n, w in ((50, 120, 2), (200, 120, 2), (1, 1, 3)))
    together = firing_rate(units, slice(None), position, velocity, common)
    for unit in range(120):
        p, v, ceiling = position[:, unit], velocity[:, unit], units.saturation_hz[unit]
        turned = units.preferred_direction_rad[unit] + p @ units.turning_rad_per_mm[unit]
        speed, heading = np.abs(v @ [1, 1j]), np.angle(v @ [1, 1j])
        drive = units.depth_s_per_mm[unit] * speed * np.cos(heading - turned) + units.speed_gain_s_per_mm[unit] * speed
        drive += p @ units.position_gain_per_mm[unit] + common[:, 0] @ units.common_gain[unit]
        expected = ceiling / (1 + (ceiling / units.baseline_hz[unit] - 1) * np.exp(-drive))
        np.testing.assert_allclose(together[:, unit], expected, rtol=1e-12)
        np.testing.assert_allclose(firing_rate(units, unit, p, v, common[:, 0]), expected, rtol=1e-12)
    assert (np.ptp(firing_rate(units, slice(None), position, velocity), axis=0) < 1e-9).tolist() == (
        ~units.tuned
    ).tolist()


def test_refractory_period_is_never_violated(session):
    order = np.lexsort((session.recording.spike_times, session.recording.spike_units))
    same_unit = np.diff(session.recording.spike_units[order]) == 0
    assert np.diff(session.recording.spike_times[order])[same_unit].min() >= session.truth.config.refractory_s
    assert block_refractory(np.array([0, 9, 10, 18, 25, 35]), 10).tolist() == [0, 10, 25, 35]


def test_counts_follow_the_rate(session):
    """Expected count: the integral of rate / (1 + rate * dead time), as the rate hardly changes within the latter."""
    recording, truth = session.recording, session.truth
    times = np.arange(0, recording.span[1], 0.01)
    grid = np.arange(len(truth.common)) / truth.config.common_rate_hz
    common = np.stack([np.interp(times, grid, z) for z in truth.common.T], axis=-1)
    z = []
    for unit in range(recording.n_units):
        rate = firing_rate(truth.units, unit, *hand_at(truth.reaches, times + truth.units.lag_s[unit]), common)
        expected = np.sum(rate / (1 + 66 / 2**15 * rate)) * 0.01
        z.append((np.sum(recording.spike_units == unit) - expected) / np.sqrt(expected))
    assert 0.7 < np.std(z) < 1.2 and abs(np.mean(z)) < 0.3


def test_spikes_lead_the_hand_by_their_lag():
    """The cross-correlation of spikes with velocity in the preferred direction peaks one lag after the spikes."""
    config = SimulationConfig(n_trials=80, n_units=6, untuned_share=0, turning_deg=0, common_turning_deg=0, depth=1.0)
    units = draw_units(np.random.default_rng(0), config)
    units = replace(units, lag_s=np.array([0.0, 0.04, 0.08, 0.12, 0.16, 0.2]), baseline_hz=np.full(6, 10.0))
    recording = simulate_session(0, config, units).recording
    leads = np.arange(-0.2, 0.4, 0.01)
    for unit, direction in enumerate(units.preferred_direction_rad):
        along = recording.behavior @ [np.cos(direction), np.sin(direction)]
        spikes = recording.spike_times[recording.spike_units == unit]
        score = [np.interp(spikes + lead, recording.behavior_times, along).mean() for lead in leads]
        assert leads[np.argmax(score)] == pytest.approx(units.lag_s[unit], abs=0.035)


def test_wiener_filter_scores_as_documented(session):
    """A Wiener filter, ridge on 10 bins of 50 ms of root counts, scores the value in the datasheet."""
    prepared = prepare(session.recording)
    assert evaluate(fit_wiener(prepared), prepared).r2 == pytest.approx(0.666, abs=0.005)


def print_datasheet():
    """The figures of data/README.md, in its order."""
    recording, truth = load_recording(FILE), load_ground_truth(FILE)
    length, reaches, units = np.diff(recording.trials), truth.reaches, truth.units
    moving, rate = reaches.stop_s - reaches.start_s, np.bincount(recording.spike_units) / recording.span[1]
    print(recording.span, len(length), length.min(), length.max())
    print(np.sum(~reaches.random_target), np.sum(reaches.random_target))
    print(len(moving), moving.mean(), np.hypot(*recording.behavior.T).max(), 1 - moving.sum() / recording.span[1])
    print(recording.n_units, units.tuned.sum())
    print(len(recording.spike_times), rate.mean(), np.median(rate), rate.min(), rate.max())
    print(units.baseline_hz.mean())
    print(units.lag_s.mean(), units.lag_s.std(), units.lag_s.min(), units.lag_s.max())
    print(FILE.stat().st_size / 1e6, "MB")
    easier = [{"turning_deg": 0, "common_turning_deg": 0}, {"saturation_hz": 400}, {"shared_gain": 0}]
    for seed, change in [(0, {}), (1, {}), (2, {}), (3, {}), *((0, change) for change in easier)]:
        prepared = prepare(simulate_session(seed, SimulationConfig(**change)).recording)
        print(seed, change, round(evaluate(fit_wiener(prepared), prepared).r2, 3))


if __name__ == "__main__":
    print_datasheet()
