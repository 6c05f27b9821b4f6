"""Chapter 12's checks: right answers written another way pass, planted mistakes are called by their name."""

import math

import numpy as np
import pytest
import torch

from .helpers import assert_right, assert_wrong, load

check = load("12_spike_decoder")

# ---- right answers, written anew


def turned(x, t, omega):
    """Pair by pair, with real numbers."""
    y = x.clone()
    for f, w in enumerate(omega):
        cos, sin = torch.cos(w * t), torch.sin(w * t)
        y[..., 2 * f] = cos * x[..., 2 * f] - sin * x[..., 2 * f + 1]
        y[..., 2 * f + 1] = sin * x[..., 2 * f] + cos * x[..., 2 * f + 1]
    return y


def read_by_differences(q, t, k, v, b, n_seen, omega):
    """State by state, seen from the query, so that nothing is turned back."""
    total, weights = torch.zeros_like(q), 0.0
    for j in range(b + 1):
        if j > b - n_seen:
            away = torch.tensor((j + 1) * 0.05, dtype=torch.float64) - t
            weight = math.exp(float(q @ turned(k[j], away, omega)) / math.sqrt(len(q)))
            total, weights = total + weight * turned(v[j], away, omega), weights + weight
    return total / weights


def read_masked(q, t, k, v, b, n_seen, omega):
    """All bins, and minus infinity where a bin may not be seen."""
    ends = 0.05 * torch.arange(1, len(k) + 1, dtype=torch.float64)
    keys, values = (torch.stack([turned(x, e, omega) for x, e in zip(y, ends, strict=True)]) for y in (k, v))
    scores = keys @ turned(q, t, omega) / len(q) ** 0.5
    j = torch.arange(len(k))
    weights = scores.masked_fill((j > b) | (j <= b - n_seen), -math.inf).softmax(0)
    return turned(weights @ values, -t, omega)


def standardise_with_numpy(velocity, times_s, train):
    inside = np.zeros(len(times_s), dtype=bool)
    for start, stop in train.tolist():
        inside |= (times_s.numpy() >= start) & (times_s.numpy() < stop)
    seen = velocity.numpy()[inside]
    std = seen.std(0)
    std[std == 0] = 1
    return torch.from_numpy((velocity.numpy() - seen.mean(0)) / std)


def standardise_by_moments(velocity, times_s, train):
    some = torch.stack([(times_s >= a) & (times_s < b) for a, b in train]).any(0).double()[:, None]
    mean = (some * velocity).sum(0) / some.sum()
    spread = ((some * (velocity - mean) ** 2).sum(0) / some.sum()).sqrt()
    return (velocity - mean) / (spread + (spread == 0))


def r2_with_a_loop(true, decoded):
    of_axes = []
    for axis in range(2):
        v, w = (torch.cat([x[:, axis] for x in trials]) for trials in (true, decoded))
        of_axes.append(1 - (v - w).square().mean() / v.var(correction=0))
    return sum(of_axes) / 2


def r2_by_sums(true, decoded):
    """With the sums of each trial, so that no trial is put behind another."""
    n = sum(len(v) for v in true)
    error = sum((v - w).square().sum(0) for v, w in zip(true, decoded, strict=True))
    spread = sum(v.square().sum(0) for v in true) - sum(v.sum(0) for v in true) ** 2 / n
    return (1 - error / spread).mean()


def history_with_a_loop(counts, n_history):
    rows = []
    for t in range(len(counts)):
        bins = [counts[j] if j >= 0 else torch.zeros_like(counts[0]) for j in range(t - n_history + 1, t + 1)]
        rows.append(torch.cat(bins))
    return torch.stack(rows)


def history_side_by_side(counts, n_history):
    padded = torch.nn.functional.pad(counts, (0, 0, n_history - 1, 0))
    return torch.cat([padded[i : i + len(counts)] for i in range(n_history)], 1)


