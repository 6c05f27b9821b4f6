"""NWB files for tests, written with pynwb; import after `pytest.importorskip("pynwb")`."""

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import NamedTuple

import numpy as np
from pynwb import NWBHDF5IO, NWBFile, TimeSeries
from pynwb.behavior import BehavioralTimeSeries, Position, SpatialSeries
from pynwb.file import Subject

from possm_lite.spikes import Recording

from .layouts import Layout, position_of, sampled, trains_of

MAZE_TRIALS = np.array([[1.0, 2.2], [3.0, 4.5], [5.25, 6.0]])


def new_file(**options) -> NWBFile:
    return NWBFile("reaches", "368fc9f0-0b95", datetime(2009, 10, 6, tzinfo=timezone.utc), **options)


def write(file, path):
    with NWBHDF5IO(str(path), "w") as io:
        io.write(file)


def session_of(subject: str, session_id: str) -> NWBFile:
    return new_file(session_id=session_id, subject=Subject(subject_id=subject, species="Macaca mulatta"))


def add_units(file, n_units, obs_intervals, first_id=0) -> list[np.ndarray]:
    """Units as in the benchmark with 8 s of spikes, every third of them held out; the last one is silent."""
    rng = np.random.default_rng(3)
    file.add_unit_column("heldout", "whether the unit is held out in the test data")
    trains = [np.sort(rng.uniform(0, 8, rng.integers(20, 60))).round(4) for _ in range(n_units - 1)]
    trains.append(np.empty(0))
    for i, spikes in enumerate(trains):
        file.add_unit(spike_times=spikes, obs_intervals=obs_intervals, heldout=i % 3 == 2, id=first_id + i)
    return trains


def write_maze(path) -> dict:
    """MC_Maze: behaviour at 1 kHz in mm under a conversion to m, with timestamps, and only around trials."""
    file = session_of("Jenkins", "large")
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


# One movement in the layouts of public data sets and converters: names, shapes, containers, conversions


class Movement(NamedTuple):
    """Regular times (T,) in seconds; position and velocity (T, 2); angles (T, 16); whether a sample is scored, (T,)."""

    times: np.ndarray
    position: np.ndarray
    velocity: np.ndarray
    angles: np.ndarray
    scored: np.ndarray

    @property
    def stamps(self) -> dict:
        return {"timestamps": self.times}

    @property
    def clock(self) -> dict:
        return {"rate": 1 / (self.times[1] - self.times[0]), "starting_time": self.times[0]}


MUSCLES = [f"m{i:02d}" for i in range(16)]
H1 = ("tx", "ty", "tz", "rx", "g1", "g2", "g3")
SCREEN = {"reference_frame": "screen center"}


def one_dimensional(container, names, values, **options):
    parts = [
        TimeSeries(name=name, data=column, unit="a", **options) for name, column in zip(names, values.T, strict=True)
    ]
    return BehavioralTimeSeries(name=container, time_series=parts)


def positions(m, conversion, names=("Eye", "Hand", "Cursor")):
    scale = {"Eye": 3, "Hand": 1, "Cursor": 2}
    options = {"conversion": conversion, **m.stamps, **SCREEN}
    series = [SpatialSeries(name=name, data=scale[name] * m.position, **options) for name in names]
    return Position(spatial_series=series)


def behavior(file, *items, module="behavior"):
    added = file.create_processing_module(module, "movement")
    for item in items:
        added.add(item)


def churchland_shenoy(file, m):  # DANDI 000070, 000121
    behavior(file, positions(m, np.nan))


def falcon_m1(file, m):
    file.add_acquisition(one_dimensional("preprocessed_emg", MUSCLES, m.angles, **m.stamps))
    file.add_acquisition(TimeSeries(name="eval_mask", data=m.scored, unit="bool", **m.stamps))


def falcon_m2(file, m):
    file.add_acquisition(one_dimensional("finger_pos", ("index_pos", "mrs_pos"), m.position, **m.stamps))
    file.add_acquisition(one_dimensional("finger_vel", ("index_vel", "mrs_vel"), m.velocity, **m.stamps))


def falcon_h1(file, m):
    clock = {"rate": 1 / m.clock["rate"], "starting_time": m.times[0]}  # seconds a sample
    clock |= {"description": ",".join(H1), "unit": "arbitrary"}
    file.add_acquisition(TimeSeries(name="OpenLoopKinematics", data=m.angles[:, :7], **clock))
    file.add_acquisition(TimeSeries(name="OpenLoopKinematicsVelocity", data=2 * m.angles[:, :7], **clock))


def perich_miller(file, m):  # DANDI 000688
    cursor = TimeSeries(name="cursor_vel", data=m.velocity, unit="a", **m.stamps)
    behavior(file, BehavioralTimeSeries(name="Velocity", time_series=cursor), positions(m, 1.0, ["Cursor"]))


