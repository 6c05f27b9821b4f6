"""NWB files: the layouts of MC_Maze and MC_RTT, the choice of a series, derivatives, and writing."""

from dataclasses import replace

import numpy as np
import pytest

from possm_lite.errors import FileFormatError, RecordingError
from possm_lite.spikes.derivative import differentiate
from possm_lite.spikes.io.contents import Selection, assemble
from possm_lite.spikes.io.nwb import read_nwb
from possm_lite.spikes.io.nwb_write import write_nwb

pynwb = pytest.importorskip("pynwb")

from pynwb import TimeSeries  # noqa: E402
from pynwb.behavior import BehavioralTimeSeries, Position, SpatialSeries  # noqa: E402

from .nwb_files import MAZE_TRIALS, new_file, write, write_maze, write_rtt  # noqa: E402


def read(path, *behavior, **selection):
    return assemble(read_nwb(path), Selection(behavior, **selection))


def assert_has_the_trains(recording, trains):
    assert recording.n_units == len(trains) and np.all(np.diff(recording.spike_times) >= 0)
    for unit, spikes in enumerate(trains):
        np.testing.assert_array_equal(recording.spike_times[recording.spike_units == unit], spikes)


def test_mc_maze_layout(tmp_path):
    truth = write_maze(tmp_path / "maze.nwb")
    recording = read(tmp_path / "maze.nwb")
    assert_has_the_trains(recording, truth["trains"])
    assert recording.unit_ids.tolist() == [str(100 + i) for i in range(7)]
    # spikes are there in trials only, so behaviour 100 ms around them is not used
    observed = np.any([(truth["times"] >= start) & (truth["times"] <= stop) for start, stop in MAZE_TRIALS], axis=0)
    np.testing.assert_array_equal(recording.behavior_times, truth["times"][observed])
    np.testing.assert_allclose(recording.behavior, truth["behavior"][observed], rtol=1e-12)
    np.testing.assert_array_equal(recording.trials, MAZE_TRIALS)
    assert (recording.behavior_unit, recording.session_id) == ("m/s", "Jenkins_large")
    assert recording.notes == (
        "Columns of units that were not used: heldout (False 5, True 2). Choose with --units.",
        "Columns of trials that were not used: split (train 2, val 1). Choose with --trials.",
        "Behaviour is hand_vel in m/s, 2 columns: x, y; there are also cursor_pos, eye_pos, hand_pos.",
        f"{(~observed).sum()} of 4050 samples of behaviour when nothing was recorded or scored were left out.",
    )
    chosen = read(tmp_path / "maze.nwb", units="not heldout and id != 100", trials="split == 'train' and rt < 400")
    assert chosen.unit_ids.tolist() == ["101", "103", "104", "106"]
    np.testing.assert_array_equal(chosen.trials, MAZE_TRIALS[1:])
    position = read(tmp_path / "maze.nwb", "hand_pos")  # not differentiated across gaps in time
    times = position.behavior_times
    np.testing.assert_allclose(position.behavior, 0.1 * np.column_stack((np.cos(times), -np.sin(times))), atol=1e-4)
    assert np.diff(times).max() > 0.5


def test_mc_rtt_layout(tmp_path):
    truth = write_rtt(tmp_path / "rtt.nwb")
    recording = read(tmp_path / "rtt.nwb")
    assert_has_the_trains(recording, truth["trains"])
    np.testing.assert_array_equal(recording.behavior_times, truth["times"][~truth["gap"]])
    np.testing.assert_allclose(recording.behavior, truth["finger_vel"][~truth["gap"]] / 1000, rtol=1e-12)
    assert (recording.behavior_unit, recording.session_id) == ("m/s", "Indy_20170202_02")
    assert "399 of 8000 samples of behaviour when nothing was recorded or scored were left out." in recording.notes
    # Trial 6 runs from 3.6 to 4.2 s and trial 7 from 4.2 to 4.8 s: into the gap.
    np.testing.assert_allclose(recording.trials[:, 0], np.delete(truth["starts"], [6, 7]), rtol=1e-12)
    assert "2 of 13 trials that behaviour does not cover were left out." in recording.notes
    overlap = (truth["starts"] + 0.6)[:-1] - truth["starts"][1:]
    assert 0 < overlap.max() < 1e-12  # it does happen with steps of 0.6 s
    assert np.all(recording.trials[:-1, 1] <= recording.trials[1:, 0])
    assert any(
        f"{(overlap > 0).sum()} of 13 trials overlapped the next one by up to" in note for note in recording.notes
    )


