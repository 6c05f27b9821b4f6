"""Exercises of chapter 16: rows of a table, what may learn, attempts, identification; pairs, statistics, alignment."""

import contextlib
import copy

import numpy as np
import torch
from torch import nn
from torch.optim.optimizer import register_optimizer_step_pre_hook

from possm_course.checks import Case, Complaint, exercise
from possm_lite.decoder import POSSM, POSSMConfig


# Exercise 16.1: the row of a token of one of several sessions in the table of embeddings
def _tokens(unit, session, n_units):
    """Makes the unit and the session of tokens, and the number of units of each session."""
    return lambda: (torch.tensor(unit), torch.tensor(session), torch.tensor(n_units))


@exercise(
    cases={
        "two sessions of four units each": _tokens([1, 4, 1, 4], [1, 1, 2, 2], [4, 4]),
        "three sessions of 4, 2 and 3 units": _tokens([4, 1, 2, 1, 3], [1, 2, 2, 3, 3], [4, 2, 3]),
        "four sessions in any order": _tokens([2, 1, 5, 3, 1], [4, 2, 1, 3, 3], [5, 1, 3, 2]),
        "blank tokens": _tokens([0, 2, 0, 1, 0], [1, 2, 2, 3, 3], [4, 2, 3]),
    },
    mistakes={
        "torch.where(unit > 0, unit + before[session - 1], 0) → unit + before[session - 1]": (
            "the blank token was moved too. Silence is the same in every session: unit 0 stays in row 0."
        ),
        "unit + before[session - 1] → unit": "add the units of all earlier sessions.",
        " - n_units  # →   # ": "the offset of a session must not count its own units, only those before it.",
        "before[session - 1] → (session - 1) * n_units[0]": "sessions differ in how many units they have.",
        "unit + before[session - 1], 0) → unit + before[session - 1] - 1, 0)": (
            "one row too low: row 0 is the blank token, so unit 1 of the first session has row 1."
        ),
        "before[session - 1] → before[session % len(n_units)]": "sessions count from 1: the first has index 0.",
        "before[session - 1] → (before + session.new_tensor(range(len(n_units))))[session - 1]": (
            "each session has a blank row of its own. One is common to all."
        ),
    },
)
def table_row(unit, session, n_units):
    """Row of each token in the table of all sessions, (N,). unit, session (N,); n_units (S,); all int64."""
    before = n_units.cumsum(0) - n_units  # (S,): units of all earlier sessions
    return torch.where(unit > 0, unit + before[session - 1], 0)


# Exercise 16.2: what may learn in unit identification
def _flags(function, model):
    """Which parameters learn and which are in the list, in words."""
    listed = function(model)
    is_several = hasattr(listed, "__iter__") and not isinstance(listed, str | torch.Tensor)
    listed = list(listed) if is_several else [listed]
    named = {id(p): name for name, p in model.named_parameters()}
    learning = _names(name for name, p in model.named_parameters() if p.requires_grad)
    returned = _names({named.get(id(each), _kind(each)) for each in listed})
    return f"{learning} learn" if returned == learning else f"{learning} learn, returned: {returned}"


def _kind(each):
    """What is in the list and is no parameter of the model."""
    if isinstance(each, nn.Module):
        return "modules"
    return "names" if isinstance(each, str) else "something else"


def _names(names):
    """The first four names in alphabetical order, and how many more there are."""
    names = sorted(name.removesuffix(".weight") for name in names)
    first = ", ".join(names[:4]) or "none"
    return f"{first} and {len(names) - 4} more" if len(names) > 4 else first


def _small(learning, another_table=False):
    """A case of a small model of which all or nothing learns, perhaps with a table of its own."""

    def make():
        model = POSSM(POSSMConfig(n_units=3, dim=4, head_dim=4, n_freqs=1, hidden=4))
        if another_table:
            model.phase_embedding = nn.Embedding(50, 4)
        return (model.requires_grad_(learning),)

    return Case(make, _flags)


