"""Velocity from position, at the resolution that the position really has."""

import numpy as np

from .tracking import breaks, glitches, lost_samples, unwrap_angles

# of the typical speed: largest error in velocity that is accepted from the rounding of a position
_ERROR = 0.05
_LONGEST_S = 0.1  # longest window that a velocity is averaged over


def differentiate(times: np.ndarray, position: np.ndarray) -> tuple[np.ndarray, str]:
    """Velocity by central differences, NaN where a position is missing, not taken across a gap.

    A gap is a row with NaN, or more than twice the median step between two times. A position that
    is held from one update to the next, such as a cursor's of 60 Hz logged at 1 kHz, is
    differentiated from update to update, and velocity interpolated in between. Of a rounded
    position, such as whole pixels, velocity is the slope of a line fitted in a window so long that
    rounding adds about 5 % of the typical speed. Where tracking was lost, as `lost_samples` finds,
    a position is missing; an angle that wraps is unwrapped first. Across a step that no movement
    makes, as `breaks` finds, no velocity is taken.

    Args:
        times: seconds, increasing, shape (T,).
        position: in any unit, shape (T, C).

    Returns:
        Velocity in units per second, shape (T, C), and how it was taken: "" for central differences
        between all samples, of which none was left out.
    """
    how: list[str] = []
    position = _mend(times, position, how)
    velocity = np.full(position.shape, np.nan)
    step = np.median(np.diff(times))
    cuts = breaks(times, position)
    if len(cuts):
        how.append(
            f"it breaks off and goes on elsewhere in {len(cuts)} places, as where a cursor is put "
            "back: no velocity was taken across"
        )
    pieces = _pieces(times, position, step, cuts)
    if not pieces:
        return velocity, "; ".join(how)
    period = _update_period([position[piece] for piece in pieces])
    updates = [_updates(position, piece, period) for piece in pieces]
    n = _window(position[np.concatenate(updates)], period * step)
    for piece, update in zip(pieces, updates, strict=True):
        if len(update) < 2:
            continue  # a piece so short that its position is held throughout has no velocity
        slope = _slope(times[update], position[update], n)
        for column in range(position.shape[1]):
            velocity[piece, column] = np.interp(times[piece], times[update], slope[:, column])
    if period > 1:
        logged, changes = f"{1 / step:.4g} Hz", f"{1 / (period * step):.3g} Hz"
        how.append(f"logged at {logged}, it changes at {changes}: taken between its changes")
    if n > 3:
        how.append(f"rounded to steps, so taken over {n * period * step * 1000:.3g} ms")
    return velocity, "; ".join(how)


def _mend(times: np.ndarray, position: np.ndarray, how: list[str]) -> np.ndarray:
    """The position (T, C) at times (T,) s, NaN where tracking was lost, its angles unwrapped.

    Each is a sentence of `how`.
    """
    lost, value = lost_samples(position)
    if lost.any():
        how.append(
            f"{lost.sum()} of {len(lost)} samples at {value} were left out, as tracking was lost: "
            "it jumps there and back"
        )
        position = np.where(lost[:, None], np.nan, position)
    position, unwrapped = unwrap_angles(position)
    for column, period in unwrapped:
        name = "" if position.shape[1] == 1 else f"column {column} "
        how.append(f"the angle {name}wraps at {period:.4g} and was unwrapped")
    is_glitch = glitches(times, position)
    if is_glitch.any():
        how.append(
            f"{is_glitch.sum()} of {len(position)} samples were left out, to which it jumps for "
            "0.1 s at most and back, as no movement does"
        )
        position = np.where(is_glitch[:, None], np.nan, position)
    return position


def _pieces(
    times: np.ndarray, position: np.ndarray, step: float, cuts: np.ndarray
) -> list[np.ndarray]:
    """The samples between gaps, an array of indices for each piece of two samples or more.

    A new piece also begins at each sample of `cuts`.
    """
    valid = np.flatnonzero(np.isfinite(position).all(axis=1))
    is_missing = np.diff(valid) > 1
    is_pause = np.diff(times[valid]) > 2 * step * (1 + 1e-6)
    is_cut = np.isin(valid[1:], cuts)
    pieces = np.split(valid, np.flatnonzero(is_missing | is_pause | is_cut) + 1)
    return [piece for piece in pieces if len(piece) > 1]


def _update_period(pieces: list[np.ndarray]) -> float:
    """Samples from one update of a held position to the next, 1 where it is not held.

    It is held if most changes are so far apart.
    """
    steps = []
    for position in pieces:
        changed = np.diff(position, axis=0).any(axis=1)
        steps.append(np.diff(np.flatnonzero(changed)))
    steps = np.concatenate(steps)
    if len(steps) < 10:
        return 1.0
    period = steps[steps <= 1.5 * np.percentile(steps, 5) + 1].mean()
    is_held = period > 1.2 and np.mean(np.abs(steps - period) < max(1, 0.1 * period)) > 0.8
    return float(period) if is_held else 1.0


def _updates(position: np.ndarray, piece: np.ndarray, period: float) -> np.ndarray:
    """The samples of a piece at which a held position is updated, at rest one in each period."""
    if period == 1:
        return piece
    changed = np.flatnonzero(np.diff(position[piece], axis=0, prepend=np.nan).any(axis=1))
    ends = np.append(changed[1:], len(piece))
    at = [
        np.arange(start, stop - period / 2, period)
        for start, stop in zip(changed, ends, strict=True)
    ]
    if len(changed) > 1:
        # the first value may be older than the piece: its updates are counted back from the next
        at[0] = np.arange(changed[1] - period, -1, -period)
    return piece[np.unique(np.concatenate(at).astype(int))]


def _window(position: np.ndarray, step: float) -> int:
    """Samples, an odd number, of a window in which rounding leaves an error of `_ERROR`.

    1 if nothing is rounded.
    """
    lag = max(1, round(_LONGEST_S / step))
    quanta = []
    for x in position.T:
        values = np.unique(x)
        # a rounded position comes back to each value again and again
        if 1 < len(values) < len(x) / 4:
            quanta.append(np.median(np.diff(values)))
    if not quanta or len(position) <= lag:
        return 1
    moved = position[lag:] - position[:-lag]
    speed = np.sqrt(np.mean(moved**2, axis=0).max()) / (lag * step)
    error = max(quanta) / np.sqrt(12)  # standard deviation of rounding
    seconds = min(error / (_ERROR * speed), _LONGEST_S)
    return 2 * int(np.ceil(seconds / step / 2)) + 1


def _slope(times: np.ndarray, position: np.ndarray, n: int) -> np.ndarray:
    """Slope (T, C) of a line fitted to the n samples around each; to n = 3 central differences."""
    if n <= 3 or len(times) < n:
        return np.gradient(position, times, axis=0)
    from scipy.ndimage import correlate1d  # slow to import

    # sums over each window by itself: running sums lose their digits in a long recording
    weights = np.arange(n) - n // 2.0
    x = correlate1d(position - position[0], weights, axis=0, mode="nearest")
    t = correlate1d(times - times[0], weights, mode="nearest")
    return x / t[:, None]
