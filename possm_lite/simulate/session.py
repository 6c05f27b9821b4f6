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
from .reaches import Reaches, hand_at, plan_reaches, sample_times, target_names

# velocity is a multiple of 1/8 mm/s: float32 holds it exactly, and it compresses
VELOCITY_GRID = 8


@dataclass(frozen=True)
class GroundTruth:
    """The parameters of the simulation, which a recording does not contain.

    Attributes:
        seed: of all random streams.
        config: task and units.
        units: the true tuning of every unit, in the order of `Recording.unit_ids`.
        reaches: origins, targets and times of all reaches, and the kind of each trial.
        common: fluctuations common to the units, at `config.common_rate_hz` from 0 s, shape
            (time, C).
    """

    seed: int
    config: SimulationConfig
    units: UnitTuning
    reaches: Reaches
    common: np.ndarray


@dataclass(frozen=True)
class SimulatedSession:
    """A session of `simulate_session`.

    Attributes:
        recording: as a laboratory would have it.
        truth: what is known only in a simulation.
    """

    recording: Recording
    truth: GroundTruth


def simulate_session(
    seed: int = 0, config: SimulationConfig | None = None, units: UnitTuning | None = None
) -> SimulatedSession:
    """Simulate one session, deterministically.

    Movements, tuning, common fluctuations and spikes each have their own random stream, so a change
    of one does not change the others: with other `units`, the same seed gives the same movements.

    Args:
        seed: 0 or larger.
        config: task and units; the default is the session in `data/`.
        units: the tuning to use instead of a random one: that of an earlier session for a second
            day with the same units, or a changed one to simulate drift. Of the units in `config`,
            only the refractory period and the time course of the common fluctuations then apply.

    Returns:
        The recording, with velocity in mm/s at 1 kHz and trials without gaps between them, and the
        ground truth.
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
    _, velocity = hand_at(reaches, times)
    rounded = np.round(velocity * VELOCITY_GRID) / VELOCITY_GRID
    recording = Recording.from_trains(
        trains,
        times,
        rounded + 0.0,  # removes the sign of -0.0
        behavior_unit="mm/s",
        trials=reaches.trials,
        session_id=f"simulated-{seed}",
        notes=("Simulated: no animal was recorded.",),
    )
    return SimulatedSession(recording, GroundTruth(seed, config, units, reaches, common))


def _generator(seed: np.random.SeedSequence) -> np.random.Generator:
    """A generator of this seed, by name: the generator of default_rng may change."""
    return np.random.Generator(np.random.PCG64(seed))


def save_session(session: SimulatedSession, path: str | Path):
    """Write recording and truth to one file, for `load_recording` and `load_ground_truth`.

    The targets of centre-out trials are in it as labels of trials, `trials_target`.

    Args:
        session: of `simulate_session`.
        path: the file; its name ends in .npz.

    Raises:
        RecordingError: it could not be written.
    """
    truth = session.truth
    arrays = {
        "truth_seed": np.asarray(truth.seed),
        "truth_config": np.asarray(json.dumps(asdict(truth.config))),
        "truth_common": truth.common,
        "trials_target": target_names(truth.reaches),
    }
    arrays |= {f"truth_units_{name}": value for name, value in vars(truth.units).items()}
    arrays |= {f"truth_reaches_{name}": value for name, value in vars(truth.reaches).items()}
    session.recording.save(path, extra=arrays)


def load_ground_truth(path: str | Path) -> GroundTruth:
    """The ground truth in a file of `save_session`.

    Args:
        path: the file.

    Raises:
        RecordingError: the file cannot be read.
        KeyError: it has no ground truth, as a real recording.
    """
    arrays = read_arrays(path, error=RecordingError)
    config = json.loads(str(arrays["truth_config"]))
    config["hold_s"] = tuple(config["hold_s"])  # JSON has lists alone
    units = {field.name: arrays[f"truth_units_{field.name}"] for field in fields(UnitTuning)}
    reaches = {field.name: arrays[f"truth_reaches_{field.name}"] for field in fields(Reaches)}
    return GroundTruth(
        seed=int(arrays["truth_seed"]),
        config=SimulationConfig(**config),
        units=UnitTuning(**units),
        reaches=Reaches(**reaches),
        common=arrays["truth_common"],
    )


if __name__ == "__main__":
    save_session(simulate_session(), sys.argv[1])
