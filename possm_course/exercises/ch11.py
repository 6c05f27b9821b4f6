"""Exercises of chapter 11: one bin read by a query, the score table, the reader of a list, readings, codes of time."""

import math
from functools import partial

import torch

from possm_course.checks import Case, ValueCheck, exercise, gradient, normal
from possm_lite.nn.positions import as_pairs, phasors, rotate

_normal = partial(normal, dtype=torch.float64)


def _omega(*periods_s):
    """Angular frequencies in rad/s of these periods in s."""
    return 2 * torch.pi / torch.tensor(periods_s, dtype=torch.float64)


# Exercise 11.1: one unit fires twice. exp(s) is 1 and 3: 3 / (1 + 1 + 3)
my_weight = ValueCheck(
    "my_weight",
    expected=0.6,
    tolerance=0.005,
    mistakes={
        0.75: "that is its weight before: a second spike of unit 1 is one more token that takes a share.",
        0.375: "it does not fall to a half: only the spike of unit 1 came twice, not the whole sum.",
        0.4: "that is the share of unit 1, of its two spikes together.",
        0.5: (
            "that would be three tokens against three. Which exp(s) has the spike of unit 1, and how often is it there?"
        ),
    },
    hint="Write down exp(s) of each of the three tokens, and divide by their sum.",
)


# Exercise 11.2: the sum that was not rotated back
def R(x, t, omega):
    """The vectors `x` rotated by the angles of the times `t`, in s, at the frequencies `omega`, in rad/s."""
    return rotate(x, phasors(t, omega, x.dtype))


def _bin(*dt, t=0.025, size=6, periods_s=(0.03, 0.2)):
    """A query at t and spikes at dt, in s; vectors of `size` numbers, four of which are rotated."""
    times = torch.tensor([t, *dt], dtype=torch.float64)
    q, k, v = _normal(size, seed=1), _normal(len(dt), size, seed=2), _normal(len(dt), size, seed=3)
    return lambda: (q.clone(), times[0].clone(), k.clone(), v.clone(), times[1:].clone(), _omega(*periods_s))


@exercise(
    cases={
        "one spike at time 0, with the query there too": _bin(0.0, t=0.0),
        "three spikes": _bin(0.002, 0.021, 0.044),
        "one spike, 10 ms before the query": _bin(0.015),
        "three spikes, with the query at time 0": _bin(0.0, 0.004, 0.031, t=0.0),
        "three spikes, when all four coordinates are rotated": _bin(0.002, 0.02, 0.03, size=4),
        "a pair of 0.1 ms: times in float32 are too coarse": _bin(0.0021, 0.0213, 0.0448, periods_s=(1e-4, 0.2)),
    },
    mistakes={
        "R(z, -t, omega) → z": "the sum is still rotated: rotate it back by the time of the query.",
        ("@ R(v, dt, omega) → @ v", "R(z, -t, omega) → z"): "the values were never rotated, by their offsets.",
        "R(q, t, omega) → q": "the keys are rotated, the query is not: the score depends on where the clock starts.",
        "R(z, -t, omega) → R(z, t, omega)": "the sum is rotated on, not back: by -t.",
        " / math.sqrt(len(q)) → ": "the scores are not divided by the root of d.",
        "@ R(v, dt, omega) → @ v": (
            "the values are not rotated, but the sum is rotated back. Rotate each value by its own time first."
        ),
        "R(k, dt, omega) → k": "the query is rotated, the keys are not: each key should be rotated by its own time.",
        ("R(k, dt, omega) → k", "R(q, t, omega) → q"): (
            "neither query nor keys are rotated: the score knows nothing of time."
        ),
        ("@ R(v, dt, omega) → @ v", "R(z, -t, omega) → z", "R(q, t, omega) → q"): (
            "only the keys are rotated. Query and values should be, too, and the sum rotated back."
        ),
        (
            "R(z, -t, omega) → R(z, -dt.mean(), omega)"
        ): "rotated back by the times of the spikes. It should be the query's.",
        "torch.softmax(s, 0) @ → torch.sigmoid(s) @": "a sigmoid of each score. The weights should sum to one.",
        "math.sqrt(len(q)) → len(q)": "divided by d, and not by its root.",
        "math.sqrt(len(q)) → math.sqrt(len(k))": "divided by the root of the number of spikes. It should be that of d.",
    },
)
def read_bin(q, t, k, v, dt, omega):
    """What a query q (d,) at time t reads from keys and values k, v (n, d) at times dt (n,): (11.2), shape (d,)."""
    s = R(k, dt, omega) @ R(q, t, omega) / math.sqrt(len(q))  # (n,)
    z = torch.softmax(s, 0) @ R(v, dt, omega)  # (d,)
    return R(z, -t, omega)


