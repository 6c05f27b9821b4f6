"""The decoder of day 0 on a later day without a gradient: latents aligned, moments matched."""

import copy
from collections.abc import Callable

import numpy as np
import torch

from possm_lite.training import Session
from possm_lite.training.linear import binned


# Alignment, without a gradient
def rows(session: Session, part: str = "train") -> tuple[np.ndarray, np.ndarray]:
    """What happens in each bin of a part of a session.

    Args:
        session: the session.
        part: "train", "valid" or "test".

    Returns:
        Root counts (N, U), and the movement from 300 ms before to 300 ms after each bin, every
        100 ms, (N, 14).
    """
    counts, movements = binned(session, part)
    around = []
    for v in movements:  # (T, slots, 2), in standard deviations
        v = np.nan_to_num(v * session.std + session.mean).mean(1)  # (T, 2)
        v = np.pad(v, ((6, 6), (0, 0)), mode="edge")
        shifts = [v[k : k + len(v) - 12] for k in range(0, 13, 2)]  # 7 of (T, 2)
        around.append(np.concatenate(shifts, 1))
    return np.concatenate(counts).astype(float), np.concatenate(around)


def map_in(model) -> tuple[np.ndarray, np.ndarray]:
    """The map with which a decoder on counts begins: it reads sqrt(n) W + b.

    Args:
        model: a `CountGRU` of one session.

    Returns:
        W (U, D) and b (D,), float64.
    """
    E, e = model.unit_embedding.weight, model.session_embedding.weight
    return E[1:].detach().double().numpy(), e[1].detach().double().numpy()


def with_map(model, W: np.ndarray, b: np.ndarray):
    """A copy of a decoder that reads sqrt(n) W + b; all else is the same.

    Args:
        model: a `CountGRU` of one session; it is not changed.
        W: shape (U, D).
        b: shape (D,).

    Returns:
        The copy.
    """
    other = copy.deepcopy(model)
    with torch.no_grad():
        other.unit_embedding.weight[1:] = torch.tensor(W)
        other.session_embedding.weight[1] = torch.tensor(b)
    return other


def components(x: np.ndarray, c: int) -> tuple[np.ndarray, np.ndarray]:
    """The mean (D,) of x (N, D), and its first c principal axes as columns (D, c)."""
    mean = x.mean(0)
    _, _, axes = np.linalg.svd(x - mean, full_matrices=False)
    return mean, axes[:c].T


def when_alike(
    movement: np.ndarray, movement_first: np.ndarray, latents_first: np.ndarray, alike: int = 5
) -> np.ndarray:
    """The latents of day 0 when the hand moved as in each bin of today.

    Args:
        movement: of today, as from `rows`, shape (N, 14).
        movement_first: of day 0, shape (N_0, 14).
        latents_first: of day 0, shape (N_0, D).
        alike: bins of day 0 with the most similar movements, whose latents are averaged.

    Returns:
        Mean latents, shape (N, D).
    """
    spread = movement_first.std(0)
    a, b = movement / spread, movement_first / spread
    distance = (a**2).sum(1)[:, None] + (b**2).sum(1) - 2 * a @ b.T  # (N, N_0)
    nearest = np.argpartition(distance, alike, 1)[:, :alike]  # (N, alike)
    return latents_first[nearest].mean(1)


