"""What is chosen from the contents of a file: filters that execute nothing, clocks that restart."""

from dataclasses import replace

import numpy as np
import pytest

from possm_lite.errors import RecordingError
from possm_lite.recordings.data_report import data_report, note_lines
from possm_lite.recordings.formats.assemble import assemble
from possm_lite.recordings.formats.contents import Contents, Selection, Series
from possm_lite.recordings.formats.filters import matching_rows
from possm_lite.recordings.formats.series_names import is_position

TABLE = {
    "id": np.array(["0", "7", "12"]),
    "quality": np.array(["good", "mua", "good"]),
    "rate": np.array([0.5, 3.0, np.nan]),
    "held out": np.array([True, False, False]),
}


@pytest.mark.parametrize(
    "expression, expected",
    [
        ("quality == 'good'", [1, 0, 1]),
        ("quality != 'good' or id == 12", [0, 1, 1]),
        ("not held_out and rate >= -1", [0, 1, 0]),
        ("id in [0, 7] and (rate < 1)", [1, 0, 0]),
        ("quality not in ('mua', 'noise')", [1, 0, 1]),
        ("rate > 0.5", [0, 1, 0]),
        ("held_out == True", [1, 0, 0]),
    ],
)
def test_filters_choose_rows(expression, expected):
    assert matching_rows(expression, TABLE, "units").tolist() == [bool(row) for row in expected]


WRONG = ["quality == good", "result == 'R'", "quality > 3", "rate > '3'", "quality in 'good'", "quality == ['good']"]
WRONG += ["rate", "rate >", "(" * 400, "__import__('os').mkdir('x') == 1", "[x for x in id] == 1", "rate > 9 ** 9 ** 9"]


@pytest.mark.parametrize("expression", WRONG)
def test_other_expressions_are_refused_with_the_columns(expression):
    with pytest.raises(RecordingError, match="^--units .* held_out, id, quality, rate"):
        matching_rows(expression, TABLE, "units")


TIMES = np.arange(1000) / 100


def contents(spike_times=(1.0,), spike_units=(0,), unit_ids="ab", series=(), **others) -> Contents:
    """Series are given by name with their values at `TIMES`."""
    values = dict(series) or {"hand_vel": np.cos(TIMES)}
    found = [Series(name, lambda array=array: (TIMES[: len(array)], array)) for name, array in values.items()]
    return Contents(np.array(spike_times), np.array(spike_units), list(unit_ids), found, "monday", **others)


def test_trains_that_restart_are_refused():
    one = np.linspace(0, 5, 50)
    with pytest.raises(RecordingError, match="the clock of spike_times restarts once, after 5.0 s"):
        assemble(contents(np.concatenate([one, one, one + 0.01, one]), np.repeat([0, 1], 100)), Selection())
    order = np.random.default_rng(0).permutation(100)  # not sorted: no restart
    recording = assemble(contents(np.tile(one, 2)[order], np.repeat([0, 1], 50)[order]), Selection())
    np.testing.assert_array_equal(recording.spike_times, np.repeat(one, 2))


def test_units_that_are_left_out_keep_their_spikes():
    table = {"good": np.array([False, True, True]), "area": np.array(["M1", "M1", "S1"])}
    found = contents([3.0, 1.0, 2.0, np.nan], [2, 0, 1, 0], "abc", unit_table=table)
    chosen = assemble(found, Selection(units="good"))
    assert chosen.unit_ids.tolist() == ["b", "c"] and chosen.spike_times.tolist() == [2.0, 3.0]
    assert chosen.spike_units.tolist() == [0, 1] and "2 of 3 units were chosen: good." in chosen.notes
    assert assemble(found, Selection(units="rate > 0.4")).unit_ids.tolist() == ["a", "b", "c"]  # a spike in 2 s
    with pytest.raises(RecordingError, match='--units "rate > 0.6": none of the 3 units fits; rate is'):
        assemble(found, Selection(units="rate > 0.6"))


@pytest.mark.parametrize("units", [[0.5, 1.0], [0, 2], [0, -1], [0]])
def test_units_are_whole_numbers_that_are_listed(units):
    with pytest.raises((ValueError, TypeError, IndexError)):
        assemble(contents([1.0, 2.0], units), Selection())


