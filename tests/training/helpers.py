"""Small sessions and models, trainings that are interrupted, and files with other metadata."""

import json

import numpy as np
import torch

from possm_lite.decoder import POSSM, POSSMConfig
from possm_lite.recordings import Recording
from possm_lite.recordings.arrays import read_arrays
from possm_lite.simulate import simulate_session
from possm_lite.simulate.neurons import SimulationConfig
from possm_lite.training import FitConfig, TrainingCheckpoint

QUICK = FitConfig(epochs=2, window_s=1.0, batch=4, samples=20)


def simulated(seed, n_units, n_trials=8) -> Recording:
    return simulate_session(seed, SimulationConfig(n_trials, n_units=n_units)).recording


def small_possm(*sessions, kind=POSSM, **sizes) -> POSSM:
    """A model of these sessions with weights that are the same each time."""
    torch.manual_seed(0)
    n_units = sum(s.recording.n_units for s in sessions)
    return kind(POSSMConfig(n_units, len(sessions), **{"dim": 16, "head_dim": 16, "n_freqs": 4, "hidden": 32} | sizes))


def same_weights(model, other) -> bool:
    other = other.state_dict()
    return all(torch.equal(tensor, other[name]) for name, tensor in model.state_dict().items())


def assert_same_checkpoints(folder, expected, ignore=()):
    arrays, others = (read_arrays(path / "checkpoint.npz") for path in (folder, expected))
    assert list(arrays) == list(others)
    for name in arrays.keys() - set(ignore):
        assert arrays[name].tobytes() == others[name].tobytes(), name


class InterruptedCheckpoint(TrainingCheckpoint):
    """Saves after every epoch, and raises KeyboardInterrupt after one of them."""

    def __init__(self, path, epoch=2):
        super().__init__(path, every_s=0.0)
        self.epoch = epoch

    def save_if_due(self, **options):
        super().save_if_due(**options)
        if len(self.history.loss) == self.epoch:
            raise KeyboardInterrupt


def change_metadata(path, change):
    """Apply a function to the metadata of a decoder's file."""
    arrays = read_arrays(path)
    metadata = json.loads(str(arrays["about"]))
    change(metadata)
    np.savez(path, **arrays | {"about": np.array(json.dumps(metadata))})
