"""The raster of chapter 10: it shows the spikes of its window, and a step is quick and leaves no trace."""

import numpy as np
import pytest

from possm_lite.classroom.figures.raster import MOST_POINTS, picture
from possm_lite.classroom.widgets import Slider, explore, png


@pytest.fixture
def order(small_recording):
    return np.random.default_rng(3).permutation(small_recording.n_units)


@pytest.mark.parametrize(("start", "length"), [(0.0, 2.0), (3.21, 0.05), (10.0, 8.0)])
def test_the_ticks_are_the_spikes_of_the_window(small_recording, order, start, length):
    spikes = picture(small_recording, order)(start=start, length=length).axes[0].lines[0]
    now = (small_recording.spike_times >= start) & (small_recording.spike_times < start + length)
    time_s, row = spikes.get_xdata(), spikes.get_ydata()
    np.testing.assert_allclose(time_s + start, small_recording.spike_times[now])
    np.testing.assert_array_equal(order[row], small_recording.spike_units[now])


def test_without_an_order_rows_are_units(small_recording):
    spikes = picture(small_recording)(start=0.0, length=3.0).axes[0].lines[0]
    n = len(spikes.get_ydata())
    assert n > 0
    np.testing.assert_array_equal(spikes.get_ydata(), small_recording.spike_units[:n])


def test_the_hand_is_the_recorded_velocity_and_never_too_many_points(small_recording):
    x, y = picture(small_recording)(start=4.0, length=10.0).axes[1].lines[:2]
    for line, axis in ((x, 0), (y, 1)):
        assert len(line.get_xdata()) <= 2 * MOST_POINTS
        wanted = np.interp(line.get_xdata() + 4.0, small_recording.behavior_times, small_recording.velocity[:, axis])
        np.testing.assert_allclose(line.get_ydata(), wanted, atol=1e-6)


def test_trials_are_marked_where_they_start(small_recording):
    start, stop = small_recording.trials[2]
    marks = picture(small_recording)(start=start - 0.3, length=stop - start + 0.2).axes[0].lines[1:]
    assert [mark.get_xdata()[0] for mark in marks] == [pytest.approx(0.3)]


def test_words_tell_the_window(small_recording):
    figure = picture(small_recording)(start=1.5, length=2.0)
    words = [text.get_text() for text in figure.texts]
    now = (small_recording.spike_times >= 1.5) & (small_recording.spike_times < 3.5)
    assert words == ["1.50", "2.50", "3.50", f"{now.sum():,} spikes in 2.00 s"]


def test_beyond_the_end_there_is_nothing_and_no_error(small_recording):
    figure = picture(small_recording)(start=small_recording.span[1] + 5, length=1.0)
    assert len(figure.axes[0].lines[0].get_xdata()) == 0
    assert png(figure)


def test_a_step_leaves_no_trace_in_the_next(small_recording):
    draw = picture(small_recording)
    first = png(draw(start=2.0, length=1.0))
    png(draw(start=9.0, length=4.0))
    assert png(draw(start=2.0, length=1.0)) == first


def test_sliders_move_it(small_recording, capsys):
    explorer = explore(
        picture(small_recording), start=Slider("start (s)", 0.0, 20.0), length=Slider("window (s)", 0.1, 5.0, log=True)
    )
    explorer.sweep()
    assert capsys.readouterr().out == "moved 2 sliders through 8 positions\n"
    assert explorer.step_ms(rounds=1) < 400  # far below on a quiet machine; this one may be shared
