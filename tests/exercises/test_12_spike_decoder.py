"""Chapter 12: right answers in other styles."""

import math

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from possm_lite.decoder import POSSM, POSSMConfig
from possm_lite.recordings import SpikeBatch

from .helpers import answers, load

check = load("12_spike_decoder")


def rotated(x, t, omega):
    """Pair by pair, with real numbers; x (..., d) at one time or x (n, d) at n times."""
    y, t = x.clone(), torch.as_tensor(t, dtype=torch.float64)
    for f, w in enumerate(omega):
        cos, sin = torch.cos(w * t), torch.sin(w * t)
        y[..., 2 * f] = cos * x[..., 2 * f] - sin * x[..., 2 * f + 1]
        y[..., 2 * f + 1] = sin * x[..., 2 * f] + cos * x[..., 2 * f + 1]
    return y


def read_masked(q, t, k, v, b, n_seen, omega):
    """All bins, and minus infinity where a bin may not be seen."""
    j = torch.arange(len(k))
    ends = 0.05 * (j.double() + 1)
    scores = rotated(k, ends, omega) @ rotated(q, t, omega) / len(q) ** 0.5
    weights = scores.masked_fill((j <= b - n_seen) | (j > b), -math.inf).softmax(0)
    return rotated(weights @ rotated(v, ends, omega), -t, omega)


def by_moments(velocity, times_s, train, without_zeros=lambda std: std + (std == 0)):
    some = torch.stack([(times_s >= a) & (times_s < b) for a, b in train]).any(0).double()[:, None]
    mean = (some * velocity).sum(0) / some.sum()
    return (velocity - mean) / without_zeros(((some * (velocity - mean) ** 2).sum(0) / some.sum()).sqrt())


def attend(layer, x, t, context, tau):
    """x (D,) at t reads the rows of context (M, C) at tau (M,), with torch's own attention."""
    q = rotated(layer.to_q(layer.norm_query(x)), t, layer.omega)
    k, v = (rotated(y, tau, layer.omega) for y in layer.to_kv(layer.norm_context(context)).chunk(2, -1))
    z = F.scaled_dot_product_attention(q[None, None], k[None], v[None])[0, 0]
    return x + layer.to_out(rotated(z, -torch.as_tensor(t), layer.omega))


class InLoops(check.Decoder.reference):
    """Bin by bin, step by step and time by time."""

    def read(self, tokens, offset, spike_mask):
        bins = zip(*(x.flatten(0, 1) for x in (tokens, offset, spike_mask)), strict=True)
        read = [attend(self.encoder, self.latent, 0.025, x[real], t[real]) for x, t, real in bins]
        return torch.stack(read).unflatten(0, tokens.shape[:2])

    def remember(self, x):
        states = [torch.zeros(1, len(x), self.backbone.hidden_size)]
        for step in x.unbind(1):
            states.append(self.backbone(step[:, None], states[-1])[1])
        return torch.stack([state[0] for state in states[1:]], 1)

    def ask(self, hidden, times):
        return torch.stack([torch.stack([self.one(h, t) for t in row]) for h, row in zip(hidden, times, strict=True)])

    def seen(self, b):
        return range(max(b - self.k + 1, 0), b + 1)

    def one(self, hidden, t):
        j = list(self.seen(math.floor(t / 0.05 + 1e-6)))
        ends = torch.tensor([0.05 * (i + 1) for i in j], dtype=torch.float64)
        y = attend(self.decoder, self.query, t, hidden[j], ends)
        return y + self.decoder.feed_forward(y)


def loop(model, draw, n_steps, rate, stop=10**6):
    """Another loss, and a scheduler of torch."""
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1.0, weight_decay=0.01, foreach=False)
    schedule, losses = torch.optim.lr_scheduler.LambdaLR(optimizer, rate), []
    for step in range(n_steps):
        spikes, times, target, known = draw()
        loss = ((target - model(spikes, times)).pow(2) * known.unsqueeze(-1)).sum() / (2 * known.sum())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        if step < stop:
            optimizer.step()
        schedule.step()
        losses.append(loss.detach())
    return losses


test_answers = answers(
    check,
    [
        ("read_states", read_masked),
        ("read_states", lambda q, t, k, v, b, *o: read_masked(q, t, k, v, int(t / 0.05), *o), "at 0.15 s"),
        ("Decoder", InLoops),
        ("Decoder", lambda *sizes, **named: nn.Module(), "not attempted yet"),
        ("standardise", by_moments),
        ("standardise", lambda *args: by_moments(*args, without_zeros=lambda std: std + 1e-8)),
        ("train", loop),
        ("train", lambda *args: loop(*args, stop=15), "In 60 steps with a real decoder: validation R² is "),
    ],
)


def test_right_decoder_is_the_model_of_the_package():
    rng = np.random.default_rng(0)
    trial, unit, time_s = rng.integers(0, 3, 400), rng.integers(1, 21, 400), rng.random(400)
    batch = SpikeBatch.from_events(trial, unit, time_s, n_trials=3, duration_s=1.0)
    model = POSSM(POSSMConfig(20, head_dim=32, n_freqs=8, reading="softmax"))
    decoder = check.Decoder.reference(20)
    decoder.load_state_dict(check.published(model))
    times = torch.linspace(0, 0.999, 30, dtype=torch.float64).expand(3, -1)
    expected = model(batch, times, torch.ones(3, dtype=torch.int64))
    torch.testing.assert_close(decoder(batch.padded(), times), expected, atol=1e-4, rtol=1e-4)
