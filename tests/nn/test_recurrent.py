"""The recurrent cells against torch: steps equal sequences, and both equal torch."""

import pytest
import torch
from torch import nn

from possm_lite.nn.recurrent import GRU, LSTM, RNN, gru_cell, textbook_gru_cell

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


def textbook_step(x, h, w_x, w_h, b_x, b_h):
    """(6.8) for one sequence, every gate with its own rows."""
    (x_r, x_z, x_n), (h_r, h_z, h_n) = w_x.chunk(3), w_h.chunk(3)
    b_r, b_z, b_n = (b_x + b_h).chunk(3)
    reset, update = torch.sigmoid(x_r @ x + h_r @ h + b_r), torch.sigmoid(x_z @ x + h_z @ h + b_z)
    new = torch.tanh(x_n @ x + h_n @ (reset * h) + b_n)
    return update * h + (1 - update) * new


def test_textbook_gru_equals_the_loop():
    shapes = (3, 5), (3, 7), (21, 5), (21, 7), (21,), (21,)
    x, h, *weights = (torch.randn(shape, dtype=torch.float64) for shape in shapes)
    expected = torch.stack([textbook_step(x[i], h[i], *weights) for i in range(3)])
    torch.testing.assert_close(textbook_gru_cell(x, h, *weights), expected, rtol=0, atol=1e-12)


def test_constant_gate_is_a_time_constant():
    """With Z = 1 - dt / tau a GRU follows h(t) = c (1 - exp(-t / tau)), the closer the smaller the step (6.4a)."""
    tau, target = 0.3, 0.8
    errors = []
    for dt in (0.02, 0.01):
        w_x, w_h, b_x = torch.zeros(3, 1), torch.zeros(3, 1), torch.zeros(3)
        b_x[1] = torch.logit(torch.tensor(1 - dt / tau))
        b_x[2] = torch.atanh(torch.tensor(target))
        h, path = torch.zeros(1), []
        for _ in range(round(1 / dt)):
            h = gru_cell(torch.zeros(1), h, w_x, w_h, b_x, torch.zeros(3))
            path.append(h)
        t = dt * torch.arange(1, len(path) + 1)
        errors.append((torch.cat(path) - target * (1 - torch.exp(-t / tau))).abs().max())
    assert errors[0] < 0.02
    assert 1.8 < errors[0] / errors[1] < 2.2  # Euler's method is of first order
