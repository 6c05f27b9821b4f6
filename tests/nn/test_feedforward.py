"""The gated feed-forward layer against its formula, weight by weight."""

import math

import pytest
import torch

from possm_lite.nn.feedforward import GatedFeedForward


def make_layer(dim=6, **sizes):
    layer = GatedFeedForward(dim, **sizes).double()
    for parameter in layer.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    return layer


def by_formula(layer, x):
    """y = W_2 (a * gelu(b)) + b_2 with [a, b] = W_1 LN(x) + b_1, and gelu(b) = b Phi(b)."""
    centred = x - x.mean(-1, keepdim=True)
    normed = centred / (centred.square().mean(-1, keepdim=True) + 1e-5).sqrt() * layer.norm.weight + layer.norm.bias
    expanded = normed @ layer.expand.weight.T + layer.expand.bias
    half = expanded.shape[-1] // 2
    value, gate = expanded[..., :half], expanded[..., half:]
    gelu = gate * 0.5 * (1 + torch.erf(gate / math.sqrt(2)))
    return (value * gelu) @ layer.contract.weight.T + layer.contract.bias


@pytest.mark.parametrize("rows", [GatedFeedForward.ROWS, 5])  # 12 rows: in one piece, in three
def test_equals_the_formula_with_gradients(rows, monkeypatch):
    monkeypatch.setattr(GatedFeedForward, "ROWS", rows)
    layer, x = make_layer(), torch.randn(4, 3, 6, dtype=torch.float64, requires_grad=True)
    outputs = layer(x), by_formula(layer, x)
    torch.testing.assert_close(*outputs, rtol=0, atol=1e-12)
    wanted = [x, *layer.parameters()]
    gradients = [torch.autograd.grad(output.square().sum(), wanted) for output in outputs]
    for ours, theirs in zip(*gradients, strict=True):
        assert ours.abs().max() > 0
        torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-10)
