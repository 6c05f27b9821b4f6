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

from possm_lite.recordings import Recording

from .layouts import Layout, position_of, sampled, trains_of


def new_file(**options) -> NWBFile:
    return NWBFile("reaches", "368fc9f0-0b95", datetime(2009, 10, 6, tzinfo=timezone.utc), **options)


def write(file, path):
    with NWBHDF5IO(str(path), "w") as io:
        io.write(file)


def session_of(subject: str, session_id: str) -> NWBFile:
    return new_file(session_id=session_id, subject=Subject(subject_id=subject, species="Macaca mulatta"))


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


def series(name, data, **options):
    return TimeSeries(name=name, data=data, unit="a", **options)


def one_dimensional(names, values, **options):
    return [series(name, column, **options) for name, column in zip(names, values.T, strict=True)]


def positions(m, conversion, scales):
    options = {"conversion": conversion, **m.stamps, **SCREEN}
    parts = [SpatialSeries(name=name, data=scale * m.position, **options) for name, scale in scales.items()]
    return Position(spatial_series=parts)


def behavior(file, *items, module="behavior"):
    added = file.create_processing_module(module, "movement")
    for item in items:
        added.add(item)


def falcon_m1(file, m):
    parts = one_dimensional(MUSCLES, m.angles, **m.stamps)
    file.add_acquisition(BehavioralTimeSeries(name="preprocessed_emg", time_series=parts))
    file.add_acquisition(series("eval_mask", m.scored, **m.stamps))


def falcon_m2(file, m):
    for kind, values in (("pos", m.position), ("vel", m.velocity)):
        parts = one_dimensional((f"index_{kind}", f"mrs_{kind}"), values, **m.stamps)
        file.add_acquisition(BehavioralTimeSeries(name=f"finger_{kind}", time_series=parts))


def falcon_h1(file, m):
    clock = {"rate": 1 / m.clock["rate"], "starting_time": m.times[0]}  # seconds a sample
    clock |= {"description": ",".join(H1)}
    file.add_acquisition(series("OpenLoopKinematics", m.angles[:, :7], **clock))
    file.add_acquisition(series("OpenLoopKinematicsVelocity", 2 * m.angles[:, :7], **clock))


def perich_miller(file, m):
    velocity = BehavioralTimeSeries(name="Velocity", time_series=series("cursor_vel", m.velocity, **m.stamps))
    behavior(file, velocity, positions(m, 1.0, {"Cursor": 2}))


def area2_bump(file, m):
    wider = {"force": m.angles[:, :6], "hand_vel": m.velocity, "joint_ang": m.angles[:, :7], "muscle_len": m.angles}
    behavior(file, *(series(name, data, **m.stamps) for name, data in wider.items()))


def mc_rtt(file, m):
    values = np.where(m.scored[:, None], 1000 * m.velocity, np.nan)
    behavior(file, series("finger_vel", values, conversion=0.001, **m.clock))


def neuroconv(file, m):
    one = SpatialSeries(name="SpatialSeries", data=m.position, **m.clock, **SCREEN)
    behavior(file, Position(spatial_series=one))


WRITERS: dict[str, Callable] = {
    # millimetres under a conversion to metres
    "NWB: MC_Maze": lambda f, m: behavior(f, series("hand_vel", 1000 * m.velocity, conversion=0.001, **m.stamps)),
    "NWB: MC_RTT": mc_rtt,
    "NWB: Area2_Bump": area2_bump,
    "NWB: Perich-Miller": perich_miller,
    "NWB: Churchland-Shenoy": lambda f, m: behavior(f, positions(m, np.nan, {"Eye": 3, "Hand": 1, "Cursor": 2})),
    "NWB: FALCON M1": falcon_m1,
    "NWB: FALCON M2": falcon_m2,
    "NWB: FALCON H1": falcon_h1,
    "NWB: hand_vel_x, hand_vel_y": lambda f, m: behavior(
        f, *one_dimensional(("hand_vel_x", "hand_vel_y"), m.velocity, **m.clock)
    ),
    "NWB: x_vel, y_vel": lambda f, m: behavior(
        f, *one_dimensional(("x_vel", "y_vel"), m.velocity, **m.clock), module="kinematics"
    ),
    "NWB: NeuroConv": neuroconv,
    "NWB: module Behavior": lambda f, m: behavior(f, series("hand_vel", m.velocity, **m.clock), module="Behavior"),
    "NWB: acquisition": lambda f, m: f.add_acquisition(series("hand_vel", m.velocity, **m.clock)),
    "NWB: a still hand": lambda f, m: behavior(
        f, series("hand_vel", 0 * m.velocity, **m.clock), series("cursor_vel", m.velocity, **m.clock)
    ),
}


def write_layout(title: str, folder: Path, recording: Recording) -> Layout:
    """The recording with behaviour at 50 Hz as an NWB file in one of these layouts; 4 s of FALCON M1 and MC_RTT are not
    scored, and FALCON H1 has no trials."""
    r = sampled(recording, 20)
    angles = r.behavior @ np.random.default_rng(0).normal(size=(2, 16))
    scored = (r.behavior_times < 20) | (r.behavior_times > 24)
    file, path = session_of("Monkey", "1"), folder / "session.nwb"
    for train in trains_of(r):
        file.add_unit(spike_times=train)
    WRITERS[title](file, Movement(r.behavior_times, position_of(r), r.behavior, angles, scored))
    for start, stop in r.trials if title != "NWB: FALCON H1" else ():
        file.add_trial(start_time=start, stop_time=stop)
    write(file, path)
    changes = {
        "NWB: FALCON M1": {"behavior": angles, "behavior_columns": MUSCLES},
        "NWB: FALCON M2": {"behavior_columns": ("index_vel", "mrs_vel")},
        "NWB: FALCON H1": {"behavior": 2 * angles[:, :7], "behavior_columns": H1, "trials": []},
        "NWB: Churchland-Shenoy": {"behavior_unit": "meters/s"},
        "NWB: NeuroConv": {"behavior_unit": "meters/s"},
    }
    named = {"behavior_columns": (), "behavior_unit": "a", "unit_ids": np.arange(r.n_units), "session_id": "Monkey_1"}
    expected = replace(r, **named | changes.get(title, {}))
    if title in ("NWB: FALCON M1", "NWB: MC_RTT"):
        spared = np.all((r.trials <= 20) | (r.trials >= 24), axis=1) & ~((r.trials[:, 0] < 20) & (r.trials[:, 1] > 24))
        rows = {"behavior_times": r.behavior_times[scored], "behavior": expected.behavior[scored]}
        expected = replace(expected, **rows, trials=r.trials[spared])
    return Layout({}, expected, path)
