"""The recurrent cells against torch: steps equal sequences, and both equal torch."""

import math

import pytest
import torch
from torch import nn

from possm_lite.blocks.recurrent import GRU, LSTM, RNN, gru_cell, textbook_gru_cell

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
def test_forward_equals_torch(kind, n_layers):
    ours, sequence = make_layer(kind, n_layers), make_sequence()
    theirs = LAYERS[kind][1](5, 7, n_layers, batch_first=True).double()
    theirs.load_state_dict(ours.state_dict())
    (output, state), (expected, expected_state) = ours(sequence), theirs(sequence)
    torch.testing.assert_close(output, expected, rtol=0, atol=1e-12)
    assert_same_state(state, expected_state)


@pytest.mark.parametrize("n_layers", [1, 3])
@pytest.mark.parametrize("kind", LAYERS)
def test_steps_equal_forward_with_gradients(kind, n_layers):
    layer, sequence = make_layer(kind, n_layers), make_sequence().requires_grad_()
    whole, whole_state = layer(sequence)
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
    torch.testing.assert_close(layer(sequence[:, 3:], state)[0], whole[:, 3:], rtol=0, atol=1e-12)
    torch.testing.assert_close(step_through(layer, sequence[:, 3:], state)[0], whole[:, 3:], rtol=0, atol=1e-12)
    assert (layer(sequence[:, 3:])[0] - whole[:, 3:]).abs().max() > 1e-3  # the state matters


@pytest.mark.parametrize("kind", LAYERS)
def test_a_step_equals_the_cell_of_torch(kind):
    layer = make_layer(kind, 1)
    cell = {"rnn": nn.RNNCell, "gru": nn.GRUCell, "lstm": nn.LSTMCell}[kind](5, 7).double()
    cell.load_state_dict({name.removesuffix("_l0"): weight for name, weight in layer.state_dict().items()})
    x, h, c = torch.randn(3, 5).double(), torch.randn(3, 7).double(), torch.randn(3, 7).double()
    if kind == "lstm":
        output, state = layer.step(x, (h[None], c[None]))
        expected = cell(x, (h, c))
        assert_same_state(state, tuple(e[None] for e in expected))
        torch.testing.assert_close(output, expected[0], rtol=0, atol=1e-12)
    else:
        output, state = layer.step(x, h[None])
        torch.testing.assert_close(output, cell(x, h), rtol=0, atol=1e-12)
        assert_same_state(state, output[None])


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


def gru_numbers(n_hidden=7, scale=1.0):
    shapes = (3, 5), (3, n_hidden), (3 * n_hidden, 5), (3 * n_hidden, n_hidden), (3 * n_hidden,), (3 * n_hidden,)
    return [scale * torch.randn(shape, dtype=torch.float64) for shape in shapes]


def test_textbook_gru_equals_the_loop():
    x, h, *weights = gru_numbers()
    expected = torch.stack([loop_over_units(x[i], h[i], *weights) for i in range(3)])
    torch.testing.assert_close(textbook_gru_cell(x, h, *weights), expected, rtol=0, atol=1e-12)


def test_where_the_two_grus_agree():
    """Without a bias after the product: from a zero state, with R = 1, and with a single unit."""
    x, h, w_x, w_h, b_x, b_h = gru_numbers()
    b_h[14:] = 0
    for state, b in ((0 * h, b_x), (h, b_x.index_fill(0, torch.arange(7), 1e3))):
        args = x, state, w_x, w_h, b, b_h
        torch.testing.assert_close(textbook_gru_cell(*args), gru_cell(*args), rtol=0, atol=1e-12)
    single = gru_numbers(1)
    single[-1][2:] = 0
    torch.testing.assert_close(textbook_gru_cell(*single), gru_cell(*single), rtol=0, atol=1e-12)