@exercise(
    cases={
        "a new decoder, in which everything learns": _small(True),
        "a decoder that had been frozen as a whole": _small(False),
        "a decoder with another table of embeddings, common to all sessions": _small(True, another_table=True),
    },
    mistakes={
        "= [model.unit_embedding.weight, model.session_embedding.weight] → "
        "= [p for name, p in model.named_parameters() if 'embedding' in name]": "`task_embedding` learns as well.",
        "session_embedding.weight] → session_embedding.weight, model.task_embedding]": "the task's is common to all.",
        "return own → return [p.clone() for p in own]": "the list holds copies. Return the parameters themselves.",
        ", model.session_embedding.weight] → ]": "the session embedding must learn, too: it is the session's own.",
        "model.requires_grad_(False) → model.requires_grad = False": "nothing was frozen: a module has no such flag.",
        "parameter.requires_grad_(True) → pass": "the right list, but you did not switch the two on again.",
        "return own → return [model.unit_embedding, model.session_embedding]": (
            "these are modules. The list should hold their parameters, `.weight`."
        ),
        "return own → return [name for name, p in model.named_parameters() if p.requires_grad]": (
            "these are names. The list should hold the parameters themselves."
        ),
        (
            "return own → return list(model.parameters())"
        ): "the list holds all parameters. Only those that learn should be in it.",
    },
)
def may_learn(model):
    """Let unit and session embeddings learn and nothing else; return the list of these parameters."""
    own = [model.unit_embedding.weight, model.session_embedding.weight]
    model.requires_grad_(False)  # all of them
    for parameter in own:
        parameter.requires_grad_(True)
    return own


# Exercise 16.3: the velocity of a reach that nobody saw
def _trial(duration_s, shares):
    """Makes the way (2,) to a target, the length of a trial, and times (N,) at these shares of it."""
    way = torch.tensor([60.0, -25.0], dtype=torch.float64)
    duration = torch.tensor(duration_s, dtype=torch.float64)
    return lambda: (way.clone(), duration.clone(), duration * torch.tensor(shares, dtype=torch.float64))


def _by_samples(way, duration_s, times_s):
    """A mistake: c from the times that happen to be asked for."""
    tau = times_s / duration_s
    speed = tau**2 * (1 - tau) ** 2
    return (speed / speed.mean())[:, None] * way / duration_s


@exercise(
    tolerance=1e-6,
    cases={
        "a trial of one second": _trial(1.0, [0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0]),
        "a trial of 0.8 s": _trial(0.8, [0.0, 0.25, 0.5, 0.75, 1.0]),
        "three uneven times at its end": _trial(0.7, [0.6, 0.9, 0.97]),
    },
    mistakes={
        _by_samples: "c is made of the times that are given. It should be that of the whole trial: integrate.",
        "30 * tau → tau": "c is missing: the hand does not arrive. The integral of the velocity should be `way`.",
        " / duration_s\n    return → \n    return": "in one trial of T seconds dt is T dτ: c depends on T.",
        "times_s / duration_s → times_s": "τ is a share of the trial, from 0 to 1: divide by its length.",
        "30 * tau → tau / 30": "divide by the integral, 1/30, instead of multiplying by it.",
        "30 * tau**2 * (1 - tau) ** 2 → 6 * tau * (1 - tau)": "without the squares: that is not the profile of (16.4).",
        "30 * tau**2 * (1 - tau) ** 2 → 30 * tau**2 * (1 - tau**2)": "(1 − τ)² is not 1 − τ².",
        "speed[:, None] * way → speed[:, None] * way / way.norm()": "the length of the way is lost.",
    },
)
def attempt(way, duration_s, times_s):
    """Velocity (N, 2) in mm/s of a reach that nobody saw, by (16.4). way (2,); duration_s (); times_s (N,)."""
    tau = times_s / duration_s  # (N,)
    speed = 30 * tau**2 * (1 - tau) ** 2 / duration_s
    return speed[:, None] * way


# Exercise 16.4: unit identification, built from nothing
class TinyDecoder(nn.Module):
    """Velocity from counts (B, T, U): one vector per unit, a sum that forgets, a readout. Made, not trained."""

    def __init__(self, directions, counts, velocity):
        super().__init__()
        axes = torch.linalg.qr(torch.randn(6, 2, generator=torch.Generator().manual_seed(4))).Q.T  # (2, D)
        self.table = nn.Parameter(0.1 * torch.stack([directions.cos(), directions.sin()], 1) @ axes)  # (U, D)
        age = torch.arange(counts.shape[1])[:, None] - torch.arange(counts.shape[1])  # (T, T)
        self.register_buffer("memory", torch.where(age >= 0, 0.6**age, 0.0))
        self.readout = nn.Linear(6, 2)
        with torch.no_grad():
            self.readout.load_state_dict({"weight": axes, "bias": torch.zeros(2)})
            decoded = self(counts)
            self.readout.weight.mul_((decoded * velocity).sum() / decoded.square().sum())

    def forward(self, counts):
        return self.readout(self.memory @ (counts @ self.table))  # (B, T, 2)


