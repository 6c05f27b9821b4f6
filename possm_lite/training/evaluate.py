"""Decode a part of a session causally and score it: in one pass, or bin by bin as a stream."""

import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch

from ..decoder.possm import POSSM
from ..recordings.batch import SpikeBatch, bin_index
from .session import Session, check_sessions, columns_that_vary, decodes_classes


@dataclass(frozen=True)
class Decoded:
    """True and decoded behaviour at the same times, T samples of C columns.

    Attributes:
        times_s: times on the clock of behaviour, seconds, (T,).
        true: behaviour as recorded, in the unit of the recording, (T, C).
        decoded: output of the decoder in the same unit, (T, C); of classes, whose places are then
            the one column of `true`, probabilities, (T, K).
        displayed: what a screen shows at these times, see `newest_finished`, (T, C); NaN before the
            first output of a segment.
    """

    times_s: np.ndarray
    true: np.ndarray
    decoded: np.ndarray
    displayed: np.ndarray

    @property
    def r2_columns(self) -> tuple[float, ...]:
        """R² of each column, C numbers; NaN for a constant column."""
        return tuple(r2_score(self.true, self.decoded).tolist())

    @property
    def r2(self) -> float:
        """Mean R² of the columns that vary."""
        return mean_r2(self.true, self.decoded)

    @property
    def r2_displayed(self) -> float:
        """Mean R² of what a screen shows at the moment: an output is shown once its bin is over."""
        shown = ~np.isnan(self.displayed[:, 0])
        return mean_r2(self.true[shown], self.displayed[shown])


@dataclass(frozen=True)
class Replay(Decoded):
    """Output of a streaming decoder, at the samples that `evaluate` decodes and as it came.

    Attributes:
        outputs: output at every slot of every bin, in the unit of the recording,
            (n_bins * n_slots, C).
        step_us: duration of each step of the decoder, microseconds per bin, (n_bins,).
        bins: number of bins of each segment.
    """

    outputs: np.ndarray
    step_us: np.ndarray
    bins: tuple[int, ...]


def r2_score(true: np.ndarray, decoded: np.ndarray) -> np.ndarray:
    """R² of each column: 1 - squared error over squared deviation from the mean.

    Args:
        true: behaviour as recorded, (T, C).
        decoded: behaviour as decoded, in the same unit, (T, C).

    Returns:
        R², 1 at best, (C,); NaN for a constant column.

    Raises:
        ValueError: the two have other shapes.
    """
    if np.shape(true) != np.shape(decoded):  # they would broadcast
        raise ValueError(
            f"true and decoded must have one shape, not {np.shape(true)} and {np.shape(decoded)}."
        )
    true = np.asarray(true, np.float64)
    decoded = np.asarray(decoded, np.float64)
    error = ((true - decoded) ** 2).sum(0)  # (C,)
    deviation = ((true - true.mean(0)) ** 2).sum(0)  # (C,)
    varies = columns_that_vary(true)
    return np.where(varies, 1 - error / np.where(varies, deviation, 1.0), np.nan)


def mean_r2(true: np.ndarray, decoded: np.ndarray) -> float:
    """Mean R² of the columns that vary.

    Args:
        true: behaviour as recorded, (T, C).
        decoded: behaviour as decoded, in the same unit, (T, C).

    Returns:
        The mean; NaN without a sample, if no column varies, or if one of them is decoded as NaN.
    """
    varies = columns_that_vary(true)
    if not varies.any():
        return float("nan")
    return float(r2_score(true, decoded)[varies].mean())


def newest_finished(
    times_s: np.ndarray, bin_width_s: float, lag_s: float = 0.0, at_s=None
) -> np.ndarray:
    """The output that a screen shows at each moment: the newest finished, not of the future.

        j(i) = max { j : t_j <= at_i and end of the bin of t_j <= at_i + lag }

    All times are seconds since the first bin began. Spikes are ahead of the behaviour they are
    paired with by the lag.

    Args:
        times_s: t_j, rising times of the outputs, (T,).
        bin_width_s: width of a bin, seconds.
        lag_s: lag of behaviour behind spikes, seconds.
        at_s: at_i, the moments, (M,); None: the times of the outputs.

    Returns:
        j(i), indices of outputs, (M,); -1 where there is none yet.
    """
    at_s = times_s if at_s is None else at_s
    bin_of_output = bin_index(times_s, bin_width_s)  # (T,)
    running_bin = bin_index(at_s + lag_s, bin_width_s)  # (M,)
    n_finished = np.searchsorted(bin_of_output, running_bin)
    n_not_of_the_future = np.searchsorted(times_s, at_s, side="right")
    return np.minimum(n_finished, n_not_of_the_future) - 1


def evaluate(model: POSSM, session: Session, part: str = "test") -> Decoded:
    """Decode each continuous segment of a part in one causal pass.

    Args:
        model: a POSSM, or a decoder of `decoder.baselines`; it is set to evaluation.
        session: a session of the model.
        part: "train", "valid" or "test".

    Returns:
        The output at every (thinned) behaviour sample, one segment after the other.

    Raises:
        ValueError: the session has other units, columns or classes than the model.
    """
    check_sessions(model, [session])
    model.eval()
    width = session.timeline.bin_width_s
    segments = []
    for start, batch, times, true in _segments(session, part):
        # a screen shows the end of a bin, too: just before it, a time is still in its bin
        ends = width * (np.arange(1, int(batch.n_bins[0]) + 1) - 1e-3)
        asked = np.sort(np.concatenate([times, ends]))
        outputs = _decode_at(model, batch, asked, session)
        decoded = outputs[np.searchsorted(asked, times)]
        displayed = _displayed(outputs, asked, times, session)
        segments.append((times + start, true, decoded, displayed))
    return Decoded(*_joined(segments))


