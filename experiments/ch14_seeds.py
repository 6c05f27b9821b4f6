"""Is the vote of chapter 14 luck? Five trainings of each of its decoders steer; writes ch14_seeds.json. Five minutes.

python experiments/ch14_seeds.py
"""

import json
from itertools import product
from pathlib import Path

from ch14_decoders import train

from possm_course.chapters.ch14.decoders import LAGS_S
from possm_course.chapters.ch14.refit import seconds_per_target
from possm_course.parallel import in_parallel
from possm_course.stored import embedded_session
from possm_lite.decoder import StreamingDecoder
from possm_lite.simulate import load_ground_truth

FILE = Path(__file__).with_suffix(".json")
KAPPAS = {"now": (2.0, 3.0, 5.0), "100 ms ahead": (3.0, 5.0, 10.0), "200 ms ahead": (5.0, 10.0, 20.0)}  # 1/s
SEEDS = (1, 2, 3, 4, 5)  # 0 is the decoder of the chapter


def seconds_by_kappa(name: str, seed: int) -> list[float]:
    """Mean time to a target of a decoder trained from a seed, for each gain of the user."""
    truth = load_ground_truth(embedded_session())
    stream = StreamingDecoder(train(LAGS_S[name], seed), 1, 0.04)
    return [round(float(seconds_per_target(stream, truth, kappa).mean()), 3) for kappa in KAPPAS[name]]


def main():
    runs = in_parallel(seconds_by_kappa, product(KAPPAS, SEEDS))
    found = {}
    for (name, _), seconds in zip(product(KAPPAS, SEEDS), runs, strict=True):
        found.setdefault(name, []).append(seconds)
    FILE.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    for name, seconds in found.items():
        best = [min(of_seed) for of_seed in seconds]
        print(f"{name:14}{sum(best) / len(best):.2f} s to a target, {min(best):.2f} to {max(best):.2f}")


if __name__ == "__main__":
    main()
