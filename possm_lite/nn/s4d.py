"""S4D: layers of diagonal linear systems, whose modes are decaying rotations."""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .ssm import ResidualStack, powers, spread_steps, ssm_kernel, zero_order_hold


class S4DLayer(nn.Module):
    """Norm, one diagonal system per channel, a gated linear layer over the channels.

        u = LN(x),   s_t = decay s_{t-1} + drive u_t,   y_t = 2 Re sum_m C_m s_{t,m} + D u_t
        out = GLU(W gelu(y) + b)

    The caller adds the residual. Each channel has N complex modes, one of each conjugate pair, at
    first A_m = -1/2 + i pi m (S4D-Lin), m = 0 ... N - 1; they decay to 1/e in 4 to 40 steps.

    Args:
        hidden: h, channels.
        n_modes: N, modes of a channel.

    Attributes:
        state_size: S, numbers in a state: real and imaginary part of h N modes.

    Source: Gu et al. 2022 (S4D).
    """

    CHUNK = 64  # steps convolved at once; longer sequences carry the state from chunk to chunk

    def __init__(self, hidden: int, n_modes: int = 16):
        super().__init__()
        self.norm = nn.LayerNorm(hidden)
        self.log_dt = nn.Parameter(spread_steps(hidden, 0.05, 0.5).log())
        self.log_A_real = nn.Parameter(torch.full((hidden, n_modes), math.log(0.5)))
        self.A_imag = nn.Parameter(math.pi * torch.arange(n_modes).float().repeat(hidden, 1))
        # zeros would be no memory
        self.C = nn.Parameter(torch.randn(hidden, n_modes, 2) / math.sqrt(2))
        self.D = nn.Parameter(torch.ones(hidden))
        self.output_linear = nn.Linear(hidden, 2 * hidden)
        self.state_size = 2 * hidden * n_modes

    def system(self) -> tuple[Tensor, Tensor, Tensor]:
        """decay, drive and readout C of every mode, complex, shape (h, N) each.

        The real part of A is always negative.
        """
        A = torch.complex(-self.log_A_real.exp(), self.A_imag)
        decay, drive = zero_order_hold(A, self.log_dt.exp()[:, None])
        return decay, drive, torch.view_as_complex(self.C)

    def forward(self, x: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """Runs over a sequence: a convolution inside each chunk, the state from chunk to chunk.

        The convolution is a product with a triangular matrix: causal to the bit, and faster than so
        short an FFT.

        Args:
            x: shape (B, T, h).
            state: shape (B, S).

        Returns:
            out, shape (B, T, h), and the state after the last step.
        """
        decay, drive, readout = self.system()
        length = min(self.CHUNK, x.shape[1])  # L
        kernel = F.pad(ssm_kernel(decay, drive, readout, length), (length - 1, 0))
        # (h, L, L): entry j, t is K_{t-j}, zero for later inputs
        kernel = kernel.unfold(-1, length, 1).flip(1)
        decays = powers(decay, length + 1)  # (h, N, L + 1)
        # output of a state in each of the next L steps
        echo = 2 * readout[..., None] * decays[..., 1:]  # (h, N, L)
        # state of an input after l steps
        entry = drive[..., None] * decays  # (h, N, L + 1)
        u = self.norm(x)  # (B, T, h)
        s = torch.view_as_complex(state.unflatten(-1, (*decay.shape, 2)))  # (B, h, N)
        s = s.transpose(0, 1)  # (h, B, N)
        outputs = []
        for chunk in u.split(length, 1):
            chunk = chunk.permute(2, 0, 1)  # (h, B, l)
            n = chunk.shape[-1]
            from_state = (s @ echo[..., :n]).real  # (h, B, l)
            outputs.append(torch.baddbmm(from_state, chunk, kernel[:, :n, :n]))
            from_inputs = chunk.to(s.dtype) @ entry[..., :n].flip(-1).mT  # (h, B, N)
            s = s * decays[:, None, :, n] + from_inputs
        y = torch.cat(outputs, -1).permute(1, 2, 0)  # (B, T, h)
        out = F.glu(self.output_linear(F.gelu(y + self.D * u)))
        return out, torch.view_as_real(s.transpose(0, 1)).flatten(1)


class S4D(ResidualStack):
    """S4D over (B, T, d) as a backbone.

    Step by step it is `decoder.cells.S4DCell`, to which a test shows it equal.

    Args:
        input_size: d.
        hidden_size: h.
        n_layers: layers.
        n_modes: N, modes of a channel.
    """

    def __init__(self, input_size: int, hidden_size: int, n_layers: int = 1, n_modes: int = 16):
        layers = [S4DLayer(hidden_size, n_modes) for _ in range(n_layers)]
        super().__init__(input_size, hidden_size, layers)
