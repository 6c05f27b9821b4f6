import io

import numpy as np
import pytest
from matplotlib import pyplot as plt
from matplotlib.patches import FancyArrowPatch
from PIL import Image

from possm_lite.course.diagrams import Box, Diagram


@pytest.fixture
def diagram():
    return Diagram(12, 6)


def arrow_touches(diagram, *anchors):
    """Whether the last arrow has a corner at each of the points, head included."""
    points = [p for p in diagram.axes.patches if isinstance(p, FancyArrowPatch)][-1].get_path().vertices
    return all(np.hypot(*(points - anchor).T).min() < 0.04 for anchor in anchors)  # a head reaches a point further


def test_text_that_overflows_is_refused(diagram):
    diagram.box(3, 3, "output attention\nover $h_{t-2}$")
    with pytest.raises(ValueError, match=r"'output attention\\nover .* grid units"):
        diagram.box(8, 3, "output attention\nover $h_{t-2}$", "learned", width=1, height=2)
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
    assert arrow_touches(diagram, getattr(a, start), getattr(b, end))


@pytest.mark.parametrize("look", [{"curve": 0.4}, {"via": [(3, 5), (8, 5)]}, {"dashed": True, "head": False}])
def test_every_arrow_ends_where_it_is_told(diagram, look):
    diagram.arrow(Box(3, 2, 1, 1).top, Box(8, 2, 1, 1).at("top", 0.25), **look)
    assert arrow_touches(diagram, (3, 2.5), (7.75, 2.5))


def test_cells_of_a_matrix_are_boxes_counted_from_above(diagram):
    grid = diagram.matrix(4, 3, 2, 4, "X (2, 4)", cell=(0.5, 1))
    assert (grid.width, grid.height) == (2, 2)
    assert grid.cell(0, 0) == Box(3.25, 3.5, 0.5, 1) and grid.cell(1, 3).bottom == (4.75, 2)


def test_figure_is_shown_once():
    """A notebook shows the value of its last cell, and once more every figure that pyplot knows."""
    before, diagram = plt.get_fignums(), Diagram(12, 6)
    diagram.box(6, 3, "GRU", "learned")
    diagram.legend(1, 1)
    figure, image = diagram.figure(), io.BytesIO()
    figure.savefig(image, dpi=100)
    assert plt.get_fignums() == before and figure.axes == [diagram.axes]
    assert Image.open(image).size == (640, 320)
