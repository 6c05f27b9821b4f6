"""Exercises of chapter 13: R², over all trials, a causal history, the bootstrap; deeper: a screen, a query per ms."""

import torch

from possm_course.checks import Case, ValueCheck, exercise, normal

# Exercise 13.1: half the velocity leaves half the error, whose square is a quarter: 1 - 1/4
my_r2 = ValueCheck(
    "my_r2",
    expected=0.75,
    tolerance=0.005,
    mistakes={
        0.5: "half the velocity is missing, but R² counts squares: what is left of the error is a quarter.",
        0.25: "that is the share of the square that is missing. R² is one minus that.",
        1.0: "that is the correlation. It does not see that every peak is too low; R² does.",
    },
    hint="What is left of the error, squared, as a share of the squared velocity?",
)


# Exercise 13.2: R² over all trials
def _trials(*lengths, size=(1.0, 1.0), gain=1.0, drift=0.0):
    """Makes true and decoded velocity of trials of these lengths, each with a level of its own."""

    def make():
        n = sum(lengths)
        level = normal(len(lengths), 2, seed=5)  # one of each trial
        level = torch.repeat_interleave(level, torch.tensor(lengths), dim=0)  # (n, 2)
        true = ((normal(n, 2, seed=3) + level) * torch.tensor(size) + drift).double()
        decoded = gain * true + 0.4 * normal(n, 2, seed=4).double()
        return list(true.split(lengths)), list(decoded.split(lengths))

    return make


def _mean_of_trials(true, decoded):
    """A mistake: the mean of one R² of each trial."""
    return torch.stack([r2_of_trials.reference([v], [w]) for v, w in zip(true, decoded, strict=True)]).mean()


def _weighted_mean_of_trials(true, decoded):
    """A mistake: lengths weigh the R² of each trial."""
    each = torch.stack([r2_of_trials.reference([v], [w]) for v, w in zip(true, decoded, strict=True)])
    lengths = torch.tensor([float(len(v)) for v in true]).double()
    return (each * lengths).sum() / lengths.sum()


@exercise(
    cases={
        "one trial in which the decoder says twice the velocity": _trials(6, gain=2.0),
        "one trial of a hand that moves ten times as much along x as along y": _trials(6, size=(10.0, 1.0)),
        "one trial with a drift": _trials(6, drift=3.0),
        "three trials of different lengths": _trials(3, 9, 4),
    },
    mistakes={
        _mean_of_trials: "this is the mean of each trial's R²: one in which the hand hardly moves then weighs most.",
        "v - v.mean(0) → v": "the spread of (13.1) is about the mean: subtract that of each axis.",
        ".sum(0) → .sum()": "x and y share one sum, so the axis that moves more decides.",
        "v, v_hat = → v_hat, v =": "true and decoded are swapped: divide by the spread of `true`.",
        _weighted_mean_of_trials: (
            "this is a mean of each trial's R², weighted by length. One error and one spread over all trials are "
            "wanted."
        ),
        "return (1 - error / spread).mean() → return torch.stack([torch.corrcoef(torch.stack([v[:, i], "
        "v_hat[:, i]]))[0, 1] ** 2 "
        "for i in range(2)]).mean()": (
            "this is the square of the correlation, which does not see that every peak is twice too high. R² does."
        ),
        "return (1 - error / spread).mean() → return torch.stack([torch.corrcoef(torch.stack([v[:, i], "
        "v_hat[:, i]]))[0, 1] "
        "for i in range(2)]).mean()": (
            "this is the correlation, which does not see that every peak is twice too high. R² does."
        ),
        "return (1 - error / spread).mean() → return 1 - error / spread": (
            "these are two numbers, one for each axis. Their mean is wanted."
        ),
        "return (1 - error / spread).mean() → d = (v - v_hat).flatten(); w = v.flatten(); "
        "return 1 - (d**2).sum() / ((w - w.mean()) ** 2).sum()": (
            "x and y are put into one row: they share one mean and one sum. Each axis should have its own."
        ),
        "spread = ((v - v.mean(0)) ** 2).sum(0) → spread = sum(((x - x.mean(0)) ** 2).sum(0) for x in true)": (
            "the spread is about the mean of each trial. It should be about the mean of all."
        ),
        "error = ((v - v_hat) ** 2).sum(0) → error = ((v - v_hat - (v - v_hat).mean(0)) ** 2).sum(0)": (
            "the mean of the error is taken off, as in an explained variance. R² counts it."
        ),
        "v, v_hat = torch.cat(true), torch.cat(decoded) → v, v_hat = ("
        "torch.nn.utils.rnn.pad_sequence(x, batch_first=True).flatten(0, 1) for x in (true, decoded))": (
            "trials are padded to one length, and the zeros of the padding count. Join them one after the other."
        ),
        (
            "return (1 - error / spread).mean() → return (error / spread).mean()"
        ): "this is the share that is missing: 1 minus it.",
        (
            "((v - v.mean(0)) ** 2).sum(0) → v.var(0)"
        ): "a sum of squares is divided by a variance: both should be sums, or means.",
    },
)
def r2_of_trials(true, decoded):
    """R² of (13.1) of all trials together, mean of the two axes. true, decoded: lists of (T_i, 2)."""
    v, v_hat = torch.cat(true), torch.cat(decoded)  # (T, 2) each
    error = ((v - v_hat) ** 2).sum(0)  # (2,)
    spread = ((v - v.mean(0)) ** 2).sum(0)  # (2,)
    return (1 - error / spread).mean()


