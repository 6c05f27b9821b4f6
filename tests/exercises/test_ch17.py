"""Chapter 17: right answers in other styles."""

import numpy as np

from .helpers import answers, load

check = load("ch17")


def read_in_a_loop(path):
    file, spikes, begin = np.load(path), [], 0
    for unit, stop in enumerate(file["spike_times_index"].tolist()):
        spikes += [(t, unit) for t in file["spike_times"][begin:stop].tolist()]
        begin = stop
    return tuple(np.array(column) for column in zip(*sorted(spikes), strict=True))


def all_pairs(a, b, edges):
    bin_of = np.searchsorted(edges, b[None] - a[:, None], side="right") - 1  # of each pair
    return [(bin_of == k).sum() for k in range(len(edges) - 1)]


def report_of_best(scores, test):
    chosen = test[max(range(len(test)), key=lambda c: scores[c].mean())]
    return np.array([chosen.mean(), chosen.std(ddof=1)])


def foreign_of_all_pairs(spike_times, refractory_s, near_s, far_s):
    distance = (spike_times - spike_times[:, None])[np.triu_indices(len(spike_times), 1)]
    n_short, n_long = (distance < refractory_s).sum(), ((distance >= near_s) & (distance < far_s)).sum()
    half_ratio = n_short * (far_s - near_s) / (n_long * refractory_s) / 2 if n_long else np.nan
    return np.nan if not n_long else 0.5 if half_ratio > 0.25 else np.roots([1, -1, half_ratio]).real.min()


def foreign_by_subtracting_n(spike_times, refractory_s, near_s, far_s):
    """A wrong answer: pairs from a distance of 0 on, less N, which has spikes at one time twice."""
    before = [np.searchsorted(spike_times, spike_times + s).sum() for s in (0, refractory_s, near_s, far_s)]
    n_short, n_long = before[1] - before[0] - len(spike_times), before[3] - before[2]
    ratio = n_short / refractory_s / (n_long / (far_s - near_s)) if n_long else np.nan
    return np.nan if not n_long else 0.5 if ratio > 0.5 else (1 - np.sqrt(1 - 2 * ratio)) / 2


def counts_of_a_table(a, b, edges):
    return np.histogram((b[None] - a[:, None]).ravel(), edges)[0]


test_answers = answers(
    check,
    ("read_units", read_in_a_loop),
    ("correlogram", all_pairs),
    ("honest_r2", report_of_best),
    ("honest_r2", lambda valid, test: report_of_best(valid + 0.3 * test, test), "test part"),
    ("contamination", foreign_of_all_pairs),
    ("contamination", foreign_by_subtracting_n, "two spikes at the same time are one pair"),
    ("correlogram", counts_of_a_table, "the last bin of `np.histogram` is closed"),
)
