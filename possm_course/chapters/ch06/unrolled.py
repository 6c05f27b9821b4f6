"""Whole sequences from the cells of `recurrent`, step by step: layers, directions, lengths, gradients through time."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from possm_lite.nn.attention import length_mask
from possm_lite.nn.recurrent import gru_cell, lstm_cell, rnn_cell, textbook_gru_cell


def scan(cell: Callable, x: Tensor, state: Tensor, weights: list, valid, reverse) -> tuple[Tensor, Tensor]:
    """H_t = cell(x_t, H_{t-1}) along x (B, T, d), or from the end: the states (B, T, h) and the last one.

    A step that is not `valid` (B, T) keeps the state and outputs zero: backwards, a short sequence begins at its end.
    """
    n_steps = x.shape[1]
    outputs = [x] * n_steps
    for t in reversed(range(n_steps)) if reverse else range(n_steps):
        outputs[t] = after = cell(x[:, t], state, *weights)
        if valid is not None:
            now = valid[:, t, None]  # (B, 1)
            after = torch.where(now, after, state)
            outputs[t] = torch.where(now, after, 0)
        state = after
    return torch.stack(outputs, 1), state


class _Unrolled:
    """Mixin: torch's weights, and a loop over `cell`. Both directions: Schuster and Paliwal 1997."""

    def __init__(self, input_size: int, hidden_size: int, n_layers: int = 1, bidirectional: bool = False):
        super().__init__(input_size, hidden_size, n_layers, batch_first=True, bidirectional=bidirectional)

    def forward(self, x: Tensor, state: Tensor | None = None, lengths: Tensor | Sequence[int] | None = None):
        """x (B, T, d) to the states of the last layer (B, T, directions * h), and the last state of every layer.

        A state is (layers * directions, B, h), None for zeros. What is after a length is never read, the output there
        is zero, and the last state is of each sequence's own last step.
        """
        valid = None
        if lengths is not None:
            valid = length_mask(torch.as_tensor(lengths, device=x.device), x.shape[1])
            x = torch.where(valid[..., None], x, 0)  # a NaN in the padding must not reach a gradient
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
    cell = staticmethod(rnn_cell)


class UnrolledGRU(_Unrolled, nn.GRU):
    cell = staticmethod(gru_cell)


class UnrolledTextbookGRU(_Unrolled, nn.GRU):
    cell = staticmethod(textbook_gru_cell)


class WithOutput(nn.Module):
    """A layer of this module or of `recurrent`, then O_t = W_q H_t + b_q (6.2): (B, T, d) to (B, T, n_outputs)."""

    def __init__(self, layer: nn.RNNBase, n_outputs: int):
        super().__init__()
        n_inputs = (1 + layer.bidirectional) * layer.hidden_size
        self.layer = layer
        self.w_q = nn.Parameter(torch.empty(n_outputs, n_inputs).uniform_(-(n_inputs**-0.5), n_inputs**-0.5))
        self.b_q = nn.Parameter(torch.zeros(n_outputs))

    def forward(self, x: Tensor, *args) -> Tensor:
        return F.linear(self.layer(x, *args)[0], self.w_q, self.b_q)


def gradients_through_time(layer: nn.RNNBase, x: Tensor) -> Tensor:
    """Jacobians (T + 1, B, h, S) of one layer in one direction, from zero, on x (B, T, d). Pascanu et al. 2013, eq. 5.

    dH_T/dS_t = (dH_T/dS_{t+1}) (dS_{t+1}/dS_t),   from t = T down to 0 (6.13), where S is H, of an LSTM (H, C)
    """
    weights = [w.detach() for w in layer.all_weights[0]]
    n_parts = 2 if layer.cell is lstm_cell else 1

    s, jacobians = x.new_zeros(len(x), n_parts * layer.hidden_size), []
    each = torch.eye(s.shape[1], dtype=x.dtype, device=x.device)[:, None].expand(-1, len(x), -1)  # a row each
    for x_t in x.detach().unbind(1):
        s = s.detach().requires_grad_()
        with torch.enable_grad():
            after = layer.cell(x_t, *s.chunk(n_parts, -1), *weights)
            after = torch.cat(after, -1) if n_parts == 2 else after
        (rows,) = torch.autograd.grad(after, s, each, is_grads_batched=True)  # (S, B, S)
        jacobians.append(rows.transpose(0, 1))
        s = after
    of_last = torch.eye(s.shape[1], dtype=x.dtype, device=x.device)[: layer.hidden_size].expand(len(x), -1, -1)
    gradients = [of_last]  # dH_T/dS_T
    for jacobian in reversed(jacobians):
        gradients.append(gradients[-1] @ jacobian)
    return torch.stack(gradients[::-1])


def clip_by_global_norm(gradients: Sequence[Tensor], max_norm: float) -> tuple[list[Tensor], Tensor]:
    """g <- g * min(1, max_norm / norm) (6.16), and the norm of all tensors before. Pascanu et al. 2013, algorithm 1."""
    norm = torch.stack([g.norm() for g in gradients]).norm()
    factor = torch.clamp(max_norm / norm, max=1.0)  # a norm of zero gives inf, and so a factor of one
    return [g * factor for g in gradients], norm
