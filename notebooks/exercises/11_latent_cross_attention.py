"""Exercises of chapter 11: one bin read by a query, five readings, the score table, and the whole reader of a list."""

import math
from functools import partial
from itertools import chain

import torch

from possm_lite.blocks.positions import phasors
from possm_lite.blocks.positions import rotate as rotate_by_phase
from possm_lite.classroom.checks import Case, Check, Complaint, ValueCheck, Verdict, gradient, normal
from possm_lite.decoder import POSSM, POSSMConfig
from possm_lite.spikes import SpikeBatch

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


def _read_bin(q, t, k, v, dt, omega, *, query=_rotate, keys=_rotate, values=_rotate, back=lambda t, dt: -t, scale=0.5):
    """`query`, `keys`, `values`: how each of them is rotated; `back`: the time of the last rotation."""
    scores = keys(k, dt, omega) @ query(q, t, omega) / len(q) ** scale
    return _rotate(torch.softmax(scores, 0) @ values(v, dt, omega), back(t, dt), omega)


def _bin(*dt, t=0.025, size=6, periods_s=(0.03, 0.2)):
    """A query at t and spikes at dt, in s; vectors of `size` numbers, four of which are rotated."""
    q, k, v = _normal(size, seed=1), _normal(len(dt), size, seed=2), _normal(len(dt), size, seed=3)
    times = torch.tensor([t, *dt], dtype=torch.float64)
    return q, times[0], k, v, times[1:], _omega(*periods_s)


