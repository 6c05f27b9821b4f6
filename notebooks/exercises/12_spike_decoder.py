"""Exercises of chapter 12: the query that reads the last states, the decoder, the scale of velocity, the training."""

from functools import cache
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from possm_lite.course.checks import MISSING, Case, Check, Complaint, edited, exercise, normal
from possm_lite.course.checks.sandbox import Failure, run
from possm_lite.decoder import POSSM, POSSMConfig
from possm_lite.nn.feedforward import GatedFeedForward
from possm_lite.nn.positions import log_spaced_frequencies, phasors, rotate
from possm_lite.recordings import SpikeBatch, load_recording
from possm_lite.training import prepare
from possm_lite.training.evaluate import mean_r2


# Exercise 12.1: the second query
def R(x, t, omega):
    return rotate(x, phasors(t, omega, x.dtype))


def _states(b, t, n_seen=3, n_bins=6):
    """Vectors of six numbers of which four are rotated, a query at time t in bin b."""

    def make():
        q, k, v = (normal(*shape, seed=12 + i).double() for i, shape in enumerate(((6,), (n_bins, 6), (n_bins, 6))))
        omega = 2 * torch.pi / torch.tensor([0.09, 0.7], dtype=torch.float64)
        return 2 * q, torch.tensor(t, dtype=torch.float64), k, v, b, n_seen, omega

    return make


@exercise(
    cases={
        "a query that sees three bins": _states(4, 0.213),
        "a query that sees its own bin alone": _states(4, 0.213, n_seen=1),
        "a query at the very end of the last bin": _states(5, 0.299),
        "a query in the first bin, which has none before it": _states(0, 0.012),
        "a query in the second bin": _states(1, 0.071),
        "a query just as its bin begins, at 0.15 s": _states(3, 0.15),
        "a query after seven and a half minutes": _states(9000, 450.013, n_bins=9001),
    },
    mistakes={
        (
            "R(k, tau, omega) @ R(q, t, omega) → k @ q",
            "R(torch.softmax(s, 0) @ R(v, tau, omega), -t, omega) → torch.softmax(s, 0) @ v",
        ): "the states have no position: rotate keys and values by the end of their bin, the query by t.",
        "-t, omega) → 0 * t, omega)": "the sum of the values is still rotated: rotate it back by t.",
        ") + 1) * 0.05 → )) * 0.05": "each state has the time at which its bin begins: it is known when its bin ends.",
        ("max(b - n_seen + 1, 0) → b - n_seen + 1", "[first : b + 1] → [torch.arange(first, b + 1)]"): (
            "wrong at the start of a trial: there a negative index reads its last states."
        ),
    },
)
def read_states(q, t, k, v, b, n_seen, omega):
    """What the query q (d,) at time t in bin b reads from the last n_seen of the states k, v (T, d): shape (d,)."""
    first = max(b - n_seen + 1, 0)  # bins before the first do not exist
    tau = (torch.arange(first, b + 1, dtype=torch.float64) + 1) * 0.05  # (n,): the ends of the bins that are seen
    k, v = k[first : b + 1], v[first : b + 1]  # (n, d) each
    s = R(k, tau, omega) @ R(q, t, omega) / len(q) ** 0.5  # (n,)
    return R(torch.softmax(s, 0) @ R(v, tau, omega), -t, omega)  # (d,)


# Exercise 12.2: the decoder
def published(model: POSSM) -> dict[str, Tensor]:
    """The weights of the package's model, for one session, under the names of the exercise."""
    state = {name: value for name, value in model.state_dict().items() if not name.startswith(("behavior", "rotation"))}
    session = state.pop("session_embedding.weight")[1]
    return state | {"latent": state.pop("encoder.latents")[0], "query": state.pop("task_embedding") + session}


@cache
def _weights() -> dict[str, Tensor]:
    """Of a model of the package, D = 12, d = 16, h = 10, large enough for every part to be seen in the output."""
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        model = POSSM(POSSMConfig(n_units=5, dim=12, head_dim=16, n_freqs=4, hidden=10, reading="softmax"))
        for i, parameter in enumerate(model.parameters()):
            parameter.copy_(0.6 * normal(*parameter.shape, seed=i))
        return published(model)


