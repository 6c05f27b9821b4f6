"""Linear state-space models, s'(t) = A s(t) + B x(t), y(t) = C s(t): step, scan and convolution.

A is diagonal throughout, so every mode is a scalar system and all products are elementwise.
"""

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable


def zero_order_hold(a: Tensor, step: Tensor) -> tuple[Tensor, Tensor]:
    """Discretises s' = a s + x, with x constant for a step, to s_t = decay s_{t-1} + drive x_t.

        decay = e^{a step},   drive = (e^{a step} - 1) / a        (15.9)

    Args:
        a: 1/s, not zero, real or complex.
        step: s, broadcastable to a.

    Returns:
        decay and drive, of the common shape.

    Source: Gu et al. 2022 (S4D), section 2.
    """
    decay = torch.exp(a * step)
    return decay, (decay - 1) / a


def powers(decay: Tensor, n: int) -> Tensor:
    """decay^0, ..., decay^{n-1}, by doubling: few products, little rounding, no large angles.

    Args:
        decay: shape (...).
        n: how many powers.

    Returns:
        Shape (..., n).
    """
    out = torch.ones_like(decay)[..., None]
    jump = decay[..., None]  # the next block is `out` times `jump`
    while out.shape[-1] < n:
        out = torch.cat([out, out * jump], -1)
        jump = jump * jump
    return out[..., :n]


def ssm_kernel(decay: Tensor, drive: Tensor, readout: Tensor, n: int) -> Tensor:
    """The impulse response K_l = 2 Re sum_m readout_m decay_m^l drive_m (15.11).

    Args:
        decay: complex, of N modes in h channels, shape (h, N).
        drive: likewise.
        readout: likewise.
        n: steps.

    Returns:
        K_0 ... K_{n-1} of each channel, real, shape (h, n).
    """
    return 2 * torch.einsum("hm,hml->hl", readout * drive, powers(decay, n)).real


def causal_convolution(x: Tensor, kernel: Tensor) -> Tensor:
    """y_t = sum_l K_l x_{t-l}, through the FFT.

    Args:
        x: shape (..., T).
        kernel: K, shape (..., T) or shorter.

    Returns:
        y, shape (..., T).
    """
    n_steps = x.shape[-1]
    # the FFT is periodic: with T the end of the sequence would wrap round to its beginning
    length = 2 * n_steps
    kernel = kernel[..., :n_steps]
    spectrum = torch.fft.rfft(x, length) * torch.fft.rfft(kernel, length)
    return torch.fft.irfft(spectrum, length)[..., :n_steps]


def linear_scan(decay: Tensor, drive: Tensor, start: Tensor) -> Tensor:
    """s_t = decay_t s_{t-1} + drive_t, one step after the other.

    Args:
        decay: broadcastable to `drive`.
        drive: shape (T, ...).
        start: s_0, broadcastable to (...).

    Returns:
        s_1 ... s_T, shape (T, ...).
    """
    return _Scan.apply(decay.expand_as(drive), drive, start.expand_as(drive[0]))


class _Scan(torch.autograd.Function):
    """Its gradient is the scan run backwards, g_t = dL/ds_t + conj(decay_{t+1}) g_{t+1}.

    Autograd would keep T nodes.
    """

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
        decay_grad = None
        if ctx.needs_input_grad[0]:
            decay_grad = g * torch.cat([start[None], states[:-1]]).conj()
        return decay_grad, g, decay[0] * g[0]


def spread_steps(n: int, shortest: float, longest: float) -> Tensor:
    """Initial step sizes, drawn log-uniform: channels then differ in how long they remember.

    Args:
        n: channels.
        shortest: the smallest step.
        longest: the largest step.

    Returns:
        Shape (n,).
    """
    return shortest * (longest / shortest) ** torch.rand(n)


class ResidualStack(nn.Module):
    """A projection from d to h features, then x <- x + layer(x) for each layer.

    Args:
        input_size: d.
        hidden_size: h.
        layers: each has a `state_size`, S, and is called with x (B, T, h) and a state (B, S); it
            returns an output (B, T, h) and the new state.
    """

    def __init__(self, input_size: int, hidden_size: int, layers: list[nn.Module]):
        super().__init__()
        self.input_proj = nn.Linear(input_size, hidden_size)
        self.layers = nn.ModuleList(layers)

    def forward(self, x: Tensor, state: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Runs over a sequence.

        Args:
            x: shape (B, T, d).
            state: of each layer, shape (layers, B, S); None: zeros.

        Returns:
            The output, shape (B, T, h), and the state after the last step, to go on from.
        """
        if state is None:
            state = x.new_zeros(len(self.layers), len(x), self.layers[0].state_size)
        x = self.input_proj(x)
        new = []
        for layer, before in zip(self.layers, state, strict=True):
            y, after = layer(x, before)
            x = x + y
            new.append(after)
        return x, torch.stack(new)
