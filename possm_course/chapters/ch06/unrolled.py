"""Whole sequences from the cells of `recurrent`, step by step.

Layers, directions and lengths, and gradients through time.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from possm_lite.nn.attention import length_mask
from possm_lite.nn.recurrent import gru_cell, lstm_cell, rnn_cell, textbook_gru_cell


def scan(
    cell: Callable,
    x: Tensor,
    state: Tensor,
    weights: list[Tensor],
    valid: Tensor | None,
    reverse: bool,
) -> tuple[Tensor, Tensor]:
    """A cell along a sequence, H_t = cell(x_t, H_{t-1}).

    A step that is not valid keeps the state and outputs zero: backwards, a short sequence begins at
    its end.

    Args:
        cell: cell(x_t, state, *weights) gives the next state, shape (B, h).
        x: The sequence, shape (B, T, d).
        state: The first state, shape (B, h).
        weights: Further arguments of the cell.
        valid: True at the steps of each sequence, shape (B, T). None: all are.
        reverse: Whether to go from the end.

    Returns:
        The states, shape (B, T, h), and the last one, shape (B, h).
    """
    n_steps = x.shape[1]
    steps = range(n_steps)
    if reverse:
        steps = reversed(steps)
    outputs = [x] * n_steps  # each is replaced
    for t in steps:
        output = after = cell(x[:, t], state, *weights)
        if valid is not None:
            now = valid[:, t, None]  # (B, 1)
            after = torch.where(now, after, state)
            output = torch.where(now, after, 0)
        outputs[t] = output
        state = after
    return torch.stack(outputs, 1), state


class _Unrolled:
    """Mixin: torch's weights, and a loop over `cell`.

    Source: for both directions, Schuster and Paliwal 1997.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        n_layers: int = 1,
        bidirectional: bool = False,
    ):
        super().__init__(
            input_size, hidden_size, n_layers, batch_first=True, bidirectional=bidirectional
        )

    def forward(
        self,
        x: Tensor,
        state: Tensor | None = None,
        lengths: Tensor | Sequence[int] | None = None,
    ) -> tuple[Tensor, Tensor]:
        """The states of the last layer, and the last state of every layer.

        Args:
            x: Sequences, shape (B, T, d).
            state: The first states, shape (layers * directions, B, h); None for zeros.
            lengths: Steps of each sequence, shape (B,); None: all have T. What is after a length
                is never read.

        Returns:
            The states of the last layer, shape (B, T, directions * h), zero after a length, and the
            states of every layer after each sequence's own last step, shape
            (layers * directions, B, h).
        """
        valid = None
        if lengths is not None:
            valid = length_mask(torch.as_tensor(lengths, device=x.device), x.shape[1])
            x = torch.where(
                valid[..., None], x, 0
            )  # a NaN in the padding must not reach a gradient
        n_directions = 1 + self.bidirectional
        if state is None:
            state = x.new_zeros(self.num_layers * n_directions, len(x), self.hidden_size)
        last = []
        for layer in range(self.num_layers):
            outputs = []
            for i in range(layer * n_directions, (layer + 1) * n_directions):
                backwards = len(outputs) == 1
                output, end = scan(self.cell, x, state[i], self.all_weights[i], valid, backwards)
                outputs.append(output)
                last.append(end)
            x = torch.cat(outputs, -1)  # (B, T, directions * h)
        return x, torch.stack(last)


class UnrolledRNN(_Unrolled, nn.RNN):
    """torch's RNN, as a loop over `rnn_cell`."""

    cell = staticmethod(rnn_cell)


class UnrolledGRU(_Unrolled, nn.GRU):
    """torch's GRU, as a loop over `gru_cell`."""

    cell = staticmethod(gru_cell)


class UnrolledTextbookGRU(_Unrolled, nn.GRU):
    """The GRU of the textbook, as a loop over `textbook_gru_cell`, with the weights of torch's."""

    cell = staticmethod(textbook_gru_cell)


