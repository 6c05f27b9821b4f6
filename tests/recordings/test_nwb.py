"""NWB files: what is observed and filtered, the choice of a series, broken files, writing."""

import numpy as np
import pytest

from possm_course.chapters.ch17 import recordings
from possm_lite.errors import RecordingError
from possm_lite.recordings import load_recording

pynwb = pytest.importorskip("pynwb")
h5py = pytest.importorskip("h5py")

from pynwb import TimeSeries  # noqa: E402
from pynwb.behavior import BehavioralTimeSeries, Position, SpatialSeries  # noqa: E402

from .nwb_files import new_file, session_of, write  # noqa: E402


def test_observed_times_and_filters(tmp_path):
    """As in MC_Maze: behaviour around trials too, of which what no unit was observed in is not used."""
    path, file, times = tmp_path / "a.nwb", session_of("Jenkins", "large"), np.arange(350) / 50
    spans = [[1.0, 2.2], [3.0, 4.5], [5.25, 6.0]]
    file.add_unit_column("heldout", "whether the unit is held out in the test data")
    for unit, train in enumerate([[1.5, 3.25, 3.5], [], [1.75]]):
        observed = spans[: 2 + unit % 2]  # the last trial by one unit alone
        file.add_unit(spike_times=train, obs_intervals=observed, heldout=unit == 1, id=100 + unit)
    file.add_acquisition(TimeSeries(name="hand_vel", data=np.cos(times), unit="a", timestamps=times))
    file.add_trial_column("split", "train or val")
    file.add_trial_column("target_pos", "x and y of each target", index=True)
    for i, (start, stop) in enumerate(spans):
        columns = {"target_pos": [[10 * j, -20] for j in range(1 + i)], "split": "train" if i else "val"}
        file.add_trial(start_time=start, stop_time=stop, **columns)
    write(file, path)
    recording = load_recording(path)
    assert recording.unit_ids.tolist() == ["100", "101", "102"] and recording.session_id == "Jenkins_large"
    assert recording.spike_times.tolist() == [1.5, 1.75, 3.25, 3.5] and recording.spike_units.tolist() == [0, 2, 0, 0]
    observed = np.any([(times >= start) & (times <= stop) for start, stop in spans], axis=0)
    np.testing.assert_array_equal(recording.behavior_times, times[observed])
    np.testing.assert_array_equal(recording.behavior[:, 0], np.cos(times[observed]))
    np.testing.assert_array_equal(recording.trials, spans)
    assert recording.notes == (
        "Behaviour is hand_vel in a: x. The file has hand_vel (350 samples).",
        f"{(~observed).sum()} of 350 samples of behaviour outside the observed times were left out.",
    )
    chosen = load_recording(path, units="not heldout and id != 100", trials="split == 'train' and duration > 1")
    assert chosen.unit_ids.tolist() == ["102"] and chosen.trials.tolist() == [[3.0, 4.5]]


# Which series is decoded


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
    recording = load_recording(several)
    np.testing.assert_array_equal(recording.behavior, np.arange(200.0)[:, None] * [3, 4, 5])
    assert recording.behavior_unit == "cm/s" and recording.behavior_times[0] == 2.0
    assert recording.session_id == "368fc9f0-0b95" and recording.trials.shape == (0, 2)
    assert "hand_vel is zero or missing throughout, so it was not decoded." in recording.notes


@pytest.mark.parametrize(
    "behavior, first_row_but_one, unit",
    [
        (["cursor_vel"], [9.0, 9.0], "px/s"),
        (["BehavioralTimeSeries"], [3.0, 4.0, 5.0], "cm/s"),
        (["hand_pos"], [100.0, 100.0], "meters/s"),
        (["hand_pos:raw"], [1.0, 1.0], "meters"),
        (["Position/hand_pos"], [100.0, -100.0], "mm/s"),
        (["wrist"], [100.0, -100.0], "mm/s"),
        (["hand_vel", "wrist:raw", "finger_vel"], [0.0, 1.0, -1.0, 3.0, 4.0, 5.0], "m/s, mm, cm/s"),
    ],
)
def test_behavior_selects_series_by_name(several, behavior, first_row_but_one, unit):
    recording = load_recording(several, behavior)
    np.testing.assert_allclose(recording.behavior[1], first_row_but_one)
    assert recording.behavior_unit == unit


def test_columns_are_selected_by_name_or_number(several):
    columns = ["BehavioralTimeSeries/finger_vel z", "0"]
    recording = load_recording(several, ["hand_vel", "finger_vel"], columns)
    assert recording.behavior[1].tolist() == [5.0, 0.0]
    assert recording.behavior_columns.tolist() == [columns[0], "hand_vel x"]


@pytest.mark.parametrize(
    "behavior, selection, named",
    [
        ("foot_vel", {}, r"--behavior foot_vel: there is no such series; .* cursor_vel \(200 samples x 2\)"),
        ("Position", {}, "--behavior Position: several series are called so, .*Position/wrist"),
        (["wrist", "later"], {}, "Position/wrist, later have samples at different times"),
        ("wrist", {"columns": ["z"]}, "--columns z: .* has the columns x, y"),
        ("wrist", {"trials": "duration > 1"}, '--trials "duration > 1": the file has no trials'),
        ("wrist", {"units": "quality == 'good'"}, "the table of units has no column quality, only id, rate"),
    ],
)
def test_an_invalid_selection_is_refused(several, behavior, selection, named):
    with pytest.raises(RecordingError, match=named):
        load_recording(several, behavior, **selection)


