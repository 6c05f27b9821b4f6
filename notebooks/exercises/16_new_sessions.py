"""Exercises of chapter 16: rows of a joint table, what is new, what may learn, pairs, alignment, identification."""

import copy
from functools import cache, partial

import torch
from torch import nn

from possm_lite.classroom.checks import Case, Check, ValueCheck
from possm_lite.decoder import POSSM, POSSMConfig

# Exercise 16.1: the row of a token of one of several sessions in the table of embeddings


def _row(unit, session, n_units, *, offset=lambda session, n: (n.cumsum(0) - n)[session - 1], blank=0):
    row = unit + offset(session, n_units)
    return row if blank is None else torch.where(unit > 0, row, blank)


def _tokens(unit, session, n_units):
    return lambda: (torch.tensor(unit), torch.tensor(session), torch.tensor(n_units))


table_row = Check(
    "table_row",
    reference=_row,
    cases=[
        Case("one session alone", _tokens([3, 1, 4], [1, 1, 1], [4])),
        Case("two sessions of four units each", _tokens([1, 4, 1, 4], [1, 1, 2, 2], [4, 4])),
        Case("three sessions of 4, 2 and 3 units", _tokens([4, 1, 2, 1, 3], [1, 2, 2, 3, 3], [4, 2, 3])),
        Case("four sessions in any order", _tokens([2, 1, 5, 3, 1], [4, 2, 1, 3, 3], [5, 1, 3, 2])),
        Case("blank tokens", _tokens([0, 2, 0, 1, 0], [1, 2, 2, 3, 3], [4, 2, 3])),
    ],
    traps={
        "the blank token was moved too. Silence is the same in every session: unit 0 stays in row 0.": (
            partial(_row, blank=None)
        ),
        "unit 1 of every session gets the same row, as if it were a single unit. Add the units of all earlier "
        "sessions.": partial(_row, offset=lambda session, n: 0),
        "the offset of a session must not count its own units, only those of the sessions before it.": (
            partial(_row, offset=lambda session, n: n.cumsum(0)[session - 1])
        ),
        "right only where all sessions have as many units as the first one.": (
            partial(_row, offset=lambda session, n: (session - 1) * n[0])
        ),
        "you count each earlier session as large as the token's own. Add up how many units the earlier ones really "
        "have.": partial(_row, offset=lambda session, n: (session - 1) * n[session - 1]),
        "rows start one too early: row 0 belongs to the blank token, and unit 1 of session 1 is row 1.": (
            partial(_row, offset=lambda session, n: (n.cumsum(0) - n)[session - 1] - 1)
        ),
        "only the session just before is counted. From the third session on you need all the earlier ones, not only "
        "the last.": partial(_row, offset=lambda session, n: torch.cat([0 * n[:1], n[:-1]])[session - 1]),
        "you keep a row 0 for every session. There is one blank token for all, so each session adds its units "
        "only.": partial(_row, offset=lambda session, n: (n.cumsum(0) - n)[session - 1] + session - 1),
    },
)


# Exercise 16.2: 40 units and one session, 32 numbers each

own_numbers = ValueCheck(
    "own_numbers",
    expected=41 * 32,
    traps={
        "the units are counted; the session has an embedding of its own, too.": 40 * 32,
        "those are the vectors. How many numbers are in each?": 41,
        "one row too many: the blank token is not new, and row 0 of the session table is never used.": 42 * 32,
        "those are all rows of both tables. Row 0 of each is copied or never used: it is not new.": 43 * 32,
        "that is all a whole decoder for 40 units learns. Here the common weights stay as they are.": sum(
            p.numel() for p in POSSM(POSSMConfig(40, dim=32, head_dim=24, n_freqs=8, hidden=128)).parameters()
        ),
    },
)


# Exercise 16.3: what may learn in unit identification

_OWN = ("unit_embedding.weight", "session_embedding.weight")


def _learning(
    model, *, own=lambda name: name in _OWN, switch=lambda p, own: p.requires_grad_(own), listed=lambda p, own: own
):
    for name, p in model.named_parameters():
        switch(p, own(name))
    return [p for name, p in model.named_parameters() if listed(p, own(name))]


