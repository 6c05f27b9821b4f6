"""Exercises of chapter 13: R², R² over all trials, a causal history, R² of what a screen shows."""

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


# Exercise 13.4: R² of what a screen shows


def _newest(times_s, width_s, lag_s, *, edge=1e-6, wait=0, future=False, first=False):
    """Index of the answer that is shown at each time, (T,); -1 where nothing is."""
    bins = torch.floor(times_s / width_s + edge)
    finished = torch.searchsorted(
        bins, torch.floor((times_s + lag_s) / width_s + edge) - wait
    )  # answers that are ready
    newest = finished - 1 if future else torch.minimum(finished - 1, torch.arange(len(times_s)))
    return torch.where(newest < 0, -1, torch.searchsorted(bins, bins[newest])) if first else newest


def _screen(times_s, true, decoded, width_s=0.05, lag_s=0.0, *, empty=False, score=_r2, **rules):
    shown_true, shown = [], []
    for t, v, w in zip(times_s, true, decoded, strict=True):
        newest = _newest(t, width_s, lag_s, **rules)
        keep = newest >= (-1 if empty else 0)
        shown_true.append(v[keep])
        shown.append((w[newest] * (newest >= 0)[:, None])[keep])
    return score(shown_true, shown)


def _joined(times_s, true, decoded, width_s=0.05, lag_s=0.0):
    """One screen for all stretches: the last answer of one is still shown at the start of the next."""
    shown_true, shown, before = [], [], torch.zeros(0, 2).double()
    for t, v, w in zip(times_s, true, decoded, strict=True):
        newest = _newest(t, width_s, lag_s)
        last = before[-1:].expand(len(t), -1) if len(before) else torch.full((len(t), 2), torch.nan).double()
        answers = torch.where(newest[:, None] >= 0, w[newest], last)
        known = ~answers[:, 0].isnan()
        shown_true.append(v[known])
        shown.append(answers[known])
        before = w
    return _r2(shown_true, shown)


def _mean_of_stretches(true, decoded):
    return torch.stack([_r2([v], [w]) for v, w in zip(true, decoded, strict=True) if len(v)]).mean()


def _stretches(*counts, step=0.01, phase=0.004, lag_s=0.0, size=(1.0, 1.0), jitter=0.0, width_s=0.05):
    def make():
        times, true, decoded = [], [], []
        for i, n in enumerate(counts):
            t = torch.tensor([round(j * step + phase, 9) for j in range(n)], dtype=torch.float64)  # as written: 0.15
            t = (t + jitter * normal(n, seed=20 + i).abs().double()).sort().values
            phases = 4.0 * t[:, None] + torch.tensor([0.3, 1.1]).double() + i
            v = (torch.sin(phases) + 0.3 * normal(n, 2, seed=30 + i).double()) * torch.tensor(size)
            times.append(t)
            true.append(v)
            decoded.append(v + 0.1 * normal(n, 2, seed=40 + i).double())
        return times, true, decoded, width_s, lag_s

    return make


screen_r2 = Check(
    "screen_r2",
    reference=_screen,
    cases=[
        Case("one answer in each bin", _stretches(12, step=0.05, phase=0.02)),
        Case("five answers in each bin", _stretches(40)),
        Case("bins of 20 ms", _stretches(40, width_s=0.02)),
        Case("answers at irregular times, some bins without one", _stretches(30, step=0.02, jitter=0.06)),
        Case("answers on the edges of bins", _stretches(20, step=0.05, phase=0.0)),
        Case("a hand that moves ten times as much along x as along y", _stretches(40, size=(10.0, 1.0))),
        Case("two stretches", _stretches(23, 41)),
        Case("a stretch so short that nothing is shown in it", _stretches(30, 4)),
        Case("a lag of less than a bin", _stretches(40, lag_s=0.03)),
        Case("a lag of one bin", _stretches(40, lag_s=0.05)),
        Case("a lag of two bins", _stretches(40, 17, lag_s=0.1)),
        Case("a negative lag", _stretches(40, lag_s=-0.05)),
    ],
    traps={
        "that is R² asked: each answer is compared with the moment it is for, whenever it is finished.": (
            lambda times_s, true, decoded, width_s=0.05, lag_s=0.0: _r2(true, decoded)
        ),
        "the screen shows answers for moments that are still to come. Of the finished answers take the newest that is "
        "not for a later moment.": partial(_screen, future=True),
        "moments before the first answer count as if zero were shown. Nothing is shown then: leave them out.": partial(
            _screen, empty=True
        ),
        "an answer is shown a bin too late: a bin that ends at t is over at t.": partial(_screen, wait=1),
        "the lag is not used: at t all bins are over that end at or before t + lag_s.": (
            lambda times_s, true, decoded, width_s=0.05, lag_s=0.0: _screen(times_s, true, decoded, width_s)
        ),
        "the lag has the wrong sign: at t all bins are over that end at or before t + lag_s.": (
            lambda times_s, true, decoded, width_s=0.05, lag_s=0.0: _screen(times_s, true, decoded, width_s, -lag_s)
        ),
        "the first answer of the newest finished bin is shown. The newest answer is its last one.": partial(
            _screen, first=True
        ),
        "the last answer of a stretch is still shown in the next. Each stretch begins with an empty screen.": _joined,
        "this is the mean of each stretch's R². Put all moments together first, as in exercise 13.2.": partial(
            _screen, score=_mean_of_stretches
        ),
        "x and y share one sum, so the axis that moves more decides. Take R² of each axis first, and then the mean "
        "of the two.": partial(_screen, score=partial(_r2, ratio=lambda error, spread: error.mean() / spread.mean())),
        "times on the edge of a bin fall below it: 0.15 / 0.05 is 2.9999999999999996. Add 1e-6 before you take the "
        "floor.": partial(_screen, edge=0.0),
    },
)
