"""Exercises of chapter 11: one bin read by a query, the score table that needs no keys, a softmax within each bin."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from possm_lite.blocks.positions import phasors, rotate
from possm_lite.classroom.checks import Case, Check, ValueCheck
from possm_lite.decoder import attention


def _random(*shapes: tuple[int, ...], seed: int = 11) -> list[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(*shape, generator=generator, dtype=torch.float64) for shape in shapes]


def _omega(*periods_s: float) -> Tensor:
    return 2 * torch.pi / torch.tensor(periods_s, dtype=torch.float64)


def _turn(x: Tensor, t: Tensor, omega: Tensor) -> Tensor:
    return rotate(x, phasors(t, omega, x.dtype))


# ---- Exercise 11.2: the sum that was not turned back --------------------------------------------------------------


def _reading(query=True, keys=True, values=True, back=-1, scale=0.5) -> Callable:
    """A reading with some of its steps left out or done wrongly: `back` is the sign of the last turn, 0 for none."""

    def read_bin(q: Tensor, t: Tensor, k: Tensor, v: Tensor, dt: Tensor, omega: Tensor) -> Tensor:
        q = _turn(q, t, omega) if query else q
        k = _turn(k, dt, omega) if keys else k
        v = _turn(v, dt, omega) if values else v
        z = torch.softmax(k @ q / len(q) ** scale, 0) @ v
        return _turn(z, back * t, omega)

    return read_bin


def _bin(dt: list[float], t: float = 0.025, size: int = 6) -> Callable[[], tuple]:
    """A query at t and spikes at dt, in s; vectors of `size` numbers, four of which are turned."""

    def make() -> tuple:
        q, k, v = _random((size,), (len(dt), size), (len(dt), size))
        times = torch.tensor([t, *dt], dtype=torch.float64)
        return q, times[0], k, v, times[1:], _omega(0.03, 0.2)

    return make


read_bin = Check(
    "read_bin",
    reference=_reading(),
    cases=[
        Case("one spike at time 0, with the query there too", _bin([0.0], t=0.0)),
        Case("one spike, 10 ms before the query", _bin([0.015])),
        Case("three spikes, with the query at time 0", _bin([0.0, 0.004, 0.031], t=0.0)),
        Case("three spikes", _bin([0.002, 0.021, 0.044])),
        Case("three spikes, when all four coordinates of each vector are turned", _bin([0.002, 0.02, 0.03], size=4)),
    ],
    traps={
        "the sum still stands as turned as the spikes' clock has it: turn it back by the time of the query.": (
            _reading(back=0)
        ),
        "the sum is turned, but forward: to turn back is to turn by minus the time of the query.": _reading(back=1),
        "the values were never turned: a single spike reads the same at every time.": _reading(values=False, back=0),
        "the sum is turned back, but nobody had turned the values: they turn by the time of their spike first.": (
            _reading(values=False)
        ),
        "the keys are turned, the query is not: the score depends on where the clock starts.": _reading(query=False),
        "the query is turned and the keys are not: the score then knows nothing of when the spikes came.": (
            _reading(keys=False)
        ),
        "the scores are too large: the root of the size d is missing.": _reading(scale=0.0),
    },
)


# ---- Exercise 11.1: one unit fires twice. exp(s) is 1 and 3: 3 / (1 + 1 + 3) --------------------------------------

my_weight = ValueCheck(
    "my_weight",
    expected=0.6,
    tolerance=0.005,
    traps={
        "that is its weight before: a second spike of unit 1 is one more token that takes a share.": 0.75,
        "it does not fall to a half: only the spike of unit 1 came twice, not the whole sum.": 0.375,
        "that is what unit 2 would have if it had fired twice. It was unit 1.": 6 / 7,
        "that is what the two spikes of unit 1 have together.": 0.4,
        "that is what one spike of unit 1 has.": 0.2,
        "that is an equal share. Unit 2 scores higher: its exp is 3, not 1.": 1 / 3,
    },
)


# ---- Exercise 11.3: the table -------------------------------------------------------------------------------------


def _table(q: Tensor, k: Tensor, n_freqs: int) -> Tensor:
    waves, rest = attention.precompute_scores(q, k, n_freqs)
    return torch.cat([waves[..., 0::2], waves[..., 1::2], rest[..., None]], -1)


def _sine_turned_round(q: Tensor, k: Tensor, n_freqs: int) -> Tensor:
    a, b, c = _table(q, k, n_freqs).split([n_freqs, n_freqs, 1], -1)
    return torch.cat([a, -b, c], -1)


def _rest_missing(q: Tensor, k: Tensor, n_freqs: int) -> Tensor:
    a_b, c = _table(q, k, n_freqs).split([2 * n_freqs, 1], -1)
    return torch.cat([a_b, 0 * c], -1)


def _side_by_side(q: Tensor, k: Tensor, n_freqs: int) -> Tensor:
    waves, rest = attention.precompute_scores(q, k, n_freqs)
    return torch.cat([waves, rest[..., None]], -1)


def _in_halves(q: Tensor, k: Tensor, n_freqs: int) -> Tensor:
    def regroup(x: Tensor) -> Tensor:
        turned = x[..., : 2 * n_freqs].unflatten(-1, (2, n_freqs)).transpose(-1, -2).flatten(-2)
        return torch.cat([turned, x[..., 2 * n_freqs :]], -1)

    return _table(regroup(q), regroup(k), n_freqs)


def _conjugate_forgotten(q: Tensor, k: Tensor, n_freqs: int) -> Tensor:
    mirror = torch.ones_like(q)
    mirror[1 : 2 * n_freqs : 2] = -1
    return torch.cat([_table(q * mirror, k, n_freqs)[..., :-1], _table(q, k, n_freqs)[..., -1:]], -1)


def _gradients(function: Callable, q: Tensor, k: Tensor, n_freqs: int) -> Any:
    q, k = q.clone().requires_grad_(), k.clone().requires_grad_()
    table = function(q, k, n_freqs)
    slopes = torch.linspace(-1, 1, table.numel(), dtype=table.dtype).reshape(table.shape)
    return torch.autograd.grad((table * slopes).sum(), (q, k))


def _aligned() -> tuple:
    q = torch.tensor([2.0, 1.0, 0.5, 0.5], dtype=torch.float64)
    return q, torch.stack([q, 2 * q]), 1


def _quarter_turn() -> tuple:
    one = torch.eye(4, dtype=torch.float64)
    return one[0], one[1:2], 1


score_table = Check(
    "score_table",
    reference=_table,
    cases=[
        Case("keys that point where the query points", _aligned),
        Case("a key a quarter turn ahead of the query", _quarter_turn),
        Case("four units, three pairs and three coordinates that are not turned", lambda: (*_random((9,), (4, 9)), 3)),
        Case("two units whose every coordinate is turned", lambda: (*_random((8,), (2, 8)), 4)),
        Case("the gradients of query and keys", lambda: (*_random((9,), (4, 9)), 3), _gradients),
    ],
    traps={
        "the sines have the wrong sign: b is minus the imaginary part, so b = q1 k0 - q0 k1 for a pair.": (
            _sine_turned_round
        ),
        "the bar over q is forgotten: the conjugate has the sign of the second coordinate of each pair turned round.": (
            _conjugate_forgotten
        ),
        "the last column is zero: what is not turned has a dot product too.": _rest_missing,
        "cosine and sine of each pair stand side by side: (11.6) wants all cosines, then all sines, then the rest.": (
            _side_by_side
        ),
        "coordinate f was paired with f + F: neighbours make a pair here, 2f with 2f + 1.": _in_halves,
        "everything is too large by one factor: the root of the size d, by which scores are divided.": (
            lambda q, k, n_freqs: _table(q, k, n_freqs) * math.sqrt(len(q))
        ),
    },
)


# ---- Exercise 11.4: the scores of a list of spikes ----------------------------------------------------------------


def in_float32(function: Callable, *args: Any) -> Any:
    result = function(*args)
    return result.float() if isinstance(result, Tensor) else result


def _phi(tau: Tensor, omega: Tensor, dtype: torch.dtype) -> Tensor:
    angle = tau[:, None] * omega
    return torch.cat([angle.cos(), angle.sin(), torch.ones_like(angle[:, :1])], -1).to(dtype)


def _scores(P: Tensor, unit: Tensor, t: Tensor, t_query: Tensor, omega: Tensor) -> Tensor:
    return (P[unit] * _phi(t - t_query, omega, P.dtype)).sum(-1)


def _with_times(change: Callable[[Tensor, Tensor], Tensor]) -> Callable:
    return lambda P, unit, t, t_query, omega: _scores(P, unit, change(t, t_query), torch.zeros_like(t_query), omega)


def _summed_over_spikes(P: Tensor, unit: Tensor, t: Tensor, t_query: Tensor, omega: Tensor) -> Tensor:
    return (P[unit] * _phi(t - t_query, omega, P.dtype)).sum(0)


def _all_with_all(P: Tensor, t: Tensor, t_query: Tensor, omega: Tensor) -> Tensor:
    return P @ _phi(t - t_query, omega, P.dtype).T


def _spikes(start: float = 0.0, t_query: float = 0.025, same_time: bool = False) -> Callable[[], tuple]:
    """Six spikes of four units and a blank row, `start` seconds into the recording; two bins of 50 ms."""

    def make() -> tuple:
        (P,) = _random((5, 7))
        t = torch.tensor([0.002, 0.013, 0.044, 0.051, 0.068, 0.09], dtype=torch.float64)
        middle = t_query + 0.05 * (t >= 0.05).double()
        t = middle if same_time else t
        return P.float(), torch.tensor([3, 1, 1, 4, 2, 3]), start + t, start + middle, _omega(0.002, 0.02, 0.2)

    return make


spike_scores = Check(
    "spike_scores",
    reference=_scores,
    cases=[
        Case("spikes at the very time of the query", _spikes(same_time=True), in_float32, 2e-3),
        Case("queries at the edges of the bins", _spikes(t_query=0.0), in_float32, 2e-3),
        Case("six spikes in two bins", _spikes(), in_float32, 2e-3),
        Case("the same spikes three hours later", _spikes(start=10_800.0), in_float32, 2e-3),
    ],
    traps={
        "right in the first minutes, wrong after hours: the times were float32 before they were subtracted.": (
            _with_times(lambda t, t_query: (t.float() - t_query.float()).double())
        ),
        "the time is that since the recording began: the table wants the time from the query to the spike.": (
            _with_times(lambda t, t_query: t)
        ),
        "the time has the wrong sign: it runs from the query to the spike, t - t_query.": (
            _with_times(lambda t, t_query: t_query - t)
        ),
        "every spike reads the row of the unit before its own: row 0 is the blank token, units count from "
        "1.": lambda P, unit, *rest: _scores(P, unit - 1, *rest),
        "the sum runs down the spikes: a spike's score is the sum along its own row, over the columns.": (
            _summed_over_spikes
        ),
        "this is every spike with every unit's row: gather each spike's own row first, then multiply number by "
        "number.": lambda P, unit, *rest: _all_with_all(P, *rest),
        "this is every row with every spike: after the gather, row i belongs to spike i alone. Multiply number by "
        "number.": lambda P, unit, *rest: _all_with_all(P[unit], *rest),
    },
)


# ---- Exercise 11.5: a softmax within each bin ---------------------------------------------------------------------


def _bin_softmax(peak: Callable[[Tensor, Tensor, int], Tensor], total: Callable | None = None) -> Callable:
    """exp(s - peak) over its sum within the bin, or over another `total`(weights, bins, n_bins), each (N,)."""

    def per_bin(weights: Tensor, bins: Tensor, n_bins: int) -> Tensor:
        return weights.new_zeros(n_bins).index_add(0, bins, weights)[bins]

    def bin_softmax(scores: Tensor, bins: Tensor, n_bins: int) -> Tensor:
        weights = torch.exp(scores - peak(scores, bins, n_bins))
        return weights / (total or per_bin)(weights, bins, n_bins)

    return bin_softmax


def _own_peak(scores: Tensor, bins: Tensor, n_bins: int) -> Tensor:
    return scores.new_full((n_bins,), -math.inf).scatter_reduce(0, bins, scores.detach(), "amax")[bins]


def _gradient(function: Callable, scores: Tensor, bins: Tensor, n_bins: int) -> Any:
    scores = scores.clone().requires_grad_()
    weights = function(scores, bins, n_bins)
    return torch.autograd.grad((weights * torch.arange(len(scores))).sum(), scores)[0]


def _listed(scores: list[float], bins: list[int]) -> Callable[[], tuple]:
    return lambda: (torch.tensor(scores), torch.tensor(bins), max(bins) + 1)


bin_softmax = Check(
    "bin_softmax",
    reference=attention.softmax_by_bin,
    cases=[
        Case("one bin", _listed([0.0, 1.0, 2.0], [0, 0, 0])),
        Case("two bins, one of them with a single token", _listed([0.0, 1.0, 3.0], [0, 0, 1])),
        Case("three bins", _listed([0.5, -1.0, 2.0, 2.0, 0.1, -0.7], [0, 0, 1, 1, 1, 2])),
        Case("scores of 200", _listed([200.0, 201.0, 199.0], [0, 0, 1])),
        Case("scores of -200", _listed([-200.0, -201.0], [0, 0])),
        Case("scores near 0 in one bin and near 200 in the next", _listed([0.0, 1.0, 200.0, 199.0], [0, 0, 1, 1])),
        Case("the gradient of the scores", _listed([0.5, -1.0, 2.0, 2.0, 0.1], [0, 0, 1, 1, 1]), _gradient),
    ],
    traps={
        "the weights of all bins together sum to one: each bin has a softmax of its own.": (
            lambda scores, bins, n_bins: torch.softmax(scores, 0)
        ),
        "large scores overflow: exp(200) is too large for float32. Subtract the largest score of the bin first.": (
            _bin_softmax(lambda scores, bins, n_bins: torch.zeros_like(scores))
        ),
        "you subtract the largest score of all, so a bin of much lower scores becomes 0/0. Subtract that of its own "
        "bin.": _bin_softmax(lambda scores, bins, n_bins: scores.detach().max()),
        "the peaks start from 0, so a bin of scores far below 0 becomes 0/0. Start from -infinity.": (
            _bin_softmax(lambda s, b, n_bins: s.new_zeros(n_bins).scatter_reduce(0, b, s.detach(), "amax")[b])
        ),
        "the weights are divided by the number of tokens in the bin: divide by the sum of their own exponentials.": (
            _bin_softmax(_own_peak, lambda weights, bins, n_bins: torch.bincount(bins)[bins])
        ),
    },
)
