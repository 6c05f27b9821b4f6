"""The gated feed-forward layer of transformers."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class GatedFeedForward(nn.Module):
    """Pre-norm feed-forward layer with a GELU gate; the caller adds the residual.

        [a, b] = W_1 LN(x) + b_1,     y = W_2 (a * gelu(b)) + b_2        (12.5)

    Args:
        dim: D, features of x and y.
        expansion: a and b have expansion * D features each.

    Source: Shazeer 2020 (GEGLU), with biases.
    """

    ROWS = 1024  # computed at a time: what they are expanded to stays in the cache

    def __init__(self, dim: int, expansion: int = 4):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.expand = nn.Linear(dim, 2 * expansion * dim)
        self.contract = nn.Linear(expansion * dim, dim)

    def forward(self, x: Tensor) -> Tensor:
        """y, without the residual, of x (..., D), the same shape."""
        # two products of half the size: splitting the result of one would cost a copy of it on the
        # way back
        w_a, w_b = self.expand.weight.chunk(2)
        b_a, b_b = self.expand.bias.chunk(2)
        rows = self.norm(x).reshape(-1, x.shape[-1]).split(self.ROWS)
        gated = [F.linear(part, w_a, b_a) * F.gelu(F.linear(part, w_b, b_b)) for part in rows]
        return torch.cat([self.contract(part) for part in gated]).view(x.shape)