def _tiny_session(n_units, seed):
    """Preferred directions (U,), counts (B, T, U) and velocity (B, T, 2) of 50 trials of 12 bins."""
    generator = torch.Generator().manual_seed(seed)
    directions = 2 * torch.pi * torch.rand(n_units, generator=generator)
    velocity = torch.zeros(50, 12, 2)
    for t in range(1, 12):
        velocity[:, t] = 0.9 * velocity[:, t - 1] + 0.44 * torch.randn(50, 2, generator=generator)
    drive = velocity @ torch.stack([directions.cos(), directions.sin()])  # (B, T, U)
    return directions, torch.poisson((0.6 * drive).exp(), generator=generator), velocity


def _what_it_made(function, decoder, counts, velocity):
    """In words: the table, what else changed, and R² on 20 trials that were not given."""
    before = copy.deepcopy(decoder.state_dict())
    flags = [p.requires_grad for p in decoder.parameters()]
    with _adding_up() as n_added:
        new = function(decoder, counts, velocity)
    if n_added[0] > 5:
        raise Complaint(
            "the gradients of all steps add up, because `zero_grad` is missing: empty `.grad` in each step, before "
            "`backward` or after `step`."
        )
    if not isinstance(new, nn.Module):
        return f"a value of type {type(new).__name__} instead of a decoder"

    def kept(model, names):
        after = model.state_dict()
        return all(name in after and torch.equal(after[name], before[name]) for name in names)

    common = "kept" if kept(new, [name for name in before if name != "table"]) else "changed"
    old = "kept" if kept(decoder, before) else "changed"
    if old == "kept" and [p.requires_grad for p in decoder.parameters()] != flags:
        old = "kept, but what may learn in it was switched"
    level = _level(_r2_on_new_trials(new, n_units=counts.shape[-1]), new.table)
    return f"a table {(*new.table.shape,)}, common weights {common}, the given decoder {old}, R² on new trials {level}"


@contextlib.contextmanager
def _adding_up():
    """Counts, in a list of one number, the steps of optimizers on a gradient that still has an older one in it."""
    n_added, fresh = [0], {}

    def watch(parameter):
        def add(gradient):
            fresh[parameter] = gradient.detach() + fresh.get(parameter, 0.0)

        return add

    def before_step(optimizer, args, kwargs):
        for parameter in optimizer.param_groups[0]["params"]:
            if parameter not in fresh:
                if parameter.requires_grad:
                    parameter.register_hook(watch(parameter))
            elif parameter.grad is not None and isinstance(fresh[parameter], torch.Tensor):
                a, b = parameter.grad.flatten(), fresh[parameter].flatten()
                n_added[0] += bool(a @ b < 0.999 * a.norm() * b.norm())  # clipped it would have the same direction
            fresh[parameter] = 0.0

    handle = register_optimizer_step_pre_hook(before_step)
    try:
        yield n_added
    finally:
        handle.remove()


def _r2_on_new_trials(decoder, n_units):
    """R² of a decoder on the trials of the second day that were not given."""
    _, counts, velocity = _tiny_session(n_units, seed=2)
    with torch.no_grad():
        error = (decoder(counts[30:]) - velocity[30:]).square().sum()
    return (1 - error / velocity[30:].square().sum()).item()


def _level(r2, table):
    """R² in words, with what to try where it is low."""
    if not r2 >= 0.2:  # also where it is NaN
        return "below 0.2" if r2 > -5 else "not finite, or far below 0: the steps are too long"
    if r2 >= 0.65:
        return "0.65 or more"
    hint = "more steps?" if table.std() < 0.5 else "it began as large as an nn.Embedding: try 0.1 * torch.randn"
    return f"below 0.65: {hint}"


