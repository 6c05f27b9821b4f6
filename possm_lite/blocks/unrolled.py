"""Whole sequences from the cells of `recurrent`, step by step: layers, directions, lengths, gradients through time."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .attention import length_mask
from .recurrent import gru_cell, lstm_cell, rnn_cell, textbook_gru_cell

State = tuple[Tensor, ...]  # (H,), of an LSTM (H, C)
N_GATES = {rnn_cell: 1, gru_cell: 3, textbook_gru_cell: 3, lstm_cell: 4}
WEIGHTS = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")


def take_step(cell: Callable, x: Tensor, state: State, weights: list[Tensor]) -> State:
    after = cell(x, *state, *weights)
    return after if isinstance(after, tuple) else (after,)


def scan(
    cell: Callable, x: Tensor, state: State, weights: list[Tensor], valid: Tensor | None = None, reverse: bool = False
) -> tuple[Tensor, State]:
    """Run a cell along a sequence: S_t = cell(x_t, S_{t-1}), or from the end with S_{t+1} instead.

    From x (B, T, d), the state before the first step, (B, h) each, and the cell's w_x, w_h, b_x, b_h: the states H
    (B, T, h), each at the time of its input, and the last state. A step that is not `valid` (B, T) leaves the state
    unchanged and outputs zero, so that backwards a short sequence has its initial state until its own last step.
    """
    n_steps = x.shape[1]
    outputs = [x] * n_steps
    for t in reversed(range(n_steps)) if reverse else range(n_steps):
        after = take_step(cell, x[:, t], state, weights)
        outputs[t] = after[0]
        if valid is not None:
            now = valid[:, t, None]  # (B, 1)
            after = tuple(torch.where(now, new, old) for new, old in zip(after, state, strict=True))
            outputs[t] = torch.where(now, after[0], 0)
        state = after
    return torch.stack(outputs, 1), state


class _Unrolled(nn.Module):
    """Layers of one cell over (B, T, d), in one direction or in both.

    Layer i > 0 reads the output of layer i - 1; with two directions that is [H forward, H backward], 2h features.
    Parameters have torch's names and shapes, so that weights load by `ours.load_state_dict(theirs.state_dict())`. For
    reading and analysis; torch's fused kernels compute the same, faster, but for the textbook GRU.

    Bidirectional: a second set of weights reads every layer's input from its end.
    Source: Schuster and Paliwal 1997 for the two directions.
    """

    cell: Callable

    def __init__(self, input_size: int, hidden_size: int, n_layers: int = 1, bidirectional: bool = False):
        super().__init__()
        self.hidden_size = hidden_size
        self.n_layers = n_layers
        self.n_directions = 1 + bidirectional
        rows = N_GATES[self.cell] * hidden_size
        bound = hidden_size**-0.5
        self._ends = [f"_l{i}{end}" for i in range(n_layers) for end in ("", "_reverse")[: self.n_directions]]
        for i, end in enumerate(self._ends):
            n_inputs = input_size if i < self.n_directions else hidden_size * self.n_directions
            for name, shape in zip(WEIGHTS, ((rows, n_inputs), (rows, hidden_size), (rows,), (rows,)), strict=True):
                self.register_parameter(name + end, nn.Parameter(torch.empty(shape).uniform_(-bound, bound)))

    @property
    def all_weights(self) -> list[list[Tensor]]:
        """w_x, w_h, b_x, b_h of every layer and direction: layer 0 forward, layer 0 backward, layer 1 forward, ..."""
        return [[getattr(self, name + end) for name in WEIGHTS] for end in self._ends]

    def forward(
        self, x: Tensor, state: Tensor | State | None = None, lengths: Tensor | Sequence[int] | None = None
    ) -> tuple[Tensor, Tensor | State]:
        """States of the last layer and the last state of every layer, as torch has them.

        Args:
            x: (B, T, d); state: (layers * directions, B, h), of an LSTM a pair of these; None: zeros.
            lengths: of the sequences, (B,); None: all T. `x` after a length is never read.

        Returns: (B, T, directions * h), zero after the lengths, and the state after each sequence's own last step.
        Raises: ValueError if the state has another shape.
        """
        valid = None
        if lengths is not None:
            valid = length_mask(torch.as_tensor(lengths, device=x.device), x.shape[1])
            x = torch.where(valid[..., None], x, 0)  # a NaN in the padding must not reach a gradient
        is_lstm = self.cell is lstm_cell
        shape = (self.n_layers * self.n_directions, len(x), self.hidden_size)
        if state is None:
            state = (x.new_zeros(shape),) * (1 + is_lstm)
        parts = state if isinstance(state, tuple) else (state,)
        if any(part.shape != shape for part in parts):  # it might be broadcast
            raise ValueError(f"state must have shape {shape}, not {tuple(parts[0].shape)}.")
        initial = list(zip(*parts, strict=True))
        last = []
        for layer in range(self.n_layers):
            directions = []
            for direction in range(self.n_directions):
                i = layer * self.n_directions + direction
                output, end = scan(self.cell, x, initial[i], self.all_weights[i], valid, reverse=direction == 1)
                directions.append(output)
                last.append(end)
            x = torch.cat(directions, -1)  # (B, T, directions * h)
        states = tuple(torch.stack(part) for part in zip(*last, strict=True))
        return x, states if is_lstm else states[0]


class UnrolledRNN(_Unrolled):
    """Elman network, H_t = tanh(W_x x_t + b_x + W_h H_{t-1} + b_h), as a loop over `rnn_cell`."""

    cell = staticmethod(rnn_cell)


class UnrolledGRU(_Unrolled):
    """Gated recurrent unit in torch's form, R after the product, as a loop over `gru_cell`."""

    cell = staticmethod(gru_cell)


