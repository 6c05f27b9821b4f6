"""NWB files of public data sets and converters: names, shapes, containers and conversions as these write them."""

import numpy as np
import pytest

from possm_lite.spikes.io.contents import Selection, assemble
from possm_lite.spikes.io.nwb import read_nwb

pytest.importorskip("pynwb")

from pynwb import TimeSeries

from .nwb_files import (
    MUSCLES,
    Movement,
    acquisition,
    area2_bump,
    behavior,
    churchland_shenoy,
    falcon_h1,
    falcon_m1,
    falcon_m2,
    mc_maze,
    mc_rtt,
    module_behavior,
    neuroconv,
    new_file,
    pairs,
    pairs_of_axes,
    perich_miller,
    still_hand,
    write,
)

TIMES = np.arange(1000) / 50
ANGLES = TIMES[:, None] * np.arange(1, 17) + np.arange(16)  # (1000, 16), each column moves at another rate
POSITION, VELOCITY = np.sin(ANGLES[:, :2]), np.cos(ANGLES[:, :2]) * [1, 2]
MOVEMENT = Movement(TIMES, POSITION, VELOCITY, ANGLES, (TIMES >= 2) & (TIMES < 15))

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
    area2_bump: (VELOCITY, ["x", "y"], "Behaviour is hand_vel in a, 2 columns: x, y; there are also force, joint_ang"),
    mc_maze: (VELOCITY, ["x", "y"], "Behaviour is hand_vel in m/s, 2 columns: x, y."),
    mc_rtt: (VELOCITY[SCORED], ["x", "y"], "Behaviour is finger_vel in m/s, 2 columns: x, y."),
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
    layout(file, MOVEMENT)
    write(file, tmp_path / "a.nwb")
    recording = assemble(read_nwb(tmp_path / "a.nwb"), Selection())
    np.testing.assert_allclose(recording.behavior, expected, atol=1e-12)
    np.testing.assert_allclose(
        recording.behavior_times, TIMES[SCORED] if layout in (falcon_m1, mc_rtt) else TIMES, atol=1e-12
    )
    assert recording.behavior_columns.tolist() == columns
    assert any(note in one for one in recording.notes), recording.notes
    np.testing.assert_array_equal(recording.spike_times, np.repeat(np.arange(200), 3) / 10)
    np.testing.assert_array_equal(recording.spike_units, np.tile([0, 1, 2], 200))  # simultaneous ones: in order


def test_other_series_are_named_by_a_refusal(tmp_path):
    file = new_file()
    file.add_unit(spike_times=[1.0, 2.0])
    behavior(file, TimeSeries(name="force", data=ANGLES[:, :6], unit="N", rate=50.0))
    write(file, tmp_path / "a.nwb")
    with pytest.raises(ValueError, match=r"--behavior NAME, one or more of force \(1000, 6\)"):
        assemble(read_nwb(tmp_path / "a.nwb"), Selection())
    assert assemble(read_nwb(tmp_path / "a.nwb"), Selection("force")).behavior.shape == (1000, 6)


def test_observed_times_are_those_of_any_unit(tmp_path):
    file = new_file()
    for stop in (12.0, 3.0, 12.0):
        file.add_unit(spike_times=[1.0, 2.0], obs_intervals=[[1.0, 2.0], [2.0, stop]])
    acquisition(file, MOVEMENT)
    write(file, tmp_path / "a.nwb")
    recording = assemble(read_nwb(tmp_path / "a.nwb"), Selection())
    np.testing.assert_allclose(recording.behavior_times, TIMES[50:601])
    assert any("Units were not all observed at the same times" in note for note in recording.notes)
