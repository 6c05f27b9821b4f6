"""Positions: added to a token (sinusoids) or rotated into it (RoPE), also at continuous times."""

import math

import torch
from torch import Tensor, nn


def rope_frequencies(dim: int, base: float = 10_000.0) -> Tensor:
    """Angle per position of each pair, theta_j = base^{-2j/dim} (4.6): (dim/2,), float64. Su et al. 2021, 3.2.2."""
    return base ** (-torch.arange(0, dim, 2, dtype=torch.float64) / dim)


def sinusoidal_encoding(
    positions: Tensor, dim: int, base: float = 10_000.0, dtype=torch.float32
) -> Tensor:
    """The encoding that is added to a token at position i: (...,) to (..., dim). Vaswani et al. 2017, section 3.5.

    p[i, 2j] = sin(i / base^{2j/dim}),     p[i, 2j+1] = cos(i / base^{2j/dim})                       (4.1)
    """
    angle = positions.to(torch.float64)[..., None] * rope_frequencies(dim, base).to(
        positions.device
    )  # (..., dim/2)
    return torch.stack([angle.sin(), angle.cos()], -1).flatten(-2).to(dtype)


def log_spaced_frequencies(n_freqs: int, shortest_period: float, longest_period: float) -> Tensor:
    """Angular frequencies 2 pi / period, periods spaced evenly in their logarithm, shape (F,), float64."""
    periods = torch.logspace(
        math.log10(shortest_period), math.log10(longest_period), n_freqs, dtype=torch.float64
    )
    return 2 * math.pi / periods


def phasors(times: Tensor, omega: Tensor, dtype: torch.dtype) -> Tensor:
    """e^{i omega t} for every time and frequency, (..., F), complex.

    Whole cycles are subtracted in float64, and only the rest of an angle is cast: 3,000 rad are off by 1e-4 in float32.
    """
    cycles = times.to(torch.float64)[..., None] * (omega / (2 * math.pi))
    # in place: these are the largest arrays of a training step, and new memory costs more than the arithmetic in it
    angle = cycles.sub_(cycles.round()).mul_(2 * math.pi).to(dtype)  # within [-pi, pi]
    return torch.complex(angle.cos(), angle.sin())


class Rotation(nn.Module):
    """`phasors` (..., F) of times (...,) in s at fixed angular frequencies omega (F,) in rad/s."""

    def __init__(self, omega: Tensor):
        super().__init__()
        self.register_buffer("omega", omega)

    def forward(self, times: Tensor, dtype: torch.dtype) -> Tensor:
        return phasors(times, self.omega, dtype)

    def _apply(self, fn, recurse=True):
        omega = self.omega
        super()._apply(fn, recurse)
        self.omega = omega.to(
            self.omega.device
        )  # moved, never rounded: in float32 an angle loses 1e-4 rad
        return self


def as_pairs(x: Tensor, n_freqs: int) -> tuple[Tensor, Tensor]:
    """Split (..., d) into its first F adjacent pairs as complex numbers (..., F) and the rest (..., d - 2F)."""
    return _as_complex(x[..., : 2 * n_freqs].unflatten(-1, (n_freqs, 2))), x[..., 2 * n_freqs :]


def _as_complex(pairs: Tensor) -> Tensor:
    """(..., F, 2) as complex numbers (..., F); a view that begins at an odd offset has to be copied."""
    if (
        torch.compiler.is_compiling()
    ):  # torch.compile has no storage_offset, and no complex view between two graphs
        return torch.complex(*pairs.unbind(-1))
    pairs = pairs.contiguous()
    return torch.view_as_complex(pairs.clone() if pairs.storage_offset() % 2 else pairs)


def rotate(x: Tensor, phase: Tensor) -> Tensor:
    """RoPE of x (..., d): each adjacent pair times its phasor (..., F), the rest as it was. Su et al. 2021, eq. 34.

    (x_{2j} + i x_{2j+1}) e^{i omega_j t},     (R_m q) . (R_n k) = q . R_{n-m} k                     (4.5)
    """
    pairs = _as_complex(x.unflatten(-1, (-1, 2)))
    if n_unrotated := pairs.shape[-1] - phase.shape[-1]:
        phase = torch.cat(
            [phase, phase.new_ones(*phase.shape[:-1], n_unrotated)], -1
        )  # cheaper than splitting x
    return torch.view_as_real(pairs * phase).flatten(-2)


def rotate_halves(x: Tensor, phase: Tensor) -> Tensor:
    """RoPE with the other pairing, (x_j + i x_{j + d/2}) e^{i omega_j t}, F = d/2. As good, where all use the same."""
    rotated = torch.complex(*x.chunk(2, -1)) * phase  # (..., d/2)
    return torch.cat([rotated.real, rotated.imag], -1)
