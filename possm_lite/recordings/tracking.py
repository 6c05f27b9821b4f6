"""Signs of a movement that is not one: lost tracking, angles that wrap, and labels.

Nothing is changed here but by `unwrap_angles`; a caller says what it left out or unwrapped. T is
the number of samples, C that of columns.
"""

import numpy as np

PERIODS = (2 * np.pi, 360.0)  # of an angle, in radians and degrees
_FAR = 5.0  # a jump is so many times a large step
_FAR_IF_OFTEN = 1.2  # to a value that is there much more often than those around it
_OFTEN = 10.0  # so many times as often
_BREAK = 3.0  # a step is so many times those around it where a movement breaks off
_GLITCH_S = 0.1
_MOST_BREAKS = 0.04  # of all steps
_SLOWEST_S = 0.025  # a movement that is sampled more rarely may have such steps, as of eyes
_LARGE = 99.5  # percentile of the steps that is a large step
_MOST_LABELS = 20
_SHORTEST_LABEL_S = 0.2
_IMPOSSIBLE = 1e3  # so many times as far from the median as the usual farthest: no movement
_FEW_FRAMES = 0.01  # share of the samples
_MOST_VARIANCE = 0.5


def lost_samples(values: np.ndarray) -> tuple[np.ndarray, str]:
    """Samples at which tracking was lost, and which value stands for that.

    Such a value, all columns or one of them, is exactly the same each time; the movement jumps to
    it, much farther than from any sample to the next, and then back to about where it was. A cursor
    that waits at its centre leaves it in small steps; between steps of a target nothing moves.

    From reports: Neuralynx writes (0, 0) (neuroconv #524); others write -1 or 1e6.

    Args:
        values: a movement, shape (T, C), NaN where missing.

    Returns:
        True for each such sample, shape (T,), and the value as text, such as "(0, 0)"; "" if there
        is none.
    """
    lost = np.zeros(len(values), dtype=bool)
    found: list[str] = []
    columns = [slice(c, c + 1) for c in range(values.shape[1])]
    whole = [slice(None)] if len(columns) > 1 else []
    is_whole = np.isfinite(values).all()
    for group in [*whole, *columns]:
        part = values[:, group]
        present = slice(None)
        if lost.any() or not is_whole:
            present = np.flatnonzero(~lost & np.isfinite(part).all(axis=1))
            part = part[present]
        for value in _lost_values(part):
            lost[present] |= (part == value).all(axis=1)
            found.append(_as_text(value))
    return lost, " and ".join(dict.fromkeys(found))


def _as_text(value: np.ndarray) -> str:
    """A row of numbers, (C,), as "(0, 0)"; a single one without parentheses."""
    text = ", ".join(f"{number:.6g}" for number in value)
    return f"({text})" if len(value) > 1 else text


@np.errstate(over="ignore", invalid="ignore")  # values may be as large as numbers are
def _lost_values(part: np.ndarray) -> list[np.ndarray]:
    """The values, (C,) each, to which finite samples, (T, C), jump and from which they return."""
    found: list[np.ndarray] = []
    if len(part) < 50:
        return found
    jump = _distance(np.diff(part, axis=0))
    first = np.flatnonzero(np.append(True, jump > 0))  # of each run of equal samples
    runs = part if len(first) == len(part) else part[first]
    lengths = np.diff(np.append(first, len(part)))
    jump = jump[first[1:] - 1]
    while len(runs) > 20 and len(found) < 3:
        candidate = _candidate(runs, lengths, jump)
        if candidate is None or not _is_lost(candidate, runs, lengths, jump):
            break
        found.append(candidate)
        kept = (runs != candidate).any(axis=1)
        runs, lengths = runs[kept], lengths[kept]
        jump = _distance(np.diff(runs, axis=0))
    return found


def _distance(steps: np.ndarray) -> np.ndarray:
    """Lengths, (n,), of steps, (n, C); finite, though a value may be as large as numbers are."""
    squares = np.zeros(len(steps))
    for column in steps.T:  # of few columns faster than by a norm
        squares += column**2
    return np.minimum(np.sqrt(squares), np.finfo(float).max / 100)


def _candidate(runs: np.ndarray, lengths: np.ndarray, jump: np.ndarray) -> np.ndarray | None:
    """The value with most of the largest jumps from it and to it, (C,); None without a repeat."""
    both = np.minimum(jump[:-1], jump[1:])  # of runs that are neither first nor last
    n = min(200, len(both))
    largest = np.argpartition(both, -n)[-n:]
    largest = 1 + largest[both[largest] > 0.2 * both.max()]
    values, inverse = np.unique(runs[largest], axis=0, return_inverse=True)
    inverse = inverse.ravel()
    # a run of several equal samples counts twice: one alone is a repeat too
    weight = np.bincount(inverse, np.minimum(lengths[largest], 2))
    best = weight.argmax()
    return values[best] if weight[best] >= 2 else None


