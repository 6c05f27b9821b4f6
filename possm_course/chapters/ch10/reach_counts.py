"""Spike counts of reaches from the centre, and the cosine of direction that fits them."""

import numpy as np

from possm_lite.recordings import Recording
from possm_lite.simulate.reaches import Reaches


def outward_reaches(reaches: Reaches) -> tuple[np.ndarray, np.ndarray]:
    """The reaches from the centre to a target on the circle.

    Args:
        reaches: all reaches of a session.

    Returns:
        Start in s, shape (R,), and direction in rad, shape (R,).
    """
    away = ~reaches.random_target[reaches.trial] & (np.hypot(*reaches.origin_mm.T) < 1)
    x, y = (reaches.target_mm - reaches.origin_mm)[away].T
    return reaches.start_s[away], np.arctan2(y, x)


def counts_since(recording: Recording, starts: np.ndarray, window_s: float) -> np.ndarray:
    """Spikes of each unit in a window from each start on.

    Args:
        recording: the spikes.
        starts: in s, shape (R,).
        window_s: length of the windows in s.

    Returns:
        Counts, shape (R, U).
    """
    counts = []
    for unit in range(recording.n_units):
        train = recording.spike_times[recording.spike_units == unit]
        first, end = np.searchsorted(train, [starts, starts + window_s])  # (R,) each
        counts.append(end - first)
    return np.stack(counts, -1)


def fit_cosine(counts: np.ndarray, direction: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The cosine b + x cos + y sin of direction with the least squared error, for each unit.

    Args:
        counts: spikes in each reach, shape (R, U).
        direction: of each reach, in rad, shape (R,).

    Returns:
        b, x and y in spikes, shape (3, U), and the counts expected, shape (R, U).
    """
    design = np.stack([np.ones_like(direction), np.cos(direction), np.sin(direction)], -1)  # (R, 3)
    coefficients = np.linalg.lstsq(design, counts, rcond=None)[0]
    return coefficients, design @ coefficients