def _new_day(n_units, frozen=False):
    """A case of the decoder of the first day, and 30 trials of a second day with n_units."""

    def make():
        decoder = TinyDecoder(*_tiny_session(20, seed=1))
        _, counts, velocity = _tiny_session(n_units, seed=2)
        return decoder.requires_grad_(not frozen), counts[:30], velocity[:30]

    return Case(make, _what_it_made)


@exercise(
    cases={
        "a new session of 30 units": _new_day(30),
        "a new session of 25 units, and a decoder that came frozen": _new_day(25, frozen=True),
    },
    mistakes={
        "copy.deepcopy(decoder).requires_grad_(False) → decoder": "the given decoder has changed. Work on a copy.",
        ("copy.deepcopy(decoder).requires_grad_(False) → copy.deepcopy(decoder)", "[new.table] → new.parameters()"): (
            "the common weights have learned as well. Give the optimizer the new table only."
        ),
        "[new.table] → [torch.nn.Parameter(new.table.detach())]": "the new table has not learned anything.",
    },
)
def identify_from_scratch(decoder, counts, velocity):
    """A copy of the decoder with a new table, learned from counts (B, T, U) and velocity (B, T, 2); no other change."""
    new = copy.deepcopy(decoder).requires_grad_(False)
    new.table = torch.nn.Parameter(0.1 * torch.randn(counts.shape[-1], decoder.table.shape[1]))
    optimizer = torch.optim.Adam([new.table], lr=0.01)
    for _ in range(150):
        loss = (new(counts) - velocity).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return new


# Exercise 16.5 (deeper): what two methods differ by, seed for seed
def _seeds(n, sign):
    """Six seeds at most: some sessions are easy for both methods, some hard for both; one seed is worse."""
    a = torch.tensor([0.61, 0.42, 0.55, 0.30, 0.71, 0.47], dtype=torch.float64)[:n]
    gain = torch.tensor([0.11, 0.15, -0.02, 0.14, 0.25, 0.16], dtype=torch.float64)[:n]
    return lambda: (a.clone(), a - sign * gain)


@exercise(
    tolerance=1e-6,
    cases={"six seeds": _seeds(6, 1), "two seeds": _seeds(2, 1), "two methods in the other order": _seeds(6, -1)},
    mistakes={
        "d.std() / → (a.var() + b.var()) ** 0.5 /": "not that of *pairs*: subtract seed for seed before the spread.",
        "d.std() / np.sqrt(len(d)) → d.std()": "that is the spread: the mean of S seeds is more certain, by √S.",
        "d.std() → d.std(correction=0)": "divide the squares by S − 1: the mean is of the same numbers.",
        "a - b → b - a": "the sign: how much *better* is a than b?",
        "d.std() / np.sqrt(len(d)) → d.std() / len(d)": "divided by S, and not by its root.",
        "d.std() / np.sqrt(len(d)) → d.var() / len(d)": "this is the square of it: the variance.",
        "d.std() / np.sqrt(len(d)) → 1.96 * d.std() / np.sqrt(len(d))": "times 1.96: that is half an interval.",
        "d.mean(), → d.median(),": "this is the median. The mean is wanted.",
    },
)
def paired(a, b):
    """Mean of a - b, and its standard error, by (16.5). a, b (S,)."""
    d = a - b  # (S,): seed for seed
    return d.mean(), d.std() / np.sqrt(len(d))  # torch's std divides by S - 1


# Exercise 16.6 (deeper): recalibration without labels, as another map into the same decoder
def _counts(units, shift=0.0):
    """Makes counts of two days (30, units), the second of other size, weights (units, 2) and a bias (2,)."""

    def make():
        rng = np.random.default_rng(units)
        today = torch.from_numpy(rng.standard_normal((30, units)))
        first = torch.from_numpy(rng.standard_normal((30, units)))
        W = torch.from_numpy(rng.standard_normal((2, units)))
        first = first * (1 + torch.arange(units)) + 2 * shift
        return today + shift, first, W.T, torch.tensor([0.5, -1.0]).double()

    return make