# Exercise 13.3: a causal history
def _counts(n_bins=6, n_units=2, n_history=3):
    """Makes counts (n_bins, n_units) that are all different, and the length of the history."""
    return lambda: (1.0 + torch.arange(n_bins * n_units).reshape(n_bins, n_units), n_history)


def _before_a_change(function, counts, n_history):
    """The rows before bin 4, when bin 4 and all later ones change."""
    return function(torch.cat([counts[:4], counts[4:] + 100]), n_history)[:4]


@exercise(
    cases={
        "one unit and a history of three bins": _counts(n_units=1),
        "two units and a history of three bins": _counts(),
        "the rows before a bin, when that bin and later ones change": Case(_counts(), _before_a_change),
        "a history longer than the recording": _counts(n_bins=2, n_history=4),
    },
    mistakes={
        "n_history - 1, U), counts] → n_history // 2, U), counts, counts.new_zeros(n_history, U)]": (
            "row t reads bins after t, as a centred window does. It must end at t."
        ),
        "n_history - 1, U → n_history, U": "row t ends one bin too early: bin t is over when the velocity is decoded.",
        "range(n_history) → reversed(range(n_history))": "the newest bin comes first: put the oldest first.",
        "torch.cat([padded[i : i + T] for i in range(n_history)], 1) → padded.unfold(0, n_history, 1).flatten(1)": (
            "the bins of each unit are next to each other: all units of the oldest bin come first."
        ),
        "return torch.cat([padded[i : i + T] for i in range(n_history)], 1) → "
        "return torch.cat([torch.roll(counts, n_history - 1 - i, 0) for i in range(n_history)], 1)": (
            "`roll` joins the ends: the first rows hold the end of the recording. Before the first bin there "
            "should be zeros."
        ),
        "counts.new_zeros(n_history - 1, U) → counts[:1].expand(n_history - 1, U)": (
            "the first bin is repeated before the start. There should be zeros."
        ),
        "counts.new_zeros(n_history - 1, U) → counts.new_full((n_history - 1, U), torch.nan)": (
            "there is NaN before the first bin. There should be zeros."
        ),
        "return torch.cat([padded[i : i + T] for i in range(n_history)], 1) → x = counts.new_full((T, "
        "n_history, U), torch.nan)\n"
        "    for t in range(n_history - 1, T):\n        x[t] = counts[t - n_history + 1 : t + 1]\n    return "
        "x.flatten(1)": ("rows without a whole history are NaN. What is missing should be zeros, and the rest stay."),
        "return torch.cat([padded[i : i + T] for i in range(n_history)], 1) → x = counts.new_zeros(T, n_history, U)\n"
        "    for t in range(T - n_history):\n        x[t + n_history] = counts[t : t + n_history]\n    "
        "return x.flatten(1)": (
            "row t ends one bin too early, and the first rows are empty: bin t itself should be the last of row t."
        ),
        "return torch.cat([padded[i : i + T] for i in range(n_history)], 1) → "
        "return torch.cat([padded[i : i + T] for i in range(n_history)], 1)[n_history - 1 :]": (
            "the first rows are left out. Each bin should have a row, with zeros for what is missing."
        ),
        "padded = torch.cat([counts.new_zeros(n_history - 1, U), counts]) → "
        "padded = torch.cat([counts, counts.new_zeros(n_history - 1, U)])": (
            "row t begins at t and goes on into the future. It should end at t."
        ),
    },
)
def causal_history(counts, n_history):
    """Each bin of counts (T, U) with the n_history - 1 before it, oldest first: (T, n_history U)."""
    T, U = counts.shape
    padded = torch.cat([counts.new_zeros(n_history - 1, U), counts])  # (T + H - 1, U)
    return torch.cat([padded[i : i + T] for i in range(n_history)], 1)  # (T, H U)


