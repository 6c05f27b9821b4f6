"""One-dimensional series of one movement, joined to one series; one time for each sample."""

import re
from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np

from ...errors import RecordingError
from .contents import Series

_AXIS = re.compile(r"_[xyz]$|^[xyz]_", re.IGNORECASE)  # hand_vel_x, x_vel


def joined_series(series: Sequence[Series]) -> list[Series]:
    """The 1-D series of one movement as one: those for its axes, or all of a container.

    So "hand_vel_x" and "hand_vel_y" are "hand_vel" with the columns "x" and "y".

    Args:
        series: all of a file.

    Returns:
        The joined series, which are read when they are chosen, like the others.
    """
    taken = {one.name for one in series}
    joined = []
    for name, parts in _groups(series).items():
        if len(parts) < 2 or name in taken:
            continue
        first = parts[min(parts)]
        read = partial(_read_joined, parts)
        columns = tuple(sorted(parts))
        shape = (*first.shape[:1], len(parts)) if first.shape else ()
        joined.append(
            first._replace(name=name, read=read, columns=columns, shape=shape, confidence=None)
        )
    return joined


def list_series(series: Sequence[Series]) -> str:
    """Names and sizes of all `series` of a file, for messages; those for the axes as one."""
    joined = {one.name: one for one in joined_series(series)}
    shown = {}
    for one in series:
        if one.shape[1:] in ((), (1,)):
            one = joined.get(_movement(one.name)[0], one)
        shown[one.name] = f"{one.name} {_size(one.shape)}".rstrip()
    return ", ".join(shown.values())[:600]


def _size(shape: tuple[int, ...]) -> str:
    """A shape in words, such as (26,289 samples x 2); "" if it is not known."""
    if len(shape) == 2 and shape[0] < shape[1]:  # transposed, perhaps
        return f"({shape[0]:,} x {shape[1]:,} values)"
    return f"({shape[0]:,} samples{''.join(f' x {n}' for n in shape[1:])})" if shape else ""


def _movement(name: str) -> tuple[str, str]:
    """The name of what a series is an axis of, and the axis; the name and "" if it is none."""
    container, slash, last = name.rpartition("/")
    match = _AXIS.search(last)
    if not match:
        return name, ""
    return container + slash + _AXIS.sub("", last, count=1), match[0].strip("_").lower()


def _groups(series: Sequence[Series]) -> dict[str, dict[str, Series]]:
    """The 1-D series by the name of what they are parts of, and there by axis or own name."""
    groups: dict[str, dict[str, Series]] = {}
    for one in series:
        if one.shape[1:] not in ((), (1,)):
            continue
        container, _, last = one.name.rpartition("/")
        movement, axis = _movement(one.name)
        if axis:
            groups.setdefault(movement, {})[axis] = one
        if container:
            groups.setdefault(container, {})[last] = one
    return groups


def _read_joined(parts: Mapping[str, Series]) -> tuple[np.ndarray, np.ndarray]:
    """Times (T,) in s and values (T, C) of series side by side, in the order of their keys."""
    samples = {
        one.name: one_time_each(one.name, *one.read(), notes=[]) for _, one in sorted(parts.items())
    }
    times = common_times({name: times for name, (times, _) in samples.items()})
    return times, np.column_stack([values for _, values in samples.values()])


def common_times(times: Mapping[str, np.ndarray]) -> np.ndarray:
    """The times of the first series, if all others have the same to half a sample.

    Args:
        times: of each series by name, seconds, (T,) each.

    Returns:
        Seconds, (T,).

    Raises:
        RecordingError: the series have samples at different times.
    """
    first, *others = times.values()
    half = np.median(np.diff(first)) / 2
    for other in others:
        if len(other) != len(first) or not (np.abs(other - first) <= half).all():
            names = ", ".join(times)
            raise RecordingError(
                f"{names} have samples at different times: they are not decoded side by side."
            )
    return first


def one_time_each(
    name: str, times: np.ndarray, values: np.ndarray, notes: list[str]
) -> tuple[np.ndarray, np.ndarray]:
    """Times (T,) and values, (T,) or (T, C), of a series; transposed values are turned.

    From reports: timestamps of two clocks, (2, T) (pynwb #1775, AllenSDK #1410); MATLAB writes the
    transpose of what Python reads.

    Args:
        name: of the series, for messages.
        times: as in the file.
        values: as in the file.
        notes: gets a note of values that were turned.

    Raises:
        RecordingError: there is not one time for each sample.
    """
    times = np.atleast_1d(times)
    if times.size == max(times.shape):
        times = times.ravel()  # a single row or column, as in MATLAB
    shapes = f"{name} has timestamps of shape {times.shape} for data of shape {values.shape}"
    if times.ndim != 1:
        n_clocks = min(times.shape)
        raise RecordingError(
            f"{shapes}: there must be one time for each sample. They are probably the times of "
            f"{n_clocks} clocks: write the file again with those of the clock of the spikes alone."
        )
    if len(times) == len(values):
        if values.ndim == 2 and len(values) <= 20 and values.shape[1] > 50 * len(values):
            raise RecordingError(
                f"{name} has data of shape {values.shape}, {len(values)} samples of "
                f"{values.shape[1]:,} columns: it is probably transposed. Write the file again "
                "with a row for each sample."
            )
        return times, values
    if values.ndim == 2 and values.shape[1] == len(times):
        notes.append(f"{shapes}: the data are transposed, and were turned.")
        return times, values.T
    raise RecordingError(
        f"{shapes}: there must be one time for each sample. The end or the beginning of one of the "
        "two was probably cut: write the file again with as many times as samples."
    )