read_bin = Check(
    "read_bin",
    reference=_read_bin,
    cases=[
        Case("one spike at time 0, with the query there too", partial(_bin, 0.0, t=0.0)),
        Case("three spikes", partial(_bin, 0.002, 0.021, 0.044)),
        Case("one spike, 10 ms before the query", partial(_bin, 0.015)),
        Case("three spikes, with the query at time 0", partial(_bin, 0.0, 0.004, 0.031, t=0.0)),
        Case("three spikes, when all four coordinates are rotated", partial(_bin, 0.002, 0.02, 0.03, size=4)),
        Case(
            "a pair of 0.1 ms, for which times rounded to float32 are too coarse",
            partial(_bin, 0.0021, 0.0213, 0.0448, periods_s=(1e-4, 0.2)),
        ),
    ],
    traps={
        "the sum is still rotated by the times of the spikes: rotate it back by the time of the query.": (
            partial(_read_bin, back=lambda t, dt: 0 * t)
        ),
        "the sum is rotated, but forward: to rotate back is to rotate by minus the time of the query.": (
            partial(_read_bin, back=lambda t, dt: t)
        ),
        "the sum is rotated back by the mean time of the spikes: rotate it back by the time of the query.": (
            partial(_read_bin, back=lambda t, dt: -dt.mean())
        ),
        "the values were never rotated: a single spike reads the same at every time.": (
            partial(_read_bin, values=_unrotated, back=lambda t, dt: 0 * t)
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


# Exercise 11.3: what doubled spikes change in each reading


class TableCheck(ValueCheck):
    """Checks a dict of predictions: name of a row -> a word for each column. Names the first wrong word.

    `words`: the words allowed in each column; `reasons`: (row, column, wrong word) -> why it is wrong.
    """

    def __init__(self, name, *, expected, words, reasons):
        traps = {}
        for (row, column, word), reason in reasons.items():
            wrong = tuple(word if i == column else right for i, right in enumerate(expected[row]))
            traps[f"{row}, column {column + 1}: {reason}"] = {**expected, row: wrong}
        super().__init__(name, expected=expected, traps=traps)
        self.words, self.reasons = words, reasons

    def examine(self, student):
        if (
            student is None
            or student is ...
            or (isinstance(student, dict) and all(map(_is_empty, chain(*map(_cells, student.values())))))
        ):
            return Verdict("missing", f"· {self.name}: not attempted yet")
        message = self._mistake(student)
        return Verdict("wrong", f"✗ {self.name}: {message}") if message else Verdict("right", f"✓ {self.name}")

    def _mistake(self, student):
        if not isinstance(student, dict):
            return f"expected the table, a dict, got a value of type {type(student).__name__}."
        for row, expected in self.expected.items():
            given = [word.strip().lower() if isinstance(word, str) else None for word in _cells(student.get(row))]
            for column, right in enumerate(expected):
                word = given[column] if column < len(given) else None
                if word == right:
                    continue
                where = f"{row}, column {column + 1}:"
                if word not in self.words[column]:
                    return f"{where} choose one of {', '.join(self.words[column])}."
                return f"{where} {self.reasons.get((row, column, word)) or f'not {word}.'}"
        return None


def _is_empty(word):
    return word is None or word is ... or (isinstance(word, str) and not word)


def _cells(row):
    row = row.tolist() if hasattr(row, "tolist") else row
    return row if isinstance(row, tuple | list) else (row,)


_SUM_TO_ONE = "twice as many weights, each half as large, since they still sum to one."
_SHARED = "these weights sum to one, so what one unit gains the others lose."
_ALONE = "this weight depends on no other spike of the bin, so the others stay as they were."
my_doubling = TableCheck(
    "my_doubling",
    expected={
        "softmax": ("same", "less"),
        "softmax_blank": ("between", "less"),
        "sigmoid": ("twice", "same"),
        "sum": ("twice", "same"),
        "mean": ("same", "less"),
    },
    words=(("same", "between", "twice"), ("less", "same")),
    reasons={
        ("softmax", 0, "twice"): _SUM_TO_ONE,
        ("softmax", 0, "between"): _SUM_TO_ONE,
        ("softmax", 1, "same"): _SHARED,
        ("softmax_blank", 0, "same"): "the blank token did not come twice, so its share fell and z moved.",
        ("softmax_blank", 0, "twice"): "the weights, with that of the blank token, still sum to one.",
        ("softmax_blank", 1, "same"): _SHARED,
        ("sigmoid", 0, "same"): "nothing is divided by the sum here: each spike adds its own term, and all came twice.",
        ("sigmoid", 1, "less"): _ALONE,
        ("sum", 0, "same"): "nothing is divided by the number of spikes here: each adds one term, and all came twice.",
        ("sum", 1, "less"): _ALONE,
        ("mean", 0, "twice"): "twice the sum, divided by twice the number of spikes.",
        ("mean", 1, "same"): "the number of spikes grew, and every weight is one over it.",
    },
)


# Exercise 11.4: the table


def _neighbours(x):
    return torch.complex(x[..., 0::2], x[..., 1::2])


def _score_table(
    q,
    k,
    n_freqs,
    *,
    pairs=_neighbours,
    product=lambda q, k: q.conj() * k,
    rest_from=None,
    columns=lambda *abc: torch.cat(abc, -1),
):
    n = 2 * n_freqs
    waves = product(pairs(q[:n]), pairs(k[:, :n]))  # (U+1, F)
    start = n if rest_from is None else rest_from
    rest = k[:, start:] @ q[start:, None]  # (U+1, 1)
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
        Case("four units, three pairs and three coordinates that are not rotated", partial(_units, 4, 9, 3)),
        Case("a key a quarter of a circle ahead of the query", partial(_vectors, [1, 0, 0, 0], [0, 1, 0, 0])),
        Case("two units whose every coordinate is rotated", partial(_units, 2, 8, 4)),
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
        "the last column is k . q over all coordinates: the rotated ones have their own columns, so leave them out.": (
            partial(_score_table, rest_from=0)
        ),
        "the last column is not divided by the root of d: all of (11.6) is.": (
            partial(_score_table, columns=lambda a, b, c: torch.cat([a, b, c * (a.shape[1] * 2 + 1) ** 0.5], -1))
        ),
        "the column of what is not rotated comes first: in (11.6) it is the last one.": (
            partial(_score_table, columns=lambda a, b, c: torch.cat([c, a, b], -1))
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


# Exercise 11.5: the scores of a list of spikes


def _gather_and_sum(P, unit, waves):
    return (P[unit] * waves).sum(-1)


def _spike_scores(P, unit, t, t_query, omega, *, time=lambda t, t_query: t - t_query, reduce=_gather_and_sum):
    angle = time(t, t_query)[:, None] * omega  # (N, F), float64
    waves = torch.cat([angle.cos(), angle.sin(), torch.ones_like(angle[:, :1])], -1)  # (N, 2F+1)
    return reduce(P, unit, waves.to(P.dtype))


def _without_blank(value):
    return lambda P, unit, *rest: torch.where(unit == 0, value, _spike_scores(P, unit, *rest))


def _side_by_side(P, unit, waves):
    n = waves.shape[1] // 2
    pairs = torch.stack([waves[:, :n], waves[:, n : 2 * n]], -1).flatten(1)  # cos, sin, cos, sin ...
    return _gather_and_sum(P, unit, torch.cat([pairs, waves[:, 2 * n :]], -1))


def _spikes(name, start=0.0, t_query=0.025, same_time=False, units=(3, 1, 1, 4, 2, 3)):
    """Six tokens of four units and the blank row, `start` seconds into the recording; two bins of 50 ms."""

    def make():
        t = torch.tensor([0.002, 0.013, 0.044, 0.051, 0.068, 0.09], dtype=torch.float64)
        P, unit, omega = normal(5, 7, seed=11), torch.tensor(units), _omega(0.002, 0.02, 0.2)
        middle = t_query + 0.05 * (t >= 0.05).double()
        return P, unit, start + (middle if same_time else t), start + middle, omega

    return Case(name, make, tolerance=2e-3)


spike_scores = Check(
    "spike_scores",
    reference=_spike_scores,
    cases=[
        _spikes("spikes at the very time of the query", same_time=True),
        _spikes("queries at the edges of the bins", t_query=0.0),
        _spikes("six spikes in two bins"),
        _spikes("a list with blank tokens, row 0 of the table", units=(3, 1, 0, 0, 2, 3)),
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
        "the blank token has no score: it is a token like any other, and row 0 of the table is its row.": (
            _without_blank(torch.tensor(0.0))
        ),
        "the blank token has the score -infinity: it is a token like any other, and row 0 of the table is its row.": (
            _without_blank(torch.tensor(-math.inf))
        ),
        "cosine and sine are side by side in phi: (11.6) has all cosines, then all sines, then a one.": (
            partial(_spike_scores, reduce=_side_by_side)
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


# Exercise 11.6: a softmax within each bin


def _largest_of_bin(scores, bins, n_bins, *, initial=-math.inf):
    peaks = scores.new_full((n_bins,), initial)
    return peaks.scatter_reduce(0, bins, scores.detach(), "amax")[bins]


def _last_of_bin(scores, bins, n_bins):
    peaks = scores.new_zeros(n_bins)
    peaks[bins] = scores.detach()
    return peaks[bins]


def _mean_of_bin(scores, bins, n_bins):
    return (scores.new_zeros(n_bins).index_add(0, bins, scores.detach()) / torch.bincount(bins))[bins]


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
        Case("scores of 200 and 0 in one bin", partial(_tokens, [200.0, 0, 1, 0, 200], [0, 0, 0, 1, 1])),
        Case("the gradient of the scores", partial(_tokens, [0.5, -1.0, 2.0, 2.0, 0.1], [0, 0, 1, 1, 1]), gradient(0)),
        Case(
            "the gradient of scores near 0 in one bin, near 200 in the next",
            partial(_tokens, [0.0, 1, 200, 199], [0, 0, 1, 1]),
            gradient(0),
        ),
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
        "you subtract the score of one token of each bin, the last: if another is much larger, it overflows.": (
            partial(_bin_softmax, peak=_last_of_bin)
        ),
        "you subtract the mean of each bin: a score far above it overflows. Subtract the largest.": (
            partial(_bin_softmax, peak=_mean_of_bin)
        ),
        "the peaks start from 0, so a bin of scores far below 0 becomes 0/0. Start from -infinity.": (
            partial(_bin_softmax, peak=partial(_largest_of_bin, initial=0.0))
        ),
        "the weights are divided by the number of tokens in the bin: divide by the sum of their own exponentials.": (
            partial(_bin_softmax, total=lambda weights, bins, n_bins: torch.bincount(bins)[bins])
        ),
    },
)


# Exercise 11.7: the whole reader of a list


def _from_table(q, k, n_freqs, unit, waves):
    return (_score_table(q, k, n_freqs)[unit] * waves).sum(-1)


def _encode_list(
    model,
    batch,
    *,
    middle=0.5,
    row=lambda unit: unit,
    scores=_from_table,
    weights=_bin_softmax,
    rotation=_rotate,
    n_bins=lambda batch: int(batch.n_bins.sum()),
    back=0.0,
    out=lambda encoder, z: encoder.project_out(encoder.latents[0], z[:, None]),
):
    """`middle`, `back`: bins subtracted from the times before, and added after, values are rotated."""
    encoder, omega = model.encoder, model.rotation.omega
    q = encoder.queries(encoder.latents)[0, 0]  # (d,)
    k, v = (x[:, 0] for x in encoder.keys_values(model.unit_embedding.weight))  # (U+1, d) each
    unit, tau = row(batch.unit), batch.offset - middle * batch.bin_width_s
    phase = phasors(tau, omega, q.dtype)  # (N, F)
    waves = torch.cat([phase.real, phase.imag, torch.ones_like(phase.real[:, :1])], -1)  # (N, 2F+1)
    p = weights(scores(q, k, len(omega), unit, waves), batch.bin, n_bins(batch))  # (N,)
    values = rotation(v[unit], tau + back * batch.bin_width_s, omega)  # (N, d)
    z = values.new_zeros(n_bins(batch), len(q)).index_add(0, batch.bin, p[:, None] * values)
    return out(encoder, z)


def _list(times_ms, units, duration_s=0.05, sharp=2.0, n_freqs=2):
    """A small reader with weights of its own, and spikes of one or several trials, a list of each for every trial."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(5)
        config = POSSMConfig(
            n_units=4,
            dim=8,
            head_dim=6,
            n_freqs=n_freqs,
            hidden=4,
            reading="softmax",
            shortest_period_s=0.03,
            longest_period_s=0.2,
        )
        model = POSSM(config)
    with torch.no_grad():
        model.encoder.to_q.weight.mul_(sharp)
        model.encoder.to_out.weight.mul_(3)
    trial = [i for i, times in enumerate(times_ms) for _ in times]
    time_s = [t / 1000 for times in times_ms for t in times]
    unit = [u for of_trial in units for u in of_trial]
    return model, SpikeBatch.from_events(trial, unit, time_s, len(times_ms), duration_s)


def _reader(name, *args, observe=Case.observe, **kwargs):
    return Case(name, partial(_list, *args, **kwargs), observe, 1e-3)


def _gradients(function, model, batch):
    result = function(model, batch)
    if not (isinstance(result, torch.Tensor) and result.requires_grad):
        raise Complaint("no gradient flows back from the result. Is there a .item(), .detach() or no_grad()?")
    weights = torch.linspace(-1, 2, result.numel()).view_as(result)
    parameters = [model.unit_embedding.weight, *model.encoder.parameters()]
    gradients = torch.autograd.grad((result * weights).sum(), parameters, materialize_grads=True)
    return torch.cat([g.flatten() for g in gradients])


_SEVEN = [[2, 21, 44, 63, 98, 104, 131]], [[1, 3, 3, 2, 1, 4, 2]]

encode_list = Check(
    "encode_list",
    reference=_encode_list,
    cases=[
        _reader("one spike in the middle of its bin", [[25]], [[2]]),
        _reader("seven spikes in three bins", *_SEVEN, duration_s=0.15),
        _reader("one spike, 15 ms before the middle of its bin", [[10]], [[2]]),
        _reader("a bin without spikes", [[10, 110, 113]], [[2, 1, 4]], duration_s=0.15),
        _reader("two trials", [[5, 60], [10, 20, 90]], [[1, 2], [3, 4, 2]], duration_s=0.1),
        _reader("a reader whose every coordinate is rotated", *_SEVEN, duration_s=0.15, n_freqs=3),
        _reader("scores far from 0", *_SEVEN, duration_s=0.15, sharp=3000.0),
        _reader("the gradients of the model", *_SEVEN, duration_s=0.15, observe=_gradients),
        _reader("the gradients, with scores far from 0", *_SEVEN, duration_s=0.15, sharp=3000.0, observe=_gradients),
    ],
    traps={
        "the time of a spike runs from the start of its bin: the query is in the middle, half a bin later.": (
            partial(_encode_list, middle=0.0)
        ),
        "the values are rotated by the offset and not rotated back: rotate them by the time from the query.": (
            partial(_encode_list, back=0.5)
        ),
        "the values were never rotated.": partial(_encode_list, rotation=_unrotated),
        "all spikes have the same weight: the scores are not used.": (
            partial(_encode_list, scores=lambda q, k, n_freqs, unit, waves: 0 * waves[:, 0])
        ),
        "the scores know nothing of when the spikes came: k . q of the unit, without its waves.": (
            partial(_encode_list, scores=lambda q, k, n_freqs, unit, waves: (k @ q)[unit] / len(q) ** 0.5)
        ),
        "what is not rotated is missing from the scores: the last column of the table.": (
            partial(
                _encode_list,
                scores=lambda q, k, n_freqs, unit, waves: (_score_table(q, k, n_freqs)[unit, :-1] * waves[:, :-1]).sum(
                    -1
                ),
            )
        ),
        "the root of d is missing from the scores.": (
            partial(
                _encode_list,
                scores=lambda q, k, *rest: _from_table(q, k, *rest) * len(q) ** 0.5,
            )
        ),
        "the sines of the table have the wrong sign.": (
            partial(
                _encode_list,
                scores=lambda q, k, n_freqs, unit, waves: _from_table(
                    q,
                    k,
                    n_freqs,
                    unit,
                    torch.cat([waves[:, :n_freqs], -waves[:, n_freqs : 2 * n_freqs], waves[:, 2 * n_freqs :]], -1),
                ),
            )
        ),
        "the weights of all bins together sum to one: each bin has a softmax of its own.": (
            partial(_encode_list, weights=lambda scores, bins, n_bins: torch.softmax(scores, 0))
        ),
        "the exponentials are not divided by their sum: the published reader takes a softmax.": (
            partial(_encode_list, weights=lambda scores, bins, n_bins: torch.exp(scores))
        ),
        "large scores overflow: subtract the largest score of each bin before the exponential.": (
            partial(_encode_list, weights=partial(_bin_softmax, peak=lambda scores, bins, n_bins: 0))
        ),
        "every spike reads the row of the unit before its own: row 0 is the blank token, units count from 1.": (
            partial(_encode_list, row=lambda unit: unit - 1)
        ),
        "this is z, before `project_out`: what enters the network is project_out(latents[0], z[:, None]).": (
            partial(_encode_list, out=lambda encoder, z: z)
        ),
        "the latent was not added: give `project_out` the latent, not zeros.": (
            partial(_encode_list, out=lambda encoder, z: encoder.project_out(0 * encoder.latents[0], z[:, None]))
        ),
        "the bins of the first trial only: `batch.bin` counts through all trials, n_bins.sum() in all.": (
            partial(_encode_list, n_bins=lambda batch: int(batch.n_bins[0]))
        ),
    },
)
