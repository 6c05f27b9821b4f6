"""Figures of the closed loop: pure, equal to the loop, and live."""

import numpy as np
import pytest

from possm_lite.course.load import load_figures
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
