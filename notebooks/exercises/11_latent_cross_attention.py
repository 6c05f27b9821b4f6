"""Exercises of chapter 11: one bin read by a query, five readings, the score table, and the whole reader of a list."""

import math
from functools import partial

import torch

from possm_lite.course.checks import MISSING, Case, Complaint, ValueCheck, exercise, gradient, normal
from possm_lite.decoder import POSSM, POSSMConfig
from possm_lite.nn.positions import as_pairs, phasors, rotate
from possm_lite.recordings import SpikeBatch

_normal = partial(normal, dtype=torch.float64)


def _omega(*periods_s):
    return 2 * torch.pi / torch.tensor(periods_s, dtype=torch.float64)


# Exercise 11.1: one unit fires twice. exp(s) is 1 and 3: 3 / (1 + 1 + 3)
my_weight = ValueCheck(
    "my_weight",
    expected=0.6,
    tolerance=0.005,
    mistakes={
        0.75: "that is its weight before: a second spike of unit 1 is one more token that takes a share.",
        0.375: "it does not fall to a half: only the spike of unit 1 came twice, not the whole sum.",
        6 / 7: "that is what unit 2 would have if it had fired twice. It was unit 1.",
    },
)


# Exercise 11.2: the sum that was not rotated back
def R(x, t, omega):
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
        "a pair of 0.1 ms, for which times rounded to float32 are too coarse": _bin(
            0.0021, 0.0213, 0.0448, periods_s=(1e-4, 0.2)
        ),
    },
    mistakes={
        "R(z, -t, omega) → z": "the sum is still rotated: rotate it back by the time of the query.",
        ("@ R(v, dt, omega) → @ v", "R(z, -t, omega) → z"): (
            "the values were never rotated: a single spike reads the same at every time."
        ),
        "R(q, t, omega) → q": "the keys are rotated, the query is not: the score depends on where the clock starts.",
    },
)
def read_bin(q, t, k, v, dt, omega):
    """What a query q (d,) at time t reads from keys and values k, v (n, d) at times dt (n,): (11.2), shape (d,)."""
    s = R(k, dt, omega) @ R(q, t, omega) / math.sqrt(len(q))  # (n,)
    z = torch.softmax(s, 0) @ R(v, dt, omega)  # (d,)
    return R(z, -t, omega)


# Exercise 11.3: what doubled spikes change in each reading
_SHARED = "these weights sum to one: of doubled spikes each gets half, and what one unit gains the others lose."
_BLANK = "the weights, with that of the blank token, sum to one. It did not come twice, so its share fell."
_ALONE = "this weight depends on no other spike, and nothing is divided: each spike adds its own term."
_REASONS = {"softmax": _SHARED, "softmax_blank": _BLANK, "sigmoid": _ALONE, "sum": _ALONE, "mean": _SHARED}


class TableCheck(ValueCheck):
    """Checks a dict, row -> two words. Names the first row that is wrong, with its reason."""

    def fault(self, student):
        if not isinstance(student, dict):
            return "expected the table, a dict."
        if all(words == (None, None) for words in student.values()):
            return MISSING
        for row, words in self.expected.items():
            if tuple(str(word).strip().lower() for word in student.get(row, ())) != words:
                return f"{row}: {_REASONS[row]} (Choose from same, between and twice, and from less and same.)"
        return None


my_doubling = TableCheck(
    "my_doubling",
    expected={
        "softmax": ("same", "less"),
        "softmax_blank": ("between", "less"),
        "sigmoid": ("twice", "same"),
        "sum": ("twice", "same"),
        "mean": ("same", "less"),
    },
    mistakes={},
)


# Exercise 11.4: the table
def _vectors(q, *keys):
    return lambda: (torch.tensor(q, dtype=torch.float64), torch.tensor(keys, dtype=torch.float64), 1)


def _units(n_units, size, n_freqs):
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
    },
)
def score_table(q, k, n_freqs):
    """The table P of (11.6), one row for each row of k (U+1, d), for a query q (d,): shape (U+1, 2 n_freqs + 1)."""
    q_f, q_rest = as_pairs(q, n_freqs)  # (F,) complex, (d - 2F,)
    k_f, k_rest = as_pairs(k, n_freqs)  # (U+1, F) complex, (U+1, d - 2F)
    w = q_f.conj() * k_f  # (U+1, F)
    c = k_rest @ q_rest  # (U+1,)
    return torch.cat([w.real, -w.imag, c[:, None]], -1) / math.sqrt(len(q))


