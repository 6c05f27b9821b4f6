"""Labels: which behaviour is of classes, how each format holds them, what is refused."""

from dataclasses import replace

import numpy as np
import pytest

from possm_lite.recordings import Recording, RecordingError, load_recording
from possm_lite.recordings.arrays import read_arrays
from possm_lite.recordings.data_report import check_decodable, data_report
from possm_lite.recordings.formats.assemble import assemble
from possm_lite.recordings.formats.contents import Selection
from possm_lite.recordings.labels import encode_labels, label_trials, with_classes

from .test_contents import CHOICES, FIRED, TIMES, contents

CHOSEN = np.array(["left", "right", "", "left", "up", "right", "left", "up", "right", "left", "up", "left"])
SPANS = np.column_stack([np.arange(10.0), np.arange(10.0) + 0.9])


def of_trials(selection="choice", trials=SPANS, series=(), **columns) -> Recording:
    """The recording of a file with these columns of its trials."""
    found = contents(**FIRED, series=series, trials=np.array(trials), trial_table=columns)
    return assemble(found, Selection(selection))


def test_every_format_reads_the_same_labels(tmp_path, small_recording):
    pytest.importorskip("pynwb")
    from .label_files import WRITERS

    for i, (title, write) in enumerate(WRITERS.items()):
        folder = tmp_path / str(i)
        folder.mkdir()
        path, trials = write(folder, small_recording, CHOSEN)
        recording = load_recording(path, "choice")
        labels = CHOSEN[: len(trials)]
        assert recording.classes.tolist() == ["left", "right", "up"], title
        np.testing.assert_allclose(recording.trials, trials[labels != ""], atol=2e-6, err_msg=title)
        assert recording.classes[recording.trial_labels].tolist() == labels[labels != ""].tolist(), title
        assert f"1 of {len(trials)} trials have no choice and were left out." in recording.notes, title
        assert recording.sample_interval == pytest.approx(0.02) and recording.behavior_name == "choice"
        if title != ".npz of others" and title != ".npz of others, a series":  # they have no movement
            assert len(load_recording(path).classes) == 0, title


def test_labels_of_trials_are_sampled_through_them():
    recording = of_trials(choice=np.array(list("ababababab")))
    times = recording.behavior_times
    inside = (times[:, None] >= SPANS[:, 0]) & (times[:, None] < SPANS[:, 1])
    assert (inside.sum(1) == 1).all() and inside.sum(0).tolist() == [45] * 10
    assert recording.classes[recording.behavior[:, 0].astype(int)].tolist() == list(np.repeat(list("ababababab"), 45))
    assert recording.behavior_unit == "class"


def test_filters_of_trials_keep_their_labels():
    found = contents(**FIRED, trials=SPANS[::-1], trial_table={"choice": np.array(list("abcabcabca"))})
    chosen = assemble(found, Selection("choice", trials="start > 3"))
    assert chosen.trials[:, 0].tolist() == [4, 5, 6, 7, 8, 9]
    assert "".join(chosen.classes[chosen.trial_labels]) == "cbacba"


@pytest.mark.parametrize(
    "values, suffix, classes, says",
    [
        (np.arange(10) % 2 == 0, "", ["False", "True"], ""),
        (np.arange(10) % 3, "", ["0", "1", "2"], "as amounts: --behavior choice:raw."),
        (np.arange(10) % 2 * np.pi / 4, "", ["0", "0.7853981634"], "holds only 2 values, as labels do"),
        (np.arange(10) % 2, ":raw", [], ""),
        (np.linspace(0, 1, 10), "", [], ""),
        (np.array([0, 0, 2, 3, 4, 5, 6, 7, 8, 9]) / 10, ":class", ["0", *(f"0.{i}" for i in range(2, 10))], ""),
    ],
    ids=["bool", "numbers", "radians", "raw", "amounts", "asked"],
)
def test_which_values_of_trials_are_classes(values, suffix, classes, says):
    recording = of_trials(f"choice{suffix}", choice=values)
    assert recording.classes.tolist() == classes and says in " ".join(recording.notes)
    if not classes:
        samples = np.searchsorted(recording.behavior_times, SPANS[:, 0])
        np.testing.assert_array_equal(recording.behavior[samples, 0], values)


