"""Twenty-four networks learn the game of chapter 06: writes 06_game.json beside itself.

python notebooks/figures/06_game.py

The losses of the training, the share of new games won, and the trace of the lamp in the trained network. Half a minute.
"""

import json

import torch

from possm_lite.course.load import load_figures

game = load_figures("06_recurrent_networks", __file__.rpartition("figures")[0])

if __name__ == "__main__":
    torch.set_num_threads(1)  # the models are small: a second thread would only get in the way
    runs = {
        kind: {
            name: [game.run(kind, good, seed) for seed in range(4)]
            for name, good in (("torch's", False), ("good", True))
        }
        for kind in game.KINDS
    }
    game.STORED.write_text(json.dumps(runs) + "\n", encoding="utf-8")
