"""A decoder of day 0 on a later day without a gradient: alignment of latents, and moments without labels."""

import copy
from collections.abc import Callable

import numpy as np
import torch

from possm_lite.training import Session
from possm_lite.training.linear import binned


# Alignment, without a gradient
def rows(session: Session, part: str = "train") -> tuple[np.ndarray, np.ndarray]:
    """Of each bin: root counts (N, U), and the movement from 300 ms before to 300 ms after it, (N, 14)."""
    counts, movements = binned(session, part)
    around = []
    for v in movements:  # (T, slots, 2), in standard deviations
        v = np.pad(
            np.nan_to_num(v * session.std + session.mean).mean(1), ((6, 6), (0, 0)), mode="edge"
        )
        around.append(np.concatenate([v[k : k + len(v) - 12] for k in range(0, 13, 2)], 1))
    return np.concatenate(counts).astype(float), np.concatenate(around)


def map_in(model) -> tuple[np.ndarray, np.ndarray]:
    """W (U, D) and b (D,) of a decoder on counts: it reads sqrt(n) W + b."""
    E, e = model.unit_embedding.weight, model.session_embedding.weight
    return E[1:].detach().double().numpy(), e[1].detach().double().numpy()


def with_map(model, W: np.ndarray, b: np.ndarray):
    """A copy that reads sqrt(n) W + b; all else is the same."""
    other = copy.deepcopy(model)
    with torch.no_grad():
        other.unit_embedding.weight[1:], other.session_embedding.weight[1] = (
            torch.tensor(W),
            torch.tensor(b),
        )
    return other


def components(x: np.ndarray, c: int) -> tuple[np.ndarray, np.ndarray]:
    """Mean, and the first c principal axes as columns."""
    return x.mean(0), np.linalg.svd(x - x.mean(0), full_matrices=False)[2][:c].T


def when_alike(
    movement: np.ndarray, movement_first: np.ndarray, latents_first: np.ndarray, alike: int = 5
):
    """For each bin of today the mean latents (N, D) of the bins of day 0 with the most similar movements."""
    a, b = movement / movement_first.std(0), movement_first / movement_first.std(0)
    distance = (a**2).sum(1)[:, None] + (b**2).sum(1) - 2 * a @ b.T  # (N, N of day 0)
    return latents_first[np.argpartition(distance, alike, 1)[:, :alike]].mean(1)


def canonical(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Formula (16.5): the map M (c, c) from latents x to latents y, both (N, c), and the canonical correlations."""
    (q_x, r_x), (q_y, r_y) = (np.linalg.qr(z - z.mean(0)) for z in (x, y))
    U, S, Vt = np.linalg.svd(q_x.T @ q_y)
    return np.linalg.solve(r_x, U @ Vt @ r_y), S


def aligned(model, today: Session, first: Session, align: Callable = canonical, c: int = 16):
    """The decoder of day 0 behind a map that takes the latents of today to those of day 0."""
    (n, movement), (n_first, movement_first), (W, b) = rows(today), rows(first), map_in(model)
    y = when_alike(
        movement, movement_first, n_first @ W
    )  # (N, D): what x was when it moved like this
    (n_mean, P), (y_mean, P_y) = components(n, c), components(y, c)
    W_new = P @ align((n - n_mean) @ P, (y - y_mean) @ P_y)[0] @ P_y.T
    return with_map(model, W_new, b + y_mean - n_mean @ W_new)


def mean_paths(session: Session, latents: np.ndarray, n_bins: int = 13) -> np.ndarray:
    """Latents (N, c) of the training bins, averaged over the reaches to each of eight directions, (8, n_bins, c)."""
    r, width, first = session.recording, session.timeline.bin_width_s, session.split.train[0, 0]
    paths = [[] for _ in range(8)]
    for start, stop in session.split.train:
        x, y = r.behavior[slice(*np.searchsorted(r.behavior_times, (start, stop)))].mean(0)
        row = round((start - first) / width)
        if row + n_bins <= len(latents):
            paths[round(np.arctan2(y, x) / (np.pi / 4)) % 8].append(latents[row : row + n_bins])
    return np.stack([np.mean(some, 0) for some in paths])


# Without labels: the statistics of the counts
def moments_of_counts(model, today: Session, first: Session):
    """Mean and spread of each unit's root counts as on day 0."""
    n, n_first, (W, b) = rows(today)[0], rows(first)[0], map_in(model)
    stretch = n_first.std(0) / np.maximum(n.std(0), 1e-3)  # (U,)
    return with_map(model, stretch[:, None] * W, b + (n_first.mean(0) - n.mean(0) * stretch) @ W)


def moments_of_latents(model, today: Session, first: Session):
    """Mean and covariance of the latents as on day 0."""
    (W, b), n, n_first = map_in(model), rows(today)[0], rows(first)[0]
    M = _power(np.cov((n @ W).T), -0.5) @ _power(np.cov((n_first @ W).T), 0.5)  # (D, D)
    return with_map(model, W @ M, b + (n_first @ W).mean(0) - (n @ W).mean(0) @ M)


def _power(covariance: np.ndarray, p: float) -> np.ndarray:
    values, axes = np.linalg.eigh(covariance)
    return axes * np.maximum(values, 1e-6) ** p @ axes.T
