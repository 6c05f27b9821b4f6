"""Chapter 10: right answers in other styles."""

import math

import numpy as np
import torch

from .helpers import answers, load

check = load("10_spikes_as_tokens")


def spike_by_spike(time_s, duration_s, width_s):
    bins = [math.floor(t / width_s + 1e-6) for t in time_s.tolist()]
    offsets = [max(t - b * width_s, 0.0) for t, b in zip(time_s.tolist(), bins, strict=True)]
    return [torch.tensor(bins), torch.tensor(offsets, dtype=torch.float64), math.ceil(duration_s / width_s - 1e-6)]


def bins_as_floats(time_s, duration_s, width_s):
    """Bins that are whole, but not integers, and offsets slightly below zero are no mistake."""
    bins = (time_s / width_s + 1e-6).floor()
    return bins, time_s - bins * width_s, float(math.ceil(duration_s / width_s - 1e-6))


def pairs_by_index(counts, velocity, lag_bins):
    pairs = [(i, i + lag_bins) for i in range(len(counts)) if 0 <= i + lag_bins < len(counts)]
    earlier, later = (list(x) for x in zip(*pairs, strict=True))
    return counts[earlier], velocity[later]


def mse_with_where_before(predicted, vel, n_bins):
    real = (torch.arange(vel.shape[1])[None] < n_bins[:, None])[..., None].expand_as(vel)
    return (torch.where(real, predicted, 0.0) - torch.where(real, vel, 0.0)).pow(2).sum() / real.sum()


def tokens_by_complex_numbers(unit, time_s, b, E, omega, width_s):
    offset = [t - k * width_s for t, k in zip(time_s.tolist(), b.tolist(), strict=True)]
    phase = torch.exp(1j * torch.tensor(offset, dtype=torch.float64).outer(omega))
    pairs = torch.view_as_complex(E[unit].double().reshape(len(unit), -1, 2))
    return torch.view_as_real(pairs * phase).reshape(len(unit), -1).float()


def windows_one_by_one(recording, begin, end, n, window_s, lag_s, width_s, rng):
    """Loops and lists; what comes back is NumPy."""
    starts = [rng.uniform(begin, end - window_s) for _ in range(n)]
    n_bins, tokens, rows = math.ceil(window_s / width_s - 1e-6), [], []
    for i, start in enumerate(starts):
        bins, first = [[] for _ in range(n_bins)], start - lag_s
        for t, u in zip(recording.spike_times - first, recording.spike_units, strict=True):
            if -1e-6 <= t < window_s - 1e-6:
                b = max(int(t / width_s + 1e-6), 0)
                bins[b].append((u + 1, max(t - b * width_s, 0.0)))
        for b, spikes in enumerate(bins):
            tokens += [(u, dt, b + i * n_bins) for u, dt in spikes or [(0, 0.0)]]
        seen = (recording.behavior_times >= start - 1e-6) & (recording.behavior_times < start + window_s - 1e-6)
        rows.append((recording.behavior_times[seen] - start, recording.behavior[seen]))
    mask = np.arange(max(len(t) for t, _ in rows)) < np.array([len(t) for t, _ in rows])[:, None]
    times, velocity = np.zeros(mask.shape), np.full((*mask.shape, 2), np.nan)  # what padding holds is free
    times[mask], velocity[mask] = np.concatenate([t for t, _ in rows]), np.concatenate([v for _, v in rows])
    unit, offset, bins = (np.array(x) for x in zip(*tokens, strict=True))
    targets = {"times": times, "velocity": velocity, "mask": mask}
    return {"starts": np.array(starts), "unit": unit, "offset": offset, "bin": bins, **targets}


test_answers = answers(
    check,
    [
        ("to_bins", spike_by_spike),
        ("to_bins", bins_as_floats),
        ("lagged", pairs_by_index),
        ("padding_share", 0.48, "longest trial"),
        ("masked_mse", mse_with_where_before),
        ("spike_tokens", tokens_by_complex_numbers),
        ("training_windows", windows_one_by_one),
        ("training_windows", lambda *args: {k: v.tolist() for k, v in windows_one_by_one(*args).items()}),
    ],
)
