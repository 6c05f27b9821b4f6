"""The checks of chapter 16 tell right answers, written in other ways, from planted mistakes, and name the mistake."""

import numpy as np
import pytest
import torch

from .helpers import assert_wrong, load

check = load("16_your_recording")

# 16.1


def by_counting(spike_times, spike_units, n_units, refractory_s):
    last, short, n = {}, [0] * n_units, [0] * n_units
    for t, u in zip(spike_times.tolist(), spike_units.tolist(), strict=True):
        if u in last:
            n[u] += 1
            short[u] += t - last[u] < refractory_s
        last[u] = t
    return np.array([s / k if k else float("nan") for s, k in zip(short, n, strict=True)])


def by_sorting(spike_times, spike_units, n_units, refractory_s):
    order = np.argsort(spike_units, kind="stable")
    t, u = spike_times[order], spike_units[order]
    same = u[1:] == u[:-1]
    short = np.bincount(u[1:][same], np.diff(t)[same] < refractory_s, minlength=n_units)
    with np.errstate(invalid="ignore"):
        return short / np.bincount(u[1:][same], minlength=n_units)  # 0 / 0 is NaN


def with_tensors(spike_times, spike_units, n_units, refractory_s):
    times, units = torch.from_numpy(spike_times), torch.from_numpy(spike_units)
    return torch.stack([(times[units == u].diff() < refractory_s).float().mean() for u in range(n_units)])


def as_list(*args):
    return by_counting(*args).tolist()


@pytest.mark.parametrize("answer", [by_counting, by_sorting, with_tensors, as_list])
def test_right_shares(answer):
    assert check.isi_violations.examine(answer).message == "✓ isi_violations"


def sorts_in_place(spike_times, *args):
    share = by_counting(spike_times, *args)
    spike_times[:] = spike_times[::-1].copy()
    return share


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (lambda t, u, n, r: (by_counting(t, u, n, r) * (np.bincount(u, minlength=n) - 1)).round(), "these are counts"),
        (lambda t, u, n, r: np.nan_to_num(by_counting(t, u, n, r)), "NaN, not 0"),
        (lambda t, u, n, r: by_counting(t, u, n, r * (1 + 1e-12)), "<, not <="),
        (lambda t, u, n, r: by_counting(t * 1000, u, n, r), "milliseconds compared with seconds"),
        (lambda t, u, n, r: by_counting(t, u, int(u.max()) + 1, r), "silent ones included"),
        (lambda t, u, n, r: by_counting(t, u, n, r)[np.unique(u)], "silent ones included"),
        (lambda t, u, n, r: 100 * by_counting(t, u, n, r), "in percent"),
        (lambda t, u, n, r: 1 - by_counting(t, u, n, r), "on two units"),
        (lambda t, u, n, r: by_counting(t, u, n, r).mean(), "the shape is ()"),
        (sorts_in_place, "the first argument was changed in place"),
    ],
)
def test_bugs_of_the_shares(answer, words):
    assert_wrong(check.isi_violations, answer, words)


def test_intervals_of_the_whole_list_and_a_wrong_number():
    def neighbours(t, u, n, r):
        short = np.bincount(u[1:], np.diff(t) < r, minlength=n)
        return short / (np.bincount(u, minlength=n) - 1)

    def to_spikes_of_the_unit(t, u, n, r):
        ends = [(np.diff(t) < r)[u[1:] == k] for k in range(n)]
        return [x.mean() if (u == k).sum() > 1 else np.nan for k, x in enumerate(ends)]

    def by_spikes(t, u, n, r):
        n_spikes = np.bincount(u, minlength=n)
        return by_counting(t, u, n, r) * (n_spikes - 1) / n_spikes

    with np.errstate(all="ignore"):
        assert_wrong(check.isi_violations, neighbours, "Pick out the spikes of one unit first")
        assert_wrong(check.isi_violations, to_spikes_of_the_unit, "most begin at a spike of another")
        assert_wrong(check.isi_violations, by_spikes, "N - 1 intervals")


# 16.2


