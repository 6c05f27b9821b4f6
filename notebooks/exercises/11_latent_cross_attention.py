"""Exercises of chapter 11: one bin read by a query, the score table that needs no keys, a softmax within each bin."""

import math
from functools import partial

import torch

from possm_lite.blocks.positions import phasors
from possm_lite.blocks.positions import rotate as rotate_by_phase
from possm_lite.classroom.checks import Case, Check, ValueCheck, float32_result, gradient, normal

_normal = partial(normal, dtype=torch.float64)


def _omega(*periods_s):
    return 2 * torch.pi / torch.tensor(periods_s, dtype=torch.float64)


# Exercise 11.1: one unit fires twice. exp(s) is 1 and 3: 3 / (1 + 1 + 3)

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


# Exercise 11.2: the sum that was not rotated back


def _rotate(x, t, omega):
    return rotate_by_phase(x, phasors(t, omega, x.dtype))


def _unrotated(x, t, omega):
    return x


def _read_bin(q, t, k, v, dt, omega, *, query=_rotate, keys=_rotate, values=_rotate, back=-1, scale=0.5):
    """`query`, `keys`, `values`: how each of them is rotated; `back`: sign of the last rotation, 0 for none."""
    scores = keys(k, dt, omega) @ query(q, t, omega) / len(q) ** scale
    return _rotate(torch.softmax(scores, 0) @ values(v, dt, omega), back * t, omega)


def _bin(*dt, t=0.025, size=6):
    """A query at t and spikes at dt, in s; vectors of `size` numbers, four of which are rotated."""
    q, k, v = _normal(size, seed=1), _normal(len(dt), size, seed=2), _normal(len(dt), size, seed=3)
    times = torch.tensor([t, *dt], dtype=torch.float64)
    return q, times[0], k, v, times[1:], _omega(0.03, 0.2)


read_bin = Check(
    "read_bin",
    reference=_read_bin,
    cases=[
        Case("one spike at time 0, with the query there too", partial(_bin, 0.0, t=0.0)),
        Case("one spike, 10 ms before the query", partial(_bin, 0.015)),
        Case("three spikes, with the query at time 0", partial(_bin, 0.0, 0.004, 0.031, t=0.0)),
        Case("three spikes", partial(_bin, 0.002, 0.021, 0.044)),
        Case("three spikes, when all four coordinates are rotated", partial(_bin, 0.002, 0.02, 0.03, size=4)),
    ],
    traps={
        "the sum is still rotated by the times of the spikes: rotate it back by the time of the query.": (
            partial(_read_bin, back=0)
        ),
        "the sum is rotated, but forward: to rotate back is to rotate by minus the time of the query.": (
            partial(_read_bin, back=1)
        ),
        "the values were never rotated: a single spike reads the same at every time.": (
            partial(_read_bin, values=_unrotated, back=0)
        ),
        "the sum is rotated back, but the values were never rotated: rotate them by the time of their spike first.": (
            partial(_read_bin, values=_unrotated)
        ),
        "the keys are rotated, the query is not: the score depends on where the clock starts.": (
            partial(_read_bin, query=_unrotated)
        ),
        "the query is rotated and the keys are not: the score then knows nothing of when the spikes came.": (
            partial(_read_bin, keys=_unrotated)
        ),
        "the scores are too large: the root of the size d is missing.": partial(_read_bin, scale=0),
    },
)


# Exercise 11.3: the table


def _neighbours(x):
    return torch.complex(x[..., 0::2], x[..., 1::2])


def _score_table(
    q, k, n_freqs, *, pairs=_neighbours, product=lambda q, k: q.conj() * k, columns=lambda *abc: torch.cat(abc, -1)
):
    n = 2 * n_freqs
    waves = product(pairs(q[:n]), pairs(k[:, :n]))  # (U+1, F)
    rest = k[:, n:] @ q[n:, None]  # (U+1, 1)
    return columns(waves.real, -waves.imag, rest) / len(q) ** 0.5


