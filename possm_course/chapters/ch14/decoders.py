"""The three decoders of chapter 14, trained in advance: of the hand now, in 100 ms and in 200 ms.

experiments/ch14_decoders.py has trained them.
"""

from collections.abc import Mapping

import numpy as np
import torch
from torch import nn

from possm_course.stored import result
from possm_lite.decoder import POSSM, POSSMConfig

LAGS_S = {"now": 0.0, "100 ms ahead": 0.1, "200 ms ahead": 0.2}


def pack(weights: dict[str, np.ndarray], prefix: str = "") -> dict[str, np.ndarray]:
    """The weights of a decoder as arrays to be stored.

    Rows of matrices are kept as whole numbers up to 31, which is exact enough.

    Args:
        weights: name to an array or a tensor.
        prefix: put before each name.

    Returns:
        Name to array, and name/scale to what it is to be multiplied with.
    """
    stored = {}
    for name, values in weights.items():
        values = np.asarray(values)
        scale = np.ones(1, np.float32)
        if values.ndim == 2 and len(values) > 2:
            scale = np.abs(values).max(1, keepdims=True).clip(1e-12) / 31
            values = np.rint(values / scale).astype(np.int8)
        stored[f"{prefix}{name}"] = values
        stored[f"{prefix}{name}/scale"] = scale
    return stored


def unpack(model: nn.Module, stored: Mapping[str, np.ndarray], prefix: str = "") -> nn.Module:
    """A decoder with the weights that were stored, ready to decode.

    Args:
        model: a decoder of the same sizes; it is changed in place.
        stored: what `pack` gave.
        prefix: as given to `pack`.

    Returns:
        The decoder.
    """
    for name, tensor in model.state_dict().items():
        values = stored[f"{prefix}{name}"] * stored[f"{prefix}{name}/scale"]
        tensor.copy_(torch.from_numpy(values))
    return model.eval()


def load(n_units: int) -> dict[str, POSSM]:
    """The decoders for the `n_units` units of the embedded session, by a name of `LAGS_S`."""
    models = {}
    with np.load(result("ch14_decoders.npz")) as stored:
        for lag in LAGS_S:
            model = POSSM(POSSMConfig(n_units=n_units))
            models[lag] = unpack(model, stored, f"{lag}/")
    return models
