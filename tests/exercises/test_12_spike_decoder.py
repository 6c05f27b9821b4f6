"""Chapter 12: right answers in other styles, and the way from a student's decoder to the package and back."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from possm_lite.course.load import load_figures
from possm_lite.decoder import POSSM, POSSMConfig, StreamingDecoder
from possm_lite.nn.feedforward import GatedFeedForward
from possm_lite.recordings import SpikeBatch, load_recording
from possm_lite.training import prepare

from .helpers import NOTEBOOKS, answers, load

check = load("12_spike_decoder")


def rotated(x, t, omega):
    """Pair by pair, with real numbers; x (..., n, d) at n times (..., n)."""
    y, t = x.clone(), torch.as_tensor(t, dtype=torch.float64)
    for f, w in enumerate(omega):
        cos, sin = torch.cos(w * t).to(x.dtype), torch.sin(w * t).to(x.dtype)
        y[..., 2 * f] = cos * x[..., 2 * f] - sin * x[..., 2 * f + 1]
        y[..., 2 * f + 1] = sin * x[..., 2 * f] + cos * x[..., 2 * f + 1]
    return y


class OneHot(check.Embed.reference):
    def forward(self, padded_bin):
        one_hot = F.one_hot(padded_bin[..., 0].int().long(), len(self.table.weight)).float()
        return one_hot @ self.table.weight, padded_bin[..., 1]


class InLoops(check.CrossAttention.reference):
    """Bin by bin and query by query, over the real tokens alone, with torch's own attention."""

    def one(self, x, t, context, tau):
        q = rotated(self.to_q(self.norm_query(x)), t, self.omega)
        k, v = (rotated(y, tau, self.omega) for y in self.to_kv(self.norm_context(context)).chunk(2, -1))
        z = F.scaled_dot_product_attention(q[None, None, None], k[None, None], v[None, None])[0, 0, 0]
        return x + self.to_out(rotated(z, -t, self.omega))

    def forward(self, x, t, context, tau, mask):
        if context.dim() > 2:
            n, (Q, M) = len(context), mask.shape[-2:]
            x, t, tau = (
                x.expand(n, *context.shape[1:-2], Q, -1),
                t.expand(*mask.shape[:-1]),
                tau.expand(*mask.shape[:-2], M),
            )
            return torch.stack([self(*each) for each in zip(x, t, context, tau, mask, strict=True)])
        return torch.stack([self.one(q, s, context[m], tau[m]) for q, s, m in zip(x, t, mask, strict=True)])


class Explicit(check.FeedForward.reference):
    """(12.5) with the area under the bell curve, and matrices cut by hand."""

    def forward(self, x):
        n, (W_1, W_2), (b_1, b_2) = self.norm(x), self.expand.weight.chunk(2), self.expand.bias.chunk(2)
        b = n @ W_2.T + b_2
        return x + ((n @ W_1.T + b_1) * b * torch.special.ndtr(b)) @ self.contract.weight.T + self.contract.bias


class Wrapped(GatedFeedForward):
    def forward(self, x):
        return x + super().forward(x)


class StepByStep(check.Memory.reference):
    def forward(self, x, state=None):
        steps = []
        for step in x.unbind(1):
            y, state = self.gru(step[:, None], state)
            steps.append(y)
        return torch.cat(steps, 1), state


def gathered(attention, query, hidden, times, k, first=0):
    """Each query gathers its own states; those before the first bin are masked."""
    out = torch.empty(*times.shape, len(query))
    for i, row in enumerate(times):
        for n, t in enumerate(row):
            b = math.floor(t / 0.05 + 1e-6)
            j = torch.arange(max(b - k + 1, first), b + 1)
            seen = torch.ones(1, len(j), dtype=torch.bool)
            out[i, n] = attention(query[None], t[None], hidden[i, j], 0.05 * (j.double() + 1), seen)[0]
    return out


def in_float32(attention, query, hidden, times, k):
    b, j = (times / 0.05 + 1e-6).long()[..., None], torch.arange(hidden.shape[1])
    return attention(query.expand(*times.shape, -1), times, hidden, (j + 1) * 0.05, (j <= b) & (j > b - k))


