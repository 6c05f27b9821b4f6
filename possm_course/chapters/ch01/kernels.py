"""Kernel regression: an average weighted by nearness, its leave-one-out error, and a width that can be learned."""

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

from possm_lite.nn.attention import masked_softmax

Kernel = Callable[[Tensor], Tensor]


def gaussian(u: Tensor) -> Tensor:
    """K(u) = exp(-u^2 / 2), any shape. Not divided by sqrt(2 pi): a factor common to all weights cancels."""
    return torch.exp(-0.5 * u.square())


def epanechnikov(u: Tensor) -> Tensor:
    """K(u) = 3/4 (1 - u^2) for |u| < 1, else 0; any shape. Source: Epanechnikov 1969."""
    return 0.75 * (1 - u.square()).clamp(min=0)


def boxcar(u: Tensor) -> Tensor:
    """K(u) = 1/2 for |u| <= 1, else 0; any shape. A step has no slope, so no gradient flows back to u."""
    return 0.5 * (u.abs() <= 1).to(u.dtype)


def kernel_weights(x: Tensor, x_i: Tensor, w: float | Tensor, kernel: Kernel = gaussian, mask=None) -> Tensor:
    """The weights (Q, M) of points x_i (M,) in the estimates at queries x (Q,); 1/w is the width of the kernel.

    p_i(x) = K(w (x - x_i)) / sum_j K(w (x - x_j)) (1.3),   Gaussian: softmax_i(-1/2 w^2 (x - x_i)^2)    (1.5)

    A row is zero if no point that the mask (Q, M) allows is within reach. Source: Nadaraya 1964, Watson 1964.
    """
    u = w * (x[..., :, None] - x_i[..., None, :])  # (Q, M)
    if kernel is gaussian:  # by its exponents: far from all points every K underflows to 0, and 0 / 0 is NaN
        return masked_softmax(-0.5 * u.square(), mask)
    k = kernel(u)
    if mask is not None:
        k = k.masked_fill(~mask, 0.0)
    total = k.sum(-1, keepdim=True)  # (Q, 1)
    return k / torch.where(total > 0, total, 1.0)


def nadaraya_watson(x: Tensor, x_i: Tensor, y_i: Tensor, w: float | Tensor, kernel=gaussian) -> tuple[Tensor, Tensor]:
    """f(x) = sum_i p_i(x) y_i (1.2) with y_i (M,) or (M, V): estimates (Q,) or (Q, V), and `kernel_weights` (Q, M)."""
    weights = kernel_weights(x, x_i, w, kernel)
    return weights @ y_i, weights


def leave_one_out_error(x_i: Tensor, y_i: Tensor, w: float | Tensor, kernel: Kernel = gaussian) -> Tensor:
    """E(w) = mean_i (y_i - f_{-i}(x_i))^2 (1.7), (), where f_{-i} is the estimate from all points but i (1.6).

    A point that no other reaches costs y_i^2, or a kernel could lower its error by reaching fewer.
    """
    others = ~torch.eye(len(x_i), dtype=torch.bool, device=x_i.device)  # (M, M)
    return (y_i - kernel_weights(x_i, x_i, w, kernel, mask=others) @ y_i).square().mean()


def effective_number(weights: Tensor) -> Tensor:
    """How many points an average listens to, n = 1 / sum_i p_i^2, for weights p (..., M) whose sum is one.

    From 1, one point has all the weight, to M, all have the same. Independent errors of size s leave s / sqrt(n) in it.
    """
    return 1 / weights.square().sum(-1)  # (...,)


class KernelRegression(nn.Module):
    """Kernel regression whose width is learned: its only parameter is log w, so w = exp(log w) stays positive."""

    def __init__(self, x_i: Tensor, y_i: Tensor, w: float = 1.0, kernel: Kernel = gaussian):
        super().__init__()
        if kernel is boxcar:
            raise ValueError("The width of a boxcar has no gradient: choose w by leave_one_out_error on a grid.")
        self.register_buffer("x_i", x_i)
        self.register_buffer("y_i", y_i)
        self.kernel = kernel
        self.log_w = nn.Parameter(torch.tensor(math.log(w), dtype=x_i.dtype, device=x_i.device))

    @property
    def w(self) -> Tensor:
        """exp(log w), shape ()."""
        return self.log_w.exp()

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Estimates (Q,) or (Q, V) and weights (Q, M) at queries x (Q,)."""
        return nadaraya_watson(x, self.x_i, self.y_i, self.w, self.kernel)

    def loss(self) -> Tensor:
        """The leave-one-out error, shape (). On the points themselves, none left out, the best w would be infinite."""
        return leave_one_out_error(self.x_i, self.y_i, self.w, self.kernel)
