"""The raster of chapter 10 shows exactly the spikes and velocities of its window; lecture notes come back."""

import numpy as np
import pytest

from possm_course.chapters.ch10 import figures, lecture_notes


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


def test_lecture_notes_become_a_recording_and_come_back(small_recording):
    lecture = lecture_notes
    notes = lecture.to_notes(small_recording)
    back = lecture.to_notes(lecture.from_notes(notes))
    assert [t["vel"] for t in back] == [t["vel"] for t in notes]
    for one, other in zip(notes, back, strict=True):
        for pairs, again in zip(one["spikes"], other["spikes"], strict=True):
            assert [unit for unit, _ in again or ()] == [unit for unit, _ in pairs or ()]
            np.testing.assert_allclose([t for _, t in again or ()], [t for _, t in pairs or ()], rtol=0, atol=1e-9)
