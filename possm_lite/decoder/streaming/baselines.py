"""The baselines in real time, in NumPy, so that the table of latencies compares like with like."""

import numpy as np
import torch

from ..baselines import BinnedDecoder, BinnedGRU, WienerFilter
from .decoder import checked_spikes
from .precompute import backbone_constants, to_numpy


class _BinnedStream:
    """A decoder of binned counts, fed one bin at a time; a subclass gives its constants, first state and `_decode`."""

    def __init__(self, model: BinnedDecoder, *constants):
        self._n_units, self._width = model.n_units, model.bin_width_s
        self._mean, self._std, *self._constants = to_numpy(
            (model.behavior_mean[1], model.behavior_std[1], *constants), torch.float32
        )
        self._slots_s = np.arange(model.n_slots) * (model.bin_width_s / model.n_slots)
        self.reset()

    def reset(self):
        """Back to before the first bin."""
        self._n_bins, self._state = 0, self._start()

    def step(self, units, offsets) -> tuple[np.ndarray, np.ndarray]:
        """One bin, as `StreamingDecoder.step`; only the number of spikes of each unit matters.

        Returns:
            times of the slots in seconds since the first bin began, (n_slots,), and behaviour there, (n_slots, C).

        Raises:
            ValueError: for spikes that do not fit; the stream is then as it was before the call.
        """
        units, _ = checked_spikes(units, offsets, self._n_units, self._width)
        counts = np.sqrt(np.bincount(units, minlength=self._n_units + 1)[1:], dtype=np.float32)
        standardized, self._state = self._decode(counts, self._state, *self._constants)
        times = self._n_bins * self._width + self._slots_s
        self._n_bins += 1
        return times, self._mean + self._std * standardized.reshape(len(self._slots_s), -1)


class WienerStream(_BinnedStream):
    def __init__(self, model: WienerFilter):
        super().__init__(model, model.weight, model.offset)

    def _start(self):
        return np.zeros(len(self._constants[0]), np.float32)  # counts of the last bins, oldest first

    def _decode(self, counts, history, weight, offset):
        history = np.concatenate([history[len(counts) :], counts])
        return history @ weight + offset, history


class GRUStream(_BinnedStream):
    def __init__(self, model: BinnedGRU):
        backbone = backbone_constants(model.backbone, torch.zeros(model.n_units))
        super().__init__(model, backbone, model.readout.weight.T, model.readout.bias)

    def _start(self):
        return self._constants[0].start()

    def _decode(self, counts, state, backbone, weight, bias):
        hidden, state = backbone.step(counts, state)
        return hidden.dot(weight) + bias, state
