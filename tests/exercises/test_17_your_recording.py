"""Chapter 17: right and wrong answers in other styles than the references and the traps."""

import warnings
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


def violations_of_neighbours(spike_times, spike_units, n_units, refractory_s):
    short = np.bincount(spike_units[1:], np.diff(spike_times) < refractory_s, minlength=n_units)
    with np.errstate(all="ignore"):
        return short / (np.bincount(spike_units, minlength=n_units) - 1)


def violations_of_all_pairs(spike_times, spike_units, n_units, refractory_s):
    close, n = np.zeros(n_units), np.bincount(spike_units, minlength=n_units)
    for i, t in enumerate(spike_times):
        for j in range(i + 1, len(spike_times)):
            close[spike_units[i]] += spike_units[i] == spike_units[j] and spike_times[j] - t < refractory_s
    with np.errstate(all="ignore"):
        return np.where(n > 1, close / (n - 1), np.nan)


def mean_by_sums(x, n):
    total = np.concatenate([np.zeros((1, 2)), x.cumsum(0)])
    stop = np.arange(1, len(x) + 1)
    start = np.maximum(stop - n, 0)
    return (total[stop] - total[start]) / (stop - start)[:, None]


def violations_by_mean(times, units, n_units, refractory_s, whose):
    short = np.diff(times) < refractory_s
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about the mean of nothing
        return np.array([short[units[whose] == u].mean() for u in range(n_units)])


def mean_by_convolving(x, n):
    return np.stack([np.convolve(v, np.ones(n) / n)[: len(x)] for v in x.T], 1)


def mean_with_mode_same(x, n):
    return np.stack([np.convolve(v, np.ones(n) / n, mode="same") for v in x.T], 1)


def mean_of_float32(x, n):
    return np.stack([x[max(t - n + 1, 0) : t + 1].mean(0) for t in range(len(x))]).astype(np.float32)


def by_rule(rule):
    def report(valid, test):
        chosen = test[max(range(len(valid)), key=lambda c: rule(valid[c]))]
        return chosen.mean(), chosen.std(ddof=1)

    return report


def foreign_in_a_loop(spike_times, refractory_s, near_s, far_s):
    n_short = n_long = 0
    for i, t in enumerate(spike_times):
        distance = spike_times[i + 1 : i + 200] - t
        n_short += int((distance < refractory_s).sum())
        n_long += int(((distance >= near_s) & (distance < far_s)).sum())
    if not n_long:
        return float("nan")
    half_ratio = n_short * (far_s - near_s) / (n_long * refractory_s) / 2
    return 0.5 if half_ratio > 0.25 else float(np.roots([1, -1, half_ratio]).real.min())


def foreign_by_differences(spike_times, refractory_s, near_s, far_s):
    """Distances between a spike and the one `step` later, until all are too far."""
    n_short = n_long = 0
    for step in range(1, len(spike_times)):
        distance = spike_times[step:] - spike_times[:-step]
        if distance.min() >= far_s:
            break
        n_short, n_long = (
            n_short + np.sum(distance < refractory_s),
            n_long + np.sum((near_s <= distance) & (distance < far_s)),
        )
    with np.errstate(all="ignore"):
        ratio = np.float64(n_short) / refractory_s / (n_long / (far_s - near_s))
        return np.where(ratio > 0.5, 0.5, 0.5 - np.sqrt(0.25 - ratio / 2)) if n_long else np.nan


def report_in_numpy(valid, test):
    chosen = test[valid.mean(1).argmax()]
    return np.array([np.mean(chosen), np.std(chosen, ddof=1)])


def test_chance_coincidences_of_random_spikes():
    rng = np.random.default_rng(0)
    trains = [[np.sort(rng.uniform(0, 600, rng.poisson(rate * 600))) for rate in (20, 5)] for _ in range(20)]
    counts = [(np.searchsorted(b, a + 0.001) - np.searchsorted(b, a - 0.001)).sum() for a, b in trains]
    assert abs(np.mean(counts) - check.chance_coincidences.expected) < 4 * np.sqrt(120 / 20)


def violations_of_a_sort(spike_times, spike_units, n_units, refractory_s, kind=None):
    order = np.argsort(spike_units, kind=kind)
    interval, unit = np.diff(spike_times[order]), spike_units[order]
    own = unit[1:] == unit[:-1]
    n = np.bincount(unit[1:][own], minlength=n_units)
    n_short = np.bincount(unit[1:][own & (interval < refractory_s)], minlength=n_units)
    return np.where(n > 0, n_short / np.maximum(n, 1), np.nan)