@exercise(
    tolerance=1e-6,
    cases={"one unit": _counts(1), "three units": _counts(3), "three units that fire more": _counts(3, shift=2.0)},
    mistakes={
        "first.std(0) / today.std(0) → today.std(0) / first.std(0)": "the other way: today's spread becomes day 0's.",
        " - today.mean(0) * stretch → ": "today's mean has to go before that of day 0 comes.",
        " * stretch) @ W → ) @ W": "today's mean is stretched, too, before it is taken off.",
        "stretch[:, None] * W, b + → W, b +": "the weights are not stretched.",
        "first.mean(0) - today.mean(0) * stretch → today.mean(0) * stretch - first.mean(0)": "the sign of the shift.",
        "first.std(0) / today.std(0) → first.var(0) / today.var(0)": "variances are divided. It should be the spreads.",
    },
)
def matched(today, first, W, b):
    """W (U, D) and b (D,) for today: root counts (N, U) get the mean and spread of day 0 before W and b."""
    stretch = first.std(0) / today.std(0)  # (U,)
    return stretch[:, None] * W, b + (first.mean(0) - today.mean(0) * stretch) @ W


# Exercise 16.7 (deeper): canonical correlation analysis, as a map from the latents of today to those of another day
def _least_squares(x, y):
    """A mistake: any linear map, not a rotation."""
    return torch.linalg.lstsq(x - x.mean(0), y - y.mean(0)).solution, align.reference(x, y)[1]


def _latents(noise, mix, mean=0.0):
    """Latents of two days (40, 3) at matching times; the second is a linear map of the first, and noise."""

    def make():
        generator = torch.Generator().manual_seed(16)
        x = torch.randn(40, 3, generator=generator, dtype=torch.float64)
        e = torch.randn(40, 3, generator=generator, dtype=torch.float64)
        x, e = x - x.mean(0), e - e.mean(0)
        mixed = x @ torch.tensor(mix, dtype=torch.float64)
        offset = mean * torch.tensor([1.0, -2.0, 0.5], dtype=torch.float64)
        return x + offset, mixed + noise * e - 2 * offset

    return make


_ROTATION = [[0.0, 1.0, 0.0], [-1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]
_MIX = [[1.5, 0.5, 0.0], [-0.4, 0.8, 0.3], [0.2, 0.0, 0.6]]


@exercise(
    tolerance=1e-6,
    cases={
        "latents that are rotated from one day to the other": _latents(0.0, _ROTATION),
        "latents that are stretched and sheared as well": _latents(0.0, _MIX),
        "latents with noise of their own": _latents(1.0, _MIX),
        "latents that do not have the mean zero": _latents(1.0, _MIX, mean=3.0),
    },
    mistakes={
        _least_squares: "that is least squares: it shrinks what is noisy, CCA keeps the variance.",
        ("x - x.mean(0) → x", "y - y.mean(0) → y"): "take off the mean of each column first.",
        "U @ Vt → U @ Vt.T": "`torch.linalg.svd` returns Vᵀ already: do not transpose it again.",
        (
            "torch.linalg.solve(r_x, U @ Vt @ r_y) → torch.linalg.solve(r_x, U @ Vt)"
        ): "the map ends in y's own units: r_y is missing.",
        "torch.linalg.solve(r_x, U @ Vt @ r_y) → r_x @ U @ Vt @ r_y": "r_x should be undone: solve, not multiply.",
        "torch.linalg.solve(r_x, U @ Vt @ r_y), S → torch.linalg.solve(r_x, U @ Vt @ r_y), S**2": (
            "the correlations are squared."
        ),
        (
            "torch.linalg.solve(r_x, U @ Vt @ r_y) → U @ Vt"
        ): "this is only the rotation between the whitened. r_x and r_y belong to it.",
        "torch.linalg.svd(q_x.T @ q_y) → torch.linalg.svd(q_y.T @ q_x)": "x and y have changed places in the product.",
        "q_x.T @ q_y → (x - x.mean(0)).T @ (y - y.mean(0))": (
            "the product is of the latents themselves: that is Procrustes. CCA has them made round first, q_x and q_y."
        ),
    },
)
def align(x, y):
    """The map M (c, c) from latents x to latents y, both (N, c), by (16.7), and the canonical correlations (c,)."""
    q_x, r_x = torch.linalg.qr(x - x.mean(0))
    q_y, r_y = torch.linalg.qr(y - y.mean(0))
    U, S, Vt = torch.linalg.svd(q_x.T @ q_y)
    return torch.linalg.solve(r_x, U @ Vt @ r_y), S
