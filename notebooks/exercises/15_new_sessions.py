"""Exercises of chapter 15: rows of a joint table, what is new, what may learn, a session's scale, paired seeds."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from possm_lite.classroom.checks import Case, Check, ValueCheck
from possm_lite.decoder import POSSM, POSSMConfig

# Exercise 15.1: which row of the table of embeddings a token of one of several sessions has


def _rows(unit: Tensor, session: Tensor, n_units: Tensor) -> Tensor:
    before = n_units.cumsum(0) - n_units  # units of all earlier sessions, (S,)
    return torch.where(unit > 0, unit + before[session - 1], 0)


def _blank_moves(unit: Tensor, session: Tensor, n_units: Tensor) -> Tensor:
    return unit + (n_units.cumsum(0) - n_units)[session - 1]


def _shared(unit: Tensor, session: Tensor, n_units: Tensor) -> Tensor:
    return unit.clone()


def _own_included(unit: Tensor, session: Tensor, n_units: Tensor) -> Tensor:
    return torch.where(unit > 0, unit + n_units.cumsum(0)[session - 1], 0)


def _all_equally_large(unit: Tensor, session: Tensor, n_units: Tensor) -> Tensor:
    return torch.where(unit > 0, unit + (session - 1) * n_units[0], 0)


def _by_its_own_size(unit: Tensor, session: Tensor, n_units: Tensor) -> Tensor:
    return torch.where(unit > 0, unit + (session - 1) * n_units[session - 1], 0)


def _from_zero(unit: Tensor, session: Tensor, n_units: Tensor) -> Tensor:
    return torch.where(unit > 0, _rows(unit, session, n_units) - 1, 0)


def _only_the_last_before(unit: Tensor, session: Tensor, n_units: Tensor) -> Tensor:
    last = torch.cat([torch.zeros_like(n_units[:1]), n_units[:-1]])
    return torch.where(unit > 0, unit + last[session - 1], 0)


def _a_blank_each(unit: Tensor, session: Tensor, n_units: Tensor) -> Tensor:
    return torch.where(unit > 0, _rows(unit, session, n_units) + session - 1, 0)


def _tokens(unit: list[int], session: list[int], n_units: list[int]) -> Callable[[], tuple]:
    return lambda: (torch.tensor(unit), torch.tensor(session), torch.tensor(n_units))


table_row = Check(
    "table_row",
    reference=_rows,
    cases=[
        Case("one session alone", _tokens([3, 1, 4], [1, 1, 1], [4])),
        Case("two sessions of four units each", _tokens([1, 4, 1, 4], [1, 1, 2, 2], [4, 4])),
        Case("three sessions of 4, 2 and 3 units", _tokens([4, 1, 2, 1, 3], [1, 2, 2, 3, 3], [4, 2, 3])),
        Case("four sessions in any order", _tokens([2, 1, 5, 3, 1], [4, 2, 1, 3, 3], [5, 1, 3, 2])),
        Case("blank tokens", _tokens([0, 2, 0, 1, 0], [1, 2, 2, 3, 3], [4, 2, 3])),
    ],
    traps={
        "the blank token was moved too. Silence is the same in every session: unit 0 stays row 0.": _blank_moves,
        "unit 1 of every session gets the same row, as if it were one unit. Add the units of all earlier "
        "sessions.": _shared,
        "the offset of a session must not count its own units, only those of the sessions before it.": _own_included,
        "right only where all sessions have as many units as the first one.": _all_equally_large,
        "you count each earlier session as large as the token's own. Add up what the earlier ones really have.": (
            _by_its_own_size
        ),
        "rows start one too early: row 0 belongs to the blank token, and unit 1 of session 1 is row 1.": _from_zero,
        "only the session just before is counted. From the third session on all the earlier ones are needed.": (
            _only_the_last_before
        ),
        "you keep a row 0 for every session. The blank token is one for all, so each session adds its units only.": (
            _a_blank_each
        ),
    },
)


# Exercise 15.2: 40 units and one session, 32 numbers each

own_numbers = ValueCheck(
    "own_numbers",
    expected=41 * 32,
    traps={
        "the units are counted; the session has an embedding of its own, too.": 40 * 32,
        "those are the vectors. How many numbers is each made of?": 41,
        "one row too many: the blank token is not new, and row 0 of the session table is never asked for.": 42 * 32,
        "those are all rows of both tables. Row 0 of each is copied or never used: it is not the session's own.": 43
        * 32,
        "that is all a whole decoder for 40 units learns. Here the common weights stay as they are.": 103_842,
    },
)


# Exercise 15.3: what may learn in unit identification


def _marked(own: Callable[[str], bool]) -> Callable:
    """The answer that lets exactly the parameters learn whose name is `own`."""

    def may_learn(model: nn.Module) -> list[nn.Parameter]:
        for name, parameter in model.named_parameters():
            parameter.requires_grad_(own(name))
        return [p for p in model.parameters() if p.requires_grad]

    return may_learn


_OWN = ("unit_embedding.weight", "session_embedding.weight")


def _only_listed(model: nn.Module) -> list[nn.Parameter]:
    return [p for name, p in model.named_parameters() if name in _OWN]


def _frozen_never_thawed(model: nn.Module) -> list[nn.Parameter]:
    for name, parameter in model.named_parameters():
        if name not in _OWN:
            parameter.requires_grad_(False)
    return [p for p in model.parameters() if p.requires_grad]


def _set_on_modules(model: nn.Module) -> list[nn.Parameter]:
    for name, module in model.named_children():
        module.requires_grad = f"{name}.weight" in _OWN  # an attribute of a module: nobody reads it
    return _only_listed(model)


def _all_listed(model: nn.Module) -> list[nn.Parameter]:
    _marked(lambda name: name in _OWN)(model)
    return list(model.parameters())


def _flags(function: Callable, model: nn.Module) -> tuple:
    """Which parameters require a gradient, and which are in the list, by number."""
    listed = {id(p) for p in function(model)}
    parameters = list(model.parameters())
    return tuple(
        torch.tensor(x) for x in ([p.requires_grad for p in parameters], [id(p) in listed for p in parameters])
    )


def _small(learning: bool, **sizes) -> Callable[[], tuple]:
    def make() -> tuple:
        model = POSSM(POSSMConfig(n_units=3, dim=4, head_dim=4, n_freqs=1, hidden=4, **sizes))
        return (model.requires_grad_(learning),)

    return make


may_learn = Check(
    "may_learn",
    reference=_marked(lambda name: name in _OWN),
    cases=[
        Case("a new decoder, in which everything learns", _small(True), _flags),
        Case("a decoder that had been frozen as a whole", _small(False), _flags),
        Case("a decoder with an embedding for each millisecond", _small(True, query="per_ms"), _flags),
    ],
    traps={
        "`task_embedding` learns as well. It has the word in its name, but it is common to all sessions.": _marked(
            lambda name: name.endswith("embedding.weight") or name == "task_embedding"
        ),
        "right in the small decoder; one with an embedding for each millisecond has another common table, and yours "
        "lets it learn. Ask for the two by their full names.": _marked(lambda name: name.endswith("embedding.weight")),
        "the session embedding must learn, too: it is the session's own.": _marked(
            lambda name: name == "unit_embedding.weight"
        ),
        "the unit embeddings must learn, too.": _marked(lambda name: name == "session_embedding.weight"),
        "layer norms learn as well. They are small, but common to all sessions.": _marked(
            lambda name: name in _OWN or "norm" in name
        ),
        "the other way round: you freeze what is new and train what is common.": _marked(lambda name: name not in _OWN),
        "the right list, but nothing was frozen: `requires_grad` of a *module* is an attribute that nobody reads, and "
        "a list freezes nothing either. Set it on every parameter.": _set_on_modules,
        "in a decoder that had been frozen, nothing learns: what may learn has to be switched on again.": (
            _frozen_never_thawed
        ),
        "frozen as it should be, but the list still holds all parameters.": _all_listed,
    },
)


# Exercise 15.4: mean and spread of the velocity in the first n training trials


def _inside(times_s: Tensor, trials: Tensor) -> Tensor:
    return ((times_s[:, None] >= trials[:, 0]) & (times_s[:, None] < trials[:, 1])).any(1)  # (T,)


def _scaled(chosen: Tensor, correction: int = 0) -> tuple[Tensor, Tensor]:
    std = chosen.std(0, correction=correction)
    return chosen.mean(0), torch.where(std > 0, std, 1.0)


def _scale(times_s: Tensor, velocity: Tensor, trials: Tensor, n: int) -> tuple[Tensor, Tensor]:
    return _scaled(velocity[_inside(times_s, trials[:n])])


def _slip(scaled: Callable[[Tensor], tuple]) -> Callable:
    """The right samples, and `scaled` in place of their mean and spread."""
    return lambda times_s, velocity, trials, n: scaled(velocity[_inside(times_s, trials[:n])])


def _with_the_stops(times_s: Tensor, velocity: Tensor, trials: Tensor, n: int) -> tuple[Tensor, Tensor]:
    return _scaled(velocity[_inside(times_s, trials[:n]) | torch.isin(times_s, trials[:n, 1])])


def _with_the_pauses(times_s: Tensor, velocity: Tensor, trials: Tensor, n: int) -> tuple[Tensor, Tensor]:
    return _scaled(velocity[(times_s >= trials[0, 0]) & (times_s < trials[n - 1, 1])])


def _trial_by_trial(times_s: Tensor, velocity: Tensor, trials: Tensor, n: int) -> tuple[Tensor, Tensor]:
    each = [_scale(times_s, velocity, trial[None], 1) for trial in trials[:n]]
    return tuple(torch.stack(moments).mean(0) for moments in zip(*each, strict=True))


def _moving(pauses: bool = False, speed: tuple[float, float] = (1.0, 1.0)) -> Callable[[], tuple]:
    """Four training trials of a second, the last 4 of 20 s are no training: there the hand is faster."""

    def make() -> tuple:
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
        "all of the velocity went in, that of validation and test too. Nobody has it yet when the decoder is trained: "
        "take the times inside the trials only.": lambda times_s, velocity, trials, n: _scaled(velocity),
        "all training trials went in. It is to look as if only the first `n` had been recorded.": (
            lambda times_s, velocity, trials, n: _scale(times_s, velocity, trials, len(trials))
        ),
        "the sample at the stop of a trial belongs to what comes after: time < stop.": _with_the_stops,
        "what lies between two trials went in as well. A time counts only inside one of them.": _with_the_pauses,
        "taken trial by trial and then averaged: how trials differ is lost. Put all samples together.": _trial_by_trial,
        "one number for both axes. x and y have a mean and a spread each.": _slip(
            lambda v: (v.mean().expand(2).clone(), v.std(correction=0).expand(2).clone())
        ),
        "nearly: divide by the number of samples, not by one less (`correction=0`).": _slip(lambda v: _scaled(v, 1)),
        "a hand that never moves along an axis has spread 0, and something will be divided by it. Put 1 there.": _slip(
            lambda v: (v.mean(0), v.std(0, correction=0))
        ),
        "a small spread is still a spread: put 1 only where it is 0.": _slip(
            lambda v: (v.mean(0), v.std(0, correction=0).clamp(min=1.0))
        ),
        "that is the variance. The spread is its square root.": _slip(lambda v: (v.mean(0), _scaled(v)[1] ** 2)),
    },
)


# Exercise 15.5: what two methods differ by, seed for seed


def _paired(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    difference = a - b
    return difference.mean(), difference.std() / len(a) ** 0.5


def _of(make: Callable[[Tensor, Tensor], tuple]) -> Callable[[], tuple]:
    """Six seeds: some sessions are easy for both methods, some hard for both."""
    a = torch.tensor([0.61, 0.42, 0.55, 0.30, 0.71, 0.47], dtype=torch.float64)
    gain = torch.tensor([0.11, 0.15, 0.12, 0.14, 0.10, 0.16], dtype=torch.float64)
    return lambda: make(a.clone(), a - gain)


paired = Check(
    "paired",
    reference=_paired,
    cases=[
        Case("six seeds", _of(lambda a, b: (a, b)), tolerance=1e-9),
        Case("two seeds", _of(lambda a, b: (a[:2], b[:2])), tolerance=1e-9),
        Case("the two methods the other way round", _of(lambda a, b: (b, a)), tolerance=1e-9),
    ],
    traps={
        "the mean is right, the error is not that of *pairs*. You add up how much the seeds differ, and that is the "
        "same for both methods. Subtract seed for seed first.": lambda a, b: (
            (a - b).mean(),
            ((a.var() + b.var()) / len(a)) ** 0.5,
        ),
        "that is the spread of the differences over seeds. The mean of S seeds is surer by a factor of √S.": (
            lambda a, b: ((a - b).mean(), (a - b).std())
        ),
        "you divide by S where (15.3) divides by √S: an error shrinks with the root of the number of seeds.": (
            lambda a, b: ((a - b).mean(), (a - b).std() / len(a))
        ),
        "that is the square of the error: (15.3) takes two square roots.": (
            lambda a, b: ((a - b).mean(), (a - b).var() / len(a))
        ),
        "divide the squares by S − 1, not by S, when you take the spread: the mean was taken from the same few "
        "numbers.": lambda a, b: ((a - b).mean(), (a - b).std(correction=0) / len(a) ** 0.5),
        "that compares the best seed of one method with the best of the other: two different sessions, and the "
        "luckiest of each.": lambda a, b: (a.max() - b.max(), _paired(a, b)[1]),
        "the sign: how much *better* is a than b?": lambda a, b: (-_paired(a, b)[0], _paired(a, b)[1]),
        "the sign is lost: a method may be worse, too.": lambda a, b: (_paired(a, b)[0].abs(), _paired(a, b)[1]),
    },
)
