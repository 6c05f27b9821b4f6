"""Recordings in NWB files, in the layout of MC_Maze and MC_RTT of the Neural Latents Benchmark."""

from datetime import datetime, timezone

import numpy as np
import pytest

from possm_lite.spikes.io import load_recording
from possm_lite.spikes.io.nwb import read_nwb

pynwb = pytest.importorskip("pynwb")

from pynwb import NWBHDF5IO, NWBFile, TimeSeries  # noqa: E402
from pynwb.behavior import SpatialSeries  # noqa: E402

MAZE_TRIALS = np.array([[1.0, 2.2], [3.0, 4.5], [5.25, 6.0]])


def new_file(session_id="large", subject="Jenkins") -> NWBFile:
    return NWBFile(
        session_description="Data from a monkey performing a reaching task.",
        identifier="368fc9f0-0b95-11ec-a513-5fc582312949",
        session_start_time=datetime(2009, 10, 6, tzinfo=timezone.utc),
        session_id=session_id,
        subject=pynwb.file.Subject(subject_id=subject, species="Macaca mulatta") if subject else None,
    )


def add_electrodes(file, groups):
    for name in groups:
        device = file.create_device(name=f"electrode_array_{name}")
        group = file.create_electrode_group(f"electrode_group_{name}", "an array", name, device)
        for _ in range(4):
            file.add_electrode(
                group=group, location=name, x=np.nan, y=np.nan, z=np.nan, imp=np.nan, filtering="unknown"
            )


def add_units(file, n_units, obs_intervals, seconds=8.0, first_id=0) -> list[np.ndarray]:
    """Units as in the benchmark, every third of them held out; the last one is silent."""
    rng = np.random.default_rng(3)
    file.add_unit_column("heldout", "whether the unit is held out in the test data")
    trains = [np.sort(rng.uniform(0, seconds, rng.integers(20, 60))).round(4) for _ in range(n_units - 1)]
    trains.append(np.empty(0))
    for i, spikes in enumerate(trains):
        heldout = i % 3 == 2
        file.add_unit(
            spike_times=spikes, obs_intervals=obs_intervals, electrodes=[i % 4], heldout=heldout, id=first_id + i
        )
    return trains


def write(file, path):
    with NWBHDF5IO(str(path), "w") as io:
        io.write(file)


def write_maze(path) -> dict:
    """MC_Maze: behaviour at 1 kHz in mm under a conversion to m, with timestamps, and only around trials."""
    file = new_file()
    add_electrodes(file, ("M1", "PMd"))
    trains = add_units(file, 7, MAZE_TRIALS, first_id=100)
    segments = [np.arange(round(1000 * start) - 100, round(1000 * stop) + 100) / 1000 for start, stop in MAZE_TRIALS]
    times = np.concatenate(segments)
    position = 100 * np.column_stack((np.sin(times), np.cos(times)))
    velocity = 100 * np.column_stack((np.cos(times), -np.sin(times)))
    behavior = file.create_processing_module("behavior", "Processed behavioral data")
    for name, data in (("cursor_pos", position + 1), ("eye_pos", 2 * position), ("hand_pos", position)):
        behavior.add(
            SpatialSeries(name=name, data=data, timestamps=times, reference_frame="screen", conversion=0.001, unit="m")
        )
    behavior.add(TimeSeries(name="hand_vel", data=velocity, timestamps=times, conversion=0.001, unit="m/s"))
    add_maze_trials(file)
    write(file, path)
    return {"trains": trains, "times": times, "velocity": velocity / 1000}


def add_maze_trials(file):
    for name in ("go_cue_time", "move_onset_time", "rt", "delay", "num_targets", "active_target", "success", "split"):
        file.add_trial_column(name, name)
    file.add_trial_column("target_pos", "x and y of each target", index=True)
    file.add_trial_column("barrier_pos", "centre and half size of each barrier", index=True)
    for i, (start, stop) in enumerate(MAZE_TRIALS):
        file.add_trial(
            start_time=start,
            stop_time=stop,
            go_cue_time=start + 0.2,
            move_onset_time=start + 0.5,
            rt=300,
            delay=200,
            num_targets=1 + i,
            active_target=0,
            success=True,
            split="train" if i else "val",
            target_pos=[[10 * j, -20] for j in range(1 + i)],
            barrier_pos=[[0, 0, 5, 5]] * (i + 1),
        )