def _is_lost(value: np.ndarray, runs: np.ndarray, lengths: np.ndarray, jump: np.ndarray) -> bool:
    """Whether the movement jumps to a value (C,) and back, far, in most of the runs there."""
    at = (runs == value).all(axis=1)
    if 2 * lengths[at].sum() > lengths.sum():
        return False
    others = jump[~at[:-1] & ~at[1:]]
    if len(others) < 20:
        return False
    large = np.percentile(others, _LARGE)
    spread = np.percentile(runs[~at], (1, 99), axis=0)
    if _distance(np.diff(spread, axis=0))[0] < 2 * large:
        return False  # it has two states rather than moves
    inner = np.flatnonzero(at[1:-1]) + 1
    if not len(inner):
        return False
    nearest = np.minimum(jump[inner - 1], jump[inner])
    is_back = _distance(runs[inner + 1] - runs[inner - 1]) < nearest
    far = _FAR_IF_OFTEN if _is_often(value, runs, at, large) else _FAR
    return np.mean((nearest > far * large) & is_back) > 0.6


def _is_often(value: np.ndarray, runs: np.ndarray, at: np.ndarray, large: float) -> bool:
    """Whether a value, (C,), is there much more often than others around it, as no movement is.

    Args:
        value: of which is asked.
        runs: of equal samples, (n, C).
        at: True for those with the value, (n,), bool.
        large: a large step, within which others are counted.
    """
    others = runs[~at][:100_000]
    n_near = (np.abs(others - value) < large).all(axis=1).sum()
    n_places = 1.0  # different values around it, as of whole pixels
    for column in others.T:
        values = np.unique(column)
        n_places *= max(1.0, 2 * large / np.median(np.diff(values))) if len(values) > 1 else 1.0
    return at.sum() >= 5 and at.sum() > _OFTEN * n_near / n_places


