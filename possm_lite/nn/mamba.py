"""A minimal Mamba: state-space layers whose step size, input and output depend on the input."""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .ssm import ResidualStack, linear_scan, spread_steps


def selective_scan(
    x: Tensor, delta: Tensor, A: Tensor, B: Tensor, C: Tensor, start: Tensor
) -> tuple[Tensor, Tensor]:
    """A diagonal system whose step size, input and output change with every step.

        s_t = e^{delta_t A} s_{t-1} + delta_t B_t x_t,    y_t = C_t . s_t        (15.13)

    The input enters by delta_t B_t, the first order of zero-order hold.

    Args:
        x: input of E channels, shape (T, batch, E).
        delta: step sizes, positive, shape (T, batch, E).
        A: N real modes of each channel, negative, shape (E, N).
        B: how the input enters the modes, shape (T, batch, N).
        C: how the modes are read, shape (T, batch, N).
        start: s_0, shape (batch, E, N).

    Returns:
        y, shape (T, batch, E), and the last state, shape (batch, E, N).

    Source: Gu and Dao 2023, algorithm 2.
    """
    drive = (delta * x)[..., None] * B[..., None, :]  # (T, batch, E, N)
    states = linear_scan(torch.exp(delta[..., None] * A), drive, start)
    return (states @ C[..., None])[..., 0], states[-1]


class MambaLayer(nn.Module):
    """Norm, projection, short causal convolution, selective scan, gate, projection.

    The caller adds the residual. The modes are initialised to A_m = -m, m = 1 ... N; the slowest
    decays to 1/e in about 1 to 10 steps.

    Args:
        hidden: h, features, and the number E of channels inside: the expansion is 1.
        n_states: N, real modes of a channel.
        kernel: K, steps of the convolution.

    Attributes:
        state_size: S, numbers in a state: the last K - 1 inputs of the convolution and the modes.

    Source: Gu and Dao 2023, figure 3.
    """

    CHUNK = 64  # steps whose states are held at once

    def __init__(self, hidden: int, n_states: int = 16, kernel: int = 4):
        super().__init__()
        rank = math.ceil(hidden / 16)
        self.sizes = (rank, n_states, n_states)
        self.norm = nn.LayerNorm(hidden)
        self.in_proj = nn.Linear(hidden, 2 * hidden, bias=False)
        # oldest step first
        self.conv1d_weight = nn.Parameter((2 * torch.rand(kernel, hidden) - 1) / math.sqrt(kernel))
        self.conv1d_bias = nn.Parameter(torch.zeros(hidden))
        self.x_proj = nn.Linear(hidden, sum(self.sizes), bias=False)
        self.dt_proj = nn.Linear(rank, hidden)
        self.A_log = nn.Parameter(torch.arange(1, n_states + 1).float().log().repeat(hidden, 1))
        self.D = nn.Parameter(torch.ones(hidden))
        self.out_proj = nn.Linear(hidden, hidden, bias=False)
        self.state_size = (kernel - 1 + n_states) * hidden
        with torch.no_grad():  # softplus of the bias is about the initial step size
            self.dt_proj.bias.copy_(spread_steps(hidden, 0.1, 1.0).expm1().log())

    def forward(self, x: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """Runs over a sequence.

        Args:
            x: shape (B, T, h).
            state: shape (B, S).

        Returns:
            The output, shape (B, T, h), and the state after the last step.
        """
        inner, gate = self.in_proj(self.norm(x)).chunk(2, -1)  # (B, T, E) each
        n_steps, n_channels = inner.shape[1:]
        n_recent = (len(self.conv1d_weight) - 1) * n_channels
        # last inputs of the convolution
        recent = state[:, :n_recent].unflatten(1, (-1, n_channels))  # (B, K - 1, E)
        modes = state[:, n_recent:].unflatten(1, (n_channels, -1))  # (B, E, N)
        window = torch.cat([recent, inner], 1)  # (B, K - 1 + T, E)
        inner = sum(w * window[:, i : i + n_steps] for i, w in enumerate(self.conv1d_weight))
        inner = F.silu(inner + self.conv1d_bias)
        time_first = inner.transpose(0, 1).contiguous()  # (T, B, E): a step is then one block
        outputs = []
        for chunk in time_first.split(self.CHUNK):
            delta, B, C = self.x_proj(chunk).split(self.sizes, -1)
            delta = F.softplus(self.dt_proj(delta))
            y, modes = selective_scan(chunk, delta, -self.A_log.exp(), B, C, modes)
            outputs.append(y)
        y = torch.cat(outputs).transpose(0, 1)
        y = self.out_proj((y + self.D * inner) * F.silu(gate))
        return y, torch.cat([window[:, n_steps:].flatten(1), modes.flatten(1)], 1)


class Mamba(ResidualStack):
    """Mamba over (B, T, d) as a backbone.

    Step by step it is `decoder.cells.MambaCell`, to which a test shows it equal.

    Args:
        input_size: d.
        hidden_size: h.
        n_layers: layers.
        n_states: N, modes of a channel.
    """

    def __init__(self, input_size: int, hidden_size: int, n_layers: int = 1, n_states: int = 16):
        layers = [MambaLayer(hidden_size, n_states) for _ in range(n_layers)]
        super().__init__(input_size, hidden_size, layers)
