"""What many tests need: random numbers that repeat, the shared oracle, small batches and sessions."""

from pathlib import Path

import numpy as np
import pytest
import torch

SHARED = Path(__file__).resolve().parents[2] / "shared"


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)


@pytest.fixture(autouse=True)
def _seeded():
    torch.manual_seed(0)


@pytest.fixture(scope="session")
def oracle() -> dict[str, np.ndarray]:
    """Weights, inputs and answers of the authors' implementation."""
    path = SHARED / "oracle" / "possm_small.npz"
    if not path.exists():
        pytest.skip("the oracle of the authors' implementation is not here")
    with np.load(path, allow_pickle=False) as arrays:
        return {name: arrays[name] for name in arrays}
