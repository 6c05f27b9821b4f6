"""Boltzmann machines against exact enumeration, loops over single states, and gradients of the exact likelihood."""

import itertools
import math

import pytest
import torch
from torch.testing import assert_close

from possm_course.chapters.ch09.boltzmann import (
    all_states,
    autocorrelation,
    autocorrelation_time,
    boltzmann_gradient,
    contrastive_divergence,
    exact_moments,
    gibbs,
    hidden_probability,
    log_probabilities,
    moments,
    on_probability,
    rbm_log_likelihood,
    sample_units,
)


def seeded(seed):
    return torch.Generator().manual_seed(seed)


def machine(n, seed=0, scale=0.5):
    w = scale * torch.randn(n, n, dtype=torch.float64, generator=seeded(seed)).triu(1)
    return w + w.T, 0.3 * torch.randn(n, dtype=torch.float64, generator=seeded(seed + 1))


def restricted(n_visible=4, n_hidden=3, seed=0):
    w = 0.7 * torch.randn(n_visible, n_hidden, dtype=torch.float64, generator=seeded(seed))
    b, c = (0.3 * torch.randn(n, dtype=torch.float64, generator=seeded(seed + n)) for n in (n_visible, n_hidden))
    return w, b, c


def factor(s, w, b, temperature):
    """The Boltzmann factor of one state: exp(-E / T), every pair once."""
    units = range(len(s))
    energy = -sum(float(b[i] * s[i]) + sum(float(w[i, j] * s[i] * s[j]) for j in range(i)) for i in units)
    return math.exp(-energy / temperature)


@pytest.mark.parametrize("temperature", [0.5, 1.0, 3.0])
def test_probabilities_and_moments_equal_sums_over_states(temperature):
    w, b = machine(4)
    states = torch.tensor(list(itertools.product((-1.0, 1.0), repeat=4)), dtype=torch.float64)
    assert torch.equal(all_states(4, torch.float64), states)
    p = torch.tensor([factor(s, w, b, temperature) for s in states], dtype=torch.float64)
    p /= p.sum()
    assert_close(log_probabilities(states, w, b, temperature).exp(), p)
    expected = torch.einsum("k,ki,kj->ij", p, states, states), torch.einsum("k,ki->i", p, states)
    assert_close(exact_moments(w, b, temperature), expected)


def test_on_probability_follows_from_the_energy_gap():
    """p(s_i = 1 | rest) from the Boltzmann factors of the two states: neither sign, factor 2 nor T can be wrong."""
    w, b = machine(4)
    for s in all_states(4, torch.float64):
        ours = on_probability(s[None], w, b, 1.7)[0]
        for i, unit in enumerate(torch.eye(4, dtype=torch.float64)):
            on, out = (factor(torch.where(unit == 1, value, s), w, b, 1.7) for value in (1.0, -1.0))
            assert ours[i].item() == pytest.approx(on / (on + out))


def test_gibbs_matches_loops_with_the_same_random_numbers():
    w, b = (torch.stack(part) for part in zip(machine(5), machine(5, seed=7), strict=True))
    begin = sample_units(torch.full((2, 6, 5), 0.5, dtype=torch.float64), seeded(2))
    before = begin.clone()
    ours = gibbs(begin, w, b, 4, temperature=1.5, generator=seeded(0))
    assert torch.equal(begin, before)
    generator = seeded(0)
    for sweep in range(4):
        chance = torch.rand(5, 2, 6, generator=generator, dtype=torch.float64)
        for i in range(5):
            for m in range(2):
                p = on_probability(begin[m], w[m], b[m], 1.5)[:, i]
                begin[m, :, i] = torch.where(chance[i, m] < p, 1.0, -1.0)
        assert torch.equal(ours[sweep], begin)


@pytest.mark.parametrize("temperature", [1.0, 2.0])
def test_boltzmann_gradient_matches_the_exact_likelihood(temperature):
    w, b = machine(5)
    data = sample_units(torch.full((12, 5), 0.5, dtype=torch.float64), seeded(5))
    free, bias = w.clone().requires_grad_(), b.clone().requires_grad_()
    log_probabilities(data, (free + free.T) / 2, bias, temperature).mean().backward()
    for_w, for_b = boltzmann_gradient(moments(data), exact_moments(w, b, temperature))
    assert_close(bias.grad, for_b / temperature)
    # w_ij and w_ji are one weight: the slope along it is the sum of both entries
    pairs = (free.grad + free.grad.T) * (1 - torch.eye(5, dtype=torch.float64))
    assert_close(pairs, for_w / temperature)
    assert (for_w.diagonal() == 0).all()


@pytest.mark.parametrize("phi", [0.0, 0.9])
def test_autocorrelation_of_an_autoregressive_process(phi):
    """x_t = phi x_{t-1} + noise has rho(k) = phi^k and tau = (1 + phi) / (1 - phi)."""
    noise = torch.randn(3000, 60, dtype=torch.float64, generator=seeded(0))
    x = [noise[0] / math.sqrt(1 - phi**2)]
    for step in noise[1:]:
        x.append(phi * x[-1] + step)
    rho = autocorrelation(torch.stack(x), 60)
    assert_close(rho[:20], phi ** torch.arange(20, dtype=torch.float64), rtol=0, atol=0.02)
    assert autocorrelation_time(rho) == pytest.approx((1 + phi) / (1 - phi), rel=0.12)
    assert autocorrelation_time(torch.tensor([1.0, 0.5, 0.0, 0.3, 0.0])) == 2.0  # what comes after the first 0 is noise


def test_rbm_equals_the_machine_with_zero_weights():
    w, b, c = restricted()
    full, bias = torch.zeros(7, 7, dtype=torch.float64), torch.cat([b, c])
    full[:4, 4:], full[4:, :4] = w, w.T  # the same machine as one symmetric matrix over all units
    states = all_states(7, torch.float64)
    p = on_probability(states, full, bias)
    v, h = states[:, :4], states[:, 4:]
    assert_close(hidden_probability(v, w, c), p[:, 4:])
    assert_close(hidden_probability(h, w.mT, b), p[:, :4])
    joint = log_probabilities(states, full, bias).reshape(16, 8)
    ours = rbm_log_likelihood(all_states(4, torch.float64), w, b, c)
    assert_close(ours, torch.logsumexp(joint, 1))
    assert ours.exp().sum().item() == pytest.approx(1)


def test_cd_with_many_sweeps_is_the_exact_gradient():
    w, b, c = (x.requires_grad_() for x in restricted(seed=3))
    data = sample_units(torch.full((5, 4), 0.5, dtype=torch.float64), seeded(1))
    wanted = torch.autograd.grad(rbm_log_likelihood(data, w, b, c).mean(), (w, b, c))
    many = data.repeat(4000, 1)
    with torch.no_grad():
        got = contrastive_divergence(many, w, b, c, k=30, generator=seeded(2))
        one = contrastive_divergence(many, w, b, c, k=1, generator=seeded(2))
    for ours, exact in zip(got, wanted, strict=True):
        assert_close(ours, exact, rtol=0, atol=5 / math.sqrt(len(many)))
    assert (one[0] - wanted[0]).abs().max() > 3 / math.sqrt(len(many))  # one sweep is biased: that is CD-1
    assert torch.nn.functional.cosine_similarity(one[0].flatten(), wanted[0].flatten(), 0) > 0.5  # yet points uphill
