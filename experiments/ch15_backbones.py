"""GRU, S4D and Mamba as the memory of one decoder, trained at full length, a rate for each: writes ch15_backbones.json.

python experiments/ch15_backbones.py

The rate is the best of four by the validation trials, from one seed; then two more seeds. About twenty minutes.
"""

import json
import time
from pathlib import Path

import torch

from possm_course.stored import embedded_session
from possm_lite.decoder import POSSM, POSSMConfig
from possm_lite.recordings import load_recording
from possm_lite.training import FitConfig, evaluate, fit, prepare

FILE = Path(__file__).with_suffix(".json")
BACKBONES, RATES, SEEDS = ("gru", "s4d", "mamba"), (1e-3, 2e-3, 4e-3, 8e-3), (0, 1, 2)


def train(backbone: str, rate: float, seed: int) -> dict:
    """R² of the validation and of the test trials, and seconds of processor time, at the full length of the recipe."""
    session = prepare(load_recording(embedded_session()))
    torch.manual_seed(seed)
    model = POSSM(POSSMConfig(n_units=session.recording.n_units, backbone=backbone))
    began = time.process_time()
    fit(model, session, FitConfig(lr=rate, seed=seed, validations=0), progress=False)
    seconds = time.process_time() - began
    valid, test = (evaluate(model, session, part).r2 for part in ("valid", "test"))
    run = {"rate": rate, "seed": seed, "valid": round(valid, 4), "test": round(test, 4), "seconds": round(seconds, 1)}
    print(backbone, run, flush=True)
    return run


if __name__ == "__main__":
    torch.set_num_threads(1)
    results = {}
    for backbone in BACKBONES:
        first = [train(backbone, rate, SEEDS[0]) for rate in RATES]
        best = max(first, key=lambda run: run["valid"])
        results[backbone] = [best, *(train(backbone, best["rate"], seed) for seed in SEEDS[1:])]
        FILE.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
