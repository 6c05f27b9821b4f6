"""The task of chapter 10 in which only the order of the spikes within a bin gives the direction, and its readers."""

from dataclasses import replace

import numpy as np
import torch
from torch import Tensor, nn

from possm_lite.nn.positions import log_spaced_frequencies, phasors
from possm_lite.recordings import SpikeBatch
from possm_lite.recordings.batch import bin_index
from possm_lite.training.fit import AdamW

D, WIDTH_S = 16, 0.05
OMEGA = log_spaced_frequencies(
    D // 2, shortest_period=0.010, longest_period=0.400
)  # (D/2,): 10 ms to 400 ms
EIGHT = torch.arange(8) < 4  # units 1 to 4 go first in direction 1
TWELVE = torch.tensor([0, 1, 1, 0, 1, 0, 0, 1, 0, 1, 1, 0]).bool()  # another session, other units
READERS = ("counts", "tokens", "fine counts", "tokens, times dealt anew", "tokens, two sessions")


def bins_of_order(n: int, seed: int, first: Tensor = EIGHT) -> tuple[SpikeBatch, Tensor]:
    """n bins of 50 ms. Direction 1: units where `first` (U,) is True fire some 8 ms before the others. 0: after them.

    How many spikes a unit fires, and when in the bin all this happens, has nothing to do with the direction. One spike
    in five comes at any time.
    """
    draw = np.random.default_rng(seed)
    direction = draw.integers(0, 2, n)  # (n,)
    middle = draw.uniform(0.012, 0.038, n)  # (n,) s
    counts = draw.poisson(1.5, (n, len(first)))
    which, unit = (
        np.repeat(x.ravel(), counts.ravel()) for x in np.indices(counts.shape)
    )  # (N,) each
    early = np.where(first.numpy()[unit], 1, -1) * np.where(
        direction[which] == 1, 1, -1
    )  # (N,): 1 or -1
    time_s = middle[which] - 0.004 * early + draw.normal(0, 0.003, len(unit))
    stray = draw.random(len(unit)) < 0.2
    time_s = np.clip(np.where(stray, draw.uniform(0, WIDTH_S, len(unit)), time_s), 0, 0.04999)
    return SpikeBatch.from_events(which, unit + 1, time_s, n, WIDTH_S), torch.from_numpy(direction)


def backwards(batch: SpikeBatch) -> SpikeBatch:
    """The same spikes, played backwards within the bin: the counts stay what they are."""
    return SpikeBatch.from_events(
        batch.bin, batch.unit, 0.04999 - batch.offset, int(batch.n_bins.sum()), WIDTH_S
    )


def times_dealt_anew(batch: SpikeBatch) -> SpikeBatch:
    """The times of a bin, given at random to its spikes."""
    shuffled = torch.randperm(len(batch.bin))
    shuffled = shuffled[torch.argsort(batch.bin[shuffled], stable=True)]  # still bin by bin
    return replace(batch, offset=batch.offset[shuffled])


class FineReader(nn.Module):
    """Counts of 5 ms, 80 numbers a bin, read by the same network."""

    def __init__(self):
        super().__init__()
        self.network = nn.Sequential(
            nn.Linear(80, 32), nn.GELU(), nn.Linear(32, 32), nn.GELU(), nn.Linear(32, 1)
        )

    def forward(self, batch: SpikeBatch, phase: None) -> Tensor:
        real = batch.unit > 0
        fine = torch.from_numpy(bin_index(batch.offset.numpy(), 0.005))  # (N,): 0 ... 9
        place = (batch.bin * 8 + batch.unit - 1) * 10 + fine  # (N,)
        counts = torch.bincount(place[real], minlength=len(batch.n_bins) * 80)
        return self.network(counts.view(-1, 80).float())[:, 0]


def share_right(
    model: nn.Module, rotated: bool, known: list[tuple], unseen: list[tuple], steps: int = 50
) -> float:
    """Train on bins and directions of one session or several, all at every step; right answers on unseen ones."""
    known, unseen = (
        [
            (b, phasors(b.offset, OMEGA, torch.float32) if rotated else None, d.float())
            for b, d in part
        ]
        for part in (known, unseen)
    )
    optimizer = AdamW(model.parameters(), lr=2e-2, weight_decay=0.0, fused=True)
    for _ in range(steps):
        loss = sum(
            nn.functional.binary_cross_entropy_with_logits(model(b, p), d) for b, p, d in known
        )
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        return (
            torch.cat([(model(b, p) > 0) == d.bool() for b, p, d in unseen]).float().mean().item()
        )


def right_answers(Reader: type[nn.Module], seed: int) -> list[float]:
    """Of each of `READERS`. Two sessions share one network, and each unit of both has a row in its table."""
    torch.manual_seed(seed)
    known, unseen = ([bins_of_order(n, 2 * seed + i)] for i, n in enumerate((1500, 1000)))
    shuffled = [[(times_dealt_anew(b), d) for b, d in part] for part in (known, unseen)]
    other = [bins_of_order(n, 100 + 2 * seed + i, TWELVE) for i, n in enumerate((1500, 1000))]
    both = [
        [*part, (b.offset_units(9), d)] for part, (b, d) in zip((known, unseen), other, strict=True)
    ]
    return [
        share_right(Reader(8), False, known, unseen),
        share_right(Reader(8), True, known, unseen),
        share_right(FineReader(), False, known, unseen),
        share_right(Reader(8), True, *shuffled),
        share_right(Reader(20), True, *both),
    ]
