"""Exercises of chapter 12: the query that reads the last states, the scale of velocity, R², a causal history."""

from functools import partial

import torch

from possm_lite.blocks.positions import phasors, rotate
from possm_lite.classroom.checks import Case, Check, ValueCheck, normal

# Exercise 12.1: the second query


def _window(b, n_seen, n_bins):
    return range(max(b - n_seen + 1, 0), b + 1)


def _read(
    q, t, k, v, b, n_seen, omega, *, bins=_window, time=lambda j: 0.05 * (j + 1), keys=True, values=True, back=True
):
    """Equation (12.6). Keys (with the query), values and their sum are rotated where `keys`, `values`, `back`."""

    def rotated(x, t):
        return rotate(x, phasors(t, omega, x.dtype))

    j = torch.tensor([*bins(b, n_seen, len(k))], dtype=torch.int64)
    k, v, tau = k[j], v[j], time(j.double())
    if keys:
        q, k = rotated(q, t), rotated(k, tau)
    z = torch.softmax(k @ q / len(q) ** 0.5, 0) @ (rotated(v, tau) if values else v)
    return rotated(z, -t) if back else z


def _states(b, t, n_seen=3):
    """Six bins, vectors of six numbers of which four are rotated, a query at time t in bin b."""

    def make():
        q, k, v = (normal(*shape, seed=12 + i).double() for i, shape in enumerate(((6,), (6, 6), (6, 6))))
        omega = 2 * torch.pi / torch.tensor([0.09, 0.7], dtype=torch.float64)
        return 2 * q, torch.tensor(t, dtype=torch.float64), k, v, b, n_seen, omega

    return make


read_states = Check(
    "read_states",
    reference=_read,
    cases=[
        Case("a query that sees its own bin alone", _states(4, 0.213, n_seen=1)),
        Case("a query that sees three bins", _states(4, 0.213)),
        Case("a query at the very end of the last bin", _states(5, 0.299)),
        Case("a query in the first bin, which has none before it", _states(0, 0.012)),
        Case("a query in the second bin", _states(1, 0.071)),
    ],
    traps={
        "the states have no position: swap two of them and the result is the same. Rotate keys and values by the end "
        "of their bin, and the query by t.": partial(_read, keys=False, values=False, back=False),
        "the keys are not rotated, so the weights ignore the order of the states.": partial(_read, keys=False),
        "the values are not rotated, only the keys are.": partial(_read, values=False, back=False),
        "the sum of the values is still rotated: rotate it back by t.": partial(_read, back=False),
        "each state has the time at which its bin begins. It contains the spikes of the whole bin, so its time is "
        "the end of the bin.": partial(_read, time=lambda j: 0.05 * j),
        "each state has the number of its bin as its time: use seconds.": partial(_read, time=lambda j: j),
        "the query reads all states, even those after its own bin. They are in the future: a decoder in real time "
        "does not have them yet.": partial(_read, bins=lambda b, n, N: range(N)),
        "the query reads all states from the first bin on, however many there are. It sees n_seen of them, its own "
        "included.": partial(_read, bins=lambda b, n, N: range(b + 1)),
        "one state too many is read. The state of bin b is one of them, so the n_seen bins begin with "
        "b - n_seen + 1.": partial(_read, bins=lambda b, n, N: range(max(b - n, 0), b + 1)),
        "time starts anew at the first state that is seen. It is the time in the trial: bin j ends at "
        "(j + 1) 0.05 s.": partial(_read, time=lambda j: 0.05 * (j - j[0] + 1)),
        "the query does not read the state of its own bin, which is the newest: the last one to read is b, "
        "not b - 1.": partial(_read, bins=lambda b, n, N: range(max(b - n, 0), b)),
        "right in the middle of a trial, wrong at its start: a slice that begins at a negative number counts from "
        "the other end, and comes out empty.": partial(_read, bins=lambda b, n, N: range(N)[b - n + 1 : b + 1]),
        "right in the middle of a trial, wrong at its start: a negative index counts from the other end, so the first "
        "bins read the last ones.": partial(_read, bins=lambda b, n, N: (j % N for j in range(b - n + 1, b + 1))),
        "right in the middle of a trial, wrong at its start: bins before the first do not exist, so the first bin is "
        "not repeated for them.": partial(_read, bins=lambda b, n, N: (max(j, 0) for j in range(b - n + 1, b + 1))),
        "the scores are too large: divide by the root of the size d.": lambda q, *rest: _read(q * len(q) ** 0.5, *rest),
    },
)


