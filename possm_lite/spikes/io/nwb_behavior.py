"""Which series of an NWB file is the velocity, and how a position becomes one."""

from __future__ import annotations

import numpy as np

from ...errors import RecordingError, wrap_errors
from ..arrays import read_dataset
from ..recording import check_order

VELOCITIES = ("hand_vel", "finger_vel", "cursor_vel")
POSITIONS = ("hand_pos", "finger_pos", "cursor_pos")


def read_behavior(file, wanted: str | None) -> tuple[np.ndarray, np.ndarray, str, list[str]]:
    """The velocity in an open NWB file.

    Args:
        file: what pynwb read.
        wanted: the name of a series, or None for the first choice.

    Returns:
        Times (T,) in seconds, velocity (T, 2), its unit, and what had to be decided, one sentence each. Rows with NaN
        are not among them.

    Raises:
        RecordingError: without the name of the file.
    """
    series = _behavior_series(file)
    name = _choose(series, wanted)
    field = f"processing/behavior/{name}"
    times, values = _samples(series[name], field)
    unit = str(series[name].unit) or "a.u."
    others = sorted(set(series) - {name})
    also = f"; there are also {', '.join(others)}." if others else "."
    if _is_position(name, series[name]):
        values, unit = _derivative(times, values), f"{unit}/s"
        notes = [f"Velocity is the derivative of the position {field}{also}"]
    else:
        notes = [f"Velocity is {field}{also}"]
    there = ~np.isnan(values).any(axis=1)
    if there.sum() < 2:
        raise RecordingError(f"{field} must have two rows that are not NaN, at least: it has {there.sum()}.")
    if not there.all():
        notes.append(f"{(~there).sum()} of {len(there)} rows of {name} without a velocity were left out.")
    return times[there], values[there], unit, notes


def _behavior_series(file) -> dict:
    """The time series in processing/behavior by name, "container/series" for those in a container."""
    from pynwb import TimeSeries

    if "behavior" not in file.processing:
        there = ", ".join(sorted(file.processing)) or "nothing"
        raise RecordingError(
            f"processing/behavior is missing (processing has {there}). "
            "Test files of the Neural Latents Benchmark come without behaviour: take the file for training."
        )
    series = {}
    for name, interface in file.processing["behavior"].data_interfaces.items():
        if isinstance(interface, TimeSeries):
            series[name] = interface
        else:
            inside = [child for child in interface.children if isinstance(child, TimeSeries)]
            series |= {f"{name}/{child.name}": child for child in inside}
    return series


def _choose(series: dict, wanted: str | None) -> str:
    """The key of the series `wanted`, or of the first choice among those with two columns."""
    there = ", ".join(sorted(series)) or "no series"
    if wanted is not None:
        matches = [wanted] if wanted in series else _named(series, wanted)
        if len(matches) != 1:
            problem = "is not in" if not matches else f"is in {len(matches)} places of"
            raise RecordingError(f"behavior={wanted!r} {problem} processing/behavior, which has {there}.")
        return matches[0]
    plane = [name for name in series if _has_two_columns(series[name])]
    for name in (name for choice in (*VELOCITIES, *POSITIONS) for name in _named(plane, choice)):
        return name
    raise RecordingError(
        f"processing/behavior has none of {', '.join((*VELOCITIES, *POSITIONS))} with two columns; "
        f"it has {there}: name one with behavior=."
    )


def _has_two_columns(series) -> bool:
    shape = getattr(series.data, "shape", None) or ()
    return len(shape) == 2 and shape[1] >= 2


def _named(names, wanted: str) -> list[str]:
    """Those called `wanted`, or in a container called so; what is in no container comes first."""
    return sorted((name for name in names if wanted in name.split("/")), key=lambda name: (name.count("/"), name))


def _is_position(name: str, series) -> bool:
    for part in reversed(name.lower().split("/")):  # the series, then its container
        if part.endswith(("_pos", "position")):
            return True
        if part.endswith(("_vel", "velocity")):
            return False
    return series.neurodata_type == "SpatialSeries"


def _samples(series, field: str) -> tuple[np.ndarray, np.ndarray]:
    """Times (T,) in seconds and values (T, 2) in the unit of the series."""
    if not _has_two_columns(series):
        raise RecordingError(f"{field} must have shape (T, 2), or more columns, not {np.shape(series.data)}.")
    values = read_dataset(series.data, field)[:, :2]
    values = values * _number(series, "conversion", field) + _number(series, "offset", field)
    with wrap_errors(f"{field}/timestamps cannot be read"):
        timestamps = series.timestamps
    if timestamps is not None:
        times = read_dataset(timestamps, f"{field}/timestamps", finite=True)
    else:
        times = _number(series, "starting_time", field) + np.arange(len(values)) / _number(series, "rate", field)
    if times.shape != values.shape[:1]:
        raise RecordingError(f"{field}/timestamps has shape {times.shape} for {len(values)} rows of data.")
    check_order(f"{field}/timestamps", times, strict=True)
    return times, values


def _number(series, name: str, field: str) -> float:
    with wrap_errors(f"{field}/{name} must be a number"):
        number = float(getattr(series, name))
    if not np.isfinite(number) or (name == "rate" and number <= 0):
        raise RecordingError(f"{field}/{name} must be finite, and a rate positive, not {number}.")
    return number


def _derivative(times: np.ndarray, position: np.ndarray) -> np.ndarray:
    """Velocity (T, 2): NaN where there is no position, and none is taken across a gap.

    A gap is a row with NaN, or more than twice the median step between two times.
    """
    velocity = np.full(position.shape, np.nan)
    there = np.flatnonzero(~np.isnan(position).any(axis=1))
    gap = (np.diff(there) > 1) | (np.diff(times[there]) > 2 * np.median(np.diff(times)))
    for run in np.split(there, np.flatnonzero(gap) + 1):
        if len(run) > 1:
            velocity[run] = np.gradient(position[run], times[run], axis=0)
    return velocity
