"""Arrays in `.npz` files, and a recording as such arrays.

Files are read without pickle and written atomically.
"""

import contextlib
import os
import uuid
from collections.abc import Container, Iterator, Mapping
from pathlib import Path

import numpy as np

from ..errors import FileFormatError, RecordingError, listed, prefix_errors, wrap_errors
from .clocks import impossible_times, note_impossible, padding

FORMAT = "possm-lite recording 2"
FORMAT_OF_CLASSES = "possm-lite recording 3"  # the same, and `classes`
AS_SAVED = "behavior"  # the name of what a file decodes and does not name
PLACES_OF_UNITS = (
    "must be whole numbers (int), the place of each spike's unit in the list of units, counted "
    "from 0."
)
_BESIDE = ("truth_", "trials_")  # begin names of what a file holds beside a recording
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
    """The arrays of an `.npz` file by name, read without pickle.

    Args:
        path: the file.
        error: the exception to raise.

    Raises:
        error: the file is missing, damaged, or holds anything but arrays of numbers and text. One
            line that begins with the path.
    """
    with prefix_errors(path, error):
        check_readable(path)
        with wrap_errors("is damaged or not an .npz file"):
            return load_npz(path)


def load_npz(path: str | Path, omit: Container[str] = ()) -> dict[str, np.ndarray]:
    """The arrays of an `.npz` file by name.

    Args:
        path: the file.
        omit: names of arrays that are not read.

    Raises:
        FileFormatError: an array has another checksum than the file says. Without the path.
        Exception: what NumPy raises for a file that it cannot read.
    """
    with np.load(path, allow_pickle=False) as file:
        # an array whose header was damaged may be read only in part, and then NumPy does not
        # reach its checksum
        if damaged := file.zip.testzip():
            raise FileFormatError(f"is damaged: {damaged} has another checksum.")
        return {name: np.asarray(file[name]) for name in file.files if name not in omit}


def write_arrays(
    path: str | Path,
    arrays: Mapping[str, np.ndarray],
    error: type[FileFormatError] = FileFormatError,
):
    """Write arrays of numbers or text to a compressed `.npz` file, for `read_arrays`.

    Args:
        path: the file.
        arrays: the arrays by name, of any shape.
        error: the exception to raise.

    Raises:
        error: an array holds Python objects, or the file could not be written; a file that was at
            `path` is then unchanged. One line that begins with the path.
    """
    arrays = {name: np.asarray(array) for name, array in arrays.items()}
    with prefix_errors(path, error):
        for name, array in arrays.items():
            if array.dtype.hasobject:  # NumPy would pickle it
                raise FileFormatError(f"{name} must hold plain numbers or text, not {array.dtype}.")
        with atomic_write(path) as partial, open(partial, "xb") as file:
            np.savez_compressed(file, **arrays)


@contextlib.contextmanager
def atomic_write(path: str | Path) -> Iterator[Path]:
    """Yield a temporary name beside a path to write to; on success, the file there replaces it.

    Args:
        path: the file to be written.

    Raises:
        FileFormatError: it could not be written; a file that was at `path` is unchanged. Without
            the path.
    """
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
    """Raise FileFormatError, without the path, unless there is a file at `path`."""
    if not Path(path).is_file():
        raise FileFormatError("cannot be read: No such file.")


def to_arrays(fields: Mapping) -> dict[str, np.ndarray]:
    """The fields of a recording as arrays for `write_arrays`, in fewer bytes where lossless.

    Times on a regular clock become `behavior_clock`, [start in s, rate in Hz, samples]; behaviour
    becomes float32 if that is exact, unit indices the smallest integers that hold them.

    Args:
        fields: the fields of `Recording` by name.

    Returns:
        The arrays by name, and the version of the format as `format`.
    """
    arrays = {name: np.asarray(fields[name]) for name in _STORED}
    arrays["notes"] = np.array(fields["notes"], dtype=str)
    smallest = np.min_scalar_type(len(fields["unit_ids"]) - 1)
    arrays["spike_units"] = arrays["spike_units"].astype(smallest)
    with np.errstate(over="ignore"):
        short = arrays["behavior"].astype(np.float32)
    if np.array_equal(short, arrays["behavior"]):
        arrays["behavior"] = short
    version = FORMAT
    if len(fields["classes"]):
        version, arrays["classes"] = FORMAT_OF_CLASSES, fields["classes"]
    times = fields["behavior_times"]
    clock = _regular_clock(times)
    if clock is None:
        return {"format": np.array(version), **arrays, "behavior_times": times}
    return {"format": np.array(version), **arrays, "behavior_clock": clock}


