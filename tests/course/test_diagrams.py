import io

import pytest
from matplotlib import pyplot as plt
from PIL import Image

from possm_course.diagrams import Box, Diagram


@pytest.fixture
def diagram():
    return Diagram(12, 6)


def test_text_that_overflows_is_refused(diagram):
    diagram.box(3, 3, "output attention\nover $h_{t-2}$")
    with pytest.raises(ValueError, match=r"'output attention\\nover .* grid units"):
        diagram.box(8, 3, "output attention\nover $h_{t-2}$", "learned", width=1, height=2)
    diagram.matrix(3, 3, 1, 2, values=[[0.5, None]])
    with pytest.raises(ValueError, match=r"0\.123457"):
        diagram.matrix(3, 3, 1, 2, values=[[0.1234567, None]])


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
    assert Image.open(image).size == (640, 330)