# Exercise 11.5: the scores of a list of spikes
def _spikes(start=0.0, t_query=0.025, same_time=False, units=(3, 1, 1, 4, 2, 3)):
    """Six tokens of four units and the blank row, `start` seconds into the recording; two bins of 50 ms."""

    def make():
        t = torch.tensor([0.002, 0.013, 0.044, 0.051, 0.068, 0.09], dtype=torch.float64)
        P, unit, omega = normal(5, 7, seed=11), torch.tensor(units), _omega(0.002, 0.02, 0.2)
        middle = t_query + 0.05 * (t >= 0.05).double()
        return P, unit, start + (middle if same_time else t), start + middle, omega

    return make


@exercise(
    tolerance=2e-3,
    cases={
        "spikes at the very time of the query": _spikes(same_time=True),
        "queries at the edges of the bins": _spikes(t_query=0.0),
        "six spikes in two bins": _spikes(),
        "a list with blank tokens, row 0 of the table": _spikes(units=(3, 1, 0, 0, 2, 3)),
        "the same spikes three hours later": _spikes(start=10_800.0),
    },
    mistakes={
        "t - t_query  # → (t.float() - t_query.float()).double()  #": (
            "right in the first minutes, wrong after hours: the times were float32 before they were subtracted."
        ),
        "t - t_query  # → t_query - t  #": "the time has the wrong sign: it runs from the query to the spike.",
        "P[unit] → P[unit - 1]": "each spike reads the row of the unit before: units count from 1, row 0 is blank.",
        "(P[unit] * phi).sum(-1) → P @ phi.T": "this is every spike with every unit: gather its own row first.",
    },
)
def spike_scores(P, unit, t, t_query, omega):
    """P_unit . phi(t - t_query) of every spike, shape (N,)."""
    tau = t - t_query  # (N,) float64: subtract first
    phase = phasors(tau, omega, P.dtype)  # (N, F)
    phi = torch.cat([phase.real, phase.imag, torch.ones_like(phase.real[:, :1])], -1)  # (N, 2F+1)
    return (P[unit] * phi).sum(-1)  # (N,)


# Exercise 11.6: a softmax within each bin
def _tokens(scores, bins, *observe):
    return Case(lambda: (torch.tensor(scores), torch.tensor(bins), max(bins) + 1), *observe)


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
        lambda scores, bins, n_bins: torch.softmax(scores, 0): (
            "the weights of all bins together sum to one: each bin has a softmax of its own."
        ),
        "scores - peak[bins] → scores": "large scores overflow in exp: subtract the largest of the bin first.",
        "scores - peak[bins] → scores - scores.max()": (
            "you subtract the largest score of all, so a bin of much lower scores becomes 0/0: take that of its bin."
        ),
        "-math.inf → 0.0": "the peaks start from 0, so a bin of scores far below 0 becomes 0/0. Start from -infinity.",
    },
)
def bin_softmax(scores, bins, n_bins):
    """Softmax of scores (N,) over the tokens of each bin: weights (N,) that sum to one in every bin."""
    peak = torch.full((n_bins,), -math.inf).scatter_reduce(0, bins, scores.detach(), "amax")  # (n_bins,)
    weights = torch.exp(scores - peak[bins])  # (N,), the largest of each bin is one
    total = torch.zeros(n_bins).index_add(0, bins, weights)  # (n_bins,)
    return weights / total[bins]


# Exercise 11.7: the whole reader of a list
def _gradients(function, model, batch):
    result = function(model, batch)
    if not (isinstance(result, torch.Tensor) and result.requires_grad):
        raise Complaint("no gradient flows back from the result. Is there a .item(), .detach() or no_grad()?")
    weights = torch.linspace(-1, 2, result.numel()).view_as(result)
    parameters = [model.unit_embedding.weight, *model.encoder.parameters()]
    gradients = torch.autograd.grad((result * weights).sum(), parameters, materialize_grads=True)
    return torch.cat([g.flatten() for g in gradients])