# Exercise 11.3: the table
def _vectors(q, *keys):
    """Makes a query and keys in float64, and one frequency."""
    return lambda: (torch.tensor(q, dtype=torch.float64), torch.tensor(keys, dtype=torch.float64), 1)


def _units(n_units, size, n_freqs):
    """Makes a query and the keys of n_units, of `size` numbers, and the number of frequencies."""
    return lambda: (_normal(size, seed=1), _normal(n_units, size, seed=2), n_freqs)


@exercise(
    cases={
        "keys that point where the query points": _vectors([4, 2, 1, 1], [4, 2, 1, 1], [8, 4, 2, 2]),
        "four units, three pairs and three coordinates that are not rotated": _units(4, 9, 3),
        "a key a quarter of a circle ahead of the query": _vectors([1, 0, 0, 0], [0, 1, 0, 0]),
        "two units whose every coordinate is rotated": _units(2, 8, 4),
    },
    mistakes={
        "-w.imag → w.imag": "the sines have the wrong sign: b = q1 k0 - q0 k1 for a pair, minus the imaginary part.",
        "c[:, None] → 0 * c[:, None]": "the last column is zero: what is not rotated has a dot product too.",
        "k_rest @ q_rest → k @ q": "the last column is k . q over all coordinates: leave out the rotated ones.",
        " / math.sqrt(len(q)) → ": "everything is too large by one factor: the root of the size d.",
        "q_f.conj() → q_f": "the bar over q is missing: as complex numbers, q is conjugated and k is not.",
        "k_rest @ q_rest → k_rest @ q_rest * math.sqrt(len(q))": "the last column is divided by the root of d, too.",
        "torch.cat([w.real, -w.imag, c[:, None]], -1) → "
        "torch.cat([torch.stack([w.real, -w.imag], -1).flatten(1), c[:, None]], -1)": (
            "cosines and sines take turns. All a come first, then all b."
        ),
        "[w.real, -w.imag, c[:, None]] → [-w.imag, w.real, c[:, None]]": "b comes before a: the cosines are first.",
        "[w.real, -w.imag, c[:, None]] → [c[:, None], w.real, -w.imag]": "the last column has come first.",
        "math.sqrt(len(q)) → math.sqrt(n_freqs)": (
            "divided by the root of the number of frequencies. It should be that of d."
        ),
        "math.sqrt(len(q)) → len(q)": "divided by d, and not by its root.",
    },
)
def score_table(q, k, n_freqs):
    """The table P of (11.5), one row for each row of k (U+1, d), for a query q (d,): shape (U+1, 2 n_freqs + 1)."""
    q_f, q_rest = as_pairs(q, n_freqs)  # (F,) complex, (d - 2F,)
    k_f, k_rest = as_pairs(k, n_freqs)  # (U+1, F) complex, (U+1, d - 2F)
    w = q_f.conj() * k_f  # (U+1, F)
    c = k_rest @ q_rest  # (U+1,)
    return torch.cat([w.real, -w.imag, c[:, None]], -1) / math.sqrt(len(q))


# Exercise 11.4: a softmax within each bin
_ALL_SUM_TO_ONE = "the weights of all bins together sum to one: each bin has a softmax of its own."
_LARGEST_OF_ALL = "you subtract the largest score of all, so a bin of much lower scores becomes 0/0: take its own."


def _tokens(scores, bins, *observe):
    """A case of scores, the bin of each, and the number of bins."""
    return Case(lambda: (torch.tensor(scores), torch.tensor(bins), max(bins) + 1), *observe)


def _padded_with_zeros(scores, bins, n_bins):
    """A mistake: a table of bins whose empty places are zeros."""
    real = torch.arange(int(torch.bincount(bins).max())) < torch.bincount(bins, minlength=n_bins)[:, None]
    table = torch.zeros(real.shape).masked_scatter(real, scores)
    return torch.softmax(table, 1)[real]


