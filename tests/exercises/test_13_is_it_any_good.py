"""Chapter 13: right answers in other styles."""

import numpy as np

from possm_lite.decoder.baselines import history
from possm_lite.training.evaluate import mean_r2, newest_finished

from .helpers import answers, load

check = load("13_is_it_any_good")


def r2_by_sums(true, decoded):
    """From sums of each trial, without concatenating them."""
    error = sum((v - w).square().sum(0) for v, w in zip(true, decoded, strict=True))
    spread = sum(v.square().sum(0) for v in true) - sum(v.sum(0) for v in true) ** 2 / sum(map(len, true))
    return (1 - error / spread).mean()


def screen_in_numpy(times_s, true, decoded, width_s=0.05, lag_s=0.0):
    keep = []
    for t, v, w in zip(times_s, true, decoded, strict=True):
        newest = newest_finished(t.numpy(), width_s, lag_s)
        keep.append((v.numpy()[newest >= 0], w.numpy()[newest[newest >= 0]]))
    return mean_r2(*(np.concatenate(column) for column in zip(*keep, strict=True)))


test_answers = answers(
    check,
    [
        ("r2_of_trials", r2_by_sums),
        ("causal_history", lambda counts, n: history(counts[None], n)[0]),
        ("screen_r2", screen_in_numpy),
    ],
)
