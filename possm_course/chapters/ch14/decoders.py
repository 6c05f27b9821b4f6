"""The three decoders of chapter 14, trained in advance: of the hand now, in 100 ms and in 200 ms.

`python notebooks/figures/14_decoders.py` trains them, in a minute, and writes 14_decoders.npz beside it.
"""

from pathlib import Path

import numpy as np
import torch

from possm_lite.course.parallel import in_parallel
from possm_lite.decoder import POSSM, POSSMConfig
from possm_lite.recordings import load_recording
from possm_lite.training import FitConfig, fit, prepare

LAGS_S = {"now": 0.0, "100 ms ahead": 0.1, "200 ms ahead": 0.2}
FILE, DATA = Path(__file__).with_suffix(".npz"), Path(__file__).parents[2] / "data" / "simulated_session.npz"


def train(lag_s):
    """The weights of a decoder of the package that was trained for some seconds."""
    recording = load_recording(DATA)
    torch.manual_seed(0)
    model = POSSM(POSSMConfig(n_units=recording.n_units))
    config = FitConfig(epochs=5, window_s=1.0, samples=20, lr=3e-3, validations=0)
    fit(model, prepare(recording, lag_s=lag_s), config, progress=False)
    return {name: tensor.numpy() for name, tensor in model.state_dict().items()}


def pack(weights, prefix=""):
    """The weights of a decoder as arrays to be stored: each row as whole numbers up to 31, which is exact enough."""
    stored = {}
    for name, values in weights.items():
        values, scale = np.asarray(values), np.ones(1, np.float32)
        if values.ndim == 2 and len(values) > 2:
            scale = np.abs(values).max(1, keepdims=True).clip(1e-12) / 31
            values = np.rint(values / scale).astype(np.int8)
        stored[prefix + name], stored[f"{prefix}{name}/scale"] = values, scale
    return stored


def unpack(model, stored, prefix=""):
    """The model with the weights that were stored, ready to decode."""
    for name, tensor in model.state_dict().items():
        tensor.copy_(torch.from_numpy(stored[prefix + name] * stored[f"{prefix}{name}/scale"]))
    return model.eval()


def load(n_units):
    """The decoders, by name."""
    with np.load(FILE) as stored:
        return {lag: unpack(POSSM(POSSMConfig(n_units=n_units)), stored, f"{lag}/") for lag in LAGS_S}


def main():
    stored = {}
    for lag, weights in zip(LAGS_S, in_parallel(train, [(lag_s,) for lag_s in LAGS_S.values()]), strict=True):
        stored |= pack(weights, f"{lag}/")
    np.savez_compressed(FILE, **stored)
    print(f"{FILE.name}: {FILE.stat().st_size / 1e3:.0f} KB")


if __name__ == "__main__":
    main()
