"""Division of a recording into training, validation and test parts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..errors import RecordingError
from .recording import Recording

_ORDERS = ("chronological", "random")


@dataclass(frozen=True)
class SplitConfig:
    """How to divide a recording: order and shares, by whole trials.

    Args:
        order: "chronological" (train, then valid, then test) or "random" (trials assigned at random).
        shares: of train, valid and test; they sum to one.
        seed: of the random order.
    """

    order: str = "chronological"
    shares: tuple[float, float, float] = (0.7, 0.1, 0.2)
    seed: int = 0

    @classmethod
    def parse(cls, text: str, seed: int = 0) -> SplitConfig:
        """ "chronological", "random", or either with its shares in percent, as in "chronological:60/20/20"."""
        order, _, percent = text.partition(":")
        try:
            shares = tuple(float(x) / 100 for x in percent.split("/")) if percent else cls.shares
        except ValueError:
            shares = ()
        if order not in _ORDERS or len(shares) != 3 or not min(shares) > 0 or not abs(sum(shares) - 1) <= 1e-9:
            raise ValueError(
                f"split must be chronological or random, optionally with three shares above 0 that sum to 100 instead "
                f"of 70/10/20, such as chronological:60/20/20, not {text!r}."
            )
        return cls(order, shares, seed)

    def __str__(self) -> str:
        return f"{self.order}:{'/'.join(f'{100 * share:g}' for share in self.shares)}"

    def apply(self, recording: Recording, bin_width_s: float) -> Split:
        """Assign trials to the parts; without trials, or with fewer than parts, divide the time instead.

        Raises:
            RecordingError: for a trial shorter than a bin, or a recording too short to divide.
        """
        lengths = np.diff(recording.trials)[:, 0]
        for i in np.flatnonzero(lengths < bin_width_s * (1 - 1e-6))[:1]:
            raise RecordingError(
                f"trials must be at least a bin long: trials[{i}] lasts {lengths[i]:.6f} s, a bin {bin_width_s} s. "
                "Remove it, or choose a smaller bin width."
            )
        if len(recording.trials) < len(self.shares):
            return self._by_time(recording, bin_width_s)
        order = np.arange(len(recording.trials))
        if self.order == "random":
            order = np.random.default_rng(self.seed).permutation(order)
        n = len(order)
        train = min(max(round(self.shares[0] * n), 1), n - 2)
        valid = min(max(round(self.shares[1] * n), 1), n - train - 1)
        parts = np.split(order, [train, train + valid])
        return Split(*(recording.trials[np.sort(part)] for part in parts))

    def _by_time(self, recording: Recording, bin_width_s: float) -> Split:
        if self.order == "random":
            raise RecordingError(
                f"split random needs at least {len(self.shares)} trials, the recording has {len(recording.trials)}; "
                "use chronological."
            )
        start, stop = recording.span
        n_bins = int(round((stop - start) / bin_width_s))
        if n_bins < 10:
            raise RecordingError(f"the recording is too short to split: {stop - start:.3f} s.")
        edges = start + bin_width_s * np.round(np.cumsum((0.0, *self.shares)) * n_bins)
        edges[-1] = stop
        trials = recording.trials if len(recording.trials) else np.array([[start, stop]])
        clipped = [np.clip(trials, *edges[i : i + 2]) for i in range(3)]
        split = Split(*(part[part[:, 1] > part[:, 0]] for part in clipped))
        for name, part in vars(split).items():
            if len(part) == 0:
                raise RecordingError(
                    f"split {self} leaves the {name} part empty: the recording has {stop - start:.3f} s."
                )
        return split


@dataclass(frozen=True)
class Split:
    """Start and stop in seconds of the trials (or the one segment of time) of each part, (n, 2) each."""

    train: np.ndarray
    valid: np.ndarray
    test: np.ndarray


def segments(intervals: np.ndarray, gap_s: float) -> np.ndarray:
    """Join intervals (n, 2), in order, where the next starts at most `gap_s` after the last stops: (m, 2), m <= n."""
    is_gap = intervals[1:, 0] - intervals[:-1, 1] > gap_s
    return np.stack([intervals[np.r_[True, is_gap], 0], intervals[np.r_[is_gap, True], 1]], 1)