def _less_the_mean(scores, bins, n_bins):
    """A mistake: the mean of a bin is subtracted in place of the largest."""
    n = torch.zeros(n_bins).index_add(0, bins, torch.ones_like(scores))
    mean = torch.zeros(n_bins).index_add(0, bins, scores.detach()) / n
    weights = torch.exp(scores - mean[bins])
    return weights / torch.zeros(n_bins).index_add(0, bins, weights)[bins]


@exercise(
    cases={
        "one bin": _tokens([0.0, 1.0, 2.0], [0, 0, 0]),
        "two bins, one of them with a single token": _tokens([0.0, 1.0, 3.0], [0, 0, 1]),
        "three bins": _tokens([0.5, -1.0, 2.0, 2.0, 0.1, -0.7], [0, 0, 1, 1, 1, 2]),
        "scores of 200": _tokens([200.0, 201.0, 199.0], [0, 0, 1]),
        "scores of -200": _tokens([-200.0, -201.0], [0, 0]),
        "scores near 0 in one bin, near 200 in the next": _tokens([0.0, 1, 200, 199], [0, 0, 1, 1]),
        "scores of 200 and 0 in one bin": _tokens([200.0, 0, 1, 0, 200], [0, 0, 0, 1, 1]),
        "the gradient of the scores": _tokens([0.5, -1.0, 2.0, 2.0, 0.1], [0, 0, 1, 1, 1], gradient(0)),
        "the gradient of scores near 0 in one bin, near 200 in the next": _tokens(
            [0.0, 1, 200, 199], [0, 0, 1, 1], gradient(0)
        ),
    },
    mistakes={
        lambda scores, bins, n_bins: torch.softmax(scores, 0): _ALL_SUM_TO_ONE,
        "scores - peak[bins] → scores": "large scores overflow in exp: subtract the largest of the bin first.",
        "scores - peak[bins] → scores - scores.max()": _LARGEST_OF_ALL,
        "scores - peak[bins] → scores - scores.max().detach()": _LARGEST_OF_ALL,
        "-math.inf → 0.0": "the peaks start from 0, so a bin of scores far below 0 becomes 0/0. Start from -infinity.",
        _padded_with_zeros: (
            "the empty places of a table take part: padding with 0 is a score like any other. Fill it with -infinity."
        ),
        _less_the_mean: (
            "the mean of the bin is subtracted. With scores far apart exp still overflows: it should be the largest."
        ),
        "return weights / total[bins] → return weights / total.sum()": _ALL_SUM_TO_ONE,
        "return weights / total[bins] → return weights": "nothing is divided: the weights of a bin should sum to one.",
        "return weights / total[bins] → return (weights / total[bins]).log()": "these are logs of the weights.",
    },
)
def bin_softmax(scores, bins, n_bins):
    """Softmax of scores (N,) over the tokens of each bin: weights (N,) that sum to one in every bin."""
    peak = scores.new_full((n_bins,), -math.inf).scatter_reduce(0, bins, scores.detach(), "amax")  # (n_bins,)
    weights = torch.exp(scores - peak[bins])  # (N,), the largest of each bin is one
    total = scores.new_zeros(n_bins).index_add(0, bins, weights)  # (n_bins,)
    return weights / total[bins]


# Exercise 11.5: the whole reader of a list
def _list(tau_ms, unit, bins, *observe, n_freqs=2, sharp=1.0):
    """Four units and the blank row, vectors of six numbers."""

    def make():
        q, k, v = sharp * normal(6, seed=1), normal(5, 6, seed=2), normal(5, 6, seed=3)
        omega = _omega(0.03, 0.2, 1.0)[:n_freqs]
        tau = torch.tensor(tau_ms, dtype=torch.float64) / 1000  # s
        return q, k, v, omega, torch.tensor(unit), tau, torch.tensor(bins), max(bins) + 1

    return Case(make, *observe)


def _gradients(function, *args):
    """Observe the gradients of the first result by query, keys and values."""
    return gradient(0, 1, 2)(lambda *args: function(*args)[0], *args)


_SEVEN = partial(_list, [-23, -4, 19, -12, 23, -21, 6], [1, 3, 3, 2, 1, 4, 2], [0, 0, 0, 1, 1, 2, 2])


