"""The recurrent cells against torch: steps equal sequences, and both equal torch."""

import math

import pytest
import torch
from torch import nn

from possm_lite.blocks.recurrent import GRU, LSTM, RNN, textbook_gru_cell

LAYERS = {"rnn": (RNN, nn.RNN), "gru": (GRU, nn.GRU), "lstm": (LSTM, nn.LSTM)}


def make_layer(kind, n_layers=2):
    return LAYERS[kind][0](5, 7, n_layers).double()


def make_sequence(n_steps=6):
    return torch.randn(3, n_steps, 5, dtype=torch.float64)


def step_through(layer, sequence, state=None):
    outputs = []
    for x in sequence.unbind(1):
        output, state = layer.step(x, state)
        outputs.append(output)
    return torch.stack(outputs, 1), state


def assert_same_state(one, other):
    one, other = (state if isinstance(state, tuple) else (state,) for state in (one, other))
    assert len(one) == len(other)
    for ours, theirs in zip(one, other, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-12)


@pytest.mark.parametrize("n_layers", [1, 3])
@pytest.mark.parametrize("kind", LAYERS)
def test_steps_equal_forward_with_gradients(kind, n_layers):
    """`forward` is that of torch, its layer given the same weights."""
    layer, sequence = make_layer(kind, n_layers), make_sequence().requires_grad_()
    theirs = LAYERS[kind][1](5, 7, n_layers, batch_first=True).double()
    theirs.load_state_dict(layer.state_dict())
    whole, whole_state = layer(sequence)
    torch.testing.assert_close((whole, whole_state), theirs(sequence), rtol=0, atol=0)
    stepped, stepped_state = step_through(layer, sequence)
    torch.testing.assert_close(stepped, whole, rtol=0, atol=1e-12)
    assert_same_state(stepped_state, whole_state)
    wanted = [sequence, *layer.parameters()]
    gradients = [torch.autograd.grad(output.square().sum(), wanted) for output in (stepped, whole)]
    for ours, theirs in zip(*gradients, strict=True):
        assert theirs.abs().max() > 0
        torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("kind", LAYERS)
def test_the_state_continues_a_sequence(kind):
    layer, sequence = make_layer(kind), make_sequence(8)
    whole, _ = layer(sequence)
    _, state = layer(sequence[:, :3])
    torch.testing.assert_close(step_through(layer, sequence[:, 3:], state)[0], whole[:, 3:], rtol=0, atol=1e-12)


def loop_over_units(x, h, w_x, w_h, b_x, b_h):
    """The textbook GRU for one sequence, unit by unit in Python numbers, as an oracle."""
    n, sigmoid = len(h), lambda a: 1 / (1 + math.exp(-a))
    x, h, w_x, w_h, b_x, b_h = (tensor.tolist() for tensor in (x, h, w_x, w_h, b_x, b_h))

    def row(j, state):
        from_x = sum(w * v for w, v in zip(w_x[j], x, strict=True))
        return from_x + sum(w * v for w, v in zip(w_h[j], state, strict=True)) + b_x[j] + b_h[j]

    reset = [sigmoid(row(j, h)) for j in range(n)]
    update = [sigmoid(row(n + j, h)) for j in range(n)]
    kept = [r * v for r, v in zip(reset, h, strict=True)]
    new = [math.tanh(row(2 * n + j, kept)) for j in range(n)]
    return torch.tensor([z * v + (1 - z) * c for z, v, c in zip(update, h, new, strict=True)], dtype=torch.float64)


def test_textbook_gru_equals_the_loop():
    shapes = (3, 5), (3, 7), (21, 5), (21, 7), (21,), (21,)
    x, h, *weights = (torch.randn(shape, dtype=torch.float64) for shape in shapes)
    expected = torch.stack([loop_over_units(x[i], h[i], *weights) for i in range(3)])
    torch.testing.assert_close(textbook_gru_cell(x, h, *weights), expected, rtol=0, atol=1e-12)
