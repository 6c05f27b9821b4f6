"""A neural Turing machine: a controller that reads and writes a memory by attention."""

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F


def content_weights(key: Tensor, memory: Tensor, beta: Tensor) -> Tensor:
    """Addressing by content: slots that are like the key get weight.

        w_i = softmax_i(beta cos(k, m_i)),   cos(k, m) = k . m / (|k| |m|)                   (8.6)

    Args:
        key: k, shape (..., M).
        memory: slots m_i, shape (..., N, M).
        beta: sharpness > 0, shape (...).

    Returns:
        Weights of the slots, shape (..., N).

    Source: Graves et al. 2014, eq. 5-6.
    """
    cosine = (F.normalize(memory, dim=-1) @ F.normalize(key, dim=-1)[..., None]).squeeze(
        -1
    )  # (..., N)
    return torch.softmax(beta[..., None] * cosine, dim=-1)


def interpolate(content: Tensor, previous: Tensor, gate: Tensor) -> Tensor:
    """The weights by content, mixed with those of the step before.

        w = g w_content + (1 - g) w_previous                                                 (8.7)

    Args:
        content: weights by content, shape (..., N).
        previous: weights of the step before, shape (..., N).
        gate: g in [0, 1], shape (...).

    Returns:
        Mixed weights, shape (..., N).

    Source: Graves et al. 2014, eq. 7.
    """
    return gate[..., None] * content + (1 - gate[..., None]) * previous


def shift(weights: Tensor, probability: Tensor) -> Tensor:
    """Circular convolution: the weights move along the slots, by d with probability s_d.

        w'_i = sum_d s_d w_{(i - d) mod N},   d in (-1, 0, 1)                                (8.8)

    Args:
        weights: w, shape (..., N).
        probability: s, shape (..., 3).

    Returns:
        Moved weights, shape (..., N).

    Source: Graves et al. 2014, eq. 8.
    """
    moved = torch.stack(
        [torch.roll(weights, d, dims=-1) for d in (-1, 0, 1)], dim=-1
    )  # (..., N, 3)
    return (moved @ probability[..., None]).squeeze(-1)


def sharpen(weights: Tensor, gamma: Tensor) -> Tensor:
    """Weights raised to a power and normalised: w_i^gamma / sum_j w_j^gamma (8.9).

    Args:
        weights: w, shape (..., N).
        gamma: power >= 1, shape (...).

    Returns:
        Sharper weights, shape (..., N).

    Source: Graves et al. 2014, eq. 9.
    """
    # a power of a zero weight has no defined gradient in gamma, a sum of tiny powers may be zero
    powered = (weights + 1e-8) ** gamma[..., None]
    return powered / powered.sum(-1, keepdim=True)


class Address(NamedTuple):
    """Addressing parameters of a head.

    Attributes:
        key: what to look for, shape (..., M).
        beta: sharpness of the search by content, shape (...).
        gate: share of the search by content, shape (...).
        shift: probabilities of a move by -1, 0 and 1, shape (..., 3).
        gamma: power of the sharpening, shape (...).
    """

    key: Tensor
    beta: Tensor
    gate: Tensor
    shift: Tensor
    gamma: Tensor


