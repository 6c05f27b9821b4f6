"""Closed-form baselines fitted to a session, and the search for the lag with one of them."""

from collections.abc import Iterable, Sequence

import numpy as np
import torch

from ..decoder.baselines import KalmanFilter, WienerFilter
from ..recordings.batch import bin_index
from ..recordings.recording import Recording
from ..recordings.split import SplitConfig
from .evaluate import evaluate, slot_offsets
from .session import Session, prepare

RIDGES = tuple(10.0 ** np.arange(0, 5.5, 0.5))


def fit_wiener(
    session: Session, n_history: int = 10, ridges: Sequence[float] = RIDGES
) -> WienerFilter:
    """A Wiener filter of the last `n_history` bins, with the ridge penalty that has the best validation R²."""
    model = _empty(WienerFilter, session, n_history=n_history)
    solutions = model.solve(*binned(session, "train"), ridges)
    scores = []
    for model.weight.data, model.offset.data in solutions:
        scores.append(
            np.nan_to_num(evaluate(model, session, "valid").r2_columns).sum()
        )  # NaN: constant
    model.weight.data, model.offset.data = solutions[int(np.argmax(scores))]
    return model


def fit_kalman(session: Session) -> KalmanFilter:
    """A Kalman filter of maximum likelihood on the training part."""
    model = _empty(KalmanFilter, session)
    model.solve(*binned(session, "train"))
    return model


def search_lag(
    recording: Recording,
    lags_s: Iterable[float],
    split: str | SplitConfig = "chronological",
    bin_width_s: float = 0.05,
    seed: int = 0,
    **filter_settings,
) -> np.ndarray:
    """Validation R² of a Wiener filter at each lag, (n,); NaN if no column varies. `filter_settings`: of `fit_wiener`.

    score(L) = R² of v(t) decoded from counts up to t - L, on the validation part        (17.5)
    """
    scores = []
    for lag_s in lags_s:
        session = prepare(recording, split, lag_s, bin_width_s, seed)
        scores.append(evaluate(fit_wiener(session, **filter_settings), session, "valid").r2)
    return np.array(scores)


def binned(session: Session, part: str) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Square-root counts (T, U), and means of standardised behaviour (T, n_slots, C), of each segment of a part."""
    width = session.timeline.bin_width_s
    n_slots = len(slot_offsets(session))
    counts, behavior = [], []
    for start, stop in session.segments(part):
        if (n_bins := int((stop - start) / width + 1e-6)) == 0:
            continue
        batch = session.timeline.cut(start, n_bins * width)
        counts.append(np.sqrt(session.timeline.counts(start, n_bins), dtype=np.float32))
        slot = bin_index(batch.times_s[batch.mask], width / n_slots)
        n_samples = np.bincount(slot, minlength=n_bins * n_slots)
        sums = [
            np.bincount(slot, v, minlength=n_bins * n_slots)
            for v in batch.behavior[batch.mask].numpy().T
        ]
        mean = np.stack(sums, 1) / np.where(n_samples > 0, n_samples, np.nan)[:, None]
        behavior.append(((mean - session.mean) / session.std).reshape(n_bins, n_slots, -1))
    return counts, behavior


def _empty(kind, session: Session, **sizes):
    """A filter with the sizes and the scale of a session."""
    n_slots = len(slot_offsets(session))
    n_columns = session.recording.n_columns
    model = kind(
        session.recording.n_units, session.timeline.bin_width_s, n_slots, n_columns, **sizes
    )
    model.behavior_mean[1] = torch.from_numpy(session.mean)
    model.behavior_std[1] = torch.from_numpy(session.std)
    return model
