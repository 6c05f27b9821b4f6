"""A recording on the clock of its spikes, from which batches are cut."""

import numpy as np

from .batch import SpikeBatch, bin_index
from .recording import Recording

_MAX_RATE_HZ = 100.0


class Timeline:
    """Spikes and behaviour on one clock, behaviour shifted back by the lag and subsampled.

    A sample of behaviour at time t is paired with spikes at t - lag. Behaviour is subsampled, never
    interpolated: faster than 100 Hz, it is reduced to every n-th sample.

    Args:
        recording: the session.
        lag_s: how much later the behaviour is than the spikes it is paired with, seconds.
        bin_width_s: width of a bin of spikes, seconds.

    Attributes:
        recording: the session.
        lag_s: the lag, seconds.
        bin_width_s: the width of a bin, seconds.
        spike_times: seconds, shape (N,).
        spike_units: the unit of each spike, from 1, as 0 is the blank token, shape (N,).
        times: of the samples of behaviour that are kept, seconds minus the lag, shape (T,).
        behavior: at these times, shape (T, C).

    Raises:
        ValueError: the bin width is not positive.
    """

    def __init__(self, recording: Recording, lag_s: float = 0.0, bin_width_s: float = 0.05):
        if not bin_width_s > 0:
            raise ValueError(f"bin_width_s must be positive, not {bin_width_s}.")
        self.recording = recording
        self.lag_s = float(lag_s)
        self.bin_width_s = float(bin_width_s)
        self.spike_times = recording.spike_times
        self.spike_units = recording.spike_units + 1
        stride = 1
        if len(recording.behavior_times):
            stride = max(1, int(np.ceil(1 / (recording.sample_interval * _MAX_RATE_HZ) - 1e-3)))
        self.times = recording.behavior_times[::stride] - self.lag_s
        self.behavior = recording.behavior[::stride]

    def cut(self, starts, duration_s: float, keep_unit: np.ndarray | None = None) -> SpikeBatch:
        """Windows of one length as a batch of B trials with targets.

        Args:
            starts: start of each window, seconds on the unshifted clock of behaviour, shape (B,).
            duration_s: of every window, seconds.
            keep_unit: False where the spikes of a unit are dropped from a window, bool, shape
                (B, U); None keeps all.

        Returns:
            The spikes in bins; behaviour at seconds from the start of each window, (B, Q, C),
            padded to the window with most samples.
        """
        starts = np.atleast_1d(np.asarray(starts, dtype=np.float64)) - self.lag_s
        window, index = self._ranges(self.spike_times, starts, duration_s)
        if keep_unit is not None:
            kept = keep_unit[window, self.spike_units[index] - 1]
            window, index = window[kept], index[kept]
        time = np.maximum(self.spike_times[index] - starts[window], 0.0)
        unit = self.spike_units[index]
        batch = SpikeBatch.from_events(
            window, unit, time, len(starts), duration_s, self.bin_width_s
        )
        return batch.with_targets(*self._targets(starts, duration_s))

    def counts(self, start: float, n_bins: int) -> np.ndarray:
        """Spikes per bin and unit.

        Args:
            start: of the first bin, seconds on the unshifted clock of behaviour.
            n_bins: how many bins.

        Returns:
            Counts, shape (n_bins, U), int64.
        """
        start = start - self.lag_s
        _, index = self._ranges(self.spike_times, np.array([start]), n_bins * self.bin_width_s)
        bins = np.maximum(bin_index(self.spike_times[index] - start, self.bin_width_s), 0)
        counts = np.zeros((n_bins, self.recording.n_units), dtype=np.int64)
        np.add.at(counts, (bins, self.spike_units[index] - 1), 1)
        return counts

    def _targets(self, starts: np.ndarray, duration_s: float):
        """Times from each window's start (B, Q), behaviour (B, Q, C) and mask (B, Q), padded."""
        window, index = self._ranges(self.times, starts, duration_s)
        n_samples = np.bincount(window, minlength=len(starts))  # (B,)
        # (B, Q), and its True places in the order of `window` and `index`
        mask = np.arange(n_samples.max(initial=1)) < n_samples[:, None]
        times = np.zeros(mask.shape)
        times[mask] = np.maximum(self.times[index] - starts[window], 0.0)
        behavior = np.zeros((*mask.shape, self.recording.n_columns))
        behavior[mask] = self.behavior[index]
        return times, behavior, mask

    def _ranges(
        self, times: np.ndarray, starts: np.ndarray, duration_s: float
    ) -> tuple[np.ndarray, np.ndarray]:
        """Window and index of every time with start <= time < start + duration, window by window.

        The times, (T,), are sorted. A time less than a microsecond below an edge counts as on it:
        finer than any clock, coarser than the rounding of the subtraction. In bins longer than a
        second it is as much as in `bin_index`.
        """
        tolerance_s = 1e-6 * max(self.bin_width_s, 1.0)
        first = np.searchsorted(times, starts - tolerance_s)
        stop = np.searchsorted(times, starts + duration_s - tolerance_s)
        index = [np.arange(a, b) for a, b in zip(first, stop, strict=True)]
        window = np.repeat(np.arange(len(starts)), [len(of_window) for of_window in index])
        return window, np.concatenate(index)
