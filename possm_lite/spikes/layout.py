"""A recording as named arrays, as they stand in our `.npz` files, and back."""

from __future__ import annotations

from dataclasses import fields

import numpy as np

from ..errors import RecordingError
from .recording import Recording

FORMAT = "possm-lite recording 1"
_FIELDS = tuple(field.name for field in fields(Recording))
_ESSENTIAL = ("spike_times", "spike_units", "velocity")
_MOST_UNNAMED_UNITS = 100_000


def to_arrays(r: Recording) -> dict[str, np.ndarray]:
    """One array per field, and `format`.

    What can be said in fewer bytes without loss is: times on a clock as `behavior_clock`, [start, rate, n]; velocity
    that is float32 as float32; unit indices in the smallest integers that hold them.
    """
    arrays = {name: np.asarray(getattr(r, name)) for name in _FIELDS}
    arrays["notes"] = np.array(r.notes, dtype=str)
    arrays["spike_units"] = r.spike_units.astype(np.min_scalar_type(r.n_units - 1))
    arrays["velocity"] = _as_float32_if_lossless(r.velocity)
    clock = _clock_of(r.behavior_times)
    if clock is not None:
        arrays["behavior_clock"] = clock
        del arrays["behavior_times"]
    return {"format": np.array(FORMAT), **arrays}


def _as_float32_if_lossless(values: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):
        short = values.astype(np.float32)
    return short if np.array_equal(short, values) else values


def _clock_of(times: np.ndarray) -> np.ndarray | None:
    """`[start, rate, n]` if `times` are exactly start + 0, 1, ..., n - 1 over a whole number of Hz, else None."""
    rate = round(min((len(times) - 1) / (times[-1] - times[0]), 1e9))
    if rate < 1 or _clock_times(times[0], rate, len(times)).tobytes() != times.tobytes():
        return None
    return np.array([times[0], rate, len(times)], dtype=np.float64)


def _clock_times(start: float, rate: float, n: int) -> np.ndarray:
    return start + np.arange(n) / rate


def from_arrays(arrays: dict[str, np.ndarray], stem: str) -> Recording:
    """The recording in the arrays of a file called `stem`; what may be left out is said in `load_recording`.

    Raises:
        RecordingError: naming the array and the value.
    """
    arrays = {name: array for name, array in arrays.items() if not name.startswith("truth_")}
    _check_names(arrays)
    return Recording(
        spike_times=arrays["spike_times"],
        spike_units=arrays["spike_units"],
        unit_ids=arrays["unit_ids"] if "unit_ids" in arrays else _unnamed_units(arrays["spike_units"]),
        behavior_times=_behavior_times(arrays),
        velocity=arrays["velocity"],
        velocity_unit=_text(arrays, "velocity_unit", "a.u."),
        trials=arrays.get("trials", np.empty((0, 2))),
        session_id=_text(arrays, "session_id", stem),
        notes=_notes(arrays),
    )


def _check_names(arrays: dict[str, np.ndarray]):
    unknown = sorted(set(arrays) - {*_FIELDS, "format", "behavior_clock"})
    if unknown:
        raise RecordingError(f"has unknown keys: {', '.join(unknown)}. Prefix with truth_ what is to be passed over.")
    if _text(arrays, "format", FORMAT) != FORMAT:
        raise RecordingError(f"format is {_text(arrays, 'format', '')!r}; this version reads {FORMAT!r}.")
    needed = _ESSENTIAL if "format" not in arrays else [name for name in _FIELDS if name != "behavior_times"]
    missing = [name for name in needed if name not in arrays]
    if missing:
        raise RecordingError(f"lacks {', '.join(missing)}. It has {', '.join(sorted(arrays)) or 'nothing'}.")
    if ("behavior_times" in arrays) == ("behavior_clock" in arrays):
        raise RecordingError("must have either behavior_times or behavior_clock.")


def _behavior_times(arrays: dict[str, np.ndarray]) -> np.ndarray:
    if "behavior_times" in arrays:
        return arrays["behavior_times"]
    clock, samples = arrays["behavior_clock"], arrays["velocity"].shape[:1]
    if clock.shape != (3,) or clock.dtype.kind not in "iuf" or not np.isfinite(clock).all() or clock[1] <= 0:
        raise RecordingError(f"behavior_clock must be [start, rate, n] with a positive rate, not {_short(clock)}.")
    if samples != (clock[2],):  # compared before n times are made
        raise RecordingError(
            f"behavior_clock has {clock[2]:.17g} samples, velocity has shape {arrays['velocity'].shape}."
        )
    return _clock_times(float(clock[0]), float(clock[1]), samples[0])


def _unnamed_units(spike_units: np.ndarray) -> np.ndarray:
    if spike_units.size == 0:
        raise RecordingError("unit_ids must be given where there are no spikes.")
    if spike_units.dtype.kind not in "iu":
        return np.array(["0"])  # Recording says what is wrong with it
    largest = int(spike_units.max())
    if largest >= _MOST_UNNAMED_UNITS:
        raise RecordingError(
            f"spike_units[{spike_units.argmax()}] = {largest}: unit_ids must be given from {_MOST_UNNAMED_UNITS} units."
        )
    return np.arange(max(largest, 0) + 1).astype(str)


def _text(arrays: dict[str, np.ndarray], name: str, default: str) -> str:
    array = arrays.get(name, np.array(default))
    if array.size != 1 or array.dtype.kind != "U":
        raise RecordingError(f"{name} must be one text, not {_short(array)}.")
    return str(array.reshape(())[()])


def _notes(arrays: dict[str, np.ndarray]) -> tuple[str, ...]:
    notes = arrays.get("notes", np.empty(0, dtype=str))
    if notes.size and notes.dtype.kind != "U":
        raise RecordingError(f"notes must be texts, not {_short(notes)}.")
    return tuple(notes.ravel().tolist())


def _short(array: np.ndarray) -> str:
    if array.size > 8:
        return f"an array of shape {array.shape} of {array.dtype}"
    return repr(array.tolist())[:80]
