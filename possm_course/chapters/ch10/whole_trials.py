"""Whole trials of a recording as the spikes and the velocity of one batch."""

import numpy as np
import torch
from torch import Tensor

from possm_lite.recordings import Recording, SpikeBatch
from possm_lite.recordings.batch import count_bins


def batch_of(recording: Recording, trials: np.ndarray) -> SpikeBatch:
    """The spikes of some trials, with bins of 50 ms that begin with each trial.

    Args:
        recording: the spikes.
        trials: start and stop of each trial in s, shape (B, 2).

    Returns:
        The trials as one batch; units are counted from 1.
    """
    which, unit, time_s = [], [], []
    for i, (begins, ends) in enumerate(trials):
        inside = slice(*np.searchsorted(recording.spike_times, (begins, ends)))
        time_s.append(recording.spike_times[inside] - begins)
        unit.append(recording.spike_units[inside] + 1)
        which.append(np.full(len(unit[-1]), i))
    which, unit, time_s = (np.concatenate(x) for x in (which, unit, time_s))
    return SpikeBatch.from_events(which, unit, time_s, len(trials), trials[:, 1] - trials[:, 0])


def velocity_of(
    recording: Recording, trials: np.ndarray, std: np.ndarray, width_s: float
) -> tuple[Tensor, Tensor]:
    """The velocity in the middle of each bin, divided by its spread and padded with 0.

    Args:
        recording: the behaviour, of two columns.
        trials: start and stop of each trial in s, shape (B, 2).
        std: spread of the velocity, shape (2,).
        width_s: width of a bin in s.

    Returns:
        Velocity, float64, shape (B, T, 2), and the number of bins of each trial, shape (B,).
    """
    n_bins = count_bins(trials[:, 1] - trials[:, 0], width_s)  # (B,)
    vel = torch.zeros(len(trials), int(n_bins.max()), 2, dtype=torch.float64)
    for i, ((begins, _), n) in enumerate(zip(trials, n_bins, strict=True)):
        middle = begins + (np.arange(n) + 0.5) * width_s  # (T_i,)
        at = [np.interp(middle, recording.behavior_times, x) for x in recording.behavior.T]
        vel[i, :n] = torch.from_numpy(np.stack(at, 1) / std)
    return vel, torch.from_numpy(n_bins)
