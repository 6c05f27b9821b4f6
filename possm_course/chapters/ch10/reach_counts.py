"""Spike counts of reaches from the centre, and the cosine of direction that fits them (chapter 10)."""

import numpy as np

from possm_lite.recordings import Recording
from possm_lite.simulate.reaches import Reaches


def outward_reaches(reaches: Reaches) -> tuple[np.ndarray, np.ndarray]:
    """Start (R,), in s, and direction (R,), in rad, of the reaches from the centre to a target on the circle."""
    away = ~reaches.random_target[reaches.trial] & (np.hypot(*reaches.origin_mm.T) < 1)
    x, y = (reaches.target_mm - reaches.origin_mm)[away].T
    return reaches.start_s[away], np.arctan2(y, x)


def counts_since(recording: Recording, starts: np.ndarray, window_s: float) -> np.ndarray:
    """Spikes of each unit in a window from each start on, (R, U)."""
    trains = [recording.spike_times[recording.spike_units == u] for u in range(recording.n_units)]
    return np.stack(
        [np.diff(np.searchsorted(t, [starts, starts + window_s]), axis=0)[0] for t in trains], -1
    )


def fit_cosine(counts: np.ndarray, direction: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """b, x, y of the cosine b + x cos + y sin for each unit, (3, U), and the counts it expects, (R, U)."""
    design = np.stack([np.ones_like(direction), np.cos(direction), np.sin(direction)], -1)  # (R, 3)
    coefficients = np.linalg.lstsq(design, counts, rcond=None)[0]
    return coefficients, design @ coefficients