# Exercise 13.4: the bootstrap over trials
def _drawn(*draws):
    """Makes three trials, and draws of them for the bootstrap."""
    return lambda: (*_trials(3, 9, 4)(), torch.tensor(draws))


def _mean_of_drawn(true, decoded, draws):
    """A mistake: the mean of one R² of each trial that is drawn."""
    each = torch.stack([r2_of_trials.reference([v], [w]) for v, w in zip(true, decoded, strict=True)])
    return each[draws].mean(1)


def _samples_drawn(true, decoded, draws):
    """A mistake: draws are taken for numbers of samples."""
    v, w = torch.cat(true), torch.cat(decoded)
    return torch.stack([r2_of_trials.reference([v[draw]], [w[draw]]) for draw in draws])


@exercise(
    cases={
        "every trial drawn once": _drawn([2, 0, 1]),
        "a trial drawn twice": _drawn([0, 1, 1]),
        "three draws": _drawn([0, 1, 1], [2, 2, 2], [0, 2, 1]),
    },
    mistakes={
        "for i in draw] → for i in set(draw)]": "each trial enters once: a trial that is drawn twice counts twice.",
        "v.mean(0) → torch.cat(true).mean(0)": "the mean is that of all trials: take that of the samples drawn.",
        "(r2) → (r2).sort().values": "the results are sorted: two decoders are compared draw by draw.",
        _mean_of_drawn: (
            "this is the mean of the drawn trials' R². Their samples should be joined, and one R² made of them."
        ),
        _samples_drawn: ("samples are drawn, not trials: a number of a draw is that of a whole trial."),
        "v, v_hat = (torch.cat([x[i] for i in draw]) for x in (true, decoded)) → "
        "v, v_hat = torch.cat([true[i] for i in draw]), torch.cat([decoded[i] for i in sorted(draw)])": (
            "true and decoded come in different orders: both should be those of one draw."
        ),
        "return torch.stack(r2) → return torch.stack(r2).quantile(torch.tensor([0.025, 0.975]).double())": (
            "these are the ends of an interval. Return the R² of every draw."
        ),
        "return torch.stack(r2) → return torch.stack(r2).mean()": "this is the mean. Return the R² of every draw.",
        ".sum(0), ((v - v.mean(0)) ** 2).sum(0) → .sum(), ((v - v.mean(0)) ** 2).sum()": (
            "x and y share one sum, so the axis that moves more decides."
        ),
    },
)
def bootstrap_r2(true, decoded, draws):
    """R² of the trials of each draw: lists of (T_i, 2), draws (K, n) of numbers of trials, to (K,)."""
    r2 = []
    for draw in draws.tolist():
        v, v_hat = (torch.cat([x[i] for i in draw]) for x in (true, decoded))  # (T, 2) each
        error, spread = ((v - v_hat) ** 2).sum(0), ((v - v.mean(0)) ** 2).sum(0)  # (2,)
        r2.append((1 - error / spread).mean())
    return torch.stack(r2)


