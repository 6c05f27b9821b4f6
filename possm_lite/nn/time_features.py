"""Features of continuous time: their dot product depends only on the time between two events."""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .positions import as_pairs, log_spaced_frequencies, phasors


def bochner_features(times: Tensor, omega: Tensor) -> Tensor:
    """Random features of a shift-invariant kernel.

        Phi(t) = sqrt(1/F) [cos w_1 t, ..., cos w_F t, sin w_1 t, ..., sin w_F t]        (5.3)
        Phi(t_1) . Phi(t_2) = 1/F sum_i cos w_i (t_1 - t_2)  ->  E_w[cos w (t_1 - t_2)]

    Args:
        times: t, s, shape (...,).
        omega: w, angular frequencies, rad/s, shape (F,); the features have its precision.

    Returns:
        Phi(t), shape (..., 2F).

    Source: Rahimi and Recht 2007; Xu et al. 2019.
    """
    phase = phasors(times, omega, omega.dtype) / math.sqrt(len(omega))  # (..., F)
    return torch.cat([phase.real, phase.imag], -1)


def gaussian_kernel(lag: Tensor, mu: float | Tensor, sigma: float | Tensor) -> Tensor:
    """E[cos w lag] for w ~ N(mu, sigma^2): exp(-sigma^2 lag^2 / 2) cos(mu lag) (5.4).

    Args:
        lag: s, any shape.
        mu: mean of the frequencies, rad/s; with 0 the kernel is the RBF.
        sigma: their standard deviation, rad/s.

    Returns:
        The kernel, the shape of `lag`.
    """
    return torch.exp(-0.5 * (sigma * lag) ** 2) * torch.cos(mu * lag)


def gaussian_frequencies(mu: Tensor, sigma: Tensor, noise: Tensor) -> Tensor:
    """Frequencies w_i = mu + sigma eps_i.

    The noise is an argument, so that gradients reach mu and sigma, unlike in `torch.normal`.

    Args:
        mu: mean, rad/s, shape ().
        sigma: standard deviation, rad/s, shape ().
        noise: eps, standard normal, shape (F,).

    Returns:
        w, rad/s, shape (F,).
    """
    return mu + sigma * noise


def quantile_frequencies(start: Tensor, steps: Tensor, u: Tensor) -> Tensor:
    """Frequencies w_i = g(u_i): a learned inverse CDF, the simplest normalising flow.

        g(0) = start,   g(k/K) = g((k-1)/K) + steps_k, straight lines between

    Args:
        start: rad/s, shape ().
        steps: rad/s, positive, shape (K,).
        u: uniform noise in [0, 1], shape (F,).

    Returns:
        w, rad/s, shape (F,).
    """
    heights = torch.cat([start.reshape(1), start + steps.cumsum(0)])  # (K + 1,)
    position = u * len(steps)
    below = position.floor().long().clamp(max=len(steps) - 1)  # u = 1 belongs to the last line
    return torch.lerp(heights[below], heights[below + 1], position - below)


class GaussianFrequencies(nn.Module):
    """(a) Frequencies mu + sigma eps, with mu and sigma learned and eps drawn once.

    Args:
        n_freqs: F.
        mu: at first, rad/s.
        sigma: at first, rad/s.
    """

    def __init__(self, n_freqs: int, mu: float = 0.0, sigma: float = 1.0):
        super().__init__()
        self.mu = nn.Parameter(torch.tensor(float(mu)))
        self.log_sigma = nn.Parameter(torch.tensor(math.log(sigma)))
        self.register_buffer("noise", torch.randn(n_freqs))

    def forward(self) -> Tensor:
        """The frequencies, rad/s, shape (F,)."""
        return gaussian_frequencies(self.mu, self.log_sigma.exp(), self.noise)


class QuantileFrequencies(nn.Module):
    """(b) Frequencies g_theta(u), with g increasing and learned.

    Args:
        n_freqs: F.
        lowest: rad/s; g is at first the line from here
        highest: to here, rad/s.
        n_knots: K, straight lines of g.
    """

    def __init__(self, n_freqs: int, lowest: float, highest: float, n_knots: int = 16):
        super().__init__()
        # the rise of one step at the start: parameters are of order one
        self.scale = (highest - lowest) / n_knots
        self.start = nn.Parameter(torch.tensor(float(lowest) / self.scale))
        # softplus of it is 1
        self.rises = nn.Parameter(torch.full((n_knots,), math.log(math.e - 1)))
        # one draw in each F-th of [0, 1]
        self.register_buffer("u", (torch.arange(n_freqs) + torch.rand(n_freqs)) / n_freqs)

    def forward(self) -> Tensor:
        """The frequencies, rad/s, shape (F,)."""
        steps = self.scale * F.softplus(self.rises)
        return quantile_frequencies(self.scale * self.start, steps, self.u)


