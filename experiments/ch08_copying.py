"""Three Turing machines and three LSTMs that learn to copy lists: writes ch08_copying.npz beside itself.

python experiments/ch08_copying.py

The weights of the machines, the losses of both, and the share of bits right of both at each length. Half a minute.
"""

from pathlib import Path

import numpy as np
import torch

from possm_course.chapters.ch08 import copy_task

FILE = Path(__file__).with_suffix(".npz")


def measure() -> dict[str, np.ndarray]:
    """What is stored. Losses are means of 20 steps, (steps / 20, S); bits right are (10, S)."""
    losses, machines = copy_task.train_copiers(copy_task.make_machines, 300, 0.015)
    lstm_losses, lstms = copy_task.train_copiers(copy_task.Copiers, 800, 0.03)
    parameters = [sum(weight.numel() for weight in networks.parameters()) // 3 for networks in (machines, lstms)]
    lengths = range(2, 21, 2)
    results = {
        "n_parameters": torch.tensor(parameters),
        "machine_losses": losses.unflatten(0, (-1, 20)).mean(1),
        "lstm_losses": lstm_losses.unflatten(0, (-1, 20)).mean(1),
        "lengths": torch.tensor(lengths),
        "machine_bits_right": torch.stack([copy_task.bits_right(machines, n) for n in lengths]),
        "lstm_bits_right": torch.stack([copy_task.bits_right(lstms, n) for n in lengths]),
    }
    return {name: tensor.numpy() for name, tensor in (results | machines.state_dict()).items()}


if __name__ == "__main__":
    torch.set_num_threads(1)  # a second thread would only get in the way
    np.savez_compressed(FILE, **measure())