def test_derivative_is_not_taken_across_a_gap():
    times = np.array([0.0, 0.5, 1.0, 2.5, 3.0, 3.5])
    position = np.array([0.0, 1.0, 2.0, 50.0, 49.0, 48.0])[:, None] * [1.0, -1.0]
    np.testing.assert_array_equal(differentiate(times, position)[0][:, 0], [2.0, 2.0, 2.0, -2.0, -2.0, -2.0])


def test_derivative_of_isolated_samples_is_nan():
    position = np.arange(10.0)[:, None] * [1.0, 2.0]
    position[[3, 5]] = np.nan
    velocity, _ = differentiate(np.arange(10.0) / 2, position)
    assert np.flatnonzero(np.isnan(velocity[:, 0])).tolist() == [3, 4, 5]
    np.testing.assert_array_equal(velocity[[0, 1, 2, 6, 7, 8, 9]], [[2.0, 4.0]] * 7)


# Which series is taken for the velocity


@pytest.fixture(scope="module")
def several(tmp_path_factory):
    """A file with velocities and positions, some inside containers."""
    path, file = tmp_path_factory.mktemp("nwb") / "several.nwb", new_file()
    file.add_unit(spike_times=[1.0, 2.0])
    behavior = file.create_processing_module("behavior", "hand")
    clock = {"rate": 100.0, "starting_time": 2.0}
    rows = np.arange(200.0)[:, None]
    spatial = {"reference_frame": "desk", **clock}
    behavior.add(SpatialSeries(name="hand_pos", data=rows * [1, 1], **spatial))
    behavior.add(TimeSeries(name="cursor_vel", data=rows * [2, 2], unit="px/s", offset=7.0, **clock))
    behavior.add(TimeSeries(name="hand_vel", data=0 * rows[:, 0], unit="m/s", **clock))
    behavior.add(TimeSeries(name="later", data=rows, unit="m/s", rate=50.0, starting_time=2.0))
    finger = TimeSeries(name="finger_vel", data=rows * [3, 4, 5], unit="cm/s", **clock)
    behavior.add(BehavioralTimeSeries(name="BehavioralTimeSeries", time_series=finger))
    tracked = [SpatialSeries(name=name, data=rows * [1, -1], unit="mm", **spatial) for name in ("wrist", "hand_pos")]
    behavior.add(Position(name="Position", spatial_series=tracked))
    write(file, path)
    return path


def test_the_default_series_is_the_first_that_moves(several):
    recording = read(several)
    np.testing.assert_array_equal(recording.behavior, np.arange(200.0)[:, None] * [3, 4, 5])
    assert recording.behavior_unit == "cm/s" and recording.behavior_times[0] == 2.0
    assert recording.session_id == "368fc9f0-0b95" and recording.trials.shape == (0, 2)
    assert recording.notes == (
        "There are no trials.",
        "hand_vel is zero or missing throughout, so it was not decoded.",
        "Behaviour is BehavioralTimeSeries/finger_vel in cm/s, 3 columns: x, y, z; "
        "there are also Position/hand_pos, Position/wrist, cursor_vel, hand_pos, hand_vel, later.",
    )


@pytest.mark.parametrize(
    "behavior, first_row_but_one, unit",
    [
        (["cursor_vel"], [9.0, 9.0], "px/s"),
        (["finger_vel"], [3.0, 4.0, 5.0], "cm/s"),
        (["BehavioralTimeSeries"], [3.0, 4.0, 5.0], "cm/s"),
        (["hand_pos"], [100.0, 100.0], "meters/s"),
        (["hand_pos:raw"], [1.0, 1.0], "meters"),
        (["Position/hand_pos"], [100.0, -100.0], "mm/s"),
        (["wrist"], [100.0, -100.0], "mm/s"),
        (["hand_vel", "wrist:raw", "finger_vel"], [0.0, 1.0, -1.0, 3.0, 4.0, 5.0], "m/s, mm, cm/s"),
    ],
)
def test_behavior_selects_series_by_name(several, behavior, first_row_but_one, unit):
    recording = read(several, *behavior)
    np.testing.assert_allclose(recording.behavior[1], first_row_but_one)
    assert recording.behavior_unit == unit


def test_columns_are_selected_by_name_or_number(several):
    recording = read(several, "hand_vel", "finger_vel", columns=["BehavioralTimeSeries/finger_vel z", "0"])
    assert recording.behavior[1].tolist() == [5.0, 0.0]
    assert recording.behavior_columns.tolist() == ["BehavioralTimeSeries/finger_vel z", "hand_vel"]


