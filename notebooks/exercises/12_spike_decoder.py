"""Exercises of chapter 12: the query that reads the last states, the decoder, the scale of velocity, the training."""

from functools import cache, partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from possm_lite.blocks.attention import masked_softmax
from possm_lite.blocks.feedforward import GatedFeedForward
from possm_lite.blocks.positions import log_spaced_frequencies, phasors, rotate
from possm_lite.classroom.checks import Case, Check, Verdict, normal
from possm_lite.classroom.checks.sandbox import MISSING, Failure, run
from possm_lite.decoder import POSSM, POSSMConfig
from possm_lite.spikes import SpikeBatch, load_recording
from possm_lite.training import prepare
from possm_lite.training.evaluate import mean_r2

# Exercise 12.1: the second query


def _window(b, n_seen, n_bins):
    return range(max(b - n_seen + 1, 0), b + 1)


def _read(
    q,
    t,
    k,
    v,
    b,
    n_seen,
    omega,
    *,
    bins=_window,
    time=lambda j: 0.05 * (j + 1),
    rows=lambda x, j: x[j],
    keys=True,
    values=True,
    back=True,
):
    """Equation (12.7). Keys (with the query), values and their sum are rotated where `keys`, `values`, `back`."""

    def rotated(x, t):
        return rotate(x, phasors(t, omega, x.dtype))

    j = torch.tensor([*bins(b, n_seen, len(k))], dtype=torch.int64)
    k, v, tau = rows(k, j), rows(v, j), time(j.double())
    if keys:
        q, k = rotated(q, t), rotated(k, tau)
    z = torch.softmax(k @ q / len(q) ** 0.5, 0) @ (rotated(v, tau) if values else v)
    return rotated(z, -t) if back else z


def _padded_with_zeros(x, j):
    return torch.where(j[:, None] >= 0, x[j.clamp(min=0)], 0.0)


def _states(b, t, n_seen=3, n_bins=6):
    """Vectors of six numbers of which four are rotated, a query at time t in bin b."""

    def make():
        q, k, v = (normal(*shape, seed=12 + i).double() for i, shape in enumerate(((6,), (n_bins, 6), (n_bins, 6))))
        omega = 2 * torch.pi / torch.tensor([0.09, 0.7], dtype=torch.float64)
        return 2 * q, torch.tensor(t, dtype=torch.float64), k, v, b, n_seen, omega

    return make