def _flags(function, model):
    """Which parameters learn and which are in the list, in words; or what the list holds instead of parameters."""
    listed = function(model)
    named = dict(model.named_parameters())
    learning = _names(name for name, p in named.items() if p.requires_grad)
    if isinstance(listed, str | torch.Tensor) or not hasattr(listed, "__iter__"):
        return f"learning: {learning}; returned: a value of type {type(listed).__name__} instead of a list"
    listed = [*listed]
    foreign = next((x for x in listed if not isinstance(x, torch.Tensor)), None)
    if foreign is not None:
        kind = "names" if isinstance(foreign, str) else f"values of type {type(foreign).__name__}"
        return f"learning: {learning}; returned: a list of {kind}"
    listed = {id(p) for p in listed}
    returned = _names(name for name, p in named.items() if id(p) in listed)
    if returned == "none" and listed:
        returned = "copies, none of them a parameter of the model"
    return f"learning: {learning}; returned: {returned}"


def _names(names):
    names = [*names]
    return ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "") or "none"


def _small(learning, **sizes):
    config = POSSMConfig(n_units=3, dim=4, head_dim=4, n_freqs=1, hidden=4, **sizes)
    return lambda: (POSSM(config).requires_grad_(learning),)


may_learn = Check(
    "may_learn",
    reference=_learning,
    cases=[
        Case("a new decoder, in which everything learns", _small(True), _flags),
        Case("a decoder that had been frozen as a whole", _small(False), _flags),
    ],
    traps={
        "the switches are right, but the list contains names. An optimizer needs the parameters themselves: `p`, not "
        "`name`.": lambda model: [name for name in _OWN if _learning(model)],
        "the switches are right, but the list contains modules. An optimizer needs their parameters: "
        "`model.unit_embedding.weight`.": lambda model: [
            module for module in (model.unit_embedding, model.session_embedding) if _learning(model)
        ],
        "`task_embedding` learns as well. It has the word in its name, but it is common to all sessions.": (
            partial(_learning, own=lambda name: name.endswith("embedding.weight") or name == "task_embedding")
        ),
        "lets it learn. Use the full names.": partial(_learning, own=lambda s: s.endswith("embedding.weight")),
        "the session embedding must learn, too: it is the session's own.": (
            partial(_learning, own=lambda name: name == "unit_embedding.weight")
        ),
        "the unit embeddings must learn, too.": partial(_learning, own=lambda name: name == "session_embedding.weight"),
        "layer norms learn as well. They are small, but common to all sessions.": (
            partial(_learning, own=lambda name: name in _OWN or "norm" in name)
        ),
        "the other way round: you freeze what is new and train what is common.": (
            partial(_learning, own=lambda name: name not in _OWN)
        ),
        "the right list, but nothing was frozen: torch ignores an attribute `requires_grad` of a *module*, and a list "
        "freezes nothing either. Set it on every parameter.": partial(_learning, switch=lambda p, own: None),
        "the right list, but nothing may learn: you froze all and did not switch the two tables on again.": partial(
            _learning, switch=lambda p, own: p.requires_grad_(False)
        ),
        "in a decoder that had been frozen, nothing learns: what may learn must be switched on again.": partial(
            _learning,
            switch=lambda p, own: own or p.requires_grad_(False),
            listed=lambda p, own: p.requires_grad,
        ),
        "frozen as it should be, but the list still contains all parameters.": (
            partial(_learning, listed=lambda p, own: True)
        ),
    },
)


# Exercise 16.4: what two methods differ by, seed for seed


def _paired(a, b, *, mean=lambda a, b: (a - b).mean(), error=lambda a, b: (a - b).std() / len(a) ** 0.5):
    return mean(a, b), error(a, b)


def _seeds(make):
    """Six seeds: some sessions are easy for both methods, some hard for both."""
    a = torch.tensor([0.61, 0.42, 0.55, 0.30, 0.71, 0.47], dtype=torch.float64)
    # one seed is worse, and the two methods rank the seeds differently
    gain = torch.tensor([0.11, 0.15, -0.02, 0.14, 0.25, 0.16], dtype=torch.float64)
    return lambda: make(a.clone(), a - gain)


