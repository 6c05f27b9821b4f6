"""The decoders POSSM is measured against: all of them see spike counts per bin and nothing finer.

They are called like POSSM, with a `SpikeBatch`, wanted times and session, so that one loop trains and tests them all.
A bin is divided into slots, one for each behaviour sample it usually holds, and a decoder gives one velocity per slot;
the answer at a time is that of its slot. The square root of a count is used, which makes its variance nearly constant.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ..blocks.recurrent import GRU
from ..spikes.batch import SpikeBatch
from .possm import query_bins


def bin_counts(batch: SpikeBatch, n_units: int) -> Tensor:
    """Spikes per bin and unit as (B, T, U), float32, zeros behind the last bin of a shorter trial."""
    trial = torch.repeat_interleave(torch.arange(batch.n_trials, device=batch.bin.device), batch.n_bins)
    longest = int(batch.n_bins.max())
    place = trial * longest + torch.arange(len(trial), device=trial.device) - batch.first_bin()[trial]
    flat = place[batch.bin] * (n_units + 1) + batch.unit
    counts = torch.bincount(flat, minlength=batch.n_trials * longest * (n_units + 1))
    return counts.view(batch.n_trials, longest, n_units + 1)[..., 1:].float()  # without the blank token


def history(counts: Tensor, n_bins: int) -> Tensor:
    """Each bin with the ones before it, oldest first: (B, T, U) to (B, T, n_bins * U), zeros before the first bin.

    Causal: row t holds bins t - n_bins + 1 to t.
    """
    padded = torch.cat([counts.new_zeros(len(counts), n_bins - 1, counts.shape[-1]), counts], 1)
    return padded.unfold(1, n_bins, 1).transpose(-1, -2).flatten(-2)


class BinnedDecoder(nn.Module):
    """What the decoders of binned counts share.

    Args:
        n_units: U.
        bin_width_s: seconds.
        n_slots: velocities per bin.
    """

    def __init__(self, n_units: int, bin_width_s: float = 0.05, n_slots: int = 1):
        super().__init__()
        self.n_units, self.bin_width_s, self.n_slots = n_units, bin_width_s, n_slots
        self.register_buffer("velocity_mean", torch.zeros(2, 2))  # row 0 is no session, as in POSSM
        self.register_buffer("velocity_std", torch.ones(2, 2))

    def forward(self, batch: SpikeBatch, output_times_s: Tensor, session: Tensor) -> Tensor:
        """Velocity at the wanted times, (B, Q, 2): arguments as for `POSSM.forward`."""
        slots = self.decode_counts(bin_counts(batch, self.n_units).sqrt())  # (B, T, n_slots, 2)
        slot = query_bins(output_times_s, self.bin_width_s / self.n_slots)  # (B, Q), counted through the trial
        answer = slots.flatten(1, 2).gather(1, slot[..., None].expand(-1, -1, 2))
        return self.velocity_mean[session][:, None] + self.velocity_std[session][:, None] * answer

    def decode_counts(self, counts: Tensor) -> Tensor:
        """Square-root counts (B, T, U) to standardised velocity (B, T, n_slots, 2)."""
        raise AttributeError("a binned decoder defines decode_counts")


class BinnedMLP(BinnedDecoder):
    """A perceptron of one hidden layer over the last `n_history` bins."""

    def __init__(self, n_units, bin_width_s=0.05, n_slots=1, n_history: int = 10, hidden: int = 256):
        super().__init__(n_units, bin_width_s, n_slots)
        self.n_history = n_history
        self.expand = nn.Linear(n_history * n_units, hidden)
        self.readout = nn.Linear(hidden, 2 * n_slots)

    def decode_counts(self, counts: Tensor) -> Tensor:
        hidden = torch.relu(self.expand(history(counts, self.n_history)))
        return self.readout(hidden).unflatten(-1, (self.n_slots, 2))


class BinnedGRU(BinnedDecoder):
    """A gated recurrent network over bins, with the same hidden size as POSSM's."""

    def __init__(self, n_units, bin_width_s=0.05, n_slots=1, hidden: int = 256):
        super().__init__(n_units, bin_width_s, n_slots)
        self.backbone = GRU(n_units, hidden)
        self.readout = nn.Linear(hidden, 2 * n_slots)

    def decode_counts(self, counts: Tensor) -> Tensor:
        return self.readout(self.backbone(counts)[0]).unflatten(-1, (self.n_slots, 2))
