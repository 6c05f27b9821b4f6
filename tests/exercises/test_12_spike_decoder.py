"""Chapter 12: right and wrong answers in other styles than the references and the traps."""

import math
from functools import partial

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from possm_lite.decoder import POSSM, POSSMConfig
from possm_lite.spikes import SpikeBatch

from .helpers import assert_right, assert_verdict, assert_wrong, load

check = load("12_spike_decoder")


def rotated(x, t, omega):
    """Pair by pair, with real numbers; x (..., d) at one time or x (n, d) at n times."""
    y, t = x.clone(), torch.as_tensor(t, dtype=torch.float64)
    for f, w in enumerate(omega):
        cos, sin = torch.cos(w * t), torch.sin(w * t)
        y[..., 2 * f] = cos * x[..., 2 * f] - sin * x[..., 2 * f + 1]
        y[..., 2 * f + 1] = sin * x[..., 2 * f] + cos * x[..., 2 * f + 1]
    return y


def read_masked(q, t, k, v, b, n_seen, omega, ends=lambda j: 0.05 * (j.double() + 1), seen=lambda j, b, n: b - n < j):
    """All bins, and minus infinity where a bin may not be seen."""
    j = torch.arange(len(k))
    scores = rotated(k, ends(j), omega) @ rotated(q, t, omega) / len(q) ** 0.5
    weights = scores.masked_fill(~(seen(j, b, n_seen) & (j <= b)), -math.inf).softmax(0)
    return rotated(weights @ rotated(v, ends(j), omega), -t, omega)


def read_without_positions(q, t, k, v, b, n_seen, omega):
    k, v = (x[max(b - n_seen + 1, 0) : b + 1] for x in (k, v))
    return F.scaled_dot_product_attention(q[None], k, v)[0]


def read_by_index(q, t, k, v, b, n_seen, omega, pad=False):
    """Negative indices wrap around, or `k` and `v` begin with rows of zeros."""
    if pad:
        zeros = k.new_zeros(n_seen - 1, k.shape[1])
        k, v, b = torch.cat([zeros, k]), torch.cat([zeros, v]), b + n_seen - 1
    j = [b - i for i in range(n_seen)]
    tau = 0.05 * (torch.tensor(j).double() + 1 - pad * (n_seen - 1))
    k, v = rotated(k[j], tau, omega), rotated(v[j], tau, omega)
    weights = (k @ rotated(q, t, omega) / len(q) ** 0.5).softmax(0)
    return rotated(weights @ v, -t, omega)


def read_with_time_of_the_slice(q, t, k, v, b, n_seen, omega):
    seen = slice(max(b - n_seen + 1, 0), b + 1)
    return read_masked(q, t, k[seen], v[seen], b - seen.start, n_seen, omega)


def by_moments(velocity, times_s, train, replaced=lambda std: std + (std == 0)):
    some = torch.stack([(times_s >= a) & (times_s < b) for a, b in train]).any(0).double()[:, None]
    mean = (some * velocity).sum(0) / some.sum()
    spread = ((some * (velocity - mean) ** 2).sum(0) / some.sum()).sqrt()
    return (velocity - mean) / replaced(spread)


@pytest.mark.parametrize(
    ("name", "answer", "words"),
    [
        ("read_states", read_masked, "✓"),
        ("read_states", lambda q, t, k, v, b, *o: read_masked(q, t, k, v, int(t / 0.05), *o), "at 0.15 s"),
        ("read_states", read_without_positions, "no position"),
        ("read_states", lambda *args: read_masked(*args, ends=lambda j: 0.05 * j), "on a query that sees three bins"),
        ("read_states", lambda *args: read_masked(*args, ends=lambda j: 1.0 * j), "use seconds"),
        ("read_states", lambda *args: read_masked(*args, seen=lambda j, b, n: j >= 0), "from the first bin on"),
        ("read_states", lambda *args: read_masked(*args, seen=lambda j, b, n: j >= b - n), "one state too many"),
        ("read_states", read_with_time_of_the_slice, "time starts anew"),
        ("read_states", lambda q, *rest: read_masked(q * len(q) ** 0.5, *rest), "root of the size d"),
        ("read_states", lambda *args: read_masked(*args, ends=lambda j: (j + 1) * 0.05), "rounded to float32"),
        ("read_states", lambda q, *rest: read_masked(q / len(q) ** 0.5, *rest), "too small"),
        (
            "read_states",
            lambda q, t, k, v, b, *rest: read_masked(q, torch.tensor(0.05 * (b + 1)).double(), k, v, b, *rest),
            "on a query that sees three bins",
        ),
        ("read_states", read_by_index, "a negative index reads the last states"),
        ("read_states", partial(read_by_index, pad=True), "filled up with zeros"),
        ("standardise", by_moments, "✓"),
        ("standardise", lambda *args: by_moments(*args, replaced=lambda std: std.clamp(min=1)), "a smaller one"),
        ("standardise", lambda v, t, train: by_moments(v, t, torch.tensor([[0.0, 9.0]])), "leaked in"),
        ("standardise", lambda v, t, train: by_moments(v, t, train.view(-1)[[0, -1]][None]), "between training"),
        ("standardise", lambda v, t, train: by_moments(v, t, train)[:3], "the shape is"),
    ],
)
def test_answer_in_another_style(name, answer, words):
    assert_verdict(getattr(check, name), answer, words)


