"""What the attacks on streams need: endless spikes, the batch form in pieces, and the memory of this process."""

import os
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from threading import Event

import numpy as np
import torch

from possm_lite.decoder import POSSM, StreamingDecoder
from possm_lite.spikes import SpikeBatch
from tests.decoder.helpers import make_model

N_UNITS = 8
STATM = Path("/proc/self/statm")

# What no bin can hold, by what is wrong with it. Units and offsets are arrays, or whatever a caller may come with.
BAD_SPIKES = {
    "a unit that the model does not know": ([3, N_UNITS + 1], [0.01, 0.02]),
    "the blank token": ([0], [0.01]),
    "a unit below zero": ([-1], [0.01]),
    "a unit of 64 bits": (np.array([2**64 - 1], np.uint64), [0.01]),
    "a unit beyond 64 bits": ([2**70], [0.01]),
    "half a unit": ([1.5], [0.01]),
    "units that are true": ([True], [0.01]),
    "units in words": (["1"], [0.01]),
    "an offset of the next bin": ([1], [0.05]),
    "an offset of the bin before": ([1], [-1e-300]),
    "an offset that is no number": ([1, 2], [0.01, np.nan]),
    "an offset that never comes": ([1], [np.inf]),
    "an offset in words": ([1], ["0.01"]),
    "an offset that is complex": ([1], np.array([0.01 + 1j])),
    "an offset that is None": ([1], [None]),
    "an offset that is true": ([1], [False]),
    "an offset that is a duration": ([1], np.array([0], "m8[ms]")),
    "an object": ([object()], [object()]),
    "fewer offsets than units": ([1, 2], [0.01]),
    "offsets of several lengths": ([1, 2], [[0.01], [0.01, 0.02]]),
    "a table": (np.ones((2, 2), int), np.zeros((2, 2))),
    "an empty table": (np.ones((0, 2), int), np.zeros((0, 2))),
    "one spike that is not in a list": (1, 0.01),
    "nothing at all": (None, None),
    "dictionaries": ({1: 0.01}, {1: 0.01}),
}


def endless_bins(seed: int, width: float = 0.05) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Units and offsets of bin after bin: a handful of spikes out of order, silences of up to 300 bins, and one bin in
    500 with 5,000 spikes, the first of them soon. Now and then a spike stands at either end of its bin."""
    rng, silent, last = np.random.default_rng(seed), 0, np.nextafter(width, 0)
    i = 0
    while True:
        if silent == 0 and rng.random() < 0.005:
            silent = int(rng.integers(1, 301))
        burst = i == 20 or rng.random() < 0.002
        n = 5_000 if burst else 0 if silent else int(rng.poisson(5.0))
        silent = max(silent - 1, 0)
        units, offsets = rng.integers(1, N_UNITS + 1, n), rng.random(n) * width
        if n and i % 7 == 0:
            offsets[0], offsets[-1] = last, 0.0
        yield units, np.minimum(offsets, last)
        i += 1


def as_batch(bins: list[tuple[np.ndarray, np.ndarray]], width: float = 0.05) -> SpikeBatch:
    """One trial of these bins, with their offsets to the last bit: nothing is added to them and taken off again."""
    filled = [spikes if len(spikes[0]) else ([0], [0.0]) for spikes in bins]  # the blank token
    return SpikeBatch(
        unit=torch.from_numpy(np.concatenate([u for u, _ in filled]).astype(np.int64)),
        offset=torch.from_numpy(np.concatenate([o for _, o in filled])),
        bin=torch.repeat_interleave(torch.arange(len(bins)), torch.tensor([len(u) for u, _ in filled])),
        n_bins=torch.tensor([len(bins)]),
        bin_width_s=width,
    )


class BatchInPieces:
    """The batch form of a model over a recording without end: piece after piece of it.

    Takes over from the piece before what torch's backbone gives back as its state, and the k - 1 hidden states that the
    first queries of a piece look back at. Nothing is ever taken from the stream it is compared with.
    """

    def __init__(self, model: POSSM, offsets_s, session: int = 1):
        self.model, self.offsets_s, self.session = model, torch.tensor(offsets_s, dtype=torch.float64), session
        self.state, self.hidden = None, None

    @torch.no_grad()
    def answer(self, bins: list[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
        """Velocity in each bin of the next piece, (bins, Q, 2)."""
        config = self.model.config
        new, self.state = self.model.backbone(self.model.encode(as_batch(bins, config.bin_width_s)), self.state)
        hidden = new if self.hidden is None else torch.cat([self.hidden, new], 1)
        n_before = hidden.shape[1] - len(bins)
        bin_ = torch.arange(n_before, hidden.shape[1], dtype=torch.float64)
        times = (bin_[:, None] * config.bin_width_s + self.offsets_s).reshape(1, -1)
        velocity = self.model.decode(hidden, times, torch.tensor([self.session]))
        self.hidden = hidden[:, max(hidden.shape[1] - config.context_bins + 1, 0) :]
        return velocity.reshape(len(bins), -1, 2).numpy()


class Held:
    """Offsets that become an array only when let go: until then a step that reads them is under way."""

    def __init__(self, offsets: np.ndarray):
        self.offsets, self.reached, self.let_go = offsets, Event(), Event()

    def __array__(self, dtype=None, copy=None):
        self.reached.set()
        assert self.let_go.wait(60)
        return self.offsets.astype(dtype)


def resident_bytes() -> int:
    """Memory of this process that is in RAM, as Linux tells it; elsewhere only the peak is to be had."""
    return int(STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def growth(backbone: str, n_bins: int, planted: int = 0) -> float:
    """Bytes a bin by which this process grows while a stream plays, once a tenth of it has been played.

    Args:
        backbone: of the decoder.
        n_bins: bins to play.
        planted: bytes to keep of every bin, to see whether that would be noticed.
    """
    stream, kept, warm = StreamingDecoder(make_model(torch.float32, backbone=backbone)), [], n_bins // 10
    for i, spikes in enumerate(islice(endless_bins(3), n_bins)):
        if i == warm:
            before = resident_bytes()
        stream.step(*spikes)
        if planted:
            kept.append(bytes(planted))
    return (resident_bytes() - before) / (n_bins - warm)
