import base64
import io
from unittest.mock import Mock

import numpy as np
import pytest
from matplotlib import pyplot as plt
from matplotlib.figure import Figure
from PIL import Image

from possm_course.widgets import Slider, explore, png


def line(slope: float, n: int = 2) -> Figure:
    figure = Figure(figsize=(2, 1), dpi=50)
    figure.add_subplot().plot(range(n), slope * np.arange(n), "o-")
    return figure


@pytest.fixture
def draw():
    return Mock(side_effect=line)


@pytest.fixture
def explorer(draw):
    slope, n = Slider("slope (mm/s)", 0.1, 10.0, value=1.0, log=True), Slider("points", 2, 6, value=3)
    return explore(draw, slope=slope, n=n)


def test_slider_replaces_the_image(explorer, draw):
    draw.assert_called_once_with(slope=1.0, n=3)
    *sliders, _, image = explorer.box.children
    before = image.value
    assert [slider.step for slider in sliders] == [0.02, 1]
    sliders[1].value = 5
    draw.assert_called_with(slope=1.0, n=5)
    assert image.value == png(line(1.0, 5)) != before == png(line(1.0, 3))
    assert explorer.box.children[-1] is image and plt.get_fignums() == []


def test_sweep_visits_the_range_and_returns(explorer, draw, capsys):
    explorer.sweep()
    assert capsys.readouterr().out == "moved 2 sliders through 6 positions\n"
    assert {round(call.kwargs["slope"], 6) for call in draw.mock_calls} == {0.1, 1.0, 10.0}
    assert {call.kwargs["n"] for call in draw.mock_calls} == {2, 3, 6}
    assert explorer.values == {"slope": 1.0, "n": 3}


def test_output_has_a_still_image(explorer):
    data = explorer._repr_mimebundle_()
    assert "application/vnd.jupyter.widget-view+json" in data
    with Image.open(io.BytesIO(base64.b64decode(data["image/png"]))) as still:
        assert still.size == (100, 50)
