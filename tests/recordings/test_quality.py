"""Planted defects of a recording are found, and clean units are not flagged."""

from dataclasses import replace

import numpy as np
import pytest

from possm_course.chapters.ch17 import measures
from possm_lite.recordings import Recording, quality

SECONDS = 300.0
BEHAVIOR_TIMES = np.arange(0, SECONDS, 0.01)


def poisson(rng, rate_hz, refractory_s=0.003) -> np.ndarray:
    """Times of a unit that is silent for `refractory_s` after each spike and has this rate all the same."""
    steps = rng.exponential(1 / rate_hz - refractory_s, int(2 * rate_hz * SECONDS) + 20) + refractory_s
    times = np.cumsum(steps)
    return times[times < SECONDS]


def recording_of(trains, behavior_times=BEHAVIOR_TIMES) -> Recording:
    return Recording.from_trains(trains, behavior_times, np.sin(behavior_times))


@pytest.fixture
def trains(rng):
    return [poisson(rng, rate) for rate in (0.5, 2, 5, 5, 10, 20, 40, 60)]


def test_clean_units_are_not_flagged(trains):
    recording = recording_of(trains)
    for measure in (quality.contaminated_units, quality.duplicated_units, quality.silent_units, quality.behavior_gaps):
        assert len(measure(recording)) == 0
    np.testing.assert_array_equal(quality.isi_violations(recording), 0)


def test_more_than_one_lost_sample_is_a_gap(trains):
    times = np.delete(recording_of(trains).behavior_times, [10, 20, 21])
    gaps = quality.behavior_gaps(replace(recording_of(trains), behavior_times=times, behavior=np.sin(times)[:, None]))
    np.testing.assert_array_equal(gaps, [times[[18, 19]]])


def test_rates_are_spikes_per_second_and_silent_units_are_found(trains):
    recording = recording_of([*trains, np.empty(0), np.array([10.0, 200.0])])
    assert quality.recording_duration(recording) == pytest.approx(SECONDS, abs=0.1)
    rates = [*(len(t) / SECONDS for t in trains), 0, 2 / SECONDS]
    np.testing.assert_allclose(quality.firing_rates(recording), rates, rtol=1e-3)
    assert quality.silent_units(recording).tolist() == [8, 9]  # one without spikes, one with two in five minutes


@pytest.mark.parametrize("foreign", [0.15, 0.3, 0.45])
def test_contamination_is_found_and_estimated(trains, rng, foreign):
    own = poisson(rng, 30)
    recording = recording_of([*trains, np.sort(np.r_[own, poisson(rng, 30 * foreign / (1 - foreign))])])
    assert quality.contaminated_units(recording).tolist() == [8]
    f = quality.contamination_rate(recording)[8]
    assert f == pytest.approx(foreign, abs=0.1)
    poisson_share = 1 - np.exp(-0.002 * quality.firing_rates(recording)[8])
    if f < 0.5:  # else there is no solution
        assert 2 * f * (1 - f) == pytest.approx(quality.isi_violations(recording)[8] / poisson_share)


def test_violations_equal_a_loop(trains, rng):
    recording = recording_of([np.sort(rng.uniform(0, 10, 500)) for _ in range(3)])
    for unit, share in enumerate(quality.isi_violations(recording, 0.004)):
        own = recording.spike_times[recording.spike_units == unit]
        assert share == pytest.approx(np.mean(np.diff(own) < 0.004))
    on_the_clock = recording_of([0.001 * np.arange(0, 20_000, 2)])  # intervals of 2 ms, but for rounding
    assert quality.isi_violations(on_the_clock).tolist() == [0.0]


def test_coincidences_equal_a_loop(rng):
    trains, others = [np.sort(rng.uniform(0, 3, n)) for n in (60, 90, 0, 40)], 1 - np.eye(4)
    recording = recording_of(trains)
    count, expected = quality.coincidences(recording, 0.005)
    near = [[(np.abs(a[:, None] - b) <= 0.005).sum() for b in trains] for a in trains]
    np.testing.assert_array_equal(count, near * others)
    n = np.outer(*2 * [[60, 90, 0, 40]]) * others
    np.testing.assert_allclose(expected, n * 0.01 / quality.recording_duration(recording))


def test_correlograms_are_of_all_pairs_and_have_the_closed_forms(rng):
    correlogram, edges = measures.correlogram, np.arange(-20, 21) / 1000  # s
    a, b = (np.sort(rng.uniform(0, 3, n)) for n in (80, 120))
    assert correlogram(a, b, edges).tolist() == np.histogram(b - a[:, None], edges)[0].tolist()
    a, b = (np.sort(rng.uniform(0, SECONDS, n)) for n in (20_000, 5_000))
    for one, other in ((a, b), (a, a)):  # independent, (17.4); an autocorrelogram has each pair twice
        expected = len(one) * len(other) * 0.001 / SECONDS
        np.testing.assert_allclose(correlogram(one, other, edges), expected, atol=5 * np.sqrt(2 * expected))
    own, foreign = poisson(rng, 30), poisson(rng, 20)
    assert correlogram(own, own, edges)[17:23].sum() == 0  # refractory
    both, copy = np.sort(np.r_[own, foreign]), np.sort(own + rng.normal(0, 0.0002, len(own)))
    notch = correlogram(both, both, edges)[17:23]
    assert notch.mean() == pytest.approx(2 * len(own) * len(foreign) * 0.001 / SECONDS, rel=0.1)
    assert correlogram(own, copy, edges)[19:21].sum() > 0.99 * len(own)


def test_a_duplicated_unit_is_found(trains, rng):
    original = trains[4]
    kept = original[rng.random(len(original)) < 0.6]
    copy = np.clip(np.sort(kept + rng.normal(0, 0.0002, len(kept))), 0, SECONDS)
    recording = recording_of([*trains, copy])
    assert quality.duplicated_units(recording).tolist() == [[4, 8]]
    share = quality.coincidence_share(np.array([[0, 3], [3, 0]]), np.array([4, 6]))
    np.testing.assert_array_equal(share, [[0, 0.75], [0.75, 0]])
    # of four spikes two coincide with a busy unit: a share of a half, by chance
    busy = poisson(rng, 60)
    sparse = np.array([busy[100], busy[900], busy[50] + 0.008, busy[2000] + 0.008])
    assert quality.duplicated_units(recording_of([busy, sparse])).tolist() == []


def test_a_coarse_clock_is_found(trains):
    recording = recording_of(trains)
    for tick_s in (0.001, 0.01, 0.05):
        coarse = replace(recording, spike_times=np.floor(recording.spike_times / tick_s) * tick_s)
        assert 0.5 * tick_s < quality.clock_resolution(coarse) < 2.5 * tick_s
        assert quality.times_are_resolved(coarse) == (tick_s < 0.005)
    by_hand = recording_of([np.array([1.0, 2.0, 3.0, 4.0, 6.0])])  # 6 of 12 pairs of intervals are equal, mean 1.25 s
    assert quality.clock_resolution(by_hand, fewest=4) == pytest.approx(1.25)
    counts = np.stack([np.histogram(t, np.arange(0, SECONDS + 0.05, 0.05))[0] for t in trains], axis=1)
    assert not quality.times_are_resolved(Recording.from_counts(counts, 0.05))
