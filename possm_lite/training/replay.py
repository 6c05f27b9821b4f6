"""Play a part of a recording to a streaming decoder, bin by bin, with a stopwatch."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
import torch

from ..decoder.possm import POSSM
from ..errors import RecordingError
from .evaluate import r2_score
from .session import Session


@dataclass(frozen=True)
class Replay:
    """What a streaming decoder answered, and how fast.

    Args:
        times_s: of the answers, on the clock of behaviour, (T,).
        velocity: answers, (T, 2).
        true: velocity recorded, interpolated to the same times, (T, 2).
        step_us: microseconds each bin took, (n_bins,).
        bins: number of bins of each stretch.
    """

    times_s: np.ndarray
    velocity: np.ndarray
    true: np.ndarray
    step_us: np.ndarray
    bins: tuple[int, ...]

    @property
    def r2(self) -> float:
        return float(r2_score(self.true, self.velocity).mean())

    def percentile_us(self, q: float) -> float:
        return float(np.percentile(self.step_us, q))


def replay(stream, session: Session, part: str = "test") -> Replay:
    """Feed every bin of a part to `stream.step`; the stream is reset before each continuous stretch.

    A stretch is played in whole bins; what is left at its end, less than a bin, is not played.

    Raises:
        RecordingError: if no stretch of the part holds a bin.
    """
    pieces, bins = [], []
    for start, stop in session.segments(part):
        n_bins = int(np.floor((stop - start) / session.timeline.bin_width_s + 1e-6))
        bins.append(n_bins)
        if n_bins:
            pieces.append(_replay_stretch(stream, session, start, n_bins))
    if not pieces:
        raise RecordingError(f"the {part} part has no stretch as long as a bin of {session.timeline.bin_width_s} s.")
    times, velocity, true, step_us = (np.concatenate(column) for column in zip(*pieces, strict=True))
    return Replay(times, velocity, true, step_us, tuple(bins))


def slot_offsets(session: Session) -> np.ndarray:
    """Times in a bin at which a streaming decoder is asked: as many as the bin usually holds behaviour samples."""
    width = session.timeline.bin_width_s
    n_slots = max(1, round(width / float(np.median(np.diff(session.timeline.times)))))
    return np.arange(n_slots) * (width / n_slots)


@torch.no_grad()
def batch_decode(model: POSSM, session: Session, played: Replay, part: str = "test") -> np.ndarray:
    """What the batch form of the model answers at the times of a replay, (T, 2)."""
    answers, width = [], session.timeline.bin_width_s
    n_answers = len(played.times_s) // sum(played.bins)  # per bin
    offsets = torch.from_numpy(slot_offsets(session))
    assert n_answers == len(offsets)
    for (start, _), n_bins in zip(session.segments(part), played.bins, strict=True):
        if not n_bins:
            continue
        batch = session.timeline.cut(start, n_bins * width)
        times = (torch.arange(n_bins, dtype=torch.float64)[:, None] * width + offsets).reshape(1, -1)
        answers.append(model(batch, times, torch.ones(1, dtype=torch.int64))[0].numpy())
    return np.concatenate(answers)


def _replay_stretch(stream, session: Session, start: float, n_bins: int):
    timeline = session.timeline
    batch = timeline.cut(start, n_bins * timeline.bin_width_s)
    unit, offset, bins = (x.numpy() for x in (batch.unit, batch.offset, batch.bin))
    spikes = unit > 0  # a stream is told of silence by an empty bin, not by a blank token
    unit, offset = unit[spikes], np.minimum(offset[spikes], np.nextafter(timeline.bin_width_s, 0))
    edges = np.searchsorted(bins[spikes], np.arange(n_bins + 1))
    times, velocity, step_us = [], [], np.empty(n_bins)
    stream.reset()
    for i in range(n_bins):
        of_bin = slice(edges[i], edges[i + 1])
        began = time.perf_counter()
        asked, answer = stream.step(unit[of_bin], offset[of_bin])
        step_us[i] = 1e6 * (time.perf_counter() - began)
        times.append(asked)
        velocity.append(answer)
    times = np.concatenate(times) + start
    clock = timeline.times + timeline.lag_s
    true = np.stack([np.interp(times, clock, v) for v in timeline.velocity.T], 1)
    return times, np.concatenate(velocity), true, step_us
