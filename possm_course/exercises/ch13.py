"""Exercises of chapter 13: R², over all trials, a causal history, the bootstrap; deeper: a screen, a query per ms,
a step of a particle filter."""

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


# Exercise 13.7, deeper: a step of a particle filter
def _stories(*counts, n=5, bin_s=0.01, before=0.0, hz=20.0, spread=1.0):
    """Makes n stories with log weights `before`, one rate about `hz` for each unit in `counts`, and velocities."""
    log_w = torch.full((n,), before) if isinstance(before, float) else torch.tensor(before)
    rates = hz * (spread * normal(n, len(counts), seed=13)).exp()
    velocity = 100 * normal(n, 2, seed=14)
    return lambda: (log_w.double(), rates.double(), torch.tensor(counts).double(), bin_s, velocity.double())


def _by_old_weights(log_w, rates, counts, bin_s, v):
    """A mistake: the velocity is that of before the bin."""
    return weigh.reference(log_w, rates, counts, bin_s, v)[0], log_w.softmax(0) @ v


def _with_a_small_number(log_w, rates, counts, bin_s, v):
    """A mistake: a small number below the line against 0 / 0."""
    w = (log_w + (counts * rates.log() - rates * bin_s).sum(1)).exp()
    w = w / (w.sum() + 1e-12)
    return w.log(), w @ v


_UNDERFLOW = (
    "`exp` of a logarithm of -1000 is 0, for every story, and 0 / 0 is NaN. What may be subtracted from all of the "
    "logarithms before?"
)
_NOT_ONE = "the weights do not sum to 1: `exp` of the logarithms that are returned should."
_NO_LOG = "a spike adds the rate in yours. It should add the logarithm of the rate."
_TOO_EARLY = "normalised too early: first add the logarithms of before, and then make the weights sum to 1."
_SKIPPED = "log_w = log_w - log_w.logsumexp(0) → pass"


@exercise(
    cases={
        "two equal stories and a unit that fires once": _stories(1, n=2, before=-0.6931472),
        "two equal stories and a unit that is silent": _stories(0, n=2, before=-0.6931472),
        "a bin of 50 ms": _stories(1, n=2, before=-0.6931472, bin_s=0.05),
        "three units, of which one has no spike": _stories(2, 0, 1),
        "stories whose weights were not equal": _stories(2, 0, 1, before=[-1.0, -3.0, -0.5, -2.0, -4.0]),
        "log weights of -1000 and less": _stories(2, 0, 1, before=[-1003.0, -1001.0, -1000.0, -1002.0, -1004.0]),
        "a silent bin that takes 1000 from every story": _stories(*100 * [0], bin_s=0.05, hz=200.0, spread=0.02),
    },
    mistakes={
        "counts * rates.log() - rates * bin_s → counts * rates.log()": (
            "silence says nothing in yours: a story in which a unit fires fast should lose when it is silent."
        ),
        "rates * bin_s → rates": (
            "a bin takes away as much as a whole second would: a rate in Hz times the length of the bin is expected."
        ),
        "rates * bin_s → rates * 0.01": "the length of the bin is `bin_s`, and not always 10 ms.",
        "- rates * bin_s → + rates * bin_s": "the sign: what a story expects is *subtracted*.",
        "rates.log() → rates": _NO_LOG,
        "rates.log() → (rates * bin_s)": _NO_LOG,
        "log_w = log_w + ( → log_w = (": (
            "the weights of before are lost: the logarithms of this bin are *added* to those of all bins before."
        ),
        (".sum(1) → .sum(1).log_softmax(0)", _SKIPPED): _TOO_EARLY,
        (".sum(1) → .sum(1).log_softmax(0)", _SKIPPED, "log_w.exp() @ v → log_w.softmax(0) @ v"): _TOO_EARLY,
        ".sum(1) → .mean(1)": "the units are averaged. Each adds its logarithm.",
        ".sum(1) → .log_softmax(1).sum(1)": (
            "normalised over the units. The weights of the *stories* should sum to 1, after the units are added up."
        ),
        (_SKIPPED, "log_w.exp() @ v → log_w.softmax(0) @ v"): _NOT_ONE,
        _SKIPPED: f"{_NOT_ONE} The velocity needs that, too.",
        ("log_w.logsumexp(0) → log_w.max()", "log_w.exp() @ v → log_w.softmax(0) @ v"): (
            "the largest logarithm is 0. That is not enough: the weights should sum to 1."
        ),
        "log_w.logsumexp(0) → log_w.max()": (
            "the largest weight is 1, in the velocity as well. The *sum* of the weights should be 1."
        ),
        "log_w.logsumexp(0) → log_w.exp().sum().log()": _UNDERFLOW,
        "log_w = log_w - log_w.logsumexp(0) → log_w = (log_w.exp() / log_w.exp().sum()).log()": _UNDERFLOW,
        ("log_w = log_w + ( → log_w = log_w - log_w.max() + (", "log_w.logsumexp(0) → log_w.exp().sum().log()"): (
            "the largest was subtracted before the spikes of this bin were counted. A silent bin alone can take 1000 "
            "from every story: subtract after it."
        ),
        _with_a_small_number: (
            "a small number below the line hides 0 / 0 and leaves weights of 0. What may be subtracted from all of the "
            "logarithms before `exp`?"
        ),
        "log_w.exp() @ v → v.mean(0)": "this is the plain mean of all stories. Each should count by its weight.",
        "log_w.exp() @ v → v[log_w.argmax()]": (
            "this is the velocity of the likeliest story. The mean of all, by their weights, is wanted."
        ),
        "log_w.exp() @ v → log_w @ v": "the velocities are weighted by logarithms. They should be by the weights.",
        _by_old_weights: "the velocity is weighted as before the bin. Its spikes should count already.",
        "return log_w, → return log_w.exp(),": "these are the weights. Their logarithms are wanted.",
    },
    results=("the logarithms", "the velocity"),
)
def weigh(log_w, rates, counts, bin_s, v):
    """(13.7): log weights (N,) after a bin, and the decoded velocity (2,), of stories with log weights `log_w` (N,),
    rates (N, U) in Hz and velocities v (N, 2), from the counts (U,) of a bin of `bin_s` seconds."""
    log_w = log_w + (counts * rates.log() - rates * bin_s).sum(1)  # (N,)
    log_w = log_w - log_w.logsumexp(0)
    return log_w, log_w.exp() @ v
