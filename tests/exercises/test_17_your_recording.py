"""Chapter 17: right answers in other styles."""

from functools import partial

import numpy as np

from .helpers import answers, load

check = load("17_your_recording")


def violations_in_a_loop(spike_times, spike_units, n_units, refractory_s):
    last, short, n = {}, [0] * n_units, [0] * n_units
    for t, u in zip(spike_times.tolist(), spike_units.tolist(), strict=True):
        if u in last:
            n[u] += 1
            short[u] += t - last[u] < refractory_s
        last[u] = t
    return [s / k if k else float("nan") for s, k in zip(short, n, strict=True)]


def mean_by_sums(x, n):
    total = np.concatenate([np.zeros((1, 2)), x.cumsum(0)])
    stop = np.arange(1, len(x) + 1)
    start = np.maximum(stop - n, 0)
    return (total[stop] - total[start]) / (stop - start)[:, None]


def report_by(rule, valid, test):
    chosen = test[max(range(len(valid)), key=lambda c: rule(valid[c]))]
    return np.array([chosen.mean(), chosen.std(ddof=1)])


def foreign_in_a_loop(spike_times, refractory_s, near_s, far_s):
    n_short = n_long = 0
    for i, t in enumerate(spike_times):
        distance = spike_times[i + 1 :] - t
        n_short += int((distance < refractory_s).sum())
        n_long += int(((distance >= near_s) & (distance < far_s)).sum())
    if not n_long:
        return float("nan")
    half_ratio = n_short * (far_s - near_s) / (n_long * refractory_s) / 2
    return 0.5 if half_ratio > 0.25 else float(np.roots([1, -1, half_ratio]).real.min())


test_answers = answers(
    check,
    [
        ("isi_violations", violations_in_a_loop),
        ("causal_mean", mean_by_sums),
        ("honest_r2", partial(report_by, np.mean)),
        ("contamination", foreign_in_a_loop),
    ],
)
