"""Kernel regression: the weighted average, its leave-one-out error, and a width that is learned."""

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

from possm_lite.nn.attention import masked_softmax

Kernel = Callable[[Tensor], Tensor]


def gaussian(u: Tensor) -> Tensor:
    """The Gaussian kernel, K(u) = exp(-u^2 / 2).

    It is not divided by sqrt(2 pi): a factor common to all weights cancels.

    Args:
        u: Scaled distances w (x - x_i), any shape.

    Returns:
        K(u), the shape of `u`.
    """
    return torch.exp(-0.5 * u.square())


def epanechnikov(u: Tensor) -> Tensor:
    """The Epanechnikov kernel, K(u) = 3/4 (1 - u^2) for |u| < 1, else 0.

    Args:
        u: Scaled distances w (x - x_i), any shape.

    Returns:
        K(u), the shape of `u`.

    Source: Epanechnikov 1969.
    """
    return 0.75 * (1 - u.square()).clamp(min=0)


def boxcar(u: Tensor) -> Tensor:
    """The boxcar kernel, K(u) = 1/2 for |u| <= 1, else 0.

    A step has no slope, so no gradient flows back to u.

    Args:
        u: Scaled distances w (x - x_i), any shape.

    Returns:
        K(u), the shape of `u`.
    """
    return 0.5 * (u.abs() <= 1).to(u.dtype)


def kernel_weights(
    x: Tensor,
    x_i: Tensor,
    w: float | Tensor,
    kernel: Kernel = gaussian,
    mask: Tensor | None = None,
) -> Tensor:
    """The weights of the points in the estimates at the queries.

        p_i(x) = K(w (x - x_i)) / sum_j K(w (x - x_j))            (1.3)
        Gaussian: p_i(x) = softmax_i(-1/2 w^2 (x - x_i)^2)        (1.5)

    Args:
        x: Queries, shape (Q,).
        x_i: Points, shape (M,), in the unit of `x`.
        w: One over the width of the kernel, a number or shape ().
        kernel: K(u), elementwise.
        mask: True where a query may read a point, shape (Q, M).

    Returns:
        The weights p_i(x), shape (Q, M). A row sums to one, or is zero if no point that the mask
        allows is within reach.

    Source: Nadaraya 1964, Watson 1964.
    """
    u = w * (x[..., :, None] - x_i[..., None, :])  # (Q, M)
    if kernel is gaussian:
        # by its exponents: far from all points every K underflows to 0, and 0 / 0 is NaN
        return masked_softmax(-0.5 * u.square(), mask)
    k = kernel(u)
    if mask is not None:
        k = k.masked_fill(~mask, 0.0)
    total = k.sum(-1, keepdim=True)  # (Q, 1)
    return k / torch.where(total > 0, total, 1.0)


def nadaraya_watson(
    x: Tensor,
    x_i: Tensor,
    y_i: Tensor,
    w: float | Tensor,
    kernel: Kernel = gaussian,
) -> tuple[Tensor, Tensor]:
    """Kernel regression: the average of the values under `kernel_weights`.

        f(x) = sum_i p_i(x) y_i        (1.2)

    Args:
        x: Queries, shape (Q,).
        x_i: Points, shape (M,), in the unit of `x`.
        y_i: Their values, shape (M,) or (M, V).
        w: One over the width of the kernel, a number or shape ().
        kernel: K(u), elementwise.

    Returns:
        The estimates f(x), shape (Q,) or (Q, V), and the weights, shape (Q, M).

    Source: Nadaraya 1964, Watson 1964.
    """
    weights = kernel_weights(x, x_i, w, kernel)
    return weights @ y_i, weights


def leave_one_out_error(
    x_i: Tensor,
    y_i: Tensor,
    w: float | Tensor,
    kernel: Kernel = gaussian,
) -> Tensor:
    """The mean squared error at every point of the estimate from all other points.

        E(w) = mean_i (y_i - f_{-i}(x_i))^2        (1.7)

    Here f_{-i} is the estimate from all points but i (1.6). A point that no other reaches costs
    y_i^2, or a kernel could lower its error by reaching fewer.

    Args:
        x_i: Points, shape (M,).
        y_i: Their values, shape (M,) or (M, V).
        w: One over the width of the kernel, a number or shape ().
        kernel: K(u), elementwise.

    Returns:
        E(w), shape (), in the squared unit of `y_i`.
    """
    others = ~torch.eye(len(x_i), dtype=torch.bool, device=x_i.device)  # (M, M)
    estimates = kernel_weights(x_i, x_i, w, kernel, mask=others) @ y_i  # (M,) or (M, V)
    return (y_i - estimates).square().mean()


def effective_number(weights: Tensor) -> Tensor:
    """How many points an average reads, n = 1 / sum_i p_i^2.

    From 1, one point has all the weight, to M, all have the same. Independent errors of size s
    leave an error of s / sqrt(n) in the average.

    Args:
        weights: p_i, shape (..., M), with sums of one over the last axis.

    Returns:
        n, shape (...,).
    """
    return 1 / weights.square().sum(-1)  # (...,)


class KernelRegression(nn.Module):
    """Kernel regression whose width is learned.

    Its only parameter is log w, so w = exp(log w) stays positive.

    Args:
        x_i: Points, shape (M,), a buffer.
        y_i: Their values, shape (M,) or (M, V), a buffer.
        w: One over the width of the kernel at the start.
        kernel: K(u), elementwise and with a slope.

    Attributes:
        log_w: The parameter, shape ().

    Raises:
        ValueError: The kernel is `boxcar`, whose width has no gradient.
    """

    def __init__(self, x_i: Tensor, y_i: Tensor, w: float = 1.0, kernel: Kernel = gaussian):
        super().__init__()
        if kernel is boxcar:
            raise ValueError(
                "The width of a boxcar has no gradient: choose w by leave_one_out_error on a grid."
            )
        self.register_buffer("x_i", x_i)
        self.register_buffer("y_i", y_i)
        self.kernel = kernel
        self.log_w = nn.Parameter(torch.tensor(math.log(w), dtype=x_i.dtype, device=x_i.device))

    @property
    def w(self) -> Tensor:
        """One over the width of the kernel, exp(log w), shape ()."""
        return self.log_w.exp()

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """The estimates at queries.

        Args:
            x: Queries, shape (Q,).

        Returns:
            The estimates, shape (Q,) or (Q, V), and the weights, shape (Q, M).
        """
        return nadaraya_watson(x, self.x_i, self.y_i, self.w, self.kernel)

    def loss(self) -> Tensor:
        """The leave-one-out error of the points, shape ().

        On the points themselves, with none left out, the best w would be infinite.
        """
        return leave_one_out_error(self.x_i, self.y_i, self.w, self.kernel)
