"""A minimal Mamba: state-space layers that look at their input to decide what to keep."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .ssm import ResidualStack, linear_scan, spread_steps


def selective_scan(x: Tensor, step: Tensor, a: Tensor, b: Tensor, c: Tensor, start: Tensor) -> tuple[Tensor, Tensor]:
    """A diagonal system whose step size, input and output change with every step.

        s_t = e^{step_t a} s_{t-1} + step_t b_t x_t,    y_t = c_t . s_t                               (14.9)

    The kernel of a convolution would have to be another at every t, so there is none: it is a scan.

    Args:
        x: input, shape (T, B, E).
        step: positive, shape (T, B, E).
        a: negative, shape (E, N).
        b, c: shape (T, B, N), shared by the channels.
        start: state before the first step, shape (B, E, N).

    Returns:
        y, shape (T, B, E), and the last state, shape (B, E, N).

    Source: Gu and Dao 2023, algorithm 2; the input enters by step_t b_t, the first order of zero-order hold.
    """
    drive = (step * x)[..., None] * b[..., None, :]  # (T, B, E, N)
    states = linear_scan(torch.exp(step[..., None] * a), drive, start)
    return (states @ c[..., None])[..., 0], states[-1]


class MambaLayer(nn.Module):
    """Norm, projection, short causal convolution, selective scan, gate, projection; the caller adds the residual.

    Args:
        hidden: h, of input and output, and the number E of channels inside.
        n_states: N, real modes of each channel; they begin as a_m = -m, m = 1 ... N, and the slowest fades to
            1/e in 1 to 10 steps, until the input says otherwise.
        kernel: steps the convolution sees.
        rank: of the map from channels to step sizes; hidden / 16 unless said.

    Raises:
        ValueError: for no states at all. The layer would remember no more than its convolution sees.

    Source: Gu and Dao 2023, "Mamba: linear-time sequence modeling with selective state spaces", figure 3, with
    expansion 1.
    """

    CHUNK = 64  # steps whose states are held at once

    def __init__(self, hidden: int, n_states: int = 16, kernel: int = 4, rank: int | None = None):
        super().__init__()
        if n_states < 1:
            raise ValueError(f"n_states must be 1 or more, not {n_states}: a layer without states has no memory.")
        rank = rank or math.ceil(hidden / 16)
        self.sizes = (rank, n_states, n_states)
        self.norm = nn.LayerNorm(hidden)
        self.expand = nn.Linear(hidden, 2 * hidden, bias=False)
        self.conv_weight = nn.Parameter((2 * torch.rand(kernel, hidden) - 1) / math.sqrt(kernel))  # oldest step first
        self.conv_bias = nn.Parameter(torch.zeros(hidden))
        self.select = nn.Linear(hidden, sum(self.sizes), bias=False)
        self.to_step = nn.Linear(rank, hidden)
        self.log_decay = nn.Parameter(torch.arange(1, n_states + 1).float().log().repeat(hidden, 1))
        self.skip = nn.Parameter(torch.ones(hidden))
        self.contract = nn.Linear(hidden, hidden, bias=False)
        self.state_size = (kernel - 1 + n_states) * hidden
        with torch.no_grad():  # softplus of the bias is the step size to begin with
            self.to_step.bias.copy_(spread_steps(hidden, 0.1, 1.0).expm1().log())

    def forward(self, x: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """A sequence (B, T, h) from state (B, S)."""
        inner, gate = self.expand(self.norm(x)).chunk(2, -1)  # (B, T, E) each
        seen, modes = self._parts(state)
        window = torch.cat([seen, inner], 1)  # (B, K - 1 + T, E)
        n_steps, n_seen = inner.shape[1], seen.shape[1]
        inner = sum(w * window[:, i : i + n_steps] for i, w in enumerate(self.conv_weight))
        inner = F.silu(inner + self.conv_bias)
        answers = []
        for piece in inner.transpose(0, 1).contiguous().split(self.CHUNK):  # time first: a step is then one block
            y, modes = selective_scan(piece, *self._selected(piece), modes)
            answers.append(y)
        y = torch.cat(answers).transpose(0, 1)
        return self._out(y, inner, gate), self._flat(window[:, window.shape[1] - n_seen :], modes)

    def step(self, x: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """One step: x (B, h), state (B, S)."""
        inner, gate = self.expand(self.norm(x)).chunk(2, -1)  # (B, E) each
        seen, modes = self._parts(state)
        window = torch.cat([seen, inner[:, None]], 1)  # (B, K, E)
        inner = F.silu((self.conv_weight * window).sum(1) + self.conv_bias)
        step, a, b, c = self._selected(inner)
        modes = torch.exp(step[..., None] * a) * modes + (step * inner)[..., None] * b[:, None]
        y = (modes * c[:, None]).sum(-1)
        return self._out(y, inner, gate), self._flat(window[:, 1:], modes)

    def _selected(self, inner: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """What the input decides: step size, and b and c; between them the decay rates a, which it does not."""
        step, b, c = self.select(inner).split(self.sizes, -1)
        return F.softplus(self.to_step(step)), -self.log_decay.exp(), b, c

    def _out(self, y: Tensor, inner: Tensor, gate: Tensor) -> Tensor:
        return self.contract((y + self.skip * inner) * F.silu(gate))

    def _parts(self, state: Tensor) -> tuple[Tensor, Tensor]:
        """The inputs the convolution still sees, (B, K - 1, E), and the modes, (B, E, N)."""
        n_channels = len(self.skip)
        n_seen = len(self.conv_weight) - 1
        seen, modes = state.split([n_seen * n_channels, state.shape[1] - n_seen * n_channels], 1)
        return seen.unflatten(1, (n_seen, n_channels)), modes.unflatten(1, (n_channels, -1))

    @staticmethod
    def _flat(seen: Tensor, modes: Tensor) -> Tensor:
        return torch.cat([seen.flatten(1), modes.flatten(1)], 1)


class Mamba(ResidualStack):
    """Mamba over (B, T, d) as a backbone. `forward` scans, `step` is one step of it; a test holds them equal."""

    def __init__(self, input_size: int, hidden_size: int, num_layers: int = 1, n_states: int = 16):
        super().__init__(input_size, hidden_size, [MambaLayer(hidden_size, n_states) for _ in range(num_layers)])
