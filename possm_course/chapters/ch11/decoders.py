"""The decoders of chapter 11, untrained and trained, and their queries, keys and values."""

from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from possm_course.stored import result
from possm_lite.decoder import POSSM, POSSMConfig

SIZES = {"head_dim": 32, "n_freqs": 8}


def tables(model: POSSM) -> dict[str, Tensor]:
    """The query (d,) of the first latent and head, and keys and values (U+1, d) of all units."""
    with torch.no_grad():
        q = model.encoder.queries(model.encoder.latents)[0, 0]
        k, v = (x[:, 0] for x in model.encoder.keys_values(model.unit_embedding.weight))
    return {"q": q, "k": k, "v": v}


def untrained(seed: int, reading: str = "softmax", **switches) -> POSSM:
    """A decoder with the heads of the chapter; "mean" is a softmax whose query is held at zero."""
    torch.manual_seed(seed)
    model = POSSM(
        POSSMConfig(n_units=120, reading=reading.replace("mean", "softmax"), **SIZES, **switches)
    )
    if reading == "mean":
        model.encoder.to_q.weight.requires_grad_(False).zero_()
    return model


def trained() -> dict[str, Tensor]:
    """What experiments/ch11_latent_cross_attention.py stored, in half precision: q (3, d), k and v (3, U+1, d)."""
    with np.load(result("ch11_latent_cross_attention.npz")) as stored:
        return {name: torch.from_numpy(stored[name]).float() for name in stored.files}


def with_reading(model: POSSM, reading: str) -> POSSM:
    """A decoder with the weights of the model, whose encoder reads in another way."""
    torch.manual_seed(0)
    config = replace(model.config, reading=reading.replace("mean", "softmax"))
    twin, weights = POSSM(config), model.state_dict()
    if reading == "sum":
        weights["encoder.to_kv.weight"] = weights["encoder.to_kv.weight"].chunk(2)[
            1
        ]  # it has no keys
    twin.load_state_dict(
        weights, strict=False
    )  # not strict: gain and bias are new, a sum has no query
    if reading == "mean":
        twin.encoder.to_q.weight.requires_grad_(False).zero_()
    return twin
