"""Kernel regression against statsmodels, loops, closed-form limits, finite differences and the grid."""

import math

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from possm_course.chapters.ch01.kernels import (
    KernelRegression,
    boxcar,
    effective_number,
    epanechnikov,
    gaussian,
    kernel_weights,
    leave_one_out_error,
    nadaraya_watson,
)

KERNELS = (gaussian, epanechnikov, boxcar)
BY_HAND = {
    gaussian: lambda u: math.exp(-u * u / 2),
    epanechnikov: lambda u: 0.75 * (1 - u * u) if abs(u) < 1 else 0.0,
    boxcar: lambda u: 0.5 if abs(u) <= 1 else 0.0,
}
# statsmodels announces that its random numbers will change; none are used here
pytestmark = pytest.mark.filterwarnings("ignore:After 0.17:FutureWarning")


@pytest.fixture
def points():
    """Thirty points of a noisy wave: x_i (30,) in [0, 2], not sorted, and y_i (30,)."""
    generator = torch.Generator().manual_seed(3)
    x_i = 2 * torch.rand(30, generator=generator, dtype=torch.float64)
    y_i = torch.sin(4 * x_i) + 0.3 * torch.randn(30, generator=generator, dtype=torch.float64) + 1.0
    return x_i, y_i


def by_loops(x, x_i, y_i, w, kernel, leave=None):
    """The formula for one query, in plain Python; `leave` is the index of a point that is not used."""
    used = [i for i in range(len(x_i)) if i != leave]
    k = {i: BY_HAND[kernel](w * (float(x) - float(x_i[i]))) for i in used}
    total = sum(k.values())
    return sum(k[i] * float(y_i[i]) for i in used) / total if total else 0.0


def statsmodels_regression(x_i, y_i, bw):
    from statsmodels.nonparametric.kernel_regression import KernelReg

    return KernelReg(y_i.numpy(), x_i.numpy(), var_type="c", reg_type="lc", bw=bw)


@pytest.mark.parametrize("kernel", KERNELS)
def test_kernels_match_their_formulas(kernel):
    u = torch.tensor([-3.0, -1.0, -0.999, -0.5, 0.0, 0.25, 1.0, 1.001], dtype=torch.float64)
    expected = torch.tensor([BY_HAND[kernel](v) for v in u.tolist()], dtype=torch.float64)
    assert_close(kernel(u), expected)


@pytest.mark.parametrize("w", [0.3, 4.0, 15.0])
def test_gaussian_regression_and_error_match_statsmodels(points, w):
    x, regression = torch.linspace(-0.2, 2.2, 40, dtype=torch.float64), statsmodels_regression(*points, [1 / w])
    np.testing.assert_allclose(nadaraya_watson(x, *points, w)[0].numpy(), regression.fit(x.numpy())[0], rtol=1e-9)
    expected = regression.cv_loo(np.array([1 / w]), regression.est["lc"])
    assert leave_one_out_error(*points, w).item() == pytest.approx(float(np.squeeze(expected)), rel=1e-9)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("w", [0.5, 7.0, 60.0])
def test_estimates_and_leave_one_out_match_loops(points, kernel, w):
    x, (x_i, y_i) = torch.linspace(-0.3, 2.3, 23, dtype=torch.float64), points
    estimate, weights = nadaraya_watson(x, *points, w, kernel)
    assert_close(estimate, torch.tensor([by_loops(q, *points, w, kernel) for q in x], dtype=torch.float64))
    assert_close(weights @ y_i, estimate)
    expected = [by_loops(x_i[i], x_i, y_i, w, kernel, leave=i) for i in range(len(x_i))]
    expected = torch.tensor(expected, dtype=torch.float64)
    assert_close(leave_one_out_error(x_i, y_i, w, kernel), ((expected - y_i) ** 2).mean())


def test_values_may_be_vectors(points):
    x_i, y_i = points
    both = torch.stack([y_i, -2 * y_i], 1)  # (M, 2)
    assert_close(leave_one_out_error(x_i, both, 5.0), 2.5 * leave_one_out_error(x_i, y_i, 5.0))


def test_effective_number_is_all_points_or_one(points):
    x = torch.tensor([0.3, 1.1], dtype=torch.float64)
    for n, w in ((30.0, 1e-6), (1.0, 1e6)):
        assert_close(effective_number(kernel_weights(x, points[0], w)), torch.full((2,), n, dtype=torch.float64))
    assert effective_number(torch.tensor([0.5, 0.25, 0.25])).item() == pytest.approx(8 / 3)


def test_effective_number_gives_the_noise_of_an_average(points):
    p = kernel_weights(torch.tensor([0.3, 1.1], dtype=torch.float64), points[0], 8.0)  # (2, M)
    errors = torch.randn(30, 20_000, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    assert_close((p @ errors).var(1), 1 / effective_number(p), rtol=0.05, atol=0)


def test_gaussian_estimate_survives_underflow():
    """30 widths away exp(-450) is 0 even in float64: the quotient of the formula would be 0 / 0."""
    x, x_i = torch.tensor([30.0]), torch.tensor([0.0, -1.0])
    assert_close(kernel_weights(x, x_i, 1.0), torch.tensor([[1.0, 0.0]]))


@pytest.mark.parametrize("kernel", [epanechnikov, boxcar])
def test_query_out_of_reach_gets_zeros(kernel):
    x_i = torch.tensor([0.0, 0.1, 5.0], dtype=torch.float64)
    y_i = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64, requires_grad=True)
    w = torch.tensor(2.0, dtype=torch.float64, requires_grad=True)  # reach 0.5
    estimate, weights = nadaraya_watson(torch.tensor([2.5, 5.2], dtype=torch.float64), x_i, y_i, w, kernel)
    assert (weights[0] == 0).all() and estimate[0] == 0 and estimate[1] == 3
    lonely = leave_one_out_error(x_i, y_i, w, kernel)  # 0 and 0.1 predict each other, 5 is alone: 1, 1, 9
    assert lonely.item() == pytest.approx(11 / 3)
    gradients = torch.autograd.grad(lonely + estimate.sum(), [y_i, w], allow_unused=True)
    assert gradients[0].isfinite().all()
    assert gradients[1] is None if kernel is boxcar else gradients[1].isfinite()
    for any_kernel in (gaussian, kernel):  # a single point has no others: its estimate is 0
        assert leave_one_out_error(torch.ones(1), 3 * torch.ones(1), 1.0, any_kernel).item() == 9


@pytest.mark.parametrize("kernel", [gaussian, epanechnikov])
def test_error_gradient_matches_finite_differences(points, kernel):
    for log_w in (0.0, 1.0, 2.5):
        model = KernelRegression(*points, w=math.exp(log_w), kernel=kernel)
        assert_close(model(points[0]), nadaraya_watson(points[0], *points, math.exp(log_w), kernel))
        model.loss().backward()
        step = 1e-6
        up, down = (leave_one_out_error(*points, math.exp(log_w + s), kernel) for s in (step, -step))
        assert model.log_w.grad.item() == pytest.approx(((up - down) / (2 * step)).item(), rel=1e-5, abs=1e-8)
    grid = torch.logspace(0, 2, 2001, dtype=torch.float64)
    best = grid[torch.stack([leave_one_out_error(*points, w, kernel) for w in grid]).argmin()].item()
    for w, sign in ((0.98 * best, -1), (1.02 * best, 1)):  # from both sides steps against it lead to the grid's minimum
        (slope,) = torch.autograd.grad((model := KernelRegression(*points, w, kernel)).loss(), model.log_w)
        assert sign * slope > 0
