"""Three memories of chapter 15, trained on the flags, of which deeper 15 asks what they have kept.

`python notebooks/figures/15_flags.py` trains them, in some seconds, and writes 15_flags.npz beside it.
"""

from pathlib import Path

import numpy as np
import torch

from possm_lite.course.load import load_figures

FILE, NAMES = Path(__file__).with_suffix(".npz"), ("S4D", "GRU", "Mamba")
memories = load_figures("15_state_space_models", Path(__file__).parents[1])


def load(name):
    model = memories.new(name)
    with np.load(FILE) as stored:
        model.load_state_dict({key: torch.from_numpy(stored[f"{name}/{key}"]) for key in model.state_dict()})
    return model


def main():
    torch.set_num_threads(1)
    stored = {}
    for name in NAMES:
        model, errors = memories.learn(name, "flags", 0, memories.RESULTS["flags"][name]["rate"], 300)
        stored |= {f"{name}/{key}": tensor.numpy() for key, tensor in model.state_dict().items()}
        print(name, errors[-1])
    np.savez_compressed(FILE, **stored)


if __name__ == "__main__":
    main()