def write_rtt(path, series=("finger_vel", "finger_pos", "cursor_pos", "target_pos")) -> dict:
    """MC_RTT: behaviour at 1 kHz by its rate, NaN between the segments; trials of 600 ms that touch."""
    file = new_file(session_id="20170202_02", subject="Indy")
    add_electrodes(file, ("M1",))
    trains = add_units(file, 5, [[0.0, 4.0], [4.4, 8.0]])
    times = np.arange(8000) / 1000
    gap = (times >= 4.0) & (times < 4.4)
    data = {
        "cursor_pos": np.column_stack((np.sin(times), np.cos(times))) * 50,
        "finger_pos": np.column_stack((np.sin(times), np.cos(times), times)) * 50,
        "finger_vel": np.column_stack((np.cos(times), -np.sin(times))) * 50,
        "target_pos": np.column_stack((np.round(times), -np.round(times))) * 50,
    }
    behavior = file.create_processing_module("behavior", "Processed behavioral data")
    for name in sorted(series):
        data[name][gap] = np.nan
        kind, more = (TimeSeries, {}) if name.endswith("_vel") else (SpatialSeries, {"reference_frame": "workspace"})
        unit = "m/s" if name.endswith("_vel") else "m"
        rows = {"data": data[name], "rate": 1000.0, "starting_time": 0.0, "conversion": 0.001, "unit": unit}
        behavior.add(kind(name=name, **rows, **more))
    starts = np.arange(13) * 0.6
    file.add_trial_column("split", "train, val, test or none")
    for start in starts:
        file.add_trial(start_time=start, stop_time=start + 0.6, split="train")
    write(file, path)
    return {"trains": trains, "times": times, "gap": gap, **data, "starts": starts}


def assert_has_the_trains(recording, trains):
    assert recording.n_units == len(trains) and np.all(np.diff(recording.spike_times) >= 0)
    for unit, spikes in enumerate(trains):
        np.testing.assert_array_equal(recording.spike_times[recording.spike_units == unit], spikes)


def test_mc_maze_layout(tmp_path):
    truth = write_maze(tmp_path / "maze.nwb")
    recording = load_recording(tmp_path / "maze.nwb")
    assert_has_the_trains(recording, truth["trains"])
    assert recording.unit_ids.tolist() == [str(100 + i) for i in range(7)]
    np.testing.assert_array_equal(recording.behavior_times, truth["times"])
    np.testing.assert_allclose(recording.velocity, truth["velocity"], rtol=1e-12)
    np.testing.assert_array_equal(recording.trials, MAZE_TRIALS)
    assert (recording.velocity_unit, recording.session_id) == ("m/s", "Jenkins_large")
    assert recording.notes == (
        "Velocity is processing/behavior/hand_vel; there are also cursor_pos, eye_pos, hand_pos.",
    )


def test_mc_rtt_layout(tmp_path):
    truth = write_rtt(tmp_path / "rtt.nwb")
    recording = load_recording(tmp_path / "rtt.nwb")
    assert_has_the_trains(recording, truth["trains"])
    np.testing.assert_array_equal(recording.behavior_times, truth["times"][~truth["gap"]])
    np.testing.assert_allclose(recording.velocity, truth["finger_vel"][~truth["gap"]] / 1000, rtol=1e-12)
    assert (recording.velocity_unit, recording.session_id) == ("m/s", "Indy_20170202_02")
    assert "400 of 8000 rows of finger_vel without a velocity were left out." in recording.notes
    # Trial 6 runs from 3.6 to 4.2 s and trial 7 from 4.2 to 4.8 s: into the gap.
    np.testing.assert_allclose(recording.trials[:, 0], np.delete(truth["starts"], [6, 7]), rtol=1e-12)
    assert "2 of 13 trials that behaviour does not cover were left out." in recording.notes


def test_rounded_overlaps_of_trials_are_clipped(tmp_path):
    truth = write_rtt(tmp_path / "rtt.nwb")
    overlap = (truth["starts"] + 0.6)[:-1] - truth["starts"][1:]
    assert 0 < overlap.max() < 1e-12  # it does happen with steps of 0.6 s
    recording = read_nwb(tmp_path / "rtt.nwb")
    assert np.all(recording.trials[:-1, 1] <= recording.trials[1:, 0])
    assert any(f"{(overlap > 0).sum()} trials that overlapped the next one" in note for note in recording.notes)


def test_position_is_differentiated_except_across_nan(tmp_path):
    truth = write_rtt(tmp_path / "rtt.nwb", series=("finger_pos", "cursor_pos", "target_pos"))
    recording = read_nwb(tmp_path / "rtt.nwb")
    there = ~truth["gap"]
    np.testing.assert_array_equal(recording.behavior_times, truth["times"][there])
    true_velocity = np.column_stack((np.cos(truth["times"]), -np.sin(truth["times"])))[there] * 0.05
    np.testing.assert_allclose(recording.velocity, true_velocity, atol=1e-4)
    assert recording.velocity_unit == "m/s"
    assert recording.notes[0] == (
        "Velocity is the derivative of the position processing/behavior/finger_pos; "
        "there are also cursor_pos, target_pos."
    )


def test_position_is_not_differentiated_across_time_gaps(tmp_path):
    write_maze(tmp_path / "maze.nwb")
    recording = read_nwb(tmp_path / "maze.nwb", behavior="hand_pos")
    times = recording.behavior_times
    np.testing.assert_allclose(recording.velocity, 0.1 * np.column_stack((np.cos(times), -np.sin(times))), atol=1e-4)
    assert np.diff(times).max() > 0.5
