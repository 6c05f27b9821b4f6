"""Exercises of chapter 16: rows of a joint table, what is new, what may learn, a session's scale, paired seeds."""

from functools import partial

import torch

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
        "that is all a whole decoder for 40 units learns. Here the common weights stay as they are.": 103_842,
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
    """Which parameters require a gradient, and which are in the list, by index."""
    listed = {id(p) for p in function(model)}
    parameters = [*model.parameters()]
    return torch.tensor([p.requires_grad for p in parameters]), torch.tensor([id(p) in listed for p in parameters])


def _small(learning, **sizes):
    config = POSSMConfig(n_units=3, dim=4, head_dim=4, n_freqs=1, hidden=4, **sizes)
    return lambda: (POSSM(config).requires_grad_(learning),)


may_learn = Check(
    "may_learn",
    reference=_learning,
    cases=[
        Case("a new decoder, in which everything learns", _small(True), _flags),
        Case("a decoder that had been frozen as a whole", _small(False), _flags),
        Case("a decoder with an embedding for each millisecond", _small(True, query="per_ms"), _flags),
    ],
    traps={
        "`task_embedding` learns as well. It has the word in its name, but it is common to all sessions.": (
            partial(_learning, own=lambda name: name.endswith("embedding.weight") or name == "task_embedding")
        ),
        "right in the small decoder; one with an embedding for each millisecond has another common table, and yours "
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


# Exercise 16.4: mean and spread of the velocity in the first n training trials


def _scale(
    times_s,
    velocity,
    trials,
    n,
    *,
    inside=lambda t, trials: ((t >= trials[:, :1]) & (t < trials[:, 1:])).any(0),
    mean=lambda v: v.mean(0),
    std=lambda v: v.std(0, correction=0),
    without_zeros=lambda std: torch.where(std > 0, std, 1.0),
):
    v = velocity[inside(times_s, trials[:n])]
    return mean(v), without_zeros(std(v))


def _trial_by_trial(times_s, velocity, trials, n):
    each = [_scale(times_s, velocity, trial[None], 1) for trial in trials[:n]]
    return tuple(torch.stack(moments).mean(0) for moments in zip(*each, strict=True))


def _moving(pauses=False, speed=(1.0, 1.0)):
    """Four training trials of a second; after them the hand is faster, up to 20 s."""

    def make():
        generator = torch.Generator().manual_seed(15)
        times_s = torch.arange(200, dtype=torch.float64) / 10
        velocity = torch.randn(200, 2, generator=generator, dtype=torch.float64) * torch.tensor([100.0, 40.0]) + 10
        velocity = velocity * (1 + times_s[:, None] / 5) * torch.tensor(speed, dtype=torch.float64)
        start = torch.arange(4, dtype=torch.float64) * (4 if pauses else 1)
        return times_s, velocity, torch.stack([start, start + 1], 1), 3

    return make


scale_of = Check(
    "scale_of",
    reference=_scale,
    cases=[
        Case("trials that follow each other", _moving(), tolerance=1e-9),
        Case("trials with pauses between them", _moving(pauses=True), tolerance=1e-9),
        Case("a hand that never moves along y", _moving(speed=(1.0, 0.0)), tolerance=1e-9),
        Case("a hand that moves by less than 1 mm/s along x", _moving(speed=(0.001, 1.0)), tolerance=1e-9),
    ],
    traps={
        "all of the velocity went in, that of validation and test too. Those are unknown when the decoder is "
        "trained: take the times inside the trials only.": partial(_scale, inside=lambda t, trials: t >= 0),
        "all training trials went in. It should be as if only the first `n` had been recorded.": (
            lambda times_s, velocity, trials, n: _scale(times_s, velocity, trials, len(trials))
        ),
        "the sample at the stop of a trial belongs to what comes after: time < stop.": partial(
            _scale, inside=lambda t, trials: ((t >= trials[:, :1]) & (t <= trials[:, 1:])).any(0)
        ),
        "what lies between two trials went in as well. A time counts only if it is inside one of the trials.": partial(
            _scale, inside=lambda t, trials: (t >= trials[0, 0]) & (t < trials[-1, 1])
        ),
        "taken trial by trial and then averaged: how trials differ is lost. Put all samples together.": _trial_by_trial,
        "one number for both axes. x and y have a mean and a spread each.": (
            partial(_scale, mean=lambda v: v.mean().expand(2), std=lambda v: v.std(correction=0).expand(2))
        ),
        "nearly: divide by the number of samples, not by one less (`correction=0`).": (
            partial(_scale, std=lambda v: v.std(0))
        ),
        "a hand that never moves along an axis has spread 0, and something will be divided by it later. Put 1 "
        "there.": partial(_scale, without_zeros=lambda std: std),
        "a small spread is still a spread: put 1 only where it is 0.": (
            partial(_scale, without_zeros=lambda std: std.clamp(min=1.0))
        ),
        "that is the variance. The spread is its square root.": partial(_scale, std=lambda v: v.var(0, correction=0)),
    },
)


# Exercise 16.5: what two methods differ by, seed for seed


def _paired(a, b, *, mean=lambda a, b: (a - b).mean(), error=lambda a, b: (a - b).std() / len(a) ** 0.5):
    return mean(a, b), error(a, b)


def _seeds(make):
    """Six seeds: some sessions are easy for both methods, some hard for both."""
    a = torch.tensor([0.61, 0.42, 0.55, 0.30, 0.71, 0.47], dtype=torch.float64)
    gain = torch.tensor([0.11, 0.15, 0.12, 0.14, 0.10, 0.16], dtype=torch.float64)
    return lambda: make(a.clone(), a - gain)


paired = Check(
    "paired",
    reference=_paired,
    cases=[
        Case("six seeds", _seeds(lambda a, b: (a, b)), tolerance=1e-9),
        Case("two seeds", _seeds(lambda a, b: (a[:2], b[:2])), tolerance=1e-9),
        Case("the two methods the other way round", _seeds(lambda a, b: (b, a)), tolerance=1e-9),
    ],
    traps={
        "the mean is right, the error is not that of *pairs*. You add up how much the seeds differ, and that is the "
        "same for both methods. Subtract seed for seed first.": (
            partial(_paired, error=lambda a, b: ((a.var() + b.var()) / len(a)) ** 0.5)
        ),
        "that is the spread of the differences over seeds. The mean of S seeds is more certain, by a factor of "
        "√S.": partial(_paired, error=lambda a, b: (a - b).std()),
        "you divide by S where (16.3) divides by √S: an error shrinks with the root of the number of seeds.": (
            partial(_paired, error=lambda a, b: (a - b).std() / len(a))
        ),
        "that is the square of the error: (16.3) takes two square roots.": (
            partial(_paired, error=lambda a, b: (a - b).var() / len(a))
        ),
        "divide the squares by S − 1, not by S, when you take the spread: the mean was taken from the same few "
        "numbers.": partial(_paired, error=lambda a, b: (a - b).std(correction=0) / len(a) ** 0.5),
        "that compares the best seed of one method with the best of the other: two different sessions, and the "
        "luckiest of each.": partial(_paired, mean=lambda a, b: a.max() - b.max()),
        "the sign: how much *better* is a than b?": partial(_paired, mean=lambda a, b: (b - a).mean()),
        "the sign is lost: a method may be worse, too.": partial(_paired, mean=lambda a, b: (a - b).mean().abs()),
    },
)
