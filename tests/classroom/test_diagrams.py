import io

import numpy as np
import pytest
from matplotlib import pyplot as plt
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch
from PIL import Image

from possm_lite.classroom.diagrams import KINDS, Box, Diagram


@pytest.fixture
def diagram():
    return Diagram(12, 6)


def arrow_points(diagram):
    """The corners of the last arrow, head included."""
    return [p for p in diagram.axes.patches if isinstance(p, FancyArrowPatch)][-1].get_path().vertices


def is_near(points, anchor):
    return np.hypot(*(points - anchor).T).min() < 0.04  # the tip of a head is drawn a point beyond its line


@pytest.mark.parametrize("kind", KINDS)
def test_text_that_overflows_is_refused(diagram, kind):
    fitted = diagram.box(3, 3, "output attention\nover $h_{t-2}$", kind)
    diagram.box(3, 3, "output attention\nover $h_{t-2}$", kind, fitted.width, fitted.height)
    with pytest.raises(ValueError, match=r"'output attention\\nover .* grid units, not 1\.00 x 2\.00"):
        diagram.box(8, 3, "output attention\nover $h_{t-2}$", kind, width=1, height=2)
    with pytest.raises(ValueError, match="overflows"):
        diagram.box(8, 3, "output attention\nover $h_{t-2}$", kind, width=4, height=0.4)


def test_numbers_too_long_for_their_cell_are_refused(diagram):
    diagram.matrix(3, 3, 1, 2, values=[[0.5, None]])
    with pytest.raises(ValueError, match=r"0\.123457"):
        diagram.matrix(3, 3, 1, 2, values=[[0.1234567, None]])


@pytest.mark.parametrize(
    "other, start, end",
    [((9, 3), "right", "left"), ((1, 3), "left", "right"), ((5, 5.5), "top", "bottom"), ((5, 0.5), "bottom", "top")],
)
def test_arrows_go_between_the_anchors_that_face_each_other(diagram, other, start, end):
    a, b = diagram.box(5, 3, "a", width=1, height=1), diagram.box(*other, "b", "memory", width=0.6, height=0.6)
    diagram.arrow(a, b)
    points = arrow_points(diagram)
    assert is_near(points, getattr(a, start)) and is_near(points, getattr(b, end))


@pytest.mark.parametrize("look", [{"curve": 0.4}, {"via": [(3, 5), (8, 5)]}, {"dashed": True, "head": False}])
def test_every_arrow_ends_where_it_is_told(diagram, look):
    a, b = Box(3, 2, 1, 1), Box(8, 2, 1, 1)
    diagram.arrow(a.top, b.at("top", 0.25), **look)
    points = arrow_points(diagram)
    assert is_near(points, (3, 2.5)) and is_near(points, (7.75, 2.5))
    assert points[:, 1].max() > 3 or "dashed" in look  # a positive curve bends to the left: up, on the way to the right


def test_cells_of_a_matrix_are_boxes_counted_from_above(diagram):
    grid = diagram.matrix(4, 3, 2, 4, "X (2, 4)", cell=(0.5, 1))
    assert (grid.width, grid.height) == (2, 2)
    assert grid.cell(0, 0) == Box(3.25, 3.5, 0.5, 1) and grid.cell(1, 3).bottom == (4.75, 2)
    with pytest.raises(ValueError):
        diagram.matrix(4, 3, 2, 4, values=[[1, 2, 3]])


def test_drawing_in_which_something_is_hidden_is_refused(diagram):
    a, b = diagram.box(1, 3, "a"), diagram.box(3, 3, "b")
    diagram.arrow(a, b, "x")
    assert isinstance(diagram.figure(), Figure)
    diagram.arrow((2, 1), (2, 5))
    diagram.arrow(a.bottom, b.bottom, "a label far too long for this short an arrow")
    diagram.note(11.9, 5, "outside")
    with pytest.raises(ValueError) as error:
        diagram.figure()
    for problem in (
        "arrow crosses 'x'",
        "'a label far too long for this short an arrow'",
        "'outside' leaves the drawing",
    ):
        assert problem in str(error.value)
    assert isinstance(diagram.figure(check=False), Figure)


def test_figure_is_shown_once():
    """A notebook shows the value of its last cell, and once more every figure that pyplot knows."""
    before, diagram = plt.get_fignums(), Diagram(12, 6)
    diagram.box(6, 3, "GRU", "learned")
    diagram.legend(1, 1)
    figure, image = diagram.figure(), io.BytesIO()
    figure.savefig(image, dpi=100)
    assert plt.get_fignums() == before and figure.axes == [diagram.axes]
    assert Image.open(image).size == (640, 320)