def _filled(student):
    """An object of the student's class with the weights copied in."""
    decoder = student(5, D=12, d=16, h=10, k=3)
    if not isinstance(decoder, nn.Module):
        raise Complaint("the class is not a torch.nn.Module: it begins with `class Decoder(nn.Module):`.")
    names = {name for name, _ in decoder.named_parameters()}
    if not names:
        raise Complaint(MISSING)
    if differing := sorted(names ^ _weights().keys()):
        raise Complaint(f"parameters that are missing, or not in the table: {', '.join(differing)}.")
    decoder.load_state_dict(_weights(), strict=False)  # it may have buffers
    return decoder


def _stage(name, make):
    """What a method gives of the student's object with the weights copied in."""

    def observe(student, *args):
        method = getattr(_filled(student), name, None)
        result = method(*args) if callable(method) else None
        if result is None:
            raise Complaint(f"`{name}` is not there yet, or returns nothing; the parts before it are right.")
        return result

    return Case(make, observe, 1e-3)


def _gradients(student, padded, times):
    decoder = _filled(student)
    names, parameters = zip(*decoder.named_parameters(), strict=True)
    out = decoder.forward(padded, times)
    weights = torch.linspace(-1, 2, out.numel()).view_as(out)
    gradients = torch.autograd.grad((out * weights).sum(), parameters, materialize_grads=True)
    return {f"`{name}`": gradient.norm() for name, gradient in zip(names, gradients, strict=True)}


def _padded(*tokens_in_bin):
    """Two trials with these numbers of tokens in their bins; 0 is silence, which has the blank token."""
    trial = np.repeat([0, 1], sum(tokens_in_bin))
    bins = np.tile(np.repeat(np.arange(len(tokens_in_bin)), tokens_in_bin), 2)
    rng = np.random.default_rng(12)
    time_s = 0.05 * (bins + rng.random(len(bins)))
    unit = rng.integers(1, 6, len(bins))
    return SpikeBatch.from_events(trial, unit, time_s, n_trials=2, duration_s=0.05 * len(tokens_in_bin)).padded()


def _read(*tokens_in_bin):
    padded = _padded(*tokens_in_bin)
    tokens = normal(*padded.spike_mask.shape, 12)
    return _stage("read", lambda: (tokens.clone(), padded.padded_bin[..., 1].clone(), padded.spike_mask.clone()))


def _ask(*times, n_bins=7):
    return _stage("ask", lambda: (normal(2, n_bins, 10), torch.tensor([times, times[::-1]], dtype=torch.float64)))


def _batch():
    return _padded(3, 0, 2, 5, 1, 1), torch.tensor([[0.012, 0.133, 0.15], [0.27, 0.2, 0.061]], dtype=torch.float64)


