"""Exercises of chapter 17: a file, correlograms, smoothing, the number to report, the foreign share of a unit."""

import tempfile
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from possm_course.checks import Case, exercise


def _on_arrays(make):
    """The student gets NumPy arrays, as in a recording; they share the tensors' memory: a change in place is seen."""

    def observe(function, *args):
        return function(*(x.numpy() if isinstance(x, Tensor) else x for x in args))

    return Case(make, observe)


def _seconds(*times_ms):
    """Times in s of times in ms."""
    return torch.tensor(times_ms, dtype=torch.float64) / 1000


# Exercise 17.1: the units of a file
def _file(*trains_ms):
    """Of one train per unit; the file is written anew for every answer."""

    def observe(function, times, stops):
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            path = Path(folder) / "session.npz"
            np.savez(path, spike_times=times.numpy(), spike_times_index=stops.numpy().astype(np.uint16))
            return function(path)

    times_ms = [time for train in trains_ms for time in train]
    stops = np.cumsum([len(train) for train in trains_ms])
    return Case(lambda: (_seconds(*times_ms), torch.from_numpy(stops)), observe)


@exercise(
    cases={
        "one unit": _file((100, 400, 900)),
        "two units, one after the other": _file((100, 200), (400, 900, 950)),
        "three units whose spikes come between each other": _file((100, 500, 900), (200, 600), (50, 550, 990)),
        "silent units, the first and the last among them": _file((), (300, 700), (), (100, 500, 600), ()),
    },
    mistakes={
        "times[order], units[order] → times, units": "one unit comes after the other. Sort by time, units with times.",
        "times[order], units[order] → np.sort(times), units": "the units stayed where they were: sort both.",
        '"right" → "left"': "the spike at place `stop` belongs to the next unit, as in a slice of Python.",
        '"right") → "right") - 1': "`spike_times_index` says where a unit *ends*, not where it begins.",
        "return times[order], units[order] → return times[order], units[order] + 1": "units count from 0 here.",
        (
            "return times[order], units[order] → return units[order], times[order]"
        ): "the results have changed places: times first.",
    },
    results=("times", "units"),
)
def read_units(path):
    """Spikes of a file with the two columns of NWB: times (N,) in s, sorted, and the unit of each (N,), from 0."""
    with np.load(path) as file:
        times, stops = file["spike_times"], file["spike_times_index"]
    units = np.searchsorted(stops, np.arange(len(times)), "right")  # (N,): how many units have ended before
    order = np.argsort(times, kind="stable")
    return times[order], units[order]


# Exercise 17.2: how many pairs of spikes at which distance
def _pairs(a, b, *edges_ms):
    """A case of two trains and the edges of the bins, all in ms."""

    def observe(function, *args):
        return torch.as_tensor(function(*(x.numpy() for x in args))).double()  # counts may be whole or not

    return Case(lambda: (_seconds(*a), _seconds(*b), _seconds(*edges_ms)), observe)


def _each_next(a, b, edges):
    """A mistake: the distance from each spike to the next one alone."""
    after = np.searchsorted(b, a)
    has_next = after < len(b)
    distances = b[after[has_next]] - a[has_next]
    return np.histogram(distances, edges)[0]


