"""What chapter 09 measures, against closed forms and enumeration."""

import itertools
import math

import numpy as np
import pytest
import torch
from scipy.stats import multivariate_normal, norm

from possm_course.chapters.ch09 import measures
from possm_course.chapters.ch09.boltzmann import all_states
from possm_course.chapters.ch09.hopfield import corrupt, hebb_weights, recall


@pytest.mark.parametrize(("m", "n"), [(3, 3), (5, 2), (6, 3)])
def test_cover_counts_the_labels_that_weights_can_produce(m, n):
    """All 2^m labels of m random points, a linear program for each."""
    points = np.random.default_rng(m).normal(size=(m, n))
    found = sum(measures.separable(points, np.array(labels)) for labels in itertools.product((-1.0, 1.0), repeat=m))
    assert found == measures.cover_share(m, n) * 2**m
    assert measures.cover_share(2 * n, n) == 0.5


@pytest.mark.parametrize("n_changed", [7, 29, 58])
def test_separation_follows_two_correlated_bell_curves(n_changed):
    """Sums over random weights of two patterns correlate as the patterns do; a code has the top 2 % of the cells."""
    patterns = measures.coins(200, 144, seed=1)
    separator = torch.randn(144, 1000, generator=torch.Generator().manual_seed(0))
    changed = corrupt(patterns, n_changed, torch.Generator().manual_seed(3))
    codes = [measures.strongest(x @ separator, 20) for x in (patterns, changed)]
    assert (codes[0].sum(-1) == 20).all()
    shared = (codes[0] * codes[1]).sum(-1).mean().item() / 20
    rho, threshold = 1 - 2 * n_changed / 144, norm.isf(0.02)
    expected = multivariate_normal.cdf([-threshold] * 2, cov=[[1, rho], [rho, 1]]) / 0.02
    assert shared == pytest.approx(expected, abs=0.02)
    assert shared < rho  # the codes are less alike than the patterns
    if n_changed == 7:  # what is near enough is completed
        assert torch.equal(measures.completed(codes[1][:12], codes[0][:12], 20), codes[0][:12])


def test_damaged_weights_against_a_damaged_table():
    """A table keeps the cue, wrong in 14 of 144 units, where its number is lost: overlap 1 - 2 share 14 / 144."""
    network, table, copies = np.mean([measures.after_damage(6, 0.7, seed) for seed in range(10)], 0)
    assert table == pytest.approx(1 - 2 * 0.7 * 14 / 144, abs=0.01)
    assert copies == pytest.approx(1 - 2 * 0.7**12 * 14 / 144, abs=0.005)
    assert network > 0.95
    weights = measures.cut(torch.ones(400, 400), 0.7, torch.Generator().manual_seed(0))
    assert torch.equal(weights, weights.T) and weights.mean().item() == pytest.approx(0.3, abs=0.01)


def test_a_stranger_weighs_cosh_to_the_d():
    """The average of exp(beta x . xi) over all x of d units, for any xi: the line from which (9.8) follows."""
    x = all_states(10, torch.float64)
    for beta in (0.25, 1.0):
        assert torch.exp(beta * x @ x[77]).mean().item() == pytest.approx(math.cosh(beta) ** 10)


@pytest.mark.parametrize("beta", [0.25, 1.0])
def test_modern_capacity_grows_by_the_formula(beta):
    """From 8 to 32 units M grows by exp(24 (0.75 beta - ln cosh beta)) if one unit in eight of a cue is wrong."""
    small, large = (measures.half_recalled(d, d // 8, True, beta)[2].mean() for d in (8, 32))
    assert large / small == pytest.approx(math.exp(24 * (0.75 * beta - math.log(math.cosh(beta)))), rel=0.3)


def test_hebb_breaks_near_its_capacity_and_holds_mixtures():
    """Overlap after recall from the patterns themselves; the majority of three patterns rests."""
    overlap = {}
    for load in (0.1, 0.138, 0.2):
        patterns = measures.coins(3, round(load * 400), 400, seed=7)
        starts = patterns[:, :8]
        overlap[load] = (recall(starts, hebb_weights(patterns), max_sweeps=15) * starts).mean().item()
    assert overlap[0.1] > 0.99 and overlap[0.138] > 0.94 and overlap[0.2] < 0.8
    three = measures.coins(3, 144, seed=50)
    mixture = torch.sign(three.sum(0, keepdim=True))
    assert torch.equal(recall(mixture, hebb_weights(three)), mixture)
