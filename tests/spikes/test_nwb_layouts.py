"""NWB files of public data sets and converters: names, shapes, containers and conversions as these write them."""

import numpy as np
import pytest

from possm_lite.spikes.io.contents import Selection, assemble
from possm_lite.spikes.io.nwb import read_nwb

pytest.importorskip("pynwb")

from pynwb import TimeSeries
from pynwb.behavior import BehavioralTimeSeries, Position, SpatialSeries

from .nwb_files import new_file, write

TIMES = np.arange(1000) / 50
MUSCLES = [f"m{i:02d}" for i in range(16)]
ANGLES = TIMES[:, None] * np.arange(1, 17) + np.arange(16)  # (1000, 16), each column moves at another rate
POSITION, VELOCITY = np.sin(ANGLES[:, :2]), np.cos(ANGLES[:, :2]) * [1, 2]
CLOCK = {"rate": 50.0, "starting_time": 0.0}
STAMPS = {"timestamps": TIMES}
SCREEN = {"reference_frame": "screen center"}


def one_dimensional(container, names, values, **options):
    parts = [
        TimeSeries(name=name, data=column, unit="a", **options) for name, column in zip(names, values.T, strict=True)
    ]
    return BehavioralTimeSeries(name=container, time_series=parts)


def positions(conversion, names=("Eye", "Hand", "Cursor")):
    scale = {"Eye": 3, "Hand": 1, "Cursor": 2}
    series = [
        SpatialSeries(name=name, data=scale[name] * POSITION, conversion=conversion, **STAMPS, **SCREEN)
        for name in names
    ]
    return Position(spatial_series=series)


def behavior(file, *items, module="behavior"):
    added = file.create_processing_module(module, "movement")
    for item in items:
        added.add(item)


def churchland_shenoy(file):  # DANDI 000070, 000121
    behavior(file, positions(np.nan))


def falcon_m1(file):
    file.add_acquisition(one_dimensional("preprocessed_emg", MUSCLES, ANGLES, **STAMPS))
    mask = (TIMES >= 2) & (TIMES < 15)
    file.add_acquisition(TimeSeries(name="eval_mask", data=mask, unit="bool", **STAMPS))


def falcon_m2(file):
    file.add_acquisition(one_dimensional("finger_pos", ("index_pos", "mrs_pos"), POSITION, **STAMPS))
    file.add_acquisition(one_dimensional("finger_vel", ("index_vel", "mrs_vel"), VELOCITY, **STAMPS))


def falcon_h1(file):
    clock = {"rate": 0.02, "starting_time": 0.0, "description": "tx,ty,tz,rx,g1,g2,g3", "unit": "arbitrary"}
    file.add_acquisition(TimeSeries(name="OpenLoopKinematics", data=ANGLES[:, :7], **clock))
    file.add_acquisition(TimeSeries(name="OpenLoopKinematicsVelocity", data=2 * ANGLES[:, :7], **clock))


def perich_miller(file):  # DANDI 000688
    cursor = TimeSeries(name="cursor_vel", data=VELOCITY, unit="a", **STAMPS)
    behavior(file, BehavioralTimeSeries(name="Velocity", time_series=cursor), positions(1.0, ["Cursor"]))


def pairs(file):
    parts = [TimeSeries(name=f"hand_vel_{axis}", data=VELOCITY[:, i], unit="a", **CLOCK) for i, axis in enumerate("xy")]
    behavior(file, *parts)


def pairs_of_axes(file):
    parts = [TimeSeries(name=f"{axis}_vel", data=VELOCITY[:, i], unit="a", **CLOCK) for i, axis in enumerate("xy")]
    behavior(file, *parts, module="kinematics")


def neuroconv(file):
    series = SpatialSeries(name="SpatialSeries", data=POSITION, **CLOCK, **SCREEN)
    behavior(file, Position(spatial_series=series))


def module_behavior(file):
    behavior(file, TimeSeries(name="hand_vel", data=VELOCITY, unit="a", **CLOCK), module="Behavior")


def acquisition(file):
    file.add_acquisition(TimeSeries(name="hand_vel", data=VELOCITY, unit="a", **CLOCK))