# Exercise 12.2: the scale of velocity


def _scaled(
    velocity,
    times_s,
    train,
    *,
    inside=lambda t, train: ((t >= train[:, :1]) & (t < train[:, 1:])).any(0),
    mean=lambda v: v.mean(0),
    std=lambda v: v.std(0, correction=0),
    without_zeros=lambda std: torch.where(std > 0, std, 1.0),
):
    v = velocity[inside(times_s, train)]
    return (velocity - mean(v)) / without_zeros(std(v))


def _samples(*train, scale=(100.0, 20.0)):
    """Twelve samples, 0.1 s apart, the last four of them three times as fast and shifted."""

    def make():
        velocity = normal(12, 2, seed=9).double() * torch.tensor(scale, dtype=torch.float64) + 5
        velocity[8:] = 3 * velocity[8:] + torch.tensor(scale, dtype=torch.float64)
        return velocity, torch.arange(12, dtype=torch.float64) / 10, torch.tensor(train, dtype=torch.float64)

    return make


standardise = Check(
    "standardise",
    reference=_scaled,
    cases=[
        Case("a session that is all training", _samples((0.0, 1.2))),
        Case("one training trial and faster trials after it", _samples((0.0, 0.75))),
        Case("two training trials with another between them", _samples((0.0, 0.35), (0.85, 1.05))),
        Case("a training trial that stops at the time of a sample", _samples((0.2, 0.7))),
        Case("a hand that never moves along y", _samples((0.0, 0.75), scale=(100.0, 0.0))),
    ],
    traps={
        "mean and spread are those of the whole session: what the test trials look like has leaked in. Take them from "
        "the training trials alone.": partial(_scaled, inside=lambda t, train: t >= 0),
        "mean and spread are taken from the first start to the last stop: what lies between training trials is not "
        "training.": partial(_scaled, inside=lambda t, train: (t >= train.min()) & (t < train.max())),
        "a sample exactly at the stop of a trial does not belong to it, but to what comes next: start <= time < "
        "stop.": partial(_scaled, inside=lambda t, train: ((t >= train[:, :1]) & (t <= train[:, 1:])).any(0)),
        "one spread for both axes: each axis has its own.": partial(_scaled, std=lambda v: v.std(correction=0)),
        "divided by the variance: take its root.": partial(_scaled, std=lambda v: v.var(0, correction=0)),
        "the mean is still in it: subtract it before you divide.": partial(_scaled, mean=lambda v: 0.0),
        "slightly too small: torch's std divides by n - 1. Set correction=0.": partial(_scaled, std=lambda v: v.std(0)),
        "right until a hand never moves along an axis: its spread is 0 there, and nothing can be divided by 0. "
        "Divide by 1 there.": partial(_scaled, without_zeros=lambda std: std),
    },
)


# Exercise 12.3: half the velocity leaves half the error, whose square is a quarter: 1 - 1/4

my_r2 = ValueCheck(
    "my_r2",
    expected=0.75,
    tolerance=0.005,
    traps={
        "half the velocity is missing, but R² counts squares: what is left of the error is a quarter.": 0.5,
        "that is the share of the square that is missing. R² is one minus that.": 0.25,
        "that is the correlation. It does not see that every peak is too low; R² does.": 1.0,
    },
)


# Exercise 12.4: R² over all trials


def _r2(true, decoded, *, spread=lambda trials: torch.cat(trials).var(0, correction=0), ratio=torch.div):
    error = (torch.cat(true) - torch.cat(decoded)).square().mean(0)  # (2,), as the spread
    return 1 - ratio(error, spread(true)).mean()


def _r2_of_each(true, decoded):
    return torch.stack([_r2([v], [w]) for v, w in zip(true, decoded, strict=True)])


def _squared_correlation(true, decoded):
    v, w = (torch.cat(trials) - torch.cat(trials).mean(0) for trials in (true, decoded))
    return ((v * w).sum(0) ** 2 / ((v**2).sum(0) * (w**2).sum(0))).mean()


def _trials(*lengths, size=(1.0, 1.0), gain=1.0, drift=0.0):
    def make():
        n = sum(lengths)
        level = torch.repeat_interleave(normal(len(lengths), 2, seed=5), torch.tensor(lengths), dim=0)
        true = ((normal(n, 2, seed=3) + level) * torch.tensor(size) + drift).double()
        decoded = gain * true + 0.4 * normal(n, 2, seed=4).double()
        return [*true.split(lengths)], [*decoded.split(lengths)]

    return make


