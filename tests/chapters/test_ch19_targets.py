"""Trials, counts and classifiers of eight targets, beside chapter 19."""

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from possm_course.chapters.ch19 import targets
from possm_course.stored import result

TEST = slice(479, 599)


@pytest.fixture(scope="module")
def session():
    return targets.simulate()


@pytest.fixture(scope="module")
def test_part(session):
    """Counts, mean counts and true targets of the test trials."""
    truth, recording = session
    names = np.array(recording.classes)[recording.trial_labels[TEST]]
    y = np.array([targets.NAMES.index(name) for name in names])
    return targets.count_spikes(recording)[TEST], targets.expected_counts(truth, recording.trials[TEST]), y


def test_counts_are_those_of_a_histogram(session):
    recording = session[1]
    counts = targets.count_spikes(recording)
    for trial, unit in ((0, 0), (479, 7), (598, 49)):
        times = recording.spike_times[recording.spike_units == unit]
        edges = recording.trials[trial, 0] + targets.BIN_S * np.arange(targets.N_BINS + 1)
        last = np.isclose(times, edges[-1])  # a histogram's last bin is closed
        np.testing.assert_array_equal(counts[trial, :, unit], np.histogram(times[~last], edges)[0])


def test_mean_counts_of_the_true_target_are_those_of_the_spikes(test_part):
    """And those of another target are not."""
    counts, expected, y = test_part
    own = expected[np.arange(len(y)), y]
    opposite = expected[np.arange(len(y)), (y + 4) % 8]
    assert abs(counts.sum() / own.sum() - 1) < 0.02

    def log_likelihood(m):
        return (counts * np.log(m) - m).sum()

    assert log_likelihood(own) > log_likelihood(opposite) + 1000


def test_bayes_is_the_sum_over_bins_and_units(test_part):
    counts, expected, _ = test_part
    p = targets.bayes(counts[:2], expected[:2], n_units=3)
    score = np.zeros(8)
    for t in range(5):
        for unit in range(3):
            m = expected[1, :, t, unit]
            score += counts[1, t, unit] * np.log(m) - m
    np.testing.assert_allclose(p[1, 4], np.exp(score - score.max()) / np.exp(score - score.max()).sum())


def test_bayes_beats_the_trained_decoder_on_average(test_part):
    """By balanced accuracy of classes and by log loss, in each bin from 50 ms before the movement on."""
    counts, expected, y = test_part
    best = targets.bayes(counts, expected)
    trained = np.load(result("ch19_targets.npz"))["probabilities"].astype(float)  # (3, 120, T, 8)

    def accuracy(p):
        return (p.argmax(-1) == y[:, None]).mean(0)[4:]

    def log_loss(p):
        own = p[np.arange(len(y)), :, y]
        return -np.log(own.clip(1e-6)).mean(0)[4:]

    assert (accuracy(best) > np.mean([accuracy(p) for p in trained], 0)).all()
    assert (log_loss(best) < np.mean([log_loss(p) for p in trained], 0)).all()


def test_bayes_knows_how_often_it_is_right(test_part):
    counts, expected, y = test_part
    p = targets.bayes(counts, expected)[:, 5]  # when the hand starts
    right = (p.argmax(-1) == y).mean()
    assert abs(p.max(-1).mean() - right) < 0.1


def test_softmax_of_counts_is_at_the_bottom_of_its_loss():
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(80, 4, generator=generator, dtype=torch.float64)
    y = torch.randint(8, (80,), generator=generator)
    W, b = targets.fit_softmax(x, y, penalty=0.1)
    W.requires_grad_()
    b.requires_grad_()
    loss = F.cross_entropy(x @ W.T + b, y) + 0.1 * (W**2).sum()
    gradients = torch.autograd.grad(loss, (W, b))
    assert max(gradient.abs().max() for gradient in gradients) < 1e-4
