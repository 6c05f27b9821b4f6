"""The decoders of binned counts: counts, closed forms, causality, streams."""

import numpy as np
import pytest
import torch

from possm_lite.decoder import baselines
from possm_lite.decoder.baselines import BinnedStream, KalmanFilter, WienerFilter, bin_counts
from possm_lite.recordings import SpikeBatch

from .helpers import ONE, make_batch, make_bins, one_trial, randomize

N_UNITS, N_SLOTS = 8, 5
KINDS = ["BinnedGRU", "BinnedMLP", "WienerFilter", "KalmanFilter"]


def make_decoder(kind):
    return randomize(getattr(baselines, kind)(N_UNITS, 0.05, N_SLOTS), torch.float32)


def simulate_linear(rng, n_bins=3000, n_units=12):
    """Velocity that drifts and counts that are its noisy linear observation: the model of a Kalman filter."""
    transition, image = np.array([[0.95, 0.05], [-0.05, 0.9]]), rng.normal(size=(n_units, 2))
    velocity = np.zeros((n_bins, 2))
    for t in range(1, n_bins):
        velocity[t] = transition @ velocity[t - 1] + 0.3 * rng.normal(size=2)
    counts = velocity @ image.T + 2.0 + rng.normal(size=(n_bins, n_units))
    return counts.astype(np.float32), velocity[:, None]  # one slot a bin


def test_counts_are_a_histogram(rng):
    durations = (1.0, 0.7, 0.9, 1.2)
    trial = rng.integers(0, 4, 400)
    unit, time = rng.integers(1, N_UNITS + 1, 400), rng.random(400) * np.array(durations)[trial]
    counts = bin_counts(SpikeBatch.from_events(trial, unit, time, 4, durations), N_UNITS)
    assert counts.shape == (4, 24, N_UNITS) and counts.sum() == 400
    edges, units = np.arange(25) * 0.05, np.arange(N_UNITS + 1) + 0.5
    for i in range(4):
        expected = np.histogram2d(time[trial == i], unit[trial == i], bins=[edges, units])[0]
        np.testing.assert_array_equal(counts[i], expected)


@pytest.mark.parametrize("n_missing", [1, 100])  # few: such bins are left out; many: each slot has its own bins
def test_wiener_is_the_ridge_regression_of_scikit_learn(rng, n_missing):
    linear_model = pytest.importorskip("sklearn.linear_model")
    segments = [np.sqrt(rng.poisson(1.0, (n, N_UNITS))).astype(np.float32) for n in (150, 220)]
    velocity = [rng.normal(size=(len(x), N_SLOTS, 2)) + 3.0 for x in segments]
    velocity[0][17 : 17 + n_missing, 2] = np.nan
    model = WienerFilter(N_UNITS, 0.05, N_SLOTS, n_history=4)
    lagged = [[np.pad(c, ((j, 0), (0, 0)))[: len(c)] for j in (3, 2, 1, 0)] for c in segments]
    x = np.concatenate([np.concatenate(bins, 1) for bins in lagged])
    y = np.concatenate(velocity).reshape(len(x), -1)
    known = np.isfinite(y) if n_missing > 1 else np.isfinite(y).all(1)[:, None] & np.ones(y.shape, bool)
    for ridge, (weight, offset) in zip((1.0, 300.0), model.solve(segments, velocity, (1.0, 300.0)), strict=True):
        model.weight.data, model.offset.data = weight, offset
        decoded = model.decode_counts(torch.from_numpy(segments[0])[None])[0].reshape(150, -1)
        for i, rows in enumerate(known.T):
            theirs = linear_model.Ridge(alpha=ridge).fit(x[rows], y[rows, i])
            np.testing.assert_allclose(weight[:, i], theirs.coef_, rtol=0, atol=1e-4)
            np.testing.assert_allclose(offset[i], theirs.intercept_, rtol=0, atol=1e-4)
            np.testing.assert_allclose(decoded[:, i], theirs.predict(x[:150]), rtol=0, atol=1e-4)


