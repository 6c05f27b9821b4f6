"""Recordings to the form of the lecture notes and back; the way from there is a layout of `test_layouts.py`, too."""

import numpy as np

from possm_lite.course.load import load_figures
from possm_lite.recordings import Recording

from ..exercises.helpers import NOTEBOOKS


def test_recording_to_notes_and_back():
    """Unit names, spikes on edges, silent bins, half a bin at the end, behaviour that begins within a bin."""
    spikes, samples = [1.0, 1.15, 1.17, 5.31, 5.44], np.arange(100) * 0.0625 + 0.03
    named = {"unit_ids": ["b", "a"], "trials": [[1.0, 1.25], [5.3, 5.43]], "session_id": "named"}
    recording = Recording(spikes, [0, 1, 0, 1, 0], behavior_times=samples, behavior=samples, **named)
    lecture = load_figures("10_lecture_notes", NOTEBOOKS)
    notes = lecture.to_notes(recording)
    assert [len(trial["spikes"]) for trial in notes] == [5, 2]  # the last 0.03 s are not a bin
    assert notes[0]["spikes"][1:3] == [0, 0] and [unit for unit, _ in notes[0]["spikes"][3]] == ["a", "b"]
    back = lecture.from_notes(notes)
    assert back.unit_ids.tolist() == ["a", "b"] and back.spike_units.tolist() == [1, 0, 1, 0]
    np.testing.assert_allclose(back.spike_times - [0, 0, 0, 1.2], [0.0, 0.15, 0.17, 0.01], atol=1e-12)
    np.testing.assert_allclose(np.diff(back.trials), [[0.25], [0.1]])