read_states = Check(
    "read_states",
    reference=_read,
    cases=[
        Case("a query that sees three bins", _states(4, 0.213)),
        Case("a query that sees its own bin alone", _states(4, 0.213, n_seen=1)),
        Case("a query at the very end of the last bin", _states(5, 0.299)),
        Case("a query in the first bin, which has none before it", _states(0, 0.012)),
        Case("a query in the second bin", _states(1, 0.071)),
        Case("a query just as its bin begins, at 0.15 s", _states(3, 0.15)),
        Case("a query after seven and a half minutes", _states(9000, 450.013, n_bins=9001)),
    ],
    traps={
        "the states have no position: swap two of them and the result is the same. Rotate keys and values by the end "
        "of their bin, and the query by t.": partial(_read, keys=False, values=False, back=False),
        "the keys are not rotated, so the weights ignore the order of the states.": partial(_read, keys=False),
        "the values are not rotated, only the keys are.": partial(_read, values=False, back=False),
        "the sum of the values is still rotated: rotate it back by t.": partial(_read, back=False),
        "each state has the time at which its bin begins. It contains the spikes of the whole bin, so its time is "
        "the end of the bin.": partial(_read, time=lambda j: 0.05 * j),
        "each state has the number of its bin as its time: use seconds.": partial(_read, time=lambda j: j),
        "the query reads all states, even those after its own bin. They are in the future: a decoder in real time "
        "does not have them yet.": partial(_read, bins=lambda b, n, N: range(N)),
        "the query reads all states from the first bin on, however many there are. It sees n_seen of them, its own "
        "included.": partial(_read, bins=lambda b, n, N: range(b + 1)),
        "one state too many is read. The state of bin b is one of them, so the n_seen bins begin with "
        "b - n_seen + 1.": partial(_read, bins=lambda b, n, N: range(max(b - n, 0), b + 1)),
        "time starts anew at the first state that is seen. It is the time in the trial: bin j ends at "
        "(j + 1) 0.05 s.": partial(_read, time=lambda j: 0.05 * (j - j[0] + 1)),
        "the query does not read the state of its own bin, which is the newest: the last one to read is b, "
        "not b - 1.": partial(_read, bins=lambda b, n, N: range(max(b - n, 0), b)),
        "right in the middle of a trial, wrong at its start: a slice that begins at a negative number counts from "
        "the other end, and comes out empty.": partial(_read, bins=lambda b, n, N: range(N)[b - n + 1 : b + 1]),
        "right in the middle of a trial, wrong at its start: a negative index counts from the other end, so the first "
        "bins read the last ones.": partial(_read, bins=lambda b, n, N: (j % N for j in range(b - n + 1, b + 1))),
        "right in the middle of a trial, wrong at its start: there a negative index reads the last states of the "
        "trial, at times that do not exist.": partial(_read, bins=lambda b, n, N: range(b - n + 1, b + 1)),
        "right in the middle of a trial, wrong at its start: bins before the first were filled up with zeros. A row of "
        "zeros has the score 0, not minus infinity, and takes a share of the weight.": partial(
            _read, bins=lambda b, n, N: range(b - n + 1, b + 1), rows=_padded_with_zeros
        ),
        "right early in a trial, wrong after minutes: the ends of the bins were rounded to float32. A tensor of whole "
        "numbers times 0.05 is float32 in torch; call .double() on it before.": partial(
            _read, time=lambda j: (0.05 * (j.float() + 1)).double()
        ),
        "right in the middle of a trial, wrong at its start: bins before the first do not exist, so the first bin is "
        "not repeated for them.": partial(_read, bins=lambda b, n, N: (max(j, 0) for j in range(b - n + 1, b + 1))),
        "the scores are too large: divide by the root of the size d.": lambda q, *rest: _read(q * len(q) ** 0.5, *rest),
        "the scores are too small: divide by the root of the size d, not by d.": lambda q, *rest: _read(
            q / len(q) ** 0.5, *rest
        ),
        "the query has the time at which its bin ends. It has its own time, t.": lambda q, t, k, v, b, *rest: _read(
            q, 0.05 * (b + 1) + 0 * t, k, v, b, *rest
        ),
    },
)


# Exercise 12.2: the decoder