def test_labels_at_each_time():
    """Text always, numbers that somebody asks for by name; a movement beside them is still decoded by default."""
    text = np.array(["rest", "walk", "run", ""])[CHOICES]
    for series, selection, classes in (
        ({"state": text}, "state", ["rest", "run", "walk"]),
        ({"state": CHOICES}, "state", ["0", "1", "2", "3"]),
        ({"state": CHOICES > 1}, "state", ["False", "True"]),
        ({"state": CHOICES / 3}, "state", []),
        ({"state": CHOICES / 3}, "state:class", ["0", "0.3333333333", "0.6666666667", "1"]),
        ({"state": CHOICES, "hand_vel": np.cos(TIMES)}, None, []),
    ):
        recording = assemble(contents(**FIRED, series=series), Selection(selection))
        assert recording.classes.tolist() == classes
    recording = assemble(contents(**FIRED, series={"state": text}, trials=SPANS), Selection("state"))
    assert "200 of 1000 rows of state without a value were left out." in recording.notes
    changing = contents(**FIRED, series={"state": np.repeat(np.arange(20) % 2, 50)}, trials=SPANS)
    recording = assemble(changing, Selection("state"))
    assert recording.trial_labels is None and "changes within 10 of 10 trials" in " ".join(recording.notes)


def test_behavior_of_ones_own_file_may_be_labels(tmp_path, small_recording):
    r = small_recording
    times = r.behavior_times[::50]
    for labels, classes in (
        (np.where(times < times.mean(), "left", "right"), ["left", "right"]),
        ((times / 3).astype(int) % 3, ["0", "1", "2"]),
        (np.cos(times), []),
    ):
        arrays = {"spike_times": r.spike_times, "spike_units": r.spike_units, "behavior_times": times}
        np.savez(tmp_path / "a.npz", **arrays, behavior=labels)
        recording = load_recording(tmp_path / "a.npz")
        assert recording.classes.tolist() == classes and recording.behavior_name == "behavior"
        assert len(load_recording(tmp_path / "a.npz", spikes_only=True).behavior_times) == 0
    np.savez(tmp_path / "a.npz", **arrays, behavior=(times / 3).astype(int) % 3)
    assert load_recording(tmp_path / "a.npz", "behavior:raw").behavior.max() == 2


def test_labels_are_saved_and_read_back(tmp_path, small_recording):
    recording = label_trials(small_recording, CHOSEN, "choice")
    recording = replace(recording, classes=["right", "left", "up"])  # an order of their own
    recording.save(tmp_path / "a.npz")
    assert str(read_arrays(tmp_path / "a.npz")["format"]) == "possm-lite recording 3"
    for found in (load_recording(tmp_path / "a.npz"), load_recording(tmp_path / "a.npz", units="rate > 0")):
        assert found.classes.tolist() == ["right", "left", "up"] and found.behavior_unit == "class"
        np.testing.assert_array_equal(found.behavior, recording.behavior)
        np.testing.assert_array_equal(found.behavior_times, recording.behavior_times)
    assert len(load_recording(tmp_path / "a.npz", "choice:raw").classes) == 0
    np.savez(tmp_path / "b.npz", **{k: x for k, x in read_arrays(tmp_path / "a.npz").items() if k != "classes"})
    with pytest.raises(RecordingError, match="is damaged: classes is not in it"):
        load_recording(tmp_path / "b.npz")


def test_classes_are_counted_and_those_that_a_part_lacks(small_recording):
    recording = label_trials(small_recording, CHOSEN, "choice")
    spans = recording.trials
    lines = data_report(recording, parts={"train": spans[:3], "valid": spans[3:8], "test": spans[8:]})
    assert "decoded: choice, 3 classes" in lines
    assert "classes, trials of each: left 5, right 3, up 3" in lines
    assert [line for line in lines if "lacks" in line] == [
        "warning: classes that the train part lacks and cannot be decoded: up",
        "warning: classes that the test part lacks and are left out of its balanced accuracy: right",
    ]


