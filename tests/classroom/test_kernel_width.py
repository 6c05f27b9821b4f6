"""The figure of chapter 01: its three panels show what the blocks compute, and a step keeps nothing of the last."""

import math

import numpy as np
import pytest
import torch

from possm_lite.blocks.kernels import epanechnikov, gaussian, leave_one_out_error, nadaraya_watson
from possm_lite.classroom.figures.kernel_width import picture
from possm_lite.classroom.widgets import Slider, explore, png

X_RANGE, W_RANGE = (0.0, 2.0), (1.0, 300.0)


@pytest.fixture(scope="module")
def points():
    """Twenty points, not in the order of x."""
    generator = torch.Generator().manual_seed(5)
    x_i = 2 * torch.rand(20, generator=generator, dtype=torch.float64)
    return x_i, 100 * torch.sin(4 * x_i) + 20 * torch.randn(20, generator=generator, dtype=torch.float64)


@pytest.mark.parametrize("kernel", [gaussian, epanechnikov])
@pytest.mark.parametrize("w", [1.0, 12.0, 300.0])
def test_the_panels_show_what_the_blocks_compute(points, w, kernel):
    x_i, y_i = points
    figure = picture(x_i, y_i, X_RANGE, W_RANGE, kernel)(w=w, query=0.7)
    above, matrix, error = figure.axes
    x = torch.linspace(*X_RANGE, len(matrix.images[0].get_array()), dtype=torch.float64)
    order = x_i.argsort()
    estimate, weights = nadaraya_watson(x, x_i[order], y_i[order], w, kernel)

    line, _, diamond = above.lines
    np.testing.assert_allclose(line.get_ydata(), estimate)
    at_query = nadaraya_watson(torch.tensor([0.7], dtype=torch.float64), x_i, y_i, w, kernel)[0].item()
    assert diamond.get_xydata().tolist() == [[0.7, pytest.approx(at_query)]]
    np.testing.assert_allclose(above.collections[-1].get_offsets(), torch.stack([x_i[order], y_i[order]], 1))
    np.testing.assert_allclose(np.asarray(matrix.images[0].get_array()), weights)
    expected = math.sqrt(leave_one_out_error(x_i, y_i, w, kernel))
    assert error.lines[0].get_xydata().tolist() == [[w, pytest.approx(expected)]]


def test_points_that_count_more_are_drawn_larger(points):
    x_i, y_i = points
    above = picture(x_i, y_i, X_RANGE, W_RANGE)(w=8.0, query=0.7).axes[0]
    sizes, x = above.collections[-1].get_sizes(), x_i.sort().values
    assert sizes.argmax() == (x - 0.7).abs().argmin()


def test_nothing_is_outside_its_panel(points):
    above, _, error = picture(*points, X_RANGE, W_RANGE)(w=300.0, query=2.0).axes
    for axes in (above, error):
        (left, right), (bottom, top) = axes.get_xlim(), axes.get_ylim()
        for line in axes.lines:
            x, y = line.get_xydata().T
            assert left <= x.min() and x.max() <= right and bottom <= y.min() and y.max() <= top


def test_a_step_leaves_no_trace_in_the_next(points):
    draw = picture(*points, X_RANGE, W_RANGE)
    first = png(draw(w=8.0, query=0.7))
    assert png(draw(w=100.0, query=0.7)) != first and png(draw(w=8.0, query=1.7)) != first
    assert png(draw(w=8.0, query=0.7)) == first
    backwards = picture(*(z.flip(0) for z in points), X_RANGE, W_RANGE)
    assert png(backwards(w=8.0, query=0.7)) == first


@pytest.mark.filterwarnings("error", "ignore::DeprecationWarning")
@pytest.mark.parametrize("values", [torch.zeros(20, dtype=torch.float64), torch.full((20,), 7.0).double()])
def test_points_of_one_value_alone_can_be_drawn(points, values):
    """No height to scale the panels by, and no error at all."""
    picture(points[0], values, X_RANGE, W_RANGE)(w=8.0, query=0.7)


@pytest.mark.filterwarnings("error", "ignore::DeprecationWarning")
def test_it_goes_behind_sliders(points, capsys):
    explorer = explore(
        picture(*points, X_RANGE, W_RANGE, epanechnikov),
        w=Slider("w (1/s)", *W_RANGE, value=10.0, log=True),
        query=Slider("query (s)", *X_RANGE),
    )
    explorer.sweep()
    assert capsys.readouterr().out == "moved 2 sliders through 8 positions\n"
