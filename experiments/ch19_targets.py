"""Trains decoders of eight targets for chapter 19, in minutes, and writes ch19_targets.npz.

python experiments/ch19_targets.py
"""

from pathlib import Path

import numpy as np
import torch

from possm_course.chapters.ch19.targets import BEFORE_S, NAMES, SINCE_S, simulate
from possm_lite.decoder import POSSM, POSSMConfig
from possm_lite.training import FitConfig, fit, prepare

FILE = Path(__file__).with_suffix(".npz")
SEEDS = (0, 1, 2)


def train(seed):
    """Probabilities of the targets at the end of each bin of the test trials, (n, T, 8)."""
    session = prepare(simulate()[1])
    torch.manual_seed(seed)
    sizes = {"dim": 32, "head_dim": 32, "n_freqs": 8, "hidden": 64}
    model = POSSM(POSSMConfig(session.recording.n_units, n_outputs=8, decodes="classes", **sizes))
    config = FitConfig(epochs=40, window_s=0.7, samples=14, unit_dropout=0.5, validations=0, seed=seed)
    fit(model, session, config, progress=False)
    trials = session.split.test
    batch = session.cut(trials[:, 0], 0.7)
    times = torch.tensor(SINCE_S + BEFORE_S - 1e-3).expand(len(trials), -1)
    with torch.no_grad():
        logits = model(batch, times.contiguous(), torch.ones(len(trials), dtype=torch.int64))
    order = [session.recording.classes.tolist().index(name) for name in NAMES]
    return logits.softmax(-1)[..., order].numpy()


def main():
    torch.set_num_threads(1)
    probabilities = np.stack([train(seed) for seed in SEEDS])
    np.savez_compressed(FILE, probabilities=probabilities.astype(np.float16))
    print(f"{FILE.name}: {FILE.stat().st_size / 1e3:.0f} KB")


if __name__ == "__main__":
    main()
