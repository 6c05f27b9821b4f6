"""Linear baselines fitted to a session, and the search for the lag with one of them."""

from collections.abc import Iterable, Sequence

import numpy as np
import torch

from ..decoder.baselines import KalmanFilter, LogisticRegression, WienerFilter
from ..errors import RecordingError
from ..recordings.batch import bin_index
from ..recordings.recording import Recording
from ..recordings.split import SplitConfig
from .classes import class_counts, class_weights, decode_classes
from .evaluate import evaluate, slot_offsets
from .session import Session, prepare

RIDGES = tuple(10.0 ** np.arange(0, 5.5, 0.5))
PENALTIES = tuple(10.0 ** np.arange(0, -3.5, -0.5))


def fit_wiener(
    session: Session, n_history: int = 10, ridges: Sequence[float] = RIDGES
) -> WienerFilter:
    """A Wiener filter of the training part, with the ridge penalty of the best validation R².

    Args:
        session: a session of `prepare`.
        n_history: number of bins of counts that it decodes from, the newest included.
        ridges: penalties to choose from.

    Returns:
        The filter, ready to decode.
    """
    model = _empty(WienerFilter, session, n_history=n_history)
    counts, behavior = binned(session, "train")
    solutions = model.solve(counts, behavior, ridges)
    scores = []
    for model.weight.data, model.offset.data in solutions:
        r2_columns = evaluate(model, session, "valid").r2_columns
        scores.append(np.nan_to_num(r2_columns).sum())  # NaN: constant
    model.weight.data, model.offset.data = solutions[int(np.argmax(scores))]
    return model


def fit_kalman(session: Session) -> KalmanFilter:
    """A Kalman filter of maximum likelihood on the training part of `session`."""
    model = _empty(KalmanFilter, session)
    counts, behavior = binned(session, "train")
    model.solve(counts, behavior)
    return model


def fit_logistic(
    session: Session, n_history: int = 10, penalties: Sequence[float] = PENALTIES
) -> LogisticRegression:
    """Logistic regression on the training part, with the penalty of the least validation loss.

    Bins weigh as their classes do, as in `fit`; a bin has the label of its last sample.

    Args:
        session: a session of labels.
        n_history: number of bins of counts that it decodes from, the newest included.
        penalties: to choose from, from large to small.

    Returns:
        The decoder, ready to decode.
    """
    model = _empty(LogisticRegression, session, n_history=n_history)
    counts, labels = _labelled_bins(session, "train")
    of_class = np.append(class_weights(class_counts(session)), 0.0)  # -1: no label
    solutions = model.solve(counts, labels, of_class[labels], penalties)
    losses = []
    for model.weight.data, model.offset.data in solutions:
        decoded = decode_classes(model, session, "valid")
        likelihood = decoded.probabilities[np.arange(len(decoded.true)), decoded.true]
        weights = of_class[decoded.true]
        losses.append(-(weights * np.log(np.maximum(likelihood, 1e-300))).sum() / weights.sum())
    model.weight.data, model.offset.data = solutions[int(np.argmin(losses))]
    return model


def _labelled_bins(session: Session, part: str) -> tuple[list[np.ndarray], np.ndarray]:
    """Square-root counts, (T, U), of each segment, and the class of each bin, -1 of none, (n,)."""
    width = session.timeline.bin_width_s
    counts, labels = [], []
    for start, stop in session.segments(part):
        n_bins = max(1, int((stop - start) / width + 1e-6))
        counts.append(np.sqrt(session.timeline.counts(start, n_bins), dtype=np.float32))
        batch = session.timeline.cut(start, n_bins * width)
        label = np.full(n_bins, -1)
        label[bin_index(batch.times_s[batch.mask], width)] = batch.behavior[batch.mask][:, 0]
        labels.append(label)
    return counts, np.concatenate(labels)


def search_lag(
    recording: Recording,
    lags_s: Iterable[float],
    split: str | SplitConfig = "chronological",
    bin_width_s: float = 0.05,
    seed: int = 0,
    **filter_settings,
) -> np.ndarray:
    """Validation R² of a Wiener filter at each lag.

        score(L) = R² of v(t) decoded from counts up to t - L, on the validation part        (17.5)

    Args:
        recording: spikes and behaviour.
        lags_s: L, behaviour minus spikes, seconds, n of them.
        split: how to divide the recording, as for `prepare`.
        bin_width_s: width of a bin, seconds.
        seed: of a random split.
        filter_settings: further arguments of `fit_wiener`.

    Returns:
        R² at each lag, the mean of the columns that vary, (n,); NaN if none does.

    Raises:
        RecordingError: as by `prepare`; or behaviour are classes, which a Wiener filter does not
            decode.
    """
    if len(recording.classes):
        raise RecordingError("--lag auto is of continuous behaviour: give a number of seconds.")
    scores = []
    for lag_s in lags_s:
        session = prepare(recording, split, lag_s, bin_width_s, seed)
        scores.append(evaluate(fit_wiener(session, **filter_settings), session, "valid").r2)
    return np.array(scores)


def binned(session: Session, part: str) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Square-root counts and means of standardised behaviour, on the bins of a part.

    Args:
        session: a session of `prepare`.
        part: "train", "valid" or "test".

    Returns:
        Of each segment with a whole bin, the square roots of counts, (T, U) in T bins; and of each
        the means of behaviour in the slots of a bin, (T, n_slots, C), NaN without a sample.
    """
    width = session.timeline.bin_width_s
    n_slots = len(slot_offsets(session))
    counts = []
    behavior = []
    for start, stop in session.segments(part):
        n_bins = int((stop - start) / width + 1e-6)
        if n_bins == 0:
            continue
        counts.append(np.sqrt(session.timeline.counts(start, n_bins), dtype=np.float32))
        batch = session.timeline.cut(start, n_bins * width)
        samples = batch.behavior[batch.mask].numpy()  # (K, C)
        slot = bin_index(batch.times_s[batch.mask], width / n_slots)  # (K,)
        mean = _mean_by_slot(samples, slot, n_bins * n_slots)
        standardised = (mean - session.mean) / session.std
        behavior.append(standardised.reshape(n_bins, n_slots, -1))
    return counts, behavior


def _mean_by_slot(samples: np.ndarray, slot: np.ndarray, n: int) -> np.ndarray:
    """Mean of the samples (K, C) of each of n slots, (n, C); NaN without a sample."""
    n_samples = np.bincount(slot, minlength=n)
    sums = [np.bincount(slot, column, minlength=n) for column in samples.T]
    return np.stack(sums, 1) / np.where(n_samples > 0, n_samples, np.nan)[:, None]


def _empty(kind, session: Session, **sizes):
    """A filter with the sizes and the scale of a session."""
    recording = session.recording
    n_slots = 1 if len(recording.classes) else len(slot_offsets(session))
    width = session.timeline.bin_width_s
    model = kind(recording.n_units, width, n_slots, len(recording.outputs), **sizes)
    model.behavior_mean[1] = torch.from_numpy(session.mean)
    model.behavior_std[1] = torch.from_numpy(session.std)
    return model
