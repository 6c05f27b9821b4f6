"""State-space models: step, scan and convolution are equal; the layers remember, are causal, and learn."""

import numpy as np
import pytest
import scipy.signal
import torch
from torch.nn import functional as F

from possm_lite.decoder.backbones import REGISTRY
from possm_lite.decoder.cells import Backbone, frozen
from possm_lite.nn.mamba import Mamba, MambaLayer
from possm_lite.nn.s4d import S4D
from possm_lite.nn.ssm import causal_convolution, linear_scan, powers, spread_steps, ssm_kernel, zero_order_hold

BACKBONES = {"s4d": S4D, "mamba": Mamba}


def make_backbone(kind, std=0.5):
    """Random weights large enough that every part matters."""
    model = BACKBONES[kind](5, 6, 2)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=std)
    return model.double()


def step_through(model, x, state=None):
    outputs = []
    for x_t in x.unbind(1):
        output, state = model(x_t[:, None], state)
        outputs.append(output)
    return torch.cat(outputs, 1), state


def make_system(h=3, n=4):
    a = torch.complex(-0.2 - torch.rand(h, n, dtype=torch.float64), 3 * torch.randn(h, n, dtype=torch.float64))
    return *zero_order_hold(a, 0.1 + torch.rand(h, 1, dtype=torch.float64)), torch.randn(h, n, dtype=torch.complex128)


def test_zero_order_hold_equals_scipy():
    a, step = torch.tensor([-0.5 + 3.0j, -2.0 - 1.0j], dtype=torch.complex128), 0.3
    decay, drive = zero_order_hold(a, torch.tensor(step, dtype=torch.float64))
    system = (np.diag(a.numpy()), np.ones((2, 1), complex), np.eye(2), np.zeros((2, 1)))
    expected_a, expected_b, *_ = scipy.signal.cont2discrete(system, step, method="zoh")
    np.testing.assert_allclose(np.diag(expected_a), decay, atol=1e-12)
    np.testing.assert_allclose(expected_b[:, 0], drive, atol=1e-12)


@pytest.mark.parametrize("n", [1, 2, 65])
def test_powers_by_doubling(n):
    decay = make_system()[0]
    expected = decay[..., None] ** torch.arange(n)
    torch.testing.assert_close(powers(decay, n), expected, atol=1e-12, rtol=1e-10)


def test_convolution_is_scan_is_step():
    decay, drive, readout = make_system()
    x = torch.randn(2, 3, 50, dtype=torch.float64)  # (B, h, T)
    convolved = causal_convolution(x, ssm_kernel(decay, drive, readout, 50))
    entering = drive * x.permute(2, 0, 1)[..., None]  # (T, B, h, N)
    scanned = linear_scan(decay, entering, torch.zeros_like(entering[0]))
    scanned = 2 * (readout * scanned).sum(-1).real.permute(1, 2, 0)
    s, stepped = torch.zeros(2, 3, 4, dtype=torch.complex128), []
    for t in range(50):
        s = decay * s + drive * x[..., t, None]
        stepped.append(2 * (readout * s).sum(-1).real)
    stepped = torch.stack(stepped, -1)
    torch.testing.assert_close(convolved, stepped, rtol=0, atol=1e-12)
    torch.testing.assert_close(scanned, stepped, rtol=0, atol=1e-12)


def test_causal_convolution_is_the_sum_without_wrapping():
    x, kernel = torch.randn(2, 3, 9, dtype=torch.float64), torch.randn(3, 9, dtype=torch.float64)
    for n in (9, 3):  # as long as the sequence, and shorter
        expected = F.conv1d(F.pad(x, (n - 1, 0)), kernel[:, None, :n].flip(-1), groups=3)
        torch.testing.assert_close(causal_convolution(x, kernel[:, :n]), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
@pytest.mark.parametrize("per_step", [True, False])
def test_gradient_of_a_scan(dtype, per_step):
    decay = torch.randn((5, 2, 3) if per_step else (3,), dtype=dtype, requires_grad=True)
    drive, start = torch.randn(5, 2, 3, dtype=dtype, requires_grad=True), torch.randn(2, 3, dtype=dtype)
    assert torch.autograd.gradcheck(linear_scan, (decay, drive, start.requires_grad_()))


@pytest.mark.parametrize("kind", BACKBONES)
@pytest.mark.parametrize("n_steps", [1, 20, 150])
def test_a_sequence_equals_its_steps_with_gradients(kind, n_steps):
    model, x = make_backbone(kind), torch.randn(3, n_steps, 5, dtype=torch.float64, requires_grad=True)
    (whole, state), (stepped, last) = model(x), step_through(model, x)
    assert whole.shape == (3, n_steps, 6) and state.shape == last.shape == (2, 3, model.layers[0].state_size)
    torch.testing.assert_close((whole, state), (stepped, last), rtol=1e-11, atol=1e-10)  # outputs of about ten
    gradients = [torch.autograd.grad(y.square().sum(), [x, *model.parameters()]) for y in (whole, stepped)]
    torch.testing.assert_close(*gradients, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("kind", BACKBONES)
def test_a_sequence_equals_the_steps_of_its_cells(kind):
    """The formula of one step, in NumPy, over more than one chunk."""
    model, x = make_backbone(kind), torch.randn(1, 150, 5, dtype=torch.float64)
    cells, stepped = Backbone(REGISTRY[kind].cell, frozen(model), np.float64), []
    state = cells.start
    for x_t in x[0].numpy():
        output, state = cells.step(x_t, state)
        stepped.append(output)
    np.testing.assert_allclose(model(x)[0][0].detach(), np.stack(stepped), rtol=1e-11, atol=1e-10)


@pytest.mark.parametrize("kind", BACKBONES)
def test_the_state_continues_a_sequence(kind):
    model, x = make_backbone(kind), torch.randn(2, 100, 5, dtype=torch.float64)
    whole, last = model(x)
    first, state = model(x[:, :37])
    second, state = model(x[:, 37:39], state)  # shorter than the convolution of Mamba
    third, state = model(x[:, 39:], state)
    torch.testing.assert_close(torch.cat([first, second, third], 1), whole, rtol=0, atol=1e-11)
    torch.testing.assert_close(state, last, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("kind", BACKBONES)
def test_untrained_layers_remember(kind):
    """A layer whose modes or readout were zero would run as well."""
    model = BACKBONES[kind](5, 32).double()
    x = torch.randn(1, 40, 5, dtype=torch.float64)
    changed = x.clone()
    changed[:, 0] += 1
    with torch.no_grad():
        echo = (model(x)[0] - model(changed)[0]).abs().amax(-1)[0]
    assert echo[20] > 1e-8 * echo[0]  # rounding is 1e-16; Mamba hardly reads its states before training


def test_initial_weights_are_uniform_in_their_range():
    ends_and_middle = torch.tensor([0.0, 0.5, 1.0])
    steps, weight = spread_steps(10_000, 0.001, 0.1).log10(), 2 * MambaLayer(1000).conv1d_weight
    for values, expected in ((steps, [-3.0, -2.0, -1.0]), (weight, [-1.0, 0.0, 1.0])):
        torch.testing.assert_close(values.quantile(ends_and_middle), torch.tensor(expected), rtol=0, atol=0.1)


@pytest.mark.parametrize("kind", BACKBONES)
def test_modes_decay_with_any_weights(kind):
    with torch.no_grad():
        assert make_backbone(kind, std=2.0).float()(torch.randn(1, 3000, 5))[0].isfinite().all()
