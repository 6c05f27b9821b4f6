"""What many tests need: random numbers that repeat, small batches and sessions."""

import numpy as np
import pytest
import torch

from possm_lite.spikes import Recording, simulate_session
from possm_lite.spikes.simulation.neurons import SimulationConfig


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)


@pytest.fixture(autouse=True)
def _seeded():
    torch.manual_seed(0)


@pytest.fixture(scope="session")
def small_recording() -> Recording:
    """Twelve trials of twelve simulated units, about half a minute in all; trials follow each other without a gap."""
    return simulate_session(1, SimulationConfig(n_trials=12, n_units=12)).recording