@exercise(
    results=("z", "the weights"),
    tolerance=1e-3,
    cases={
        "one spike at the time of the query": _list([0], [2], [0]),
        "one spike, 15 ms before the query": _list([-15], [2], [0]),
        "three spikes of one bin": _list([-23, -4, 19], [1, 3, 4], [0, 0, 0]),
        "seven spikes in three bins": _SEVEN(),
        "a bin with the blank token, unit 0": _list([-20, -25, 15], [2, 0, 4], [0, 1, 2]),
        "vectors whose every coordinate is rotated": _SEVEN(n_freqs=3),
        "scores far from 0": _SEVEN(sharp=3000.0),
        "the gradients of q, k and v": _SEVEN(_gradients),
    },
    mistakes={
        "rotate(v[unit], phase) → v[unit]": "the values were never rotated.",
        "p[:, None] * rotate → rotate": "the values are added up, but not weighed.",
        "-w.imag → w.imag": "the sines have the wrong sign: b of (11.6) has a minus.",
        "s - peak[bins] → s": "large scores overflow: subtract the largest score of each bin first.",
        "s - peak[bins] → s - s.max()": _LARGEST_OF_ALL,
        "p = p / p.new_zeros(n_bins).index_add(0, bins, p)[bins] → p = p / p.sum()": _ALL_SUM_TO_ONE,
        "phase = phasors(tau, omega, P.dtype) → phase = phasors(-tau, omega, P.dtype)": (
            "time runs backwards: tau is the time of the spike minus that of the query, and rotates as it is."
        ),
        " / math.sqrt(len(q))  # (U+1, 2F+1) →   # (U+1, 2F+1)": "the scores are not divided by the root of d.",
        "torch.ones_like(phase.real[:, :1]) → torch.zeros_like(phase.real[:, :1])": (
            "the constant of phi is zero: what is not rotated should have its part in the score."
        ),
        "k_rest @ q_rest → k @ q": "the last column is k . q over all coordinates: leave out the rotated ones.",
        "q_f.conj() * k_f → q_f * k_f": "the bar over q is missing: as complex numbers, q is conjugated and k is not.",
        "[phase.real, phase.imag, → [phase.imag, phase.real,": "cosine and sine have changed places in phi.",
        "v[unit], phase → v[unit - 1], phase": "row u - 1 is the unit before: row 0 is the blank token.",
        "return values.new_zeros(n_bins, len(q)).index_add(0, bins, values), p → "
        "return p, values.new_zeros(n_bins, "
        "len(q)).index_add(0, bins, values)": "the results have changed places: z first.",
    },
)
def read_list(q, k, v, omega, unit, tau, bins, n_bins):
    """What q (d,) reads in each bin, z (n_bins, d) of (11.8), and the weights p (N,) of the tokens."""
    (q_f, q_rest), (k_f, k_rest) = as_pairs(q, len(omega)), as_pairs(k, len(omega))
    w, c = q_f.conj() * k_f, k_rest @ q_rest  # (U+1, F), (U+1,)
    P = torch.cat([w.real, -w.imag, c[:, None]], -1) / math.sqrt(len(q))  # (U+1, 2F+1)

    phase = phasors(tau, omega, P.dtype)  # (N, F)
    phi = torch.cat([phase.real, phase.imag, torch.ones_like(phase.real[:, :1])], -1)  # (N, 2F+1)
    s = (P[unit] * phi).sum(-1)  # (N,)

    peak = s.new_full((n_bins,), -math.inf).scatter_reduce(0, bins, s.detach(), "amax")  # (n_bins,)
    p = torch.exp(s - peak[bins])
    p = p / p.new_zeros(n_bins).index_add(0, bins, p)[bins]  # (N,)

    values = p[:, None] * rotate(v[unit], phase)  # (N, d): by tau, so there is nothing to rotate back
    return values.new_zeros(n_bins, len(q)).index_add(0, bins, values), p


# Exercise 11.6, deeper: five readings
def _weights(reading, scores, bins=(0, 0, 0, 1, 1), blank_score=0.7):
    """Makes a reading, scores, the bin of each, the score of the blank token, gain and bias."""
    gain, bias = torch.tensor(3.0), torch.tensor(-1.0)
    return lambda: (reading, torch.tensor(scores), torch.tensor(bins), torch.tensor(blank_score), gain, bias)


