"""Exercises of chapter 12: the query that reads the last states, the scale of velocity."""

from functools import partial

import torch

from possm_lite.blocks.positions import phasors, rotate
from possm_lite.classroom.checks import Case, Check, normal

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
