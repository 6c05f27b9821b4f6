"""Hopfield networks against loops, the promise that energy never rises, and attention."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F
from torch.testing import assert_close

from possm_course.chapters.ch09.hopfield import (
    corrupt,
    hebb_weights,
    hopfield_energy,
    modern_energy,
    modern_hopfield,
    recall,
    synchronous_step,
)


def seeded(seed):
    return torch.Generator().manual_seed(seed)


def signs(*shape, seed=0):
    return torch.randint(0, 2, shape, generator=seeded(seed)) * 2.0 - 1


def symmetric(n, seed=0):
    """Random weights, not Hebb's: symmetric, zero diagonal."""
    w = torch.randn(n, n, dtype=torch.float64, generator=seeded(seed)).triu(1)
    return w + w.T


def test_hebb_weights_match_loops():
    x = signs(3, 5)
    w = hebb_weights(x)
    for i in range(5):
        for j in range(5):
            expected = 0.0 if i == j else sum(float(x[m, i] * x[m, j]) for m in range(3)) / 5
            assert w[i, j].item() == pytest.approx(expected)
    assert_close(hebb_weights(torch.stack([x, -x])), torch.stack([w, w]))  # a mirrored pattern is the same memory


def test_energy_matches_loops_and_batches():
    w, b, s = symmetric(6), torch.randn(6, dtype=torch.float64, generator=seeded(1)), signs(4, 6).double()
    together = hopfield_energy(s, w, b)
    for state, found in zip(s, together, strict=True):
        pairs = sum(w[i, j] * state[i] * state[j] for i in range(6) for j in range(6))
        assert_close(found, -0.5 * pairs - b @ state)
    networks = hopfield_energy(s.expand(2, 4, 6), torch.stack([w, 2 * w]), torch.stack([b, 2 * b]))
    assert_close(networks, torch.stack([together, 2 * together]))
    assert_close(hopfield_energy(s, w), hopfield_energy(s, w, torch.zeros(6, dtype=torch.float64)))


def test_zero_field_leaves_the_state():
    s, bias = torch.tensor([[-1.0, 1.0, 1.0, -1.0]]), torch.tensor([0.0, 0.0, -1.0, 1.0])
    for update in (recall, synchronous_step):
        assert torch.equal(update(s, torch.zeros(4, 4)), s)
        assert update(s, torch.zeros(4, 4), bias).tolist() == [[-1.0, 1.0, -1.0, 1.0]]


def test_rounding_does_not_decide_where_the_field_is_zero():
    x, cues = signs(8, 50), signs(200, 50, seed=1)
    whole_numbers = (x.mT @ x).fill_diagonal_(0)  # sums of these are exact
    assert torch.equal(recall(cues, hebb_weights(x)), recall(cues, whole_numbers))


@settings(max_examples=60, deadline=None)
@given(n=st.integers(2, 12), seed=st.integers(0, 10_000), biased=st.booleans(), ordered=st.booleans())
def test_energy_never_rises_along_asynchronous_recall(n, seed, biased, ordered):
    w = symmetric(n, seed)
    b = torch.randn(n, dtype=torch.float64, generator=seeded(seed + 1)) if biased else None
    path = recall(signs(3, n, seed=seed).double(), w, b, generator=None if ordered else seeded(seed), path=True)
    energy = hopfield_energy(path, w, b)  # (steps + 1, 3)
    assert (energy.diff(dim=0) <= 1e-9).all()
    assert ((path[1:] != path[:-1]).sum(-1) <= 1).all()  # one unit at a time
    end = path[-1]
    assert torch.equal(synchronous_step(end, w, b), end)  # recall ended at a fixed point


def test_corrupt_flips_the_requested_number():
    x = signs(30, 12)
    for n_flips in (0, 1, 5, 12):
        assert ((corrupt(x, n_flips, seeded(0)) != x).sum(-1) == n_flips).all()
    flipped = (corrupt(signs(1, 10).expand(2000, 10), 3, seeded(0)) != signs(1, 10)).float().mean(0)
    assert (flipped - 0.3).abs().max() < 0.05  # every unit alike


def vectors(*shape, seed=0):
    return torch.randn(*shape, dtype=torch.float64, generator=seeded(seed))


@pytest.mark.parametrize("beta", [0.1, 1.0, 7.0])
def test_modern_update_is_attention(beta):
    xi, x = vectors(2, 3, 16), vectors(2, 5, 16, seed=1)
    new = modern_hopfield(xi, x, beta)
    assert_close(new, F.scaled_dot_product_attention(xi, x, x, scale=beta), rtol=0, atol=1e-6)


def test_modern_update_is_a_gradient_step():
    """grad E = xi - X softmax(beta X^T xi): the update is one step of size one, and lowers the energy."""
    xi, x = vectors(3, 6).requires_grad_(), vectors(5, 6, seed=1)
    (gradient,) = torch.autograd.grad(modern_energy(xi, x, 1.3).sum(), xi)
    new = modern_hopfield(xi, x, 1.3)
    assert_close(xi - gradient, new)
    assert_close(modern_energy(xi, x), modern_energy(xi, x, 1.0))
    assert (modern_energy(new, x, 1.3) < modern_energy(xi, x, 1.3)).all()
