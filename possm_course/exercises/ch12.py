"""Exercises of chapter 12: a decoder in five stages, and the loop that trains it."""

import torch
from torch import Tensor, nn

from possm_course.checks import MISSING, Case, Complaint, exercise, gradient, normal
from possm_lite.decoder import POSSM, POSSMConfig
from possm_lite.nn.positions import log_spaced_frequencies, phasors, rotate

# What a `Decoder` calls its parts, and where the package's model has them; `query` is its task and session embedding
NAMES = {
    "embed.table": "unit_embedding",
    "latent": "encoder.latents",
    "read_spikes": "encoder",
    "mix_spikes": "encoder.feed_forward",
    "remember.gru": "backbone",
    "query": "task_embedding",
    "read_states": "decoder",
    "mix_states": "decoder.feed_forward",
    "readout": "readout",
}


def _of_package(name: str) -> str:
    """The package's name of a weight of a `Decoder`."""
    parts = [part for part in NAMES if name.startswith(part)]
    longest = max(parts, key=len)
    return NAMES[longest] + name.removeprefix(longest)


def published(model: POSSM, decoder: nn.Module) -> dict[str, Tensor]:
    """The weights of the package's model under the names of a `Decoder`.

    Args:
        model: Of one session.
        decoder: A `Decoder` of the same sizes, for its names.

    Returns:
        Name -> weight, for the `load_state_dict` of the decoder.
    """
    state = model.state_dict()
    state["task_embedding"] = model.task_embedding + model.session_embedding.weight[1]
    return {name: state[_of_package(name)].detach() for name, _ in decoder.named_parameters()}


def as_package(decoder: nn.Module, mean, std) -> POSSM:
    """The way back: the package's model with the weights of a `Decoder`.

    Args:
        decoder: A trained `Decoder`.
        mean: Of the velocity that it was trained on, (2,).
        std: Its spread, (2,), in the same unit.

    Returns:
        A model of one session, for decoding: `eval()` has been called.
    """
    weights = {_of_package(name): weight.detach() for name, weight in decoder.named_parameters()}
    rows, dim = weights["unit_embedding.weight"].shape  # units and the blank token
    head_dim = len(weights["encoder.to_q.weight"])
    config = POSSMConfig(
        rows - 1,
        context_bins=decoder.k,
        reading="softmax",
        dim=dim,
        head_dim=head_dim,
        n_freqs=head_dim // 4,
        hidden=weights["decoder.norm_context.weight"].numel(),
    )
    model = POSSM(config)
    model.load_state_dict(weights, strict=False)  # all but the session's own numbers
    model.session_embedding.weight.data.zero_()
    model.behavior_mean[1] = torch.as_tensor(mean)
    model.behavior_std[1] = torch.as_tensor(std)
    return model.eval()


# What the stages share: a class of the student's, filled with known weights
def _filled(student, *sizes):
    """An object of the student's class with known weights, large enough for every part to be seen."""
    module = student(*sizes)
    kinds = [kind for part in module.modules() for kind in type(part).__mro__]
    if any(kind.__module__.startswith("possm_lite.") for kind in kinds):
        raise Complaint("a layer of possm_lite is in it: this is the one that you are asked to write.")
    parameters = dict(module.named_parameters())
    if not parameters:
        raise Complaint(MISSING)
    for i, name in enumerate(sorted(parameters)):
        parameters[name].data = 0.6 * normal(*parameters[name].shape, seed=i)
    return module


def _module(make, *sizes, call=lambda module, *args: module(*args)):
    """What an object of the student's class, of these sizes, gives."""

    def observe(student, *args):
        result = call(_filled(student, *sizes), *args)
        if result is None:
            raise Complaint(MISSING)
        return result

    return Case(make, observe, 1e-3)


