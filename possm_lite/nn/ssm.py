"""Linear state-space models, s'(t) = A s(t) + B x(t), y(t) = C s(t): run as a step, as a scan and as a convolution.

A is diagonal throughout, so every mode is a scalar system and all products are elementwise.
"""

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable


def zero_order_hold(a: Tensor, step: Tensor) -> tuple[Tensor, Tensor]:
    """Discretises s' = a s + x, x constant for `step`, to s_t = decay s_{t-1} + drive x_t. Gu et al. 2022 (S4D), 2.

    decay = e^{a step},   drive = (e^{a step} - 1) / a,   a in 1/s, not zero                          (15.9)
    """
    decay = torch.exp(a * step)
    return decay, (decay - 1) / a


def powers(decay: Tensor, n: int) -> Tensor:
    """decay^0, ..., decay^{n-1} on a new last axis, by doubling: few products, little rounding, no large angles."""
    out = torch.ones_like(decay)[..., None]
    jump = decay[..., None]  # the next block is `out` times `jump`
    while out.shape[-1] < n:
        out = torch.cat([out, out * jump], -1)
        jump = jump * jump
    return out[..., :n]


def ssm_kernel(decay: Tensor, drive: Tensor, readout: Tensor, n: int) -> Tensor:
    """The impulse response K_l = 2 Re sum_m readout_m decay_m^l drive_m (15.11) of complex (h, N): real, (h, n)."""
    return 2 * torch.einsum("hm,hml->hl", readout * drive, powers(decay, n)).real


def causal_convolution(x: Tensor, kernel: Tensor) -> Tensor:
    """y_t = sum_l K_l x_{t-l} through the FFT: x (..., T), kernel (..., T) or shorter."""
    length = (
        2 * x.shape[-1]
    )  # the FFT is periodic: with T the end of the sequence would wrap round to its beginning
    kernel = kernel[..., : x.shape[-1]]
    return torch.fft.irfft(torch.fft.rfft(x, length) * torch.fft.rfft(kernel, length), length)[
        ..., : x.shape[-1]
    ]


def linear_scan(decay: Tensor, drive: Tensor, start: Tensor) -> Tensor:
    """s_t = decay_t s_{t-1} + drive_t from s_0 = start (...), sequentially: s_1 ... s_T, (T, ...) as drive."""
    return _Scan.apply(decay.expand_as(drive), drive, start.expand_as(drive[0]))


class _Scan(torch.autograd.Function):
    """The gradient is the scan run backwards, g_t = dL/ds_t + conj(decay_{t+1}) g_{t+1}; autograd keeps T nodes."""

    @staticmethod
    def forward(ctx, decay, drive, start):
        states = torch.empty_like(drive, memory_format=torch.contiguous_format)
        before = start
        for t in range(len(drive)):
            torch.addcmul(drive[t], decay[t], before, out=states[t])
            before = states[t]
        ctx.save_for_backward(decay, states, start)
        return states

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        decay, states, start = ctx.saved_tensors
        decay = decay.conj()
        g = grad.clone(memory_format=torch.contiguous_format)
        for t in range(len(g) - 1, 0, -1):
            g[t - 1].addcmul_(decay[t], g[t])
        decay_grad = (
            g * torch.cat([start[None], states[:-1]]).conj() if ctx.needs_input_grad[0] else None
        )
        return decay_grad, g, decay[0] * g[0]


def spread_steps(n: int, shortest: float, longest: float) -> Tensor:
    """Initial step sizes of n channels, (n,), log-uniform, so that channels differ in how long they remember."""
    return shortest * (longest / shortest) ** torch.rand(n)


class ResidualStack(nn.Module):
    """d to h, then x <- x + layer(x), where a layer has a `state_size`, S, and a state (B, S)."""

    def __init__(self, input_size: int, hidden_size: int, layers: list[nn.Module]):
        super().__init__()
        self.input_proj = nn.Linear(input_size, hidden_size)
        self.layers = nn.ModuleList(layers)

    def forward(self, x: Tensor, state: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """x (B, T, d), state (layers, B, S) or None for zeros. Returns (B, T, h) and the state, to go on from."""
        if state is None:
            state = x.new_zeros(len(self.layers), len(x), self.layers[0].state_size)
        x = self.input_proj(x)
        new = []
        for layer, before in zip(self.layers, state, strict=True):
            y, after = layer(x, before)
            x = x + y
            new.append(after)
        return x, torch.stack(new)