def test_kalman_converges_to_the_time_varying_filter(rng):
    counts, velocity = simulate_linear(rng)
    model = KalmanFilter(counts.shape[1])
    model.solve([counts], [velocity])
    decoded = model.decode_counts(torch.from_numpy(counts)[None])[0, :, 0].numpy()
    # the textbook's filter: covariance and gain of every bin, from the maximum-likelihood estimates
    v, n = velocity[:, 0], counts.astype(np.float64)
    a = np.linalg.lstsq(v[:-1], v[1:], rcond=None)[0].T
    w = np.cov((v[1:] - v[:-1] @ a.T).T)
    design = np.c_[v, np.ones(len(v))]
    h = np.linalg.lstsq(design, n, rcond=None)[0].T
    q = np.cov((n - design @ h.T).T)
    state, covariance, expected = np.zeros(2), np.eye(2), np.empty_like(v)
    for t in range(len(n)):
        state, covariance = a @ state, a @ covariance @ a.T + w
        gain = covariance @ h[:, :2].T @ np.linalg.inv(h[:, :2] @ covariance @ h[:, :2].T + q)
        state = state + gain @ (n[t] - h[:, 2] - h[:, :2] @ state)
        covariance = (np.eye(2) - gain @ h[:, :2]) @ covariance
        expected[t] = state
    np.testing.assert_allclose(model.gain, gain, rtol=0, atol=1e-5)
    np.testing.assert_allclose(decoded[50:], expected[50:], rtol=0, atol=1e-4)
    assert ((decoded - v) ** 2).sum() < 0.3 * (v**2).sum()


@pytest.mark.filterwarnings("error")
def test_kalman_leaves_out_a_bin_without_behaviour(rng):
    counts, velocity = simulate_linear(rng, 300)
    velocity[100] = np.nan
    with_gap, in_parts = KalmanFilter(counts.shape[1]), KalmanFilter(counts.shape[1])
    with_gap.solve([counts], [velocity])
    in_parts.solve([counts[:100], counts[101:]], [velocity[:100], velocity[101:]])
    np.testing.assert_allclose(with_gap.gain, in_parts.gain, rtol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_a_spike_changes_only_what_follows(rng, kind):
    model, unit, time = make_decoder(kind), rng.integers(1, N_UNITS + 1, 60), rng.random(60)
    times = torch.arange(0, 1, 0.01, dtype=torch.float64)[None]
    with torch.no_grad():
        before = model(one_trial(unit, time), times, ONE)[0]
        after = model(one_trial(np.r_[unit, 3], np.r_[time, 0.52]), times, ONE)[0]
    assert torch.equal(before[:50], after[:50])  # the bin of the spike begins at 0.50 s
    assert (before[50:55] - after[50:55]).abs().max() > 1e-5


@pytest.mark.parametrize("kind", KINDS)
def test_velocity_is_that_of_its_slot(rng, kind):
    model, batch = make_decoder(kind), make_batch(rng)
    times = torch.tensor([[0.0, 0.0099, 0.01, 0.15, 0.3, 0.699]], dtype=torch.float64).expand(4, -1)
    session = torch.ones(4, dtype=torch.int64)
    with torch.no_grad():
        velocity = model(batch, times, session)
        slots = model.decode_counts(bin_counts(batch, N_UNITS).sqrt())
    expected = slots[:, [0, 0, 0, 3, 6, 13], [0, 0, 1, 0, 0, 4]]
    torch.testing.assert_close(velocity, expected * torch.tensor([3.0, 0.5]) + torch.tensor([1.0, -2.0]))
    with pytest.raises(ValueError, match="session must lie in 1..1"):
        model(batch, times, 2 * session)


@pytest.mark.parametrize("kind", ["WienerFilter", "BinnedGRU"])
def test_streaming_equals_batch_on_every_bin(rng, kind):
    model, (bins, batch) = make_decoder(kind), make_bins(rng)
    times = torch.arange(len(bins) * N_SLOTS, dtype=torch.float64)[None] * (0.05 / N_SLOTS)
    with torch.no_grad():
        expected = model(batch, times, ONE)[0]
    stream = BinnedStream(model)
    for _ in range(2):  # the second time after a reset
        at, velocity = (np.concatenate(x) for x in zip(*[stream.step(*spikes) for spikes in bins], strict=True))
        np.testing.assert_allclose(at, times[0], rtol=0, atol=1e-9)
        np.testing.assert_allclose(velocity, expected, rtol=0, atol=1e-4)
        stream.reset()


def test_units_and_bins_of_another_decoder_are_refused():
    """They would be counted silently, as those of another unit or time."""
    model, time = make_decoder("BinnedGRU"), torch.tensor([[0.01]], dtype=torch.float64)
    for unit, width_s in ((N_UNITS + 1, 0.05), (1, 0.02)):
        with pytest.raises(ValueError):
            model(SpikeBatch.from_events([0], [unit], [0.01], 1, 0.1, width_s), time, ONE)
