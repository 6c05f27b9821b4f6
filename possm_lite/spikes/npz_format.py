"""The `.npz` format of a recording: the fields of `Recording` as named arrays, and back."""

from collections.abc import Mapping

import numpy as np

from ..errors import RecordingError

FORMAT = "possm-lite recording 2"
_FORMAT_1 = "possm-lite recording 1"
_RENAMED = {"velocity": "behavior", "velocity_unit": "behavior_unit"}  # since format 1
_SPIKES = ("spike_times", "spike_units")
_REQUIRED = (*_SPIKES, "behavior")
_OPTIONAL = ("unit_ids", "behavior_unit", "behavior_name", "behavior_columns", "trials", "session_id", "notes")
_CLOCKS = ("behavior_times", "behavior_clock")
_MAX_UNNAMED_UNITS = 100_000


def to_arrays(fields: Mapping) -> dict[str, np.ndarray]:
    """The fields of a recording as arrays, and `format`, stored in fewer bytes where that is lossless.

    Times on a regular clock become `behavior_clock`, [start, rate, n]; behaviour becomes float32 if it is exact in
    it, unit indices the smallest integers that hold them.
    """
    arrays = {name: np.asarray(fields[name]) for name in (*_REQUIRED, *_OPTIONAL)}
    arrays["notes"] = np.array(fields["notes"], dtype=str)
    arrays["spike_units"] = arrays["spike_units"].astype(np.min_scalar_type(len(fields["unit_ids"]) - 1))
    with np.errstate(over="ignore"):
        short = arrays["behavior"].astype(np.float32)
    if np.array_equal(short, arrays["behavior"]):
        arrays["behavior"] = short
    clock = regular_clock(fields["behavior_times"])
    name, times = ("behavior_times", fields["behavior_times"]) if clock is None else ("behavior_clock", clock)
    return {"format": np.array(FORMAT), **arrays, name: times}


def regular_clock(times: np.ndarray) -> np.ndarray | None:
    """`[start, rate, n]` if `times` are exactly start + 0, 1, ..., n - 1 over a whole number of Hz, else None."""
    rate = round(min((len(times) - 1) / (times[-1] - times[0]), 1e9)) if len(times) else 0
    if rate < 1 or (times[0] + np.arange(len(times)) / rate).tobytes() != times.tobytes():
        return None
    return np.array([times[0], rate, len(times)], dtype=np.float64)


def from_arrays(arrays: Mapping[str, np.ndarray], default_session_id: str) -> dict:
    """The arguments of `Recording` from the arrays of a file; `load_recording` documents the defaults.

    Raises:
        RecordingError: naming the array and the value.
    """
    arrays = {name: array for name, array in arrays.items() if not name.startswith("truth_")}
    for old, new in _RENAMED.items():
        if old in arrays and new not in arrays:  # beside the new name, the old one is an unknown key
            arrays[new] = arrays.pop(old)
    _check_names(arrays)
    fields = {name: arrays[name] for name in (*_REQUIRED, *_OPTIONAL) if name in arrays}
    for name in fields.keys() & {"notes", "behavior_columns"}:
        if fields[name].size and fields[name].dtype.kind != "U":
            raise RecordingError(f"{name} must be texts, not {_short(fields[name])}.")
    fields["notes"] = fields.get("notes", np.empty(0, dtype=str)).ravel().tolist()
    for name in fields.keys() & {"behavior_unit", "behavior_name", "session_id"}:
        fields[name] = _text(name, fields[name])
    if "unit_ids" not in fields:
        fields["unit_ids"] = _default_unit_ids(arrays["spike_units"])
    if "behavior" in arrays:
        fields["behavior_times"] = _behavior_times(arrays)
    return {"session_id": default_session_id, **fields}


def _check_names(arrays: dict[str, np.ndarray]):
    version = _text("format", arrays.get("format", np.array(FORMAT)))
    if version not in (FORMAT, _FORMAT_1):
        raise RecordingError(f"format is {version!r}; this version reads {FORMAT!r}.")
    if "type" in arrays:
        raise RecordingError("is one file of pynapple: name the folder that it is in.")
    required = {*_REQUIRED, *_OPTIONAL} if "format" in arrays else {*_SPIKES}
    if version == _FORMAT_1:
        required -= {"behavior_name", "behavior_columns"}
    if {"behavior", *_CLOCKS} & set(arrays):
        required |= {"behavior"} if "behavior_clock" in arrays else {"behavior", "behavior_times"}
    missing, unknown = required - set(arrays), set(arrays) - {*_REQUIRED, *_OPTIONAL, *_CLOCKS, "format"}
    if missing or unknown:
        parts = ("lacks", missing), ("has unknown keys,", unknown)
        found = "; ".join(f"{what} {', '.join(sorted(names))[:200]}" for what, names in parts if names)
        raise RecordingError(f"{found}. It needs {', '.join(_SPIKES)}, behavior_times, behavior: see CONVERTERS.md.")
    if {*_CLOCKS} <= set(arrays):
        raise RecordingError("has behavior_times and behavior_clock: one of them is needed.")


def _behavior_times(arrays: dict[str, np.ndarray]) -> np.ndarray:
    if "behavior_times" in arrays:
        return arrays["behavior_times"]
    clock, shape = arrays["behavior_clock"], arrays["behavior"].shape
    if clock.shape != (3,) or clock.dtype.kind not in "iuf" or not np.isfinite(clock).all() or clock[1] <= 0:
        raise RecordingError(f"behavior_clock must be [start, rate, n] with a positive rate, not {_short(clock)}.")
    start, rate, n = clock.astype(np.float64).tolist()
    if shape[:1] != (n,):  # checked before n times are allocated
        raise RecordingError(f"behavior_clock has {n:.17g} samples, behavior has shape {shape}.")
    return start + np.arange(shape[0]) / rate


def _default_unit_ids(spike_units: np.ndarray) -> np.ndarray:
    if spike_units.size == 0:
        raise RecordingError("unit_ids is required without spikes.")
    largest = int(spike_units.max()) if spike_units.dtype.kind in "iu" else 0  # Recording refuses other types
    if largest >= _MAX_UNNAMED_UNITS:
        found = f"spike_units[{spike_units.argmax()}] = {largest}"
        raise RecordingError(f"{found}: unit_ids is required from {_MAX_UNNAMED_UNITS} units.")
    return np.arange(max(largest, 0) + 1)


def _text(name: str, array: np.ndarray) -> str:
    if array.size != 1 or array.dtype.kind != "U":
        raise RecordingError(f"{name} must be one text, not {_short(array)}.")
    return str(array.item())


def _short(array: np.ndarray) -> str:
    return repr(array.tolist())[:80] if array.size <= 8 else f"an array of shape {array.shape} of {array.dtype}"
