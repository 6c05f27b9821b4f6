"""NWB files for tests, written with pynwb; import after `pytest.importorskip("pynwb")`."""

from datetime import datetime, timezone

import numpy as np
from pynwb import NWBHDF5IO, NWBFile, TimeSeries
from pynwb.behavior import SpatialSeries
from pynwb.file import Subject

MAZE_TRIALS = np.array([[1.0, 2.2], [3.0, 4.5], [5.25, 6.0]])


def new_file(**options) -> NWBFile:
    return NWBFile("reaches", "368fc9f0-0b95", datetime(2009, 10, 6, tzinfo=timezone.utc), **options)


def write(file, path):
    with NWBHDF5IO(str(path), "w") as io:
        io.write(file)


def session_of(subject: str, session_id: str) -> NWBFile:
    return new_file(session_id=session_id, subject=Subject(subject_id=subject, species="Macaca mulatta"))


def add_electrodes(file, *groups):
    for name in groups:
        device = file.create_device(name=f"electrode_array_{name}")
        group = file.create_electrode_group(f"electrode_group_{name}", "an array", name, device)
        for _ in range(4):
            file.add_electrode(
                group=group, location=name, filtering="unknown", **dict.fromkeys(["x", "y", "z"], np.nan)
            )


def add_units(file, n_units, obs_intervals, first_id=0) -> list[np.ndarray]:
    """Units as in the benchmark with 8 s of spikes, every third of them held out; the last one is silent."""
    rng = np.random.default_rng(3)
    file.add_unit_column("heldout", "whether the unit is held out in the test data")
    trains = [np.sort(rng.uniform(0, 8, rng.integers(20, 60))).round(4) for _ in range(n_units - 1)]
    trains.append(np.empty(0))
    for i, spikes in enumerate(trains):
        columns = {"electrodes": [i % 4], "heldout": i % 3 == 2, "id": first_id + i}
        file.add_unit(spike_times=spikes, obs_intervals=obs_intervals, **columns)
    return trains


def write_maze(path) -> dict:
    """MC_Maze: behaviour at 1 kHz in mm under a conversion to m, with timestamps, and only around trials."""
    file = session_of("Jenkins", "large")
    add_electrodes(file, "M1", "PMd")
    trains = add_units(file, 7, MAZE_TRIALS, first_id=100)
    segments = [np.arange(round(1000 * start) - 100, round(1000 * stop) + 100) / 1000 for start, stop in MAZE_TRIALS]
    times = np.concatenate(segments)
    position = 100 * np.column_stack((np.sin(times), np.cos(times)))
    velocity = 100 * np.column_stack((np.cos(times), -np.sin(times)))
    behavior = file.create_processing_module("behavior", "Processed behavioral data")
    rows = {"timestamps": times, "conversion": 0.001}
    for name, data in (("cursor_pos", position + 1), ("eye_pos", 2 * position), ("hand_pos", position)):
        behavior.add(SpatialSeries(name=name, data=data, reference_frame="screen", unit="m", **rows))
    behavior.add(TimeSeries(name="hand_vel", data=velocity, unit="m/s", **rows))
    for name in ("go_cue_time", "rt", "success", "split"):
        file.add_trial_column(name, name)
    file.add_trial_column("target_pos", "x and y of each target", index=True)
    for i, (start, stop) in enumerate(MAZE_TRIALS):
        columns = {"go_cue_time": start + 0.2, "rt": 300, "success": True, "split": "train" if i else "val"}
        targets = [[10 * j, -20] for j in range(1 + i)]
        file.add_trial(start_time=start, stop_time=stop, target_pos=targets, **columns)
    write(file, path)
    return {"trains": trains, "times": times, "behavior": velocity / 1000}


def write_rtt(path, series=("finger_vel", "finger_pos", "cursor_pos", "target_pos")) -> dict:
    """MC_RTT: behaviour at 1 kHz by its rate, NaN between the segments; trials of 600 ms that touch."""
    file = session_of("Indy", "20170202_02")
    add_electrodes(file, "M1")
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
    for start in starts:
        file.add_trial(start_time=start, stop_time=start + 0.6)
    write(file, path)
    return {"trains": trains, "times": times, "gap": gap, **data, "starts": starts}