paired = Check(
    "paired",
    reference=_paired,
    cases=[
        Case("six seeds", _seeds(lambda a, b: (a, b)), tolerance=1e-6),
        Case("two seeds", _seeds(lambda a, b: (a[:2], b[:2])), tolerance=1e-6),
        Case("the two methods the other way round", _seeds(lambda a, b: (b, a)), tolerance=1e-6),
    ],
    traps={
        "the mean is right, the error is not that of *pairs*. You add up how much the seeds differ, and that is the "
        "same for both methods. Subtract seed for seed first.": (
            partial(_paired, error=lambda a, b: ((a.var() + b.var()) / len(a)) ** 0.5)
        ),
        "that is the spread of the differences over seeds. The mean of S seeds is more certain, by a factor of "
        "√S.": partial(_paired, error=lambda a, b: (a - b).std()),
        "you divide by S where (16.4) divides by √S: an error shrinks with the root of the number of seeds.": (
            partial(_paired, error=lambda a, b: (a - b).std() / len(a))
        ),
        "that is the square of the error: (16.4) takes two square roots.": (
            partial(_paired, error=lambda a, b: (a - b).var() / len(a))
        ),
        "divide the squares by S − 1, not by S, when you take the spread: the mean was taken from the same few "
        "numbers.": partial(_paired, error=lambda a, b: (a - b).std(correction=0) / len(a) ** 0.5),
        "that divides by √(S − 1) twice. The sum of squares is divided by S − 1, and the root is of S.": (
            partial(_paired, error=lambda a, b: (a - b).std() / (len(a) - 1) ** 0.5)
        ),
        "both were sorted first, so the best seed of one method meets the best of the other. Subtract seed for "
        "seed.": partial(_paired, error=lambda a, b: (a.sort().values - b.sort().values).std() / len(a) ** 0.5),
        "that compares the best seed of one method with the best of the other: two different sessions, and the "
        "luckiest of each.": partial(_paired, mean=lambda a, b: a.max() - b.max()),
        "the sign: how much *better* is a than b?": partial(_paired, mean=lambda a, b: (b - a).mean()),
        "the sign is lost: a method may be worse, too.": partial(_paired, mean=lambda a, b: (a - b).mean().abs()),
    },
)


# Exercise 16.5: canonical correlation analysis, as a map from the latents of today to those of another day


def _align(
    x,
    y,
    *,
    center=lambda x: x - x.mean(0),
    joined=lambda u, vh: u @ vh,
    ends=lambda r_x, w, r_y: torch.linalg.solve(r_x, w @ r_y),
    order=lambda x, y: (x, y),
):
    (q_x, r_x), (q_y, r_y) = (torch.linalg.qr(center(z)) for z in order(x, y))
    u, s, vh = torch.linalg.svd(q_x.T @ q_y)
    return ends(r_x, joined(u, vh), r_y), s


def _other(x, y, *, of=lambda x, y: torch.linalg.lstsq(x, y).solution):
    x, y = x - x.mean(0), y - y.mean(0)
    return of(x, y), _align(x, y)[1]


def _procrustes(x, y):
    u, _, vh = torch.linalg.svd(x.T @ y)
    return u @ vh


def _latents(noise, mix, mean=0.0):
    """Latents of two days (40, 3) at matching times; the second is a linear map of the first, and noise."""

    def make():
        generator = torch.Generator().manual_seed(16)
        x, e = (torch.randn(40, 3, generator=generator, dtype=torch.float64) for _ in range(2))
        mixed, (x, e) = torch.tensor(mix, dtype=torch.float64), (x - x.mean(0), e - e.mean(0))
        offset = mean * torch.tensor([1.0, -2.0, 0.5], dtype=torch.float64)
        return x + offset, x @ mixed + noise * e - 2 * offset

    return make


