"""Chapter 10: right answers in other styles."""

import math

import numpy as np
import torch

from possm_course.chapters.ch10 import reach_counts
from possm_lite.recordings import Timeline
from possm_lite.simulate import simulate_session
from possm_lite.simulate.neurons import SimulationConfig

from .helpers import answers, load

check = load("ch10")


def pairs_by_index(counts, velocity, lag_bins):
    pairs = [(i, i + lag_bins) for i in range(len(counts)) if 0 <= i + lag_bins < len(counts)]
    earlier, later = (list(x) for x in zip(*pairs, strict=True))
    return counts[earlier], velocity[later]


def tuning_by_normal_equations(counts, direction_rad, window_s):
    design = np.stack([np.ones_like(direction_rad), np.cos(direction_rad), np.sin(direction_rad)])
    fit = np.linalg.solve(design @ design.T, design @ counts)  # in spikes a window
    arrow = complex(fit[1], fit[2])
    return np.angle(arrow), abs(arrow) / window_s, np.sum((counts - fit @ design) ** 2) / counts.sum()


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


def windows_of_the_package(recording, begin, end, n, window_s, lag_s, width_s, rng):
    """What the exercise asks to write oneself."""
    starts = rng.uniform(begin, end - window_s, n)
    batch = Timeline(recording, lag_s, width_s).cut(starts, window_s)
    targets = {"times": batch.times_s, "velocity": batch.behavior, "mask": batch.mask}
    return {"starts": starts, "unit": batch.unit, "offset": batch.offset, "bin": batch.bin, **targets}


def notes_in_arrays(trials):
    bins = [np.array(pairs or [(0, 0.0)]) for trial in trials for pairs in trial["spikes"]]
    unit, offset = np.concatenate(bins).T
    return unit.astype(int), offset, np.repeat(np.arange(len(bins)), [len(tokens) for tokens in bins])


def test_tuning_finds_what_the_simulator_drew():
    """Preferred directions, and counts that are Poisson's unless excitability fluctuates."""
    still = {"untuned_share": 0.0, "bend_deg": 0.0, "turning_deg": 0.0, "common_turning_deg": 0.0, "position_gain": 0.0}
    factors = []
    for shared in (0.0, 1.0):
        changes = still | {"common_gain": 0.0, "shared_gain": shared}
        session = simulate_session(0, SimulationConfig(n_units=20, n_trials=200, random_target_share=0.0, **changes))
        starts, direction = reach_counts.outward_reaches(session.truth.reaches)
        counts = reach_counts.counts_since(session.recording, starts - 0.1, 0.2)
        found, _, fano = np.transpose([check.tuning.reference(n, direction, 0.2) for n in counts.T])
        factors.append(fano.mean())
        off = np.angle(np.exp(1j * (found - session.truth.units.preferred_direction_rad)))
        assert np.median(np.abs(off)) < np.radians(10 if shared else 6)
    assert 0.9 < factors[0] < 1.05 and factors[1] > 1.2


test_answers = answers(
    check,
    ("lagged", pairs_by_index),
    ("tuning", tuning_by_normal_equations),
    ("masked_mse", mse_with_where_before),
    ("spike_tokens", tokens_by_complex_numbers),
    ("training_windows", windows_one_by_one),
    ("training_windows", lambda *args: {k: v.tolist() for k, v in windows_one_by_one(*args).items()}),
    ("training_windows", windows_of_the_package, "AttributeError"),
    ("flat_notes", notes_in_arrays),
)