def area2_bump(file, m):  # DANDI 000127
    wider = {"force": m.angles[:, :6], "hand_vel": m.velocity, "joint_ang": m.angles[:, :7], "muscle_len": m.angles}
    behavior(file, *(TimeSeries(name=name, data=data, unit="a", **m.stamps) for name, data in wider.items()))


def mc_maze(file, m):  # DANDI 000128: millimetres under a conversion to metres
    behavior(file, TimeSeries(name="hand_vel", data=1000 * m.velocity, unit="m/s", conversion=0.001, **m.stamps))


def mc_rtt(file, m):  # DANDI 000129
    values = np.where(m.scored[:, None], 1000 * m.velocity, np.nan)
    behavior(file, TimeSeries(name="finger_vel", data=values, unit="m/s", conversion=0.001, **m.clock))


def pairs(file, m):
    parts = [
        TimeSeries(name=f"hand_vel_{axis}", data=x, unit="a", **m.clock)
        for axis, x in zip("xy", m.velocity.T, strict=True)
    ]
    behavior(file, *parts)


def pairs_of_axes(file, m):
    parts = [
        TimeSeries(name=f"{axis}_vel", data=x, unit="a", **m.clock) for axis, x in zip("xy", m.velocity.T, strict=True)
    ]
    behavior(file, *parts, module="kinematics")


def neuroconv(file, m):
    series = SpatialSeries(name="SpatialSeries", data=m.position, **m.clock, **SCREEN)
    behavior(file, Position(spatial_series=series))


def module_behavior(file, m):
    behavior(file, TimeSeries(name="hand_vel", data=m.velocity, unit="a", **m.clock), module="Behavior")


def acquisition(file, m):
    file.add_acquisition(TimeSeries(name="hand_vel", data=m.velocity, unit="a", **m.clock))


def still_hand(file, m):
    series = (("hand_vel", 0 * m.velocity), ("cursor_vel", m.velocity))
    behavior(file, *(TimeSeries(name=name, data=data, unit="a", **m.clock) for name, data in series))


WRITERS: dict[str, Callable] = {
    "NWB: MC_Maze": mc_maze,
    "NWB: MC_RTT": mc_rtt,
    "NWB: Area2_Bump": area2_bump,
    "NWB: Perich-Miller": perich_miller,
    "NWB: Churchland-Shenoy": churchland_shenoy,
    "NWB: FALCON M1": falcon_m1,
    "NWB: FALCON M2": falcon_m2,
    "NWB: FALCON H1": falcon_h1,
    "NWB: hand_vel_x, hand_vel_y": pairs,
    "NWB: x_vel, y_vel": pairs_of_axes,
    "NWB: NeuroConv": neuroconv,
    "NWB: module Behavior": module_behavior,
    "NWB: acquisition": acquisition,
    "NWB: a still hand": still_hand,
}


def write_layout(title: str, folder: Path, recording: Recording) -> Layout:
    """The recording with behaviour at 50 Hz as an NWB file in one of these layouts; 4 s of FALCON M1 and MC_RTT are not
    scored, and FALCON H1 has no trials."""
    r = sampled(recording, 20)
    add = WRITERS[title]
    angles = r.behavior @ np.random.default_rng(0).normal(size=(2, 16))
    scored = (r.behavior_times < 20) | (r.behavior_times > 24)
    file, path = session_of("Monkey", "1"), folder / "session.nwb"
    for train in trains_of(r):
        file.add_unit(spike_times=train)
    add(file, Movement(r.behavior_times, position_of(r), r.behavior, angles, scored))
    for start, stop in r.trials if add is not falcon_h1 else ():
        file.add_trial(start_time=start, stop_time=stop)
    write(file, path)
    changes = {
        falcon_m1: {"behavior": angles, "behavior_columns": MUSCLES},
        falcon_m2: {"behavior_columns": ("index_vel", "mrs_vel")},
        falcon_h1: {"behavior": 2 * angles[:, :7], "behavior_columns": H1, "trials": [], "behavior_unit": "arbitrary"},
        mc_maze: {"behavior_unit": "m/s"},
        mc_rtt: {"behavior_unit": "m/s"},
        churchland_shenoy: {"behavior_unit": "meters/s"},
        neuroconv: {"behavior_unit": "meters/s"},
    }
    named = {"behavior_columns": (), "behavior_unit": "a", "unit_ids": np.arange(r.n_units), "session_id": "Monkey_1"}
    expected = replace(r, **named | changes.get(add, {}))
    if add in (falcon_m1, mc_rtt):
        spared = np.all((r.trials <= 20) | (r.trials >= 24), axis=1) & ~((r.trials[:, 0] < 20) & (r.trials[:, 1] > 24))
        rows = {"behavior_times": r.behavior_times[scored], "behavior": expected.behavior[scored]}
        expected = replace(expected, **rows, trials=r.trials[spared])
    return Layout({}, expected, path)
