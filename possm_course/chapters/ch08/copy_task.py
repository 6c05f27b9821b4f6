"""The copy task: a list of bit vectors is repeated after a go sign, by Turing machines and by LSTMs."""

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from possm_course.chapters.ch08.neural_turing_machine import (
    NeuralTuringMachine,
    address,
    read,
    write,
)
from possm_course.chapters.ch08.training import seeded, side_by_side, train
from possm_course.stored import result
from possm_lite.nn.recurrent import LSTM

BITS, SLOTS = 4, 24
MACHINES = 3  # seeds


def make_copy_task(
    length: int, shape: tuple[int, ...], generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """What the machine hears (..., 2L + 1, 5): bits as -1, +1, a go sign, silence; and the bits (..., L, 4), 0 or 1."""
    bits = torch.randint(0, 2, (*shape, length, BITS), generator=generator).float()
    x = torch.zeros(*shape, 2 * length + 1, BITS + 1)
    x[..., :length, :BITS] = 2 * bits - 1
    x[..., length, BITS] = 1
    return x, bits


class Copiers(nn.Module):
    """LSTMs with a linear readout, each with its part of the batch."""

    def __init__(self, hidden: int = 64):
        super().__init__()
        self.lstms = nn.ModuleList(seeded(lambda: LSTM(BITS + 1, hidden), MACHINES))
        self.readouts = nn.ModuleList(seeded(lambda: nn.Linear(hidden, BITS), MACHINES))

    def forward(self, x: Tensor) -> tuple[Tensor, None]:
        parts = zip(self.lstms, self.readouts, x.chunk(MACHINES), strict=True)
        return torch.cat([readout(lstm(part)[0]) for lstm, readout, part in parts]), None


def make_machines() -> nn.Module:
    return side_by_side(
        seeded(lambda: NeuralTuringMachine(BITS + 1, BITS, SLOTS, width=8, hidden=32), MACHINES)
    )


def train_copiers(make, steps: int, learning_rate: float, longest: int = 6, batch: int = 32):
    """The loss (steps, S) on lists of one to `longest` vectors, cross-entropy per bit, and the networks."""
    networks, generator = make(), torch.Generator().manual_seed(6)

    def losses():
        length = int(torch.randint(1, longest + 1, (1,), generator=generator))
        x, bits = make_copy_task(length, (MACHINES * batch,), generator)
        said = networks(x)[0][:, length + 1 :]  # (S B, L, 4)
        return (
            F.binary_cross_entropy_with_logits(said, bits, reduction="none")
            .view(MACHINES, -1)
            .mean(1)
        )

    return train(networks, losses, steps, learning_rate), networks


def stored_copying() -> tuple[nn.Module, dict[str, Tensor]]:
    """The machines that experiments/ch08_copying.py has trained, and what it has measured of them and the LSTMs."""
    stored = {
        name: torch.from_numpy(array) for name, array in np.load(result("ch08_copying.npz")).items()
    }
    machines = make_machines()
    machines.load_state_dict({name: stored.pop(name) for name in machines.state_dict()})
    return machines, stored


@torch.no_grad()
def bits_right(networks: nn.Module, length: int) -> Tensor:
    """Share of bits right of each network, (S,), on 100 lists."""
    x, bits = make_copy_task(length, (100,), torch.Generator().manual_seed(8))
    said = networks(x.repeat(MACHINES, 1, 1))[0][:, length + 1 :].unflatten(0, (MACHINES, -1))
    return ((said > 0) == (bits > 0.5)).float().mean((1, 2, 3))


@torch.no_grad()
def copy_changed(machines: nn.Module, x: Tensor, change: str) -> Tensor:
    """Bits said (S, B, L, 4) by machines of which one thing is changed, on lists x (B, 2L + 1, 5)."""
    x, go, said = x.repeat(MACHINES, 1, 1), x.shape[1] // 2, []
    table, places, r = machines.start(len(x))
    for t, x_t in enumerate(x.unbind(1)):
        h = torch.tanh(machines.controller(torch.cat([x_t, r], -1)))
        ask, when = (
            machines.head_parameters(h),
            "at go" if t == go else "later" if t > go else "before",
        )
        if change == f"no search {when}":
            ask.gate[:, 0] = 0
        if change == f"no shift {when}":
            ask.shift[:, 0] = torch.tensor([0.0, 1.0, 0.0])
        *_, places = address(ask, table[:, None], places)
        reader, writer = places.unbind(1)
        sharp_reader, sharp_writer = F.one_hot(places.argmax(-1), SLOTS).float().unbind(1)
        if t == 0:
            first = sharp_writer  # where the list begins
        if t == go and change == "right jump":
            reader = first
        elif change == "sharp heads":  # in what they do just now: writing, then reading
            reader, writer = (reader, sharp_writer) if t < go else (sharp_reader, writer)
        e, v = machines.to_write(h).chunk(2, -1)
        table, places = (
            write(table, writer, torch.sigmoid(e), torch.tanh(v)),
            torch.stack([reader, writer], 1),
        )
        r = read(reader, table)
        said.append(machines.readout(torch.cat([h, r], -1)))
    return (torch.stack(said[go + 1 :], 1) > 0).unflatten(0, (MACHINES, -1))
