"""Chapter 17: right answers in other styles, and wrong ones that no known mistake explains."""

from functools import partial

import numpy as np
import pytest
import torch

from .helpers import assert_verdict, load

check = load("17_your_recording")


def violations_in_a_loop(spike_times, spike_units, n_units, refractory_s):
    last, short, n = {}, [0] * n_units, [0] * n_units
    for t, u in zip(spike_times.tolist(), spike_units.tolist(), strict=True):
        if u in last:
            n[u] += 1
            short[u] += t - last[u] < refractory_s
        last[u] = t
    return [s / k if k else float("nan") for s, k in zip(short, n, strict=True)]


def violations_in_torch(spike_times, spike_units, n_units, refractory_s):
    times, units = torch.from_numpy(spike_times), torch.from_numpy(spike_units)
    return torch.stack([(times[units == u].diff() < refractory_s).float().mean() for u in range(n_units)])


def mean_by_sums(x, n):
    total = np.concatenate([np.zeros((1, 2)), x.cumsum(0)])
    stop = np.arange(1, len(x) + 1)
    start = np.maximum(stop - n, 0)
    return (total[stop] - total[start]) / (stop - start)[:, None]


def mean_by_convolving(x, n):
    return np.stack([np.convolve(v, np.ones(n) / n)[: len(x)] for v in x.T], 1)


def report_by(rule, valid, test):
    chosen = test[max(range(len(valid)), key=lambda c: rule(valid[c]))]
    return np.array([chosen.mean(), chosen.std(ddof=1)])


def foreign_in_a_loop(spike_times, refractory_s, near_s, far_s, at_once=True):
    n_short = n_long = 0
    for i, t in enumerate(spike_times):
        distance = spike_times[i + 1 :] - t
        n_short += int(((distance < refractory_s) & (at_once | (distance > 0))).sum())
        n_long += int(((distance >= near_s) & (distance < far_s)).sum())
    if not n_long:
        return float("nan")
    half_ratio = n_short * (far_s - near_s) / (n_long * refractory_s) / 2
    return 0.5 if half_ratio > 0.25 else float(np.roots([1, -1, half_ratio]).real.min())


@pytest.mark.parametrize(
    ("name", "answer", "words"),
    [
        ("isi_violations", violations_in_a_loop, "✓"),
        ("isi_violations", violations_in_torch, "✓"),
        ("isi_violations", lambda t, u, n, r: violations_in_torch(t, u, n, r)[np.unique(u)], "the shape is"),
        ("isi_violations", lambda t, *rest: violations_in_torch(-np.negative(t, out=t), *rest), "changed in place"),
        ("causal_mean", mean_by_sums, "✓"),
        ("causal_mean", lambda x, n: mean_by_convolving(x, n) / mean_by_convolving(np.ones_like(x), n), "✓"),
        ("causal_mean", mean_by_convolving, "divide by n"),
        ("causal_mean", lambda x, n: mean_by_sums(x.astype(np.float32), n), "on one wild answer"),
        ("honest_r2", partial(report_by, np.mean), "✓"),
        ("honest_r2", partial(report_by, np.median), "on two settings that most seeds"),
        ("honest_r2", lambda valid, test: report_by(np.mean, valid + 0.1 * test, test), "by a hair"),
        ("contamination", foreign_in_a_loop, "✓"),
        ("contamination", partial(foreign_in_a_loop, at_once=False), "two spikes at one time"),
        ("contamination", lambda t, *rest: foreign_in_a_loop(t.astype(np.float32), *rest), "two hours"),
    ],
)
def test_answer_in_another_style(name, answer, words):
    assert_verdict(getattr(check, name), answer, words)
