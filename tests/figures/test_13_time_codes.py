"""The other codes of time, a query per millisecond and the mean, against explicit lines."""

import math

import pytest
import torch

from possm_lite.course.load import load_figures

from ..decoder.helpers import one_trial, randomize
from ..exercises.helpers import NOTEBOOKS

codes = load_figures("13_time_codes", NOTEBOOKS)
UNIT, OFFSET = torch.tensor([3, 5, 3]), torch.tensor([0.01, 0.03, 0.04]).double()
BIN = one_trial(UNIT.numpy(), OFFSET.numpy(), 0.05)


def make_model(**switches):
    return randomize(codes.make_model(n_units=8, n_sessions=2, hidden=32, **switches))


def coded(model, code, x, tau):
    """x (n, D) with the times tau (n,), a pair after the other."""
    x, c = x.clone(), model.code
    if code == "bochner":
        omega = c.frequencies.mu + c.frequencies.log_sigma.exp() * c.frequencies.noise
        amplitude = torch.ones(16)
    elif code == "mercer":  # 4 periods, 2 w each, with 4 harmonics
        w = c.features.log_half_periods.exp()
        omega = torch.stack([j * math.pi / w_i for w_i in w for j in range(1, 5)])
        of_wave = torch.nn.functional.softplus(c.features.raw)[:, 1:].flatten()
        amplitude = (16 * of_wave).sqrt()
    else:
        omega = torch.tensor([2 * math.pi / 10 ** (-4 + 5 * f / 15) for f in range(16)], dtype=torch.float64)
        amplitude = torch.ones(16)
    for f in range(16):
        cos, sin = torch.cos(omega[f] * tau), torch.sin(omega[f] * tau)
        a, b = x[:, 2 * f].clone(), x[:, 2 * f + 1].clone()
        if code == "embedding":
            x[:, 2 * f], x[:, 2 * f + 1] = a * cos - b * sin, a * sin + b * cos
        else:
            x[:, 2 * f], x[:, 2 * f + 1] = a + amplitude[f] * cos, b + amplitude[f] * sin
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
    hidden, t = torch.randn(1, 4, 32).double(), 0.171
    ends = torch.tensor([0.1, 0.15, 0.2], dtype=torch.float64)
    states = coded(model, code, model.decoder.norm_context(hidden[0, 1:4]), ends - t)
    decoded, _ = read(model.decoder, model.query(torch.tensor([2]))[0, 0], states, "softmax")
    ours = model.decode(hidden, torch.tensor([[t]], dtype=torch.float64), torch.tensor([2]))[0, 0]
    torch.testing.assert_close(ours, model.behavior_mean[2] + model.behavior_std[2] * model.readout(decoded))


@torch.no_grad()
def test_queries_per_millisecond_equal_loops():
    """K = H W_k and V = H W_v of the last states; a query for each millisecond, one number after the other."""
    model = make_model(code="none", per_ms=True, feed_forward=False, head_dim=8, n_freqs=2)
    layer, hidden = model.decoder, torch.randn(1, 6, 32).double()
    W_k, W_v = (W.tolist() for W in layer.to_kv.weight.chunk(2))
    H = layer.norm_context(hidden[0, 3:6]).tolist()  # what the queries of bin 5 see
    K, V = ([[sum(w * h for w, h in zip(row, state, strict=True)) for row in W] for state in H] for W in (W_k, W_v))
    expected = []
    for ms in range(50):
        x = model.task_embedding + model.session_embedding.weight[1] + model.ms_embedding.weight[ms]
        q = layer.to_q(layer.norm_query(x)).tolist()
        s = [sum(a * b for a, b in zip(q, k, strict=True)) / math.sqrt(8) for k in K]
        total = sum(math.exp(s_j) for s_j in s)
        z = [sum(math.exp(s_j) / total * v[i] for s_j, v in zip(s, V, strict=True)) for i in range(8)]
        decoded = model.readout(x + layer.to_out(torch.tensor(z).double()))
        expected.append(model.behavior_mean[1] + model.behavior_std[1] * decoded)
    times = 0.25 + (torch.arange(50).double()[None] + 0.5) / 1000
    torch.testing.assert_close(model.decode(hidden, times, torch.tensor([1]))[0], torch.stack(expected))
    on_edges = 0.25 + torch.arange(50).double()[None] / 1000
    torch.testing.assert_close(model.decode(hidden, on_edges, torch.tensor([1]))[0], torch.stack(expected))


def test_the_mean_has_equal_weights():
    model = codes.make_model(n_units=8, reading="mean")
    torch.testing.assert_close(model.attention_weights(BIN)[:, 0, 0], torch.full((3,), 1 / 3))
    once, twice = (model.encode(one_trial(UNIT.numpy().repeat(n), OFFSET.numpy().repeat(n), 0.05)) for n in (1, 2))
    torch.testing.assert_close(once, twice)
