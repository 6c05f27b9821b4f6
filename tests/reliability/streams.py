"""Endless and malformed bins, and the batch form in segments, for the tests of streams."""

from collections.abc import Iterator
from itertools import count, islice

import numpy as np
import torch

from possm_lite.decoder import POSSM
from possm_lite.recordings import SpikeBatch

N_UNITS = 8
BAD_SPIKES = {  # units and offsets that `step` must refuse
    "unknown unit": ([3, 9], [0.01, 0.02]),
    "blank token": ([0], [0.01]),
    "fractional unit": ([1.5], [0.01]),
    "boolean unit": ([True], [0.01]),
    "offset of the next bin": ([1], [0.05]),
    "offset of the bin before": ([1], [-1e-300]),
    "NaN offset": ([1, 2], [0.01, np.nan]),
    "fewer offsets than units": ([1, 2], [0.01]),
    "matrix": (np.ones((2, 2), int), np.zeros((2, 2))),
}


def endless_bins(seed: int, width: float = 0.05) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Units and offsets of each bin: about five unsorted spikes, silences of up to 300 bins, a bin in 500 (and bin 20)
    with 5,000 spikes, and in every seventh bin spikes at both ends."""
    rng = np.random.default_rng(seed)
    last = np.nextafter(width, 0)
    silent = 0
    for i in count():
        if silent == 0 and rng.random() < 0.005:
            silent = int(rng.integers(1, 301))
        burst = i == 20 or rng.random() < 0.002
        n = 5_000 if burst else 0 if silent else int(rng.poisson(5.0))
        silent = max(silent - 1, 0)
        offsets = rng.random(n) * width
        if n and i % 7 == 0:
            offsets[0], offsets[-1] = last, 0.0
        yield rng.integers(1, N_UNITS + 1, n), np.minimum(offsets, last)


def make_bins(seed: int, n: int) -> list[tuple[np.ndarray, np.ndarray]]:
    return list(islice(endless_bins(seed), n))


def play(stream, bins) -> tuple[np.ndarray, np.ndarray]:
    """Times (bins, Q) and velocity (bins, Q, 2) of a stream."""
    times, velocity = zip(*[stream.step(*spikes) for spikes in bins], strict=True)
    return np.stack(times), np.stack(velocity)


def batch_of(trials: list[list[tuple[np.ndarray, np.ndarray]]], width: float) -> SpikeBatch:
    """Units and offsets of each bin of each trial, exact to the last bit: no bin start is added and subtracted."""
    bins = [spikes if len(spikes[0]) else ([0], [0.0]) for trial in trials for spikes in trial]  # blank tokens
    return SpikeBatch(
        unit=torch.from_numpy(np.concatenate([units for units, _ in bins]).astype(np.int64)),
        offset=torch.from_numpy(np.concatenate([offsets for _, offsets in bins])),
        bin=torch.repeat_interleave(torch.arange(len(bins)), torch.tensor([len(units) for units, _ in bins])),
        n_bins=torch.tensor([len(trial) for trial in trials]),
        bin_width_s=width,
    )


class BatchSegments:
    """The batch form over an endless recording: between segments it carries the state that torch's backbone returns,
    and the k - 1 hidden states that the first queries read; nothing is taken from a stream."""

    def __init__(self, model: POSSM, offsets_s):
        self.model, self.offsets_s = model, torch.tensor(offsets_s, dtype=torch.float64)
        self.state, self.hidden = None, None

    @torch.no_grad()
    def decode(self, bins: list[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
        """Velocity in each bin of the next segment, (bins, Q, 2)."""
        config = self.model.config
        batch = batch_of([bins], config.bin_width_s)
        new, self.state = self.model.backbone(self.model.encode(batch), self.state)
        hidden = new if self.hidden is None else torch.cat([self.hidden, new], 1)
        bin_ = torch.arange(hidden.shape[1] - len(bins), hidden.shape[1], dtype=torch.float64)
        times = (bin_[:, None] * config.bin_width_s + self.offsets_s).reshape(1, -1)
        velocity = self.model.decode(hidden, times, torch.tensor([1]))
        self.hidden = hidden[:, max(hidden.shape[1] - config.context_bins + 1, 0) :]
        return velocity.reshape(len(bins), -1, 2).numpy()
