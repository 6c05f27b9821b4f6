"""The three decoders of chapter 14, trained in advance: of the hand now, in 100 ms and in 200 ms.

experiments/ch14_decoders.py has trained them.
"""

import numpy as np
import torch

from possm_course.stored import result
from possm_lite.decoder import POSSM, POSSMConfig

LAGS_S = {"now": 0.0, "100 ms ahead": 0.1, "200 ms ahead": 0.2}


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
    with np.load(result("ch14_decoders.npz")) as stored:
        return {lag: unpack(POSSM(POSSMConfig(n_units=n_units)), stored, f"{lag}/") for lag in LAGS_S}