class Attention(nn.Module):
    """With torch's own attention, and pair by pair."""

    def __init__(self, D, C, d):
        super().__init__()
        self.norm_query, self.norm_context = nn.LayerNorm(D), nn.LayerNorm(C)
        self.to_q, self.to_kv = nn.Linear(D, d, bias=False), nn.Linear(C, 2 * d, bias=False)
        self.to_out, self.feed_forward = nn.Linear(d, D), check.GatedFeedForward(D)
        self.register_buffer("omega", 2 * np.pi / torch.logspace(-4, 1, d // 4, dtype=torch.float64))

    def attend(self, x, t, context, tau):
        """x (D,) at t reads the rows of context (M, C) at tau (M,)."""
        q = rotated(self.to_q(self.norm_query(x)), t, self.omega)
        k, v = (rotated(y, tau, self.omega) for y in self.to_kv(self.norm_context(context)).chunk(2, -1))
        z = F.scaled_dot_product_attention(q[None, None], k[None], v[None])[0, 0]
        return x + self.to_out(rotated(z, -torch.as_tensor(t), self.omega))


class InLoops(nn.Module):
    """The decoder of exercise 12.2, bin by bin and time by time."""

    def __init__(self, n_units, D=64, d=32, h=256, k=3, bias=False):
        super().__init__()
        self.unit_embedding, self.readout = nn.Embedding(n_units + 1, D), nn.Linear(D, 2)
        self.latent, self.query = nn.Parameter(torch.randn(D)), nn.Parameter(torch.zeros(D))
        self.encoder, self.decoder = Attention(D, D, d), Attention(D, h, d)
        self.backbone, self.k = nn.GRU(D, h, batch_first=True, bias=not bias), k

    def embed(self, unit):
        return self.unit_embedding.weight[unit]

    def read(self, tokens, offset, spike_mask):
        bins = zip(*(x.flatten(0, 1) for x in (tokens, offset, spike_mask)), strict=True)
        read = [self.encoder.attend(self.latent, 0.025, x[real], t[real]) for x, t, real in bins]
        return torch.stack(read).unflatten(0, tokens.shape[:2])

    def encode(self, padded):
        unit, offset = padded.padded_bin[..., 0].long(), padded.padded_bin[..., 1]
        x = self.read(self.embed(unit), offset, padded.spike_mask)
        return x + self.encoder.feed_forward(x)

    def remember(self, x):
        states = [torch.zeros(len(x), self.backbone.hidden_size)]
        for step in x.unbind(1):
            states.append(self.backbone(step[:, None], states[-1][None])[0][:, 0])
        return torch.stack(states[1:], 1)

    def ask(self, hidden, times):
        return torch.stack([torch.stack([self.one(h, t) for t in row]) for h, row in zip(hidden, times, strict=True)])

    def one(self, hidden, t):
        b = math.floor(t / 0.05 + 1e-6)
        seen = range(max(b - self.k + 1, 0), b + 1)
        tau = torch.tensor([0.05 * (j + 1) for j in seen], dtype=torch.float64)
        y = self.decoder.attend(self.query, t, hidden[list(seen)], tau)
        return y + self.decoder.feed_forward(y)

    def forward(self, padded, times):
        return self.readout(self.ask(self.remember(self.encode(padded)), times))


def with_method(name, method):
    return type("Changed", (InLoops,), {name: method})


class Unwritten(nn.Module):
    def __init__(self, n_units, D=64, d=32, h=256, k=3):
        super().__init__()
        ...  # noqa: PIE790


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (InLoops, "✓"),
        (partial(InLoops, bias=True), "there is no parameter `backbone.bias_"),
        (lambda n_units, D, d, h, k: InLoops(n_units - 1, D, d, h, k), "`unit_embedding.weight` has the shape (5, 12)"),
        (lambda n_units, D, d, h, k: nn.ModuleList([InLoops(n_units, D, d, h, k)]), "there is no parameter `"),
        (lambda n_units, D, d, h, k: 1, "not a torch.nn.Module"),
        (
            with_method("remember", lambda self, x: None),
            "`remember` is not there yet, or returns nothing",
        ),
        (with_method("ask", None), "`ask` is not there yet"),
        (
            with_method("encode", lambda self, p: InLoops.encode(self, p)[0]),
            "on `encode`, after the feed-forward",
        ),
        (
            with_method("read", lambda self, x, t, m: InLoops.read(self, x, t, m | True)),
            "on `read`, of bins with more tokens",
        ),
        (
            with_method("read", lambda self, x, t, m: InLoops.read(self, x, t, m) - self.latent),
            "on `read`, of bins with one token",
        ),
        (with_method("remember", lambda self, x: InLoops.remember(self, x).detach()), "no gradient reaches `"),
        (with_method("forward", torch.no_grad()(lambda *args: InLoops.forward(*args))), "no gradient reaches `"),
        (with_method("forward", lambda self, p, t: InLoops.forward(self, p, t).tanh()), "on `forward`: expected"),
        (
            with_method("embed", lambda self, unit: F.embedding(unit, self.unit_embedding.weight, padding_idx=0)),
            "padding_idx=0",
        ),
        (with_method("forward", lambda self, p, t: 2 * InLoops.forward(self, p, t)), "on `forward`: expected"),
    ],
)
def test_decoder_in_another_style(answer, words):
    assert_verdict(check.Decoder, answer, words)