_SCORES = [0.5, -1.0, 2.0, 0.3, 0.1]


@exercise(
    cases={
        "the softmax": _weights("softmax", _SCORES),
        "the mean": _weights("mean", _SCORES),
        "the sum": _weights("sum", _SCORES),
        "the sigmoid": _weights("sigmoid", _SCORES),
        "the softmax with a blank token": _weights("softmax_blank", _SCORES),
    },
    mistakes={
        "total + blank_score.exp() → total + 1": "the blank token has a score too: its term is exp(blank_score).",
        "total = total + blank_score.exp() → pass": "the blank token is in no bin: add its term to every total.",
        "torch.sigmoid(scores + bias) → (torch.sigmoid(scores) + bias)": "the bias belongs inside of the sigmoid.",
        "/ total[bins] → / total.sum()": "divide by the total of the token's own bin.",
        (
            "return gain * torch.sigmoid(scores + bias) → return torch.sigmoid(scores + bias)"
        ): "the gain of the sigmoid is missing.",
        "torch.sigmoid(scores + bias) → torch.sigmoid(scores - bias)": "the sign of the bias: it is added.",
        "return gain * torch.ones_like(scores) → return torch.ones_like(scores)": "the gain of the sum is missing.",
        (
            "torch.ones_like(scores) if reading → scores if reading"
        ): "the mean: every token of a bin should weigh the same.",
    },
)
def bin_weights(reading, scores, bins, blank_score, gain, bias):
    """The weights (N,) of (11.9) in the readings softmax, softmax_blank, sigmoid, sum and mean."""
    if reading == "sigmoid":
        return gain * torch.sigmoid(scores + bias)
    if reading == "sum":
        return gain * torch.ones_like(scores)
    e = torch.ones_like(scores) if reading == "mean" else scores.exp()  # (N,)
    total = e.new_zeros(int(bins.max()) + 1).index_add(0, bins, e)  # (n_bins,)
    if reading == "softmax_blank":
        total = total + blank_score.exp()
    return e / total[bins]


# Exercise 11.7, deeper: three codes of time
def _coded(code):
    """Five tokens of eight numbers, queries of six; the last numbers are not rotated."""
    q, W_k, x = _normal(6, seed=1), _normal(6, 8, seed=2), _normal(5, 8, seed=3)
    tau = torch.tensor([-0.02, -0.011, 0.0, 0.006, 0.021], dtype=torch.float64)
    return lambda: (code, q.clone(), W_k.clone(), x.clone(), tau.clone(), _omega(0.03, 0.2))


@exercise(
    cases={f"the code {code}": _coded(code) for code in ("rotation", "embedding", "sinusoid")},
    mistakes={
        ('"rotation" → "token"', '"embedding" → "rotation"', '"token" → "embedding"'): (
            "the two rotations are swapped: `rotation` turns the key W x, `embedding` the token x before W."
        ),
        "[:, : 2 * len(omega) : 2] → [:, 1 : 2 * len(omega) : 2]": "cosines are first in each pair, sines second.",
        " / math.sqrt(len(q)) → ": "divide by the root of the size of a query.",
        "(x + rotate(start, phase)) @ W_k.T → x @ W_k.T + rotate(start, phase)[:, : len(q)]": (
            "the sinusoid is added to the key. It should be added to the token, before W."
        ),
        "start[:, : 2 * len(omega) : 2] = 1 → start[:] = 1": "all coordinates begin at 1. Pairs begin at (1, 0).",
    },
)
def code_scores(code, q, W_k, x, tau, omega):
    """Scores (n,) of tokens x (n, D), tau (n,) s from the query q (d,), with W_k (d, D): (11.11), (11.12)."""
    phase = phasors(tau, omega, x.dtype)  # (n, F)
    if code == "rotation":
        k = rotate(x @ W_k.T, phase)
    elif code == "embedding":
        k = rotate(x, phase) @ W_k.T
    else:
        start = torch.zeros_like(x)
        start[:, : 2 * len(omega) : 2] = 1  # Phi(0): pairs (1, 0)
        k = (x + rotate(start, phase)) @ W_k.T
    return k @ q / math.sqrt(len(q))  # (n,)
