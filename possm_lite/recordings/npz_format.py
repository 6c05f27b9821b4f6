"""The `.npz` format of a recording: the fields of `Recording` as named arrays, and back."""

from collections.abc import Mapping

import numpy as np

from ..errors import RecordingError, listed

FORMAT = "possm-lite recording 2"
_TEXTS = ("behavior_unit", "behavior_name", "session_id")
_STORED = ("spike_times", "spike_units", "unit_ids", "behavior", "behavior_columns", "trials", "notes", *_TEXTS)


def to_arrays(fields: Mapping) -> dict[str, np.ndarray]:
    """The fields of a recording as arrays, and `format`; times, behaviour and units in fewer bytes where lossless."""
    arrays = {name: np.asarray(fields[name]) for name in _STORED}
    arrays["notes"] = np.array(fields["notes"], dtype=str)
    arrays["spike_units"] = arrays["spike_units"].astype(np.min_scalar_type(len(fields["unit_ids"]) - 1))
    with np.errstate(over="ignore"):
        short = arrays["behavior"].astype(np.float32)
    if np.array_equal(short, arrays["behavior"]):
        arrays["behavior"] = short
    clock = regular_clock(fields["behavior_times"])
    times = {"behavior_times": fields["behavior_times"]} if clock is None else {"behavior_clock": clock}
    return {"format": np.array(FORMAT), **arrays, **times}


def regular_clock(times: np.ndarray) -> np.ndarray | None:
    """`[start, rate, n]` if `times` are exactly start + 0, 1, ..., n - 1 over a whole number of Hz, else None."""
    rate = round(min((len(times) - 1) / (times[-1] - times[0]), 1e9)) if len(times) else 0
    if rate < 1 or (times[0] + np.arange(len(times)) / rate).tobytes() != times.tobytes():
        return None
    return np.array([times[0], rate, len(times)], dtype=np.float64)


def from_arrays(arrays: Mapping[str, np.ndarray], default_session_id: str) -> dict:
    """The arguments of `Recording` from the arrays of a file; `load_recording` documents the defaults."""
    fields = {name: array for name, array in arrays.items() if not name.startswith("truth_")}
    if (version := str(fields.pop("format", FORMAT))) != FORMAT:
        raise RecordingError(f"format is {version!r:.80}; this version reads {FORMAT!r}.")
    if not {"spike_times", "spike_units"} <= fields.keys():
        raise RecordingError(f"needs spike_times and spike_units, not {listed(sorted(fields))}: CONVERTERS.md.")
    for name in fields.keys() & _TEXTS:
        fields[name] = fields[name].astype(str).item()
    if "notes" in fields:
        fields["notes"] = fields["notes"].astype(str).ravel().tolist()
    if "behavior_clock" in fields:
        start, rate, n = fields.pop("behavior_clock")
        if n != len(fields["behavior"]) or "behavior_times" in fields:
            raise RecordingError("behavior_clock must have the samples of behavior, and no behavior_times beside it.")
        fields["behavior_times"] = start + np.arange(int(n)) / rate
    if "unit_ids" not in fields:
        fields["unit_ids"] = np.arange(int(fields["spike_units"].max()) + 1)
    return {"session_id": default_session_id, **fields}
