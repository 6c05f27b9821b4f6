"""One-dimensional series of one movement, joined to one series."""

import re
from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np

from ...errors import RecordingError
from .contents import Series

_AXIS = re.compile(r"_[xyz]$|^[xyz]_", re.IGNORECASE)  # hand_vel_x, x_vel


def joined_series(series: Sequence[Series]) -> list[Series]:
    """1-D series of one movement as one: those for its axes (hand_vel_x, hand_vel_y) or all of a container."""
    groups: dict[str, dict[str, Series]] = {}
    taken = {one.name for one in series}
    for one in (one for one in series if one.shape[1:] in ((), (1,))):
        container, slash, last = one.name.rpartition("/")
        if match := _AXIS.search(last):
            base = container + slash + _AXIS.sub("", last, count=1)
            groups.setdefault(base, {})[match[0].strip("_").lower()] = one
        if container:
            groups.setdefault(container, {})[last] = one
    return [
        parts[min(parts)]._replace(
            name=name, read=partial(_read_joined, parts), columns=tuple(sorted(parts)), shape=()
        )
        for name, parts in groups.items()
        if len(parts) > 1 and name not in taken
    ]


def _read_joined(parts: Mapping[str, Series]) -> tuple[np.ndarray, np.ndarray]:
    samples = {one.name: one.read() for _, one in sorted(parts.items())}
    times = common_times({name: times for name, (times, _) in samples.items()})
    return times, np.column_stack([values for _, values in samples.values()])


def common_times(times: Mapping[str, np.ndarray]) -> np.ndarray:
    """The times of the first series, (T,), if all others have the same to half a sample. RecordingError otherwise."""
    first, *others = times.values()
    half = np.median(np.diff(first)) / 2
    if any(
        len(other) != len(first) or not (np.abs(other - first) <= half).all() for other in others
    ):
        raise RecordingError(
            f"{', '.join(times)} have samples at different times: they are not decoded side by side."
        )
    return first
