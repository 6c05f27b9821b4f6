"""Velocity from position at the resolution that the position really has."""

import numpy as np


def differentiate(times: np.ndarray, position: np.ndarray) -> tuple[np.ndarray, str]:
    """Velocity (T, C) by central differences, NaN where a position is missing, not taken across a gap.

    A gap is a row with NaN, or more than twice the median step between two times.
    """
    velocity = np.full(position.shape, np.nan)
    valid = np.flatnonzero(~np.isnan(position).any(axis=1))
    gap = (np.diff(valid) > 1) | (np.diff(times[valid]) > 2 * np.median(np.diff(times)))
    for segment in np.split(valid, np.flatnonzero(gap) + 1):
        if len(segment) > 1:
            velocity[segment] = np.gradient(position[segment], times[segment], axis=0)
    return velocity, ""