def loop(model, draw, n_steps, rate):
    """Another loss, and a scheduler of torch."""
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1.0, weight_decay=0.01, foreach=False)
    schedule, losses = torch.optim.lr_scheduler.LambdaLR(optimizer, rate), []
    for _ in range(n_steps):
        spikes, times, target, known = draw()
        loss = ((target - model(spikes, times)).pow(2) * known.unsqueeze(-1)).sum() / (2 * known.sum())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        losses.append(loss.detach())
    return losses


test_answers = answers(
    check,
    [
        ("Embed", OneHot),
        ("CrossAttention", InLoops),
        ("FeedForward", Explicit),
        ("FeedForward", Wrapped, "a layer of possm_lite is in it"),
        ("FeedForward", lambda D: nn.Module(), "not attempted yet"),
        ("Memory", StepByStep),
        ("ask", gathered),
        ("ask", in_float32, "a time after seven and a half minutes"),
        ("train", loop),
    ],
)


@pytest.fixture(scope="module")
def task():
    rng = np.random.default_rng(0)
    trial, unit, time_s = rng.integers(0, 3, 400), rng.integers(1, 21, 400), rng.random(400)
    times = torch.linspace(0, 0.999, 30, dtype=torch.float64).expand(3, -1)
    batch = SpikeBatch.from_events(trial, unit, time_s, n_trials=3, duration_s=1.0)
    return SimpleNamespace(batch=batch, times=times, ones=torch.ones(3, dtype=torch.int64))


def test_right_decoder_is_the_model_of_the_package(task):
    torch.manual_seed(0)
    model = POSSM(POSSMConfig(20, head_dim=32, n_freqs=8, reading="softmax"))
    decoder = check.Decoder(20)
    decoder.load_state_dict(check.published(model, decoder))
    expected = model(task.batch, task.times, task.ones)
    torch.testing.assert_close(decoder(task.batch.padded(), task.times), expected, atol=1e-4, rtol=1e-4)


def test_saved_decoder_is_the_decoder(task, tmp_path, monkeypatch):
    """Trained, made a model of the package, saved and loaded: as a batch, and bin by bin."""
    own = load_figures("12_own_decoder", NOTEBOOKS)
    recording = load_recording(NOTEBOOKS.parent / "data" / "simulated_session.npz")
    session, file = prepare(recording), tmp_path / "own" / "checkpoint.npz"
    assert own.load("the package's", file) == own.Own("the package's", own.PACKAGE)

    def draw(rng):
        target = torch.from_numpy(rng.normal(size=(3, 30, 2))).float()
        return task.batch.padded(), task.times, target, torch.ones(3, 30, dtype=torch.bool)

    look_at = {"batch": (task.batch.padded(), task.times)}
    monkeypatch.setattr(own, "MOMENTS", (0, 2))
    run = own.watch(lambda: check.Decoder(120), check.train.reference, draw, lambda step, n: 0.01, 5, look_at)
    assert list(run.decoded) == [0, 2, 5] and len(run.loss) == 5
    assert 0.7 < run.loss[0] < 1.5 and not torch.equal(run.decoded[0]["batch"], run.decoded[2]["batch"])

    own.save(check.as_package(run.decoder, session.mean, session.std), session, file)
    saved = own.load(None, file)
    assert saved.whose == own.YOURS
    mean, std = torch.from_numpy(session.mean), torch.from_numpy(session.std)
    expected = mean + std * run.decoder(task.batch.padded(), task.times)  # (3, 30, 2)
    found = saved.model(task.batch, task.times, task.ones)
    torch.testing.assert_close(found.double(), expected, atol=0.05, rtol=1e-3)  # mm/s
    stream, first = StreamingDecoder(saved.model), task.batch.bin < 20  # the bins of the first trial
    with torch.no_grad():
        at_start = saved.model(task.batch, torch.arange(20).double().expand(3, -1) * 0.05, task.ones)[0]
    for b in range(20):
        spikes = first & (task.batch.bin == b) & (task.batch.unit > 0)
        _, decoded = stream.step(task.batch.unit[spikes].numpy(), task.batch.offset[spikes].numpy())
        np.testing.assert_allclose(decoded[0], at_start[b], atol=0.05, rtol=1e-3)