# Exercise 13.5, deeper: which answer is on the screen
def _times(n, step=0.01, phase=0.004, lag_s=0.0, width_s=0.05):
    """Makes n times, one every `step`, in s, the width of a bin and a lag."""
    times = [round(j * step + phase, 9) for j in range(n)]
    return lambda: (torch.tensor(times).double(), width_s, lag_s)


@exercise(
    cases={
        "one answer in each bin": _times(12, step=0.05, phase=0.02),
        "five answers in each bin": _times(40),
        "answers on the edges of bins": _times(20, step=0.05, phase=0.0),
        "a lag of less than a bin": _times(40, lag_s=0.03),
        "a lag of two bins": _times(40, lag_s=0.1),
    },
    mistakes={
        "torch.minimum(n_finished, torch.arange(1, len(t) + 1)) → n_finished": (
            "the screen shows answers for moments that are still to come: take the newest that is not."
        ),
        "(bins, now) → (bins, now - 1)": "an answer is shown a bin too late: a bin that ends at t is over at t.",
        "(t + lag_s) → t": "the lag is not used: at t all bins are over that end at or before t + lag_s.",
        "(n_finished, torch.arange(1, len(t) + 1)) - 1 → (n_finished, torch.arange(1, len(t) + 1))": (
            "this is how many are finished. The newest of n has the number n - 1."
        ),
        "+ 1e-6 → ": "a time on an edge is in the bin before: add a millionth of a bin first.",
        "(t + lag_s) → (t - lag_s)": "the sign of the lag: with it *more* bins are over.",
    },
)
def on_screen(t, width_s=0.05, lag_s=0.0):
    """The newest finished answer j <= i at each time t (T,), -1 where there is none: (T,)."""
    bins = torch.floor(t / width_s + 1e-6)  # the bin that each answer reads, (T,)
    now = torch.floor((t + lag_s) / width_s + 1e-6)  # the bin that is being filled at each time, (T,)
    n_finished = torch.searchsorted(bins, now)  # answers of earlier bins, (T,)
    return torch.minimum(n_finished, torch.arange(1, len(t) + 1)) - 1


# Exercise 13.6, deeper: a query for each millisecond
@exercise(
    cases={"three queries, two states": lambda: (normal(3, 4), normal(2, 6), *normal(2, 6, 4, seed=1))},
    mistakes={
        " / q.shape[-1] ** 0.5 → ": "the scores are not divided by the root of d.",
        "q.shape[-1] ** 0.5 → H.shape[-1] ** 0.5": "divide by the root of d, the size of a query, not of a state.",
        ", -1) @ V → , 0) @ V": "the softmax runs over the queries. The weights of a query over the states sum to one.",
        "@ V → @ K": "the keys are averaged. The values should be.",
        "q.shape[-1] ** 0.5 → q.shape[-1]": "divided by d, and not by its root.",
    },
)
def ask_each_ms(q, H, W_k, W_v):
    """What the queries q (Q, d) read of the states H (k, h), by W_k and W_v (h, d): (Q, d)."""
    K, V = H @ W_k, H @ W_v  # (k, d) each
    return torch.softmax(q @ K.T / q.shape[-1] ** 0.5, -1) @ V
