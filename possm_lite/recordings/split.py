"""Division of a recording into training, validation and test parts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..errors import RecordingError
from .recording import Recording


@dataclass(frozen=True)
class SplitConfig:
    """How to divide a recording: order and shares, by whole trials or by recorded time. ValueError for others."""

    order: str = (
        "chronological"  # train, then valid, then test; or "random", trials assigned at random
    )
    shares: tuple[float, float, float] = (
        0.7,
        0.1,
        0.2,
    )  # of train, valid and test; above 0, with the sum 1
    seed: int = 0  # of the random order

    def __post_init__(self):
        is_known = self.order in ("chronological", "random")
        if (
            not is_known
            or len(self.shares) != 3
            or min(self.shares) <= 0
            or not abs(sum(self.shares) - 1) <= 1e-9
        ):
            example = "optionally with three shares above 0 that sum to 100, such as chronological:60/20/20"
            raise ValueError(f"split must be chronological or random, {example}, not {self}.")

    @classmethod
    def parse(cls, text: str, seed: int = 0) -> SplitConfig:
        """ "chronological", "random", or either with its shares in percent, as in "chronological:60/20/20"."""
        order, _, percent = text.partition(":")
        return cls(
            order,
            tuple(float(x) / 100 for x in percent.split("/")) if percent else cls.shares,
            seed,
        )

    def __str__(self) -> str:
        return f"{self.order}:{'/'.join(f'{100 * share:.12g}' for share in self.shares)}"

    def apply(self, recording: Recording, bin_width_s: float) -> Split:
        """Assign trials to the parts; without trials, or with fewer than parts, divide the recorded time instead.

        The shares are of the number of trials. RecordingError for a recording too short to divide.
        """
        n = len(recording.trials)
        if n < 3:
            return self._by_time(recording, bin_width_s)
        order = (
            np.random.default_rng(self.seed).permutation(n)
            if self.order == "random"
            else np.arange(n)
        )
        n_train, n_valid = (round(share * n) for share in self.shares[:2])
        first, second = _edges(n_train, n_train + n_valid, n)
        return Split(
            *(recording.trials[np.sort(part)] for part in np.split(order, (first, second)))
        )

    def _by_time(self, recording: Recording, bin_width_s: float) -> Split:
        if self.order == "random":
            raise RecordingError(
                "split random needs 3 trials or more, the recording has fewer; use chronological."
            )
        pieces = recorded_time(recording)
        pieces = pieces[np.diff(pieces)[:, 0] >= bin_width_s]
        n_bins = np.round(np.diff(pieces)[:, 0] / bin_width_s).astype(int)
        before = np.cumsum(n_bins) - n_bins
        total = n_bins.sum()
        if total < 10:
            raise RecordingError(
                f"the recording is too short to split: {total} bins of {bin_width_s:g} s."
            )
        edges = np.array(_edges(*np.round(np.cumsum(self.shares)[:2] * total).astype(int), total))
        piece = np.searchsorted(before, edges, side="right") - 1
        first, second = pieces[piece, 0] + bin_width_s * (edges - before[piece])  # s
        parts = (
            np.clip(pieces, *bounds)
            for bounds in ((-np.inf, first), (first, second), (second, np.inf))
        )
        return Split(*(part[part[:, 0] < part[:, 1]] for part in parts))


@dataclass(frozen=True)
class Split:
    """Start and stop in seconds of the trials, or of the pieces of recorded time, of each part, (n, 2) each."""

    train: np.ndarray
    valid: np.ndarray
    test: np.ndarray


def _edges(first: int, second: int, n: int) -> tuple[int, int]:
    """Where the second and the third of three parts of n begin, moved so that none is empty."""
    first = min(max(first, 1), n - 2)
    return first, min(max(second, first + 1), n - 1)


def elapsed(times: np.ndarray, intervals: np.ndarray) -> np.ndarray:
    """Seconds within intervals (n, 2) before each time, of any shape."""
    total = np.append(0.0, np.cumsum(np.diff(intervals)))
    return np.interp(times, intervals.ravel(), np.stack([total[:-1], total[1:]], 1).ravel())


def segments(intervals: np.ndarray, gap_s: float) -> np.ndarray:
    """Join intervals (n, 2), in order, where the next starts at most `gap_s` after the last stops: (m, 2), m <= n."""
    is_gap = intervals[1:, 0] - intervals[:-1, 1] > gap_s
    return np.stack([intervals[np.r_[True, is_gap], 0], intervals[np.r_[is_gap, True], 1]], 1)


def recorded_time(recording: Recording) -> np.ndarray:
    """Start and stop in seconds of the pieces in which behaviour was recorded, (n, 2); inside the trials, if any.

    Pieces end at pauses, in which behaviour has no sample for longer than a second and ten sample intervals, and at
    the edges of trials.
    """
    times = recording.behavior_times
    trials = recording.trials
    interval = recording.sample_interval
    if len(times) == 0:
        return np.array([recording.span])
    pause = np.flatnonzero(np.diff(times) > max(1.0, 10 * interval))
    pieces = np.stack([times[np.r_[0, pause + 1]], times[np.r_[pause, -1]] + interval], 1)
    if len(trials) == 0:
        return pieces
    pieces += interval * np.array([-2, 1])  # trials begin and end up to two intervals from a sample
    edges = np.unique(np.concatenate([pieces, trials]))
    is_inside = (np.diff(elapsed(edges, pieces)) > 0) & (np.diff(elapsed(edges, trials)) > 0)
    return np.stack([edges[:-1], edges[1:]], 1)[is_inside]
