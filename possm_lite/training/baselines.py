"""Fit the closed-form baselines to a session."""

from __future__ import annotations

import numpy as np
import torch

from ..decoder.baselines import KalmanFilter, WienerFilter
from .evaluate import evaluate
from .replay import slot_offsets
from .session import Session

RIDGES = tuple(10.0 ** np.arange(0, 5.5, 0.5))


def fit_wiener(session: Session, n_history: int = 10, ridges=RIDGES) -> WienerFilter:
    """A Wiener filter with the ridge penalty that decodes the validation part best."""
    model = _sized(WienerFilter, session, n_history=n_history)
    solutions, scores = model.solve(*binned(session, "train"), ridges), []
    for model.weight.data, model.offset.data in solutions:
        scores.append(np.nan_to_num(evaluate(model, session, "valid").r2_xy).sum())  # NaN: nothing moved on that axis
    model.weight.data, model.offset.data = solutions[int(np.argmax(scores))]
    return model


def fit_kalman(session: Session) -> KalmanFilter:
    """A Kalman filter of maximum likelihood on the training part."""
    model = _sized(KalmanFilter, session)
    model.solve(*binned(session, "train"))
    return model


def binned(session: Session, part: str) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Square-root counts (T, U) and standardised velocity (T, n_slots, 2) of each stretch of a part.

    A slot's velocity is the mean of the samples in it; NaN where there is none.
    """
    width, n_slots = session.timeline.bin_width_s, len(slot_offsets(session))
    counts, velocity = [], []
    for start, stop in session.segments(part):
        n_bins = int(np.floor((stop - start) / width + 1e-6))
        if n_bins == 0:
            continue
        batch = session.timeline.cut(start, n_bins * width)
        counts.append(np.sqrt(session.timeline.counts(start, n_bins), dtype=np.float32))
        slot = np.floor(batch.times_s[0].numpy() / (width / n_slots) + 1e-6).astype(int)
        seen = np.bincount(slot, minlength=n_bins * n_slots)
        sums = [np.bincount(slot, v, minlength=n_bins * n_slots) for v in batch.velocity[0].numpy().T]
        mean = np.stack(sums, 1) / np.where(seen > 0, seen, np.nan)[:, None]
        velocity.append(((mean - session.mean) / session.std).reshape(n_bins, n_slots, 2))
    return counts, velocity


def _sized(kind, session: Session, **sizes):
    model = kind(session.recording.n_units, session.timeline.bin_width_s, len(slot_offsets(session)), **sizes)
    model.velocity_mean[1] = torch.from_numpy(session.mean)
    model.velocity_std[1] = torch.from_numpy(session.std)
    return model