def test_rows_beside_a_missing_position_are_left_out():
    position = np.arange(10.0)[:, None] * [1.0, 2.0]
    position[[3, 5]] = np.nan
    recording = assemble(contents(series={"hand_pos": position}), Selection())
    np.testing.assert_array_equal(recording.behavior_times, TIMES[[0, 1, 2, 6, 7, 8, 9]])
    np.testing.assert_allclose(recording.behavior, [[100.0, 200.0]] * 7)
    assert "3 of 10 rows of velocity of hand_pos without a value were left out." in recording.notes


@pytest.mark.parametrize("names", [["eye/vel", "hand/vel"], ["cursor/vel", "hand/vel"], ["eye/pos", "hand/pos"]])
def test_the_hand_is_decoded_by_default(names):
    found = assemble(contents(series={name: np.cos(TIMES) for name in names}), Selection())
    assert found.behavior_name.removeprefix("velocity of ") == names[1]


CHOICES = np.repeat(np.arange(10) % 4, 100)
FIRED = {"spike_times": np.arange(0.05, 9.9, 0.1), "spike_units": np.zeros(99, dtype=int)}


def test_labels_are_named_and_a_movement_beside_them():
    for more, notes in (({"hand_vel": np.cos(TIMES)}, ["The file has a movement too: --behavior hand_vel."]), ({}, [])):
        found = contents(**FIRED, series={"choice": CHOICES} | more)
        recording = assemble(found, Selection("choice"))
        assert [note for note in recording.notes if "movement" in note] == notes
        assert recording.classes.tolist() == ["0", "1", "2", "3"]
        assert recording.behavior[:, 0].tolist() == CHOICES.tolist()
        assert (
            "choice holds only 4 values, as labels do, and is decoded as classes; as amounts: --behavior choice:raw."
        ) in recording.notes
        recording = assemble(found, Selection("choice:raw"))
        assert [note for note in recording.notes if "movement" in note] == notes and len(recording.classes) == 0
        assert (
            "warning: choice holds only 4 values (0, 1, 2, 3), as labels do. They are decoded as they are, as amounts; "
            "R² says little of them. As classes: --behavior choice:class."
        ) in data_report(recording)


def test_velocity_of_labels_is_a_warning():
    recording = assemble(contents(**FIRED, series={"target_pos": CHOICES / 7}), Selection("target_pos"))
    assert (
        "warning: target_pos holds only 4 values, as labels do, so its velocity means nothing. "
        "The values themselves: --behavior target_pos:raw."
    ) in note_lines(recording)
    assert not any("rest, or lost tracking" in line for line in data_report(recording))
    assert not any("velocity" in note for note in assemble(contents(**FIRED), Selection("hand_vel:raw")).notes)


@pytest.mark.parametrize(
    "series, message",
    [
        (["Compass/head_direction"], "under a usual name: choose with --behavior, here --behavior head_direction."),
        (["choice", "left paw"], 'choose with --behavior, one of: choice, "left paw".'),
        (["a/eye", "b/eye"], "one of: a/eye, b/eye."),
    ],
)
def test_series_are_offered_where_none_has_a_usual_name(series, message):
    with pytest.raises(RecordingError, match=f"has no velocity or position .*{message}"):
        assemble(contents(series={name: np.cos(TIMES) for name in series}), Selection())
    with pytest.raises(RecordingError, match="^hand_vel is zero .* There are other series: .*--behavior eye.$"):
        assemble(contents(series={"hand_vel": 0 * TIMES, "eye": TIMES}), Selection())


def test_units_of_spikes_alone_are_filtered(small_recording):
    alone = replace(small_recording, behavior_times=[], behavior=[])
    found = assemble(alone, Selection(units="id == 'sim003'"))
    assert found.unit_ids.tolist() == ["sim003"] and len(found.behavior_times) == 0
    with pytest.raises(RecordingError, match="has spikes alone"):
        assemble(alone, Selection("hand_vel"))


@pytest.mark.parametrize(
    "name, default, expected",
    [
        ("hand_pos", False, True),
        ("Position/Hand", False, True),
        ("finger/pos_3d", False, True),
        ("Position/cursor_vel", True, False),
        ("x_velocity", True, False),
        ("SpatialSeries", True, True),
        ("deposit", False, False),
    ],
)
def test_positions_are_known_by_name(name, default, expected):
    assert is_position(name, default) == expected


def test_columns_of_a_saved_position_are_not_differentiated(small_recording):
    saved = replace(small_recording, behavior_name="hand_pos")
    for selection in (Selection(columns=["y"]), Selection("hand_pos", ["1"])):
        np.testing.assert_array_equal(assemble(saved, selection).behavior, saved.behavior[:, 1:])