def _vectors(q, *keys):
    q = torch.tensor(q, dtype=torch.float64)
    return q, torch.tensor(keys, dtype=torch.float64), 1


def _units(n_units, size, n_freqs):
    return _normal(size, seed=1), _normal(n_units, size, seed=2), n_freqs


score_table = Check(
    "score_table",
    reference=_score_table,
    cases=[
        Case("keys that point where the query points", partial(_vectors, [4, 2, 1, 1], [4, 2, 1, 1], [8, 4, 2, 2])),
        Case("a key a quarter turn ahead of the query", partial(_vectors, [1, 0, 0, 0], [0, 1, 0, 0])),
        Case("four units, three pairs and three coordinates that are not rotated", partial(_units, 4, 9, 3)),
        Case("two units whose every coordinate is rotated", partial(_units, 2, 8, 4)),
        Case("the gradients of query and keys", partial(_units, 4, 9, 3), gradient(0, 1)),
    ],
    traps={
        "the sines have the wrong sign: b is minus the imaginary part, so b = q1 k0 - q0 k1 for a pair.": (
            partial(_score_table, columns=lambda a, b, c: torch.cat([a, -b, c], -1))
        ),
        "the bar over q is forgotten: the conjugate has the sign of the second coordinate of each pair changed.": (
            partial(_score_table, product=lambda q, k: q * k)
        ),
        "the last column is zero: what is not rotated has a dot product too.": (
            partial(_score_table, columns=lambda a, b, c: torch.cat([a, b, 0 * c], -1))
        ),
        "cosine and sine of each pair are side by side: (11.6) has all cosines, then all sines, then the rest.": (
            partial(_score_table, columns=lambda a, b, c: torch.cat([torch.stack([a, b], -1).flatten(1), c], -1))
        ),
        "coordinate f was paired with f + F: neighbours make a pair here, 2f with 2f + 1.": (
            partial(_score_table, pairs=lambda x: torch.complex(*x.chunk(2, -1)))
        ),
        "everything is too large by one factor: the root of the size d, by which scores are divided.": (
            lambda q, k, n_freqs: _score_table(q, k, n_freqs) * len(q) ** 0.5
        ),
    },
)


# Exercise 11.4: the scores of a list of spikes


def _gather_and_sum(P, unit, waves):
    return (P[unit] * waves).sum(-1)


def _spike_scores(P, unit, t, t_query, omega, *, time=lambda t, t_query: t - t_query, reduce=_gather_and_sum):
    angle = time(t, t_query)[:, None] * omega  # (N, F), float64
    waves = torch.cat([angle.cos(), angle.sin(), torch.ones_like(angle[:, :1])], -1)  # (N, 2F+1)
    return reduce(P, unit, waves.to(P.dtype))


def _spikes(name, start=0.0, t_query=0.025, same_time=False):
    """Six spikes of four units and a blank row, `start` seconds into the recording; two bins of 50 ms."""

    def make():
        t = torch.tensor([0.002, 0.013, 0.044, 0.051, 0.068, 0.09], dtype=torch.float64)
        P, unit, omega = normal(5, 7, seed=11), torch.tensor([3, 1, 1, 4, 2, 3]), _omega(0.002, 0.02, 0.2)
        middle = t_query + 0.05 * (t >= 0.05).double()
        return P, unit, start + (middle if same_time else t), start + middle, omega

    return Case(name, make, float32_result, 2e-3)


