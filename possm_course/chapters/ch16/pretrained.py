"""The decoder that chapter 16 begins with: pretrained on its first three sessions.

`python notebooks/figures/16_pretrained.py` trains it, in some seconds, and writes 16_pretrained.npz beside it.
"""

from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from possm_lite.course.load import load_figures
from possm_lite.decoder import POSSM
from possm_lite.simulate import simulate_session
from possm_lite.training import combine_sessions, prepare

FILE, NOTEBOOKS = Path(__file__).with_suffix(".npz"), Path(__file__).parents[1]
figures, decoders = (load_figures(name, NOTEBOOKS) for name in ("16_new_sessions", "14_decoders"))


def make():
    return POSSM(figures.sizes(n_units=120, n_sessions=3))


@torch.no_grad()
def load():
    with np.load(FILE) as stored:
        return decoders.unpack(make(), stored)


def main():
    configs = (replace(config, n_trials=400) for config in (figures.A, figures.A, figures.B))
    sessions = [prepare(simulate_session(n, config).recording, figures.SPLIT) for n, config in enumerate(configs, 1)]
    torch.manual_seed(0)
    model = figures.train(make(), combine_sessions(sessions), steps=195, lr=4e-3, seed=0, window_s=2.0)
    np.savez_compressed(FILE, **decoders.pack(model.state_dict()))
    print(f"{FILE.name}: {FILE.stat().st_size / 1e3:.0f} KB")


if __name__ == "__main__":
    main()
