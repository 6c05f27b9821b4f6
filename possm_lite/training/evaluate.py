"""Decode a part of a session causally and score it: in one pass, or bin by bin through a streaming decoder."""

import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch

from ..decoder.possm import POSSM
from ..recordings.batch import SpikeBatch, bin_index
from .session import Session, check_sessions, columns_that_vary


@dataclass(frozen=True)
class Decoded:
    """True and decoded behaviour at the same times."""

    times_s: np.ndarray  # on the clock of behaviour, (T,)
    true: np.ndarray  # in the unit of the recording, (T, C)
    decoded: np.ndarray
    displayed: (
        np.ndarray
    )  # what a screen shows at these times, see `newest_finished`; NaN before the first output

    @property
    def r2_columns(self) -> tuple[float, ...]:
        return tuple(r2_score(self.true, self.decoded).tolist())

    @property
    def r2(self) -> float:
        return mean_r2(self.true, self.decoded)

    @property
    def r2_displayed(self) -> float:
        """Of what a screen shows at the moment: an output is shown once its bin is over."""
        shown = ~np.isnan(self.displayed[:, 0])
        return mean_r2(self.true[shown], self.displayed[shown])


@dataclass(frozen=True)
class Replay(Decoded):
    """Output of a streaming decoder, at the samples that `evaluate` decodes and as it came."""

    outputs: np.ndarray  # at every slot of every bin, (n_bins * n_slots, C)
    step_us: np.ndarray  # microseconds per bin, (n_bins,)
    bins: tuple[int, ...]  # number of bins of each segment


def r2_score(true: np.ndarray, decoded: np.ndarray) -> np.ndarray:
    """1 - squared error over squared deviation from the mean: (T, C) to (C,); NaN for a constant column."""
    if np.shape(true) != np.shape(decoded):  # they would broadcast
        raise ValueError(
            f"true and decoded must have one shape, not {np.shape(true)} and {np.shape(decoded)}."
        )
    true = np.asarray(true, np.float64)
    residual = ((true - np.asarray(decoded, np.float64)) ** 2).sum(0)
    varies = columns_that_vary(true)
    deviation = np.where(varies, ((true - true.mean(0)) ** 2).sum(0), 1.0)
    return np.where(varies, 1 - residual / deviation, np.nan)


def mean_r2(true: np.ndarray, decoded: np.ndarray) -> float:
    """Mean R² of the columns that vary; NaN without a sample, if none varies, or if one of them is decoded as NaN."""
    varies = columns_that_vary(true)
    return float(r2_score(true, decoded)[varies].mean()) if varies.any() else float("nan")


def newest_finished(
    times_s: np.ndarray, bin_width_s: float, lag_s: float = 0.0, at_s=None
) -> np.ndarray:
    """The output that a screen shows at each moment: the newest one that is finished, and not of the future.

        j(i) = max { j : t_j <= at_i and end of the bin of t_j <= at_i + lag }

    Spikes are `lag_s` ahead of the behaviour they are paired with. The rising `times_s` of the outputs (T,) and the
    moments `at_s` (M,), by default the same, are seconds since the first bin began. Returns indices (M,), -1 for none.
    """
    at_s = times_s if at_s is None else at_s
    n_finished = np.searchsorted(
        bin_index(times_s, bin_width_s), bin_index(at_s + lag_s, bin_width_s)
    )
    return np.minimum(n_finished, np.searchsorted(times_s, at_s, side="right")) - 1


def evaluate(model: POSSM, session: Session, part: str = "test") -> Decoded:
    """Decode each continuous segment of a part, "train", "valid" or "test", in one causal pass.

    Returns the output at every (thinned) behaviour sample. For what is displayed, ends of bins are asked for, too.
    """
    check_sessions(model, [session])
    model.eval()
    segments = []
    for start, batch, times, true in _segments(session, part):
        ends = session.timeline.bin_width_s * (
            np.arange(1, int(batch.n_bins[0]) + 1) - 1e-3
        )  # still in their bins
        asked = np.sort(np.concatenate([times, ends]))
        outputs = _decode_at(model, batch, asked, session)
        decoded = outputs[np.searchsorted(asked, times)]
        segments.append((times + start, true, decoded, _displayed(outputs, asked, times, session)))
    return Decoded(*map(np.concatenate, zip(*segments, strict=True)))


