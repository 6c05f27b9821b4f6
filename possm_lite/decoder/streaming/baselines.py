"""The baselines in real time, in NumPy, so that the table of latencies compares like with like."""

from __future__ import annotations

import numpy as np
import torch

from ..baselines import BinnedDecoder, BinnedGRU, WienerFilter
from .decoder import checked_spikes
from .precompute import backbone_constants, to_numpy


class _BinnedStream:
    """A decoder of binned counts, fed one bin at a time; a subclass sets up its `_decode`."""

    def __init__(self, model: BinnedDecoder):
        self._n_units, self._n_slots, self._width = model.n_units, model.n_slots, model.bin_width_s
        self._mean, self._std = to_numpy((model.velocity_mean[1], model.velocity_std[1]), torch.float32)
        self._slots_s = np.arange(model.n_slots) * (model.bin_width_s / model.n_slots)
        self.reset()

    def reset(self):
        """Back to before the first bin."""
        self._n_bins = 0

    def step(self, units, offsets) -> tuple[np.ndarray, np.ndarray]:
        """One bin, as `StreamingDecoder.step`; only the number of spikes of each unit matters.

        Returns:
            times of the slots in seconds since the first bin began, (n_slots,), and velocity there, (n_slots, 2).

        Raises:
            ValueError: for spikes that do not fit; the stream is then as it was before the call.
        """
        units, _ = checked_spikes(units, offsets, self._n_units, self._width)
        counts = np.sqrt(np.bincount(units, minlength=self._n_units + 1)[1:], dtype=np.float32)
        velocity = self._mean + self._std * self._decode(counts).reshape(self._n_slots, 2)
        times = self._n_bins * self._width + self._slots_s
        self._n_bins += 1
        return times, velocity


class WienerStream(_BinnedStream):
    def __init__(self, model: WienerFilter):
        self._weight, self._offset = to_numpy((model.weight, model.offset), torch.float32)
        super().__init__(model)

    def reset(self):
        super().reset()
        self._history = np.zeros(len(self._weight), np.float32)

    def _decode(self, counts: np.ndarray) -> np.ndarray:
        self._history = np.concatenate([self._history[self._n_units :], counts])  # oldest bin first
        return self._history @ self._weight + self._offset


class GRUStream(_BinnedStream):
    def __init__(self, model: BinnedGRU):
        readout = model.readout.weight.T, model.readout.bias
        backbone = backbone_constants(model.backbone, torch.zeros(model.n_units))
        self._backbone, self._readout = to_numpy((backbone, readout), torch.float32)
        super().__init__(model)

    def reset(self):
        super().reset()
        self._state = self._backbone.start()

    def _decode(self, counts: np.ndarray) -> np.ndarray:
        hidden, self._state = self._backbone.step(counts, self._state)
        return hidden.dot(self._readout[0]) + self._readout[1]