def _regular_clock(times: np.ndarray) -> np.ndarray | None:
    """[start, rate, n] of n times (T,) that are exactly at a whole number of Hz, else None."""
    n = len(times)
    if n == 0:
        return None
    rate = round(min((n - 1) / (times[-1] - times[0]), 1e9))
    if not rate:
        return None
    regular = times[0] + np.arange(n) / rate
    if regular.tobytes() != times.tobytes():
        return None
    return np.array([times[0], rate, n], np.float64)


def from_arrays(arrays: Mapping[str, np.ndarray], default_session_id: str) -> dict:
    """The arguments of `Recording` from the arrays of a file.

    Args:
        arrays: of `to_arrays`, or those of another source under the same names: `spike_times`,
            `spike_units` and any other field of `Recording`. Names that begin with `truth_` or
            `trials_` are ignored.
        default_session_id: where the file has no `session_id`.

    Returns:
        The fields by name. Without `unit_ids` they are 0, 1, ... up to the largest unit of a spike.

    Raises:
        RecordingError: another version of the format, an array that is missing, or a clock of
            behaviour that does not fit.
    """
    fields = {name: array for name, array in arrays.items() if not name.startswith(_BESIDE)}
    _check_names(fields, is_own="format" in arrays)
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
    if "format" not in arrays:
        _turn(fields)
    if "unit_ids" not in fields:
        if not fields["spike_units"].size:
            raise RecordingError("spike_units is empty: there is no spike.")
        if fields["spike_units"].dtype.kind not in "iu":
            raise RecordingError(f"spike_units {PLACES_OF_UNITS}")
        fields["unit_ids"] = np.arange(int(fields["spike_units"].max()) + 1)
    if "format" not in arrays:
        _drop_impossible(fields)
        fields.setdefault("behavior_name", AS_SAVED)  # a velocity or, by mistake, a position
    return {"session_id": default_session_id, **fields}


def _turn(fields: dict):
    """Make rows of what MATLAB holds as columns, and the transpose of behaviour, with a note.

    MATLAB: vectors are columns or rows, and a movement often has a row for each axis (pynwb #1775).
    """
    for name in ("spike_times", "spike_units", "behavior_times"):
        array = fields.get(name)
        if array is not None and array.size and array.size == max(array.shape, default=0):
            fields[name] = array.ravel()
    behavior = fields.get("behavior")
    n_samples = len(fields["behavior_times"]) if np.ndim(fields.get("behavior_times")) else 0
    if np.ndim(behavior) == 2 and len(behavior) != n_samples == behavior.shape[1]:
        fields["behavior"] = behavior.T
        note = f"behavior has shape {behavior.shape}: it is transposed, and was turned."
        fields["notes"] = [*fields.get("notes", ()), note]


def _drop_impossible(fields: dict):
    """Take spikes without a possible time out of the fields, with a note that counts them.

    AllenSDK #1349 and Kilosort #645: -1, and integers that wrapped, in files of one's own.
    """
    times, units = fields["spike_times"], fields["spike_units"]
    if times.ndim != 1 or times.shape != units.shape or times.dtype.kind not in "iuf":
        return  # refused by `Recording`
    times = times.astype(np.float64)
    is_index = units.dtype.kind in "iu" and len(units) > 0 and units.min() >= 0
    impossible = impossible_times(times)
    if is_index:
        impossible |= padding(times, units)
    if not impossible.any():
        return
    notes = note_impossible(impossible, times, units, fields["unit_ids"])
    fields["notes"] = [*fields.get("notes", ()), *notes]
    fields["spike_times"], fields["spike_units"] = times[~impossible], units[~impossible]


def _check_names(fields: dict[str, np.ndarray], is_own: bool):
    """Take `format` out of the fields; RecordingError if it is another, or an array is missing."""
    version = str(fields.pop("format", FORMAT))
    if version not in (FORMAT, FORMAT_OF_CLASSES):
        raise RecordingError(f"format is {version!r:.80}; this version reads {FORMAT!r}.")
    lost = sorted({*_STORED, *["classes"] * (version == FORMAT_OF_CLASSES)} - fields.keys())
    if is_own and lost:  # one bit of a zip's directory hides an array
        raise RecordingError(f"is damaged: {', '.join(lost)} is not in it.")
    if not {"spike_times", "spike_units"} <= fields.keys():
        raise RecordingError(
            f"needs spike_times and spike_units, not {listed(sorted(fields))}: CONVERTERS.md."
        )