spike_scores = Check(
    "spike_scores",
    reference=_spike_scores,
    cases=[
        _spikes("spikes at the very time of the query", same_time=True),
        _spikes("queries at the edges of the bins", t_query=0.0),
        _spikes("six spikes in two bins"),
        _spikes("the same spikes three hours later", start=10_800.0),
    ],
    traps={
        "right in the first minutes, wrong after hours: the times were float32 before they were subtracted.": (
            partial(_spike_scores, time=lambda t, t_query: (t.float() - t_query.float()).double())
        ),
        "the time is that since the recording began: the table needs the time from the query to the spike.": (
            partial(_spike_scores, time=lambda t, t_query: t)
        ),
        "the time has the wrong sign: it runs from the query to the spike, t - t_query.": (
            partial(_spike_scores, time=lambda t, t_query: t_query - t)
        ),
        "every spike reads the row of the unit before its own: row 0 is the blank token, units count from 1.": (
            lambda P, unit, *rest: _spike_scores(P, unit - 1, *rest)
        ),
        "the sum runs down the spikes: a spike's score is the sum along its own row, over the columns.": (
            partial(_spike_scores, reduce=lambda P, unit, waves: (P[unit] * waves).sum(0))
        ),
        "this is every spike with every unit's row: gather each spike's own row first, then multiply number by "
        "number.": partial(_spike_scores, reduce=lambda P, unit, waves: P @ waves.T),
        "this is every row with every spike: after the gather, row i belongs to spike i alone. Multiply number by "
        "number.": partial(_spike_scores, reduce=lambda P, unit, waves: P[unit] @ waves.T),
    },
)


# Exercise 11.5: a softmax within each bin


def _largest_of_bin(scores, bins, n_bins, *, initial=-math.inf):
    peaks = scores.new_full((n_bins,), initial)
    return peaks.scatter_reduce(0, bins, scores.detach(), "amax")[bins]


def _sum_of_bin(weights, bins, n_bins):
    return weights.new_zeros(n_bins).index_add(0, bins, weights)[bins]


def _bin_softmax(scores, bins, n_bins, *, peak=_largest_of_bin, total=_sum_of_bin):
    weights = torch.exp(scores - peak(scores, bins, n_bins))
    return weights / total(weights, bins, n_bins)


def _tokens(scores, bins):
    return torch.tensor(scores), torch.tensor(bins), max(bins) + 1


bin_softmax = Check(
    "bin_softmax",
    reference=_bin_softmax,
    cases=[
        Case("one bin", partial(_tokens, [0.0, 1.0, 2.0], [0, 0, 0])),
        Case("two bins, one of them with a single token", partial(_tokens, [0.0, 1.0, 3.0], [0, 0, 1])),
        Case("three bins", partial(_tokens, [0.5, -1.0, 2.0, 2.0, 0.1, -0.7], [0, 0, 1, 1, 1, 2])),
        Case("scores of 200", partial(_tokens, [200.0, 201.0, 199.0], [0, 0, 1])),
        Case("scores of -200", partial(_tokens, [-200.0, -201.0], [0, 0])),
        Case("scores near 0 in one bin, near 200 in the next", partial(_tokens, [0.0, 1, 200, 199], [0, 0, 1, 1])),
        Case("the gradient of the scores", partial(_tokens, [0.5, -1.0, 2.0, 2.0, 0.1], [0, 0, 1, 1, 1]), gradient(0)),
    ],
    traps={
        "the weights of all bins together sum to one: each bin has a softmax of its own.": (
            lambda scores, bins, n_bins: torch.softmax(scores, 0)
        ),
        "large scores overflow: exp(200) is too large for float32. Subtract the largest score of the bin first.": (
            partial(_bin_softmax, peak=lambda scores, bins, n_bins: 0)
        ),
        "you subtract the largest score of all, so a bin of much lower scores becomes 0/0. Subtract that of its own "
        "bin.": partial(_bin_softmax, peak=lambda scores, bins, n_bins: scores.detach().max()),
        "the peaks start from 0, so a bin of scores far below 0 becomes 0/0. Start from -infinity.": (
            partial(_bin_softmax, peak=partial(_largest_of_bin, initial=0.0))
        ),
        "the weights are divided by the number of tokens in the bin: divide by the sum of their own exponentials.": (
            partial(_bin_softmax, total=lambda weights, bins, n_bins: torch.bincount(bins)[bins])
        ),
    },
)