@exercise(
    cases={
        "a spike of b just after each of a": _pairs((0, 100, 300), (3, 102, 304), -6, 0, 6),
        "three spikes of b in one bin": _pairs((0, 500), (11, 12, 13, 512), 0, 10, 20, 30),
        "a distance that is exactly an edge": _pairs((0, 1000, 4000), (250, 1500, 4125), 0, 125, 250, 500, 750),
        "a unit with itself, where each spike meets itself once": _pairs((0, 3, 7), (0, 3, 7), -5, -2, 2, 5),
        "distances that are exactly the first edge and the last": _pairs((0,), (0, 250, 500), 0, 250, 500),
    },
    mistakes={
        "np.searchsorted(b, a + edge) → np.searchsorted(a, b + edge)": (
            "the wrong way round: a spike of b that comes *after* one of a has a positive distance."
        ),
        _each_next: "you count the *next* spike of b only. Count all pairs.",
        "a + edge) → a + edge, 'right')": "a bin has its left edge and not its right one: (17.4) has ≤, then <.",
        "np.diff(pairs_before) → np.array(pairs_before[1:])": "these are all pairs below an edge. A bin has two edges.",
        "return np.diff(pairs_before) → return np.histogram((b[None, :] - a[:, None]).ravel(), edges)[0]": (
            "the last bin of `np.histogram` is closed: a distance that is exactly the last edge is counted. "
            "(17.4) leaves it "
            "out. (And the table of all pairs does not fit into memory with a real unit.)"
        ),
        "return np.diff(pairs_before) → return np.histogram((a[None, :] - b[:, None]).ravel(), edges)[0]": (
            "the wrong way round: a spike of b that comes *after* one of a has a positive distance."
        ),
        "return np.diff(pairs_before) → d = (b[None, :] - a[:, None]).ravel(); "
        "return np.histogram(d[np.abs(d) > 1e-9], edges)[0]": (
            "pairs at distance 0 are left out. (17.4) counts them, also of a unit with itself."
        ),
        (
            "return np.diff(pairs_before) → return np.diff(pairs_before) / len(a)"
        ): "divided by the number of spikes. Pairs are wanted.",
        "return np.diff(pairs_before) → return np.diff(pairs_before) / np.diff(edges)": (
            "divided by the widths of the bins. Pairs are wanted."
        ),
    },
)
def correlogram(a, b, edges):
    """Formula (17.4), (K,): pairs of each bin of distances. a (N,) and b (M,) in s, sorted; edges (K + 1,) in s."""
    pairs_before = [np.searchsorted(b, a + edge).sum() for edge in edges]  # pairs with t_b - t_a below the edge
    return np.diff(pairs_before)


# Exercise 17.3: a mean over the last n rows
def _trace(n_rows, n):
    """A case of a trace (n_rows, 2), and n."""
    x = torch.randn(n_rows, 2, generator=torch.Generator().manual_seed(16), dtype=torch.float64)
    return _on_arrays(lambda: (x.clone(), n))


def _jump():
    """Six rows of rest, six of one velocity, and n = 3."""
    rest = torch.zeros(6, 2)
    motion = torch.tensor([[1.0, -2.0]]).repeat(6, 1)
    return torch.cat([rest, motion]).double(), 3


_THERE_AND_BACK = "the mean runs forwards and then backwards, as `filtfilt` does: the second pass reads the future."


def _there_and_back(x, n):
    """A mistake: forwards and backwards."""
    forwards = causal_mean.reference(x, n)
    return causal_mean.reference(forwards[::-1], n)[::-1]


def _zero_phase(padlen):
    """A mistake: SciPy's filter that runs forwards and backwards, with or without an extension at both ends."""

    def smoothed(x, n):
        from scipy.signal import filtfilt  # slow to import

        return filtfilt(np.ones(n) / n, [1.0], x, axis=0, padlen=padlen)

    return smoothed


def _centred(x, n):
    """A mistake: SciPy's moving mean, which stands around t."""
    from scipy.ndimage import uniform_filter1d  # slow to import

    return uniform_filter1d(x, n, axis=0)


def _nan_at_the_start(x, n):
    """A mistake: no mean before there are n rows."""
    means = causal_mean.reference(x, n).copy()
    means[: n - 1] = np.nan
    return means


def _of_one_column(x, n):
    """A mistake: one mean for x and y."""
    return causal_mean.reference(x, n).mean(1, keepdims=True).repeat(2, 1)


def _exponential(x, n):
    """A mistake: a mean that forgets."""
    means = [x[0]]
    for row in x[1:]:
        means.append(means[-1] + (row - means[-1]) * 2 / (n + 1))
    return np.stack(means)


