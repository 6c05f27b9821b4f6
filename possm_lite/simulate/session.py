"""A simulated session of motor cortex: recording and ground truth."""

import json
import sys
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path

import numpy as np

from ..errors import RecordingError
from ..recordings.arrays import read_arrays
from ..recordings.recording import Recording
from .neurons import (
    TICKS_PER_SECOND,
    SimulationConfig,
    UnitTuning,
    draw_common,
    draw_spikes,
    draw_units,
)
from .reaches import Reaches, hand_at, plan_reaches, sample_times

VELOCITY_GRID = 8  # velocity is a multiple of 1/8 mm/s: float32 holds it exactly, and it compresses


@dataclass(frozen=True)
class GroundTruth:
    """The parameters of the simulation, which a recording does not contain."""

    seed: int
    config: SimulationConfig
    units: UnitTuning  # the true tuning of every unit, in the order of `unit_ids`
    reaches: Reaches  # origins, targets and times of all reaches, and the kind of each trial
    common: (
        np.ndarray
    )  # fluctuations common to the units, at `config.common_rate_hz` from 0 s, (time, C)


@dataclass(frozen=True)
class SimulatedSession:
    """`recording`, as a laboratory would have it, and `truth`, known only in a simulation."""

    recording: Recording
    truth: GroundTruth


def simulate_session(
    seed: int = 0, config: SimulationConfig | None = None, units: UnitTuning | None = None
) -> SimulatedSession:
    """Simulate one session, deterministically, with velocity in mm/s at 1 kHz; the default is the session in `data/`.

    With other `units`, such as those of an earlier day or after drift, the same seed gives the same movements.
    """
    config = config or SimulationConfig()
    task_seed, unit_seed, common_seed, spike_seed = np.random.SeedSequence(seed).spawn(4)
    reaches = plan_reaches(_generator(task_seed), config)
    if units is None:
        units = draw_units(_generator(unit_seed), config)
    config = replace(config, n_units=len(units.tuned), n_common=units.common_gain.shape[1])
    common = draw_common(_generator(common_seed), reaches.trials[-1, 1], config)
    trains = {}
    for unit, child in enumerate(spike_seed.spawn(config.n_units)):
        ticks = draw_spikes(_generator(child), units, unit, reaches, common, config)
        trains[f"sim{unit:03d}"] = ticks / TICKS_PER_SECOND
    times = sample_times(reaches)
    velocity = hand_at(reaches, times)[1]
    recording = Recording.from_trains(
        trains,
        times,
        np.round(velocity * VELOCITY_GRID) / VELOCITY_GRID + 0.0,  # + 0.0 removes the sign of -0.0
        behavior_unit="mm/s",
        trials=reaches.trials,
        session_id=f"simulated-{seed}",
        notes=("Simulated: no animal was recorded.",),
    )
    return SimulatedSession(recording, GroundTruth(seed, config, units, reaches, common))


def _generator(seed: np.random.SeedSequence) -> np.random.Generator:
    return np.random.Generator(
        np.random.PCG64(seed)
    )  # by name: the generator of default_rng may change


def save_session(session: SimulatedSession, path: str | Path):
    """Write recording and truth to one `.npz`, for `load_recording` and `load_ground_truth`."""
    truth = session.truth
    arrays = {
        "seed": truth.seed,
        "config": json.dumps(asdict(truth.config)),
        "common": truth.common,
    }
    for group in ("units", "reaches"):
        arrays |= {f"{group}_{name}": value for name, value in vars(getattr(truth, group)).items()}
    session.recording.save(
        path, extra={f"truth_{name}": np.asarray(value) for name, value in arrays.items()}
    )


def load_ground_truth(path: str | Path) -> GroundTruth:
    """The ground truth in a file of `save_session`. A real recording has none: KeyError."""
    arrays = read_arrays(path, error=RecordingError)
    config = json.loads(str(arrays["truth_config"]))
    return GroundTruth(
        seed=int(arrays["truth_seed"]),
        config=SimulationConfig(**config | {"hold_s": tuple(config["hold_s"])}),
        units=UnitTuning(**{f.name: arrays[f"truth_units_{f.name}"] for f in fields(UnitTuning)}),
        reaches=Reaches(**{f.name: arrays[f"truth_reaches_{f.name}"] for f in fields(Reaches)}),
        common=arrays["truth_common"],
    )


if __name__ == "__main__":
    save_session(simulate_session(), sys.argv[1])