class BochnerTime(nn.Module):
    """`bochner_features` with learned frequencies.

    Args:
        frequencies: a module that gives them: `GaussianFrequencies` or `QuantileFrequencies`.
    """

    def __init__(self, frequencies: nn.Module):
        super().__init__()
        self.frequencies = frequencies

    def forward(self, times: Tensor) -> Tensor:
        """Phi of `times` (...,), s: shape (..., 2F)."""
        return bochner_features(times, self.frequencies())


def mercer_features(times: Tensor, half_periods: Tensor, coefficients: Tensor) -> Tensor:
    """Truncated Fourier features of periodic kernels, one block for each period.

        Phi_w(t) = [sqrt c_1, sqrt c_2 cos(pi t/w), sqrt c_3 sin(pi t/w),
                    sqrt c_4 cos(2 pi t/w), ...]                                          (5.12)
        Phi_w(t_1) . Phi_w(t_2) = c_1 + sum_j c_2j cos(j pi (t_1 - t_2)/w)   where c_2j = c_{2j+1}

    Args:
        times: t, s, shape (...,).
        half_periods: w of k periods, s, not angular frequencies, shape (k,).
        coefficients: c >= 0, of J harmonics, shape (k, 2 J + 1). Any give a positive semi-definite
            kernel; it is shift-invariant only where cosine and sine share their coefficient.

    Returns:
        The blocks side by side, shape (..., k (2 J + 1)).

    Source: Xu et al. 2019.
    """
    j = torch.arange(1, coefficients.shape[-1] // 2 + 1, device=half_periods.device)
    omega = j / half_periods[:, None] * math.pi  # (k, J), rad/s; j * math.pi would be float32
    waves = torch.view_as_real(phasors(times, omega.flatten(), coefficients.dtype))  # (..., k J, 2)
    waves = waves.unflatten(-2, omega.shape).flatten(-2)  # (..., k, 2 J): cos and sin alternate
    constant = waves.new_ones(*waves.shape[:-1], 1)
    features = torch.cat([constant, waves], -1)  # (..., k, 2 J + 1)
    return (coefficients.sqrt() * features).flatten(-2)


class MercerTime(nn.Module):
    """`mercer_features` with learned half periods and coefficients, shared by cosine and sine.

    Args:
        n_periods: k.
        n_harmonics: J.
        shortest: half period at first, s; the k half periods have equal ratios.
        longest: half period at first, s.
    """

    def __init__(self, n_periods: int, n_harmonics: int, shortest: float, longest: float):
        super().__init__()
        half_periods = math.pi / log_spaced_frequencies(n_periods, 2 * shortest, 2 * longest)
        self.log_half_periods = nn.Parameter(half_periods.log().to(torch.get_default_dtype()))
        at_start = 1 / (n_periods * (n_harmonics + 1))  # kernel of one at lag zero
        raw = math.log(math.expm1(at_start))  # softplus of it is at_start
        self.raw = nn.Parameter(torch.full((n_periods, n_harmonics + 1), raw))

    def coefficients(self) -> Tensor:
        """c > 0, shape (k, 2 J + 1): softplus keeps the root and its gradient finite."""
        c = F.softplus(self.raw)  # (k, J + 1)
        return torch.cat([c[:, :1], c[:, 1:].repeat_interleave(2, dim=1)], 1)

    def forward(self, times: Tensor) -> Tensor:
        """Phi of `times` (...,), s: shape (..., k (2 J + 1))."""
        return mercer_features(times, self.log_half_periods.exp(), self.coefficients())


def content_and_time_score(
    queries: Tensor, keys: Tensor, query_time: Tensor, key_time: Tensor
) -> Tensor:
    """The score on Z || Phi(t), <Z_1, Z_2> + <Phi(t_1), Phi(t_2)> (5.7): content plus time.

    Args:
        queries: content Z_1, shape (..., Q, D).
        keys: content Z_2, shape (..., M, D).
        query_time: features Phi(t_1), shape (..., Q, d).
        key_time: features Phi(t_2), shape (..., M, d).

    Returns:
        Scores, shape (..., Q, M).
    """
    return queries @ keys.transpose(-1, -2) + query_time @ key_time.transpose(-1, -2)


def rotary_kernel(q: Tensor, k: Tensor, n_freqs: int) -> tuple[Tensor, Tensor, Tensor]:
    """RoPE's score as a function of time.

        q . R_t k = sum_f (a_f cos w_f t + b_f sin w_f t) + a_0        (5.9)

    Here a - i b = conj(q) k. It is a positive semi-definite kernel of t = t_k - t_q exactly where
    all b_f = 0, a_f >= 0 and a_0 >= 0.

    Args:
        q: the query, shape (..., d).
        k: the key, shape (..., d).
        n_freqs: F, the first pairs, which rotate.

    Returns:
        a and b, shape (..., F) each, and a_0, shape (...).
    """
    q_pairs, q_rest = as_pairs(q, n_freqs)
    k_pairs, k_rest = as_pairs(k, n_freqs)
    product = q_pairs.conj() * k_pairs  # (..., F)
    return product.real, -product.imag, (q_rest * k_rest).sum(-1)
