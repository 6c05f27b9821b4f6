"""Exercises of chapter 13: R², R² over all trials, a causal history."""

from functools import partial

import torch

from possm_lite.classroom.checks import Case, Check, ValueCheck, normal

# Exercise 13.1: half the velocity leaves half the error, whose square is a quarter: 1 - 1/4

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


# Exercise 13.2: R² over all trials


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


# Exercise 13.3: a causal history


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
