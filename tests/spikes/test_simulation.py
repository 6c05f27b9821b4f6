"""The simulated session: tuning, spikes, difficulty, and the file in data/."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import kstest

from possm_lite.errors import RecordingError
from possm_lite.spikes.io import load_recording
from possm_lite.spikes.simulation.neurons import (
    SimulationConfig,
    block_refractory,
    draw_common,
    draw_units,
    firing_rate,
)
from possm_lite.spikes.simulation.reaches import hand_at
from possm_lite.spikes.simulation.session import load_ground_truth, save_session, simulate_session
from possm_lite.training.baselines import fit_wiener
from possm_lite.training.evaluate import evaluate
from possm_lite.training.session import prepare

FILE = Path(__file__).parents[2] / "data" / "simulated_session.npz"
SHORT = SimulationConfig(n_trials=6, n_units=8)


@pytest.fixture(scope="module")
def session():
    """The session in data/, simulated again; the first test shows that the two are equal."""
    return simulate_session()


@pytest.fixture
def rng():
    return np.random.default_rng(3)


def leading_counts(session, unit, bin_s):
    """Counts of a unit in bins that all lead the hand by its lag, and position and velocity in the middle of each."""
    recording, truth = session.recording, session.truth
    edges = np.arange(0, recording.span[1], bin_s)
    counts = np.histogram(recording.spike_times[recording.spike_units == unit], edges)[0]
    return counts, *hand_at(truth.reaches, edges[:-1] + bin_s / 2 + truth.units.lag_s[unit])


def regress(counts, velocity):
    """Slopes of counts on velocity x and y, apart from speed, and how many standard errors each is from zero."""
    design = np.column_stack([velocity, np.hypot(*velocity.T), np.ones(len(counts))])
    slope, residual, *_ = np.linalg.lstsq(design, counts, rcond=None)
    error = np.sqrt(residual[0] / (len(counts) - 4) * np.diag(np.linalg.inv(design.T @ design)))
    return slope[:2], (slope / error)[:2]


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
    for name in ("session_id", "behavior_unit", "notes"):
        assert getattr(ours, name) == getattr(theirs, name)
    for name in ("trials", "behavior_times", "unit_ids"):
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
    truth = load_ground_truth(tmp_path / "s.npz")
    np.testing.assert_array_equal(truth.units.turning_rad_per_mm, ours.truth.units.turning_rad_per_mm)
    np.testing.assert_array_equal(truth.common, ours.truth.common)
    assert_same_truth(ours.truth, truth)


def test_a_recording_without_truth_is_refused(tmp_path):
    path = tmp_path / "real.npz"
    simulate_session(5, SHORT).recording.save(path)
    with pytest.raises(RecordingError, match=r"real\.npz: lacks truth_config"):
        load_ground_truth(path)


def test_seed_determines_the_session():
    first, again, other = (simulate_session(seed, SHORT) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first.recording.spike_times, again.recording.spike_times)
    np.testing.assert_array_equal(first.recording.behavior, again.recording.behavior)
    assert not np.array_equal(first.recording.trials, other.recording.trials)
    assert not np.array_equal(first.truth.units.lag_s, other.truth.units.lag_s)


def test_units_can_be_passed():
    """The same units on another day; and other units during the same movements."""
    monday = simulate_session(1, SHORT)
    tuesday = simulate_session(2, SHORT, monday.truth.units)
    assert tuesday.truth.units is monday.truth.units
    assert not np.array_equal(tuesday.recording.trials, monday.recording.trials)
    fewer = simulate_session(1, SHORT, draw_units(np.random.default_rng(0), replace(SHORT, n_units=3)))
    assert fewer.recording.n_units == fewer.truth.config.n_units == 3
    np.testing.assert_array_equal(fewer.recording.behavior, monday.recording.behavior)


def test_baseline_rates_are_log_normal(rng, session):
    rates = draw_units(rng, SimulationConfig(n_units=5000)).baseline_hz
    assert rates.mean() == pytest.approx(5, rel=0.05)
    assert kstest(np.log(rates), "norm", args=(np.log(5) - 0.32, 0.8)).pvalue > 0.01
    assert session.truth.units.baseline_hz.mean() == pytest.approx(5, rel=0.15)


def test_rate_is_baseline_at_rest_and_saturates(session, rng):
    """At wild speeds a tuned unit falls silent or goes up, by its baseline or more, and most come to their ceiling."""
    units, rest, nearest = session.truth.units, np.zeros((1, 2)), []
    for unit in range(len(units.tuned)):
        assert firing_rate(units, unit, rest, rest)[0] == pytest.approx(units.baseline_hz[unit])
        wild = firing_rate(units, unit, rng.normal(0, 100, (500, 2)), rng.normal(0, 2000, (500, 2)))
        assert wild.max() <= units.saturation_hz[unit]
        nearest.append(wild.max() / units.saturation_hz[unit])
        assert np.ptp(wild) > units.baseline_hz[unit] if units.tuned[unit] else np.ptp(wild) < 1e-9
    assert np.mean(np.array(nearest)[units.tuned] > 0.99) > 0.8


def test_refractory_period_is_never_violated(session):
    order = np.lexsort((session.recording.spike_times, session.recording.spike_units))
    same_unit = np.diff(session.recording.spike_units[order]) == 0
    assert np.diff(session.recording.spike_times[order])[same_unit].min() >= session.truth.config.refractory_s


@pytest.mark.parametrize("n", [0, 1, 3000])
def test_block_refractory_equals_a_loop(rng, n):
    ticks, kept = np.sort(rng.integers(20_000, size=n)), []
    for tick in ticks:
        if not kept or tick - kept[-1] >= 10:
            kept.append(tick)
    np.testing.assert_array_equal(block_refractory(ticks, 10), kept)


def test_rates_of_all_units_equal_those_of_each(session, rng):
    units, n = session.truth.units, len(session.truth.units.tuned)
    position, velocity, common = (rng.normal(0, s, (7, n, w)) for s, w in ((50, 2), (200, 2), (1, 3)))
    together = firing_rate(units, slice(None), position, velocity, common[:, :1])
    alone = [firing_rate(units, u, position[:, u], velocity[:, u], common[:, 0]) for u in range(n)]
    np.testing.assert_allclose(together, np.stack(alone, 1), rtol=1e-12)


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


def test_preferred_directions_rotate_with_position(session):
    """Regression in the middle, and right and left of it, finds the direction that the truth has there."""
    units = session.truth.units
    strongest = np.argsort(-units.depth_s_per_mm * units.baseline_hz)[:24]
    for low, high in ((-25, 25), (-100, -40), (40, 100)):
        misses = []
        for unit in strongest:
            counts, position, velocity = leading_counts(session, unit, 0.05)
            here = (position[:, 0] > low) & (position[:, 0] < high) & (np.abs(position[:, 1]) < 40)
            slope, _ = regress(counts[here], velocity[here])
            center = np.array([position[here, 0].mean(), 0.0])
            true = units.preferred_direction_rad[unit] + units.turning_rad_per_mm[unit] @ center
            misses.append(np.angle(np.exp(1j * (np.arctan2(slope[1], slope[0]) - true))))
        assert np.degrees(np.median(np.abs(misses))) < 15  # by chance 90, to the sides 25 without turning


def test_untuned_units_do_not_depend_on_velocity(session):
    tuned = session.truth.units.tuned
    z = [regress(*leading_counts(session, unit, 0.05)[::2])[1] for unit in range(len(tuned))]
    strength = np.abs(z).max(axis=1)
    assert 0.1 < np.mean(~tuned) < 0.2
    assert strength[~tuned].max() < 4.5 and np.median(strength[tuned]) > 8


def test_common_fluctuations_have_their_variance_and_time(rng):
    config = SimulationConfig(common_time_s=0.5)
    z = draw_common(rng, 20_000, config)
    assert z.shape == (400_001, 3)
    np.testing.assert_allclose(z.var(axis=0), 1, atol=0.05)
    np.testing.assert_allclose((z[10:] * z[:-10]).mean(axis=0), np.exp(-1), atol=0.05)  # 10 rows are 0.5 s
    many = draw_common(rng, 1, replace(config, n_common=5000))
    np.testing.assert_allclose(many.var(axis=1), 1, atol=0.1)  # from the first row on


def test_common_fluctuations_affect_spikes_without_lag():
    config = SimulationConfig(n_trials=60, n_units=20, untuned_share=1, n_common=1, common_time_s=0.3)
    units = draw_units(np.random.default_rng(0), config)
    session = simulate_session(0, config, replace(units, common_gain=np.ones((20, 1))))
    rows = np.arange(len(session.truth.common)) / config.common_rate_hz  # 0.05 s apart
    counts = np.histogram(session.recording.spike_times, rows + 0.025)[0]  # around rows 1, 2, ...
    score = [np.corrcoef(np.roll(counts, shift), session.truth.common[1:, 0])[0, 1] for shift in range(-5, 6)]
    assert np.argmax(score) == 5 and max(score) > 0.7


def test_shared_gain_modulates_all_units_together():
    """All of them fire more when the first fluctuation is high than when it is low; without it, some fire less."""
    config = SimulationConfig(n_trials=60, n_units=20, untuned_share=1, baseline_spread=0)
    lonely = replace(config, shared_gain=0)
    grown = [draw_units(np.random.default_rng(0), c).common_gain for c in (config, lonely)]
    np.testing.assert_allclose(grown[0] - grown[1], [[0.75, 0, 0]] * 20)
    times_more = []
    for session in (simulate_session(0, config), simulate_session(0, lonely)):
        recording, first = session.recording, session.truth.common[:, 0]
        row = np.round(recording.spike_times * config.common_rate_hz).astype(int)  # the nearest one to each spike
        counts = np.zeros((20, len(first)))
        np.add.at(counts, (recording.spike_units, row), 1)
        times_more.append(counts[:, first > 1].mean(axis=1) / counts[:, first < -1].mean(axis=1))
    together, alone = times_more
    assert together.min() > 2.5
    assert alone.min() < 1 < alone.max() < 2


def test_shared_gain_needs_a_common_fluctuation():
    session = simulate_session(5, replace(SHORT, n_common=0))
    assert session.truth.common.shape[1] == 0
    quiet = simulate_session(5, replace(SHORT, n_common=0, shared_gain=0))
    np.testing.assert_array_equal(session.recording.spike_times, quiet.recording.spike_times)


def test_wiener_filter_scores_as_documented(session):
    """A Wiener filter, ridge on 10 bins of 50 ms of root counts, scores the value in the datasheet."""
    prepared = prepare(session.recording)
    r2 = evaluate(fit_wiener(prepared), prepared).r2
    assert 0.65 < r2 < 0.80
    assert r2 == pytest.approx(0.666, abs=0.005)