def _list(times_ms, units, *observe, duration_s=0.05, sharp=2.0, n_freqs=2):
    """A small reader with weights of its own, and spikes of one or several trials, a list of each for every trial."""

    def make():
        config = POSSMConfig(
            4, dim=8, head_dim=6, n_freqs=n_freqs, reading="softmax", shortest_period_s=0.03, longest_period_s=0.2
        )
        with torch.random.fork_rng(devices=[]), torch.no_grad():
            torch.default_generator.manual_seed(5)
            model = POSSM(config)
            model.encoder.to_q.weight.mul_(sharp)
            model.encoder.to_out.weight.mul_(3)
        trial = [i for i, times in enumerate(times_ms) for _ in times]
        time_s = [t / 1000 for times in times_ms for t in times]
        return model, SpikeBatch.from_events(trial, sum(units, []), time_s, len(times_ms), duration_s)

    return Case(make, *observe, tolerance=1e-3)


_SEVEN = partial(_list, [[2, 21, 44, 63, 98, 104, 131]], [[1, 3, 3, 2, 1, 4, 2]], duration_s=0.15)


@exercise(
    cases={
        "one spike in the middle of its bin": _list([[25]], [[2]]),
        "seven spikes in three bins": _SEVEN(),
        "one spike, 15 ms before the middle of its bin": _list([[10]], [[2]]),
        "a bin without spikes": _list([[10, 110, 113]], [[2, 1, 4]], duration_s=0.15),
        "two trials": _list([[5, 60], [10, 20, 90]], [[1, 2], [3, 4, 2]], duration_s=0.1),
        "a reader whose every coordinate is rotated": _SEVEN(n_freqs=3),
        "scores far from 0": _SEVEN(sharp=3000.0),
        "the gradients of the model": _SEVEN(_gradients),
        "the gradients, with scores far from 0": _SEVEN(_gradients, sharp=3000.0),
    },
    mistakes={
        " - batch.bin_width_s / 2 → ": "the query is in the middle of the bin: count the times of spikes from there.",
        "rotate(v[batch.unit], phase) → v[batch.unit]": "the values were never rotated.",
        "s - peak[batch.bin] → s": "large scores overflow: subtract the largest score of each bin first.",
        "batch.n_bins.sum() → batch.n_bins[0]": "`batch.bin` counts through all trials: n_bins.sum() in all.",
    },
)
def encode_list(model, batch):
    """From a list of N tokens to what enters the network, (n_bins, D): (11.5), (11.8), (11.9)."""
    encoder, omega = model.encoder, model.rotation.omega
    q = encoder.queries(encoder.latents)[0, 0]  # (d,)
    k, v = encoder.to_kv(encoder.norm_context(model.unit_embedding.weight)).chunk(2, -1)  # (U+1, d) each

    (q_f, q_rest), (k_f, k_rest) = as_pairs(q, len(omega)), as_pairs(k, len(omega))
    w, c = q_f.conj() * k_f, k_rest @ q_rest  # (U+1, F), (U+1,)
    P = torch.cat([w.real, -w.imag, c[:, None]], -1) / math.sqrt(len(q))  # (U+1, 2F+1)

    tau = batch.offset - batch.bin_width_s / 2  # (N,) float64: from the query in the middle of the bin
    phase = phasors(tau, omega, P.dtype)  # (N, F)
    phi = torch.cat([phase.real, phase.imag, torch.ones_like(phase.real[:, :1])], -1)  # (N, 2F+1)
    s = (P[batch.unit] * phi).sum(-1)  # (N,)

    n_bins = int(batch.n_bins.sum())
    peak = s.new_full((n_bins,), -math.inf).scatter_reduce(0, batch.bin, s.detach(), "amax")  # (n_bins,)
    p = torch.exp(s - peak[batch.bin])
    p = p / s.new_zeros(n_bins).index_add(0, batch.bin, p)[batch.bin]  # (N,)

    values = p[:, None] * rotate(v[batch.unit], phase)  # (N, d): by tau, so there is nothing to rotate back
    z = values.new_zeros(n_bins, len(q)).index_add(0, batch.bin, values)  # (n_bins, d)
    return encoder.project_out(encoder.latents[0], z[:, None])  # (n_bins, D)
