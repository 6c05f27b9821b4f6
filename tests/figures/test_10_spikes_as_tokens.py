"""The raster of chapter 10 shows exactly the spikes and velocities of its window."""

import numpy as np
import pytest

from possm_lite.course.load import load_figures

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