def glitches(times: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Samples, for 0.1 s at most, to which a movement jumps and from which it returns.

    From reports: keypoints of DeepLabCut in single frames (DLC2NWB #24), elsewhere each time.

    Args:
        times: seconds, increasing, (T,).
        values: shape (T, C), NaN where missing.

    Returns:
        True for each such sample, (T,), bool.
    """
    is_glitch = np.zeros(len(values), dtype=bool)
    present, step = _steps(times, values)
    if not len(step):
        return is_glitch
    far = np.flatnonzero(step > 3 * np.percentile(step[step > 0], 95))
    if len(far) < 2 or len(far) > 2 * _MOST_BREAKS * len(step):
        return is_glitch
    first, last = far[:-1], far[1:]  # jumps there and back
    padded = np.pad(step, 1)
    outside = np.maximum(padded[first], padded[last + 2])
    smaller = np.minimum(step[first], step[last])
    returns = _distance(values[present[last + 1]] - values[present[first]])
    is_short = times[present[last + 1]] - times[present[first]] < _GLITCH_S
    is_back = is_short & (returns < 0.5 * smaller) & (smaller > _BREAK * outside)
    for i, j in zip(first[is_back], last[is_back], strict=True):
        is_glitch[present[i + 1 : j + 1]] = True
    return is_glitch


def _steps(times: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Samples without NaN, (n,), and the lengths of the steps between them, 0 across a pause.

    Empty where they are few or so rare that a movement may have any step.
    """
    nothing = np.empty(0, dtype=int), np.empty(0)
    present = np.flatnonzero(np.isfinite(values).all(axis=1))
    if len(present) < 200:
        return nothing
    step = _distance(np.diff(values[present], axis=0))
    pause = np.diff(times[present])
    step[pause > 2 * np.median(pause) * (1 + 1e-6)] = 0  # there is a gap anyway
    moves = np.flatnonzero(step)  # a position may be held between its updates
    if len(moves) < 200 or np.median(np.diff(times[present[moves]])) > _SLOWEST_S:
        return nothing
    return present, step


def breaks(times: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Samples before which a movement breaks off and goes on elsewhere.

    There alone is a step so large that no movement makes it, between steps as usual: a cursor that
    is put back to its start, or a tracker that takes up another animal. They are few.

    Own variant of neuroconv #524 and DLC2NWB #24: there the movement does not jump back.

    Args:
        times: seconds, increasing, (T,).
        values: shape (T, C), NaN where missing.

    Returns:
        Indices, (n,).
    """
    none = np.empty(0, dtype=int)
    present, step = _steps(times, values)
    if not len(step):
        return none
    moves = np.flatnonzero(step)
    size = step[moves]
    padded = np.pad(size, 2)
    beside = np.max([padded[:-4], padded[1:-3], padded[3:-1], padded[4:]], axis=0)
    is_far = size > 2 * np.percentile(size, 95)
    found = moves[is_far & (size > _BREAK * beside)]
    return present[found + 1] if len(found) <= _MOST_BREAKS * len(size) else none


def wrapping_period(column: np.ndarray) -> float:
    """The period at which an angle wraps, 0 where it does not.

    All values are within one period, and each step of more than half of it is, but for a usual
    step, one whole period.

    From reports: CompassDirection in NWB, 0 to 2 pi (nwbinspector #233).

    Args:
        column: finite samples, shape (T,).
    """
    if len(column) < 50:
        return 0.0
    extent = np.ptp(column)
    step = None
    for period in PERIODS:
        if not 0.8 * period < extent < 1.001 * period:
            continue
        step = np.abs(np.diff(column)) if step is None else step
        wraps = step > 0.6 * period
        if not wraps.any() or wraps.mean() > 0.2:
            continue
        usual = step[~wraps].max()
        if usual < 0.4 * period and (step[wraps] > period - max(2 * usual, 0.01 * period)).all():
            return period
    return _unusual_period(column, extent)


def _unusual_period(column: np.ndarray, extent: float) -> float:
    """The period of a value that begins again at its other end, as turns, 0 if it does not.

    At three places or more it goes from near one end to near the other in one step, and all other
    steps are short; in between it passes through the middle, as a switch does not.
    """
    step = np.abs(np.diff(column))
    wraps = step > 0.6 * extent
    if np.count_nonzero(wraps) < 3 or wraps.mean() > 0.1:
        return 0.0
    usual = step[~wraps].max()
    middle = np.abs(column - (column.min() + column.max()) / 2) < extent / 4
    is_to_the_end = (step[wraps] > extent - 2 * usual).all()
    if not (0 < usual < 0.3 * extent and is_to_the_end) or middle.mean() < 0.2:
        return 0.0
    for period in (1.0, np.pi, 180.0, 4096.0):
        if 0.9 * period < extent < 1.001 * period:
            return period
    return float(extent + np.median(step[~wraps]))


def unwrap_angles(values: np.ndarray) -> tuple[np.ndarray, list[tuple[int, float]]]:
    """Columns that wrap at 2 pi or 360, without their jumps.

    Args:
        values: shape (T, C), NaN where missing.

    Returns:
        The values, shape (T, C), and of each column that was unwrapped its index and its period.
    """
    unwrapped = []
    for column in range(values.shape[1]):
        present = np.flatnonzero(np.isfinite(values[:, column]))
        angle = values[present, column]
        period = wrapping_period(angle)
        if period:
            values = values.copy() if not unwrapped else values
            values[present, column] = np.unwrap(angle, period=period)
            unwrapped.append((column, period))
    return values, unwrapped


def labels(times: np.ndarray, column: np.ndarray) -> np.ndarray:
    """The few numbers that a column holds, if it holds nothing else and each for a while.

    So do choices, directions and states, but not the counts of an encoder or whole pixels. Two
    numbers alone are labels, however short: licks, a lever, light on or off.

    Args:
        times: seconds, (T,).
        column: (T,).

    Returns:
        The numbers, sorted, (n,); empty for a movement or a constant.
    """
    none = np.empty(0)
    if len(column) < 50:
        return none
    for part in (column[:1000], column[:: max(1, len(column) // 1000)]):  # a quick look
        if len(np.unique(part)) > _MOST_LABELS:
            return none
    first = np.flatnonzero(np.append(True, np.diff(column) != 0))  # of each run of equal samples
    values = np.unique(column[first])
    few = min(_MOST_LABELS, len(column) / 10)
    if not 1 < len(values) <= few or len(first) < 4:
        return none
    held = np.diff(times[first])  # seconds
    return values if len(values) == 2 or np.median(held) >= _SHORTEST_LABEL_S else none


def bad_frames(column: np.ndarray) -> int:
    """Samples, one or two at a time, that hold most of the variance of a column, 0 if none do.

    So does the velocity of a position that jumps for a frame, or where a cursor is reset. A
    movement, however rare, lasts longer. Also those that are a thousand times as far away as nine
    tenths of the samples, as values of a damaged file are.

    Args:
        column: finite samples, shape (T,).
    """
    if len(column) < 50:
        return 0
    quarter = column / 4  # a difference of quarters is always finite
    distance = np.abs(quarter - np.median(quarter))
    n = int(np.ceil(_FEW_FRAMES * len(column)))
    ranked = np.partition(distance, (int(0.9 * len(column)), len(column) - n))
    usual = ranked[int(0.9 * len(column))]
    if usual > 0 and ranked[-n:].max() / _IMPOSSIBLE > usual:
        return np.count_nonzero(distance / _IMPOSSIBLE > usual)
    if len(column) < 200:
        return 0
    farthest = ranked[-n:].max()
    if farthest == 0:
        return 0
    squares = (distance / farthest) ** 2
    total = squares.sum()
    if np.sum((ranked[-n:] / farthest) ** 2) <= _MOST_VARIANCE * total:
        return 0
    largest = np.argpartition(squares, -n)[-n:]
    # as few of them as hold most of the variance
    largest = largest[np.argsort(squares[largest])[::-1]]
    n = int(np.searchsorted(np.cumsum(squares[largest]), _MOST_VARIANCE * total)) + 1
    largest = np.sort(largest[:n])
    runs = np.diff(np.flatnonzero(np.append(np.append(True, np.diff(largest) > 1), True)))
    return n if runs.mean() <= 2 else 0
