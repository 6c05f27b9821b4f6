"""Trains three decoders of chapter 11 and writes their queries, keys and values: ch11_latent_cross_attention.npz.

python experiments/ch11_latent_cross_attention.py

They have the published form, with the heads of the chapter, and are trained for as many passes as the commands of the
package take. About three minutes.
"""

from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from possm_course.chapters.ch11.decoders import tables, untrained
from possm_course.stored import embedded_session
from possm_lite.recordings import load_recording
from possm_lite.training import FitConfig, fit, prepare

FILE = Path(__file__).with_suffix(".npz")
SEEDS = (0, 1, 2)


def train(epochs: int = FitConfig.epochs, seeds=SEEDS) -> dict[str, Tensor]:
    """Tables of a decoder for each seed, each with an axis of seeds in front."""
    session, found = prepare(load_recording(embedded_session())), []
    for seed in seeds:
        model = untrained(seed)
        fit(model, session, FitConfig(epochs, seed=seed, validations=0), progress=False)
        found.append(tables(model))
    return {name: torch.stack([table[name] for table in found]) for name in found[0]}


if __name__ == "__main__":
    np.savez(FILE, **{name: table.numpy().astype(np.float16) for name, table in train().items()})
