"""Chapter 13: right and wrong answers in other styles than the references and the traps."""

from functools import partial

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from possm_lite.decoder.baselines import history
from possm_lite.training.evaluate import mean_r2, newest_finished

from .helpers import assert_verdict, load

check = load("13_is_it_any_good")


def r2_by_sums(true, decoded):
    """From sums of each trial, without concatenating them."""
    error = sum((v - w).square().sum(0) for v, w in zip(true, decoded, strict=True))
    spread = sum(v.square().sum(0) for v in true) - sum(v.sum(0) for v in true) ** 2 / sum(map(len, true))
    return (1 - error / spread).mean()


def correlation_of_numpy(true, decoded):
    v, w = torch.cat(true).numpy(), torch.cat(decoded).numpy()
    return float(np.mean([np.corrcoef(v[:, i], w[:, i])[0, 1] ** 2 for i in range(2)]))


def history_side_by_side(counts, n_history):
    padded = F.pad(counts, (0, 0, n_history - 1, 0))
    return torch.cat([padded[i : i + len(counts)] for i in range(n_history)], 1)


@pytest.mark.parametrize(
    ("name", "answer", "words"),
    [
        ("my_r2", 1 - 0.5**2, "✓"),
        ("my_r2", 0.9, "is not right"),
        ("r2_of_trials", r2_by_sums, "✓"),
        ("r2_of_trials", lambda v, w: sum(map(r2_by_sums, zip(v), zip(w))) / len(v), "mean of each trial"),
        ("r2_of_trials", lambda v, w: 1 - F.mse_loss(torch.cat(w), torch.cat(v)) / torch.cat(v).var(), "one trial"),
        ("r2_of_trials", correlation_of_numpy, "squared correlation"),
        ("r2_of_trials", lambda v, w: r2_by_sums(w, v), "swapped"),
        ("r2_of_trials", lambda v, w: 2 * r2_by_sums(v, w), "on one trial"),
        ("causal_history", history_side_by_side, "✓"),
        ("causal_history", lambda counts, n: history(counts[None], n)[0], "✓"),
        ("causal_history", lambda c, n: torch.cat([c.roll(i, 0) for i in range(n - 1, -1, -1)], 1), "torch.roll"),
        ("causal_history", lambda c, n: history_side_by_side(c.roll(1, 0) * (c > 1), n), "on a history"),
        ("causal_history", lambda c, n: F.pad(c, (0, 0, n - 1, 0)).unfold(0, n, 1).flatten(1), "of each unit"),
        ("causal_history", lambda c, n: c.unfold(0, n, 1).transpose(1, 2).flatten(1), "the shape is"),
    ],
)
def test_answer_in_another_style(name, answer, words):
    assert_verdict(getattr(check, name), answer, words)


def screen_by_loops(
    times_s, true, decoded, width_s=0.05, lag_s=0.0, *, not_later=True, ends=lambda b, width: b * width, slack=1e-6
):
    """Every moment looks through all answers."""
    shown, at = [], []
    for t, v, w in zip(times_s, true, decoded, strict=True):
        for i, now in enumerate(t.tolist()):
            ready = [
                j
                for j, of in enumerate(t.tolist())
                if ends(np.floor(of / width_s + 1e-6) + 1, width_s) <= now + lag_s + slack * width_s
                and (j <= i or not not_later)
            ]
            if ready:
                shown.append(w[ready[-1]])
                at.append(v[i])
    return r2_by_sums([torch.stack(at)], [torch.stack(shown)])


def screen_in_numpy(times_s, true, decoded, width_s=0.05, lag_s=0.0):
    keep = []
    for t, v, w in zip(times_s, true, decoded, strict=True):
        newest = newest_finished(t.numpy(), width_s, lag_s)
        keep.append((v.numpy()[newest >= 0], w.numpy()[newest[newest >= 0]]))
    return mean_r2(*(np.concatenate(column) for column in zip(*keep, strict=True)))


def screen_without_lag(times_s, true, decoded, width_s=0.05, lag_s=0.0):
    return screen_by_loops(times_s, true, decoded, width_s)


def screen_interpolated(times_s, true, decoded, width_s=0.05, lag_s=0.0):
    """Shows every answer exactly a bin and no lag too late, between two answers on a straight line."""
    late = [
        torch.from_numpy(np.stack([np.interp(t, t + width_s - lag_s, w[:, i]) for i in range(2)], 1))
        for t, w in zip(times_s, decoded, strict=True)
    ]
    return r2_by_sums(true, late)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (screen_by_loops, "✓"),
        (partial(screen_by_loops, slack=1e-9), "✓"),
        (screen_in_numpy, "✓"),
        (lambda t, v, w, width=0.05, lag=0.0: r2_by_sums(v, w), "R² asked"),
        (partial(screen_by_loops, not_later=False), "still to come"),
        (partial(screen_by_loops, ends=lambda b, width: (b + 1) * width), "a bin too late"),
        (partial(screen_by_loops, ends=lambda b, width: (b - 1) * width), "on one answer in each bin"),
        (screen_without_lag, "the lag is not used"),
        (lambda t, v, w, width=0.05, lag=0.0: screen_by_loops(t, v, w, width, abs(lag)), "on a negative lag"),
        (lambda t, v, w, width=0.05, lag=0.0: screen_by_loops(t, v, w, 0.05, lag), "on bins of 20 ms"),
        (screen_interpolated, "on one answer in each bin"),
    ],
)
def test_screen_in_another_style(answer, words):
    assert_verdict(check.screen_r2, answer, words)
