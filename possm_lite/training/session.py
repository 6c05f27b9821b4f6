"""A recording made ready for training: paired, split, standardised."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..spikes.recording import Recording
from ..spikes.split import Parts, Split, stretches
from ..spikes.timeline import Timeline


@dataclass(frozen=True)
class Session:
    """What a model is trained and tested on. Made by `prepare`.

    Args:
        timeline: spikes and behaviour on one clock.
        split: how it was divided.
        parts: trials (or the stretch of time) of each part.
        mean, std: of velocity in the training part, (2,) each.
    """

    timeline: Timeline
    split: Split
    parts: Parts
    mean: np.ndarray
    std: np.ndarray

    @property
    def recording(self) -> Recording:
        return self.timeline.recording

    def stretches(self, part: str) -> np.ndarray:
        """Continuous stretches of a part, (n, 2) in seconds: neighbouring trials in one piece."""
        return stretches(getattr(self.parts, part), gap_s=1e-3)


def prepare(
    recording: Recording,
    split: str | Split = "chronological",
    lag_s: float = 0.0,
    bin_width_s: float = 0.05,
    seed: int = 0,
) -> Session:
    """Pair behaviour with spikes, split, and take mean and standard deviation of velocity from the training part.

    Args:
        recording: the session.
        split: see `Split.parse`.
        lag_s: how much later the behaviour is than the spikes it is paired with, seconds.
        bin_width_s: seconds.
        seed: of a random split.

    Raises:
        RecordingError: if the recording cannot be divided so.
    """
    split = Split.parse(split, seed) if isinstance(split, str) else split
    timeline = Timeline(recording, lag_s, bin_width_s)
    parts = split.apply(recording, bin_width_s)
    clock = timeline.times + timeline.lag_s
    inside = np.zeros(len(clock), dtype=bool)
    for start, stop in parts.train:
        inside |= (clock >= start) & (clock < stop)
    velocity = timeline.velocity[inside]
    # a hand that never moves along one axis has no spread to divide by
    std = velocity.std(0)
    return Session(timeline, split, parts, velocity.mean(0), np.where(std > 0, std, 1.0))
