"""Spikes in trials and bins: ragged for the decoder, padded for the textbook form."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

BLANK = 0  # the token of a bin without spikes; the units of a batch count from 1


def bin_index(time_s, bin_width_s: float):
    """Bin of a time: the b with b * width <= time < (b + 1) * width.

    A time less than a millionth of a bin below an edge counts as on the edge: 3 * 0.05 is 0.15000000000000002, and a
    sample on the grid must not be assigned to the previous bin.
    """
    return np.floor(np.asarray(time_s, dtype=np.float64) / bin_width_s + 1e-6).astype(np.int64)


def count_bins(duration_s, bin_width_s: float):
    """Number of bins that cover a duration; an exact multiple of the width gets no extra bin."""
    return np.maximum(np.ceil(np.asarray(duration_s, dtype=np.float64) / bin_width_s - 1e-6).astype(np.int64), 1)


@dataclass(frozen=True)
class PaddedBatch:
    """Dense tensors for the textbook form. Values where a mask is False are arbitrary.

    Args:
        padded_bin: (unit, offset in s) of each token, shape (B, max_bin, max_token, 2), float64.
        bin_mask: True where a trial has a bin, shape (B, max_bin).
        spike_mask: True where a bin has a token (the blank one included), shape (B, max_bin, max_token).
        vel: behaviour, usually velocity, at the query times, shape (B, Q, C), or None.
        vel_mask: True where it was recorded, shape (B, Q), or None.
        bin_width_s: seconds.
    """

    padded_bin: Tensor
    bin_mask: Tensor
    spike_mask: Tensor
    vel: Tensor | None
    vel_mask: Tensor | None
    bin_width_s: float


@dataclass(frozen=True)
class SpikeBatch:
    """The spikes of B trials without padding: one flat list of tokens, sorted by bin.

    Bins are numbered through the batch: trial 0 has bins 0 .. n_bins[0]-1, trial 1 the following ones. A bin without
    spikes has one blank token (unit 0, offset 0), so no bin is empty.

    Args:
        unit: unit of each token, from 1; 0 is the blank token. Shape (N,), int64.
        offset: seconds since the token's bin began, shape (N,), float64.
        bin: flat number of its bin, non-decreasing, shape (N,), int64.
        n_bins: bins of each trial, shape (B,), int64.
        bin_width_s: seconds.
        times_s: times of the behaviour samples, seconds from the start of the trial, shape (B, Q), float64, or None.
        behavior: behaviour at these times, shape (B, Q, C), or None.
        mask: True where `times_s` and `behavior` hold a sample, False where they are padding, shape (B, Q), or None.
    """

    unit: Tensor
    offset: Tensor
    bin: Tensor
    n_bins: Tensor
    bin_width_s: float
    times_s: Tensor | None = None
    behavior: Tensor | None = None
    mask: Tensor | None = None

    @classmethod
    def from_events(cls, trial, unit, time_s, n_trials: int, duration_s, bin_width_s: float = 0.05) -> SpikeBatch:
        """Build a batch from spikes in any order.

        Args:
            trial: trial of each spike, 0 .. n_trials-1, shape (N,).
            unit: unit of each spike, from 1, shape (N,).
            time_s: seconds since the start of its trial, from 0, within its bins, shape (N,).
            n_trials: B; a trial may have no spikes.
            duration_s: one number, or one per trial, shape (B,).
            bin_width_s: seconds.

        Raises:
            ValueError: naming the first invalid spike.
        """
        trial, unit = (_whole(name, x) for name, x in (("trial", trial), ("unit", unit)))
        time_s = np.asarray(time_s, dtype=np.float64)
        n_bins = np.broadcast_to(count_bins(duration_s, bin_width_s), (n_trials,))
        if not (trial.shape == unit.shape == time_s.shape and trial.ndim == 1):
            shapes = f"{trial.shape}, {unit.shape}, {time_s.shape}"
            raise ValueError(f"trial, unit and time_s must have one dimension and equal lengths, not {shapes}.")
        _check_each("trial", trial, (trial >= 0) & (trial < n_trials), f"must lie in 0..{n_trials - 1}")
        _check_each("unit", unit, unit >= 1, "must be 1 or more; 0 is the blank token")
        _check_each("time_s", time_s, np.isfinite(time_s), "must be finite")
        bin_in_trial = bin_index(time_s, bin_width_s)
        for i in np.flatnonzero((bin_in_trial < 0) | (bin_in_trial >= n_bins[trial]))[:1]:
            raise ValueError(
                f"time_s must lie inside its trial: time_s[{i}] = {time_s[i]} s, "
                f"trial {trial[i]} has {n_bins[trial[i]]} bins."
            )
        first = np.cumsum(n_bins) - n_bins  # flat number of each trial's first bin
        flat = first[trial] + bin_in_trial
        # bin starts are subtracted in float64: float32 would already be off by 1e-4 rad at the fastest rotation
        offset = np.maximum(time_s - bin_in_trial * bin_width_s, 0.0)
        silent = np.setdiff1d(np.arange(n_bins.sum()), flat)
        flat = np.concatenate([flat, silent])
        order = np.argsort(flat, kind="stable")
        return cls(
            unit=torch.from_numpy(np.concatenate([unit, np.full(len(silent), BLANK)])[order]),
            offset=torch.from_numpy(np.concatenate([offset, np.zeros(len(silent))])[order]),
            bin=torch.from_numpy(flat[order]),
            n_bins=torch.from_numpy(n_bins.copy()),
            bin_width_s=float(bin_width_s),
        )

    def with_targets(self, times_s, behavior, mask=None) -> SpikeBatch:
        """The same spikes with behaviour: (B, Q), (B, Q, C), and (B, Q) where not every sample is real."""
        times = torch.as_tensor(times_s, dtype=torch.float64)
        mask = torch.ones(times.shape, dtype=torch.bool) if mask is None else torch.as_tensor(mask)
        return replace(self, times_s=times, behavior=torch.as_tensor(behavior), mask=mask)

    def with_samples(self, index) -> SpikeBatch:
        """The same spikes with the columns of the targets selected by `index`, (Q',)."""
        index = torch.as_tensor(index)
        chosen = {name: getattr(self, name).index_select(1, index) for name in ("times_s", "behavior", "mask")}
        return replace(self, **chosen)

    def offset_units(self, first_unit: int) -> SpikeBatch:
        """The same spikes with units numbered from `first_unit` instead of 1, as in a model of several sessions."""
        return replace(self, unit=torch.where(self.unit == BLANK, BLANK, self.unit + (first_unit - 1)))

    def with_blanks(self) -> SpikeBatch:
        """The same spikes and a blank token more in every bin, after them."""
        n_bins, device = int(self.n_bins.sum()), self.bin.device
        bins = torch.cat([self.bin, torch.arange(n_bins, device=device)])
        order = torch.argsort(bins, stable=True)
        unit = torch.cat([self.unit, torch.full((n_bins,), BLANK, device=device)])
        offset = torch.cat([self.offset, self.offset.new_zeros(n_bins)])
        return replace(self, unit=unit[order], offset=offset[order], bin=bins[order])

    @classmethod
    def concatenate(cls, batches: Sequence[SpikeBatch]) -> SpikeBatch:
        """The trials of several batches with targets, one batch after the other; samples padded to the longest.

        Raises:
            ValueError: for bins of different widths.
        """
        if len({batch.bin_width_s for batch in batches}) != 1:
            raise ValueError(f"bin_width_s must be the same in all: {[batch.bin_width_s for batch in batches]}.")
        if len(batches) == 1:
            return batches[0]
        n_flat = np.cumsum([0] + [int(batch.n_bins.sum()) for batch in batches[:-1]])
        targets = {
            name: pad_sequence([row for batch in batches for row in getattr(batch, name)], batch_first=True)
            for name in ("times_s", "behavior", "mask")
        }
        return cls(
            unit=torch.cat([batch.unit for batch in batches]),
            offset=torch.cat([batch.offset for batch in batches]),
            bin=torch.cat([batch.bin + int(n) for batch, n in zip(batches, n_flat, strict=True)]),
            n_bins=torch.cat([batch.n_bins for batch in batches]),
            bin_width_s=batches[0].bin_width_s,
            **targets,
        )

    def to(self, device) -> SpikeBatch:
        return replace(self, **{k: v.to(device) for k, v in vars(self).items() if isinstance(v, Tensor)})

    @property
    def n_trials(self) -> int:
        return len(self.n_bins)

    @property
    def n_spikes(self) -> int:
        """N: spikes in the batch, blank tokens not counted."""
        return int((self.unit != BLANK).sum())

    def first_bin(self) -> Tensor:
        """Flat number of each trial's first bin, shape (B,)."""
        return torch.cumsum(self.n_bins, 0) - self.n_bins

    def padded(self) -> PaddedBatch:
        """The same batch as dense tensors, each bin padded to the one with most tokens."""
        device = self.bin.device
        tokens_in_bin = torch.bincount(self.bin)  # (sum T,): no bin is empty
        first_token = torch.cumsum(tokens_in_bin, 0) - tokens_in_bin
        slot = torch.arange(len(self.bin), device=device) - first_token[self.bin]  # index of a token in its bin
        trial_of_bin = torch.repeat_interleave(self.n_bins)
        bin_in_trial = torch.arange(len(trial_of_bin), device=device) - self.first_bin()[trial_of_bin]
        shape = (self.n_trials, int(self.n_bins.max()), int(tokens_in_bin.max()))
        padded_bin = torch.zeros(*shape, 2, dtype=torch.float64, device=device)
        spike_mask = torch.zeros(shape, dtype=torch.bool, device=device)
        bin_mask = torch.zeros(shape[:2], dtype=torch.bool, device=device)
        index = (trial_of_bin[self.bin], bin_in_trial[self.bin], slot)
        padded_bin[index] = torch.stack([self.unit.to(torch.float64), self.offset], -1)
        spike_mask[index] = True
        bin_mask[trial_of_bin, bin_in_trial] = True
        return PaddedBatch(padded_bin, bin_mask, spike_mask, self.behavior, self.mask, self.bin_width_s)


def _whole(name: str, values) -> np.ndarray:
    values = np.asarray(values)
    if values.size and values.dtype.kind not in "iu":
        raise ValueError(f"{name} must hold whole numbers, not {values.dtype}.")
    return values.astype(np.int64)


def _check_each(name: str, values: np.ndarray, valid: np.ndarray, rule: str):
    for i in np.flatnonzero(~valid)[:1]:
        raise ValueError(f"{name} {rule}: {name}[{i}] = {values[i]}.")
