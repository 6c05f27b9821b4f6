"""Chapter 13: right answers in other styles, and wrong ones that no known mistake explains."""

import numpy as np
import pytest
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


def screen_by_loops(times_s, true, decoded, width_s=0.05, lag_s=0.0):
    """Every moment looks through all answers."""
    shown, at = [], []
    for t, v, w in zip(times_s, true, decoded, strict=True):
        over = [(np.floor(of / width_s + 1e-6) + 1) * width_s for of in t.tolist()]
        for i, now in enumerate(t.tolist()):
            ready = [j for j in range(i + 1) if over[j] <= now + lag_s + 1e-6 * width_s]
            if ready:
                shown.append(w[ready[-1]])
                at.append(v[i])
    return mean_r2(np.stack(at), np.stack(shown))


def screen_in_numpy(times_s, true, decoded, width_s=0.05, lag_s=0.0):
    keep = []
    for t, v, w in zip(times_s, true, decoded, strict=True):
        newest = newest_finished(t.numpy(), width_s, lag_s)
        keep.append((v.numpy()[newest >= 0], w.numpy()[newest[newest >= 0]]))
    return mean_r2(*(np.concatenate(column) for column in zip(*keep, strict=True)))


@pytest.mark.parametrize(
    ("name", "answer", "words"),
    [
        ("my_r2", 0.9, "is not right"),
        ("r2_of_trials", r2_by_sums, "✓"),
        ("r2_of_trials", lambda v, w: sum(map(r2_by_sums, zip(v), zip(w))) / len(v), "mean of each trial"),
        ("r2_of_trials", lambda v, w: 2 * r2_by_sums(v, w), "on one trial"),
        ("causal_history", lambda counts, n: history(counts[None], n)[0], "✓"),
        ("causal_history", lambda c, n: F.pad(c, (0, 0, n - 1, 0)).unfold(0, n, 1).flatten(1), "of each unit"),
        ("causal_history", lambda c, n: c.unfold(0, n, 1).transpose(1, 2).flatten(1), "the shape is"),
        ("screen_r2", screen_by_loops, "✓"),
        ("screen_r2", screen_in_numpy, "✓"),
        ("screen_r2", lambda t, v, w, width=0.05, lag=0.0: screen_by_loops(t, v, w, width, abs(lag)), "a negative lag"),
        ("screen_r2", lambda t, v, w, width=0.05, lag=0.0: screen_by_loops(t, v, w, 0.05, lag), "on bins of 20 ms"),
    ],
)
def test_answer_in_another_style(name, answer, words):
    assert_verdict(getattr(check, name), answer, words)