def _gradients(make, *sizes):
    """A case that observes the size of the gradient of each weight, by its name."""

    def call(module, *args):
        out = module(*args)
        if isinstance(out, tuple | list):
            out = out[0]
        if not isinstance(out, Tensor):
            return None
        parameters = dict(sorted(module.named_parameters()))
        weighed = (out * torch.linspace(-1, 2, out.numel()).view_as(out)).sum()
        gradients = torch.autograd.grad(weighed, list(parameters.values()), materialize_grads=True)
        return {f"`{name}`": gradient.norm() for name, gradient in zip(parameters, gradients, strict=True)}

    case = _module(make, *sizes, call=call)
    return Case(make, _named_gradients(case.observe), 1e-3)


def _named_gradients(observe):
    """The same `observe` under a name by which a check knows that gradients are observed."""

    def gradients(student, *args):
        return observe(student, *args)

    return gradients


def _input_gradients(make, sizes, *arguments, call=lambda module, *args: module(*args)):
    """A case that observes the gradients by some of the arguments, counted from 0: those that must learn."""

    def gradients(student, *args):
        module = _filled(student, *sizes)
        return gradient(*arguments)(lambda *given: call(module, *given), *args)

    return Case(make, gradients, 1e-3)


def _parameters(*sizes):
    """Names and shapes of the parameters, in one string."""

    def named(module):
        return ", ".join(f"{name} {tuple(p.shape)}" for name, p in sorted(module.named_parameters()))

    return _module(tuple, *sizes, call=named)


# Exercise 12.1: embed
def _tokens(*units):
    """Makes one bin of spikes of these units, 11 ms apart: (1, 1, n, 2)."""
    spikes = [(unit, 0.011 * i) for i, unit in enumerate(units)]
    return lambda: (torch.tensor([[spikes]], dtype=torch.float64),)


@exercise(
    cases={
        "a bin with three tokens": _module(_tokens(3, 1, 2), 5, 12),
        "the blank token, unit 0": _module(_tokens(0, 4), 5, 12),
        "the last unit": _module(_tokens(5, 5), 5, 12),
        "the gradients of the parameters": _gradients(_tokens(0, 4), 5, 12),
        "the names and shapes of its parameters": _parameters(5, 12),
    },
    mistakes={
        "n_units + 1, D → n_units + 1, D, padding_idx=0": "row 0 learns, too: without `padding_idx`.",
        "n_units + 1, D → n_units, D": "unit U has no row. Units count from 1, and row 0 is the blank: U + 1 rows.",
        "unit.long() → unit": "a row is looked up by a whole number, and `padded_bin` is float64: `.long()`.",
        "unit.long() → unit.long() - 1": "unit u has the row of the unit before it: row 0 is the blank.",
        "unit, offset = padded_bin.unbind(-1) → offset, unit = padded_bin.unbind(-1)": (
            "unit and offset have changed places: the unit is the first of the two numbers."
        ),
        "return self.table(unit.long()), offset → return offset, self.table(unit.long())": (
            "the results have changed places: the vectors come first."
        ),
        (
            "return self.table(unit.long()), offset → return self.table(unit.long())"
        ): "the offsets are missing: return both.",
        "self.table(unit.long()), offset → self.table(unit.long()).detach(), offset": (
            "no gradient reaches the table: something cuts it off, and it does not learn."
        ),
        "self.table(unit.long()), offset → self.table(unit.long()) * (unit > 0)[..., None], offset": (
            "the blank token gives zeros. Row 0 should be learned as every other."
        ),
    },
)
class Embed(nn.Module):
    """Every unit has a learned vector."""

    def __init__(self, n_units, D):
        super().__init__()
        self.table = nn.Embedding(n_units + 1, D)

    def forward(self, padded_bin):
        unit, offset = padded_bin.unbind(-1)  # (B, T, M) each
        return self.table(unit.long()), offset  # (B, T, M, D), (B, T, M)


# Exercise 12.2: read
def _context(n_queries=1, lengths=(4, 2, 5), width=0.05, far=0.0):
    """Queries (n, 6) in the middle of 2 x 3 bins of tokens (7,), which are filled up to the fullest."""

    def make():
        M = max(lengths)
        tau = far + width * normal(2, 3, M, seed=1, dtype=torch.float64).sigmoid()
        mask = torch.arange(M) < torch.tensor(lengths)[:, None, None]  # (3, 1, M)
        mask = mask.repeat(2, 1, n_queries, 1)  # (2, 3, n, M)
        times = torch.full((n_queries,), far + width / 2, dtype=torch.float64)
        return normal(n_queries, 6, seed=2), times, normal(2, 3, M, 7, seed=3), tau, mask

    return make