class UnrolledTextbookGRU(_Unrolled):
    """Gated recurrent unit in the textbook's form, R before the product, as a loop over `textbook_gru_cell`."""

    cell = staticmethod(textbook_gru_cell)


class UnrolledLSTM(_Unrolled):
    """Long short-term memory as a loop over `lstm_cell`."""

    cell = staticmethod(lstm_cell)


class WithOutput(nn.Module):
    """A layer of this module or of `recurrent`, then O_t = W_q H_t + b_q (6.2): (B, T, d) to (B, T, n_outputs)."""

    def __init__(self, layer: nn.Module, n_outputs: int):
        super().__init__()
        n_inputs = getattr(layer, "n_directions", 1) * layer.hidden_size
        self.layer = layer
        self.w_q = nn.Parameter(torch.empty(n_outputs, n_inputs).uniform_(-(n_inputs**-0.5), n_inputs**-0.5))
        self.b_q = nn.Parameter(torch.zeros(n_outputs))

    def forward(self, x: Tensor, *args) -> Tensor:
        return F.linear(self.layer(x, *args)[0], self.w_q, self.b_q)


def gradients_through_time(layer: nn.Module, x: Tensor) -> Tensor:
    """Jacobians of the last state by every state before it, by the chain rule.

        dH_T/dS_t = (dH_T/dS_{t+1}) (dS_{t+1}/dS_t),   from t = T down to 0                         (6.13)

    The layer, of this module or of `recurrent`, has one layer and direction, and begins at zero. Its state S is H, of
    an LSTM (H, C). Returns, for x (B, T, d), (T + 1, B, h, S): entry t is dH_T/dS_t.
    Source: Pascanu et al. 2013, eq. 5.
    """
    weights = [w.detach() for w in layer.all_weights[0]]
    n_parts = 2 if layer.cell is lstm_cell else 1

    def one_step(s: Tensor, x_t: Tensor) -> tuple[Tensor, Tensor]:
        after = torch.cat(take_step(layer.cell, x_t, s.chunk(n_parts, -1), weights), -1)
        return after, after

    jacobian_and_state = torch.func.vmap(torch.func.jacrev(one_step, has_aux=True))
    s = x.new_zeros(len(x), n_parts * layer.hidden_size)
    jacobians = []
    for x_t in x.detach().unbind(1):
        jacobian, s = jacobian_and_state(s, x_t)  # (B, S, S), (B, S)
        jacobians.append(jacobian)
    of_last = torch.eye(s.shape[1], dtype=x.dtype, device=x.device)[: layer.hidden_size].expand(len(x), -1, -1)
    gradients = [of_last]  # dH_T/dS_T
    for jacobian in reversed(jacobians):
        gradients.append(gradients[-1] @ jacobian)
    return torch.stack(gradients[::-1])


def clip_by_global_norm(gradients: Sequence[Tensor], max_norm: float) -> tuple[list[Tensor], Tensor]:
    """Gradients scaled by one common factor, so that their global norm is at most `max_norm`.

        norm = sqrt(sum of all squares of all tensors),   g <- g * min(1, max_norm / norm)          (6.16)

    Returns: new tensors, and the norm before. Unlike clipping each tensor, this keeps the direction of the step.
    Source: Pascanu et al. 2013, algorithm 1.
    """
    norm = torch.stack([g.norm() for g in gradients]).norm()
    factor = torch.clamp(max_norm / norm, max=1.0)  # a norm of zero gives inf, and so a factor of one
    return [g * factor for g in gradients], norm
