"""Chapter 17: right and wrong answers in other styles than the references and the traps."""

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


def mean_by_sums(x, n):
    total = np.concatenate([np.zeros((1, 2)), x.cumsum(0)])
    stop = np.arange(1, len(x) + 1)
    start = np.maximum(stop - n, 0)
    return (total[stop] - total[start]) / (stop - start)[:, None]


def mean_by_convolving(x, n, mode="full"):
    return np.stack([np.convolve(v, np.ones(n) / n, mode=mode)[: len(x)] for v in x.T], 1)


def report_in_numpy(valid, test):
    chosen = test[valid.mean(1).argmax()]
    return np.array([np.mean(chosen), np.std(chosen, ddof=1)])


def test_chance_coincidences_of_random_spikes():
    rng = np.random.default_rng(0)
    trains = [[np.sort(rng.uniform(0, 600, rng.poisson(rate * 600))) for rate in (20, 5)] for _ in range(20)]
    counts = [(np.searchsorted(b, a + 0.001) - np.searchsorted(b, a - 0.001)).sum() for a, b in trains]
    assert abs(np.mean(counts) - check.chance_coincidences.expected) < 4 * np.sqrt(120 / 20)


@pytest.mark.parametrize(
    ("name", "answer", "words"),
    [
        ("isi_violations", violations_in_a_loop, "✓"),
        ("isi_violations", violations_in_torch, "✓"),
        ("isi_violations", violations_of_neighbours, "in the whole list"),
        ("isi_violations", lambda t, u, n, r: violations_in_torch(t, u, u.max() + 1, r), "silent ones included"),
        ("isi_violations", lambda t, u, n, r: violations_in_torch(t, u, n, r)[np.unique(u)], "silent ones included"),
        ("isi_violations", lambda *args: 1 - violations_in_torch(*args), "on two units"),
        ("isi_violations", lambda *args: violations_in_torch(*args).mean(), "the shape is ()"),
        ("isi_violations", lambda t, *rest: violations_in_torch(-np.negative(t, out=t), *rest), "changed in place"),
        ("chance_coincidences", "few", "expected a number"),
        ("causal_mean", mean_by_sums, "✓"),
        ("causal_mean", lambda x, n: mean_by_convolving(x, n) / mean_by_convolving(np.ones_like(x), n), "✓"),
        ("causal_mean", lambda x, n: mean_by_convolving(x, n, mode="same"), "as with the friend"),
        ("causal_mean", mean_by_convolving, "divide by n"),
        ("causal_mean", lambda x, n: mean_by_sums(x[::-1], n)[::-1], "goes on into the future"),
        ("causal_mean", lambda x, n: mean_by_convolving(x.reshape(-1, 1), n).reshape(x.shape), "are mixed"),
        ("causal_mean", lambda x, n: mean_by_sums(x, n)[n - 1 :], "the shape is"),
        ("honest_r2", report_in_numpy, "✓"),
        ("honest_r2", lambda valid, test: report_in_numpy(test, test), "on the test part"),
        ("honest_r2", lambda valid, test: report_in_numpy(valid.max(1, keepdims=True), test), "luckiest seed"),
        ("honest_r2", lambda valid, test: report_in_numpy(valid, test)[0], "tuple of 2"),
    ],
)
def test_answer_in_another_style(name, answer, words):
    assert_verdict(getattr(check, name), answer, words)
