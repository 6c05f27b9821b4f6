"""Bins, ragged and padded batches."""

import numpy as np
import pytest
import torch

from possm_lite.recordings import SpikeBatch
from possm_lite.recordings.batch import bin_index, count_bins


def random_events(rng, n=300, n_trials=3, n_units=5, duration=1.0):
    return rng.integers(0, n_trials, n), rng.integers(1, n_units + 1, n), rng.random(n) * duration


def test_counts_and_offsets_are_those_of_the_events(rng):
    trial, unit, time = random_events(rng)
    batch = SpikeBatch.from_events(trial, unit, time, 3, 1.0)
    real = batch.unit > 0
    rebuilt = batch.offset + 0.05 * (batch.bin % 20).to(torch.float64)
    np.testing.assert_allclose(np.sort(rebuilt[real]), np.sort(time), rtol=0, atol=1e-15)
    assert batch.offset.min() >= 0 and batch.offset.max() < 0.05
    ours = np.zeros((60, 5), int)
    np.add.at(ours, (batch.bin[real], batch.unit[real] - 1), 1)
    edges = np.arange(21) * 0.05
    for i in range(3):
        mine = trial == i
        expected = np.histogram2d(time[mine], unit[mine], bins=[edges, np.arange(1, 7)])[0]
        np.testing.assert_array_equal(ours[20 * i : 20 * i + 20], expected)


@pytest.mark.parametrize(("duration", "expected"), [(1.0, 20), (0.15, 3), (0.3, 6), (0.7, 14), (0.71, 15), (0.01, 1)])
def test_no_extra_bin_for_an_exact_multiple(duration, expected):
    assert count_bins(duration, 0.05) == expected


def test_time_on_an_edge_is_in_later_bin():
    edges = np.arange(200_000) * 0.05  # many of them fall just below k * 0.05 in floating point
    assert (np.floor(edges / 0.05) != np.arange(200_000)).any()
    np.testing.assert_array_equal(bin_index(edges, 0.05), np.arange(200_000))


def test_an_empty_bin_has_one_blank_token():
    batch = SpikeBatch.from_events([0, 0], [2, 2], [0.02, 0.12], 2, [0.2, 0.1])
    np.testing.assert_array_equal(batch.bin, [0, 1, 2, 3, 4, 5])
    np.testing.assert_array_equal(batch.unit, [2, 0, 2, 0, 0, 0])
    assert (batch.offset[batch.unit == 0] == 0).all()
    assert batch.n_spikes == 2


def test_a_padded_batch_has_the_same_tokens(rng):
    batch = SpikeBatch.from_events(*random_events(rng, duration=0.4), 3, [0.4, 0.5, 0.7])
    padded = batch.padded()
    assert padded.padded_bin.shape == (3, 14, int(padded.spike_mask.sum(-1).max()), 2)
    np.testing.assert_array_equal(padded.bin_mask, np.arange(14) < np.array([[8], [10], [14]]))
    tokens = padded.padded_bin[padded.spike_mask]  # trials, bins, slots in order: the ragged order
    np.testing.assert_array_equal(tokens, np.stack([batch.unit, batch.offset], -1))
    np.testing.assert_array_equal(padded.spike_mask.sum(-1)[padded.bin_mask], np.bincount(batch.bin))
    assert padded.spike_mask[..., 0].equal(padded.bin_mask) and padded.behavior is None


def test_a_blank_token_ends_every_bin():
    batch = SpikeBatch.from_events([0, 0, 0], [2, 3, 4], [0.02, 0.01, 0.12], 1, 0.15).with_blanks()
    assert batch.unit.tolist() == [2, 3, 0, 0, 0, 4, 0] and batch.bin.tolist() == [0, 0, 0, 1, 1, 2, 2]
    assert (batch.offset == 0).tolist() == [False, False, True, True, True, False, True]


@pytest.mark.parametrize(
    "event", [(-1, 1, 0.1), (0, 0, 0.1), (0, 1, np.nan), (0, 1, np.inf), (0, 1, 1.0), (0, 1, -0.1)], ids=str
)
def test_an_invalid_event_is_refused(event):
    events = zip((0, 1, 0.5), event, strict=True)
    with pytest.raises(ValueError, match="spike 1 has"):
        SpikeBatch.from_events(*events, 3, 1.0)


def with_samples_at(batch, *times_s):
    """The batch with a velocity of (t, -t) at each time, the same times in every trial."""
    times = torch.tensor(times_s, dtype=torch.float64).expand(batch.n_trials, -1)
    return batch.with_targets(times, torch.stack([times, -times], -1))


def test_concatenated_batches_keep_the_order_of_trials():
    """Trials of different lengths, with different numbers of samples; units of the second counted on from the first."""
    one = with_samples_at(SpikeBatch.from_events([0, 1], [1, 2], [0.01, 0.06], 2, 0.1), 0.02)
    other = with_samples_at(SpikeBatch.from_events([0], [1], [0.12], 1, 0.15).offset_units(3), 0.03, 0.13)
    both = SpikeBatch.concatenate([one, other])
    assert both.unit.tolist() == [1, 0, 0, 2, 0, 0, 3]
    assert both.bin.tolist() == [0, 1, 2, 3, 4, 5, 6] and both.n_bins.tolist() == [2, 2, 3]
    assert both.mask.tolist() == [[True, False], [True, False], [True, True]]
    assert both.times_s[both.mask].tolist() == pytest.approx([0.02, 0.02, 0.03, 0.13])
    assert both.behavior[both.mask][:, 1].tolist() == pytest.approx([-0.02, -0.02, -0.03, -0.13])
    assert both.with_samples([1]).times_s.tolist() == pytest.approx(np.array([[0.0], [0.0], [0.13]]))