_ROTATION = [[0.0, 1.0, 0.0], [-1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]
_MIX = [[1.5, 0.5, 0.0], [-0.4, 0.8, 0.3], [0.2, 0.0, 0.6]]

align = Check(
    "align",
    reference=_align,
    cases=[
        Case("latents that are rotated from one day to the other", _latents(0.0, _ROTATION), tolerance=1e-6),
        Case("latents that are stretched and sheared as well", _latents(0.0, _MIX), tolerance=1e-6),
        Case("latents with noise of their own", _latents(1.0, _MIX), tolerance=1e-6),
        Case("latents that do not have the mean zero", _latents(1.0, _MIX, mean=3.0), tolerance=1e-6),
    ],
    traps={
        "the latents of one day are on the wrong side: the map leads from today (`x`) to day 0 (`y`).": partial(
            _align, order=lambda x, y: (y, x)
        ),
        "this is Mᵀ. The latents are rows, so the map is on their right: `x @ M`.": partial(
            _align, ends=lambda r_x, w, r_y: torch.linalg.solve(r_x, w @ r_y).T
        ),
        "that is a rotation alone (Procrustes). Latents may also be stretched: R_X and R_Y are missing.": partial(
            _other, of=_procrustes
        ),
        "that is least squares. It shrinks what is noisy; CCA keeps the variance of day 0, with U Vᵀ in the "
        "middle.": _other,
        "take off the mean of each column first.": partial(_align, center=lambda x: x),
        "`torch.linalg.svd` returns Vᵀ already: do not transpose it again.": partial(
            _align, joined=lambda u, vh: u @ vh.T
        ),
        "R_Y is missing at the end: so far the result is in canonical coordinates, not in those of day 0.": partial(
            _align, ends=lambda r_x, w, r_y: torch.linalg.inv(r_x) @ w
        ),
        "R_X must be undone (its inverse), not applied once more.": partial(
            _align, ends=lambda r_x, w, r_y: r_x @ w @ r_y
        ),
    },
)


# Exercise 16.6: unit identification, built from nothing


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
            self.readout.bias.zero_()
            self.readout.weight.copy_(axes)
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


@cache
def _import_optimizers():
    """The first optimizer of a process imports for seconds; not in the time of the student's function."""
    torch.optim.Adam([nn.Parameter(torch.zeros(1))]).step()


def _new_day(n_units, frozen=False):
    def make():
        _import_optimizers()
        decoder = TinyDecoder(*_tiny_session(20, seed=1))
        _, counts, velocity = _tiny_session(n_units, seed=2)
        return decoder.requires_grad_(not frozen), counts[:30], velocity[:30]

    return make


def _identify(
    decoder, counts, velocity, *, copied=copy.deepcopy, steps=100, learning=lambda new: [new.table], fresh=True
):
    new = copied(decoder)
    if fresh:
        new.table = nn.Parameter(0.1 * torch.randn(counts.shape[-1], decoder.table.shape[1]))
    optimizer = torch.optim.Adam([p.requires_grad_() for p in learning(new)], lr=0.01)
    for _ in range(steps):
        loss = (new(counts) - velocity).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return new


_GOAL = 0.65


def _what_it_made(function, decoder, counts, velocity):
    """In words: the table, what else changed, and R² on 20 trials that were not given."""
    before, flags = copy.deepcopy(decoder.state_dict()), [p.requires_grad for p in decoder.parameters()]
    new = function(decoder, counts, velocity)
    if not isinstance(new, nn.Module):
        return f"a value of type {type(new).__name__} instead of a decoder"

    def kept(model, names):
        after = model.state_dict()
        return all(name in after and torch.equal(after[name], before[name]) for name in names)

    common = "kept" if kept(new, [name for name in before if name != "table"]) else "changed"
    old = "kept" if kept(decoder, before) else "changed"
    if old == "kept" and [p.requires_grad for p in decoder.parameters()] != flags:
        old = "kept, but what may learn in it was switched"
    _, counts, velocity = _tiny_session(counts.shape[-1], seed=2)
    with torch.no_grad():
        error, spread = (new(counts[30:]) - velocity[30:]).square().sum(), velocity[30:].square().sum()
    r2 = (1 - error / spread).item()
    level = f"{_GOAL} or more" if r2 >= _GOAL else f"below {_GOAL}" if r2 >= 0.2 else "below 0.2"
    if not r2 > -5:
        level = "not finite, or far below 0: the steps are too long"
    table = tuple(new.table.shape)
    return f"a table {table}, common weights {common}, the given decoder {old}, R² on new trials {level}"


identify_from_scratch = Check(
    "identify_from_scratch",
    reference=_identify,
    cases=[
        Case("a new session of 30 units", _new_day(30), _what_it_made),
        Case("a new session of 25 units, and a decoder that came frozen", _new_day(25, frozen=True), _what_it_made),
    ],
    traps={
        "the given decoder is not what it was: its table was replaced. Work on a copy (`copy.deepcopy`).": partial(
            _identify, copied=lambda decoder: decoder
        ),
        "the common weights have learned as well: that is full finetuning. Give the optimizer the new table only.": (
            partial(_identify, learning=lambda new: [p for p in new.parameters() if p.requires_grad])
        ),
        "the new table has not learned anything. Does the optimizer hold the parameter that is in the model now, and "
        "are there steps enough?": partial(_identify, steps=0),
        "the table is new, but something else was trained in its place.": partial(
            _identify, learning=lambda new: [*new.readout.parameters()]
        ),
    },
)