# Broken files

HAND, TRIALS = "processing/behavior/hand_vel", "intervals/trials"
TIMES = np.arange(300) / 100


def put(name, value=None, index=...):
    """A mutation: one entry of a data set, or all of it, is replaced by `value` or removed."""

    def mutate(file):
        if index is not ...:
            file[name][index] = value
            return
        del file[name]
        if value is not None:
            file[name] = value

    return mutate


def put_trials(starts, stops):
    def mutate(file):
        for name, values in (("start_time", starts), ("stop_time", stops), ("id", range(len(starts)))):
            put(f"{TRIALS}/{name}", np.array(values))(file)

    return mutate


@pytest.fixture
def mutated(tmp_path):
    """Writes a file of two units, three seconds of velocity and two trials, and mutates it."""

    def write_mutated(mutate):
        path, file = tmp_path / "a.nwb", new_file()
        file.add_unit(spike_times=[0.5, 1.5])
        file.add_unit(spike_times=[0.25, 1.5])
        hand = TimeSeries(name="hand_vel", data=np.ones((300, 2)), unit="m/s", timestamps=TIMES)
        file.create_processing_module("behavior", "hand").add(hand)
        for start in (0.5, 1.0):
            file.add_trial(start_time=start, stop_time=start + 0.5)
        write(file, path)
        with h5py.File(path, "r+") as file:
            file["acquisition/elsewhere"] = h5py.ExternalLink("elsewhere.nwb", "/video")  # not read
            mutate(file)
        return path

    return write_mutated


def huge(file, name):
    """A petabyte that is not there, in the place of a group: it is not read through."""
    del file[name]
    file.create_dataset(name, (2**47,), "f8", chunks=(2**10,))


BAD = {  # a mutation, and what is named
    "no units": (put("units"), "no table of units"),
    "no behavior": (put("processing/behavior"), "no series of behaviour that can be read"),
    "clock that restarts": (put(f"{HAND}/timestamps", TIMES % 1.5), "the clock of hand_vel restarts once, after 1.5 s"),
    "only NaN": (put(f"{HAND}/data", np.full((300, 2), np.nan)), "hand_vel"),
    "index without the last spike": (put("units/spike_times_index", np.array([2, 3])), "units/spike_times_index"),
    "trials of another clock": (put_trials([500.0, 502.0], [501.0, 503.0]), "trials are at 500.0 to 503.0 s, "),
    "a data set for a group": (lambda file: huge(file, "processing"), "processing must be a group"),
    "trials that cannot be opened": (
        put(TRIALS, h5py.SoftLink("/nowhere")),
        "trials is a link to /nowhere",
    ),  # not as if there were none
}


@pytest.mark.parametrize("mutate, named", BAD.values(), ids=BAD.keys())
def test_broken_file_is_refused(mutated, mutate, named):
    path = mutated(mutate)
    with pytest.raises(RecordingError) as caught:
        load_recording(path)
    message = str(caught.value)
    assert message.startswith(f"{path}: ") and named in message and "\n" not in message


MENDED = {  # a mutation, part of the note, and trials afterwards
    "NaN spike": (put("units/spike_times", np.nan, 1), "1 of 4 spikes without a time", None),
    "NaN timestamp": (put(f"{HAND}/timestamps", np.nan, 250), "1 of 300 samples of hand_vel without a time", None),
    "repeated time": (put(f"{HAND}/timestamps", 0.04, 5), "1 of 300 samples of hand_vel with a time out", None),
    "trial without end": (put(f"{TRIALS}/stop_time", np.nan, 0), "1 of 2 trials without a stop after", [[1.0, 1.5]]),
    "unsorted trials": (put_trials([1, 0.5], [1.5, 1]), "Behaviour is hand_vel", [[0.5, 1], [1, 1.5]]),
    "overlapping trials": (
        put_trials([0.5, 0.9, 1.4], [9.0, 1.5, 2.0]),
        "2 of 3 trials overlapped the next one by up to 8 s and now end where",
        [[0.5, 0.9], [0.9, 1.4], [1.4, 2.0]],
    ),
    "no trials": (put(TRIALS), "There are no trials.", np.empty((0, 2))),
    "trial without behaviour": (put(f"{TRIALS}/stop_time", 9.0, 1), "1 of 2 trials were left out:", [[0.5, 1.0]]),
}


@pytest.mark.parametrize("mutate, note, trials", MENDED.values(), ids=MENDED.keys())
def test_bad_rows_are_left_out_and_counted(mutated, mutate, note, trials):
    recording = load_recording(mutated(mutate))
    assert any(note in one for one in recording.notes), recording.notes
    np.testing.assert_array_equal(recording.trials, [[0.5, 1], [1, 1.5]] if trials is None else trials)


# Writing


def test_a_recording_written_as_in_chapter_17_is_read_back(small_recording, tmp_path):
    path, recording = tmp_path / "a.nwb", small_recording
    recordings.write_nwb(recording, path)
    back = load_recording(path)
    for name in ("spike_times", "spike_units", "behavior_times", "behavior", "trials"):
        np.testing.assert_array_equal(getattr(back, name), getattr(recording, name))
    assert (back.session_id, back.behavior_unit) == (recording.session_id, recording.behavior_unit)
