"""The code of time of both attentions: phasors e^{i omega_f t}, by which pairs of coordinates are rotated.

Two uses. "rotation" and "embedding" rotate what is there (RoPE), after or before its projection. Features of time that
are *added* before the projection,

    x = LN(context) + Phi(t),    Phi(t) = [a_1 cos w_1 t, a_1 sin w_1 t, ...],

are the same constant (a_1, 0, a_2, 0, ...) for every token, rotated: its scores and values are appended to those of the
context (`CrossAttention`), so one implementation serves all codes.
"""

import math

import torch
from torch import Tensor, nn

from ..blocks.positions import log_spaced_frequencies, phasors
from ..blocks.time_features import GaussianFrequencies, MercerTime
from .config import N_PERIODS, POSSMConfig


class TimeCode(nn.Module):
    """Phasors (..., F) of times (...,) in s; a subclass has the angular frequencies `omega`, (F,) rad/s, float64."""

    amplitude: float | Tensor = 1.0  # a_f, where the code is added

    def forward(self, times: Tensor, dtype: torch.dtype) -> Tensor:
        return phasors(times, self.omega, dtype)


class Rotation(TimeCode):
    """Fixed angular frequencies, none for F = 0. They stay float64 whatever the model is cast to."""

    def __init__(self, omega: Tensor):
        super().__init__()
        self.register_buffer("omega", omega)

    def _apply(self, fn, recurse=True):
        omega = self.omega
        super()._apply(fn, recurse)
        self.omega = omega.to(self.omega.device)  # moved, never rounded: in float32 an angle loses 1e-4 rad
        return self


class BochnerCode(TimeCode):
    """Learned frequencies N(mu, sigma^2), at first of periods around two bins, with Phi of entries of order one."""

    def __init__(self, n_freqs: int, bin_width_s: float):
        super().__init__()
        self.frequencies = GaussianFrequencies(n_freqs, sigma=math.pi / bin_width_s)

    @property
    def omega(self) -> Tensor:
        return self.frequencies().double()


class MercerCode(TimeCode):
    """Learned periods and coefficients of a truncated Fourier series, without its constant."""

    def __init__(self, n_freqs: int, bin_width_s: float, longest_period_s: float):
        super().__init__()
        self.features = MercerTime(N_PERIODS, n_freqs // N_PERIODS, bin_width_s, longest_period_s / 2)

    @property
    def omega(self) -> Tensor:
        half_periods = self.features.log_half_periods.double().exp()
        j = torch.arange(1, self.features.raw.shape[1], device=half_periods.device)
        return (j / half_periods[:, None] * math.pi).flatten()  # (F,)

    @property
    def amplitude(self) -> Tensor:
        """sqrt(c_f), times sqrt(F) for entries of order one."""
        c = self.features.coefficients()[:, 1::2].flatten()
        return (len(c) * c).sqrt()  # (F,)


def make_time_code(config: POSSMConfig) -> TimeCode:
    """The module of `config.time_code`."""
    if config.time_code == "bochner":
        return BochnerCode(config.n_freqs, config.bin_width_s)
    if config.time_code == "mercer":
        return MercerCode(config.n_freqs, config.bin_width_s, config.longest_period_s)
    n_freqs = 0 if config.time_code == "none" else config.n_freqs
    return Rotation(log_spaced_frequencies(n_freqs, config.shortest_period_s, config.longest_period_s))
