"""Chapter 12: right answers in other styles, and the way from a student's decoder to the package and back."""

import math

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from possm_course.chapters.ch12 import own_decoder
from possm_lite.decoder import StreamingDecoder
from possm_lite.nn.feedforward import GatedFeedForward
from possm_lite.recordings import load_recording
from possm_lite.training import prepare

from .helpers import NOTEBOOKS, answers, load

check = load("ch12")


def rotated(x, t, omega):
    """Pair by pair, with real numbers; x (..., n, d) at n times (..., n)."""
    y, t = x.clone(), torch.as_tensor(t, dtype=torch.float64)
    for f, w in enumerate(omega):
        cos, sin = torch.cos(w * t).to(x.dtype), torch.sin(w * t).to(x.dtype)
        y[..., 2 * f] = cos * x[..., 2 * f] - sin * x[..., 2 * f + 1]
        y[..., 2 * f + 1] = sin * x[..., 2 * f] + cos * x[..., 2 * f + 1]
    return y


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
            x = x.expand(n, *context.shape[1:-2], Q, -1)
            t = t.expand(*mask.shape[:-1])
            tau = tau.expand(*mask.shape[:-2], M)
            return torch.stack([self(*each) for each in zip(x, t, context, tau, mask, strict=True)])
        return torch.stack([self.one(q, s, context[m], tau[m]) for q, s, m in zip(x, t, mask, strict=True)])


class Explicit(check.FeedForward.reference):
    def forward(self, x):
        n, (W_1, W_2), (b_1, b_2) = self.norm(x), self.expand.weight.chunk(2), self.expand.bias.chunk(2)
        b = n @ W_2.T + b_2
        return x + self.contract((n @ W_1.T + b_1) * b * torch.special.ndtr(b))


class StepByStep(check.Memory.reference):
    def forward(self, x, state=None):
        steps = []
        for step in x.unbind(1):
            y, state = self.gru(step[:, None], state)
            steps.append(y)
        return torch.cat(steps, 1), state


def gathered(attention, query, hidden, times, k):
    """Each query gathers its own states; those before the first bin are masked."""
    out = torch.empty(*times.shape, len(query))
    for i, row in enumerate(times):
        for n, t in enumerate(row):
            b = math.floor(t / 0.05 + 1e-6)
            j = torch.arange(max(b - k + 1, 0), b + 1)
            seen = torch.ones(1, len(j), dtype=torch.bool)
            out[i, n] = attention(query[None], t[None], hidden[i, j], 0.05 * (j.double() + 1), seen)[0]
    return out


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
    ("CrossAttention", InLoops),
    ("FeedForward", Explicit),
    ("FeedForward", GatedFeedForward, "a layer of possm_lite is in it"),
    ("FeedForward", lambda D: nn.Module(), "not attempted yet"),
    ("Memory", StepByStep),
    ("ask", gathered),
    ("train", loop),
)


def test_saved_decoder_is_the_decoder(tmp_path):
    """As a model of the package, saved and loaded: the same velocities as a batch and bin by bin, the same weights."""
    own = own_decoder
    session = prepare(load_recording(NOTEBOOKS.parent / "data" / "simulated_session.npz"))
    file = tmp_path / "own" / "checkpoint.npz"
    assert own.load("the package's", file) == own.Own("the package's", own.STORED)
    torch.manual_seed(0)
    decoder = check.Decoder(120).requires_grad_(False)
    decoder.query.copy_(torch.randn(64))
    own.save(check.as_package(decoder, session.mean, session.std), session, file)
    saved = own.load(None, file)
    assert saved.whose == own.YOURS
    for name, weight in check.published(saved.model, decoder).items():
        torch.testing.assert_close(weight, decoder.state_dict()[name], rtol=0, atol=0)
    batch = session.cut(session.split.test[:3, 0], 1.0)
    edges = 0.05 * torch.arange(20).double().expand(3, -1)
    mean, std = torch.from_numpy(session.mean), torch.from_numpy(session.std)
    found = saved.model(batch, edges, torch.ones(3, dtype=torch.int64)).detach()
    expected = mean + std * decoder(batch.padded(), edges)  # mm/s
    torch.testing.assert_close(found.double(), expected, atol=0.05, rtol=1e-3)
    stream = StreamingDecoder(saved.model)
    for b in range(20):
        spikes = (batch.bin == b) & (batch.unit > 0)
        _, decoded = stream.step(batch.unit[spikes].numpy(), batch.offset[spikes].numpy())
        np.testing.assert_allclose(decoded[0], found[0, b], atol=0.05, rtol=1e-3)