def test_class_without_parameters_is_a_stub():
    assert check.Decoder.examine(Unwritten).status == "missing"


def test_reference_decoder_is_the_model_of_the_package():
    rng = np.random.default_rng(0)
    trial, unit, time_s = rng.integers(0, 3, 400), rng.integers(1, 21, 400), rng.random(400)
    batch = SpikeBatch.from_events(trial, unit, time_s, n_trials=3, duration_s=1.0)
    model = POSSM(POSSMConfig(20, head_dim=32, n_freqs=8, reading="softmax"))
    decoder = check.Decoder.reference(20)
    decoder.load_state_dict(check.published(model))
    times = torch.linspace(0, 0.999, 30, dtype=torch.float64).expand(3, -1)
    expected = model(batch, times, torch.ones(3, dtype=torch.int64))
    torch.testing.assert_close(decoder(batch.padded(), times), expected, atol=1e-4, rtol=1e-4)


def loop(
    model, draw, n_steps, rate, order="zero rate backward clip step", stop=10**6, batches=1, axes=2, together=True
):
    """A training loop of named parts, with a scheduler of torch."""
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1.0, weight_decay=0.01, foreach=False)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, rate)
    weights, losses = list(model.parameters()), []
    for step in range(n_steps):
        spikes, times, target, known = [draw() for _ in range(batches)][0]
        if step >= stop:
            losses.append(0.0)
            continue
        squares = (target - model(spikes, times)).pow(2) * known.unsqueeze(-1)
        loss = squares.sum() / (axes * known.sum())
        parts = {
            "zero": optimizer.zero_grad,
            "backward": loss.backward,
            "clip": lambda: [nn.utils.clip_grad_norm_(p, 1.0) for p in ([weights] if together else weights)],
            "step": optimizer.step,
        }
        for part in order.split():
            parts.get(part, lambda: None)()
        if "rate" in order:
            schedule.step()
        losses.append(loss.detach())
    return losses


def loop_with_new_optimizers(model, draw, n_steps, rate):
    return [loss for step in range(n_steps) for loss in loop(model, draw, 1, lambda _, step=step: rate(step))]


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (partial(loop, order="backward clip step"), "on the losses of ten steps"),
        (partial(loop, order="backward zero clip step"), "so nothing is learned"),
        (partial(loop, order="zero backward clip step"), "set the learning rate"),
        (partial(loop, order="zero backward step clip rate"), "the gradient is not clipped"),
        (partial(loop, batches=2), "on the losses of ten steps"),
        (lambda *args: loop(*args)[:-1] or [0.0], "on the loss of one step"),
        (lambda *args: sum(loop(*args)), "the shape is (), expected (1,)"),
        (lambda model, draw, n, rate: loop(model, draw, n, lambda step: rate(step + 1)), "one step early"),
        (loop_with_new_optimizers, "a new optimizer"),
        (partial(loop, axes=1), "the squares of the two axes are added up"),
        (partial(loop, together=0), "one tensor at a time"),
    ],
)
def test_training_loop_in_another_style(answer, words):
    assert_wrong(check.train, answer, words)


def test_right_training_loop_passes_and_one_that_stops_does_not():
    assert_right(check.train, loop)
    assert_wrong(check.train, partial(loop, stop=15), "In 60 steps with a real decoder: validation R² is ")