@pytest.mark.parametrize(
    "behavior, selection, message",
    [
        (["foot_vel"], {}, r"behavior='foot_vel' is not among the series of the file: cursor_vel \(200, 2\), hand_pos"),
        (["Position"], {}, "behavior='Position' matches Position/hand_pos, Position/wrist"),
        (["wrist", "later"], {}, "side by side: velocity of Position/wrist 2 to 3.99 s; later 2 to 5.98 s"),
        (["wrist"], {"columns": ["z"]}, "columns=.z. must be different columns of velocity of Position/wrist: x, y"),
        (["wrist"], {"columns": ["x", "0"]}, "columns=.x, 0. must be different"),
        (["wrist"], {"trials": "duration > 1"}, "the file has no trials"),
        (["wrist"], {"units": "quality == 'good'"}, "The columns are id, rate"),
        (["wrist"], {"units": "id == 7"}, "units='id == 7' holds for none of the 1 units"),
    ],
)
def test_an_invalid_selection_is_refused(several, behavior, selection, message):
    with pytest.raises(FileFormatError, match=message):
        read(several, *behavior, **selection)


# Writing


def assert_same(back, recording):
    for name in ("spike_times", "spike_units", "behavior_times", "behavior", "trials"):
        np.testing.assert_array_equal(getattr(back, name), getattr(recording, name))
    assert (back.session_id, back.behavior_unit) == (recording.session_id, recording.behavior_unit)


def test_a_simulated_session_is_read_back(small_recording, tmp_path):
    write_nwb(small_recording, tmp_path / "a.nwb")
    back = read(tmp_path / "a.nwb")
    assert_same(back, small_recording)
    assert back.unit_ids.tolist() == [str(i) for i in range(12)]  # "sim000" is not a number
    assert back.notes == ("Behaviour is hand_vel in mm/s, 2 columns: x, y.",)
    with pynwb.NWBHDF5IO(str(tmp_path / "a.nwb"), "r") as io:
        file = io.read()
        assert list(file.units["unit_name"].data) == small_recording.unit_ids.tolist()
        assert file.notes == "\n".join(small_recording.notes)
        np.testing.assert_allclose(file.units["obs_intervals"][0], [small_recording.span])


def test_silent_units_and_gaps_are_read_back(small_recording, tmp_path):
    kept = ~np.isin(small_recording.spike_units, [3, 11])  # one in the middle and the last
    seen = np.abs(small_recording.behavior_times - 8) > 1
    recording = replace(
        small_recording,
        spike_times=small_recording.spike_times[kept],
        spike_units=small_recording.spike_units[kept],
        unit_ids=[str(100 - i) for i in range(12)],
        behavior_times=small_recording.behavior_times[seen],
        behavior=small_recording.behavior[seen],
        trials=[],
        behavior_unit="cm/s",
    )
    write_nwb(recording, tmp_path / "a.nwb", series="cursor_vel")
    back = read(tmp_path / "a.nwb")
    assert_same(back, recording)
    assert back.unit_ids.tolist() == recording.unit_ids.tolist()
    assert back.notes == ("There are no trials.", "Behaviour is cursor_vel in cm/s, 2 columns: x, y.")


def test_a_failed_write_leaves_the_old_file(small_recording, tmp_path, monkeypatch):
    write_nwb(small_recording, tmp_path / "a.nwb")
    before = (tmp_path / "a.nwb").read_bytes()

    def fails(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", fails)
    with pytest.raises(RecordingError, match=r"a\.nwb: could not be written: No space left on device"):
        write_nwb(small_recording, tmp_path / "a.nwb")
    for path, message in (("a.npz", r"'\.npz'; this writes \.nwb"), ("nowhere/a.nwb", "could not be written")):
        with pytest.raises(RecordingError, match=message):
            write_nwb(small_recording, tmp_path / path)
    assert [path.name for path in tmp_path.iterdir()] == ["a.nwb"]
    assert (tmp_path / "a.nwb").read_bytes() == before


def test_without_pynwb_the_error_names_the_extra(small_recording, tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pynwb", None)
    for use in (read_nwb, lambda path: write_nwb(small_recording, path)):
        with pytest.raises(FileFormatError, match=r"pip install possm-lite\[recordings\]"):
            use(tmp_path / "a.nwb")
