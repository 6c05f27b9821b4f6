"""Figures of the closed loop: pure, equal to the loop, and live."""

import io

import numpy as np
import pytest
from PIL import Image

from possm_lite.course.load import load_figures
from possm_lite.course.widgets import png
from possm_lite.decoder import POSSM, POSSMConfig, StreamingDecoder
from possm_lite.simulate import simulate_session
from possm_lite.simulate.neurons import SimulationConfig

from ..exercises.helpers import NOTEBOOKS

figures = load_figures("14_real_time", NOTEBOOKS)
sim = figures.sim
VALUES = {"latency_ms": 0, "ahead_ms": 0, "lost": 0, "gain": 1.0}


@pytest.fixture
def decoders():
    """Untrained, with a large velocity."""
    models = [POSSM(POSSMConfig(n_units=30, hidden=32)) for _ in range(2)]
    for model in models:
        model.behavior_std[1] = 3000.0
    return {lead_ms: StreamingDecoder(model, 1, 0.04) for lead_ms, model in zip((0, 100), models, strict=True)}


@pytest.fixture
def loop(decoders):
    truth = simulate_session(1, SimulationConfig(n_trials=4, n_units=30)).truth
    return sim.ClosedLoop(decoders[0], sim.Population(truth), sim.ReachingTask(sim.circle_targets()))


def test_figure_shows_the_loop(loop, decoders):
    draw = figures.make_draw(loop, decoders, seconds=1.0)
    screen, distance = draw(latency_ms=100, ahead_ms=100, lost=20, gain=2.0).axes
    assert loop.decoder is decoders[100]
    assert loop.latency_s == 0.1 and loop.gain == 2.0
    np.testing.assert_allclose(screen.lines[0].get_xydata(), loop.cursor_mm)
    distance_mm = np.hypot(*(loop.cursor_mm - loop.targets_mm).T)
    np.testing.assert_allclose(distance.lines[0].get_ydata(), distance_mm)
    assert len(distance_mm) == 100


def test_each_figure_starts_anew(loop, decoders):
    draw = figures.make_draw(loop, decoders, seconds=0.5)
    first = png(draw(**VALUES))
    for changed in ({"latency_ms": 200}, {"ahead_ms": 100}, {"lost": 60}, {"gain": 2.0}):
        assert png(draw(**VALUES | changed)) != first
        assert png(draw(**VALUES)) == first


def test_frame_shows_the_cursor_position(loop):
    """The dark disc is at the cursor, y upwards."""
    loop.cursor_mm = np.array([[60.0, 30.0]])
    rows, columns = np.nonzero((np.asarray(Image.open(io.BytesIO(figures.frame(loop)))) < 80).all(-1))
    scale = 320 / 250
    assert columns.mean() == pytest.approx(scale * (125 + 60), abs=1)
    assert rows.mean() == pytest.approx(scale * (125 - 30), abs=1)


def test_sliders_take_effect_while_running(loop, decoders):
    live = figures.LiveLoop(loop, decoders)
    for n, _ in enumerate(live._bins(0.3)):
        if n == 2:
            assert loop.decoder is decoders[100]
            for name, value in {"latency_ms": 150, "ahead_ms": 0, "lost": 50, "gain": 2.0}.items():
                live._widgets[name].value = value
    assert loop.decoder is decoders[0]
    assert loop.latency_s == 0.15 and loop.gain == 2.0 and loop.population._silent.sum() == 15
