"""The raster of chapter 10 shows exactly the spikes and velocities of its window; lecture notes come back."""

import numpy as np
import pytest

from possm_course.chapters.ch10 import figures, lecture_notes
from possm_lite.recordings import RecordingError


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


def one_array_a_trial(notes, extra=0):
    """The notes with the velocity of a trial as one array, with `extra` samples after the last bin."""
    changed = []
    for trial in notes:
        samples = [sample for bin in trial["vel"] for sample in bin]
        changed.append(trial | {"vel": np.array(samples + samples[-1:] * extra)})
    return changed


def with_times(notes, change):
    """The notes with other times in the bin: change(bin, seconds)."""
    changed = []
    for trial in notes:
        bins = enumerate(trial["spikes"])
        spikes = [[(unit, change(b, t)) for unit, t in pairs] if pairs else 0 for b, pairs in bins]
        changed.append(trial | {"spikes": spikes})
    return changed


@pytest.mark.parametrize("extra", [0, 1, 49])
def test_one_array_of_velocity_a_trial_is_read(small_recording, extra):
    notes = lecture_notes.to_notes(small_recording)
    recording = lecture_notes.from_notes(one_array_a_trial(notes, extra))
    expected = lecture_notes.from_notes(notes)
    np.testing.assert_array_equal(recording.behavior, expected.behavior)
    np.testing.assert_allclose(recording.behavior_times, expected.behavior_times)


def test_one_array_that_ends_in_the_last_bin_is_read(small_recording):
    notes = one_array_a_trial(lecture_notes.to_notes(small_recording))
    short = [trial | {"vel": trial["vel"][:-20]} for trial in notes]
    recording, expected = lecture_notes.from_notes(short), lecture_notes.from_notes(notes)
    np.testing.assert_array_equal(np.diff(recording.behavior_times)[:49], np.diff(expected.behavior_times)[:49])
    assert len(recording.behavior) == len(expected.behavior) - 20 * len(notes)
    assert np.isin(np.round(recording.behavior_times, 6), np.round(expected.behavior_times, 6)).all()


def test_one_array_of_another_length_is_refused(small_recording):
    notes = one_array_a_trial(lecture_notes.to_notes(small_recording))
    notes[3]["vel"] = notes[3]["vel"][::2]
    with pytest.raises(RecordingError, match="trial 3 has"):
        lecture_notes.from_notes(notes)


def test_transposed_velocity_is_refused(small_recording):
    notes = one_array_a_trial(lecture_notes.to_notes(small_recording))
    notes = [trial | {"vel": trial["vel"].T} for trial in notes]
    with pytest.raises(RecordingError, match=r"vel has shape \(2, \d+\).*transposed. Turn it"):
        lecture_notes.from_notes(notes)


def test_counts_in_the_place_of_spikes_are_refused(small_recording):
    notes = lecture_notes.to_notes(small_recording)
    notes = [trial | {"spikes": np.ones((len(trial["spikes"]), 12), int)} for trial in notes]
    with pytest.raises(RecordingError, match=r"spikes of bin 0 have shape \(12,\).*from_counts"):
        lecture_notes.from_notes(notes)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda b, t: int(1000 * t), r"from 0 to 49, a bin has 0\.05 s: they are milliseconds\. Divide them by 1,000"),
        (lambda b, t: round(30_000 * t), "samples at 30,000 Hz. Divide them by 30,000"),
        (lambda b, t: 1e6 * t, "Divide them by 1,000,000"),
        (lambda b, t: 0.05 * b + t, "from the start of the trial. Subtract"),
        (lambda b, t: t - 0.025, "must be seconds from the start of the bin, from 0 to 0.05"),
    ],
)
def test_times_of_another_unit_or_start_are_refused(small_recording, change, message):
    """A wrong clock would put spikes up to minutes late, and R² would be 0."""
    notes = with_times(lecture_notes.to_notes(small_recording), change)
    with pytest.raises(RecordingError, match=message):
        lecture_notes.from_notes(notes)