@pytest.mark.parametrize(
    ("exercise", "answer"),
    [
        (check.read_states, read_by_differences),
        (check.read_states, read_masked),
        (check.standardise, standardise_with_numpy),
        (check.standardise, standardise_by_moments),
        (check.my_r2, 3 / 4),
        (check.my_r2, 1 - 0.5**2),
        (check.r2_of_trials, r2_with_a_loop),
        (check.r2_of_trials, r2_by_sums),
        (check.causal_history, history_with_a_loop),
        (check.causal_history, history_side_by_side),
    ],
)
def test_right_answers_pass(exercise, answer):
    assert_right(exercise, answer)


# ---- planted mistakes


def read_slice(first, last=lambda b: b + 1, ends=lambda j: 0.05 * (j + 1), turn_k=True, turn_v=True, back=True):
    """The bins first(b, n):last(b) as a slice, at the times `ends`, with some of the turns left out."""

    def read_states(q, t, k, v, b, n_seen, omega):
        part = slice(first(b, n_seen), last(b))
        tau = ends(torch.arange(len(k), dtype=torch.float64))[part]
        k, v = k[part], v[part]
        if turn_k:
            q, k = turned(q, t, omega), torch.stack([*map(lambda x, s: turned(x, s, omega), k, tau)]) if len(k) else k
        if turn_v and len(v):
            v = torch.stack([*map(lambda x, s: turned(x, s, omega), v, tau)])
        z = torch.softmax(k @ q / math.sqrt(len(q)), 0) @ v
        return turned(z, -t, omega) if back else z

    return read_states


def window(b, n):
    return max(0, b + 1 - n)


def wraps_round(q, t, k, v, b, n_seen, omega):
    j = torch.arange(b - n_seen + 1, b + 1)
    ends = (j % len(k) + 1) * torch.tensor(0.05, dtype=torch.float64)
    keys, values = (torch.stack([turned(y[i], e, omega) for i, e in zip(j, ends, strict=True)]) for y in (k, v))
    weights = torch.softmax(keys @ turned(q, t, omega) / math.sqrt(len(q)), 0)
    return turned(weights @ values, -t, omega)


def clock_of_the_slice(q, t, k, v, b, n_seen, omega):
    first = window(b, n_seen)
    return read_masked(q, t, k[first : b + 1], v[first : b + 1], b - first, n_seen, omega)


def unscaled(q, *rest):
    return read_masked(q * len(q) ** 0.5, *rest)


def of_all(velocity, times_s, train):
    return (velocity - velocity.mean(0)) / (velocity.std(0, correction=0) + (velocity == velocity[0]).all(0))


def in_one_piece(velocity, times_s, train):
    return standardise_with_numpy(velocity, times_s, torch.stack([train.min(), train.max()])[None])


def one_spread(velocity, times_s, train):
    inside = ((times_s >= train[:, :1]) & (times_s < train[:, 1:])).any(0)
    return (velocity - velocity[inside].mean(0)) / velocity[inside].std(correction=0)


def torch_std(velocity, times_s, train):
    inside = ((times_s >= train[:, :1]) & (times_s < train[:, 1:])).any(0)
    spread = velocity[inside].std(0)
    return (velocity - velocity[inside].mean(0)) / spread.where(spread > 0, torch.ones(2, dtype=torch.float64))


def still_hand_forgotten(velocity, times_s, train):
    inside = ((times_s >= train[:, :1]) & (times_s < train[:, 1:])).any(0)
    return (velocity - velocity[inside].mean(0)) / velocity[inside].std(0, correction=0)


def training_only(velocity, times_s, train):
    inside = ((times_s >= train[:, :1]) & (times_s < train[:, 1:])).any(0)
    return standardise_with_numpy(velocity, times_s, train)[inside]


def mean_of_trials(true, decoded):
    return torch.stack([r2_with_a_loop([v], [w]) for v, w in zip(true, decoded, strict=True)]).mean()


def about_zero(true, decoded):
    v, w = torch.cat(true), torch.cat(decoded)
    return 1 - ((v - w).square().sum(0) / v.square().sum(0)).mean()


def divided_by_n_less_one(true, decoded):
    v, w = torch.cat(true), torch.cat(decoded)
    return (1 - (v - w).square().mean(0) / v.var(0)).mean()


def flattened(true, decoded):
    v, w = torch.cat(true), torch.cat(decoded)
    return 1 - (v - w).square().sum() / (v - v.mean(0)).square().sum()