def address(
    parameters: Address, memory: Tensor, previous: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The weights of a head after each stage of addressing.

    Args:
        parameters: addressing parameters of the head.
        memory: slots, shape (..., N, M).
        previous: weights of the step before, shape (..., N).

    Returns:
        Weights by content, interpolated with the previous ones, shifted, sharpened: (..., N) each.
    """
    content = content_weights(parameters.key, memory, parameters.beta)
    mixed = interpolate(content, previous, parameters.gate)
    moved = shift(mixed, parameters.shift)
    return content, mixed, moved, sharpen(moved, parameters.gamma)


def read(weights: Tensor, memory: Tensor) -> Tensor:
    """The vector read: r = sum_i w_i m_i (8.4).

    Args:
        weights: w, shape (..., N).
        memory: slots m_i, shape (..., N, M).

    Returns:
        r, shape (..., M).

    Source: Graves et al. 2014, eq. 2.
    """
    return (weights[..., None, :] @ memory).squeeze(-2)


def write(memory: Tensor, weights: Tensor, erase: Tensor, add: Tensor) -> Tensor:
    """The memory after erasing, then adding: m_i <- m_i * (1 - w_i e) + w_i a (8.5).

    Args:
        memory: slots m_i, shape (..., N, M).
        weights: w, shape (..., N).
        erase: e in [0, 1], shape (..., M).
        add: a, shape (..., M).

    Returns:
        The new memory, shape (..., N, M).

    Source: Graves et al. 2014, eq. 3-4.
    """
    w = weights[..., None]  # (..., N, 1)
    return memory * (1 - w * erase[..., None, :]) + w * add[..., None, :]


class Trace(NamedTuple):
    """What the heads of a machine did in a sequence.

    Attributes:
        read: weights of the read head, shape (B, T, N).
        write: weights of the write head, shape (B, T, N).
        memory: the memory after each step, shape (B, T, N, M).
    """

    read: Tensor
    write: Tensor
    memory: Tensor


class NeuralTuringMachine(nn.Module):
    """One read head and one write head on a memory, with a feed-forward controller.

        h_t = tanh(W [x_t, r_{t-1}] + b)
        m_t = write(m_{t-1}),  r_t = read(m_t),  y_t = W_y [h_t, r_t] + b_y

    The heads' parameters, e_t and a_t are linear in h_t, brought into their ranges. Both heads
    address the memory of the step before.

    Args:
        n_in: size of an input x_t.
        n_out: size of an output y_t.
        slots: N, number of slots of the memory.
        width: M, size of a slot.
        hidden: h, size of the hidden state.

    Source: Graves et al. 2014; its start: Collier and Beel 2018.
    """

    def __init__(self, n_in: int, n_out: int, slots: int = 24, width: int = 8, hidden: int = 32):
        super().__init__()
        self.slots = slots
        self.width = width
        self.controller = nn.Linear(n_in + width, hidden)
        self.heads = nn.Linear(
            hidden, 2 * (width + 6)
        )  # read head, write head: key, beta, gate, three shifts, gamma
        self.to_write = nn.Linear(hidden, 2 * width)  # erase, add
        self.readout = nn.Linear(hidden + width, n_out)
        with (
            torch.no_grad()
        ):  # initial gamma near 2.3: flatter weights spread over the slots before they learn
            self.heads.bias.view(2, -1)[:, -1] += 1

    def start(self, batch: int) -> tuple[Tensor, Tensor, Tensor]:
        """The state before the first step.

        Args:
            batch: B, number of sequences.

        Returns:
            Memory (B, N, M), weights of both heads (B, 2, N), and the vector read (B, M).
        """
        like = self.readout.weight
        memory = like.new_full((batch, self.slots, self.width), 0.1)
        on_slot_0 = torch.eye(self.slots, dtype=like.dtype, device=like.device)[0]
        return memory, on_slot_0.expand(batch, 2, -1), like.new_zeros(batch, self.width)

    def head_parameters(self, hidden: Tensor) -> Address:
        """The addressing parameters of the read head and of the write head.

        Args:
            hidden: hidden state, shape (B, h).

        Returns:
            Parameters with an axis of heads: key (B, 2, M), beta (B, 2), ...
        """
        raw = self.heads(hidden).unflatten(-1, (2, self.width + 6))  # (B, 2, M + 6)
        key, beta, gate, moves, gamma = raw.split([self.width, 1, 1, 3, 1], dim=-1)
        return Address(
            key=torch.tanh(key),
            beta=F.softplus(beta.squeeze(-1)),
            gate=torch.sigmoid(gate.squeeze(-1)),
            shift=torch.softmax(moves, -1),
            gamma=1 + F.softplus(gamma.squeeze(-1)),
        )

    def step(
        self, x: Tensor, state: tuple[Tensor, Tensor, Tensor]
    ) -> tuple[Tensor, tuple[Tensor, Tensor, Tensor]]:
        """One step of the machine.

        Args:
            x: input, shape (B, n_in).
            state: memory, weights of both heads and vector read, as from `start`.

        Returns:
            The output y, shape (B, n_out), and the new state.
        """
        memory, weights, r = state
        hidden = torch.tanh(self.controller(torch.cat([x, r], -1)))  # (B, h)
        *_, weights = address(self.head_parameters(hidden), memory[:, None], weights)  # (B, 2, N)
        erase, add = self.to_write(hidden).chunk(2, -1)  # (B, M) each
        memory = write(memory, weights[:, 1], torch.sigmoid(erase), torch.tanh(add))
        r = read(weights[:, 0], memory)  # (B, M)
        return self.readout(torch.cat([hidden, r], -1)), (memory, weights, r)

    def forward(self, x: Tensor) -> tuple[Tensor, Trace]:
        """Runs a sequence from the start.

        Args:
            x: inputs, shape (B, T, n_in).

        Returns:
            The outputs, shape (B, T, n_out), and the trace of the heads.
        """
        state = self.start(len(x))
        steps = []
        for x_t in x.unbind(1):
            y, state = self.step(x_t, state)
            steps.append((y, *state[:2]))
        y, memory, heads = (
            torch.stack(part, 1) for part in zip(*steps, strict=True)
        )  # heads (B, T, 2, N)
        return y, Trace(heads[:, :, 0], heads[:, :, 1], memory)
