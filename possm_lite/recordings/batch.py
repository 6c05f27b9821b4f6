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

    A time less than a millionth of a bin below an edge counts as on the edge, as 3 * 0.05 is
    0.15000000000000002.

    Args:
        time_s: seconds since the first bin began, of any shape.
        bin_width_s: seconds.

    Returns:
        Bins from 0, int64, shape of `time_s`; below 0 for times before the first bin.
    """
    return np.floor(np.asarray(time_s, dtype=np.float64) / bin_width_s + 1e-6).astype(np.int64)


def count_bins(duration_s, bin_width_s: float):
    """Number of bins that cover a duration; an exact multiple of the width gets no extra bin.

    Args:
        duration_s: seconds, of any shape.
        bin_width_s: seconds.

    Returns:
        Numbers of bins, at least 1, int64, shape of `duration_s`.
    """
    n_widths = np.asarray(duration_s, dtype=np.float64) / bin_width_s
    return np.maximum(np.ceil(n_widths - 1e-6).astype(np.int64), 1)


@dataclass(frozen=True)
class PaddedBatch:
    """Dense tensors for the textbook form, a row for each of B trials.

    Trials are padded to the one with most bins, max_bin; bins to the one with most tokens,
    max_token.

    Attributes:
        padded_bin: (unit, offset in seconds since the bin began) of each token, shape
            (B, max_bin, max_token, 2), float64.
        bin_mask: True where a trial has a bin, shape (B, max_bin).
        spike_mask: True where a bin has a token, the blank one included, shape
            (B, max_bin, max_token).
        behavior: at the times of the samples, shape (B, Q, C), or None.
        bin_width_s: width of a bin, seconds.
    """

    padded_bin: Tensor
    bin_mask: Tensor
    spike_mask: Tensor
    behavior: Tensor | None
    bin_width_s: float


@dataclass(frozen=True)
class SpikeBatch:
    """The spikes of B trials without padding: one flat list of N tokens, sorted by bin.

    Bins are numbered through the batch: trial 0 has bins 0 .. n_bins[0]-1. A bin without spikes has
    one blank token: unit 0, offset 0. `SpikeBatch.from_events` makes a batch of spikes, and
    `Timeline.cut` one of windows of a recording.

    Attributes:
        unit: of each token, from 1; 0 is the blank token; shape (N,), int64.
        offset: seconds since the bin of the token began, shape (N,), float64.
        bin: flat number of its bin, non-decreasing, shape (N,), int64.
        n_bins: of each trial, shape (B,), int64.
        bin_width_s: width of a bin, seconds.
        times_s: of the behaviour samples, seconds from the start of the trial, shape (B, Q),
            float64; None without behaviour.
        behavior: at these times, shape (B, Q, C), or None.
        mask: True where both hold a sample, False where they are padding, shape (B, Q), or None.
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
    def from_events(
        cls, trial, unit, time_s, n_trials: int, duration_s, bin_width_s: float = 0.05
    ) -> SpikeBatch:
        """A batch of B trials from N spikes in any order.

        Args:
            trial: of each spike, from 0, shape (N,).
            unit: of each spike, from 1, shape (N,).
            time_s: of each spike, seconds since the start of its trial, shape (N,).
            n_trials: B; trials may be without spikes.
            duration_s: of the trials, seconds, one number or shape (B,).
            bin_width_s: seconds.

        Returns:
            The batch, without behaviour.

        Raises:
            ValueError: naming the first spike whose trial or unit is too small, or whose time is
                outside the bins of its trial.
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
            rule = "units count from 1, and spikes lie in the bins of their trial, not outside"
            raise ValueError(f"{rule}: {found}.")
        flat = (np.cumsum(n_bins) - n_bins)[trial] + bin_in_trial  # numbered through the batch
        # subtracted in float64: float32 would be off by 1e-4 rad at the fastest rotation
        offset = np.maximum(time_s - bin_in_trial * bin_width_s, 0.0)
        silent = np.flatnonzero(np.bincount(flat, minlength=n_bins.sum()) == 0)
        flat = np.concatenate([flat, silent])
        order = np.argsort(flat, kind="stable")
        unit = np.concatenate([unit, np.full(len(silent), BLANK)])[order]
        offset = np.concatenate([offset, np.zeros(len(silent))])[order]
        return cls(
            unit=torch.from_numpy(unit),
            offset=torch.from_numpy(offset),
            bin=torch.from_numpy(flat[order]),
            n_bins=torch.from_numpy(n_bins),
            bin_width_s=float(bin_width_s),
        )

    def with_targets(self, times_s, behavior, mask=None) -> SpikeBatch:
        """The same spikes with behaviour.

        Args:
            times_s: of the samples, seconds from the start of the trial, shape (B, Q).
            behavior: at these times, shape (B, Q, C).
            mask: True where there is a sample, False where padding, shape (B, Q); None: everywhere.
        """
        times = torch.as_tensor(times_s, dtype=torch.float64)
        if mask is None:
            mask = torch.ones(times.shape, dtype=torch.bool)
        return replace(
            self,
            times_s=times,
            behavior=torch.as_tensor(behavior),
            mask=torch.as_tensor(mask),
        )

    def with_samples(self, index) -> SpikeBatch:
        """The same spikes with the columns of the targets selected by `index`, shape (Q',)."""
        return replace(
            self,
            times_s=self.times_s[:, index],
            behavior=self.behavior[:, index],
            mask=self.mask[:, index],
        )

    def offset_units(self, first_unit: int) -> SpikeBatch:
        """The same spikes with units numbered from `first_unit` instead of 1.

        So they are in a model of several sessions; blank tokens stay 0.
        """
        unit = torch.where(self.unit == BLANK, BLANK, self.unit + (first_unit - 1))
        return replace(self, unit=unit)

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
        """The trials of several batches, one batch after the other.

        Args:
            batches: with targets of C columns, and one bin width.

        Returns:
            One batch; targets are padded to the trial with most samples.
        """
        if len(batches) == 1:
            return batches[0]
        bins = []
        n_before = 0  # bins of the batches before
        for batch in batches:
            bins.append(batch.bin + n_before)
            n_before += int(batch.n_bins.sum())
        joined = {"bin": torch.cat(bins)}
        for name in ("unit", "offset", "n_bins"):
            joined[name] = torch.cat([getattr(batch, name) for batch in batches])
        for name in ("times_s", "behavior", "mask"):
            rows = [row for batch in batches for row in getattr(batch, name)]
            joined[name] = pad_sequence(rows, batch_first=True)
        return replace(batches[0], **joined)

    def to(self, device) -> SpikeBatch:
        """The same batch with all tensors on a `device`, such as "cuda"."""
        tensors = {name: x for name, x in vars(self).items() if isinstance(x, Tensor)}
        return replace(self, **{name: x.to(device) for name, x in tensors.items()})

    @property
    def n_trials(self) -> int:
        """B: trials in the batch."""
        return len(self.n_bins)

    @property
    def n_spikes(self) -> int:
        """Spikes in the batch, blank tokens not counted."""
        return int((self.unit != BLANK).sum())

    def first_bin(self) -> Tensor:
        """Flat number of each trial's first bin, shape (B,)."""
        return torch.cumsum(self.n_bins, 0) - self.n_bins

    def padded(self) -> PaddedBatch:
        """The same batch as dense tensors, each bin padded to the one with most tokens."""
        tokens = torch.stack([self.unit.to(torch.float64), self.offset], -1)  # (N, 2)
        is_token = torch.ones_like(self.bin, dtype=torch.bool)  # (N,)
        in_bin = torch.bincount(self.bin).tolist()  # tokens of each bin
        in_trial = self.n_bins.tolist()
        # (bins of all trials, max_token, 2) and (bins of all trials, max_token)
        padded = pad_sequence(tokens.split(in_bin), batch_first=True)
        filled = pad_sequence(is_token.split(in_bin), batch_first=True)
        # (B, max_bin, max_token, 2) and (B, max_bin, max_token)
        padded_bin = pad_sequence(padded.split(in_trial), batch_first=True)
        spike_mask = pad_sequence(filled.split(in_trial), batch_first=True)
        return PaddedBatch(
            padded_bin=padded_bin,
            bin_mask=spike_mask.any(-1),
            spike_mask=spike_mask,
            behavior=self.behavior,
            bin_width_s=self.bin_width_s,
        )