def replay(stream, session: Session, part: str = "test") -> Replay:
    """Feed every bin of a part to `stream.step`; the stream is reset before each continuous segment.

    Each sample gets the output of the slot it lies in; what is displayed is chosen of these.
    """
    width = session.timeline.bin_width_s
    segments, outputs, step_us, bins = [], [], [], []
    for start, batch, times, true in _segments(session, part):
        n_bins = int(batch.n_bins[0])
        spikes = batch.unit > 0  # a stream gets an empty bin instead of a blank token
        offset = np.minimum(batch.offset[spikes].numpy(), np.nextafter(width, 0))
        edges = np.searchsorted(batch.bin[spikes].numpy(), np.arange(1, n_bins))
        units_of_bin = np.split(batch.unit[spikes].numpy(), edges)
        decoded = []
        stream.reset()
        for units, offsets in zip(units_of_bin, np.split(offset, edges), strict=True):
            step_start = time.perf_counter()
            decoded.append(stream.step(units, offsets)[1])
            step_us.append(1e6 * (time.perf_counter() - step_start))
        at_samples = np.concatenate(decoded)[bin_index(times, width / len(decoded[-1]))]
        segments.append(
            (times + start, true, at_samples, _displayed(at_samples, times, times, session))
        )
        outputs += decoded
        bins.append(n_bins)
    columns = map(np.concatenate, (*zip(*segments, strict=True), outputs))
    return Replay(*columns, np.array(step_us), tuple(bins))


def slot_offsets(session: Session) -> np.ndarray:
    """Times in a bin, (n_slots,), at which the samples of the test part usually lie: a stream decodes there."""
    timeline = session.timeline
    n_slots = max(1, round(timeline.bin_width_s / float(np.median(np.diff(timeline.times)))))
    slot = timeline.bin_width_s / n_slots
    since_start = np.concatenate([times for _, _, times, _ in _segments(session, "test")])
    phase = np.median(since_start - slot * bin_index(since_start, slot))
    return np.arange(n_slots) * slot + np.clip(phase, 0, np.nextafter(slot, 0))


def even_offsets(bin_width_s: float) -> np.ndarray:
    """Times in a bin, (n_slots,), that need no behaviour: from 0 on, 10 ms or less apart."""
    n_slots = int(np.ceil(bin_width_s / 0.01 - 1e-6))
    return np.arange(n_slots) * (bin_width_s / n_slots)


def batch_decode(model: POSSM, session: Session, played: Replay) -> np.ndarray:
    """What the batch form gives for `played.outputs`, a replay of the test part."""
    offsets = slot_offsets(session)
    decoded = []
    for (_, batch, _, _), n_bins in zip(_segments(session, "test"), played.bins, strict=True):
        times = (np.arange(n_bins)[:, None] * session.timeline.bin_width_s + offsets).ravel()
        decoded.append(_decode_at(model, batch, times, session))
    return np.concatenate(decoded)


def _segments(
    session: Session, part: str
) -> Iterator[tuple[float, SpikeBatch, np.ndarray, np.ndarray]]:
    """Of each continuous segment: start (s), batch of one trial, times since start (T,), behaviour (T, C)."""
    for start, stop in session.segments(part):
        batch = session.cut(start, stop - start)
        known = batch.mask[0]
        yield start, batch, batch.times_s[0, known].numpy(), batch.behavior[0, known].numpy()


@torch.no_grad()
def _decode_at(
    model: POSSM, batch: SpikeBatch, times_s: np.ndarray, session: Session
) -> np.ndarray:
    """Output of the model for the only trial of a batch, (T, C)."""
    device = model.behavior_mean.device
    query = torch.from_numpy(times_s)[None].to(device)
    return (
        model(batch.to(device), query, torch.full((1,), session.index, device=device))[0]
        .cpu()
        .numpy()
    )


def _displayed(
    outputs: np.ndarray, times_s: np.ndarray, at_s: np.ndarray, session: Session
) -> np.ndarray:
    """Of `outputs` (T, C) at `times_s`, what a screen shows at `at_s`, (M, C); NaN where nothing is shown yet."""
    newest = newest_finished(times_s, session.timeline.bin_width_s, session.timeline.lag_s, at_s)
    return np.where(newest[:, None] >= 0, outputs[newest], np.nan)
