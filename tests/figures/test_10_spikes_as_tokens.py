"""The raster of chapter 10 shows exactly the spikes and velocities of its window."""

import numpy as np
import pytest

from possm_lite.classroom.load import load_figures
from possm_lite.classroom.widgets import Slider, explore, png

from ..exercises.helpers import NOTEBOOKS

figures = load_figures("10_spikes_as_tokens", NOTEBOOKS)


@pytest.mark.parametrize(("start", "length"), [(0.0, 2.0), (3.21, 0.05), (10.0, 8.0)])
@pytest.mark.parametrize("permuted", [True, False])
def test_ticks_are_the_spikes_of_the_window(small_recording, start, length, permuted):
    order = np.random.default_rng(3).permutation(small_recording.n_units) if permuted else None
    spikes = figures.make_draw(small_recording, order)(start=start, length=length).axes[0].lines[0]
    now = (small_recording.spike_times >= start) & (small_recording.spike_times < start + length)
    time_s, row = spikes.get_xdata(), spikes.get_ydata()
    assert now.any()
    np.testing.assert_allclose(time_s + start, small_recording.spike_times[now])
    np.testing.assert_array_equal(order[row] if permuted else row, small_recording.spike_units[now])


def test_velocity_is_thinned(small_recording):
    x, y = figures.make_draw(small_recording)(start=4.0, length=10.0).axes[1].lines[:2]
    for line, axis in ((x, 0), (y, 1)):
        assert len(line.get_xdata()) <= 2 * figures.MAX_POINTS
        wanted = np.interp(line.get_xdata() + 4.0, small_recording.behavior_times, small_recording.behavior[:, axis])
        np.testing.assert_allclose(line.get_ydata(), wanted, atol=1e-6)


def test_trial_starts_are_marked(small_recording):
    start, stop = small_recording.trials[2]
    marks = figures.make_draw(small_recording)(start=start - 0.3, length=stop - start + 0.2).axes[0].lines[1:]
    assert [mark.get_xdata()[0] for mark in marks] == [pytest.approx(0.3)]


def test_texts_give_the_window(small_recording):
    figure = figures.make_draw(small_recording)(start=1.5, length=2.0)
    n_spikes = ((small_recording.spike_times >= 1.5) & (small_recording.spike_times < 3.5)).sum()
    assert [text.get_text() for text in figure.texts] == [f"{n_spikes:,} spikes in 2.00 s", "1.50", "2.50", "3.50"]


def test_drawing_is_pure_and_fast(small_recording):
    draw, end = figures.make_draw(small_recording), small_recording.span[1]
    first = png(draw(start=2.0, length=1.0))
    explorer = explore(draw, start=Slider("start (s)", 0.0, end + 5), length=Slider("window (s)", 0.1, 5.0, log=True))
    explorer.sweep()  # also through a window without spikes, after the end
    assert 0 < explorer.step_ms() < 400  # far below on an idle machine; tests may run in parallel
    assert png(draw(start=2.0, length=1.0)) == first
