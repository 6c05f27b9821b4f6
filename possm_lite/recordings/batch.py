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

    A time less than a millionth of a bin below an edge counts as on the edge, as 3 * 0.05 is 0.15000000000000002.
    """
    return np.floor(np.asarray(time_s, dtype=np.float64) / bin_width_s + 1e-6).astype(np.int64)


def count_bins(duration_s, bin_width_s: float):
    """Number of bins that cover a duration; an exact multiple of the width gets no extra bin."""
    return np.maximum(
        np.ceil(np.asarray(duration_s, dtype=np.float64) / bin_width_s - 1e-6).astype(np.int64), 1
    )


@dataclass(frozen=True)
class PaddedBatch:
    """Dense tensors for the textbook form, a row for each of B trials."""

    padded_bin: Tensor  # (unit, offset in s) of each token, (B, max_bin, max_token, 2), float64
    bin_mask: Tensor  # True where a trial has a bin, (B, max_bin)
    spike_mask: (
        Tensor  # True where a bin has a token, the blank one included, (B, max_bin, max_token)
    )
    behavior: Tensor | None  # at the times of the samples, (B, Q, C)
    bin_width_s: float


@dataclass(frozen=True)
class SpikeBatch:
    """The spikes of B trials without padding: one flat list of tokens, sorted by bin.

    Bins are numbered through the batch: trial 0 has bins 0 .. n_bins[0]-1. A bin without spikes has a blank token.
    """

    unit: Tensor  # of each token, from 1; 0 is the blank token; (N,), int64
    offset: Tensor  # seconds since the bin of the token began, (N,), float64
    bin: Tensor  # flat number of its bin, non-decreasing, (N,), int64
    n_bins: Tensor  # of each trial, (B,), int64
    bin_width_s: float
    times_s: Tensor | None = (
        None  # of the behaviour samples, seconds from the start of the trial, (B, Q), float64
    )
    behavior: Tensor | None = None  # at these times, (B, Q, C)
    mask: Tensor | None = (
        None  # True where both hold a sample, False where they are padding, (B, Q)
    )

    @classmethod
    def from_events(
        cls, trial, unit, time_s, n_trials: int, duration_s, bin_width_s: float = 0.05
    ) -> SpikeBatch:
        """Build a batch of B trials from spikes in any order; ValueError naming the first invalid spike.

        `trial` from 0, `unit` from 1 and `time_s` since the start of the trial are those of each spike, (N,);
        `duration_s` is one number or (B,).
        """
        trial = np.asarray(trial, dtype=np.int64)
        unit = np.asarray(unit, dtype=np.int64)
        time_s = np.asarray(time_s, dtype=np.float64)
        n_bins = np.broadcast_to(count_bins(duration_s, bin_width_s), (n_trials,)).copy()
        bin_in_trial = bin_index(np.where(np.isfinite(time_s), time_s, -1.0), bin_width_s)
        valid = (trial >= 0) & (unit >= 1) & (bin_in_trial >= 0) & (bin_in_trial < n_bins[trial])
        if not valid.all():
            i = valid.argmin()
            found = f"spike {i} has trial {trial[i]}, unit {unit[i]}, time_s {time_s[i]}"
            raise ValueError(
                f"units count from 1, and spikes lie in the bins of their trial, not outside: {found}."
            )
        flat = (np.cumsum(n_bins) - n_bins)[trial] + bin_in_trial  # numbered through the batch
        offset = np.maximum(time_s - bin_in_trial * bin_width_s, 0.0)
        silent = np.flatnonzero(np.bincount(flat, minlength=n_bins.sum()) == 0)
        flat = np.concatenate([flat, silent])
        order = np.argsort(flat, kind="stable")
        unit = np.concatenate([unit, np.full(len(silent), BLANK)])[order]
        offset = np.concatenate([offset, np.zeros(len(silent))])[order]
        return cls(
            *(torch.from_numpy(x) for x in (unit, offset, flat[order], n_bins)), float(bin_width_s)
        )

    def with_targets(self, times_s, behavior, mask=None) -> SpikeBatch:
        """The same spikes with behaviour: (B, Q), (B, Q, C), and (B, Q) where not every sample is real."""
        times = torch.as_tensor(times_s, dtype=torch.float64)
        mask = torch.ones(times.shape, dtype=torch.bool) if mask is None else torch.as_tensor(mask)
        return replace(self, times_s=times, behavior=torch.as_tensor(behavior), mask=mask)

    def with_samples(self, index) -> SpikeBatch:
        """The same spikes with the columns of the targets selected by `index`, (Q',)."""
        return replace(
            self,
            **{name: getattr(self, name)[:, index] for name in ("times_s", "behavior", "mask")},
        )

    def offset_units(self, first_unit: int) -> SpikeBatch:
        """The same spikes with units numbered from `first_unit` instead of 1, as in a model of several sessions."""
        return replace(
            self, unit=torch.where(self.unit == BLANK, BLANK, self.unit + (first_unit - 1))
        )

    def with_blanks(self) -> SpikeBatch:
        """The same spikes and a blank token more in every bin, after them."""
        n_bins = int(self.n_bins.sum())
        bins = torch.cat([self.bin, torch.arange(n_bins, device=self.bin.device)])
        order = torch.argsort(bins, stable=True)
        unit = torch.cat([self.unit, self.unit.new_full((n_bins,), BLANK)])
        offset = torch.cat([self.offset, self.offset.new_zeros(n_bins)])
        return replace(self, unit=unit[order], offset=offset[order], bin=bins[order])

    @classmethod
    def concatenate(cls, batches: Sequence[SpikeBatch]) -> SpikeBatch:
        """The trials of batches with targets and one bin width, one batch after the other; samples padded."""
        if len(batches) == 1:
            return batches[0]
        joined = {
            name: torch.cat([getattr(batch, name) for batch in batches])
            for name in ("unit", "offset", "n_bins")
        }
        n_flat = np.cumsum(
            [0] + [int(batch.n_bins.sum()) for batch in batches]
        )  # bins before each batch
        joined["bin"] = torch.cat(
            [batch.bin + int(n) for batch, n in zip(batches, n_flat, strict=False)]
        )
        for name in ("times_s", "behavior", "mask"):
            joined[name] = pad_sequence(
                [row for batch in batches for row in getattr(batch, name)], batch_first=True
            )
        return replace(batches[0], **joined)

    def to(self, device) -> SpikeBatch:
        return replace(
            self, **{k: v.to(device) for k, v in vars(self).items() if isinstance(v, Tensor)}
        )

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
        tokens = torch.stack([self.unit.to(torch.float64), self.offset], -1)  # (N, 2)
        in_bin = torch.bincount(self.bin).tolist()  # tokens of each bin
        in_trial = self.n_bins.tolist()
        padded = pad_sequence(tokens.split(in_bin), batch_first=True)  # (bins of all trials, M, 2)
        filled = pad_sequence(
            torch.ones_like(self.bin, dtype=torch.bool).split(in_bin), batch_first=True
        )
        padded_bin = pad_sequence(padded.split(in_trial), batch_first=True)
        spike_mask = pad_sequence(filled.split(in_trial), batch_first=True)
        return PaddedBatch(
            padded_bin, spike_mask.any(-1), spike_mask, self.behavior, self.bin_width_s
        )
