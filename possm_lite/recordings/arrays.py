"""Arrays in `.npz` files, read without pickle and written atomically, and a recording as such arrays."""

import contextlib
import os
import uuid
from collections.abc import Container, Iterator, Mapping
from pathlib import Path

import numpy as np

from ..errors import FileFormatError, RecordingError, listed, prefix_errors, wrap_errors

FORMAT = "possm-lite recording 2"
_TEXTS = ("behavior_unit", "behavior_name", "session_id")
_STORED = (
    "spike_times",
    "spike_units",
    "unit_ids",
    "behavior",
    "behavior_columns",
    "trials",
    "notes",
    *_TEXTS,
)


def read_arrays(
    path: str | Path, error: type[FileFormatError] = FileFormatError
) -> dict[str, np.ndarray]:
    """The arrays of an `.npz` file by name. Raises `error`, one line that begins with the path."""
    with prefix_errors(path, error):
        check_readable(path)
        with wrap_errors("is damaged or not an .npz file"):
            return load_npz(path)


def load_npz(path: str | Path, omit: Container[str] = ()) -> dict[str, np.ndarray]:
    """The arrays of an `.npz` file but those in `omit`. Raises what NumPy does, and FileFormatError for a checksum."""
    with np.load(path, allow_pickle=False) as file:
        # an array whose header was damaged may be read only in part, and then NumPy does not reach its checksum
        if damaged := file.zip.testzip():
            raise FileFormatError(f"is damaged: {damaged} has another checksum.")
        return {name: np.asarray(file[name]) for name in file.files if name not in omit}


def write_arrays(
    path: str | Path,
    arrays: Mapping[str, np.ndarray],
    error: type[FileFormatError] = FileFormatError,
):
    """Write numbers and text to a compressed `.npz`. Raises `error`, one line; a file at `path` is then unchanged."""
    arrays = {name: np.asarray(array) for name, array in arrays.items()}
    with prefix_errors(path, error):
        for name, array in arrays.items():
            if array.dtype.hasobject:  # NumPy would pickle it
                raise FileFormatError(f"{name} must hold plain numbers or text, not {array.dtype}.")
        with atomic_write(path) as partial, open(partial, "xb") as file:
            np.savez_compressed(file, **arrays)


@contextlib.contextmanager
def atomic_write(path: str | Path) -> Iterator[Path]:
    """Yield a temporary name beside `path`, which it replaces on success only. FileFormatError if it cannot."""
    path = Path(path)
    partial = path.with_name(f".{uuid.uuid4().hex}.partial")
    try:
        yield partial
        with open(partial, "rb+") as file:
            os.fsync(file.fileno())
        os.replace(partial, path)
    except OSError as exc:
        raise FileFormatError(f"could not be written: {exc.strerror or exc}") from exc
    finally:
        with contextlib.suppress(OSError):  # already renamed, or never created
            partial.unlink()


def check_readable(path: str | Path):
    """Raise FileFormatError, without the path, unless there is such a file."""
    if not Path(path).is_file():
        raise FileFormatError("cannot be read: No such file.")


def to_arrays(fields: Mapping) -> dict[str, np.ndarray]:
    """The fields of a recording as arrays, and `format`; times, behaviour and units in fewer bytes where lossless."""
    arrays = {name: np.asarray(fields[name]) for name in _STORED}
    arrays["notes"] = np.array(fields["notes"], dtype=str)
    arrays["spike_units"] = arrays["spike_units"].astype(
        np.min_scalar_type(len(fields["unit_ids"]) - 1)
    )
    with np.errstate(over="ignore"):
        short = arrays["behavior"].astype(np.float32)
    if np.array_equal(short, arrays["behavior"]):
        arrays["behavior"] = short
    times = fields["behavior_times"]
    n = len(times)
    rate = round(min((n - 1) / (times[-1] - times[0]), 1e9)) if n else 0
    if (
        rate and (times[0] + np.arange(n) / rate).tobytes() == times.tobytes()
    ):  # exactly a whole number of Hz
        return {
            "format": np.array(FORMAT),
            **arrays,
            "behavior_clock": np.array([times[0], rate, n], np.float64),
        }
    return {"format": np.array(FORMAT), **arrays, "behavior_times": times}


def from_arrays(arrays: Mapping[str, np.ndarray], default_session_id: str) -> dict:
    """The arguments of `Recording` from the arrays of a file; `load_recording` documents the defaults."""
    fields = {name: array for name, array in arrays.items() if not name.startswith("truth_")}
    if (version := str(fields.pop("format", FORMAT))) != FORMAT:
        raise RecordingError(f"format is {version!r:.80}; this version reads {FORMAT!r}.")
    if "format" in arrays and (
        lost := sorted(set(_STORED) - fields.keys())
    ):  # one bit of a zip's directory
        raise RecordingError(f"is damaged: {', '.join(lost)} is not in it.")
    if not {"spike_times", "spike_units"} <= fields.keys():
        raise RecordingError(
            f"needs spike_times and spike_units, not {listed(sorted(fields))}: CONVERTERS.md."
        )
    for name in fields.keys() & _TEXTS:
        fields[name] = fields[name].astype(str).item()
    if "notes" in fields:
        fields["notes"] = fields["notes"].astype(str).ravel().tolist()
    if "behavior_clock" in fields:
        start, rate, n = fields.pop("behavior_clock")
        if n != len(fields["behavior"]) or "behavior_times" in fields:
            raise RecordingError(
                "behavior_clock must have the samples of behavior, and no behavior_times beside it."
            )
        fields["behavior_times"] = start + np.arange(int(n)) / rate
    if "unit_ids" not in fields:
        fields["unit_ids"] = np.arange(int(fields["spike_units"].max()) + 1)
    return {"session_id": default_session_id, **fields}
