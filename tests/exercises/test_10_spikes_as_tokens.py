"""The checks of chapter 10 tell right answers, written in other ways, from planted mistakes, and name the mistake."""

import math

import numpy as np
import pytest
import torch

from possm_lite.spikes import SpikeBatch

from .helpers import assert_wrong, load

check = load("10_spikes_as_tokens")

# 10.1: right answers spike by spike, and by searching the edges


def spike_by_spike(time_s, duration_s, width_s):
    bins = [math.floor(t / width_s + 1e-6) for t in time_s.tolist()]
    offsets = [max(t - b * width_s, 0.0) for t, b in zip(time_s.tolist(), bins, strict=True)]
    n_bins = math.ceil(duration_s / width_s - 1e-6)
    return torch.tensor(bins, dtype=torch.int64), torch.tensor(offsets, dtype=torch.float64), n_bins


def by_edges(time_s, duration_s, width_s):
    edges = torch.arange(20_000, dtype=torch.float64) * width_s
    bins = torch.searchsorted(edges, time_s + 1e-8, right=True) - 1
    return bins, time_s - edges[bins], (edges < duration_s - 1e-8).sum()


def of_floats(time_s, duration_s, width_s):
    """Bins that are whole, but not integers, and offsets a hair below zero: no mistake here."""
    bins = (time_s / width_s + 1e-6).floor()
    return bins, time_s - bins * width_s, float(math.ceil(duration_s / width_s - 1e-6))


@pytest.mark.parametrize("answer", [spike_by_spike, by_edges, of_floats])
def test_right_bins(answer):
    assert check.to_bins.examine(answer).message == "✓ to_bins"


@pytest.mark.parametrize(
    ("n_bins", "words"),
    [
        (lambda d, w: math.ceil(d / w), "a hair more than 0.15"),
        (lambda d, w: int(d / w) + 1, "right only where the duration is no multiple"),
        (lambda d, w: len(np.arange(0, d, w)), "a hair more than 0.15"),
        (lambda d, w: round(d / w - 0.49), "no multiple of the width, the last bin is a part"),
    ],
)
def test_bugs_of_the_number_of_bins(n_bins, words):
    assert_wrong(check.to_bins, lambda t, d, w: (*spike_by_spike(t, d, w)[:2], n_bins(d, w)), words)


def test_bugs_of_the_bins():
    def with_bins(bins):
        return lambda t, d, w: (bins(t, w), t - bins(t, w).double() * w, spike_by_spike(t, d, w)[2])

    assert_wrong(check.to_bins, with_bins(lambda t, w: torch.div(t, w).long()), "2.9999999999999996")
    assert_wrong(check.to_bins, with_bins(lambda t, w: torch.round(t / w).long()), "*nearest*")


@pytest.mark.parametrize(
    ("offset", "words"),
    [
        (lambda t, b, w: t % w, "The remainder of a division"),
        (lambda t, b, w: t - b * w, "became float32"),
        (lambda t, b, w: (t.float() - b * w).double(), "on "),
        (lambda t, b, w: t, "still count from the start of the trial"),
        (lambda t, b, w: t / w - b, "in bins, not in seconds"),
    ],
)
def test_bugs_of_the_offsets(offset, words):
    def answer(time_s, duration_s, width_s):
        bins, _, n_bins = spike_by_spike(time_s, duration_s, width_s)
        return bins, offset(time_s, bins, width_s), n_bins

    assert_wrong(check.to_bins, answer, words)


def test_a_trial_that_ends_in_silence():
    def up_to_last_spike(t, d, w):
        bins, offset, _ = spike_by_spike(t, d, w)
        return bins, offset, int(bins.max()) + 1  # and an error where there are no spikes

    assert_wrong(check.to_bins, up_to_last_spike, "may end in silence")


def test_bins_from_one_and_too_few_values():
    def from_one(t, d, w):
        bins, offset, n_bins = spike_by_spike(t, d, w)
        return bins + 1, offset, n_bins

    assert_wrong(check.to_bins, from_one, "counted from 0")
    assert_wrong(check.to_bins, lambda t, d, w: spike_by_spike(t, d, w)[:2], "3 values are wanted")


# 10.2


def by_index(counts, velocity, lag_bins):
    pairs = [(i, i + lag_bins) for i in range(len(counts)) if 0 <= i + lag_bins < len(counts)]
    earlier, later = (list(x) for x in zip(*pairs, strict=True))
    return counts[earlier], velocity[later]


def by_shifted_clock(counts, velocity, lag_bins):
    if lag_bins < 0:
        return tuple(reversed(by_shifted_clock(velocity, counts, -lag_bins)))
    return counts[: len(counts) - lag_bins].clone(), velocity[lag_bins:].clone()


