"""Endless and malformed bins, the batch form in segments, and the memory of this process, for the tests of streams."""

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

# units and offsets that `step` must refuse, and what its message says
BAD_SPIKES = {
    "unknown unit": ([3, 9], [0.01, 0.02], "units must lie in 1..8, not 9"),
    "blank token": ([0], [0.01], "units must lie in 1..8, not 0"),
    "negative unit": ([-1], [0.01], "units must lie in 1..8, not -1"),
    "unit of 64 bits": (np.array([2**64 - 1], np.uint64), [0.01], "not 18446744073709551615"),
    "unit beyond 64 bits": ([2**70], [0.01], "units must be whole numbers"),
    "fractional unit": ([1.5], [0.01], "units must be whole numbers"),
    "boolean unit": ([True], [0.01], "units must be whole numbers"),
    "unit as text": (["1"], [0.01], "units must be whole numbers"),
    "offset of the next bin": ([1], [0.05], "offset < 0.05 s, not 0.05"),
    "offset of the bin before": ([1], [-1e-300], "offset < 0.05 s, not -1e-300"),
    "NaN offset": ([1, 2], [0.01, np.nan], "not nan"),
    "infinite offset": ([1], [np.inf], "not inf"),
    "offset as text": ([1], ["0.01"], "offsets must be real numbers"),
    "complex offset": ([1], np.array([0.01 + 1j]), "offsets must be real numbers"),
    "None offset": ([1], [None], "offsets must be real numbers"),
    "boolean offset": ([1], [False], "offsets must be real numbers"),
    "timedelta offset": ([1], np.array([0], "m8[ms]"), "offsets must be real numbers"),
    "objects": ([object()], [object()], "units must be whole numbers"),
    "fewer offsets than units": ([1, 2], [0.01], "flat and alike"),
    "ragged offsets": ([1, 2], [[0.01], [0.01, 0.02]], "inhomogeneous"),
    "matrix": (np.ones((2, 2), int), np.zeros((2, 2)), "flat and alike"),
    "empty matrix": (np.ones((0, 2), int), np.zeros((0, 2)), "flat and alike"),
    "scalars": (1, 0.01, "flat and alike"),
    "None": (None, None, "flat and alike"),
    "dictionaries": ({1: 0.01}, {1: 0.01}, "flat and alike"),
}


def endless_bins(seed: int, width: float = 0.05) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Units and offsets of each bin: about five unsorted spikes, silences of up to 300 bins, a bin in 500 (and bin 20)
    with 5,000 spikes, and in every seventh bin spikes at both ends."""
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


def make_bins(seed: int, n: int) -> list[tuple[np.ndarray, np.ndarray]]:
    return list(islice(endless_bins(seed), n))


def play(stream, bins) -> tuple[np.ndarray, np.ndarray]:
    """Times (bins, Q) and velocity (bins, Q, 2) of a stream."""
    times, velocity = zip(*[stream.step(*spikes) for spikes in bins], strict=True)
    return np.stack(times), np.stack(velocity)


class BatchSegments:
    """The batch form over an endless recording, segment by segment.

    From one segment to the next it carries the state that torch's backbone returns and the k - 1 hidden states that the
    first queries read; nothing is taken from the stream it is compared with.
    """

    def __init__(self, model: POSSM, offsets_s, session: int = 1):
        self.model, self.offsets_s, self.session = model, torch.tensor(offsets_s, dtype=torch.float64), session
        self.state, self.hidden = None, None

    @torch.no_grad()
    def decode(self, bins: list[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
        """Velocity in each bin of the next segment, (bins, Q, 2)."""
        config = self.model.config
        tokens = [spikes if len(spikes[0]) else ([0], [0.0]) for spikes in bins]  # the blank token
        batch = SpikeBatch(  # with offsets to the last bit: no bin start is added and subtracted
            unit=torch.from_numpy(np.concatenate([u for u, _ in tokens]).astype(np.int64)),
            offset=torch.from_numpy(np.concatenate([o for _, o in tokens])),
            bin=torch.repeat_interleave(torch.arange(len(bins)), torch.tensor([len(u) for u, _ in tokens])),
            n_bins=torch.tensor([len(bins)]),
            bin_width_s=config.bin_width_s,
        )
        new, self.state = self.model.backbone(self.model.encode(batch), self.state)
        hidden = new if self.hidden is None else torch.cat([self.hidden, new], 1)
        bin_ = torch.arange(hidden.shape[1] - len(bins), hidden.shape[1], dtype=torch.float64)
        times = (bin_[:, None] * config.bin_width_s + self.offsets_s).reshape(1, -1)
        velocity = self.model.decode(hidden, times, torch.tensor([self.session]))
        self.hidden = hidden[:, max(hidden.shape[1] - config.context_bins + 1, 0) :]
        return velocity.reshape(len(bins), -1, 2).numpy()


class BlockingOffsets:
    """Offsets whose conversion to an array blocks until `release` is set, which keeps a step under way."""

    def __init__(self, offsets: np.ndarray):
        self.offsets, self.reached, self.release = offsets, Event(), Event()

    def __array__(self, dtype=None, copy=None):
        self.reached.set()
        assert self.release.wait(60)
        return self.offsets.astype(dtype)


def memory_growth(backbone: str, n_bins: int, planted: int = 0) -> float:
    """Resident bytes a bin by which this process grows while a stream plays, after the first tenth.

    Args:
        backbone: of the decoder.
        n_bins: bins to play.
        planted: bytes to keep of every bin, as a control.
    """
    stream, kept, warm = StreamingDecoder(make_model(torch.float32, backbone=backbone)), [], n_bins // 10
    for i, spikes in enumerate(islice(endless_bins(3), n_bins)):
        if i == warm:
            before = _resident_bytes()
        stream.step(*spikes)
        if planted:
            kept.append(bytes(planted))
    return (_resident_bytes() - before) / (n_bins - warm)


def _resident_bytes() -> int:
    return int(STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
