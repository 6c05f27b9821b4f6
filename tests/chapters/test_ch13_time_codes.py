"""The other codes of time against explicit lines."""

import math

import pytest
import torch

from possm_course.chapters.ch13 import time_codes as codes

from ..decoder.helpers import one_trial, randomize

UNIT, OFFSET = torch.tensor([3, 5, 3]), torch.tensor([0.01, 0.03, 0.04]).double()
BIN = one_trial(UNIT.numpy(), OFFSET.numpy(), 0.05)


def make_model(**switches):
    return randomize(codes.make_model(n_units=8, n_sessions=2, hidden=32, **switches))


def coded(model, code, x, tau):
    """x (n, D) with the times tau (n,), a pair after the other."""
    x, c = x.clone(), model.code
    omega, amplitude = 2 * math.pi / 10 ** (torch.arange(16).double() / 3 - 4), torch.ones(16)
    if code == "bochner":
        omega = c.frequencies.mu + c.frequencies.log_sigma.exp() * c.frequencies.noise
    elif code == "mercer":  # 4 periods, 2 w each, with 4 harmonics
        w = c.features.log_half_periods.exp()
        omega = torch.stack([j * math.pi / w_i for w_i in w for j in range(1, 5)])
        of_wave = torch.nn.functional.softplus(c.features.raw)[:, 1:].flatten()
        amplitude = (16 * of_wave).sqrt()
    for f in range(16):
        cos, sin = torch.cos(omega[f] * tau), torch.sin(omega[f] * tau)
        a, b = x[:, 2 * f].clone(), x[:, 2 * f + 1].clone()
        turned, added = (a * cos - b * sin, a * sin + b * cos), (a + amplitude[f] * cos, b + amplitude[f] * sin)
        x[:, 2 * f], x[:, 2 * f + 1] = turned if code == "embedding" else added
    return x


def read(layer, query, x, reading):
    """The query (D,) reads tokens x (n, D) of its only head: (D,), and the weights (n,)."""
    W_v = layer.to_kv.weight.chunk(1 if reading == "sum" else 2)[-1]
    if reading == "sum":
        w = layer.gain.expand(len(x))
    else:
        s = x @ layer.to_kv.weight.chunk(2)[0].T @ layer.to_q(layer.norm_query(query)) / 8
        w = torch.softmax(s, 0) if reading == "softmax" else layer.gain * torch.sigmoid(s + layer.bias)
    y = query + layer.to_out(w @ x @ W_v.T)
    return y + layer.feed_forward(y), w


@pytest.mark.parametrize("code", ["embedding", "sinusoid", "bochner", "mercer"])
@pytest.mark.parametrize("reading", ["softmax", "sigmoid", "sum"])
@torch.no_grad()
def test_a_code_acts_before_the_projection(code, reading):
    model = make_model(code=code, reading=reading)
    x = coded(model, code, model.encoder.norm_context(model.unit_embedding(UNIT)), OFFSET - 0.025)
    expected, weights = read(model.encoder, model.encoder.latents[0], x, reading)
    torch.testing.assert_close(model.encode(BIN)[0, 0], expected, rtol=0, atol=1e-9)
    torch.testing.assert_close(model.attention_weights(BIN)[:, 0, 0], weights, rtol=0, atol=1e-9)
    # the output attention codes the end of a bin as seen from the query
    hidden, t, ends = torch.randn(1, 4, 32).double(), 0.171, torch.tensor([2, 3, 4]).double() / 20
    states = coded(model, code, model.decoder.norm_context(hidden[0, 1:4]), ends - t)
    decoded, _ = read(model.decoder, model.query(torch.tensor([2]))[0, 0], states, "softmax")
    ours = model.decode(hidden, torch.tensor([[t]], dtype=torch.float64), torch.tensor([2]))[0, 0]
    torch.testing.assert_close(ours, model.behavior_mean[2] + model.behavior_std[2] * model.readout(decoded))


@torch.no_grad()
def test_without_a_code_a_bin_reads_no_times():
    later = one_trial(UNIT.numpy(), OFFSET.numpy() / 2, 0.05)
    blind, rotated = make_model(code="none"), make_model()
    torch.testing.assert_close(blind.encode(later), blind.encode(BIN), rtol=0, atol=1e-12)
    assert (rotated.encode(later) - rotated.encode(BIN)).abs().max() > 1e-3
