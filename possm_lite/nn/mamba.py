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

        s_t = e^{delta_t A} s_{t-1} + delta_t B_t x_t,    y_t = C_t . s_t                            (15.13)

    x, y and delta > 0 are (T, batch, E), A < 0 (E, N), B and C (T, batch, N), s (batch, E, N); to y, last s.
    Source: Gu and Dao 2023, algorithm 2; the input enters by delta_t B_t, the first order of zero-order hold.
    """
    drive = (delta * x)[..., None] * B[..., None, :]  # (T, batch, E, N)
    states = linear_scan(torch.exp(delta[..., None] * A), drive, start)
    return (states @ C[..., None])[..., 0], states[-1]


class MambaLayer(nn.Module):
    """Norm, projection, short causal convolution, selective scan, gate, projection; the caller adds the residual.

    `hidden` is h, and the number E of channels inside. Each has N = `n_states` real modes, initialised to A_m = -m,
    m = 1 ... N; the slowest decays to 1/e in about 1 to 10 steps. Source: Gu and Dao 2023, figure 3; expansion 1.
    """

    CHUNK = 64  # steps whose states are held at once

    def __init__(self, hidden: int, n_states: int = 16, kernel: int = 4):
        super().__init__()
        rank = math.ceil(hidden / 16)
        self.sizes = (rank, n_states, n_states)
        self.norm = nn.LayerNorm(hidden)
        self.in_proj = nn.Linear(hidden, 2 * hidden, bias=False)
        self.conv1d_weight = nn.Parameter(
            (2 * torch.rand(kernel, hidden) - 1) / math.sqrt(kernel)
        )  # oldest step first
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
        """A sequence (B, T, h) from state (B, S)."""
        inner, gate = self.in_proj(self.norm(x)).chunk(2, -1)  # (B, T, E) each
        n_steps, n_channels = inner.shape[1:]
        n_recent = (len(self.conv1d_weight) - 1) * n_channels
        recent = state[:, :n_recent].unflatten(
            1, (-1, n_channels)
        )  # last inputs of the convolution, (B, K - 1, E)
        modes = state[:, n_recent:].unflatten(1, (n_channels, -1))  # (B, E, N)
        window = torch.cat([recent, inner], 1)  # (B, K - 1 + T, E)
        inner = sum(w * window[:, i : i + n_steps] for i, w in enumerate(self.conv1d_weight))
        inner = F.silu(inner + self.conv1d_bias)
        outputs = []
        for chunk in (
            inner.transpose(0, 1).contiguous().split(self.CHUNK)
        ):  # time first: a step is then one block
            delta, B, C = self.x_proj(chunk).split(self.sizes, -1)
            delta = F.softplus(self.dt_proj(delta))
            y, modes = selective_scan(chunk, delta, -self.A_log.exp(), B, C, modes)
            outputs.append(y)
        y = torch.cat(outputs).transpose(0, 1)
        y = self.out_proj((y + self.D * inner) * F.silu(gate))
        return y, torch.cat([window[:, n_steps:].flatten(1), modes.flatten(1)], 1)


class Mamba(ResidualStack):
    """Mamba over (B, T, d) as a backbone; step by step: `decoder.cells.MambaCell`, to which a test shows it equal."""

    def __init__(self, input_size: int, hidden_size: int, n_layers: int = 1, n_states: int = 16):
        super().__init__(
            input_size, hidden_size, [MambaLayer(hidden_size, n_states) for _ in range(n_layers)]
        )
