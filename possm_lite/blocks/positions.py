"""Rotary positions on a continuous clock."""

from __future__ import annotations

import math

import torch
from torch import Tensor


def log_spaced_frequencies(n_freqs: int, shortest_period: float, longest_period: float) -> Tensor:
    """Angular frequencies 2 pi / period, periods spaced evenly in their logarithm, shape (F,), float64."""
    periods = torch.logspace(math.log10(shortest_period), math.log10(longest_period), n_freqs, dtype=torch.float64)
    return 2 * math.pi / periods


def phasors(times: Tensor, omega: Tensor, dtype: torch.dtype) -> Tensor:
    """e^{i omega t} for every time and frequency, shape times.shape + (F,), complex.

    Whole turns are taken off in float64 whatever `dtype` is, and only what is left of an angle is cast: with a period
    of 0.1 ms an angle reaches 3,000 rad within one 50 ms bin, where float32 is off by 1e-4 rad.
    """
    turns = times.to(torch.float64)[..., None] * (omega / (2 * math.pi))
    angle = ((turns - turns.round()) * (2 * math.pi)).to(dtype)  # within [-pi, pi]
    return torch.complex(angle.cos(), angle.sin())


def as_pairs(x: Tensor, n_freqs: int) -> tuple[Tensor, Tensor]:
    """Split (..., d) into its first F adjacent pairs as complex numbers (..., F) and the rest (..., d - 2F)."""
    pairs = x[..., : 2 * n_freqs].unflatten(-1, (n_freqs, 2))
    return torch.view_as_complex(pairs.contiguous()), x[..., 2 * n_freqs :]


def from_pairs(pairs: Tensor, rest: Tensor) -> Tensor:
    """The inverse of `as_pairs`: (..., F) complex and (..., d - 2F) to (..., d)."""
    return torch.cat([torch.view_as_real(pairs).flatten(-2), rest], -1)


def rotate(x: Tensor, phase: Tensor) -> Tensor:
    """RoPE: turn each adjacent pair of `x` by the angle of its phasor; dimensions beyond 2F stay as they are.

        (x_{2j} + i x_{2j+1}) e^{i omega_j t},     (R_m q) . (R_n k) = q . R_{n-m} k

    Args:
        x: shape (..., d).
        phase: from `phasors`, broadcastable to (..., F), 2F <= d; its conjugate turns back.

    Returns:
        Shape (..., d).

    Source: Su et al. 2021, eq. 34, adjacent pairs, here with times for positions.
    """
    n_still = x.shape[-1] // 2 - phase.shape[-1]
    whole = torch.cat([phase, phase.new_ones(*phase.shape[:-1], n_still)], -1)  # cheaper than splitting x
    pairs = torch.view_as_complex(x.unflatten(-1, (-1, 2)).contiguous())
    return torch.view_as_real(pairs * whole).flatten(-2)