def still_hand(file):
    behavior(
        file,
        TimeSeries(name="hand_vel", data=0 * VELOCITY, unit="a", **CLOCK),
        TimeSeries(name="cursor_vel", data=VELOCITY, unit="a", **CLOCK),
    )


HAND = np.gradient(POSITION, TIMES, axis=0)
SCORED = slice(100, 750)  # eval_mask of M1
LAYOUTS = {  # the behaviour, its columns, and a note
    churchland_shenoy: (HAND, ["x", "y"], "The conversion of Position/Hand is NaN and was taken as 1."),
    falcon_m1: (ANGLES[SCORED], MUSCLES, "350 of 1000 samples of behaviour when nothing was recorded or scored"),
    falcon_m2: (VELOCITY, ["index_vel", "mrs_vel"], "Behaviour is finger_vel in a, 2 columns: index_vel, mrs_vel;"),
    falcon_h1: (
        2 * ANGLES[:, :7],
        ["tx", "ty", "tz", "rx", "g1", "g2", "g3"],
        "Velocity, 0.02, was taken as seconds a sample",
    ),
    perich_miller: (VELOCITY, ["x", "y"], "Behaviour is Velocity/cursor_vel in a, 2 columns: x, y;"),
    pairs: (VELOCITY, ["x", "y"], "Behaviour is hand_vel in a"),
    pairs_of_axes: (VELOCITY, ["x", "y"], "Behaviour is vel in a"),
    neuroconv: (HAND, ["x", "y"], "derivative of the position Position/SpatialSeries."),
    module_behavior: (VELOCITY, ["x", "y"], "Behaviour is hand_vel in a"),
    acquisition: (VELOCITY, ["x", "y"], "Behaviour is hand_vel in a"),
    still_hand: (VELOCITY, ["x", "y"], "hand_vel is zero or missing throughout, so it was not decoded."),
}


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.__name__)
def test_layouts_give_their_own_arrays(layout, tmp_path):
    file, (expected, columns, note) = new_file(), LAYOUTS[layout]
    trains = [np.random.default_rng(i).permutation(np.arange(200)) / 10 for i in range(3)]  # as merged clusters are
    for train in trains:
        file.add_unit(spike_times=train)
    layout(file)
    write(file, tmp_path / "a.nwb")
    recording = assemble(read_nwb(tmp_path / "a.nwb"), Selection())
    np.testing.assert_allclose(recording.behavior, expected, atol=1e-12)
    np.testing.assert_allclose(recording.behavior_times, TIMES[SCORED] if layout is falcon_m1 else TIMES, atol=1e-12)
    assert recording.behavior_columns.tolist() == columns
    assert any(note in one for one in recording.notes), recording.notes
    np.testing.assert_array_equal(recording.spike_times, np.repeat(np.arange(200), 3) / 10)


def test_other_series_are_named_by_a_refusal(tmp_path):
    file = new_file()
    file.add_unit(spike_times=[1.0, 2.0])
    behavior(file, TimeSeries(name="force", data=ANGLES[:, :6], unit="N", **CLOCK))
    write(file, tmp_path / "a.nwb")
    with pytest.raises(ValueError, match=r"--behavior NAME, one or more of force \(1000, 6\)"):
        assemble(read_nwb(tmp_path / "a.nwb"), Selection())
    assert assemble(read_nwb(tmp_path / "a.nwb"), Selection("force")).behavior.shape == (1000, 6)


def test_observed_times_are_those_of_most_units(tmp_path):
    file = new_file()
    for stop in (12.0, 20.0, 20.0, 3.0, 12.0):  # at 12 to 20 s, two of five units
        file.add_unit(spike_times=[1.0, 2.0], obs_intervals=[[1.0, 2.0], [2.0, stop]])
    acquisition(file)
    write(file, tmp_path / "a.nwb")
    recording = assemble(read_nwb(tmp_path / "a.nwb"), Selection())
    np.testing.assert_allclose(recording.behavior_times, TIMES[50:601])
    assert any("Not all units were observed throughout" in note for note in recording.notes)
