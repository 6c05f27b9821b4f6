"""Refits decoders of chapter 14 in the closed loop, for five seeds, in some minutes, and writes ch14_refit.json.

python experiments/ch14_refit.py
"""

from possm_course.exercises import ch14 as exercises

import copy
import json
from pathlib import Path

import torch

from possm_course.chapters.ch14.refit import AGAIN, Driven, rotated, seconds_per_target
from possm_course.parallel import in_parallel
from possm_course.stored import embedded_session
from possm_lite.decoder import POSSM, POSSMConfig, StreamingDecoder
from possm_lite.recordings import load_recording
from possm_lite.simulate import load_ground_truth
from possm_lite.training import FitConfig, fit, prepare

FILE = Path(__file__).with_suffix(".json")
KAPPAS = (2.0, 3.0)  # 1/s: each decoder gets the user who suits it


def one_seed(seed):
    """Time to a target at the best kappa: of a decoder, and fitted once more; then the same, rotated by 45°."""
    path = embedded_session()
    recording, truth = load_recording(path), load_ground_truth(path)
    meant = exercises.meant.reference
    torch.manual_seed(seed)
    trained = POSSM(POSSMConfig(n_units=recording.n_units))
    config = FitConfig(epochs=6, window_s=1.0, samples=20, lr=3e-3, validations=0, seed=seed)
    fit(trained, prepare(recording), config, progress=False)
    found = {}
    for kind, first in (("straight", trained), ("rotated", rotated(trained, 45))):
        driven = Driven(StreamingDecoder(first, 1, 0.04), truth, 100 + seed)
        relabelled = meant(driven.decoded, driven.cursor, driven.target, 20.0)
        labels = {"as decoded": driven.decoded, "relabelled": relabelled}
        decoders = {"as trained": first}
        for name, velocity in labels.items():
            torch.manual_seed(seed)
            decoders[name] = copy.deepcopy(first)
            fit(decoders[name], driven.session(velocity), AGAIN, progress=False)
        for name, model in decoders.items():
            stream = StreamingDecoder(model, 1, 0.04)
            runs = [seconds_per_target(stream, truth, kappa).mean() for kappa in KAPPAS]
            found[f"{kind}, {name}"] = float(min(runs))
        print(seed, found, flush=True)
    return found


def main():
    runs = in_parallel(one_seed, [(seed,) for seed in range(5)])
    found = {name: [round(run[name], 3) for run in runs] for name in runs[0]}
    FILE.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
