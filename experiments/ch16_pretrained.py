"""Trains the decoder that chapter 16 begins with, in some seconds, and writes ch16_pretrained.npz.

python experiments/ch16_pretrained.py
"""

from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from possm_course.chapters.ch14 import decoders
from possm_course.chapters.ch16 import models, pretrained, study
from possm_lite.simulate import simulate_session
from possm_lite.training import combine_sessions, prepare

FILE = Path(__file__).with_suffix(".npz")


def main():
    configs = (replace(config, n_trials=400) for config in (study.A, study.A, study.B))
    sessions = [prepare(simulate_session(n, config).recording, study.SPLIT) for n, config in enumerate(configs, 1)]
    torch.manual_seed(0)
    model = models.train(pretrained.make(), combine_sessions(sessions), steps=195, lr=4e-3, seed=0, window_s=2.0)
    np.savez_compressed(FILE, **decoders.pack(model.state_dict()))
    print(f"{FILE.name}: {FILE.stat().st_size / 1e3:.0f} KB")


if __name__ == "__main__":
    main()
