"""What is chosen from the contents of a file: filters that execute nothing, clocks that restart."""

import json
from dataclasses import asdict, replace

import numpy as np
import pytest

from possm_lite.errors import RecordingError
from possm_lite.spikes.io.contents import Contents, Selection, Series, assemble, intervals, is_position
from possm_lite.spikes.io.filters import matching_rows

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
        ("held_out == True", [1, 0, 0]),
    ],
)
def test_filters_choose_rows(expression, expected):
    assert matching_rows(expression, TABLE, "units").tolist() == [bool(row) for row in expected]


@pytest.mark.parametrize(
    "expression",
    [
        "quality == good",
        "result == 'R'",
        "rate > 1 and good",
        "quality > 3",
        "rate > '3'",
        "quality in 'good'",
        "quality == ['good']",
        "rate",
        "rate is 3",
        "rate >",
        "(" * 400,
        "__import__('os').mkdir('x') == 1",
        "rate.real > 1",
        "[x for x in id] == 1",
        "rate > 9 ** 9 ** 9",
        "(lambda: 1)() == 1",
    ],
)
def test_other_expressions_are_refused_with_the_columns(expression):
    with pytest.raises(RecordingError, match="units=.* The columns are held_out, id, quality, rate"):
        matching_rows(expression, TABLE, "units")


def contents(spike_times, spike_units, unit_ids="ab", **others) -> Contents:
    times = np.arange(1000) / 100
    hand = Series("hand_vel", lambda: (times, np.cos(times)))
    return Contents(np.array(spike_times), np.array(spike_units), list(unit_ids), [hand], "monday", **others)


def test_trains_that_restart_are_refused():
    one = np.linspace(0, 5, 50)
    with pytest.raises(RecordingError, match="in unit a 5.0 s is followed by 0.0 s"):
        assemble(contents(np.concatenate([one, one, one + 0.01, one]), np.repeat([0, 1], 100)), Selection())
    order = np.random.default_rng(0).permutation(100)  # not sorted: no restart
    recording = assemble(contents(np.tile(one, 2)[order], np.repeat([0, 1], 50)[order]), Selection())
    np.testing.assert_array_equal(recording.spike_times, np.repeat(one, 2))


def test_units_that_are_left_out_keep_their_spikes():
    found = contents([3.0, 1.0, 2.0, np.nan], [2, 0, 1, 0], "abc", unit_table={"good": np.array([False, True, True])})
    chosen = assemble(found, Selection(units="good"))
    assert chosen.unit_ids.tolist() == ["b", "c"] and chosen.spike_times.tolist() == [2.0, 3.0]
    assert chosen.spike_units.tolist() == [0, 1] and "2 of 3 units were chosen: good." in chosen.notes


def test_units_are_whole_numbers_that_are_listed():
    for units in ([0.5, 1.0], [0, 2], [0, -1], [0]):
        with pytest.raises(RecordingError, match="spike_units"):
            assemble(contents([1.0, 2.0], units), Selection())


def test_trials_need_both_columns():
    with pytest.raises(RecordingError, match="'stop'"):
        intervals({"start": np.ones(2)})
    assert intervals({"start": np.array([], str), "stop": np.array([], str)}).shape == intervals({}).shape == (0, 2)


def test_derivative_is_not_taken_across_a_gap():
    times = np.array([0.0, 0.5, 1.0, 2.5, 3.0, 3.5])
    position = np.array([0.0, 1.0, 2.0, 50.0, 49.0, 48.0])
    found = contents([1.0], [0])._replace(series=[Series("hand_pos", lambda: (times, position))])
    np.testing.assert_array_equal(assemble(found, Selection()).behavior[:, 0], [2.0, 2.0, 2.0, -2.0, -2.0, -2.0])


def test_rows_beside_a_missing_position_are_left_out():
    position = np.arange(10.0)[:, None] * [1.0, 2.0]
    position[[3, 5]] = np.nan
    found = contents([1.0], [0])._replace(series=[Series("hand_pos", lambda: (np.arange(10.0) / 2, position))])
    recording = assemble(found, Selection())
    np.testing.assert_array_equal(recording.behavior_times, np.array([0, 1, 2, 6, 7, 8, 9]) / 2)
    np.testing.assert_array_equal(recording.behavior, [[2.0, 4.0]] * 7)
    assert "3 of 10 rows of velocity of hand_pos without a value were left out." in recording.notes


def test_axes_at_other_times_are_not_joined():
    times = np.arange(100) / 100
    for other in (times + 0.02, np.full(100, np.nan)):
        axes = [Series(f"hand_vel_{axis}", lambda t=t: (t, np.cos(times))) for axis, t in (("x", times), ("y", other))]
        with pytest.raises(RecordingError, match="at different times"):
            assemble(contents([1.0], [0])._replace(series=axes), Selection())


def test_columns_that_a_filter_does_not_use_are_noted():
    table = {"quality": np.array(["good", "mua"]), "q": np.array(["x", "y"])}
    found = assemble(contents([1.0, 2.0], [0, 1], unit_table=table), Selection(units="quality == 'good'"))
    assert any(note.startswith("Columns of units that were not used: q (x 1, y 1).") for note in found.notes)


@pytest.mark.parametrize("names", [["eye/vel", "hand/vel"], ["cursor/vel", "hand/vel"], ["eye/pos", "hand/pos"]])
def test_the_hand_is_decoded_by_default(names):
    times = np.arange(1000) / 100
    series = [Series(name, lambda: (times, np.cos(times))) for name in names]
    found = assemble(contents([1.0], [0])._replace(series=series), Selection())
    assert found.behavior_name.removeprefix("velocity of ") == names[1]


def test_units_of_spikes_alone_are_filtered(small_recording):
    alone = replace(small_recording, behavior_times=[], behavior=[])
    found = assemble(alone, Selection(units="id == 'sim003'"))
    assert found.unit_ids.tolist() == ["sim003"] and len(found.behavior_times) == 0
    with pytest.raises(RecordingError, match="not among the series"):
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
    for selection in (Selection(columns=["y"]), Selection("hand_pos", ["y"])):
        np.testing.assert_array_equal(assemble(saved, selection).behavior, saved.behavior[:, 1:])


def test_the_name_of_two_columns_is_refused(small_recording):
    twice = replace(small_recording, behavior_columns=["a", "a"])
    with pytest.raises(RecordingError, match="columns='a'"):
        assemble(twice, Selection(columns=["a"]))
    np.testing.assert_array_equal(assemble(twice, Selection(columns=["1"])).behavior, twice.behavior[:, 1:])


def test_a_selection_is_the_same_after_json():
    selection = Selection("hand_vel", [0, "y"], "good", "duration > 1", True)
    assert Selection(**json.loads(json.dumps(asdict(selection)))) == selection
    assert selection.behavior == ("hand_vel",) and selection.columns == ("0", "y")
