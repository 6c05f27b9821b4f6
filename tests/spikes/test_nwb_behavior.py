"""Which series of an NWB file is taken for the velocity, and how a position becomes one."""

from datetime import datetime, timezone

import numpy as np
import pytest

from possm_lite.errors import FileFormatError
from possm_lite.spikes.io import load_recording
from possm_lite.spikes.io.nwb import _derivative, read_nwb

pynwb = pytest.importorskip("pynwb")

from pynwb import NWBHDF5IO, NWBFile, TimeSeries  # noqa: E402
from pynwb.behavior import BehavioralTimeSeries, Position, SpatialSeries  # noqa: E402


def new_file() -> NWBFile:
    return NWBFile("reaches", "368fc9f0-0b95", datetime(2009, 10, 6, tzinfo=timezone.utc))


def write(file, path):
    with NWBHDF5IO(str(path), "w") as io:
        io.write(file)


@pytest.fixture
def several(tmp_path):
    """A file with velocities and positions, some inside containers."""
    file = new_file()
    file.add_unit(spike_times=[1.0, 2.0])
    behavior = file.create_processing_module("behavior", "hand")
    clock = {"rate": 100.0, "starting_time": 2.0}
    rows = np.arange(200.0)[:, None]
    spatial = {"reference_frame": "desk", **clock}
    behavior.add(SpatialSeries(name="hand_pos", data=rows * [1, 1], **spatial))
    behavior.add(TimeSeries(name="cursor_vel", data=rows * [2, 2], unit="px/s", offset=7.0, **clock))
    behavior.add(TimeSeries(name="hand_vel", data=rows[:, 0], unit="m/s", **clock))
    finger = TimeSeries(name="finger_vel", data=rows * [3, 4, 5], unit="cm/s", **clock)
    behavior.add(BehavioralTimeSeries(name="BehavioralTimeSeries", time_series=finger))
    tracked = [SpatialSeries(name=name, data=rows * [1, -1], unit="mm", **spatial) for name in ("wrist", "hand_pos")]
    behavior.add(Position(name="Position", spatial_series=tracked))
    write(file, tmp_path / "several.nwb")
    return tmp_path / "several.nwb"


def test_the_default_series_may_be_in_a_container(several):
    recording = read_nwb(several)
    np.testing.assert_array_equal(recording.velocity, np.arange(200.0)[:, None] * [3, 4])
    assert recording.velocity_unit == "cm/s" and recording.behavior_times[0] == 2.0
    assert recording.session_id == "368fc9f0-0b95" and recording.trials.shape == (0, 2)
    assert recording.notes == (
        "Velocity is processing/behavior/BehavioralTimeSeries/finger_vel; "
        "there are also Position/hand_pos, Position/wrist, cursor_vel, hand_pos, hand_vel.",
        "There are no trials in intervals/trials.",
    )


@pytest.mark.parametrize(
    "behavior, first_row_but_one, unit",
    [
        ("cursor_vel", [9.0, 9.0], "px/s"),
        ("finger_vel", [3.0, 4.0], "cm/s"),
        ("BehavioralTimeSeries", [3.0, 4.0], "cm/s"),
        ("hand_pos", [100.0, 100.0], "meters/s"),
        ("Position/hand_pos", [100.0, -100.0], "mm/s"),
        ("wrist", [100.0, -100.0], "mm/s"),
    ],
)
def test_behavior_selects_a_series_by_name(several, behavior, first_row_but_one, unit):
    recording = read_nwb(several, behavior=behavior)
    np.testing.assert_allclose(recording.velocity[1], first_row_but_one)
    assert recording.velocity_unit == unit


@pytest.mark.parametrize(
    "behavior, message",
    [
        (
            "foot_vel",
            "behavior='foot_vel' is not in processing/behavior, which has BehavioralTimeSeries/finger_vel, Pos",
        ),
        ("Position", "behavior='Position' matches 2 series of processing/behavior"),
        ("hand_vel", r"processing/behavior/hand_vel must have shape \(T, 2\), or more columns, not \(200,\)"),
    ],
)
def test_an_invalid_series_is_refused(several, behavior, message):
    with pytest.raises(FileFormatError, match=message):
        read_nwb(several, behavior=behavior)


def test_messages_begin_with_the_path(several):
    with pytest.raises(FileFormatError) as caught:
        load_recording(several, behavior="foot_vel")
    assert str(caught.value).startswith(f"{several}: behavior='foot_vel' is not in") and "\n" not in str(caught.value)


def test_derivative_is_not_taken_across_a_gap():
    times = np.array([0.0, 0.5, 1.0, 2.5, 3.0, 3.5])
    position = np.array([0.0, 1.0, 2.0, 50.0, 49.0, 48.0])[:, None] * [1.0, -1.0]
    np.testing.assert_array_equal(_derivative(times, position)[:, 0], [2.0, 2.0, 2.0, -2.0, -2.0, -2.0])


def test_derivative_of_isolated_samples_is_nan():
    position = np.arange(10.0)[:, None] * [1.0, 2.0]
    position[[3, 5]] = np.nan
    velocity = _derivative(np.arange(10.0) / 2, position)
    assert np.flatnonzero(np.isnan(velocity[:, 0])).tolist() == [3, 4, 5]
    np.testing.assert_array_equal(velocity[[0, 1, 2, 6, 7, 8, 9]], [[2.0, 4.0]] * 7)