def squared_correlation(true, decoded):
    v, w = torch.cat(true), torch.cat(decoded)
    return sum(torch.corrcoef(torch.stack([v[:, i], w[:, i]]))[0, 1] ** 2 for i in range(2)) / 2


def rolled(counts, n_history):
    return torch.cat([torch.roll(counts, i, 0) for i in range(n_history - 1, -1, -1)], 1)


def ahead(counts, n_history):
    return history_with_a_loop(counts.flip(0), n_history).flip(0).unflatten(1, (n_history, -1)).flip(1).flatten(1)


def newest_first(counts, n_history):
    return history_with_a_loop(counts, n_history).unflatten(1, (n_history, -1)).flip(1).flatten(1)


def without_own_bin(counts, n_history):
    return history_with_a_loop(torch.cat([0 * counts[:1], counts[:-1]]), n_history)


def by_units(counts, n_history):
    return torch.nn.functional.pad(counts, (0, 0, n_history - 1, 0)).unfold(0, n_history, 1).flatten(1)


def without_zeros(counts, n_history):
    return counts.unfold(0, n_history, 1).transpose(1, 2).flatten(1)


PLANTED = [
    (check.read_states, read_slice(window, turn_k=False, turn_v=False, back=False), "have no position"),
    (check.read_states, read_slice(window, turn_k=False), "keys were never turned"),
    (check.read_states, read_slice(window, turn_v=False, back=False), "values were never turned"),
    (check.read_states, read_slice(window, back=False), "turn it back by t"),
    (check.read_states, read_slice(window, ends=lambda j: 0.05 * j), "its time is the end"),
    (check.read_states, read_slice(window, ends=lambda j: j), "a time is wanted, in s"),
    (check.read_states, read_slice(lambda b, n: 0, lambda b: None), "that is the future"),
    (check.read_states, read_slice(lambda b, n: 0), "n_seen at most"),
    (check.read_states, read_slice(lambda b, n: max(b - n, 0), lambda b: b), "the last one is b, not b - 1"),
    (check.read_states, read_slice(lambda b, n: max(b - n, 0)), "one state too many"),
    (check.read_states, clock_of_the_slice, "starts anew"),
    (check.read_states, read_slice(lambda b, n: b - n + 1), "comes out empty"),
    (check.read_states, wraps_round, "the first bins read the last ones"),
    (check.read_states, unscaled, "root of the size d"),
    (check.standardise, of_all, "has leaked in"),
    (check.standardise, in_one_piece, "between training trials"),
    (check.standardise, one_spread, "each axis has its own"),
    (check.standardise, torch_std, "correction=0"),
    (check.standardise, still_hand_forgotten, "Divide by 1 there"),
    (check.standardise, training_only, "the shape is"),
    (check.my_r2, 0.5, "R² counts squares"),
    (check.my_r2, 1 / 4, "share of the square"),
    (check.my_r2, 1, "correlation"),
    (check.my_r2, 0.9, "not it"),
    (check.r2_of_trials, mean_of_trials, "mean of each trial's R²"),
    (check.r2_of_trials, flattened, "share one sum"),
    (check.r2_of_trials, about_zero, "about the mean"),
    (check.r2_of_trials, divided_by_n_less_one, "correction=0"),
    (check.r2_of_trials, squared_correlation, "squared correlation"),
    (check.r2_of_trials, lambda true, decoded: r2_by_sums(decoded, true), "swapped"),
    (check.r2_of_trials, lambda true, decoded: 2 * r2_by_sums(true, decoded), "on one trial"),
    (check.causal_history, ahead, "holds the bins from t on"),
    (check.causal_history, lambda c, n: rolled(c, n), "after torch.roll"),
    (check.causal_history, newest_first, "oldest first"),
    (check.causal_history, without_own_bin, "one bin too early"),
    (check.causal_history, by_units, "bins stand together"),
    (check.causal_history, without_zeros, "the shape is"),
]


@pytest.mark.parametrize(("exercise", "mistake", "told"), PLANTED)
def test_mistakes_are_called_by_their_name(exercise, mistake, told):
    assert_wrong(exercise, mistake, told)