@exercise(
    cases={
        "a hand that rests and then moves at once": _on_arrays(_jump),
        "ten rows and a mean of three": _trace(10, 3),
        "a mean of more rows than there are": _trace(4, 6),
    },
    mistakes={
        lambda x, n: np.stack([np.convolve(v, np.ones(n) / n, mode="same") for v in x.T], 1): (
            "your answer moves before the hand does: as with the friend, half of the rows are in the future. "
            "`mode='same'` puts the middle of the kernel at t. (And at the start it takes missing rows for 0.)"
        ),
        "max(t - n + 1, 0) : t + 1 → t : t + n": "the mean begins at each row and goes on into the future.",
        ".mean(0) → .sum(0) / n": "at the start you divide by n where there are fewer rows: too small there.",
        "t - n + 1 → t - n": "one row too many: the last n rows are t - n + 1 to t.",
        lambda x, n: np.stack([x[max(t - n // 2, 0) : t + (n + 1) // 2].mean(0) for t in range(len(x))]): (
            "the mean is centred: half of the rows are in the future. It should end at t."
        ),
        lambda x, n: np.stack([x[max(t - n // 2, 0) : t + n // 2 + 1].mean(0) for t in range(len(x))]): (
            "the mean is centred: half of the rows are in the future. It should end at t."
        ),
        lambda x, n: np.stack([x[max(t - (n - 1) // 2, 0) : t + n // 2 + 1].mean(0) for t in range(len(x))]): (
            "the mean is centred: half of the rows are in the future. It should end at t."
        ),
        lambda x, n: np.stack([x[max(t - n, 0) : t].mean(0) if t else x[0] for t in range(len(x))]): (
            "the mean ends before t. Row t itself should be its last."
        ),
        _there_and_back: _THERE_AND_BACK,
        _zero_phase(0): _THERE_AND_BACK,
        _zero_phase(None): _THERE_AND_BACK,
        _centred: "the mean is centred: half of the rows are in the future. It should end at t.",
        _nan_at_the_start: (
            "the first rows are NaN, as pandas' `rolling` makes them. They should be means of what there is."
        ),
        "return np.stack([x[max(t - n + 1, 0) : t + 1].mean(0) for t in range(len(x))]) → "
        "return np.stack([x[t - n + 1 : t + 1].mean(0) for t in range(n - 1, len(x))])": (
            "the first rows are left out. They should be means of what there is."
        ),
        _of_one_column: "x and y are averaged together. Each column should have its own mean.",
        _exponential: (
            "this is an exponential mean, which never forgets. The last n rows should weigh alike, and no others."
        ),
    },
)
def causal_mean(x, n):
    """The mean of the last n rows of x (T, 2), or of as many as there are: (T, 2)."""
    return np.stack([x[max(t - n + 1, 0) : t + 1].mean(0) for t in range(len(x))])


# Exercise 17.4: which number to report
def _scores(valid, test):
    """A case of R² of settings and seeds, on validation and test."""
    return _on_arrays(lambda: (torch.tensor(valid, dtype=torch.float64), torch.tensor(test, dtype=torch.float64)))


@exercise(
    cases={
        "one setting that is better everywhere": _scores([[0.5, 0.6], [0.7, 0.8]], [[0.4, 0.5], [0.6, 0.8]]),
        "settings of which validation prefers one by a hair, and the test the other by far": _scores(
            [[0.69, 0.7, 0.71], [0.7, 0.71, 0.72]], [[0.8, 0.9, 0.88], [0.3, 0.5, 0.43]]
        ),
        "a setting with one lucky seed, a steady one, and one with one bad seed": _scores(
            [[0.9, 0.3, 0.3], [0.6, 0.7, 0.65], [0.1, 0.8, 0.8]], [[0.8, 0.2, 0.3], [0.6, 0.66, 0.7], [0.2, 0.7, 0.9]]
        ),
        "a setting with the best mean and one bad seed": _scores(
            [[0.8, 0.82, 0.5, 0.84], [0.7, 0.71, 0.69, 0.7], [0.68, 0.745, 0.75, 0.745]],
            [[0.78, 0.8, 0.46, 0.81], [0.69, 0.68, 0.7, 0.71], [0.67, 0.73, 0.74, 0.75]],
        ),
    },
    mistakes={
        "valid.mean(1) → test.mean(1)": "the setting was chosen by its R² on the test part, which is used up then.",
        "valid.mean(1) → valid.max(1)": "the setting was chosen by its luckiest seed. Take the mean over its seeds.",
        "valid.mean(1) → (valid + test).mean(1)": "the test part helped to choose. Validation chooses alone.",
        "test[ → valid[": "that is the R² of the validation part, which chose the setting.",
        "chosen.mean() → chosen.max()": "that is the best seed. A seed means nothing, so report the mean of all.",
        "ddof=1 → ": "the mean is right, the standard deviation too small: divide by S - 1.",
        "return chosen.mean(), chosen.std(ddof=1) → return chosen.mean(), chosen.std(ddof=1) / np.sqrt(len(chosen))": (
            "this is the standard error. The standard deviation over seeds is wanted."
        ),
        "valid.mean(1) → np.median(valid, 1)": "chosen by the median over seeds. Take the mean.",
        "valid.mean(1) → (valid.mean(1) - valid.std(1))": "chosen by mean less spread. The mean alone should choose.",
        (
            "chosen = test[valid.mean(1).argmax()] → chosen = test.mean(1)"
        ): "all settings are averaged. Validation chooses one.",
    },
)
def honest_r2(valid, test):
    """Mean and standard deviation over seeds of the R² to report. valid, test (C, S): settings, seeds."""
    chosen = test[valid.mean(1).argmax()]  # (S,)
    return chosen.mean(), chosen.std(ddof=1)


# Exercise 17.5: a share of foreign spikes that knows how the rate varies
def _one_unit(*times_ms, windows=(0.002, 0.02, 0.1)):
    """A case of one train, in ms, and three times in s: refractory period, begin and end of the long window."""
    return _on_arrays(lambda: (_seconds(*times_ms), *windows))


_REGULAR = range(25, 2400, 22)


@exercise(
    cases={
        "a unit without short intervals": _one_unit(0, 30, 65, 140, 190),
        "a unit with one pair that is too close": _one_unit(0, 1, 30, 70, 96, 150, 185, 210, 260, 300),
        "three spikes within the refractory period, which are three pairs": _one_unit(0, 0.5, 1.25, *_REGULAR),
        "pairs exactly at the ends of the windows": _one_unit(
            0, 250, 500, 1000, 2000, 4000, 5000, 5500, 9000, 9125, 9500, windows=(0.25, 0.5, 1.0)
        ),
        "two spikes at one time": _one_unit(0, 0, *_REGULAR),
        "more short intervals than the equation has a solution for": _one_unit(0, 1, 40, 41, 80, 81),
        "two spikes far apart, from which nothing can be known": _one_unit(0, 500),
        "two spikes close together, and no pair in the long window": _one_unit(0, 1),
    },
    mistakes={
        (
            "np.searchsorted(spike_times, spike_times + s) → (np.diff(spike_times) < s)",
            "short - np.arange(1, len(spike_times) + 1).sum() → short",
        ): "you count intervals between neighbours. Count pairs.",
        "(n_short / refractory_s) / (n_long / (far_s - near_s)) → n_short / n_long": "the windows differ in width.",
        "(1, len(spike_times) + 1) → (len(spike_times))": "each spike is counted as a pair with itself.",
        "np.arange(1, len(spike_times) + 1) → (np.searchsorted(spike_times, spike_times) + 1)": (
            "two spikes at the same time are one pair, with i < j. You count it from each of the two."
        ),
        "(far_s - near_s) → far_s": "the long window is far_s - near_s wide, not far_s.",
        "(1 - np.sqrt → (1 + np.sqrt": "that is the other solution: f is the *smaller* share, at most a half.",
        "(n_short / refractory_s) / (n_long / (far_s - near_s)) → n_short / len(spike_times)": (
            "divided by the number of spikes. (17.9) compares two rates of pairs."
        ),
        "np.sqrt(1 - 2 * ratio) → np.sqrt(1 - ratio)": "the factor 2 under the root is missing.",
        "np.sqrt(1 - 2 * ratio) → np.sqrt(1 - 4 * ratio)": "the factor under the root is 2, not 4.",
        "return (1 - np.sqrt(1 - 2 * ratio)) / 2 if ratio < 0.5 else 0.5 → return ratio": (
            "this is the ratio of the two rates. The share f solves the equation (17.9)."
        ),
        "return (1 - np.sqrt(1 - 2 * ratio)) / 2 → return ratio / 2": (
            "this is f for small shares only. Solve the equation (17.9)."
        ),
        "n_long = far - near → n_long = far": "the long window begins at `near`: subtract the pairs before it.",
    },
)
def contamination(spike_times, refractory_s, near_s, far_s):
    """Share f of foreign spikes of one unit by (17.9). spike_times (N,) in s, sorted; three numbers in s."""
    short, near, far = (np.searchsorted(spike_times, spike_times + s).sum() for s in (refractory_s, near_s, far_s))
    n_short = short - np.arange(1, len(spike_times) + 1).sum()  # without the spike itself and those before it
    n_long = far - near
    if n_long == 0:
        return np.nan
    ratio = (n_short / refractory_s) / (n_long / (far_s - near_s))
    return (1 - np.sqrt(1 - 2 * ratio)) / 2 if ratio < 0.5 else 0.5