class CrossAttention(nn.Module):
    """Queries x at times t read a context at times tau: (12.2) to (12.4)."""

    def __init__(self, D, C, d):
        super().__init__()
        self.norm_query, self.norm_context = nn.LayerNorm(D), nn.LayerNorm(C)
        self.to_q = nn.Linear(D, d, bias=False)
        self.to_kv = nn.Linear(C, 2 * d, bias=False)
        self.to_out = nn.Linear(d, D)
        self.feed_forward = GatedFeedForward(D)
        self.omega = log_spaced_frequencies(d // 4, 1e-4, 10.0)  # (F,): half of the d coordinates

    def rotated(self, x, t):
        return rotate(x, phasors(t, self.omega, x.dtype))

    def forward(self, x, t, context, tau, mask):
        """x (..., Q, D) at t (..., Q), context (..., M, C) at tau (..., M), mask (..., Q, M): (..., Q, D)."""
        q = self.rotated(self.to_q(self.norm_query(x)), t)  # (..., Q, d)
        k, v = self.to_kv(self.norm_context(context)).chunk(2, -1)  # (..., M, d) each
        k, v = self.rotated(k, tau), self.rotated(v, tau)
        scores = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5  # (..., Q, M)
        p = scores.masked_fill(~mask, -torch.inf).softmax(-1)
        return x + self.to_out(self.rotated(p @ v, -t))


def _attention(edit):
    """The decoder with an edit of its cross-attention."""

    def make(n_units, D=64, d=32, h=256, k=3):
        layer, decoder = edited(CrossAttention, (edit,)), Decoder.reference(n_units, D, d, h, k)
        decoder.encoder, decoder.decoder = layer(D, D, d), layer(D, h, d)
        return decoder

    return make


@exercise(
    cases={
        "the parameters": Case(tuple, lambda student: len(list(_filled(student).parameters()))),
        "`embed`": _stage("embed", lambda: (torch.tensor([[[2, 5, 0], [1, 1, 4]]]),)),
        "`read`, of bins with one token": _read(1, 1, 0),
        "`read`, of bins with three tokens": _read(3, 3, 3),
        "`read`, of bins with more tokens and fewer": _read(3, 1, 0, 4),
        "`encode`, after the feed-forward layer": _stage("encode", lambda: _batch()[:1]),
        "`remember`": _stage("remember", lambda: (normal(2, 7, 12),)),
        "`ask`, of the first two bins": _ask(0.012, 0.041, 0.077),
        "`ask`, of the last bin": _ask(0.312, 0.341),
        "`ask`, in the middle of a trial": _ask(0.212, 0.141, 0.163),
        "`ask`, on the edge of two bins": _ask(0.15, 0.3),
        "`ask`, after seven and a half minutes": _ask(450.013, n_bins=9001),
        "`forward`": _stage("forward", _batch),
        "the gradients of the parameters": Case(_batch, _gradients, 1e-3),
    },
    mistakes={
        _attention("x + self.to_out → self.to_out"): (
            "the latent (in `ask`: the query) is not added to what was read: x + to_out(z)."
        ),
        "spike_mask[..., None, :] → torch.ones_like(spike_mask)[..., None, :]": (
            "the padding is read, too: where spike_mask is False, the score must be minus infinity."
        ),
        ", batch_first=True → ": "the GRU runs over the trials, not over the bins: batch_first=True.",
    },
)
class Decoder(nn.Module):
    """Spikes of B trials in, velocity at Q times of each out."""

    def __init__(self, n_units, D=64, d=32, h=256, k=3):
        super().__init__()
        self.unit_embedding = nn.Embedding(n_units + 1, D)
        self.latent = nn.Parameter(0.02 * torch.randn(D))
        self.query = nn.Parameter(torch.zeros(D))
        self.encoder = CrossAttention(D, D, d)
        self.decoder = CrossAttention(D, h, d)
        self.backbone = nn.GRU(D, h, batch_first=True)
        self.readout = nn.Linear(D, 2)
        self.k = k
        nn.init.normal_(self.unit_embedding.weight, std=0.02)

    def embed(self, unit):
        return self.unit_embedding(unit)  # (B, T, S, D)

    def read(self, tokens, offset, spike_mask):
        middle = torch.tensor([0.025], dtype=torch.float64)  # (1,): one latent
        x = self.encoder(self.latent[None], middle, tokens, offset, spike_mask[..., None, :])  # (B, T, 1, D)
        return x.squeeze(-2)

    def encode(self, padded):
        unit, offset = padded.padded_bin.unbind(-1)  # (B, T, S) each, float64
        x = self.read(self.embed(unit.long()), offset, padded.spike_mask)
        return x + self.encoder.feed_forward(x)  # (B, T, D)

    def remember(self, x):
        return self.backbone(x)[0]  # (B, T, h)

    def ask(self, hidden, times):
        b = (times / 0.05 + 1e-6).long()[..., None]  # (B, Q, 1): the bin of each time
        j = torch.arange(hidden.shape[1])  # (T,)
        mask = (j <= b) & (j > b - self.k)  # (B, Q, T)
        query = self.query.expand(*times.shape, -1)  # (B, Q, D)
        y = self.decoder(query, times, hidden, (j.double() + 1) * 0.05, mask)
        return y + self.decoder.feed_forward(y)  # (B, Q, D)

    def forward(self, padded, times):
        return self.readout(self.ask(self.remember(self.encode(padded)), times))  # (B, Q, 2)


# Exercise 12.3: the scale of velocity
def _samples(*train, scale=(100.0, 20.0)):
    """Twelve samples, 0.1 s apart, the last four of them three times as fast and shifted."""

    def make():
        velocity = normal(12, 2, seed=9).double() * torch.tensor(scale, dtype=torch.float64)
        velocity[8:] = 3 * velocity[8:] + torch.tensor(scale, dtype=torch.float64)
        return velocity + 5, torch.arange(12, dtype=torch.float64) / 10, torch.tensor(train, dtype=torch.float64)

    return make


@exercise(
    cases={
        "a session that is all training": _samples((0.0, 1.2)),
        "one training trial and faster trials after it": _samples((0.0, 0.75)),
        "two training trials with another between them": _samples((0.0, 0.35), (0.85, 1.05)),
        "a training trial that stops at the time of a sample": _samples((0.2, 0.7)),
        "a hand in m/s, whose spread is below 1": _samples((0.0, 0.75), scale=(0.2, 0.04)),
        "a hand that never moves along y": _samples((0.0, 0.75), scale=(100.0, 0.0)),
    },
    mistakes={
        "velocity[inside] → velocity": (
            "the test trials have leaked into mean and spread: take the training trials alone."
        ),
        "< train[:, 1] → <= train[:, 1]": "a sample exactly at the stop of a trial does not belong to it.",
        ", correction=0 → ": "slightly too small: torch's std divides by n - 1. Set correction=0.",
        "torch.where(std > 0, std, 1.0) → std.clamp(min=1)": "only a spread of 0 is replaced by 1.",
    },
)
def standardise(velocity, times_s, train):
    """Velocity (T, 2) in standard deviations from the mean, both of the training trials (n, 2): shape (T, 2)."""
    inside = ((times_s[:, None] >= train[:, 0]) & (times_s[:, None] < train[:, 1])).any(1)  # (T,)
    mean, std = velocity[inside].mean(0), velocity[inside].std(0, correction=0)  # (2,) each
    return (velocity - mean) / torch.where(std > 0, std, 1.0)


# Exercise 12.4: the training loop
class _Linear(nn.Module):
    """A decoder in small: ten numbers for a spike, and twice as large an output when it is not in training."""

    def __init__(self):
        super().__init__()
        self.weight, self.slope = (nn.Parameter(normal(*s, seed=3).double()) for s in ((10, 2), (2,)))
        self.eval()

    def forward(self, spikes, times):
        y = spikes @ self.weight + self.slope * times[..., None]  # (B, Q, 2)
        return y if self.training else 2 * y


def _drawn(step, unknown, scale):
    spikes, times = normal(4, 6, 10, seed=2 * step).double(), 0.1 * torch.arange(24).view(4, 6).double()
    target = scale * (0.3 * normal(4, 6, 2, seed=2 * step + 1).double() + spikes[..., :2])
    known = torch.ones(4, 6, dtype=torch.bool)
    if unknown:
        known[:, 3:], target[:, 3:] = False, 40.0
    return 0.1 * spikes, times, 0.1 * target, known


def _losses(losses, model):
    if isinstance(losses, float | Tensor):  # one number in all
        return torch.as_tensor(losses, dtype=torch.float64)
    return torch.tensor([float(value) for value in losses], dtype=torch.float64)


def _learned(losses, model):
    return torch.cat([model.weight.detach().flatten(), model.slope.detach()])


def _steps(n, seen, unknown=False, scales=(1.0,), rates=(0.05,)):
    """What is `seen` of losses and model after n steps; scales of the targets and rates take turns."""

    def make():
        return n, [_drawn(step, unknown, scales[step % len(scales)]) for step in range(2 * n)]

    def observe(student, n, batches):
        model, batches = _Linear(), iter(batches)
        return seen(student(model, lambda: next(batches), n, lambda step: rates[step % len(rates)]), model)

    return Case(make, observe)


TARGET_R2 = 0.5  # of the validation trials; the right answer has 0.65 after these steps
SHORT = {"n_steps": 60, "peak": 2e-3, "window_s": 0.75, "samples": 10, "batch": 16}


def short_training(train) -> float:
    """R² on the validation trials of a decoder of exercise 12.2 that was trained briefly by this loop."""
    session = prepare(load_recording(Path(__file__).parents[2] / "data" / "simulated_session.npz"))
    ((start, stop),), rng = session.segments("train"), np.random.default_rng(0)
    mean, std = torch.from_numpy(session.mean), torch.from_numpy(session.std)
    n_steps, warm_up = SHORT["n_steps"], SHORT["n_steps"] // 10

    def draw():
        starts = start + rng.random(SHORT["batch"]) * (stop - start - SHORT["window_s"])
        batch = session.cut(starts, SHORT["window_s"])
        batch = batch.with_samples(np.sort(rng.permutation(batch.times_s.shape[1])[: SHORT["samples"]]))
        return batch.padded(), batch.times_s, ((batch.behavior - mean) / std).float(), batch.mask

    def rate(step):
        cosine = (1 + np.cos(np.pi * (step - warm_up) / (n_steps - warm_up))) / 2
        return SHORT["peak"] * ((step + 1) / warm_up if step < warm_up else cosine)

    torch.manual_seed(0)
    decoder = Decoder.reference(session.recording.n_units, h=128)
    train(decoder, draw, n_steps, rate)
    ((start, stop),) = session.segments("valid")
    batch = session.cut(start, stop - start)
    with torch.no_grad():
        decoded = decoder(batch.padded(), batch.times_s)[0]
    return mean_r2(batch.behavior[0].numpy(), (mean + std * decoded).numpy())


class TrainingCheck(Check):
    """Compares single steps with the right ones, then trains a decoder for seconds and asks for a fair R²."""

    def fault(self, student) -> str | None:
        if fault := super().fault(student):
            return fault
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        with torch.random.fork_rng(devices=[]), torch.enable_grad():
            r2 = run(lambda: short_training(student))
        torch.set_num_threads(threads)
        if isinstance(r2, Failure) or not r2 >= TARGET_R2:
            wanted = getattr(r2, "message", f"validation R² is {r2}, at least {TARGET_R2} is wanted.")
            return f"single steps are right. In {SHORT['n_steps']} steps with a real decoder: {wanted}"
        return None


def train(model, draw, n_steps, rate):
    """Train the model in place, and return the loss of every step."""
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), weight_decay=0.01)
    losses = []
    for step in range(n_steps):
        optimizer.param_groups[0]["lr"] = rate(step)
        spikes, times, target, known = draw()
        error = model(spikes, times) - target  # (B, Q, 2)
        loss = error[known].square().mean()
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
    return losses


train = TrainingCheck(
    train,
    cases={
        "the loss of one step": _steps(1, _losses),
        "the loss of a step with samples that are not known": _steps(1, _losses, unknown=True),
        "the weights after one step": _steps(1, _learned),
        "the losses of ten steps": _steps(10, _losses),
        "the weights after ten steps": _steps(10, _learned),
        "rates that differ from step to step": _steps(10, _learned, rates=(0.002, 0.05, 0.03, 0.01)),
        "steps with large gradients and small ones": _steps(12, _learned, scales=(1.0, 300.0, 20.0)),
    },
    mistakes={
        "        optimizer.zero_grad()\n → ": "the gradients of all steps add up: zero_grad() in each step.",
        "error[known] → error": "samples that are not known take part in the loss: error[known].",
        "model.train() → model.eval()": "the mode of the model is that of decoding: begin with model.train().",
        "        nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n → ": (
            "the gradient is not clipped: do it between backward() and step()."
        ),
    },
)
