"""Time features against their kernels in closed form, and the gradients that have to pass through the sampling."""

import itertools
import math

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from possm_lite.nn.positions import log_spaced_frequencies, phasors, rotate
from possm_lite.nn.time_features import (
    BochnerTime,
    GaussianFrequencies,
    MercerTime,
    QuantileFrequencies,
    bochner_features,
    content_and_time_score,
    gaussian_kernel,
    mercer_features,
    quantile_frequencies,
    rotary_kernel,
)

TIMES = torch.tensor([0.0, 0.013, 0.4, 1.7, -2.5, 30.0], dtype=torch.float64)
LAGS = TIMES[:, None] - TIMES


def gram(features):
    return features @ features.T


def test_bochner_features_match_loops():
    omega = torch.tensor([0.5, 3.0, 40.0], dtype=torch.float64)
    features = bochner_features(TIMES, omega)
    for t, feature in zip(TIMES.tolist(), features, strict=True):
        expected = [wave(w * t) / math.sqrt(3) for wave in (math.cos, math.sin) for w in omega.tolist()]
        assert feature.tolist() == pytest.approx(expected, abs=1e-12)
    assert_close(gram(features), torch.cos(LAGS[..., None] * omega).mean(-1))
    psi, psi_of_two = (gaussian_kernel(lag, 0.0, 2.0) for lag in (LAGS, 2 * LAGS))
    for n in (10, 1000):  # frequencies drawn: the squared error (5.11)
        drawn = torch.stack([gram(bochner_features(TIMES, 2 * torch.randn(n).double())) for _ in range(300)])
        assert_close((drawn - psi).square().mean(), ((1 + psi_of_two) / 2 - psi**2).mean() / n, rtol=0.2, atol=0)


def test_gaussian_kernel_matches_numerical_integration_and_the_rbf():
    omega = torch.linspace(-40, 50, 200_001, dtype=torch.float64)
    density = torch.exp(-0.5 * ((omega - 5) / 4) ** 2) / (4 * math.sqrt(2 * math.pi))
    for lag in torch.tensor([0.0, 0.1, 0.37, 1.0], dtype=torch.float64):
        integral = torch.trapezoid(density * torch.cos(omega * lag), omega)
        assert_close(gaussian_kernel(lag, 5.0, 4.0), integral, rtol=0, atol=1e-9)
    assert_close(gaussian_kernel(LAGS, 0.0, 2.0), torch.exp(-2 * LAGS**2))


def test_quantile_frequencies_match_numpy_with_gradients():
    start, steps = torch.tensor(2.0, dtype=torch.float64), torch.tensor([1.0, 0.1, 5.0], dtype=torch.float64)
    u = torch.tensor([0.0, 0.2, 1 / 3, 0.5, 0.99, 1.0], dtype=torch.float64)
    expected = np.interp(u.numpy(), [0, 1 / 3, 2 / 3, 1], [2.0, 3.0, 3.1, 8.1])
    np.testing.assert_allclose(quantile_frequencies(start, steps, u).numpy(), expected, atol=1e-12)
    inputs = start.requires_grad_(), steps.requires_grad_()
    assert torch.autograd.gradcheck(lambda a, b: quantile_frequencies(a, b, u), inputs)


def test_quantile_module_starts_uniform_and_stays_monotonic():
    module = QuantileFrequencies(1000, 10.0, 50.0)
    assert_close(module(), 10 + 40 * module.u)
    with torch.no_grad():
        module.rises.normal_(0, 5)
    assert (module()[module.u.argsort()].diff() >= 0).all()


@pytest.mark.parametrize(
    "frequencies", [GaussianFrequencies(16, mu=2.0, sigma=3.0), QuantileFrequencies(16, 0.0, 9.0, n_knots=5)]
)
def test_bochner_module_trains_its_frequencies(frequencies):
    module = BochnerTime(frequencies)
    features = module(TIMES)
    assert_close(features, bochner_features(TIMES, frequencies()))
    gram(features).square().sum().backward()
    assert all(p.grad.abs().max() > 0 for p in module.parameters())


def test_mercer_features_match_loops_with_gradients():
    half_periods, c = torch.tensor([0.3, 2.0], dtype=torch.float64), torch.rand(2, 5, dtype=torch.float64)
    features = mercer_features(TIMES, half_periods, c)
    assert features.shape == (6, 10)
    for n, i in itertools.product(range(6), range(2)):
        phase = math.pi * TIMES[n].item() / half_periods[i].item()
        waves = [1.0] + [wave(j * phase) for j in (1, 2) for wave in (math.cos, math.sin)]
        expected = torch.tensor(waves, dtype=torch.float64) * c[i].sqrt()
        assert_close(features[n, 5 * i : 5 * i + 5], expected, rtol=0, atol=1e-10)
    inputs = half_periods.requires_grad_(), (0.1 + c).requires_grad_()
    assert torch.autograd.gradcheck(lambda w, c: mercer_features(TIMES[:4], w, c), inputs)


def test_mercer_module_is_always_shift_invariant():
    module = MercerTime(3, 2, 0.1, 10.0).double()
    assert_close(module.log_half_periods.exp(), torch.tensor([0.1, 1.0, 10.0], dtype=torch.float64), rtol=1e-6, atol=0)
    assert_close(module(TIMES).square().sum(-1), torch.ones(6, dtype=torch.float64), rtol=0, atol=1e-6)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(torch.randn_like(parameter))
    kernel = gram(module(TIMES))
    assert_close(gram(module(TIMES + 12.3)), kernel)
    kernel.square().sum().backward()
    assert all(p.grad.isfinite().all() and p.grad.abs().max() > 0 for p in module.parameters())


def test_score_matches_concatenation():
    shapes = (2, 3, 4), (2, 5, 4), (2, 3, 6), (2, 5, 6)
    z1, z2, phi1, phi2 = (torch.randn(shape, dtype=torch.float64) for shape in shapes)
    joined = torch.cat([z1, phi1], -1) @ torch.cat([z2, phi2], -1).mT
    assert_close(content_and_time_score(z1, z2, phi1, phi2), joined)


def test_rotary_kernel_matches_rope_and_broadcasts():
    omega = log_spaced_frequencies(3, 0.05, 4.0)
    phase = phasors(TIMES, omega, torch.float64)
    q, keys = torch.randn(8, dtype=torch.float64), torch.randn(5, 8, dtype=torch.float64)
    angle = -LAGS[..., None] * omega  # t_k - t_q
    for k, a, b, c in zip(keys, *rotary_kernel(q, keys, 3), strict=True):
        assert_close(rotate(q, phase) @ rotate(k, phase).T, angle.cos() @ a + angle.sin() @ b + c)
