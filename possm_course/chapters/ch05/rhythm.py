"""A neuron with a rhythm: its spikes, the kernel of their pairs, and fitted spectra."""

import math

import numpy as np
import torch
from torch import Tensor

from possm_course.chapters.ch02.adam import Adam
from possm_lite.nn.time_features import (
    QuantileFrequencies,
    gaussian_frequencies,
    gaussian_kernel,
)

DURATION, RATE = 2.0, 20.0  # s, spikes/s: of a trial


def rhythmic_spikes(hz: np.ndarray, rng: np.random.Generator) -> list[np.ndarray]:
    """The spike times of one trial for each frequency.

    Candidates are kept with probability (1 + cos) / 2 of the rhythm.

    Args:
        hz: The frequencies of the trials in Hz, shape (trials,).
        rng: The source of the draws.

    Returns:
        The spike times of each trial in s, sorted, shape (spikes,) each.
    """
    trials = []
    phases = rng.uniform(0, 2 * np.pi, len(hz))
    for f, phase in zip(hz, phases, strict=True):
        candidate = np.sort(rng.uniform(0, DURATION, rng.poisson(2 * RATE * DURATION)))
        p_kept = (1 + np.cos(2 * np.pi * f * candidate + phase)) / 2
        trials.append(candidate[rng.random(len(candidate)) < p_kept])
    return trials


def measured_kernel(
    trials: list[np.ndarray], bin_s: float = 0.01, longest_s: float = 0.6
) -> tuple[Tensor, Tensor]:
    """The kernel of a rhythm from the pairs of its spikes, by (5.5).

    Args:
        trials: Spike times of each trial in s.
        bin_s: The width of a bin of lags in s.
        longest_s: The longest lag in s.

    Returns:
        The lags in s, shape (L,), and 2 (pairs / pairs by chance - 1), shape (L,).
    """
    lags = [_lags_of_pairs(spikes) for spikes in trials]
    count, edges = np.histogram(np.concatenate(lags), np.arange(0, longest_s + bin_s / 2, bin_s))
    lag = (edges[:-1] + edges[1:]) / 2
    mean_rate = sum(map(len, trials)) / (len(trials) * DURATION)
    by_chance = len(trials) * (DURATION - lag) * bin_s * mean_rate**2
    return torch.tensor(lag).float(), torch.tensor(2 * (count / by_chance - 1)).float()


def _lags_of_pairs(spikes: np.ndarray) -> np.ndarray:
    """The times between all pairs of spikes (n,): (n (n - 1) / 2,)."""
    lags = spikes - spikes[:, None]  # (n, n)
    return lags[np.triu_indices(len(spikes), 1)]


def fit_gaussian(
    lag_s: Tensor,
    measured: Tensor,
    start_hz: Tensor,
    steps: int = 400,
    n_freqs: int | None = 32,
) -> tuple[Tensor, Tensor, Tensor]:
    """Gaussian spectra fitted to a measured kernel, from several starts.

    Args:
        lag_s: The lags in s, shape (L,).
        measured: The kernel at the lags, shape (L,).
        start_hz: The first mu of each fit in Hz, shape (S,); the first sigma is 1 Hz.
        steps: Training steps.
        n_freqs: Frequencies drawn anew at each step; None fits the closed form (5.4).

    Returns:
        mu and sigma in Hz, and the mean squared errors of the closed forms, shape (S,) each.
    """
    mu = start_hz.clone().requires_grad_()
    log_sigma = torch.zeros_like(mu).requires_grad_()
    adam = Adam([mu, log_sigma], 0.05)

    def closed_form() -> Tensor:
        """The kernels of all fits, (L, S)."""
        return gaussian_kernel(lag_s[:, None], 2 * math.pi * mu, 2 * math.pi * log_sigma.exp())

    def estimate(n_freqs: int) -> Tensor:
        """The kernels of all fits, (L, S), from frequencies drawn at random."""
        eps = torch.randn(n_freqs, len(mu))
        omega = 2 * math.pi * gaussian_frequencies(mu, log_sigma.exp(), eps)  # (F, S)
        return torch.cos(lag_s[:, None, None] * omega).mean(1)

    def errors(psi: Tensor) -> Tensor:
        """The error of each fit, (S,)."""
        return (psi - measured[:, None]).square().mean(0)

    for _ in range(steps):
        psi = closed_form() if n_freqs is None else estimate(n_freqs)
        adam.step(errors(psi).sum())
    with torch.no_grad():
        return mu.detach(), log_sigma.exp().detach(), errors(closed_form())


def fit_quantiles(
    lag_s: Tensor, measured: Tensor, seed: int, highest_hz: float, steps: int = 300
) -> tuple[QuantileFrequencies, float]:
    """A learned inverse CDF of frequencies, of 24 lines, fitted to a measured kernel.

    Args:
        lag_s: The lags in s, shape (L,).
        measured: The kernel at the lags, shape (L,).
        seed: Of torch's draws.
        highest_hz: The inverse CDF starts as one line from 0 to this frequency, in Hz.
        steps: Training steps.

    Returns:
        The inverse CDF, and its mean squared error in the last step.
    """
    torch.manual_seed(seed)
    highest = 2 * math.pi * highest_hz
    frequencies = QuantileFrequencies(128, lowest=0.0, highest=highest, n_knots=24)
    adam = Adam(frequencies.parameters(), 0.05)
    for _ in range(steps):
        psi = torch.cos(lag_s[:, None] * frequencies()).mean(1)  # (L,)
        error = (psi - measured).square().mean()
        adam.step(error)
    return frequencies, error.item()