r2_of_trials = Check(
    "r2_of_trials",
    reference=_r2,
    cases=[
        Case("one trial", _trials(6)),
        Case("one trial in which the decoder says twice the velocity", _trials(6, gain=2.0)),
        Case("one trial of a hand that moves ten times as much along x as along y", _trials(6, size=(10.0, 1.0))),
        Case("one trial with a drift", _trials(6, drift=3.0)),
        Case("three trials of one length", _trials(5, 5, 5)),
        Case("three trials of different lengths", _trials(3, 9, 4)),
    ],
    traps={
        "this is the mean of each trial's R²: a trial in which the hand hardly moves then outweighs all others. Put "
        "the trials together first.": lambda true, decoded: _r2_of_each(true, decoded).mean(),
        "this is the mean of each trial's R², weighted by its length: put the trials together first, and divide one "
        "sum by one sum.": lambda true, decoded: (
            _r2_of_each(true, decoded) @ torch.tensor([len(v) for v in true]).double() / sum(map(len, true))
        ),
        "the errors are put together, but each trial is compared with its own mean. Take the mean over all "
        "trials.": partial(_r2, spread=lambda trials: torch.cat([v - v.mean(0) for v in trials]).square().mean(0)),
        "x and y share one sum, so the axis that moves more decides. Take R² of each axis first, and then the mean "
        "of the two.": partial(_r2, ratio=lambda error, spread: error.mean() / spread.mean()),
        "that is the squared correlation: it forgives a decoder that says twice the velocity. R² counts that as "
        "an error.": _squared_correlation,
        "true and decoded are swapped: divide by the spread of `true`.": lambda true, decoded: _r2(decoded, true),
        "the spread that you divide by is taken about zero. Take it about the mean, as R² asks how much better the "
        "decoder is than that.": partial(_r2, spread=lambda trials: torch.cat(trials).square().mean(0)),
        "slightly too large, because torch's var divides by n - 1. Take sums instead, or set correction=0.": partial(
            _r2, spread=lambda trials: torch.cat(trials).var(0)
        ),
    },
)


# Exercise 12.5: a causal history


def _history(counts, n_history, *, offsets=lambda n: range(1 - n, 1), wrap=False, flatten=lambda rows: rows.flatten(1)):
    """Row t holds the bins t + offset, in this order; zeros, or with `wrap` the other end, where there is no bin."""
    j = torch.arange(len(counts))[:, None] + torch.tensor([*offsets(n_history)])  # (T, n)
    rows = counts[j % len(counts)]  # (T, n, U)
    return flatten(rows if wrap else rows * ((j >= 0) & (j < len(counts)))[..., None])


def _counts(n_bins=6, n_units=2, n_history=3):
    return lambda: (1.0 + torch.arange(n_bins * n_units).reshape(n_bins, n_units), n_history)


def _before_a_change(function, counts, n_history):
    """The rows before bin 4, when bin 4 and all later ones change."""
    return function(torch.cat([counts[:4], counts[4:] + 100]), n_history)[:4]


causal_history = Check(
    "causal_history",
    reference=_history,
    cases=[
        Case("a history of one bin", _counts(n_history=1)),
        Case("one unit and a history of three bins", _counts(n_units=1)),
        Case("two units and a history of three bins", _counts()),
        Case("the rows before a bin, when that bin and later ones change", _counts(), _before_a_change),
        Case("a history longer than the recording", _counts(n_bins=2, n_history=4)),
    ],
    traps={
        "row t reaches into the future: it begins at t. It must end at t.": partial(_history, offsets=range),
        "row t reaches into the future: its bins are on both sides of t, so some of them come after it. The last "
        "bin of row t is t.": partial(_history, offsets=lambda n: range(-(n // 2), n - n // 2)),
        "row t ends one bin too early: bin t is over when the velocity is decoded, so its counts are known and "
        "belong to the row.": partial(_history, offsets=lambda n: range(-n, 0)),
        "the newest bin comes first: put the oldest first.": partial(_history, offsets=lambda n: range(0, -n, -1)),
        "the first rows hold the last bins of the recording, as after torch.roll: that is the future. Put zeros "
        "where there is no bin.": partial(_history, wrap=True),
        "the bins of each unit are next to each other. First come all units of the oldest bin, then all of the "
        "next.": partial(_history, flatten=lambda rows: rows.transpose(1, 2).flatten(1)),
    },
)
