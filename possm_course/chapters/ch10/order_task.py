"""The task of chapter 10 in which only the order of spikes gives the direction, and its readers."""

from dataclasses import replace

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import AdamW

from possm_lite.nn.positions import log_spaced_frequencies, phasors
from possm_lite.recordings import SpikeBatch
from possm_lite.recordings.batch import bin_index

D, WIDTH_S = 16, 0.05
OMEGA = log_spaced_frequencies(
    D // 2, shortest_period=0.010, longest_period=0.400
)  # (D/2,): 10 ms to 400 ms
EIGHT = torch.arange(8) < 4  # units 1 to 4 go first in direction 1
TWELVE = torch.tensor([0, 1, 1, 0, 1, 0, 0, 1, 0, 1, 1, 0]).bool()  # another session, other units
READERS = ("counts", "tokens", "fine counts", "tokens, times dealt anew", "tokens, two sessions")


def bins_of_order(n: int, seed: int, first: Tensor = EIGHT) -> tuple[SpikeBatch, Tensor]:
    """Bins of 50 ms in which only the order of the spikes gives the direction.

    Direction 1: units where `first` is True fire some 8 ms before the others; 0: after them.
    How many spikes a unit fires, and when in the bin all this happens, has nothing to do with the
    direction. One spike in five comes at any time.

    Args:
        n: number of bins.
        seed: of the random numbers.
        first: units that fire first in direction 1, bool, shape (U,).

    Returns:
        The spikes, and the direction of each bin, 0 or 1, shape (n,).
    """
    rng = np.random.default_rng(seed)
    direction = rng.integers(0, 2, n)  # (n,)
    middle = rng.uniform(0.012, 0.038, n)  # (n,) s
    counts = rng.poisson(1.5, (n, len(first)))
    bins, units = np.indices(counts.shape)  # (n, U) each
    which = np.repeat(bins.ravel(), counts.ravel())  # (N,): bin of each spike
    unit = np.repeat(units.ravel(), counts.ravel())  # (N,)
    side = np.where(first.numpy()[unit], 1, -1)
    early = side * np.where(direction[which] == 1, 1, -1)  # (N,): 1 or -1
    time_s = middle[which] - 0.004 * early + rng.normal(0, 0.003, len(unit))
    stray = rng.random(len(unit)) < 0.2
    anywhere = rng.uniform(0, WIDTH_S, len(unit))
    time_s = np.clip(np.where(stray, anywhere, time_s), 0, 0.04999)
    batch = SpikeBatch.from_events(which, unit + 1, time_s, n, WIDTH_S)
    return batch, torch.from_numpy(direction)


def backwards(batch: SpikeBatch) -> SpikeBatch:
    """The spikes of `batch`, played backwards within each bin: the counts stay what they are."""
    n_bins = int(batch.n_bins.sum())
    return SpikeBatch.from_events(batch.bin, batch.unit, 0.04999 - batch.offset, n_bins, WIDTH_S)


def times_dealt_anew(batch: SpikeBatch) -> SpikeBatch:
    """The spikes of `batch`; the times of each bin are given at random to its spikes."""
    shuffled = torch.randperm(len(batch.bin))
    shuffled = shuffled[torch.argsort(batch.bin[shuffled], stable=True)]  # still bin by bin
    return replace(batch, offset=batch.offset[shuffled])


class FineReader(nn.Module):
    """A network on counts of 5 ms, 80 numbers a bin: 8 units, 10 counts each."""

    def __init__(self):
        super().__init__()
        self.network = nn.Sequential(
            nn.Linear(80, 32), nn.GELU(), nn.Linear(32, 32), nn.GELU(), nn.Linear(32, 1)
        )

    def forward(self, batch: SpikeBatch, phase: None) -> Tensor:
        """Logits of direction 1, one for each bin, shape (n_bins,).

        Args:
            batch: spikes of eight units.
            phase: not used; the other readers get the phasors of the spikes.
        """
        real = batch.unit > 0
        fine = torch.from_numpy(bin_index(batch.offset.numpy(), 0.005))  # (N,): 0 ... 9
        place = (batch.bin * 8 + batch.unit - 1) * 10 + fine  # (N,)
        counts = torch.bincount(place[real], minlength=len(batch.n_bins) * 80)
        return self.network(counts.view(-1, 80).float())[:, 0]


def share_right(
    model: nn.Module, rotated: bool, known: list[tuple], unseen: list[tuple], steps: int = 50
) -> float:
    """Trains a reader on some bins and tests it on others.

    Args:
        model: gives logits (n,) from bins, and phasors of their spikes or None.
        rotated: whether the model gets the phasors of the spike times.
        known: bins to train on and their directions (n,), a pair for each session; all are used
            at each step.
        unseen: bins to test on, in the same form.
        steps: number of training steps.

    Returns:
        Share of right answers on the unseen bins, between 0 and 1.
    """
    known = [_with_phasors(batch, direction, rotated) for batch, direction in known]
    unseen = [_with_phasors(batch, direction, rotated) for batch, direction in unseen]
    optimizer = AdamW(model.parameters(), lr=2e-2, weight_decay=0.0, fused=True)
    loss_of = nn.functional.binary_cross_entropy_with_logits
    for _ in range(steps):
        loss = sum(loss_of(model(batch, phase), direction) for batch, phase, direction in known)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        right = [
            (model(batch, phase) > 0) == direction.bool() for batch, phase, direction in unseen
        ]
    return torch.cat(right).float().mean().item()


def _with_phasors(
    batch: SpikeBatch, direction: Tensor, rotated: bool
) -> tuple[SpikeBatch, Tensor | None, Tensor]:
    """What a model reads, and its target: bins, phasors of their spikes or None, directions."""
    phase = phasors(batch.offset, OMEGA, torch.float32) if rotated else None
    return batch, phase, direction.float()


def right_answers(Reader: type[nn.Module], seed: int) -> list[float]:
    """The share of right answers of each of `READERS`, trained on 1,500 bins, tested on 1,000.

    Two sessions share one network, and each unit of both has a row in its table.

    Args:
        Reader: class of the reader on tokens, made with the number of units.
        seed: of weights and bins.

    Returns:
        Shares between 0 and 1, in the order of `READERS`.
    """
    torch.manual_seed(seed)
    known = [bins_of_order(1500, 2 * seed)]
    unseen = [bins_of_order(1000, 2 * seed + 1)]
    known_dealt = [(times_dealt_anew(batch), direction) for batch, direction in known]
    unseen_dealt = [(times_dealt_anew(batch), direction) for batch, direction in unseen]
    known_both = [*known, _other_session(1500, 100 + 2 * seed)]
    unseen_both = [*unseen, _other_session(1000, 101 + 2 * seed)]
    return [
        share_right(Reader(8), False, known, unseen),
        share_right(Reader(8), True, known, unseen),
        share_right(FineReader(), False, known, unseen),
        share_right(Reader(8), True, known_dealt, unseen_dealt),
        share_right(Reader(20), True, known_both, unseen_both),
    ]


def _other_session(n: int, seed: int) -> tuple[SpikeBatch, Tensor]:
    """n bins and directions of the session of `TWELVE` units, numbered after the eight."""
    batch, direction = bins_of_order(n, seed, TWELVE)
    return batch.offset_units(9), direction
