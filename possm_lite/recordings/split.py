"""Division of a recording into training, validation and test parts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..errors import RecordingError
from .recording import Recording

_ORDERS = ("chronological", "random")


@dataclass(frozen=True)
class SplitConfig:
    """How to divide a recording: order and shares, by whole trials or by recorded time.

    Attributes:
        order: "chronological", which is train, then valid, then test; or "random", trials assigned
            at random.
        shares: of train, valid and test, each above 0; they sum to 1.
        seed: of the random order.

    Raises:
        ValueError: another order, or shares that are not three numbers above 0 with the sum 1.
    """

    order: str = "chronological"
    shares: tuple[float, float, float] = (0.7, 0.1, 0.2)
    seed: int = 0

    def __post_init__(self):
        shares = self.shares
        are_shares = len(shares) == 3 and min(shares) > 0 and abs(sum(shares) - 1) <= 1e-9
        if self.order not in _ORDERS or not are_shares:
            example = (
                "optionally with three shares above 0 that sum to 100, "
                "such as chronological:60/20/20"
            )
            raise ValueError(f"split must be chronological or random, {example}, not {self}.")

    @classmethod
    def parse(cls, text: str, seed: int = 0) -> SplitConfig:
        """The configuration that the option `--split` names.

        Args:
            text: "chronological", "random", or either with its shares in percent, as in
                "chronological:60/20/20".
            seed: of the random order.

        Raises:
            ValueError: another order, or other shares.
        """
        order, _, percent = text.partition(":")
        shares = cls.shares
        if percent:
            shares = tuple(float(x) / 100 for x in percent.split("/"))
        return cls(order, shares, seed)

    def __str__(self) -> str:
        percent = [f"{100 * share:.12g}" for share in self.shares]
        return f"{self.order}:{'/'.join(percent)}"

    def apply(self, recording: Recording, bin_width_s: float) -> Split:
        """Assign trials to the parts; without three trials or more, divide the recorded time.

        The shares are of the number of trials, or of the number of bins.

        Args:
            recording: the session.
            bin_width_s: seconds; recorded time is divided at whole bins.

        Returns:
            Start and stop in seconds of the trials or pieces of each part.

        Raises:
            RecordingError: the recording is too short to divide, or has too few trials for a random
                order.
        """
        n = len(recording.trials)
        if n < 3:
            return self._by_time(recording, bin_width_s)
        order = np.arange(n)
        if self.order == "random":
            order = np.random.default_rng(self.seed).permutation(n)
        n_train, n_valid = (round(share * n) for share in self.shares[:2])
        parts = np.split(order, _edges(n_train, n_train + n_valid, n))
        train, valid, test = (recording.trials[np.sort(part)] for part in parts)
        return Split(train, valid, test)

    def _by_time(self, recording: Recording, bin_width_s: float) -> Split:
        """The recorded time in three parts, one after the other, divided at whole bins."""
        if self.order == "random":
            raise RecordingError(
                "split random needs 3 trials or more, the recording has fewer; use chronological."
            )
        pieces = recorded_time(recording)
        pieces = pieces[np.diff(pieces)[:, 0] >= bin_width_s]
        n_bins = np.round(np.diff(pieces)[:, 0] / bin_width_s).astype(int)  # of each piece
        before = np.cumsum(n_bins) - n_bins  # bins before each piece
        total = n_bins.sum()
        if total < 10:
            raise RecordingError(
                f"the recording is too short to split: {total} bins of {bin_width_s:g} s."
            )
        n_train, n_train_valid = np.round(np.cumsum(self.shares)[:2] * total).astype(int)
        edges = np.array(_edges(n_train, n_train_valid, total))  # in bins
        piece = np.searchsorted(before, edges, side="right") - 1  # in which each edge is
        first, second = pieces[piece, 0] + bin_width_s * (edges - before[piece])  # s
        return Split(
            train=_within(pieces, -np.inf, first),
            valid=_within(pieces, first, second),
            test=_within(pieces, second, np.inf),
        )


@dataclass(frozen=True)
class Split:
    """The parts of a recording: start and stop of their trials, or of pieces of recorded time.

    Attributes:
        train: of the training part, seconds, shape (n, 2).
        valid: of the validation part, seconds, shape (n, 2).
        test: of the test part, seconds, shape (n, 2).
    """

    train: np.ndarray
    valid: np.ndarray
    test: np.ndarray


def _edges(first: int, second: int, n: int) -> tuple[int, int]:
    """Where the second and the third of three parts of n begin, moved so that none is empty."""
    first = min(max(first, 1), n - 2)
    second = min(max(second, first + 1), n - 1)
    return first, second


def _within(intervals: np.ndarray, start: float, stop: float) -> np.ndarray:
    """What of intervals (n, 2) lies between start and stop, (m, 2), m <= n."""
    clipped = np.clip(intervals, start, stop)
    return clipped[clipped[:, 0] < clipped[:, 1]]


def elapsed(times: np.ndarray, intervals: np.ndarray) -> np.ndarray:
    """Seconds within intervals before each time.

    Args:
        times: seconds, of any shape.
        intervals: start and stop in seconds, in order, not overlapping, (n, 2).

    Returns:
        Seconds, shape of `times`.
    """
    total = np.append(0.0, np.cumsum(np.diff(intervals)))
    at_edges = np.column_stack([total[:-1], total[1:]])  # (n, 2)
    return np.interp(times, intervals.ravel(), at_edges.ravel())


def segments(intervals: np.ndarray, gap_s: float) -> np.ndarray:
    """Intervals, joined where the next starts at most `gap_s` seconds after the last stops.

    Args:
        intervals: start and stop in seconds, in order, (n, 2).
        gap_s: the longest gap within a segment, seconds.

    Returns:
        Start and stop of the segments, (m, 2), m <= n.
    """
    starts, stops = intervals.T
    gap_before = starts[1:] - stops[:-1] > gap_s
    is_first = np.concatenate([[True], gap_before])
    is_last = np.concatenate([gap_before, [True]])
    return np.column_stack([starts[is_first], stops[is_last]])


def recorded_time(recording: Recording) -> np.ndarray:
    """The pieces of time in which behaviour of a `recording` was recorded; inside trials, if any.

    Pieces end at pauses, in which behaviour has no sample for longer than a second and ten sample
    intervals, and at the edges of trials. Of spikes alone, the span is one piece.

    Returns:
        Start and stop in seconds, (n, 2).
    """
    times = recording.behavior_times
    trials = recording.trials
    if len(times) == 0:
        return np.array([recording.span])
    interval = recording.sample_interval
    pause_after = np.flatnonzero(np.diff(times) > max(1.0, 10 * interval))
    first = np.append(0, pause_after + 1)  # sample of each piece
    last = np.append(pause_after, len(times) - 1)
    pieces = np.column_stack([times[first], times[last] + interval])
    if len(trials) == 0:
        return pieces
    pieces += interval * np.array([-2, 1])  # trials begin and end up to two intervals from a sample
    edges = np.unique(np.concatenate([pieces, trials]))
    in_piece = np.diff(elapsed(edges, pieces)) > 0
    in_trial = np.diff(elapsed(edges, trials)) > 0
    return np.column_stack([edges[:-1], edges[1:]])[in_piece & in_trial]
