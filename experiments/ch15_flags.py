"""Trains three memories of chapter 15 on the flags, in some seconds, and writes ch15_flags.npz.

python experiments/ch15_flags.py
"""

from pathlib import Path

import numpy as np
import torch

from possm_course.chapters.ch15 import toy

FILE = Path(__file__).with_suffix(".npz")
NAMES = ("S4D", "GRU", "Mamba")


def main():
    torch.set_num_threads(1)
    stored = {}
    for name in NAMES:
        model, errors = toy.learn(name, "flags", 0, toy.RESULTS["flags"][name]["rate"], 300)
        stored |= {f"{name}/{key}": tensor.numpy() for key, tensor in model.state_dict().items()}
        print(name, errors[-1])
    np.savez_compressed(FILE, **stored)


if __name__ == "__main__":
    main()