def replay(stream, session: Session, part: str = "test") -> Replay:
    """Feed every bin of a part to a streaming decoder, which is reset before each segment.

    Args:
        stream: a decoder with `reset` and `step`, such as `StreamingDecoder` or `BinnedStream`.
        session: a session of the decoder.
        part: "train", "valid" or "test".

    Returns:
        Each behaviour sample with the output of the slot it lies in, of which also what is
        displayed is chosen; and all outputs, with the duration of each step.
    """
    width = session.timeline.bin_width_s
    segments = []
    outputs = []
    step_us = []
    bins = []
    for start, batch, times, true in _segments(session, part):
        decoded = []
        stream.reset()
        for units, offsets in _spikes_of_bins(batch, width):
            step_start = time.perf_counter()
            _, output = stream.step(units, offsets)  # (n_slots, C)
            step_us.append(1e6 * (time.perf_counter() - step_start))
            decoded.append(output)
        slot_of_sample = bin_index(times, width / len(decoded[-1]))
        at_samples = np.concatenate(decoded)[slot_of_sample]
        displayed = _displayed(at_samples, times, times, session)
        segments.append((times + start, true, at_samples, displayed))
        outputs += decoded
        bins.append(len(decoded))
    return Replay(*_joined(segments), np.concatenate(outputs), np.array(step_us), tuple(bins))


def _spikes_of_bins(
    batch: SpikeBatch, bin_width_s: float
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Of each bin of a batch of one segment: units (K,), and seconds since the bin began (K,)."""
    is_spike = batch.unit > 0  # a stream gets an empty bin instead of a blank token
    unit = batch.unit[is_spike].numpy()
    offset = np.minimum(batch.offset[is_spike].numpy(), np.nextafter(bin_width_s, 0))
    edges = np.searchsorted(batch.bin[is_spike].numpy(), np.arange(1, int(batch.n_bins[0])))
    return zip(np.split(unit, edges), np.split(offset, edges), strict=True)


def _joined(segments: list[tuple[np.ndarray, ...]]) -> list[np.ndarray]:
    """Arrays of all segments, one after the other: times, true, decoded, displayed."""
    return [np.concatenate(arrays) for arrays in zip(*segments, strict=True)]


def slot_offsets(session: Session) -> np.ndarray:
    """Times in a bin at which the samples of the test part usually lie: a stream decodes there.

    Args:
        session: a session with behaviour.

    Returns:
        Seconds since the bin began, (n_slots,).
    """
    timeline = session.timeline
    sample_interval = float(np.median(np.diff(timeline.times)))
    n_slots = max(1, round(timeline.bin_width_s / sample_interval))
    slot = timeline.bin_width_s / n_slots
    since_start = np.concatenate([times for _, _, times, _ in _segments(session, "test")])
    phase = np.median(since_start - slot * bin_index(since_start, slot))
    return np.arange(n_slots) * slot + np.clip(phase, 0, np.nextafter(slot, 0))


def even_offsets(bin_width_s: float) -> np.ndarray:
    """Times in a bin that need no behaviour: from 0 on, 10 ms or less apart.

    Args:
        bin_width_s: width of a bin, seconds.

    Returns:
        Seconds since the bin began, (n_slots,).
    """
    n_slots = int(np.ceil(bin_width_s / 0.01 - 1e-6))
    return np.arange(n_slots) * (bin_width_s / n_slots)


def batch_decode(model: POSSM, session: Session, played: Replay) -> np.ndarray:
    """What the batch form gives at every slot of every bin that a stream has decoded.

    Args:
        model: the decoder that was streamed, as a POSSM.
        session: the session that was replayed.
        played: the replay of its test part, with outputs at `slot_offsets`.

    Returns:
        Decoded behaviour, of the shape of `played.outputs`, (n_bins * n_slots, C).
    """
    offsets = slot_offsets(session)
    decoded = []
    for (_, batch, _, _), n_bins in zip(_segments(session, "test"), played.bins, strict=True):
        starts = np.arange(n_bins)[:, None] * session.timeline.bin_width_s  # (n_bins, 1)
        times = (starts + offsets).ravel()  # (n_bins * n_slots,)
        decoded.append(_decode_at(model, batch, times, session))
    return np.concatenate(decoded)


def _segments(
    session: Session, part: str
) -> Iterator[tuple[float, SpikeBatch, np.ndarray, np.ndarray]]:
    """Of each segment: start (s), batch of one window, times since start (T,), behaviour (T, C)."""
    for start, stop in session.segments(part):
        batch = session.cut(start, stop - start)
        known = batch.mask[0]
        yield start, batch, batch.times_s[0, known].numpy(), batch.behavior[0, known].numpy()


@torch.no_grad()
def _decode_at(
    model: POSSM, batch: SpikeBatch, times_s: np.ndarray, session: Session
) -> np.ndarray:
    """Output of the model for the only window of a batch, (T, C); probabilities of classes."""
    device = model.behavior_mean.device
    query = torch.from_numpy(times_s)[None].to(device)  # (1, T)
    index = torch.full((1,), session.index, device=device)
    decoded = model(batch.to(device), query, index)[0]  # (T, C)
    if decodes_classes(model):
        decoded = decoded.double().softmax(-1)
    return decoded.cpu().numpy()


def _displayed(
    outputs: np.ndarray, times_s: np.ndarray, at_s: np.ndarray, session: Session
) -> np.ndarray:
    """What a screen shows of outputs (T, C) at each `at_s`, (M, C); NaN where it shows none yet."""
    newest = newest_finished(times_s, session.timeline.bin_width_s, session.timeline.lag_s, at_s)
    return np.where(newest[:, None] >= 0, outputs[newest], np.nan)
