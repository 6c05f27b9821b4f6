"""Which lag between spikes and behaviour to train with."""

from __future__ import annotations

import warnings
from collections.abc import Iterable

import numpy as np

from ..spikes.recording import Recording
from ..spikes.split import SplitConfig
from .baselines import RIDGES, fit_wiener
from .evaluate import evaluate
from .session import prepare


def search_lag(
    recording: Recording,
    lags_s: Iterable[float],
    split: str | SplitConfig = "chronological",
    bin_width_s: float = 0.05,
    seed: int = 0,
    n_history: int = 10,
    ridges: Iterable[float] = RIDGES,
) -> np.ndarray:
    """Validation R² of a Wiener filter at each lag. The test part is never looked at.

        score(L) = R² of v(t) decoded from counts up to t - L, on the validation part        (16.5)

    Args:
        recording: the session.
        lags_s: lags to try, seconds, behaviour later than spikes; a negative one reads spikes of after the movement.
        split, bin_width_s, seed: as for `prepare`.
        n_history: bins that the filter reads.
        ridges: penalties, of which the one best on the validation part is taken, at each lag anew.

    Returns:
        One R² for each lag, the mean of the axes that move, shape (n,); NaN if none moves.
    """
    scores = []
    for lag_s in lags_s:
        session = prepare(recording, split, lag_s=lag_s, bin_width_s=bin_width_s, seed=seed)
        filter_ = fit_wiener(session, n_history, tuple(ridges))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # the mean of nothing is NaN, and may be
            scores.append(float(np.nanmean(evaluate(filter_, session, "valid").r2_xy)))
    return np.array(scores)