def foreign_by_search(t, refractory_s, near_s, far_s, side="left", itself=None):
    """`side`: of the ends of the windows; `itself`: "right" leaves out spikes at the very time of the spike."""
    after = np.arange(1, len(t) + 1) if itself is None else np.searchsorted(t, t, itself)
    n_short = (np.searchsorted(t, t + refractory_s, side) - after).sum()
    n_long = (np.searchsorted(t, t + far_s, side) - np.searchsorted(t, t + near_s, side)).sum()
    if not n_long:
        return np.nan
    ratio = n_short / refractory_s / (n_long / (far_s - near_s))
    return (1 - np.sqrt(1 - 2 * ratio)) / 2 if ratio < 0.5 else 0.5


@pytest.mark.parametrize(
    ("name", "answer", "words"),
    [
        ("chance_coincidences", 0, "still meet by chance"),
        ("isi_violations", violations_in_a_loop, "✓"),
        ("isi_violations", violations_of_a_sort, 'kind="stable"'),
        ("isi_violations", partial(violations_of_a_sort, kind="stable"), "✓"),
        ("isi_violations", violations_in_torch, "✓"),
        ("isi_violations", violations_of_neighbours, "in the whole list"),
        ("isi_violations", partial(violations_by_mean, whose=np.s_[1:]), "unit of the later spike"),
        ("isi_violations", partial(violations_by_mean, whose=np.s_[:-1]), "unit of the earlier spike"),
        ("isi_violations", lambda t, u, n, r: violations_in_torch(t, u, u.max() + 1, r), "silent ones included"),
        ("isi_violations", lambda t, u, n, r: violations_in_torch(t, u, n, r)[np.unique(u)], "silent ones included"),
        ("isi_violations", lambda *args: 1 - violations_in_torch(*args), "on two units"),
        ("isi_violations", lambda *args: violations_in_torch(*args).mean(), "the shape is ()"),
        ("isi_violations", lambda t, *rest: violations_in_torch(-np.negative(t, out=t), *rest), "changed in place"),
        ("isi_violations", violations_of_all_pairs, "every pair of spikes"),
        ("isi_violations", lambda t, *rest: violations_in_a_loop(t.astype(np.float32), *rest), "are in float32"),
        ("chance_coincidences", "few", "expected a number"),
        ("chance_coincidences", 20 * 5 * 0.002 * 10, "in minutes"),
        ("chance_coincidences", 12_000 * 3_000 * 0.002, "length of the recording missing"),
        ("causal_mean", mean_by_sums, "✓"),
        ("causal_mean", lambda x, n: mean_by_convolving(x, n) / mean_by_convolving(np.ones_like(x), n), "✓"),
        ("causal_mean", mean_with_mode_same, "`mode='same'` puts"),
        ("causal_mean", mean_by_convolving, "divide by n"),
        ("causal_mean", lambda x, n: mean_by_sums(x[::-1], n)[::-1], "goes on into the future"),
        ("causal_mean", lambda x, n: mean_by_convolving(x.reshape(-1, 1), n).reshape(x.shape), "on a hand that rests"),
        ("causal_mean", lambda x, n: mean_by_sums(x, n)[n - 1 :], "the shape is"),
        ("causal_mean", mean_of_float32, "✓"),
        ("causal_mean", lambda x, n: mean_by_sums(x.astype(np.float32), n), "in float32 forgets"),
        ("honest_r2", report_in_numpy, "✓"),
        ("honest_r2", by_rule(np.mean), "✓"),
        ("honest_r2", by_rule(np.median), "*median*"),
        ("honest_r2", by_rule(np.min), "*worst* seed"),
        ("honest_r2", by_rule(lambda v: v.mean() - v.std(ddof=1)), "minus standard deviation"),
        ("contamination", foreign_in_a_loop, "✓"),
        ("contamination", partial(foreign_by_search, side="right"), "at the ends of the windows"),
        ("contamination", partial(foreign_by_search, itself="right"), "two spikes at one time"),
        ("contamination", foreign_by_differences, "✓"),
        ("contamination", lambda *args: 1 - foreign_by_differences(*args), "*smaller* share"),
        ("contamination", lambda t, *rest: foreign_by_differences(t.astype(np.float32), *rest), "2.1 ms apart"),
        ("contamination", lambda t, tau, a, b: foreign_by_differences(t, tau, tau, b), "on "),
        ("honest_r2", lambda valid, test: report_in_numpy(test, test), "on the test part"),
        ("honest_r2", lambda valid, test: report_in_numpy(valid.max(1, keepdims=True), test), "luckiest seed"),
        ("honest_r2", lambda valid, test: report_in_numpy(valid, test)[0], "two results"),
    ],
)
def test_answer_in_another_style(name, answer, words):
    assert_verdict(getattr(check, name), answer, words)
