"""The baselines in real time, in NumPy, so that the table of latencies compares like with like."""

from __future__ import annotations

import numpy as np

from .cells import Backbone
from .decoder import checked_spikes, copied_weights


class _BinnedStream:
    """What the streams of binned decoders share: counting a bin, and times and scale of the answer."""

    def __init__(self, model):
        self._weights = copied_weights(model)
        self._n_units, self._n_slots, self._width = model.n_units, model.n_slots, model.bin_width_s
        self._slots_s = np.arange(model.n_slots) * (model.bin_width_s / model.n_slots)
        self.reset()

    def reset(self):
        """Back to before the first bin."""
        self._n_bins = 0

    def step(self, units, offsets) -> tuple[np.ndarray, np.ndarray]:
        """One bin, as `StreamingDecoder.step`; where in the bin the spikes stand makes no difference.

        Returns:
            times of the slots in seconds since the first bin began, (n_slots,), and velocity there, (n_slots, 2).

        Raises:
            ValueError: for spikes that do not fit; the stream is then as it was before the call.
        """
        units, _ = checked_spikes(units, offsets, self._n_units, self._width)
        counts = np.bincount(units, minlength=self._n_units + 1)[1:]
        answer = self._decode(np.sqrt(counts, dtype=np.float32)).reshape(self._n_slots, 2)
        velocity = self._weights["velocity_mean"][1] + self._weights["velocity_std"][1] * answer
        times = self._n_bins * self._width + self._slots_s
        self._n_bins += 1
        return times, velocity


class WienerStream(_BinnedStream):
    """A `WienerFilter` fed one bin at a time."""

    def reset(self):
        super().reset()
        self._history = np.zeros(len(self._weights["weight"]), np.float32)

    def _decode(self, counts: np.ndarray) -> np.ndarray:
        self._history = np.concatenate([self._history[self._n_units :], counts])  # oldest bin first
        return self._history @ self._weights["weight"] + self._weights["offset"]


class GRUStream(_BinnedStream):
    """A `BinnedGRU` fed one bin at a time."""

    def reset(self):
        super().reset()
        w = {name: np.ascontiguousarray(array.T) for name, array in self._weights.items()}
        kinds = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        self._backbone = Backbone("gru", [tuple(w[f"backbone.{kind}_l0"] for kind in kinds)])
        self._state = self._backbone.start()

    def _decode(self, counts: np.ndarray) -> np.ndarray:
        hidden, self._state = self._backbone.step(counts, self._state)
        return self._weights["readout.weight"] @ hidden + self._weights["readout.bias"]
