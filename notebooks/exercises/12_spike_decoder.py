"""Exercises of chapter 12: the query that reads the last states, the scale of velocity, R², a causal history."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from possm_lite.blocks.positions import phasors, rotate
from possm_lite.classroom.checks import Case, Check, ValueCheck, normal
from possm_lite.decoder.baselines import history


def _turn(x: Tensor, t: Tensor, omega: Tensor) -> Tensor:
    return rotate(x, phasors(t, omega, x.dtype))


# ---- Exercise 12.1: the second query ------------------------------------------------------------------------------


def _own_and_before(b: int, n_seen: int, n_bins: int) -> list[int]:
    return list(range(max(b - n_seen + 1, 0), b + 1))


def _reading(
    seen: Callable[[int, int, int], list[int]] = _own_and_before,
    end: Callable[[Tensor], Tensor] = lambda j: 0.05 * (j + 1),
    turn_keys: bool = True,
    turn_values: bool = True,
    turn_back: bool = True,
    scale: float = 0.5,
) -> Callable:
    """A reading of (12.6) of the bins `seen`, each at the time `end`, with some of its steps left out."""

    def read_states(q: Tensor, t: Tensor, k: Tensor, v: Tensor, b: int, n_seen: int, omega: Tensor) -> Tensor:
        j = torch.tensor(seen(b, n_seen, len(k)), dtype=torch.int64)
        k, v, tau = k[j], v[j], end(j.double())
        if turn_keys:
            q, k = _turn(q, t, omega), _turn(k, tau, omega)
        v = _turn(v, tau, omega) if turn_values else v
        z = torch.softmax(k @ q / len(q) ** scale, 0) @ v
        return _turn(z, -t, omega) if turn_back else z

    return read_states


def _states(b: int, t: float, n_seen: int = 3) -> Callable[[], tuple]:
    """Six bins, vectors of six numbers of which four are turned, a query at time t in bin b."""

    def make() -> tuple:
        q, k, v = (normal(*shape, seed=12 + i).double() for i, shape in enumerate(((6,), (6, 6), (6, 6))))
        omega = 2 * torch.pi / torch.tensor([0.09, 0.7], dtype=torch.float64)
        return 2 * q, torch.tensor(t, dtype=torch.float64), k, v, b, n_seen, omega

    return make


read_states = Check(
    "read_states",
    reference=_reading(),
    cases=[
        Case("a query that sees its own bin alone", _states(4, 0.213, n_seen=1)),
        Case("a query that sees three bins", _states(4, 0.213)),
        Case("a query at the very end of the last bin", _states(5, 0.299)),
        Case("a query in the first bin, which has none before it", _states(0, 0.012)),
        Case("a query in the second bin", _states(1, 0.071)),
    ],
    traps={
        "the states have no position: swap two of them and you get the same. Turn keys and values by the end of "
        "their bin, and the query by t.": _reading(turn_keys=False, turn_values=False, turn_back=False),
        "the keys were never turned: the order of the states does not enter the weights.": _reading(turn_keys=False),
        "the values were never turned: only keys are.": _reading(turn_values=False, turn_back=False),
        "the sum of the values still stands turned: turn it back by t.": _reading(turn_back=False),
        "each state stands at the start of its bin: it knows all of its bin, so its time is the end.": (
            _reading(end=lambda j: 0.05 * j)
        ),
        "each state stands at the number of its bin: a time is wanted, in s.": _reading(end=lambda j: j),
        "the query reads all states there are, those after its own bin too: that is the future.": (
            _reading(lambda b, n_seen, n_bins: list(range(n_bins)))
        ),
        "the query reads all states from the first bin on: it sees n_seen at most.": (
            _reading(lambda b, n_seen, n_bins: list(range(b + 1)))
        ),
        "one state too many: with b itself, n_seen bins begin at b - n_seen + 1.": (
            _reading(lambda b, n_seen, n_bins: list(range(max(b - n_seen, 0), b + 1)))
        ),
        "the clock starts anew at the first state that is seen: bin j of the trial ends at (j + 1) 0.05 s.": (
            _reading(end=lambda j: 0.05 * (j - j[0] + 1))
        ),
        "the query does not read the state of its own bin: the last one is b, not b - 1.": (
            _reading(lambda b, n_seen, n_bins: list(range(max(b - n_seen, 0), b)))
        ),
        "right in the middle of a trial, wrong at its start: a slice that begins at a negative number counts from "
        "the other end, and comes out empty.": _reading(lambda b, n, n_bins: list(range(n_bins))[b - n + 1 : b + 1]),
        "right in the middle of a trial, wrong at its start: a negative number counts from the other end, so the "
        "first bins read the last ones.": _reading(lambda b, n, n_bins: [j % n_bins for j in range(b - n + 1, b + 1)]),
        "right in the middle of a trial, wrong at its start: bins before the first do not exist. The first bin does "
        "not stand in for them.": _reading(lambda b, n, n_bins: [max(j, 0) for j in range(b - n + 1, b + 1)]),
        "the scores are too large: the root of the size d is missing.": _reading(scale=0.0),
    },
)


# ---- Exercise 12.2: the scale of velocity -------------------------------------------------------------------------


def _inside(times_s: Tensor, train: Tensor) -> Tensor:
    return ((times_s[:, None] >= train[:, 0]) & (times_s[:, None] < train[:, 1])).any(1)


def _standardised(
    inside: Callable[[Tensor, Tensor], Tensor] = _inside,
    spread: Callable[[Tensor], Tensor] = lambda x: x.std(0, correction=0),
    mean: Callable[[Tensor], Tensor] = lambda x: x.mean(0),
    still: float = 0.0,
) -> Callable:
    """Velocity less `mean` over `spread` of the samples `inside`; spreads up to `still` become 1."""

    def standardise(velocity: Tensor, times_s: Tensor, train: Tensor) -> Tensor:
        x = velocity[inside(times_s, train)]
        divisor = spread(x)
        return (velocity - mean(x)) / torch.where(divisor <= still, torch.ones_like(divisor), divisor)

    return standardise


def _samples(train: list[tuple[float, float]], scale: tuple[float, float] = (100.0, 20.0)) -> Callable[[], tuple]:
    """Twelve samples, 0.1 s apart, the last four of them three times as fast and pushed."""

    def make() -> tuple:
        velocity = normal(12, 2, seed=9).double() * torch.tensor(scale, dtype=torch.float64) + 5
        velocity[8:] = 3 * velocity[8:] + torch.tensor(scale, dtype=torch.float64)
        return velocity, torch.arange(12, dtype=torch.float64) / 10, torch.tensor(train, dtype=torch.float64)

    return make


standardise = Check(
    "standardise",
    reference=_standardised(),
    cases=[
        Case("a session that is all training", _samples([(0.0, 1.2)])),
        Case("one training trial and faster trials after it", _samples([(0.0, 0.75)])),
        Case("two training trials with another between them", _samples([(0.0, 0.35), (0.85, 1.05)])),
        Case("a training trial that stops at the time of a sample", _samples([(0.2, 0.7)])),
        Case("a hand that never moves along y", _samples([(0.0, 0.75)], scale=(100.0, 0.0))),
    ],
    traps={
        "mean and spread are those of the whole session: what the test trials look like has leaked in. Take them from "
        "the training trials alone.": _standardised(lambda times, train: times >= 0),
        "mean and spread are taken from the first start to the last stop: what lies between training trials is not "
        "training.": _standardised(lambda times, train: (times >= train[:, 0].min()) & (times < train[:, 1].max())),
        "a sample at the very stop of a trial belongs to the next one: start <= time < stop.": (
            _standardised(lambda t, train: ((t[:, None] >= train[:, 0]) & (t[:, None] <= train[:, 1])).any(1))
        ),
        "one spread for both axes: each axis has its own.": (
            _standardised(spread=lambda x: x.std(correction=0).expand(2))
        ),
        "divided by the variance: take its root.": _standardised(spread=lambda x: x.var(0, correction=0)),
        "the mean is still in it: subtract it before you divide.": _standardised(mean=lambda x: 0 * x.mean(0)),
        "slightly too small: torch's std divides by n - 1. Say correction=0.": _standardised(spread=lambda x: x.std(0)),
        "right until a hand never moves along an axis: spread 0. Divide by 1 there.": _standardised(still=-1.0),
    },
)


# ---- Exercise 12.3: half the velocity leaves half the error, whose square is a quarter: 1 - 1/4 --------------------

my_r2 = ValueCheck(
    "my_r2",
    expected=0.75,
    tolerance=0.005,
    traps={
        "half the velocity is missing, but R² counts squares: what is left of the error is a quarter.": 0.5,
        "that is the share of the square that is missing. R² is one less that.": 0.25,
        "that is the correlation. It does not see that every peak is too low; R² does.": 1.0,
    },
)


# ---- Exercise 12.4: R² over all trials ----------------------------------------------------------------------------

Trials = list[Tensor]


def _r2(true: Tensor, decoded: Tensor, over: tuple[int, ...] = (0,), about: float = 1.0) -> Tensor:
    return 1 - ((true - decoded) ** 2).sum(over) / ((true - about * true.mean(0)) ** 2).sum(over)


def _pooled(r2: Callable[[Tensor, Tensor], Tensor]) -> Callable[[Trials, Trials], Tensor]:
    return lambda true, decoded: r2(torch.cat(true), torch.cat(decoded)).mean()


def _r2_of_each(true: Trials, decoded: Trials) -> Tensor:
    return torch.stack([_r2(t, d) for t, d in zip(true, decoded, strict=True)]).mean()


def _r2_weighted(true: Trials, decoded: Trials) -> Tensor:
    n = sum(len(t) for t in true)
    return sum(len(t) / n * _r2(t, d).mean() for t, d in zip(true, decoded, strict=True))


def _each_about_its_mean(true: Trials, decoded: Trials) -> Tensor:
    spread = sum(((t - t.mean(0)) ** 2).sum(0) for t in true)
    return (1 - sum(((t - d) ** 2).sum(0) for t, d in zip(true, decoded, strict=True)) / spread).mean()


def _correlation(true: Tensor, decoded: Tensor) -> Tensor:
    a, b = true - true.mean(0), decoded - decoded.mean(0)
    return (a * b).sum(0) ** 2 / ((a**2).sum(0) * (b**2).sum(0))


def _trials(lengths: tuple[int, ...], noise: float = 0.4, size=(1.0, 1.0), gain: float = 1.0, push: float = 0.0):
    def make() -> tuple:
        n = sum(lengths)
        level = torch.repeat_interleave(normal(len(lengths), 2, seed=5), torch.tensor(lengths), dim=0)
        true = ((normal(n, 2, seed=3) + level) * torch.tensor(size) + push).double()
        decoded = gain * true + noise * normal(n, 2, seed=4).double()
        return list(true.split(lengths)), list(decoded.split(lengths))

    return make


r2_of_trials = Check(
    "r2_of_trials",
    reference=_pooled(_r2),
    cases=[
        Case("one trial", _trials((6,))),
        Case("one trial in which the decoder says twice the velocity", _trials((6,), gain=2.0)),
        Case("one trial of a hand that moves ten times as much along x as along y", _trials((6,), size=(10.0, 1.0))),
        Case("one trial with a drift", _trials((6,), push=3.0)),
        Case("three trials of one length", _trials((5, 5, 5))),
        Case("three trials of different lengths", _trials((3, 9, 4))),
    ],
    traps={
        "this is the mean of each trial's R²: a trial in which the hand hardly moves then outweighs all others. Put "
        "the trials together first.": _r2_of_each,
        "this is the mean of each trial's R², weighted by length: put the trials together first, and divide one sum "
        "by one sum.": _r2_weighted,
        "the errors are put together, but each trial is compared with its own mean: take the mean of all trials.": (
            _each_about_its_mean
        ),
        "x and y share one sum, so the axis that moves more decides: R² of each axis, then their mean.": (
            _pooled(partial(_r2, over=(0, 1)))
        ),
        "that is the squared correlation: it forgives a decoder that says twice the velocity. R² does not.": (
            _pooled(_correlation)
        ),
        "true and decoded are swapped: the spread below the line is that of the true velocity.": (
            lambda true, decoded: _pooled(_r2)(decoded, true)
        ),
        "the spread below the line is taken about zero: take it about the mean.": (_pooled(partial(_r2, about=0.0))),
        "slightly too large: torch's var divides by n - 1. Take sums, or say correction=0.": (
            _pooled(lambda true, decoded: 1 - ((true - decoded) ** 2).mean(0) / true.var(0))
        ),
    },
)


# ---- Exercise 12.5: a causal history ------------------------------------------------------------------------------


def _rows(offsets: Callable[[int], range], wrap: bool = False) -> Callable[[Tensor, int], Tensor]:
    """Row t holds the bins t + offset, in this order; zeros, or the other end, where there is no bin."""

    def causal_history(counts: Tensor, n_history: int) -> Tensor:
        n = len(counts)
        at = torch.arange(n)[:, None] + torch.tensor(list(offsets(n_history)))  # (T, n)
        rows = counts[at % n]
        return (rows if wrap else rows * ((at >= 0) & (at < n))[..., None]).flatten(1)

    return causal_history


def _unit_by_unit(counts: Tensor, n_history: int) -> Tensor:
    return history(counts[None], n_history)[0].unflatten(1, (n_history, -1)).transpose(1, 2).flatten(1)


def _counts(n_bins: int = 6, n_units: int = 2, n_history: int = 3) -> Callable[[], tuple]:
    return lambda: (1.0 + torch.arange(n_bins * n_units).reshape(n_bins, n_units), n_history)


def _before_a_change(function: Callable, counts: Tensor, n_history: int) -> Any:
    """The rows before bin 4, when bin 4 and all later ones change."""
    changed = torch.cat([counts[:4], counts[4:] + 100])
    return function(changed, n_history)[:4]


causal_history = Check(
    "causal_history",
    reference=lambda counts, n_history: history(counts[None], n_history)[0],
    cases=[
        Case("a history of one bin", _counts(n_history=1)),
        Case("one unit and a history of three bins", _counts(n_units=1)),
        Case("two units and a history of three bins", _counts()),
        Case("the rows before a bin, when that bin and later ones change", _counts(), _before_a_change),
        Case("a history longer than the recording", _counts(n_bins=2, n_history=4)),
    ],
    traps={
        "row t reaches into the future: it holds the bins from t on. It must end at t.": _rows(lambda n: range(n)),
        "row t reaches into the future: its bins lie around t. It must end at t.": (
            _rows(lambda n: range(-(n // 2), n - n // 2))
        ),
        "row t ends one bin too early: bin t itself belongs to it, it is over when the answer is given.": (
            _rows(lambda n: range(-n, 0))
        ),
        "the newest bin comes first: put the oldest first.": _rows(lambda n: range(0, -n, -1)),
        "the first rows hold the last bins of the recording, as after torch.roll: that is the future. Put zeros "
        "where there is no bin.": _rows(lambda n: range(1 - n, 1), wrap=True),
        "each unit's bins stand together: all units of the oldest bin come first, then those of the next.": (
            _unit_by_unit
        ),
    },
)
