"""The decoders of chapter 11, untrained and trained, and their queries, keys and values."""

import json
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from possm_course.stored import result
from possm_lite.decoder import POSSM, POSSMConfig

SIZES = {"head_dim": 32, "n_freqs": 8}


def tables(model: POSSM) -> dict[str, Tensor]:
    """The tables of the first latent and head of a decoder, all that its input attention needs.

    Args:
        model: a decoder with U units.

    Returns:
        The query "q" (d,), and the keys "k" and values "v" of all units (U+1, d).
    """
    encoder = model.encoder
    with torch.no_grad():
        q = encoder.queries(encoder.latents)  # (L, H, d)
        keys, values = encoder.keys_values(model.unit_embedding.weight)  # (U+1, H, d) each
    return {"q": q[0, 0], "k": keys[:, 0], "v": values[:, 0]}


def untrained(seed: int, reading: str = "softmax", **switches) -> POSSM:
    """A decoder with the heads of the chapter, for 120 units.

    Args:
        seed: of the weights.
        reading: of the input attention; "mean" is a softmax whose query is held at zero.
        switches: further fields of `POSSMConfig`.

    Returns:
        The decoder.
    """
    torch.manual_seed(seed)
    model = POSSM(
        POSSMConfig(n_units=120, reading=reading.replace("mean", "softmax"), **SIZES, **switches)
    )
    if reading == "mean":
        model.encoder.to_q.weight.requires_grad_(False).zero_()
    return model


def trained() -> dict[str, Tensor]:
    """What experiments/ch11_latent_cross_attention.py stored of three trained decoders.

    Returns:
        Queries "q" (3, d), keys "k" and values "v" (3, U+1, d), stored in half precision.
    """
    with np.load(result("ch11_latent_cross_attention.npz")) as stored:
        return {name: torch.from_numpy(stored[name]).float() for name in stored.files}


def reading_scores() -> dict[str, str]:
    """What `make bench ARGS="accuracy"` stored of decoders that read a bin in other ways.

    Returns:
        "softmax", "softmax_blank", "sum" and "mean" to R² on the test part, mean ± standard
        deviation of five seeds.
    """
    stored = result("benchmarks/results/accuracy.json").read_text(encoding="utf-8")
    tables = [item for item in json.loads(stored)["items"] if item["kind"] == "table"]
    (rows,) = [
        table["rows"]
        for table in tables
        if table["title"] == "How a bin is read: simulated session, 5 seeds"
    ]
    name = "reading: "
    return {what.removeprefix(name): r2 for what, r2, *_ in rows if what.startswith(name)}


def with_reading(model: POSSM, reading: str) -> POSSM:
    """A decoder with the weights of another, whose encoder reads in another way.

    Args:
        model: whose weights are copied; it is not changed.
        reading: of the new decoder; "mean" is a softmax whose query is held at zero.

    Returns:
        The new decoder.
    """
    torch.manual_seed(0)
    config = replace(model.config, reading=reading.replace("mean", "softmax"))
    twin = POSSM(config)
    weights = model.state_dict()
    if reading == "sum":  # it has no keys
        _, to_values = weights["encoder.to_kv.weight"].chunk(2)
        weights["encoder.to_kv.weight"] = to_values
    twin.load_state_dict(weights, strict=False)  # gain and bias are new, a sum has no query
    if reading == "mean":
        twin.encoder.to_q.weight.requires_grad_(False).zero_()
    return twin
