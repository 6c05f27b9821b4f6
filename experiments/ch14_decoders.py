"""Trains the three decoders of chapter 14, in a minute, and writes ch14_decoders.npz.

python experiments/ch14_decoders.py
"""

from pathlib import Path

import numpy as np
import torch

from possm_course.chapters.ch14.decoders import LAGS_S, pack
from possm_course.parallel import in_parallel
from possm_course.stored import embedded_session
from possm_lite.decoder import POSSM, POSSMConfig
from possm_lite.recordings import load_recording
from possm_lite.training import FitConfig, fit, prepare

FILE = Path(__file__).with_suffix(".npz")


def train(lag_s: float, seed: int = 0) -> POSSM:
    """A decoder of the package that was trained for some seconds."""
    recording = load_recording(embedded_session())
    torch.manual_seed(seed)
    model = POSSM(POSSMConfig(n_units=recording.n_units))
    config = FitConfig(epochs=5, window_s=1.0, samples=20, lr=3e-3, validations=0, seed=seed)
    fit(model, prepare(recording, lag_s=lag_s), config, progress=False)
    return model


def main():
    stored = {}
    for lag, model in zip(LAGS_S, in_parallel(train, [(lag_s,) for lag_s in LAGS_S.values()]), strict=True):
        weights = {name: tensor.numpy() for name, tensor in model.state_dict().items()}
        stored |= pack(weights, f"{lag}/")
    np.savez_compressed(FILE, **stored)
    print(f"{FILE.name}: {FILE.stat().st_size / 1e3:.0f} KB")


if __name__ == "__main__":
    main()