REFUSED = {
    "one class": ({"choice": np.full(10, "left")}, "choice", "choice has one class alone, left: there is nothing"),
    "no label": ({"choice": np.full(10, "")}, "choice", "choice has no label"),
    "a class for each": ({"choice": np.arange(10).astype(str)}, "choice", "has a class for each of its 10 trials"),
    "numbers of trials": ({"number": np.arange(10)}, "number", "has a class for each of its 10 trials"),
    "text as amounts": ({"choice": np.array(list("ab" * 5))}, "choice:raw", "choice:raw: it holds text"),
    "unknown": ({"choice": np.array(list("ab" * 5))}, "chance", "there is no such series; .* Trials have choice"),
    "side by side": ({"choice": np.array(list("ab" * 5))}, ["choice", "hand_vel"], "classes are decoded alone"),
}


@pytest.mark.parametrize("columns, selection, message", REFUSED.values(), ids=REFUSED.keys())
def test_labels_that_cannot_be_decoded_are_refused_in_a_line(columns, selection, message):
    with pytest.raises(RecordingError, match=message) as caught:
        of_trials(selection, series={"hand_vel": np.cos(TIMES)}, **columns)
    assert "\n" not in str(caught.value)


def test_labels_of_fewer_trials_are_refused(tmp_path, small_recording):
    r = small_recording
    arrays = {"spike_times": r.spike_times, "spike_units": r.spike_units, "trials": r.trials}
    for name in ("choice", "trials_choice"):
        np.savez(tmp_path / "a.npz", **arrays, **{name: CHOSEN[:5]})
        with pytest.raises(RecordingError, match=f"{name}: an array .* must be as long as the trials, 12 values"):
            load_recording(tmp_path / "a.npz", "choice")


def test_too_many_classes_are_refused_in_a_line():
    spans = np.column_stack([np.arange(0, 10, 0.0005), np.arange(0.0005, 10.0004, 0.0005)])
    with pytest.raises(RecordingError, match="has 10,000 classes .*: at most 100 are decoded"):
        of_trials(trials=spans, choice=(np.arange(20_000) % 10_000).astype(str))
    with pytest.raises(RecordingError, match="state has 101 classes"):
        state = np.array([f"s{i}" for i in range(101)])[np.arange(1000) % 101]
        assemble(contents(**FIRED, series={"state": state}), Selection("state"))


def test_a_recording_of_labels_is_checked(small_recording):
    recording = label_trials(small_recording, CHOSEN, "choice")
    for changes in ({"classes": ["a", "b"]}, {"classes": ["a", "a", "b"]}, {"behavior": recording.behavior + 0.5}):
        with pytest.raises(RecordingError, match="classes must be . names that differ, and behavior one column"):
            replace(recording, **changes)
    with pytest.raises(RecordingError, match="behavior has one class alone, left"):
        check_decodable(replace(recording, behavior=0 * recording.behavior))
    with pytest.raises(RecordingError, match="12 trials: one is needed"):
        label_trials(small_recording, CHOSEN[:5])


def test_classes_are_put_in_the_order_of_a_decoder(small_recording):
    recording = label_trials(small_recording, CHOSEN, "choice")
    found = with_classes(recording, ["up", "down", "right", "left"])
    names = recording.classes[recording.trial_labels].tolist()
    assert found.classes[found.trial_labels].tolist() == names and len(found.classes) == 4
    with pytest.raises(RecordingError, match="the decoder has the classes left, right"):
        with_classes(recording, ["left", "right"])


def test_missing_labels_have_no_class():
    index, classes = encode_labels(np.array(["b", None, "a", "nan", " b "], dtype=object))
    assert classes == ("a", "b")
    np.testing.assert_array_equal(index, [1, np.nan, 0, np.nan, 1])
    assert encode_labels([2.0, np.nan, -1.0])[1] == ("-1", "2")