class WithOutput(nn.Module):
    """A layer of this module or of `recurrent`, then an output layer.

        O_t = W_q H_t + b_q        (6.2)

    Args:
        layer: The layer.
        n_outputs: Numbers in an output.
    """

    def __init__(self, layer: nn.RNNBase, n_outputs: int):
        super().__init__()
        n_inputs = (1 + layer.bidirectional) * layer.hidden_size
        bound = n_inputs**-0.5
        self.layer = layer
        self.w_q = nn.Parameter(torch.empty(n_outputs, n_inputs).uniform_(-bound, bound))
        self.b_q = nn.Parameter(torch.zeros(n_outputs))

    def forward(self, x: Tensor, *args) -> Tensor:
        """The outputs, shape (B, T, n_outputs), of x, shape (B, T, d); args go to the layer too."""
        states, _ = self.layer(x, *args)  # (B, T, h)
        return F.linear(states, self.w_q, self.b_q)


def gradients_through_time(layer: nn.RNNBase, x: Tensor) -> Tensor:
    """Jacobians of the last output by the states, from t = T down to 0.

        dH_T/dS_t = (dH_T/dS_{t+1}) (dS_{t+1}/dS_t)        (6.13)

    S_t is the state that the cell carries on: H_t, of an LSTM (H_t, C_t).

    Args:
        layer: One layer in one direction, which starts from zero.
        x: Inputs, shape (B, T, d).

    Returns:
        dH_T/dS_t for t = 0 ... T, shape (T + 1, B, h, S).

    Source: Pascanu et al. 2013, eq. 5.
    """
    weights = [w.detach() for w in layer.all_weights[0]]
    n_parts = 2 if layer.cell is lstm_cell else 1
    x_by_bin = x.detach().transpose(0, 1)  # (T, B, d)

    def step(x_t: Tensor, s: Tensor) -> Tensor:
        """The next state, shape (..., S)."""
        after = layer.cell(x_t, *s.chunk(n_parts, -1), *weights)
        return torch.cat(after, -1) if n_parts == 2 else after

    states = [x.new_zeros(len(x), n_parts * layer.hidden_size)]  # (B, S) each
    with torch.no_grad():
        for x_t in x_by_bin[:-1]:
            states.append(step(x_t, states[-1]))
    before = torch.cat(states).requires_grad_()  # (T * B, S): all steps in one go
    with torch.enable_grad():  # a notebook that only looks has switched gradients off
        after = step(x_by_bin.flatten(0, 1), before)
        rows = [
            torch.autograd.grad(number.sum(), before, retain_graph=True)[0]
            for number in after.unbind(-1)
        ]
    jacobians = torch.stack(rows, 1).unflatten(0, x_by_bin.shape[:2])  # (T, B, S, S)
    eye = torch.eye(before.shape[1], dtype=x.dtype, device=x.device)
    of_last = eye[: layer.hidden_size].expand(len(x), -1, -1)  # dH_T/dS_T (B, h, S)
    gradients = [of_last]
    for jacobian in jacobians.flip(0):
        gradients.append(gradients[-1] @ jacobian)
    return torch.stack(gradients[::-1])


def clip_by_global_norm(
    gradients: Sequence[Tensor], max_norm: float
) -> tuple[list[Tensor], Tensor]:
    """Gradients that are scaled down together to a largest norm.

        g <- g * min(1, max_norm / norm)        (6.16)

    Args:
        gradients: Tensors of any shapes.
        max_norm: The largest norm of all of them together.

    Returns:
        The scaled gradients, and the norm before, shape ().

    Source: Pascanu et al. 2013, algorithm 1.
    """
    norm = torch.stack([g.norm() for g in gradients]).norm()
    # a norm of zero gives inf, and so a factor of one
    factor = torch.clamp(max_norm / norm, max=1.0)
    return [g * factor for g in gradients], norm
