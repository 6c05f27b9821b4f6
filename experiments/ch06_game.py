"""Twenty-four networks learn the game of chapter 06: writes ch06_game.json beside itself.

python experiments/ch06_game.py

The losses of the training, the share of new games won, and the trace of the lamp in the trained network. Half a minute.
"""

import json
from pathlib import Path

import torch

from possm_course.chapters.ch06 import toy

FILE = Path(__file__).with_suffix(".json")

if __name__ == "__main__":
    torch.set_num_threads(1)  # the models are small: a second thread would only get in the way
    runs = {}
    for kind in toy.KINDS:
        runs[kind] = {
            "torch's": [toy.run(kind, False, seed) for seed in range(4)],
            "good": [toy.run(kind, True, seed) for seed in range(4)],
        }
    FILE.write_text(json.dumps(runs) + "\n", encoding="utf-8")