def test_prediction():
    rng = np.random.default_rng(0)
    counts = []
    for _ in range(20):
        a, b = (np.sort(rng.uniform(0, 600, rng.poisson(rate * 600))) for rate in (20, 5))
        counts.append((np.searchsorted(b, a + 0.001) - np.searchsorted(b, a - 0.001)).sum())
    assert abs(np.mean(counts) - check.chance_coincidences.expected) < 4 * np.sqrt(120 / 20)
    assert check.chance_coincidences.examine(120).status == "right"
    for wrong, words in ((60, "both sides"), (0.04, "all of the ten minutes"), (120_000, "0.002 s"), (240, "once")):
        assert_wrong(check.chance_coincidences, wrong, words)
    assert_wrong(check.chance_coincidences, "few", "a number is wanted")


# 16.3


def by_sums(x, n):
    total = np.concatenate([np.zeros((1, 2)), x.cumsum(0)])
    stop = np.arange(1, len(x) + 1)
    start = np.maximum(stop - n, 0)
    return (total[stop] - total[start]) / (stop - start)[:, None]


def by_convolving(x, n):
    kernel = np.ones(n)
    there = np.convolve(np.ones(len(x)), kernel)[: len(x)]
    return np.stack([np.convolve(v, kernel)[: len(x)] / there for v in x.T], 1)


@pytest.mark.parametrize("answer", [by_sums, by_convolving])
def test_right_means(answer):
    assert check.causal_mean.examine(answer).message == "✓ causal_mean"


def friend(x, n):
    return np.stack([np.convolve(v, np.ones(n) / n, mode="same") for v in x.T], 1)


def zeros_before(x, n):
    return np.stack([np.convolve(v, np.ones(n) / n)[: len(x)] for v in x.T], 1)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (friend, "as with the friend"),
        (lambda x, n: by_sums(x[::-1], n)[::-1], "goes on into the future"),
        (zeros_before, "divide by n"),
        (lambda x, n: by_sums(x, n + 1), "one row too many"),
        (lambda x, n: by_sums(x, len(x)), "over all rows so far"),
        (lambda x, n: np.convolve(x.ravel(), np.ones(n) / n)[: x.size].reshape(x.shape), "x and y are mixed"),
        (lambda x, n: x, "on a hand that rests"),
        (lambda x, n: by_sums(x, n)[n - 1 :], "the shape is"),
    ],
)
def test_bugs_of_the_mean(answer, words):
    assert_wrong(check.causal_mean, answer, words)


# 16.4


def with_numpy(valid, test):
    chosen = test[valid.mean(1).argmax()]
    return np.mean(chosen), np.std(chosen, ddof=1)


def in_a_loop(valid, test):
    best = max(range(len(valid)), key=lambda c: sum(valid[c].tolist()))
    seeds = test[best].tolist()
    mean = sum(seeds) / len(seeds)
    spread = (sum((x - mean) ** 2 for x in seeds) / (len(seeds) - 1)) ** 0.5
    return mean, spread


@pytest.mark.parametrize("answer", [with_numpy, in_a_loop, lambda v, t: np.array(with_numpy(v, t))])
def test_right_reports(answer):
    assert check.honest_r2.examine(answer).message == "✓ honest_r2"


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (lambda v, t: in_a_loop(t, t), "chosen by its R² on the test part"),
        (lambda v, t: in_a_loop(v, v), "the R² of the validation part"),
        (lambda v, t: (t[v.mean(1).argmax()].max(), in_a_loop(v, t)[1]), "the best seed"),
        (lambda v, t: in_a_loop(v.max(1, keepdims=True), t), "luckiest seed"),
        (lambda v, t: (with_numpy(v, t)[0], t[v.mean(1).argmax()].std()), "it divides by S"),
        (lambda v, t: (with_numpy(v, t)[0], with_numpy(v, t)[1] / t.shape[1] ** 0.5), "the error of the mean"),
        (lambda v, t: (t.mean(), t.std(ddof=1)), "over all settings"),
        (lambda v, t: with_numpy(v, t)[0], "2 values are wanted"),
    ],
)
def test_bugs_of_the_report(answer, words):
    assert_wrong(check.honest_r2, answer, words)