def _of_states():
    """Queries (2, 4, 6) at their times, five states (2, 5, 7) at the ends of their bins, and a mask."""
    times = 0.25 * normal(2, 4, seed=1).double().sigmoid()
    ends = 0.05 * torch.arange(1, 6).double()
    return normal(2, 4, 6, seed=2), times, normal(2, 5, 7, seed=3), ends, ends > times[..., None]


@exercise(
    cases={
        "bins with one token, at 0 s as the query": _module(_context(lengths=(1, 1, 1), width=0), 6, 7, 8),
        "bins with one token": _module(_context(lengths=(1, 1, 1)), 6, 7, 8),
        "bins with three tokens": _module(_context(lengths=(3, 3, 3)), 6, 7, 8),
        "bins with more tokens and fewer": _module(_context(), 6, 7, 8),
        "three queries": _module(_context(3), 6, 7, 8),
        "tokens after seven and a half minutes": _module(_context(far=450.0), 6, 7, 8),
        "states of two trials, four queries in each": _module(_of_states, 6, 7, 8),
        "the gradients of the parameters": _gradients(_context(2), 6, 7, 8),
        "the gradients by queries and context": _input_gradients(_context(2), (6, 7, 8), 0, 2),
    },
    mistakes={
        "x + self.to_out → self.to_out": "the query is not added to what was read: x + to_out(z).",
        "masked_fill(~mask, -torch.inf) → masked_fill(~mask, 0.0)": (
            "the padding is read, too: where the mask is False, the score must be minus infinity."
        ),
        "rotate(p @ rotate(v, at_tau), at_t.conj()) → p @ rotate(v, at_tau)": (
            "the sum of the values is still rotated: rotate it back, by -t."
        ),
        ("self.norm_query(x) → x", "self.norm_context(context) → context"): "the layer norms of (12.2) are missing.",
        "rotate(v, at_tau) → v": "keys are rotated by tau, and so are values.",
        "/ q.shape[-1] ** 0.5 → / x.shape[-1] ** 0.5": "the scores are divided by the root of d, not of D.",
        "p = scores.masked_fill(~mask, -torch.inf).softmax(-1) → p = scores.softmax(-1) * mask": (
            "the mask comes after the softmax, so the weights do not sum to one. Mask the scores."
        ),
        "masked_fill(~mask, -torch.inf) → masked_fill(mask, -1e30)": (
            "the mask is the wrong way round: True means a real token, which is read."
        ),
        "self.norm_query(x) → x": "the layer norm of the query is missing.",
        "self.norm_context(context) → context": "the layer norm of the context is missing.",
        "k, v = self.to_kv → v, k = self.to_kv": "values and keys have changed places: in `to_kv` the keys come first.",
        "at_t, at_tau = → x = self.norm_query(x); at_t, at_tau =": (
            "what is added is LN(x), or the norm is taken twice. The residual adds x as it came."
        ),
        "q = rotate(self.to_q(self.norm_query(x)), at_t) → x = self.norm_query(x); q = rotate(self.to_q(x), at_t)": (
            "the normed query is added. The residual should add x as it came."
        ),
        ("self.norm_query(x) → x", "return x + self.to_out(z) → return self.norm_query(x + self.to_out(z))"): (
            "the norm of the query stands after the plus. It should stand before `to_q`."
        ),
        "rotate(self.to_q(self.norm_query(x)), at_t) → self.to_q(self.norm_query(x))": "the query is not rotated.",
        "q @ rotate(k, at_tau).transpose → q @ k.transpose": "the keys are not rotated.",
        ("rotate(v, at_tau) → v", "rotate(p @ v, at_t.conj()) → p @ v"): (
            "the values are never rotated: rotate each by its tau, and the sum back by t."
        ),
        "at_t.conj() → at_t": "the sum is rotated on, not back: by -t.",
        " / q.shape[-1] ** 0.5 → ": "the scores are not divided by the root of d.",
        "/ q.shape[-1] ** 0.5 → / q.shape[-1]": "divided by d, and not by its root.",
        (
            "self.norm_query(x) → x",
            "self.norm_context(context) → context",
            ("rotate(self.to_q(x), at_t) → self.to_q(x)"),
            "rotate(p @ rotate(v, at_tau), at_t.conj()) → p @ v",
            "x + self.to_out → self.to_out",
        ): (
            "only the keys are rotated, and norms and residual are missing: compare it with (12.2) to (12.4), "
            "line by line."
        ),
        "phasors(time, self.omega, x.dtype) → phasors(time.float(), self.omega.float(), x.dtype)": (
            "times were rounded to float32: after minutes that is wrong. Angles in float64."
        ),
        "self.norm_context(context) → self.norm_context(context.detach())": (
            "the values are right, but no gradient reaches the context: tokens and states would not learn."
        ),
        "return x + self.to_out(z) → return x.detach() + self.to_out(z)": (
            "the values are right, but the gradient by x is cut in the residual: latent and query would hardly learn."
        ),
        "self.norm_query(x) → self.norm_query(x.detach())": (
            "the values are right, but the gradient by x is cut before the query: what it asks would not be learned."
        ),
    },
)
class CrossAttention(nn.Module):
    """Queries x at times t read a context at times tau: (12.2) to (12.4), and the query is added."""

    def __init__(self, D, C, d):
        super().__init__()
        self.norm_query, self.norm_context = nn.LayerNorm(D), nn.LayerNorm(C)
        self.to_q = nn.Linear(D, d, bias=False)
        self.to_kv = nn.Linear(C, 2 * d, bias=False)
        self.to_out = nn.Linear(d, D)
        self.omega = log_spaced_frequencies(d // 4, 1e-4, 10.0)

    def forward(self, x, t, context, tau, mask):
        at_t, at_tau = (phasors(time, self.omega, x.dtype) for time in (t, tau))  # (..., Q, F), (..., M, F)
        q = rotate(self.to_q(self.norm_query(x)), at_t)  # (..., Q, d)
        k, v = self.to_kv(self.norm_context(context)).chunk(2, -1)  # (..., M, d) each
        scores = q @ rotate(k, at_tau).transpose(-1, -2) / q.shape[-1] ** 0.5  # (..., Q, M)
        p = scores.masked_fill(~mask, -torch.inf).softmax(-1)
        z = rotate(p @ rotate(v, at_tau), at_t.conj())  # (..., Q, d)
        return x + self.to_out(z)


# Exercise 12.3: feed-forward
@exercise(
    cases={
        "one vector": _module(lambda: (normal(6, seed=1),), 6),
        "two trials of three bins": _module(lambda: (normal(2, 3, 6, seed=2),), 6),
        "the gradients of the parameters": _gradients(lambda: (normal(3, 6, seed=3),), 6),
        "the gradient by what goes in": _input_gradients(lambda: (normal(3, 6, seed=3),), (6,), 0),
    },
    mistakes={
        "return x + → return": "what went in is not added to what comes out: the residual.",
        "a * nn.functional.gelu(b) → nn.functional.gelu(a) * b": (
            "the halves have changed places: gelu is taken of the second, LN(x) W_2."
        ),
        "self.norm(x) → x": "the norm comes first: both products are of LN(x).",
        ("return x + self → x = self.norm(x)\n        return x + self",): (
            "the normed vector is added. The residual should add x as it came."
        ),
        "nn.functional.gelu(b) → nn.functional.relu(b)": "this is a ReLU. (12.5) has gelu.",
        "nn.functional.gelu(b) → nn.functional.silu(b)": "this is silu. (12.5) has gelu.",
        "nn.functional.gelu(b) → torch.sigmoid(b)": "this is a sigmoid. (12.5) has gelu.",
        "a * nn.functional.gelu(b) → a + nn.functional.gelu(b)": "the halves are added. They should be multiplied.",
        "a * nn.functional.gelu(b) → nn.functional.gelu(a) * nn.functional.gelu(b)": (
            "gelu is taken of both halves. It should be taken of the second alone."
        ),
        (
            "self.norm(x) → x",
            "return x + self.contract(a * nn.functional.gelu(b)) → "
            "return self.norm(x + self.contract(a * "
            "nn.functional.gelu(b)))",
        ): "the norm stands after the plus. It comes first.",
        "return x + → return x.detach() +": "the values are right, but the gradient by x is cut in the residual.",
        "self.norm(x) → self.norm(x.detach())": "the values are right, but the gradient by x is cut before the norm.",
    },
)
class FeedForward(nn.Module):
    """(12.5), residual included."""

    def __init__(self, D):
        super().__init__()
        self.norm = nn.LayerNorm(D)
        self.expand = nn.Linear(D, 8 * D)
        self.contract = nn.Linear(4 * D, D)

    def forward(self, x):
        a, b = self.expand(self.norm(x)).chunk(2, -1)  # (..., 4D) each
        return x + self.contract(a * nn.functional.gelu(b))


# Exercise 12.4: remember
def _states(memory, x):
    """The states alone, the first of two results."""
    result = memory(x)
    if isinstance(result, Tensor):
        raise Complaint("it returns one thing and not two: the states, and the state after the last bin.")
    return None if result is None else result[0]


def _in_two(memory, x):
    """The states of two calls, the second one with the state that the first has left."""
    first, state = memory(x[:, :3])
    second, _ = memory(x[:, 3:], state)
    return torch.cat([first, second], 1)


def _three_trials():
    """Three trials of five bins of six numbers."""
    return (normal(3, 5, 6, seed=4),)


def _twice(memory, x):
    """The states of a second call, on other trials: neither gets a state."""
    memory(2 * x)
    return _states(memory, x)


class _KeepsState(nn.Module):
    """A mistake: the state belongs to the object."""

    always = True

    def __init__(self, D, h):
        super().__init__()
        self.gru, self.kept = nn.GRU(D, h, batch_first=True), None

    def forward(self, x, state=None):
        states, self.kept = self.gru(x, self.kept if self.always or state is None else state)
        return states, self.kept


class _KeepsStateIfNone(_KeepsState):
    """A mistake: the state of the object is used where none is given."""

    always = False


class _SqueezedState(nn.Module):
    """A mistake: the state without its first axis."""

    def __init__(self, D, h):
        super().__init__()
        self.gru = nn.GRU(D, h, batch_first=True)

    def forward(self, x, state=None):
        states, last = self.gru(x, None if state is None else state[None])
        return states, last[0]


class _TwoLayers(nn.Module):
    """A mistake: one layer more than there should be."""

    def __init__(self, D, h):
        super().__init__()
        self.gru = nn.GRU(D, h, num_layers=2, batch_first=True)

    def forward(self, x, state=None):
        return self.gru(x, state)


@exercise(
    cases={
        "one trial": _module(lambda: (normal(1, 5, 6, seed=4),), 6, 4, call=_states),
        "three trials": _module(_three_trials, 6, 4, call=_states),
        "three trials whose bins come in two calls": _module(_three_trials, 6, 4, call=_in_two),
        "the names and shapes of its parameters": _parameters(6, 4),
        "three trials that are given a state": _module(
            lambda: (*_three_trials(), normal(1, 3, 4, seed=5)), 6, 4, call=lambda memory, x, state: memory(x, state)
        ),
        "a second call without a state, which begins from zeros": _module(_three_trials, 6, 4, call=_twice),
        "the state after the last bin": _module(_three_trials, 6, 4, call=lambda memory, x: memory(x)[1]),
        "the gradient by x": _input_gradients(_three_trials, (6, 4), 0, call=_states),
        "the gradient that comes back through the state": _input_gradients(_three_trials, (6, 4), 0, call=_in_two),
        "the gradients of the parameters": _gradients(_three_trials, 6, 4),
    },
    mistakes={
        ", batch_first=True → ": "the GRU runs over the trials, not over the bins: batch_first=True.",
        "self.gru(x, state) → self.gru(x)": "the second call has forgotten the first: hand the state on to the GRU.",
        "return self.gru(x, state) → states, last = self.gru(x, state); return states.detach(), last": (
            "the values are right, but no gradient flows back through the states: the spikes would not be learned."
        ),
        "self.gru(x, state) → self.gru(x.detach(), state)": (
            "the values are right, but no gradient reaches x: what comes before would not learn."
        ),
        "return self.gru(x, state) → states, last = self.gru(x, state); return states, last.detach()": (
            "the gradient is cut in the state that is handed on. Whoever calls decides about that."
        ),
        _KeepsState: (
            "the state is kept in the object, and goes on in the next call although none was handed in. It "
            "should come in as "
            "an argument and go out as the second result, and nothing else."
        ),
        _KeepsStateIfNone: ("without a state the last one goes on. A call without a state should begin from zeros."),
        _SqueezedState: ("the state has lost its first axis. As torch gives it, and takes it, it should be (1, B, h)."),
        _TwoLayers: "there are two layers. One GRU layer is wanted.",
        "return self.gru(x, state) → return self.gru(x, state)[::-1]": "the results have changed places: states first.",
    },
)
class Memory(nn.Module):
    """A state that is carried from bin to bin."""

    def __init__(self, D, h):
        super().__init__()
        self.gru = nn.GRU(D, h, batch_first=True)

    def forward(self, x, state=None):
        return self.gru(x, state)  # (B, T, h), and the state after the last bin


# Exercise 12.5: ask
def _asked(*times, n_bins=7, k=3):
    """Makes a query, the states of two trials, the times asked for in s, in the second trial backwards, and k."""
    return lambda: (normal(6, seed=5), normal(2, n_bins, 7), torch.tensor([times, times[::-1]], dtype=torch.float64), k)


def _attention():
    """A `CrossAttention` that is right, with known weights."""
    return _filled(CrossAttention.reference, 6, 7, 8)


def _clamped(attention, query, hidden, times, k):
    """The state of the first bin stands in for those that do not exist."""
    b = (times / 0.05 + 1e-6).long()[..., None]
    j = (b + torch.arange(1 - k, 1)).clamp(min=0)  # (B, Q, k)
    trial = torch.arange(len(hidden))[:, None, None]
    states = hidden[trial, j]  # (B, Q, k, h)
    x = query.expand(*times.shape, 1, -1)
    seen = torch.ones(1, k, dtype=torch.bool)
    return attention(x, times[..., None], states, (j.double() + 1) * 0.05, seen).squeeze(-2)


def _ask(*times, **sizes):
    """A case in which the student's function gets an attention that is right."""
    return Case(_asked(*times, **sizes), lambda student, *args: student(_attention(), *args), 1e-3)


def _zero_states(attention, query, hidden, times, k):
    """A mistake: zeros stand in for the states before the first bin."""
    padded = torch.cat([hidden.new_zeros(len(hidden), k - 1, hidden.shape[-1]), hidden], 1)
    j = torch.arange(1 - k, hidden.shape[1])
    b = (times / 0.05 + 1e-6).long()[..., None]
    mask = (j <= b) & (j > b - k)
    return attention(query.expand(*times.shape, -1), times, padded, (j.double() + 1) * 0.05, mask)


@exercise(
    cases={
        "the middle of a trial": _ask(0.212, 0.141, 0.163),
        "a query that sees its own bin alone": _ask(0.212, 0.333, k=1),
        "the last bin": _ask(0.312, 0.341),
        "the first bin, which has none before it": _ask(0.012, 0.041),
        "the second bin": _ask(0.061, 0.084),
        "the edge of two bins": _ask(0.15, 0.3),
        "a time after seven and a half minutes": _ask(450.013, n_bins=9001),
        "the gradients by query and states": Case(
            _asked(0.212, 0.141, 0.163),
            _named_gradients(lambda student, *args: gradient(0, 1)(lambda *a: student(_attention(), *a), *args)),
            1e-3,
        ),
    },
    mistakes={
        "+ 1) * 0.05, mask → ) * 0.05, mask": "each state has the time when its bin begins: it is known at the end.",
        "+ 1) * 0.05, mask → + 0.5) * 0.05, mask": "each state has the time of the middle of its bin: take its end.",
        "(j <= b) & (j > b - k) → (j < b) & (j >= b - k)": "the last of the k states is that of its own bin.",
        "j > b - k → j >= b - k": "one state too many: k are seen, its own bin's among them.",
        "(j <= b) & → ": "bins after that of the query are read, too: they have not happened yet.",
        _clamped: "before the first bin there is none. Its state must not be read again in place of one.",
        _zero_states: (
            "before the first bin there is none, and states of zeros stand in for it. They take a share of the "
            "softmax: mask "
            "them."
        ),
        "(times / 0.05 + 1e-6).long() → (times / 0.05).round().long()": (
            "bins are rounded: a time in the second half of its bin went to the next one."
        ),
        "(times / 0.05 + 1e-6).long() → (times / 0.05).long()": (
            "a time on an edge is in the bin before: 0.15 / 0.05 is a hair less than 3. Add a millionth of a bin first."
        ),
        "b = (times → times = times.float(); b = (times": (
            "times were rounded to float32: after minutes that is wrong. Keep them in float64."
        ),
        (
            "times, hidden, (j.double() + 1) → times, hidden, (j.float() + 1)"
        ): "the ends of the bins are float32: float64.",
        "(j <= b) & (j > b - k) → (j <= b)": "all states up to now are seen. Only the last k should be.",
        "hidden, (j.double() → hidden.detach(), (j.double()": (
            "the values are right, but no gradient reaches the states: everything before them would not learn."
        ),
        "query.expand → query.detach().expand": (
            "the values are right, but no gradient reaches the query: what it asks would not be learned."
        ),
        "return attention( → return query + attention(": "the query is added twice: `attention` adds it already.",
    },
)
def ask(attention, query, hidden, times, k):
    """What the query (D,) reads of the states (B, T, h) at the times (B, Q): (B, Q, D)."""
    b = (times / 0.05 + 1e-6).long()[..., None]  # (B, Q, 1): the bin of each time
    j = torch.arange(hidden.shape[1])  # (T,)
    mask = (j <= b) & (j > b - k)  # (B, Q, T)
    return attention(query.expand(*times.shape, -1), times, hidden, (j.double() + 1) * 0.05, mask)


class Decoder(nn.Module):
    """The five stages in a row, as chapter 12 puts them together."""

    def __init__(self, n_units, D=64, d=32, h=256, k=3):
        super().__init__()
        self.embed, self.remember = Embed.reference(n_units, D), Memory.reference(D, h)
        self.latent, self.query = nn.Parameter(0.02 * torch.randn(1, D)), nn.Parameter(torch.zeros(D))
        self.read_spikes, self.mix_spikes = CrossAttention.reference(D, D, d), FeedForward.reference(D)
        self.read_states, self.mix_states = CrossAttention.reference(D, h, d), FeedForward.reference(D)
        self.readout = nn.Linear(D, 2)
        self.k = k
        nn.init.normal_(self.embed.table.weight, std=0.02)

    def forward(self, padded, times):
        tokens, offset = self.embed(padded.padded_bin)
        middle = torch.tensor([0.025], dtype=torch.float64)
        x = self.read_spikes(self.latent, middle, tokens, offset, padded.spike_mask[..., None, :]).squeeze(-2)
        hidden, _ = self.remember(self.mix_spikes(x))
        y = ask.reference(self.read_states, self.query, hidden, times, self.k)
        return self.readout(self.mix_states(y))


# Exercise 12.6: train
class _Linear(nn.Module):
    """A decoder in small: ten numbers for a spike, and twice as large an output when it is not in training."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(normal(10, 2, seed=3).double())
        self.slope = nn.Parameter(normal(2, seed=3).double())
        self.eval()

    def forward(self, spikes, times):
        y = spikes @ self.weight + self.slope * times[..., None]  # (B, Q, 2)
        return y if self.training else 2 * y


def _drawn(step, unknown, scale):
    """One batch: spikes, times in s, targets, and which of these are known."""
    spikes = normal(4, 6, 10, seed=2 * step).double()
    times = 0.1 * torch.arange(24).view(4, 6).double()
    target = scale * (0.3 * normal(4, 6, 2, seed=2 * step + 1).double() + spikes[..., :2])
    known = torch.ones(4, 6, dtype=torch.bool)
    if unknown:
        known[:, 3:] = False
        target[:, 3:] = 40.0
    return 0.1 * spikes, times, 0.1 * target, known


def _losses(losses, model):
    """The losses that the training has returned."""
    if isinstance(losses, float | Tensor):  # one number in all
        return torch.as_tensor(losses, dtype=torch.float64)
    return torch.tensor([float(value) for value in losses], dtype=torch.float64)


def _learned(losses, model):
    """The weights after the training."""
    return torch.cat([model.weight.detach().flatten(), model.slope.detach()])


def _steps(n, seen, unknown=False, scales=(1.0,), rates=(0.05,)):
    """What is `seen` of losses and model after n steps; scales of the targets and rates take turns."""

    def make():
        return n, [_drawn(step, unknown, scales[step % len(scales)]) for step in range(2 * n)]

    def observe(student, n, batches):
        model, batches = _Linear(), iter(batches)
        return seen(student(model, lambda: next(batches), n, lambda step: rates[step % len(rates)]), model)

    return Case(make, observe)


@exercise(
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
        'optimizer.param_groups[0]["lr"] = → optimizer.lr =': (
            "the optimizer does not hear of the rate: it is in its `param_groups[0]['lr']`."
        ),
        "model.train() → model.eval()": "the mode of the model is that of decoding: begin with model.train().",
        "        nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n → ": (
            "the gradient is not clipped: do it between backward() and step()."
        ),
        "clip_grad_norm_ → clip_grad_value_": "clip the length of all together, not each number: clip_grad_norm_.",
        (
            "torch.optim.AdamW(model.parameters(), weight_decay=0.01) → torch.optim.Adam(model.parameters(), "
            "weight_decay=0.01)"
        ): ("this is Adam, whose weight decay goes through the gradient. It should be AdamW."),
        "torch.optim.AdamW(model.parameters(), weight_decay=0.01) → torch.optim.Adam(model.parameters())": (
            "there is no weight decay. It should be AdamW with 0.01."
        ),
        (
            "torch.optim.AdamW(model.parameters(), weight_decay=0.01) → torch.optim.SGD(model.parameters(), "
            "lr=0.1, momentum=0.9)"
        ): ("this is SGD with momentum. It should be AdamW."),
        "torch.optim.AdamW(model.parameters(), weight_decay=0.01) → torch.optim.SGD(model.parameters(), lr=0.1)": (
            "this is SGD. It should be AdamW."
        ),
        (
            "        optimizer.zero_grad()\n → ",
            "        loss.backward()\n → \n        loss.backward()\n        optimizer.zero_grad()\n",
        ): "nothing is learned: the gradient is emptied between `backward` and `step`, or `step` is missing.",
        "loss = error[known].square().mean() → loss = (error * known[..., None]).square().mean()": (
            "samples that are not known are out of the sum, but still in the number it is divided by."
        ),
        "error[known].square().mean() → error[known].square().sum()": "this is the sum of squares. The mean is wanted.",
        (
            "error[known].square().mean() → error[known].abs().mean()"
        ): "this is the mean of sizes. It should be of squares.",
        (
            "error[known].square().mean() → error[known].square().mean().sqrt()"
        ): "this is the root of the mean. The mean is wanted.",
        "rate(step) → rate(step + 1)": "the rate is one step ahead: step 0 should have rate(0).",
        'optimizer.param_groups[0]["lr"] = rate(step) → optimizer.param_groups[0]["lr"] = rate(0)': (
            "the rate stays that of the first step. It should be rate(step) in each step."
        ),
        (
            "losses = []\n → losses = []\n    spikes, times, target, known = draw()\n",
            "        spikes, times, target, known = draw()\n → ",
        ): "one batch is drawn for all steps. Each step should draw its own.",
    },
)
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