class _CrossAttention(nn.Module):
    """A right answer, and with names of mistakes in `wrong` a wrong one; so is `_Decoder`."""

    def __init__(self, D, C, d, wrong):
        super().__init__()
        self.norm_query, self.norm_context = nn.LayerNorm(D), nn.LayerNorm(C)
        self.to_q, self.to_kv = nn.Linear(D, d, bias=False), nn.Linear(C, 2 * d, bias=False)
        self.to_out, self.feed_forward = nn.Linear(d, D), GatedFeedForward(D)
        self.omega, self.wrong = log_spaced_frequencies(d // 4, 1e-4, 10.0), wrong

    def forward(self, x, t, context, tau, mask):
        wrong = self.wrong
        q = self.to_q(x if "query not normalised" in wrong else self.norm_query(x))
        k, v = self.to_kv(context if "context not normalised" in wrong else self.norm_context(context)).chunk(2, -1)
        k, v = (v, k) if "swapped" in wrong else (k, v)
        if "keys" not in wrong:
            q, k = self.rotated(q, t), self.rotated(k, tau)
        scores = q @ k.transpose(-1, -2) / (1 if "scale" in wrong else q.shape[-1] ** 0.5)
        p = scores.softmax(-1) if "mask" in wrong else masked_softmax(scores, mask)
        z = p @ (v if "values" in wrong else self.rotated(v, tau))
        z = self.to_out(z if "back" in wrong or "values" in wrong else self.rotated(z, -t))
        return z if "residual" in wrong else x + z

    def rotated(self, x, t):
        return rotate(x, phasors(t, self.omega, x.dtype))


class _Decoder(nn.Module):
    def __init__(self, n_units, D=64, d=32, h=256, k=3, wrong=()):
        super().__init__()
        self.unit_embedding = nn.Embedding(n_units + 1, D, padding_idx=0 if "no blank" in wrong else None)
        self.latent, self.query = nn.Parameter(0.02 * torch.randn(D)), nn.Parameter(torch.zeros(D))
        self.encoder, self.decoder = _CrossAttention(D, D, d, wrong), _CrossAttention(D, h, d, wrong)
        self.backbone = nn.GRU(D, h, batch_first="time" not in wrong)
        self.readout = nn.Linear(D, 2)
        self.k, self.wrong = k, wrong
        nn.init.normal_(self.unit_embedding.weight, std=0.02)

    def embed(self, unit):
        return self.unit_embedding((unit - 1).clamp(min=0) if "row" in self.wrong else unit)

    def read(self, tokens, offset, spike_mask):
        middle = offset.new_full((1,), 0.0 if "middle" in self.wrong else 0.025)
        return self.encoder(self.latent[None], middle, tokens, offset, spike_mask[..., None, :]).squeeze(-2)

    def encode(self, padded):
        unit, offset = padded.padded_bin.unbind(-1)
        x = self.read(self.embed(unit.long()), offset, padded.spike_mask)
        return self.after(self.encoder.feed_forward, x)

    def after(self, feed_forward, x):
        if "no feed-forward" in self.wrong:
            return x
        return feed_forward(x) if "no second residual" in self.wrong else x + feed_forward(x)

    def remember(self, x):
        return self.backbone(x)[0]

    def ask(self, hidden, times):
        wrong = self.wrong
        b = (times / 0.05 + (0 if "edge" in wrong else 1e-6)).long()[..., None]
        j = torch.arange(hidden.shape[1])
        seen = (j > b - self.k - int("one too many" in wrong)) & ((j <= b) | ("future" in wrong))
        ends = (j.float() + 1) * 0.05 if "float32" in wrong else (j.double() + ("begin" not in wrong)) * 0.05
        x = self.query.expand(*times.shape, -1)
        layer = self.encoder if "other layer" in wrong else self.decoder
        return self.after(layer.feed_forward, self.decoder(x, times, hidden, ends, seen | ("all states" in wrong)))

    def forward(self, padded, times):
        return self.readout(self.ask(self.remember(self.encode(padded)), times))


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


def _filled(make):
    """An object of the student's class with the weights copied in; else the failure is recorded and raised."""

    def fail(message):
        make.failure = make.failure or (message if isinstance(message, Failure) else Failure(message, message))
        raise RuntimeError

    decoder, weights = make(5, D=12, d=16, h=10, k=2), _weights()
    if not isinstance(decoder, nn.Module):
        fail("the class is not a torch.nn.Module: it begins with `class Decoder(nn.Module):`.")
    own = dict(decoder.named_parameters())
    if not own:
        fail(MISSING)
    for name, value in weights.items():
        if name not in own:
            fail(f"there is no parameter `{name}`, or it has another name; it has {_told(value)}.")
        if own[name].shape != value.shape:
            sizes = f"{_told(own[name])}, expected {_told(value)} (here D = 12, d = 16, h = 10)"
            fail(f"the parameter `{name}` has {sizes}.")
    for name in own.keys() - weights.keys():
        fail(f"the parameter `{name}` is not in the table: a bias too many, or a constant that is not learned?")
    with torch.no_grad():
        for name, value in weights.items():
            own[name].copy_(value)
    return decoder


def _told(value: Tensor) -> str:
    return f"the shape {tuple(value.shape)}"


def _stage(name, *args):
    """What a method gives of the student's object with the weights copied in."""

    def observe(make, *args):
        decoder = _filled(make)
        method = getattr(decoder, name, None)
        result = method(*args) if callable(method) else None
        if result is None or result is ...:
            message = f"`{name}` is not there yet, or returns nothing; the parts before it are right."
            make.failure = make.failure or Failure(message, message)
        return result

    return observe


def _parameters(make):
    return len(list(_filled(make).parameters()))


def _gradients(make, padded, times):
    decoder = _filled(make)
    out = decoder.forward(padded, times)
    if out.requires_grad:
        (out * torch.linspace(-1, 2, out.numel()).view_as(out)).sum().backward()
    gradients = {name: p.grad for name, p in sorted(decoder.named_parameters())}
    silent = [name for name, grad in gradients.items() if grad is None or not grad.any()]
    if silent:
        message = f"the outputs are right, but no gradient reaches `{silent[0]}`: was something detached on the way?"
        make.failure = make.failure or Failure(message, message)
        raise RuntimeError
    return torch.stack([grad.norm() for grad in gradients.values()])


def _padded(*tokens_in_bin):
    """Two trials with these numbers of tokens in their bins; 0 is silence, which has the blank token."""
    trial = np.repeat([0, 1], sum(tokens_in_bin))
    bins = np.tile(np.repeat(np.arange(len(tokens_in_bin)), tokens_in_bin), 2)
    rng = np.random.default_rng(12)
    time_s = 0.05 * (bins + rng.random(len(bins)))
    unit = rng.integers(1, 6, len(bins))
    return SpikeBatch.from_events(trial, unit, time_s, n_trials=2, duration_s=0.05 * len(tokens_in_bin)).padded()


def _spikes(*tokens_in_bin):
    """The arguments of `read`."""

    def make():
        padded = _padded(*tokens_in_bin)
        return normal(*padded.spike_mask.shape, 12), padded.padded_bin[..., 1], padded.spike_mask

    return make


def _hidden(*times, n_bins=7):
    return lambda: (normal(2, n_bins, 10), torch.tensor([times, times[::-1]], dtype=torch.float64))


def _batch():
    return _padded(3, 0, 2, 5, 1, 1), torch.tensor([[0.012, 0.133, 0.15], [0.27, 0.2, 0.061]], dtype=torch.float64)


Decoder = Check(
    "Decoder",
    reference=_Decoder,
    cases=[
        Case("the parameters", tuple, _parameters),
        Case("`embed`", lambda: (torch.tensor([[[2, 5, 0], [1, 1, 4]]]),), _stage("embed")),
        Case("`read`, of bins with one token", _spikes(1, 1, 0), _stage("read"), 1e-3),
        Case("`read`, of bins with three tokens", _spikes(3, 3, 3), _stage("read"), 1e-3),
        Case("`read`, of bins with more tokens and fewer", _spikes(3, 1, 0, 4), _stage("read"), 1e-3),
        Case("`encode`, after the feed-forward layer", lambda: _batch()[:1], _stage("encode"), 1e-3),
        Case("`remember`", lambda: (normal(2, 7, 12),), _stage("remember"), 1e-3),
        Case("`ask`, of the first bin", _hidden(0.012, 0.041), _stage("ask"), 1e-3),
        Case("`ask`, of the last bin", _hidden(0.312, 0.341), _stage("ask"), 1e-3),
        Case("`ask`, in the middle of a trial", _hidden(0.212, 0.141, 0.163), _stage("ask"), 1e-3),
        Case("`ask`, on the edge of two bins", _hidden(0.15, 0.3), _stage("ask"), 1e-3),
        Case("`ask`, after seven and a half minutes", _hidden(450.013, n_bins=9001), _stage("ask"), 1e-3),
        Case("`forward`", _batch, _stage("forward"), 1e-3),
        Case("the gradients of the parameters", _batch, _gradients, 1e-3),
    ],
    traps={
        message: partial(_Decoder, wrong=(wrong,))
        for wrong, message in {
            "row": "`embed` reads the row before: row 0 is the blank token, and unit u has row u.",
            "residual": "the latent (in `ask`: the query) is not added to what was read: x + to_out(z).",
            "query not normalised": "the latent goes into to_q as it is: LN first, norm_query.",
            "context not normalised": "the tokens go into to_kv as they are: LN first, norm_context.",
            "swapped": "keys and values are exchanged: the first half of what to_kv gives are the keys.",
            "values": "the values are not rotated, only the keys are.",
            "back": "the sum of the values is still rotated: rotate it back by the time of the query.",
            "keys": "queries and keys are not rotated: the weights do not depend on when a spike came.",
            "middle": "the latent reads from the beginning of its bin: its time is the middle, 0.025 s.",
            "scale": "the scores are too large: divide by the root of d, the size of the keys.",
            "mask": "the padding is read, too: where spike_mask is False, the score must be minus infinity.",
            "no feed-forward": "the feed-forward layer is missing after the reading.",
            "no second residual": "what goes into the feed-forward layer is not added to what comes out: x + f(x).",
            "time": "the GRU runs over the trials, not over the bins: batch_first=True.",
            "other layer": "`ask` ends in the feed-forward layer of the encoder: it is that of `decoder`.",
            "begin": "in `ask` a state has the time at which its bin begins. It is complete when the bin ends.",
            "future": "`ask` reads states after the bin of the query: they are in the future.",
            "all states": "`ask` reads all states: those of its own bin and the k - 1 before it are enough.",
            "one too many": "`ask` reads one state too many: k are read, that of its own bin included.",
            "edge": "a time on the edge of two bins is assigned to the earlier one: 0.15 / 0.05 is 2.9999999999999996. "
            "Add 1e-6 before you round down.",
            "no blank": "all is right but one gradient: with padding_idx=0 the blank token never learns. It is a token "
            "like the others; the padding is what spike_mask leaves out.",
            "float32": "right early in a trial, wrong after minutes: the ends of the bins were rounded to float32. A "
            "tensor of whole numbers times 0.05 is float32 in torch; call .double() on it before.",
        }.items()
    },
)


# Exercise 12.3: the scale of velocity


def _scaled(
    velocity,
    times_s,
    train,
    *,
    inside=lambda t, train: ((t >= train[:, :1]) & (t < train[:, 1:])).any(0),
    mean=lambda v: v.mean(0),
    std=lambda v: v.std(0, correction=0),
    without_zeros=lambda std: torch.where(std > 0, std, 1.0),
):
    v = velocity[inside(times_s, train)]
    return (velocity - mean(v)) / without_zeros(std(v))


def _samples(*train, scale=(100.0, 20.0)):
    """Twelve samples, 0.1 s apart, the last four of them three times as fast and shifted."""

    def make():
        velocity = normal(12, 2, seed=9).double() * torch.tensor(scale, dtype=torch.float64) + 5
        velocity[8:] = 3 * velocity[8:] + torch.tensor(scale, dtype=torch.float64)
        return velocity, torch.arange(12, dtype=torch.float64) / 10, torch.tensor(train, dtype=torch.float64)

    return make


standardise = Check(
    "standardise",
    reference=_scaled,
    cases=[
        Case("a session that is all training", _samples((0.0, 1.2))),
        Case("one training trial and faster trials after it", _samples((0.0, 0.75))),
        Case("two training trials with another between them", _samples((0.0, 0.35), (0.85, 1.05))),
        Case("a training trial that stops at the time of a sample", _samples((0.2, 0.7))),
        Case("a hand in m/s, whose spread is below 1", _samples((0.0, 0.75), scale=(0.2, 0.04))),
        Case("a hand that never moves along y", _samples((0.0, 0.75), scale=(100.0, 0.0))),
    ],
    traps={
        "mean and spread are those of the whole session: what the test trials look like has leaked in. Take them from "
        "the training trials alone.": partial(_scaled, inside=lambda t, train: t >= 0),
        "mean and spread are taken from the first start to the last stop: what lies between training trials is not "
        "training.": partial(_scaled, inside=lambda t, train: (t >= train.min()) & (t < train.max())),
        "a sample exactly at the stop of a trial does not belong to it, but to what comes next: start <= time < "
        "stop.": partial(_scaled, inside=lambda t, train: ((t >= train[:, :1]) & (t <= train[:, 1:])).any(0)),
        "one spread for both axes: each axis has its own.": partial(_scaled, std=lambda v: v.std(correction=0)),
        "divided by the variance: take its root.": partial(_scaled, std=lambda v: v.var(0, correction=0)),
        "the mean is still in it: subtract it before you divide.": partial(_scaled, mean=lambda v: 0.0),
        "slightly too small: torch's std divides by n - 1. Set correction=0.": partial(_scaled, std=lambda v: v.std(0)),
        "right for a spread above 1, but a smaller one was replaced by 1, too: only a spread of 0 is.": partial(
            _scaled, without_zeros=lambda std: std.clamp(min=1.0)
        ),
        "right until a hand never moves along an axis: its spread is 0 there, and nothing can be divided by 0. "
        "Divide by 1 there.": partial(_scaled, without_zeros=lambda std: std),
    },
)


# Exercise 12.4: the training loop

_adamw = partial(torch.optim.AdamW, weight_decay=0.01)


def _train(
    model,
    draw,
    n_steps,
    rate,
    *,
    optimizer=_adamw,
    loss=lambda error, known: error[known].square().mean(),
    clip=lambda parameters: nn.utils.clip_grad_norm_(parameters, 1.0),
    late=0,
    mode=nn.Module.train,
    wrong="",
):
    mode(model)
    optimizer, losses, batch = optimizer(model.parameters(), lr=rate(0)), [], None
    for step in range(n_steps):
        if wrong == "new optimizer":
            optimizer = _adamw(model.parameters())
        optimizer.param_groups[0]["lr"] = rate(max(step - late, 0))
        batch = batch if batch and wrong == "one batch" else draw()
        spikes, times, target, known = batch
        value = loss(model(spikes, times) - target, known)
        if wrong != "accumulates":
            optimizer.zero_grad()
        value.backward()
        if wrong == "forgets":
            optimizer.zero_grad()
        clip(model.parameters())
        optimizer.step()
        losses.append(value.item())
    return losses


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


def _steps(n, unknown=False, scales=(1.0,), rates=(0.05,)):
    def make():
        batches = [_drawn(step, unknown, scales[step % len(scales)]) for step in range(2 * n)]
        return n, batches, list(rates)

    return make


def _fitted(train, n, batches, rates):
    model, batches = _Linear(), iter(batches)
    losses = train(model, lambda: next(batches), n, lambda step: rates[step % len(rates)])
    return losses, model


def _losses(train, *args):
    losses = _fitted(train, *args)[0]
    if isinstance(losses, float) or (isinstance(losses, Tensor) and losses.ndim == 0):  # one number in all
        return torch.tensor(float(losses), dtype=torch.float64)
    return torch.tensor([float(value) for value in losses], dtype=torch.float64)


def _learned(train, *args):
    model = _fitted(train, *args)[1]
    return torch.cat([model.weight.detach().flatten(), model.slope.detach()])


TARGET_R2 = 0.5  # of the validation trials; the reference has 0.65 after these steps
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
    decoder = _Decoder(session.recording.n_units, h=128)
    train(decoder, draw, n_steps, rate)
    ((start, stop),) = session.segments("valid")
    batch = session.cut(start, stop - start)
    with torch.no_grad():
        decoded = decoder(batch.padded(), batch.times_s)[0]
    return mean_r2(batch.behavior[0].numpy(), (mean + std * decoded).numpy())


class TrainingCheck(Check):
    """Compares single steps with the right ones, then trains a decoder for seconds and asks for a fair R²."""

    def examine(self, student) -> Verdict:
        _adamw([nn.Parameter(torch.zeros(1))])  # torch's first optimizer imports for seconds, which no student used up
        verdict = super().examine(student)
        if verdict.status != "right":
            return verdict
        threads = torch.get_num_threads()
        try:
            torch.set_num_threads(1)
            with torch.random.fork_rng(devices=[]), torch.enable_grad():
                r2, failure = run(lambda: short_training(student), seconds=120.0)
        finally:
            torch.set_num_threads(threads)
        if failure or not r2 >= TARGET_R2:
            told = failure.message if failure else f"validation R² is {r2:.2f}, at least {TARGET_R2} is wanted."
            told = f"single steps are right. In {SHORT['n_steps']} steps with a real decoder: {told}"
            return Verdict("wrong", f"✗ {self.name}: {told}")
        return verdict


train = TrainingCheck(
    "train",
    reference=_train,
    cases=[
        Case("the loss of one step", _steps(1), _losses),
        Case("the loss of a step with samples that are not known", _steps(1, unknown=True), _losses),
        Case("the weights after one step", _steps(1), _learned),
        Case("the losses of ten steps", _steps(10), _losses),
        Case("the weights after ten steps", _steps(10), _learned),
        Case("rates that differ from step to step", _steps(10, rates=(0.002, 0.05, 0.03, 0.01)), _learned),
        Case("steps with large gradients and small ones", _steps(12, scales=(1.0, 300.0, 20.0)), _learned),
    ],
    traps={
        "the gradients of all steps add up: call optimizer.zero_grad() in each step, before backward().": partial(
            _train, wrong="accumulates"
        ),
        "the gradients are set to zero between backward() and step(), so nothing is learned.": partial(
            _train, wrong="forgets"
        ),
        "samples that are not known take part in the loss: error[known].": partial(
            _train, loss=lambda error, known: error.square().mean()
        ),
        "samples that are not known count as errors of zero: divide by the number of known ones.": partial(
            _train, loss=lambda error, known: (error * known[..., None]).square().mean()
        ),
        "the squares are added up: the loss is their mean.": partial(
            _train, loss=lambda error, known: error[known].square().sum()
        ),
        "the squares of the two axes are added up: the loss is the mean over both axes, too.": partial(
            _train, loss=lambda error, known: error[known].square().sum(-1).mean()
        ),
        "the loss is the root of (12.8): leave the mean of the squares as it is.": partial(
            _train, loss=lambda error, known: error[known].square().mean().sqrt()
        ),
        "the loss takes absolute values: square the errors.": partial(
            _train, loss=lambda error, known: error[known].abs().mean()
        ),
        "the mode of the model is that of decoding: model.train() comes before the first step.": partial(
            _train, mode=nn.Module.eval
        ),
        "weights do not decay: this looks like Adam, or like weight_decay=0.": partial(
            _train, optimizer=torch.optim.Adam
        ),
        "the decay went into the gradient, as in Adam: AdamW takes it from the weights themselves.": partial(
            _train, optimizer=partial(torch.optim.Adam, weight_decay=0.01)
        ),
        "this looks like plain gradient descent, SGD: AdamW is wanted.": partial(_train, optimizer=torch.optim.SGD),
        "every step sees the first batch: call draw() in each step.": partial(_train, wrong="one batch"),
        "all steps are as long as the first one: set the learning rate of each step, rate(step).": partial(
            _train, late=10**6
        ),
        "the learning rate comes one step late: step i has rate(i), from 0.": partial(_train, late=1),
        "the learning rate comes one step early: step i has rate(i), from 0.": partial(_train, late=-1),
        "each step makes a new optimizer, which knows nothing of the steps before: make one, before the loop.": partial(
            _train, wrong="new optimizer"
        ),
        "the weights and the offsets are clipped one tensor at a time: clip the length of all of them together, in one "
        "call.": partial(_train, clip=lambda p: [nn.utils.clip_grad_norm_(tensor, 1.0) for tensor in p]),
        "the gradient is not clipped: do it between backward() and step().": partial(_train, clip=lambda p: None),
        "each number of the gradient is clipped for itself: clip the length of the whole, clip_grad_norm_.": partial(
            _train, clip=lambda p: nn.utils.clip_grad_value_(p, 1.0)
        ),
    },
)
