"""Sinusoidal encoding and rotation, as multiplication by a complex number, at continuous times."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from possm_lite.nn.positions import (
    as_pairs,
    log_spaced_frequencies,
    phasors,
    rope_frequencies,
    rotate,
    rotate_halves,
    sinusoidal_encoding,
)

OMEGA = log_spaced_frequencies(3, 1e-3, 10.0)


def make_vectors(*shape, d=8):
    return torch.randn(*shape, d, dtype=torch.float64)


def rotated_by(x, times):
    return rotate(x, phasors(torch.as_tensor(times, dtype=torch.float64), OMEGA, torch.float64))


def test_rotation_is_complex_multiplication():
    """Dimensions beyond the pairs are unchanged; a phasor is shared by heads."""
    x, times = make_vectors(4), [0.0, 0.01, 0.4, -2.0]
    rotated = rotated_by(x, times)
    assert torch.equal(rotated[:, 6:], x[:, 6:])
    phase = phasors(torch.tensor(times, dtype=torch.float64), OMEGA, torch.float64)
    assert torch.equal(rotate(torch.stack([x, x], 1), phase[:, None])[:, 1], rotated)
    for i, t in enumerate(times):
        for pair, omega in enumerate(OMEGA.tolist()):
            a, b = x[i, 2 * pair : 2 * pair + 2].tolist()
            expected = complex(a, b) * complex(math.cos(omega * t), math.sin(omega * t))
            assert complex(*rotated[i, 2 * pair : 2 * pair + 2].tolist()) == pytest.approx(expected, abs=1e-12)


def test_views_that_begin_at_an_odd_number_are_rotated():
    """torch makes no complex view of them."""
    times = torch.rand(4, dtype=torch.float64)
    for view in (make_vectors(d=33)[1:].view(4, 8), make_vectors(d=11)[1:9].expand(4, 8)):
        copy = view.clone()
        assert view.storage_offset() == 1
        assert torch.equal(rotated_by(view, times), rotated_by(copy, times))
        for ours, expected in zip(as_pairs(view, 4), as_pairs(copy, 4), strict=True):
            assert torch.equal(ours, expected)


def test_conjugate_and_opposite_time_undo_rotation():
    x, times = make_vectors(4, d=6), torch.rand(4, dtype=torch.float64)  # no dimension without rotation
    torch.testing.assert_close(rotated_by(rotated_by(x, times), -times), x)
    torch.testing.assert_close(rotate(rotated_by(x, times), phasors(times, OMEGA, torch.float64).conj()), x)


def test_float32_phasors_of_long_times_are_exact():
    """An hour of 0.12 ms cycles. In float32 the angle alone would be off by radians."""
    period = 2.0**-13
    part = torch.tensor([0.0, 0.125, 0.3125, 0.75], dtype=torch.float64)  # of a cycle; exact beside an hour
    times = 3600.0 + part * period
    omega = torch.tensor([2 * math.pi / period], dtype=torch.float64)
    phase = phasors(times, omega, torch.float32)
    assert phase.dtype == torch.complex64 and phase.shape == (4, 1)
    expected = torch.polar(torch.ones(4, dtype=torch.float64), 2 * math.pi * part)
    assert (phase[:, 0] - expected).abs().max() < 1e-6


positions = st.floats(-5_000, 5_000, allow_nan=False)
bases = st.floats(1.5, 1e6)


def rope(x, position, base=10_000.0, rotation=rotate):
    """A vector (..., d) at `position`, every pair rotated."""
    position = torch.as_tensor(position, dtype=torch.float64)
    return rotation(x, phasors(position, rope_frequencies(x.shape[-1], base), x.dtype))


@pytest.mark.parametrize(("dim", "base"), [(2, 10_000.0), (6, 10_000.0), (32, 100.0)])
def test_encoding_equals_its_formula(dim, base):
    encoding = sinusoidal_encoding(torch.arange(40), dim, base, torch.float64)
    for i in range(40):
        angles = [i / base ** (2 * j / dim) for j in range(dim // 2)]
        expected = [wave(angle) for angle in angles for wave in (math.sin, math.cos)]
        assert encoding[i].tolist() == pytest.approx(expected, abs=1e-12)
    five_back = phasors(torch.tensor(-5), rope_frequencies(dim, base), torch.float64)  # (4.2), pairs (sin, cos)
    torch.testing.assert_close(rotate(encoding[:-5], five_back), encoding[5:])


def test_far_positions_are_exact():
    """In float32 the angle of position 10^7 + 1 would be off by half a radian."""
    assert sinusoidal_encoding(torch.tensor(10_000_001), 4)[0].item() == pytest.approx(math.sin(10_000_001), abs=1e-6)


@settings(max_examples=40, deadline=None)
@given(m=positions, n=positions, shift=positions, base=bases)
@pytest.mark.parametrize("rotation", [rotate, rotate_halves])
def test_rope_scores_depend_on_the_distance(rotation, m, n, shift, base):
    generator = torch.Generator().manual_seed(3)
    q, k = torch.randn(2, 8, dtype=torch.float64, generator=generator)
    score = rope(q, m, base, rotation) @ rope(k, n, base, rotation)
    torch.testing.assert_close(score, q @ rope(k, n - m, base, rotation), rtol=0, atol=1e-9)
    moved = rope(q, m + shift, base, rotation) @ rope(k, n + shift, base, rotation)
    torch.testing.assert_close(score, moved, rtol=0, atol=1e-9)


def test_pairings_differ_in_the_order_of_coordinates():
    q = make_vectors()
    order = torch.tensor([0, 4, 1, 5, 2, 6, 3, 7])  # halves, laid out as adjacent pairs
    torch.testing.assert_close(rope(q, 3.0, rotation=rotate_halves)[order], rope(q[order], 3.0))
