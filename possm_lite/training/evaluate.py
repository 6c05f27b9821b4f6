"""Decode a part of a session causally and score it: in one pass, or bin by bin through a streaming decoder."""

import time
from dataclasses import dataclass

import numpy as np
import torch

from ..decoder.possm import POSSM
from ..errors import RecordingError
from .session import Session


@dataclass(frozen=True)
class Decoded:
    """True and decoded behaviour at the same times."""

    times_s: np.ndarray  # on the clock of behaviour, (T,)
    true: np.ndarray  # in the unit of the recording, (T, C)
    decoded: np.ndarray  # likewise

    @property
    def r2_columns(self) -> tuple[float, ...]:
        """R² of each column, NaN for a constant one."""
        return tuple(float(r) for r in r2_score(self.true, self.decoded))

    @property
    def r2(self) -> float:
        """Mean R² of the columns that vary, NaN if none does."""
        scores = [r2 for r2 in self.r2_columns if not np.isnan(r2)]
        return float(np.mean(scores)) if scores else float("nan")


@dataclass(frozen=True)
class Replay(Decoded):
    """Output of a streaming decoder and its latency; true velocity is interpolated to the times of the output."""

    step_us: np.ndarray  # microseconds per bin, (n_bins,)
    bins: tuple[int, ...]  # number of bins of each segment

    def percentile_us(self, q: float) -> float:
        return float(np.percentile(self.step_us, q))


def r2_score(true: np.ndarray, decoded: np.ndarray) -> np.ndarray:
    """1 - squared error over squared deviation from the mean, for each column; NaN for a constant column."""
    residual = ((true - decoded) ** 2).sum(0)
    deviation = ((true - true.mean(0)) ** 2).sum(0)
    return np.where(deviation > 0, 1 - residual / np.where(deviation > 0, deviation, 1), np.nan)


@torch.no_grad()
def evaluate(model: POSSM, session: Session, part: str = "test") -> Decoded:
    """Decode each continuous segment of a part, "train", "valid" or "test", in one causal pass.

    For a model of several sessions, `session` is from `combine_sessions`. Returns the output at every (thinned)
    behaviour sample of the part, and with it R².
    """
    model.eval()
    segments, device = [], model.behavior_mean.device
    for start, stop in session.segments(part):
        batch = session.cut(start, stop - start).to(device)
        decoded = model(batch, batch.times_s, torch.full((1,), session.index, device=device))
        times, true, decoded = (x[0][batch.mask[0]].cpu().numpy() for x in (batch.times_s, batch.behavior, decoded))
        segments.append((times + start, true, decoded))
    return Decoded(*(np.concatenate(column) for column in zip(*segments, strict=True)))


def replay(stream, session: Session, part: str = "test") -> Replay:
    """Feed every bin of a part to `stream.step`; the stream is reset before each continuous segment.

    The rest of a segment after its last whole bin is not played. RecordingError if none is as long as a bin.
    """
    timeline, bins = session.timeline, session.whole_bins(part)
    outputs, step_us = [], []
    for start, n_bins in bins:
        if n_bins == 0:
            continue
        batch = timeline.cut(start, n_bins * timeline.bin_width_s)
        spikes = batch.unit > 0  # a stream gets an empty bin instead of a blank token
        unit, offset, bin_index = (x[spikes].numpy() for x in (batch.unit, batch.offset, batch.bin))
        offset = np.minimum(offset, np.nextafter(timeline.bin_width_s, 0))
        edges = np.searchsorted(bin_index, np.arange(n_bins + 1))
        stream.reset()
        for first, stop in zip(edges[:-1], edges[1:], strict=True):
            step_start = time.perf_counter()
            times, decoded = stream.step(unit[first:stop], offset[first:stop])
            step_us.append(1e6 * (time.perf_counter() - step_start))
            outputs.append((start + times, decoded))
    if not outputs:
        raise RecordingError(f"the {part} part has no segment as long as a bin of {timeline.bin_width_s} s.")
    times, decoded = (np.concatenate(column) for column in zip(*outputs, strict=True))
    clock = timeline.times + timeline.lag_s
    true = np.stack([np.interp(times, clock, v) for v in timeline.behavior.T], 1)
    return Replay(times, true, decoded, np.array(step_us), tuple(n_bins for _, n_bins in bins))


def slot_offsets(session: Session) -> np.ndarray:
    """Times in a bin at which a streaming decoder decodes: as many as a bin usually has behaviour samples."""
    width = session.timeline.bin_width_s
    n_slots = max(1, round(width / float(np.median(np.diff(session.timeline.times)))))
    return np.arange(n_slots) * (width / n_slots)


@torch.no_grad()
def batch_decode(model: POSSM, session: Session, played: Replay, part: str = "test") -> np.ndarray:
    """Output of the batch form of the model at the times of a replay, (T, C)."""
    offsets, width = torch.from_numpy(slot_offsets(session)), session.timeline.bin_width_s
    assert len(played.times_s) == len(offsets) * sum(played.bins)
    decoded = []
    for start, n_bins in session.whole_bins(part):
        if n_bins:
            batch = session.timeline.cut(start, n_bins * width)
            times = (torch.arange(n_bins, dtype=torch.float64)[:, None] * width + offsets).reshape(1, -1)
            decoded.append(model(batch, times, torch.ones(1, dtype=torch.int64))[0].numpy())
    return np.concatenate(decoded)