@pytest.mark.parametrize("answer", [by_index, by_shifted_clock])
def test_right_pairs(answer):
    assert check.lagged.examine(answer).message == "✓ lagged"


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (lambda c, v, lag: by_index(c, v, -lag), "the sign is wrong"),
        (lambda c, v, lag: (c, torch.roll(v, -lag, 0)), "rolled round"),
        (lambda c, v, lag: (c[:-lag], v[lag:]) if lag >= 0 else by_index(c, v, lag), "`[:-0]`"),
        (lambda c, v, lag: (c[: len(c) - lag], v[lag:]), "the roles change"),
        (lambda c, v, lag: by_index(c, v, abs(lag)), "treated as a positive one"),
        (lambda c, v, lag: (c, by_index(c, v, lag)[1]), "equally long"),
        (lambda c, v, lag: by_index(c, v, lag)[::-1], "on six bins and a lag of one"),
        (lambda c, v, lag: by_index(c, v, lag)[0], "2 values are wanted"),
    ],
)
def test_bugs_of_the_lag(answer, words):
    assert_wrong(check.lagged, answer, words)


def test_missing_velocity_filled_with_zeros():
    def answer(counts, velocity, lag):
        filled = [velocity[i + lag] if 0 <= i + lag < len(counts) else torch.zeros(2) for i in range(len(counts))]
        return counts, torch.stack(filled)

    assert_wrong(check.lagged, answer, "filled with zeros")


# 10.3


def test_predictions():
    trial, unit, time_s = [], [], []
    for i, bins in enumerate([(4, 0, 2), (1, 5)]):
        for b, n in enumerate(bins):
            trial += [i] * n
            unit += list(range(1, n + 1))
            time_s += [0.05 * b + 0.01] * n
    padded = SpikeBatch.from_events(trial, unit, time_s, 2, [0.15, 0.10]).padded()
    share = 1 - padded.spike_mask.double().mean().item()
    assert check.padding_share.examine(share).status == "right"
    assert check.padding_share.examine(0.57).status == "right"
    for wrong, words in ((0.6, "blank"), (0.48, "longest trial"), (9 / 22, "own fullest bin"), (0.43, "*used*")):
        assert_wrong(check.padding_share, wrong, words)
    assert_wrong(check.padding_share, 56.67, "between 0 and 1")
    assert_wrong(check.padding_share, "half", "a number is wanted")


# 10.4


def bin_by_bin(predicted, vel, n_bins):
    errors = []
    for b in range(len(n_bins)):
        for t in range(n_bins[b]):
            errors += [(predicted[b, t, axis] - vel[b, t, axis]) ** 2 for axis in range(2)]
    return sum(errors) / len(errors)


def with_where_before(predicted, vel, n_bins):
    real = (torch.arange(vel.shape[1])[None] < n_bins[:, None])[..., None].expand_as(vel)
    error = torch.where(real, predicted, 0.0) - torch.where(real, vel, 0.0)
    return error.pow(2).sum() / real.sum()


@pytest.mark.parametrize("answer", [bin_by_bin, with_where_before])
def test_right_losses(answer):
    assert check.masked_mse.examine(answer).message == "✓ masked_mse"


def mask(vel, n_bins):
    return torch.arange(vel.shape[1]) < n_bins[:, None]


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (lambda p, v, n: torch.nn.functional.mse_loss(p, v), "padding is in your mean"),
        (lambda p, v, n: with_where_before(p, v, torch.tensor([x.shape[0] for x in v])), "padding is in your mean"),
        (lambda p, v, n: with_where_before(p, v, n) * mask(v, n).float().mean(), "the number you divide by"),
        (lambda p, v, n: (p - v).pow(2).nansum() / (2 * n.sum()), "what stands in the padding is still in the sum"),
        (lambda p, v, n: with_where_before(p, v, n) * 2, "you sum over x and y"),
        (lambda p, v, n: with_where_before(p, v, n + 1), "n_bins - 1"),
        (lambda p, v, n: ((p - v)[v.abs().sum(-1) > 0] ** 2).mean(), "A hand that rests is data"),
        (lambda p, v, n: ((p - v) ** 2 * mask(v, n)[..., None]).sum() / (2 * mask(v, n).sum()), "0 times NaN"),
        (
            lambda p, v, n: ((p - v) ** 2).masked_fill(~mask(v, n)[..., None], 0).sum() / (2 * n.sum()),
            "its gradient is NaN",
        ),
        (
            lambda p, v, n: torch.stack(
                [bin_by_bin(p[i : i + 1], v[i : i + 1], n[i : i + 1]) for i in range(len(n))]
            ).mean(),
            "a bin of a short trial weighs more",
        ),
        (lambda p, v, n: with_where_before(p, v, n).sqrt(), "on two trials of equal length"),
    ],
)
def test_bugs_of_the_loss(answer, words):
    assert_wrong(check.masked_mse, answer, words)
