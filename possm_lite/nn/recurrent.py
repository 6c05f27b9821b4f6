"""Recurrent layers: one step written as its formulas, whole sequences through torch's fused kernels."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F


def rnn_cell(x: Tensor, h: Tensor, w_x: Tensor, w_h: Tensor, b_x: Tensor, b_h: Tensor) -> Tensor:
    """H_t = tanh(W_x x_t + b_x + W_h H_{t-1} + b_h) (6.1); x (..., d), h (..., h)."""
    return torch.tanh(F.linear(x, w_x, b_x) + F.linear(h, w_h, b_h))


def gru_cell(x: Tensor, h: Tensor, w_x: Tensor, w_h: Tensor, b_x: Tensor, b_h: Tensor) -> Tensor:
    """The reset-after form of the GRU, as in cuDNN and torch: R after the product. Weights in rows R, Z, N.

    R, Z = sigmoid(...),   N = tanh(W_xn x + b_xn + R * (W_hn H + b_hn)) (6.9),   H_t = Z * H_{t-1} + (1 - Z) * N
    """
    xr, xz, xn = F.linear(x, w_x, b_x).chunk(3, -1)
    hr, hz, hn = F.linear(h, w_h, b_h).chunk(3, -1)
    reset = torch.sigmoid(xr + hr)
    update = torch.sigmoid(xz + hz)
    new = torch.tanh(xn + reset * hn)
    return update * h + (1 - update) * new


def textbook_gru_cell(
    x: Tensor, h: Tensor, w_x: Tensor, w_h: Tensor, b_x: Tensor, b_h: Tensor
) -> Tensor:
    """The reset-before form of the GRU, as in the textbooks: R before the product. Cho et al. 2014, eq. 5-8.

    R, Z = sigmoid(...),   N = tanh(W_xn x + b_xn + W_hn (R * H) + b_hn) (6.8),   H_t = Z * H_{t-1} + (1 - Z) * N
    """
    n = h.shape[-1]
    xr, xz, xn = F.linear(x, w_x, b_x).chunk(3, -1)
    hr, hz = F.linear(h, w_h[: 2 * n], b_h[: 2 * n]).chunk(2, -1)
    reset = torch.sigmoid(xr + hr)
    update = torch.sigmoid(xz + hz)
    new = torch.tanh(xn + F.linear(reset * h, w_h[2 * n :], b_h[2 * n :]))
    return update * h + (1 - update) * new


def lstm_cell(x: Tensor, h: Tensor, c: Tensor, w_x: Tensor, w_h: Tensor, b_x: Tensor, b_h: Tensor):
    """C_t = F * C_{t-1} + I * tanh(G) (6.10),  H_t = O * tanh(C_t); weights in rows I, F, G, O. Returns (H_t, C_t)."""
    i, f, g, o = (F.linear(x, w_x, b_x) + F.linear(h, w_h, b_h)).chunk(4, -1)
    c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
    return torch.sigmoid(o) * torch.tanh(c), c


class _Recurrent:
    """Mixin: `forward` is torch's kernel, batch first, and `step` the formula of `cell`, here for one state tensor."""

    def __init__(self, input_size: int, hidden_size: int, n_layers: int = 1):
        super().__init__(input_size, hidden_size, n_layers, batch_first=True)

    def step(self, x: Tensor, state: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """One step: x (B, d), state (layers, B, h), None for zeros. Returns (B, h) and the new state."""
        if state is None:
            state = x.new_zeros(self.num_layers, len(x), self.hidden_size)
        new = []
        for weights, h in zip(self.all_weights, state, strict=True):
            x = self.cell(x, h, *weights)
            new.append(x)
        return x, torch.stack(new)


class RNN(_Recurrent, nn.RNN):
    """Elman network over (B, T, d)."""

    cell = staticmethod(rnn_cell)


class GRU(_Recurrent, nn.GRU):
    """Gated recurrent unit over (B, T, d), reset-after."""

    cell = staticmethod(gru_cell)


class LSTM(_Recurrent, nn.LSTM):
    """Long short-term memory over (B, T, d)."""

    cell = staticmethod(lstm_cell)

    def step(self, x: Tensor, state: tuple[Tensor, Tensor] | None = None):
        """One step: x (B, d), state (H, C), (layers, B, h) each, or None for zeros: (B, h) and the new state."""
        if state is None:
            state = x.new_zeros(2, self.num_layers, len(x), self.hidden_size)
        new_h, new_c = [], []
        for weights, h, c in zip(self.all_weights, *state, strict=True):
            x, c = self.cell(x, h, c, *weights)
            new_h.append(x)
            new_c.append(c)
        return x, (torch.stack(new_h), torch.stack(new_c))
