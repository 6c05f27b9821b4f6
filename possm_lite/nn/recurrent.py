"""Recurrent layers: one step as its formulas, whole sequences through torch's own layers."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F


def rnn_cell(x: Tensor, h: Tensor, w_x: Tensor, w_h: Tensor, b_x: Tensor, b_h: Tensor) -> Tensor:
    """One step of an Elman network: H_t = tanh(W_x x_t + b_x + W_h H_{t-1} + b_h) (6.1).

    Args:
        x: input, shape (..., d).
        h: the state H_{t-1}, shape (..., h).
        w_x: W_x, shape (h, d).
        w_h: W_h, shape (h, h).
        b_x: shape (h,).
        b_h: shape (h,).

    Returns:
        H_t, shape (..., h).
    """
    return torch.tanh(F.linear(x, w_x, b_x) + F.linear(h, w_h, b_h))


def gru_cell(x: Tensor, h: Tensor, w_x: Tensor, w_h: Tensor, b_x: Tensor, b_h: Tensor) -> Tensor:
    """One step of a GRU in the reset-after form, as in cuDNN and torch: R after the product.

        R, Z = sigmoid(W_x x + b_x + W_h H_{t-1} + b_h), with their own rows
        N = tanh(W_xn x + b_xn + R * (W_hn H_{t-1} + b_hn))        (6.9)
        H_t = Z * H_{t-1} + (1 - Z) * N

    Args:
        x: input, shape (..., d).
        h: the state H_{t-1}, shape (..., h).
        w_x: rows of R, Z and N, shape (3 h, d).
        w_h: likewise, shape (3 h, h).
        b_x: shape (3 h,).
        b_h: shape (3 h,).

    Returns:
        H_t, shape (..., h).
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
    """One step of a GRU in the reset-before form, as in the textbooks: R before the product.

        R, Z = sigmoid(W_x x + b_x + W_h H_{t-1} + b_h), with their own rows
        N = tanh(W_xn x + b_xn + W_hn (R * H_{t-1}) + b_hn)        (6.8)
        H_t = Z * H_{t-1} + (1 - Z) * N

    Args:
        x: input, shape (..., d).
        h: the state H_{t-1}, shape (..., h).
        w_x: rows of R, Z and N, shape (3 h, d).
        w_h: likewise, shape (3 h, h).
        b_x: shape (3 h,).
        b_h: shape (3 h,).

    Returns:
        H_t, shape (..., h).

    Source: Cho et al. 2014, eq. 5-8.
    """
    n = h.shape[-1]
    xr, xz, xn = F.linear(x, w_x, b_x).chunk(3, -1)
    hr, hz = F.linear(h, w_h[: 2 * n], b_h[: 2 * n]).chunk(2, -1)
    reset = torch.sigmoid(xr + hr)
    update = torch.sigmoid(xz + hz)
    new = torch.tanh(xn + F.linear(reset * h, w_h[2 * n :], b_h[2 * n :]))
    return update * h + (1 - update) * new


def lstm_cell(x: Tensor, h: Tensor, c: Tensor, w_x: Tensor, w_h: Tensor, b_x: Tensor, b_h: Tensor):
    """One step of an LSTM.

        I, F, O = sigmoid(W_x x + b_x + W_h H_{t-1} + b_h), and G the same sum, with their own rows
        C_t = F * C_{t-1} + I * tanh(G)        (6.10)
        H_t = O * tanh(C_t)

    Args:
        x: input, shape (..., d).
        h: the state H_{t-1}, shape (..., h).
        c: the state C_{t-1}, shape (..., h).
        w_x: rows of I, F, G and O, shape (4 h, d).
        w_h: likewise, shape (4 h, h).
        b_x: shape (4 h,).
        b_h: shape (4 h,).

    Returns:
        H_t and C_t, shape (..., h) each.
    """
    i, f, g, o = (F.linear(x, w_x, b_x) + F.linear(h, w_h, b_h)).chunk(4, -1)
    c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
    return torch.sigmoid(o) * torch.tanh(c), c


class _Recurrent:
    """Mixin: `forward` is torch's, batch first, `step` the formula of `cell`.

    Here for a state of one tensor.
    """

    def __init__(self, input_size: int, hidden_size: int, n_layers: int = 1):
        super().__init__(input_size, hidden_size, n_layers, batch_first=True)

    def step(self, x: Tensor, state: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """One step of all layers.

        Args:
            x: input, shape (B, d).
            state: of each layer, shape (layers, B, h); None: zeros.

        Returns:
            The output, shape (B, h), and the new state.
        """
        if state is None:
            state = x.new_zeros(self.num_layers, len(x), self.hidden_size)
        new = []
        for weights, h in zip(self.all_weights, state, strict=True):
            x = self.cell(x, h, *weights)
            new.append(x)
        return x, torch.stack(new)


class RNN(_Recurrent, nn.RNN):
    """Elman network over (B, T, d).

    `forward` gives the outputs (B, T, h) and the state after the last step; `step`, by `rnn_cell`,
    gives the same one step at a time.

    Args:
        input_size: d.
        hidden_size: h.
        n_layers: layers.
    """

    cell = staticmethod(rnn_cell)


class GRU(_Recurrent, nn.GRU):
    """Gated recurrent unit over (B, T, d), reset-after.

    `forward` gives the outputs (B, T, h) and the state after the last step; `step`, by `gru_cell`,
    gives the same one step at a time.

    Args:
        input_size: d.
        hidden_size: h.
        n_layers: layers.
    """

    cell = staticmethod(gru_cell)


class LSTM(_Recurrent, nn.LSTM):
    """Long short-term memory over (B, T, d).

    `forward` gives the outputs (B, T, h) and the state after the last step; `step`, by `lstm_cell`,
    gives the same one step at a time.

    Args:
        input_size: d.
        hidden_size: h.
        n_layers: layers.
    """

    cell = staticmethod(lstm_cell)

    def step(self, x: Tensor, state: tuple[Tensor, Tensor] | None = None):
        """One step of all layers.

        Args:
            x: input, shape (B, d).
            state: H and C of each layer, shape (layers, B, h) each; None: zeros.

        Returns:
            The output, shape (B, h), and the new state, H and C.
        """
        if state is None:
            state = x.new_zeros(2, self.num_layers, len(x), self.hidden_size)
        new_h, new_c = [], []
        for weights, h, c in zip(self.all_weights, *state, strict=True):
            x, c = self.cell(x, h, c, *weights)
            new_h.append(x)
            new_c.append(c)
        return x, (torch.stack(new_h), torch.stack(new_c))
