"""The figure of chapter 01: its three panels show what `course.kernels` computes."""

import math

import numpy as np
import pytest
import torch

from possm_lite.course.kernels import epanechnikov, gaussian, leave_one_out_error, nadaraya_watson
from possm_lite.course.load import load_figures

from ..exercises.helpers import NOTEBOOKS

figures = load_figures("01_kernel_regression", NOTEBOOKS)
X_RANGE, W_RANGE = (0.0, 2.0), (1.0, 300.0)


@pytest.fixture(scope="module")
def points():
    """Twenty points, not in the order of x."""
    generator = torch.Generator().manual_seed(5)
    x_i = 2 * torch.rand(20, generator=generator, dtype=torch.float64)
    return x_i, 100 * torch.sin(4 * x_i) + 20 * torch.randn(20, generator=generator, dtype=torch.float64)


@pytest.mark.parametrize("kernel", [gaussian, epanechnikov])
@pytest.mark.parametrize("w", [1.0, 12.0, 300.0])
def test_panels_show_the_regression(points, w, kernel):
    x_i, y_i = (z[points[0].argsort()] for z in points)
    above, matrix, error = figures.make_draw(*points, X_RANGE, W_RANGE, kernel)(w=w, query=0.7).axes
    x = torch.linspace(*X_RANGE, len(matrix.images[0].get_array()), dtype=torch.float64)
    estimate, weights = nadaraya_watson(x, x_i, y_i, w, kernel)
    at_query, share = nadaraya_watson(torch.tensor([0.7], dtype=torch.float64), x_i, y_i, w, kernel)

    line, _, diamond = above.lines
    scatter = above.collections[-1]
    np.testing.assert_allclose(line.get_ydata(), estimate)
    assert diamond.get_xydata().tolist() == [[0.7, pytest.approx(at_query.item())]]
    np.testing.assert_allclose(scatter.get_offsets(), torch.stack([x_i, y_i], 1))
    assert (np.diff(scatter.get_sizes()[share[0].argsort()]) >= 0).all()
    np.testing.assert_allclose(np.asarray(matrix.images[0].get_array()), weights)
    expected = math.sqrt(leave_one_out_error(x_i, y_i, w, kernel))
    assert error.lines[0].get_xydata().tolist() == [[w, pytest.approx(expected)]]
