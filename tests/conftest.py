"""What many tests need: random numbers that repeat, small batches and sessions."""

import signal

import numpy as np
import pytest
import torch

from possm_lite.app.lsl import import_pylsl
from possm_lite.errors import PossmError
from possm_lite.recordings import Recording
from possm_lite.simulate import simulate_session
from possm_lite.simulate.neurons import SimulationConfig

LSL_SETTINGS = "[multicast]\nResolveScope = machine\n[lab]\nKnownPeers = {127.0.0.1}\n[log]\nlevel = -3\n"

# What a script starts in the background ignores Ctrl-C, and so do its children: a test interrupts one.
signal.signal(signal.SIGINT, signal.default_int_handler)


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


@pytest.fixture
def pylsl(monkeypatch, tmp_path):
    """The module, or a skip; streams of this computer alone, whatever its network."""
    path = tmp_path / "lsl_api.cfg"
    path.write_text(LSL_SETTINGS)
    monkeypatch.setenv("LSLAPICFG", str(path))
    try:
        return import_pylsl()
    except PossmError as exc:
        pytest.skip(str(exc))
