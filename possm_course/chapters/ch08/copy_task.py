"""The copy task, a list of bit vectors to be repeated, learned by Turing machines and by LSTMs."""

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
    """Random lists to be copied: L steps of bits, a go sign, L steps of silence.

    Args:
        length: L, vectors in a list.
        shape: shape of the batch.
        generator: source of the random bits.

    Returns:
        The input, shape (*shape, 2L + 1, 5): four bits as -1 or +1 and the go sign, 0 in silence;
        and the bits to be said after the go sign, 0 or 1, shape (*shape, L, 4).
    """
    bits = torch.randint(0, 2, (*shape, length, BITS), generator=generator).float()
    x = torch.zeros(*shape, 2 * length + 1, BITS + 1)
    x[..., :length, :BITS] = 2 * bits - 1
    x[..., length, BITS] = 1
    return x, bits


class Copiers(nn.Module):
    """`MACHINES` LSTMs, each with a linear readout and its own part of the batch.

    Args:
        hidden: size of the hidden state of each.
    """

    def __init__(self, hidden: int = 64):
        super().__init__()
        self.lstms = nn.ModuleList(seeded(lambda: LSTM(BITS + 1, hidden), MACHINES))
        self.readouts = nn.ModuleList(seeded(lambda: nn.Linear(hidden, BITS), MACHINES))

    def forward(self, x: Tensor) -> tuple[Tensor, None]:
        """Logits of the bits, shape (B, T, 4), for x (B, T, 5), and None in place of a trace."""
        parts = zip(self.lstms, self.readouts, x.chunk(MACHINES), strict=True)
        return torch.cat([readout(lstm(part)[0]) for lstm, readout, part in parts]), None


def make_machines() -> nn.Module:
    """`MACHINES` neural Turing machines of the sizes of the chapter, untrained, as one network."""
    machines = seeded(
        lambda: NeuralTuringMachine(BITS + 1, BITS, SLOTS, width=8, hidden=32), MACHINES
    )
    return side_by_side(machines)


def train_copiers(
    make, steps: int, learning_rate: float, longest: int = 6, batch: int = 32
) -> tuple[Tensor, nn.Module]:
    """Trains S = `MACHINES` networks on lists of one to `longest` vectors.

    Args:
        make: makes the S networks as one: `make_machines` or `Copiers`.
        steps: number of training steps.
        learning_rate: of Adam, at the start.
        longest: the longest list, in vectors.
        batch: lists for each network at each step.

    Returns:
        The loss, shape (steps, S), cross-entropy per bit, and the networks.
    """
    networks = make()
    generator = torch.Generator().manual_seed(6)

    def losses():
        length = int(torch.randint(1, longest + 1, (1,), generator=generator))
        x, bits = make_copy_task(length, (MACHINES * batch,), generator)
        said = networks(x)[0][:, length + 1 :]  # (S B, L, 4)
        loss = F.binary_cross_entropy_with_logits(said, bits, reduction="none")
        return loss.view(MACHINES, -1).mean(1)  # (S,)

    return train(networks, losses, steps, learning_rate), networks


def stored_copying() -> tuple[nn.Module, dict[str, Tensor]]:
    """The machines that experiments/ch08_copying.py has trained, and what it has measured.

    Returns:
        The machines as one network, and the measurements of them and of the LSTMs, by name.
    """
    with np.load(result("ch08_copying.npz")) as arrays:
        stored = {name: torch.from_numpy(array) for name, array in arrays.items()}
    machines = make_machines()
    machines.load_state_dict({name: stored.pop(name) for name in machines.state_dict()})
    return machines, stored


@torch.no_grad()
def bits_right(networks: nn.Module, length: int) -> Tensor:
    """The share of bits that each network says right.

    Args:
        networks: S networks as one, as from `train_copiers`.
        length: vectors in each of the 100 lists.

    Returns:
        Shares between 0 and 1, shape (S,).
    """
    x, bits = make_copy_task(length, (100,), torch.Generator().manual_seed(8))
    said = networks(x.repeat(MACHINES, 1, 1))[0][:, length + 1 :]  # (S 100, L, 4)
    said = said.unflatten(0, (MACHINES, -1))
    return ((said > 0) == (bits > 0.5)).float().mean((1, 2, 3))


@torch.no_grad()
def copy_changed(machines: nn.Module, x: Tensor, change: str) -> Tensor:
    """Bits said by machines of which one thing is changed.

    Args:
        machines: S machines as one, as from `stored_copying`.
        x: lists, shape (B, 2L + 1, 5), as from `make_copy_task`.
        change: "no search before", "no search at go", "no search later", and the same of
            "no shift": what the read head does not do then; "right jump": at the go sign the read
            head is where the list begins; "sharp heads": the head that works now, the write head
            before the go sign and then the read head, is on a single slot. Any other name changes
            nothing.

    Returns:
        True for a bit that is said to be 1, shape (S, B, L, 4).
    """
    x = x.repeat(MACHINES, 1, 1)  # (S B, 2L + 1, 5)
    go = x.shape[1] // 2
    said = []
    memory, weights, r = machines.start(len(x))
    for t, x_t in enumerate(x.unbind(1)):
        h = torch.tanh(machines.controller(torch.cat([x_t, r], -1)))
        parameters = machines.head_parameters(h)
        when = _when(t, go)
        if change == f"no search {when}":
            parameters.gate[:, 0] = 0
        if change == f"no shift {when}":
            parameters.shift[:, 0] = torch.tensor([0.0, 1.0, 0.0])
        *_, weights = address(parameters, memory[:, None], weights)  # (S B, 2, N)
        reader, writer = weights.unbind(1)
        sharp_reader, sharp_writer = F.one_hot(weights.argmax(-1), SLOTS).float().unbind(1)
        if t == 0:
            first = sharp_writer  # where the list begins
        if t == go and change == "right jump":
            reader = first
        elif change == "sharp heads" and t < go:
            writer = sharp_writer
        elif change == "sharp heads":
            reader = sharp_reader
        erase, add = machines.to_write(h).chunk(2, -1)
        memory = write(memory, writer, torch.sigmoid(erase), torch.tanh(add))
        weights = torch.stack([reader, writer], 1)
        r = read(reader, memory)
        said.append(machines.readout(torch.cat([h, r], -1)))
    is_one = torch.stack(said[go + 1 :], 1) > 0  # (S B, L, 4)
    return is_one.unflatten(0, (MACHINES, -1))


def _when(step: int, go: int) -> str:
    """Where a step is: "before" the go sign, "at go" or "later"."""
    if step == go:
        return "at go"
    return "later" if step > go else "before"
