"""Positions: added to a token (sinusoids) or rotated into it (RoPE), also at continuous times."""

import math

import torch
from torch import Tensor, nn


def rope_frequencies(dim: int, base: float = 10_000.0) -> Tensor:
    """The angle per position of each pair, theta_j = base^{-2j/dim} (4.6).

    Args:
        dim: features of a token, even.
        base: the larger, the slower the slowest pair rotates.

    Returns:
        Angles, rad, float64, shape (dim/2,).

    Source: Su et al. 2021, 3.2.2.
    """
    return base ** (-torch.arange(0, dim, 2, dtype=torch.float64) / dim)


def sinusoidal_encoding(
    positions: Tensor, dim: int, base: float = 10_000.0, dtype=torch.float32
) -> Tensor:
    """The encoding that is added to a token at position i.

        p[i, 2j] = sin(i / base^{2j/dim}),     p[i, 2j+1] = cos(i / base^{2j/dim})        (4.1)

    Args:
        positions: i, shape (...,).
        dim: features of a token, even.
        base: of the frequencies, see `rope_frequencies`.
        dtype: of the result; angles are computed in float64.

    Returns:
        Shape (..., dim).

    Source: Vaswani et al. 2017, section 3.5.
    """
    frequencies = rope_frequencies(dim, base).to(positions.device)
    angle = positions.to(torch.float64)[..., None] * frequencies  # (..., dim/2)
    return torch.stack([angle.sin(), angle.cos()], -1).flatten(-2).to(dtype)


def log_spaced_frequencies(n_freqs: int, shortest_period: float, longest_period: float) -> Tensor:
    """Angular frequencies 2 pi / period, the periods spaced evenly in their logarithm.

    Args:
        n_freqs: F.
        shortest_period: s.
        longest_period: s.

    Returns:
        Frequencies from fast to slow, rad/s, float64, shape (F,).
    """
    periods = torch.logspace(
        math.log10(shortest_period), math.log10(longest_period), n_freqs, dtype=torch.float64
    )
    return 2 * math.pi / periods


def phasors(times: Tensor, omega: Tensor, dtype: torch.dtype) -> Tensor:
    """e^{i omega t} for every time and frequency.

    Whole cycles are subtracted in float64, and only the rest of an angle is cast: 3,000 rad are off
    by 1e-4 in float32.

    Args:
        times: t, s, shape (...,).
        omega: angular frequencies, rad/s, float64, shape (F,).
        dtype: of the real and imaginary part.

    Returns:
        Complex numbers of absolute value one, shape (..., F).
    """
    cycles = times.to(torch.float64)[..., None] * (omega / (2 * math.pi))
    # in place: these are the largest arrays of a training step, and new memory costs more than the
    # arithmetic in it
    angle = cycles.sub_(cycles.round()).mul_(2 * math.pi).to(dtype)  # within [-pi, pi]
    return torch.complex(angle.cos(), angle.sin())


class Rotation(nn.Module):
    """`phasors` at fixed frequencies.

    Args:
        omega: angular frequencies, rad/s, float64, shape (F,).

    Attributes:
        omega: as given; moved to a device with the module, never rounded to another precision.
    """

    def __init__(self, omega: Tensor):
        super().__init__()
        self.register_buffer("omega", omega)

    def forward(self, times: Tensor, dtype: torch.dtype) -> Tensor:
        """`phasors` of `times` (...,), s, with parts of `dtype`: shape (..., F)."""
        return phasors(times, self.omega, dtype)

    def _apply(self, fn, recurse=True):
        omega = self.omega
        super()._apply(fn, recurse)
        # moved, never rounded: in float32 an angle loses 1e-4 rad
        self.omega = omega.to(self.omega.device)
        return self


def as_pairs(x: Tensor, n_freqs: int) -> tuple[Tensor, Tensor]:
    """The first F adjacent pairs as complex numbers, and the rest.

    Args:
        x: shape (..., d).
        n_freqs: F.

    Returns:
        Complex numbers x_{2j} + i x_{2j+1}, shape (..., F), and the rest, shape (..., d - 2F).
    """
    pairs = x[..., : 2 * n_freqs].unflatten(-1, (n_freqs, 2))  # (..., F, 2)
    return _as_complex(pairs), x[..., 2 * n_freqs :]


def _as_complex(pairs: Tensor) -> Tensor:
    """(..., F, 2) as complex numbers (..., F)."""
    if torch.compiler.is_compiling():
        # torch.compile has no storage_offset, and no complex view between two graphs
        real, imaginary = pairs.unbind(-1)
        return torch.complex(real, imaginary)
    pairs = pairs.contiguous()
    if pairs.storage_offset() % 2:  # torch has no complex view that begins at an odd number
        pairs = pairs.clone()
    return torch.view_as_complex(pairs)


def rotate(x: Tensor, phase: Tensor) -> Tensor:
    """RoPE: each adjacent pair of x times its phasor, the rest as it was.

        (x_{2j} + i x_{2j+1}) e^{i omega_j t},     (R_m q) . (R_n k) = q . R_{n-m} k        (4.5)

    Args:
        x: shape (..., d), d even.
        phase: `phasors` of the first F pairs, broadcastable to (..., F).

    Returns:
        x rotated, shape (..., d).

    Source: Su et al. 2021, eq. 34.
    """
    pairs = _as_complex(x.unflatten(-1, (-1, 2)))  # (..., d/2)
    n_unrotated = pairs.shape[-1] - phase.shape[-1]
    if n_unrotated:  # times one: cheaper than splitting x
        ones = phase.new_ones(*phase.shape[:-1], n_unrotated)
        phase = torch.cat([phase, ones], -1)
    return torch.view_as_real(pairs * phase).flatten(-2)


def rotate_halves(x: Tensor, phase: Tensor) -> Tensor:
    """RoPE with the other pairing, (x_j + i x_{j + d/2}) e^{i omega_j t}.

    It is as good as `rotate`, where queries and keys use the same.

    Args:
        x: shape (..., d), d even.
        phase: `phasors` of all pairs, F = d/2, broadcastable to (..., F).

    Returns:
        x rotated, shape (..., d).
    """
    rotated = torch.complex(*x.chunk(2, -1)) * phase  # (..., d/2)
    return torch.cat([rotated.real, rotated.imag], -1)