def canonical(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Canonical correlation analysis: formula (16.7).

    Args:
        x: latents, shape (N, c).
        y: latents that belong to them, shape (N, c).

    Returns:
        The map M (c, c) from x to y, and the canonical correlations (c,).
    """
    q_x, r_x = np.linalg.qr(x - x.mean(0))
    q_y, r_y = np.linalg.qr(y - y.mean(0))
    U, S, Vt = np.linalg.svd(q_x.T @ q_y)
    return np.linalg.solve(r_x, U @ Vt @ r_y), S


def procrustes(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The rotation, mirrorings allowed, that brings x closest to y.

    Args:
        x: latents, shape (N, c).
        y: latents that belong to them, shape (N, c).

    Returns:
        The orthogonal map (c, c), and the singular values of the covariance (c,).

    Source: Schönemann 1966, Psychometrika 31:1.
    """
    U, S, Vt = np.linalg.svd((x - x.mean(0)).T @ (y - y.mean(0)))
    return U @ Vt, S


def aligned(model, today: Session, first: Session, align: Callable = canonical, c: int = 16):
    """The decoder of day 0 behind a map that takes the latents of today to those of day 0.

    Args:
        model: the `CountGRU` of day 0; it is not changed.
        today: a later day, with movements.
        first: day 0.
        align: gives the map (c, c) from latents to others, both (N, c), and something more.
        c: number of principal components that are aligned.

    Returns:
        The decoder of today.
    """
    n, movement = rows(today)
    n_first, movement_first = rows(first)
    W, b = map_in(model)
    # (N, D): what x was when it moved like this
    y = when_alike(movement, movement_first, n_first @ W)
    n_mean, P = components(n, c)
    y_mean, P_y = components(y, c)
    M, _ = align((n - n_mean) @ P, (y - y_mean) @ P_y)
    W_new = P @ M @ P_y.T
    return with_map(model, W_new, b + y_mean - n_mean @ W_new)


def mean_paths(session: Session, latents: np.ndarray, n_bins: int = 13) -> np.ndarray:
    """Mean latents on the way of the reaches to each of eight directions.

    Args:
        session: its training trials are reaches.
        latents: of the training bins, shape (N, c).
        n_bins: bins from the start of a reach on.

    Returns:
        Means, shape (8, n_bins, c).
    """
    recording = session.recording
    width_s = session.timeline.bin_width_s
    first = session.split.train[0, 0]
    paths = [[] for _ in range(8)]
    for start, stop in session.split.train:
        samples = slice(*np.searchsorted(recording.behavior_times, (start, stop)))
        x, y = recording.behavior[samples].mean(0)
        direction = round(np.arctan2(y, x) / (np.pi / 4)) % 8
        row = round((start - first) / width_s)
        if row + n_bins <= len(latents):
            paths[direction].append(latents[row : row + n_bins])
    return np.stack([np.mean(some, 0) for some in paths])


# Without labels: the statistics of the counts
def moments_of_counts(model, today: Session, first: Session):
    """The decoder of day 0 with mean and spread of each unit's root counts as on day 0.

    Args:
        model: the `CountGRU` of day 0; it is not changed.
        today: a later day; its movements are not used.
        first: day 0.

    Returns:
        The decoder of today.
    """
    n, _ = rows(today)
    n_first, _ = rows(first)
    W, b = map_in(model)
    stretch = n_first.std(0) / np.maximum(n.std(0), 1e-3)  # (U,)
    shift = n_first.mean(0) - n.mean(0) * stretch  # (U,)
    return with_map(model, stretch[:, None] * W, b + shift @ W)


def moments_of_latents(model, today: Session, first: Session):
    """The decoder of day 0 with mean and covariance of the latents as on day 0.

    Args:
        model: the `CountGRU` of day 0; it is not changed.
        today: a later day; its movements are not used.
        first: day 0.

    Returns:
        The decoder of today.
    """
    W, b = map_in(model)
    n, _ = rows(today)
    n_first, _ = rows(first)
    x, x_first = n @ W, n_first @ W  # (N, D) each
    M = _power(np.cov(x.T), -0.5) @ _power(np.cov(x_first.T), 0.5)  # (D, D)
    return with_map(model, W @ M, b + x_first.mean(0) - x.mean(0) @ M)


def _power(covariance: np.ndarray, p: float) -> np.ndarray:
    """A covariance (D, D) to the power p, by its eigenvalues, which are at least 1e-6."""
    values, axes = np.linalg.eigh(covariance)
    return axes * np.maximum(values, 1e-6) ** p @ axes.T
