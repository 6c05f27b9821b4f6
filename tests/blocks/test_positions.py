"""Rotation as multiplication by a complex number, and the clock it runs on."""

import math

import pytest
import torch

from possm_lite.blocks.positions import as_pairs, from_pairs, log_spaced_frequencies, phasors, rotate

OMEGA = log_spaced_frequencies(3, 1e-3, 10.0)


def make_vectors(*shape, d=8):
    return torch.randn(*shape, d, dtype=torch.float64)


def turn(x, times):
    return rotate(x, phasors(torch.as_tensor(times, dtype=torch.float64), OMEGA, torch.float64))


def test_periods_are_log_spaced_between_their_ends():
    periods = 2 * math.pi / log_spaced_frequencies(5, 1e-4, 1.0)
    torch.testing.assert_close(periods, torch.tensor([1e-4, 1e-3, 1e-2, 1e-1, 1.0], dtype=torch.float64))


def test_rotation_is_complex_multiplication():
    x, times = make_vectors(4), [0.0, 0.01, 0.4, -2.0]
    turned = turn(x, times)
    for i, t in enumerate(times):
        for pair, omega in enumerate(OMEGA.tolist()):
            a, b = x[i, 2 * pair : 2 * pair + 2].tolist()
            expected = complex(a, b) * complex(math.cos(omega * t), math.sin(omega * t))
            assert complex(*turned[i, 2 * pair : 2 * pair + 2].tolist()) == pytest.approx(expected, abs=1e-12)


def test_dimensions_beyond_the_pairs_stay():
    x = make_vectors(5)
    turned = turn(x, [0.1, 0.2, 0.3, 0.4, 0.5])
    assert torch.equal(turned[:, 6:], x[:, 6:])
    assert (turned[:, :6] - x[:, :6]).abs().amax() > 1e-3


def test_every_dimension_may_be_rotated():
    x = make_vectors(2, d=6)
    assert turn(x, [0.1, 0.2]).shape == (2, 6)
    torch.testing.assert_close(turn(turn(x, [0.1, 0.2]), [-0.1, -0.2]), x)


def test_only_the_difference_of_times_counts():
    """(R_m q) . (R_n k) = q . R_{n-m} k, and a shift of both times changes nothing."""
    q, k = make_vectors(6), make_vectors(6)
    m, n = torch.rand(6, dtype=torch.float64), torch.rand(6, dtype=torch.float64)
    score = (turn(q, m) * turn(k, n)).sum(-1)
    torch.testing.assert_close(score, (q * turn(k, n - m)).sum(-1), rtol=0, atol=1e-10)
    torch.testing.assert_close(score, (turn(q, m + 7.0) * turn(k, n + 7.0)).sum(-1), rtol=0, atol=1e-9)
    assert (score - (turn(q, m) * turn(k, n + 0.3)).sum(-1)).abs().max() > 1e-3


def test_length_is_kept():
    x = make_vectors(7)
    torch.testing.assert_close(turn(x, torch.linspace(-3, 3, 7)).norm(dim=-1), x.norm(dim=-1))


def test_the_conjugate_turns_back():
    x, phase = make_vectors(4), phasors(torch.rand(4), OMEGA, torch.float64)
    torch.testing.assert_close(rotate(rotate(x, phase), phase.conj()), x)


def test_one_vector_turned_by_many_times_and_one_phase_for_many_vectors():
    x, phase = make_vectors(1), phasors(torch.rand(5), OMEGA, torch.float64)
    many = rotate(x, phase)
    assert many.shape == (5, 8)
    for i in range(5):
        torch.testing.assert_close(many[i], rotate(x[0], phase[i]))
    heads = make_vectors(5, 2)
    together = rotate(heads, phase[:, None])
    torch.testing.assert_close(together[:, 1], rotate(heads[:, 1], phase))


def test_pairs_and_back():
    x = make_vectors(2, 3)
    pairs, rest = as_pairs(x, 2)
    assert pairs.shape == (2, 3, 2) and rest.shape == (2, 3, 4)
    assert pairs[1, 2, 1] == torch.complex(x[1, 2, 2], x[1, 2, 3])
    assert torch.equal(from_pairs(pairs, rest), x)


def test_gradients_flow_through_the_rotation():
    x, phase = make_vectors(3).requires_grad_(), phasors(torch.rand(3), OMEGA, torch.float64)
    assert torch.autograd.gradcheck(lambda x: rotate(x, phase), x)


def test_float32_phasors_of_long_times_are_exact():
    """An hour of 0.12 ms turns. In float32 the angle alone would be off by radians."""
    period = 2.0**-13
    part = torch.tensor([0.0, 0.125, 0.3125, 0.75], dtype=torch.float64)  # of a turn; exact beside an hour
    times = 3600.0 + part * period
    omega = torch.tensor([2 * math.pi / period], dtype=torch.float64)
    phase = phasors(times, omega, torch.float32)
    assert phase.dtype == torch.complex64 and phase.shape == (4, 1)
    expected = torch.polar(torch.ones(4, dtype=torch.float64), 2 * math.pi * part)
    assert (phase[:, 0] - expected).abs().max() < 1e-6
    in_float32 = torch.cos(times.float() * omega.float())
    assert (in_float32 - expected.real).abs().max() > 0.1
