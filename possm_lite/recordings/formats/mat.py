"""MATLAB files of spike counts in bins.

The layout: `time` (1, n) s, the start of each bin; `spikes` (units, n), counts, full or sparse;
`handVel` (C, n) m/s. Perhaps `trials` (n, 2) s, and beside it vectors, text in cells, that are as
long as it or as the bins: labels of trials, or at each bin.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from ...errors import RecordingError, listed
from ..recording import Recording
from ..trains import whole_counts
from .contents import Contents, columns_of_trials, contents_of, series_in_memory
from .hdf5 import read_indy

_NAMES = ("time", "spikes", "handVel")
_NEEDED = "time (1 x bins), spikes (units x bins) and handVel (columns x bins)"
_STRUCT = " (struct)"
# of a bin: largest distance of its start from the regular clock, as of times in whole ms
_JITTER = 0.02 * (1 + 1e-6)


def read_mat(path: Path) -> Contents:
    """What is in a MATLAB file of the layout above.

    Args:
        path: a file of MATLAB v4, v6 or v7.

    Raises:
        RecordingError: a variable is missing or has another shape. Without the path.
    """
    from scipy.io import loadmat, whosmat

    listing = whosmat(path)
    vectors = [name for name, shape, _ in listing if max(shape) == np.prod(shape) > 1]
    variables = loadmat(path, variable_names={*_NAMES, "trials", *vectors})
    names = [f"{name} ({kind})" for name, _, kind in listing]
    found = {name: _full(variables[name]) for name in _NAMES if name in variables}
    recording = _from_bins(found, names, path.stem)
    return _with_labels(recording, {n: variables[n] for n in vectors if n not in _NAMES}, variables)


def _with_labels(recording: Recording, vectors: Mapping, variables: Mapping) -> Contents:
    """A recording with trials, if there are any, and with the vectors as long as they or the bins.

    In MATLAB, text is in cells of one row of characters each.
    """
    if "trials" in variables and len(recording.trials) == 0:
        trials = np.asarray(variables["trials"], np.float64)
        trials = trials.T if trials.shape[0] == 2 != trials.shape[1] else trials
        recording = replace(recording, trials=trials)
    flat = {}
    for name, vector in vectors.items():
        values = vector.ravel()
        if values.dtype == object:
            values = np.array([str(cell[0]) if np.size(cell) else "" for cell in values])
        flat[name] = values
    found = contents_of(recording, columns_of_trials(flat, len(recording.trials)))
    times = recording.behavior_times
    of_bins = {name: values for name, values in flat.items() if len(values) == len(times)}
    series = [series_in_memory(name, times, values) for name, values in of_bins.items()]
    return found._replace(series=[*found.series, *series])


def read_mat73(path: Path) -> Contents | Recording:
    """What is in a file of MATLAB v7.3: the layout above, or that of O'Doherty and Sabes.

    Args:
        path: the file, which is HDF5.

    Raises:
        RecordingError: a variable is missing or has another shape. Without the path.
    """
    import h5py

    with h5py.File(path, "r") as file:
        names = [name for name in file if not name.startswith("#")]
        if "chan_names" in file:
            return read_indy(path)
        found = {name: _full_of_hdf5(file[name]) for name in _NAMES if name in file}
        names = [name + _STRUCT * _is_struct(file[name]) for name in names]
    return _from_bins(found, names, path.stem)


def _full(variable) -> np.ndarray:
    """An array of SciPy's `loadmat`, sparse or full, as a full one.

    mat7.3 #28: counts are often saved as a sparse matrix.
    """
    return variable.toarray() if hasattr(variable, "toarray") else variable


def _full_of_hdf5(variable) -> np.ndarray:
    """An array of MATLAB v7.3, which HDF5 holds transposed and, if sparse, by columns."""
    if "MATLAB_sparse" not in variable.attrs:
        if _is_struct(variable):
            return np.array("a struct")
        data = variable[()].T
        return data.astype(object) if variable.attrs.get("MATLAB_class") == b"cell" else data
    n_rows = int(variable.attrs["MATLAB_sparse"])
    starts = variable["jc"][()].astype(np.int64)  # of the columns among the values
    full = np.zeros((n_rows, len(starts) - 1))
    if "data" in variable:  # of a matrix of zeros there is none
        columns = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
        full[variable["ir"][()].astype(np.int64), columns] = variable["data"][()]
    return full


def _is_struct(variable) -> bool:
    """Whether a variable of MATLAB v7.3 is a struct: a group of HDF5, and no sparse matrix."""
    return not hasattr(variable, "shape") and "MATLAB_sparse" not in variable.attrs


def _from_bins(found: dict[str, np.ndarray], names: list[str], session_id: str) -> Recording:
    """The recording of the variables above.

    The spikes of a bin are placed by `Recording.from_counts`, the bins on a regular clock if every
    start is within 2 % of a bin of it, as such starts were rounded; else they may have gaps.
    Behaviour has the times of the bins' starts.
    """
    _check_variables(found, names)
    notes: list[str] = []
    time = found["time"].ravel().astype(np.float64)
    counts = _turned("spikes", found["spikes"], time.size, notes)
    velocity = _turned("handVel", found["handVel"], time.size, notes)
    _check_bins(time, counts, velocity)
    if len(velocity) == 1:  # broken files of the soak test: a matrix that lost its last row
        notes.append("handVel has one row, so one movement, x, is decoded.")
    counts = whole_counts(counts, "spikes")
    width = round(float(np.median(np.diff(time))), 6)
    time = _on_regular_clock(time, width, notes)
    velocity = _moving_rows(velocity, notes)
    return Recording.from_counts(
        counts.T,
        width,
        velocity.T,
        time,
        behavior_times=time,
        notes=notes,
        behavior_unit="m/s",
        behavior_name="hand velocity",
        session_id=session_id,
    )


def _turned(name: str, array: np.ndarray, n_bins: int, notes: list[str]) -> np.ndarray:
    """An array with a column for each bin, turned if it has a row for each, with a note."""
    is_turned = array.ndim == 2 and len(array) == n_bins != array.shape[1]
    if is_turned:
        notes.append(f"{name} has shape {array.shape}, a row for each bin, and was turned.")
    return array.T if is_turned else array


def _check_variables(found: Mapping[str, np.ndarray], names: list[str]):
    """Raise RecordingError unless all variables are there, and are matrices of numbers.

    From reports: one struct with all of them (SciPy), cells of spike times (Kording lab).
    """
    missing = [name for name in _NAMES if name not in found]
    structs = [name.removesuffix(_STRUCT) for name in names if name.endswith(_STRUCT)]
    if len(missing) == len(_NAMES) and len(names) == len(structs) == 1:
        raise RecordingError(
            f"has only {structs[0]}, a struct. In MATLAB: load it, then "
            f"save('new.mat', '-struct', '{structs[0]}'); needed are {_NEEDED}."
        )
    if missing:
        raise RecordingError(
            f"has no {' and no '.join(missing)}, only {listed(names) or 'nothing'}; needed are "
            f"{_NEEDED}. Other layouts: CONVERTERS.md."
        )
    for name, array in found.items():
        is_cells = array.dtype == object
        if is_cells and name == "spikes":
            raise RecordingError(
                "spikes is a cell array, of spike times it seems: counts are needed, in a row for "
                "each unit u: counts(u,:) = histcounts(spikes{u}, edges)."
            )
        if array.dtype.kind not in "iuf" or (array.ndim != 2 and name != "time"):
            what = (
                "a cell array"
                if is_cells
                else f"{array}"[:40]
                if array.ndim == 0
                else "no matrix of real numbers"
            )
            raise RecordingError(f"{name} is {what}; needed are {_NEEDED}, matrices of numbers.")


def _check_bins(time: np.ndarray, counts: np.ndarray, velocity: np.ndarray):
    """Raise RecordingError unless all have a value for each bin, and time and velocity no NaN."""
    for name, array in (("spikes", counts), ("handVel", velocity)):
        if array.shape[1] != time.size:
            raise RecordingError(
                f"{name} has {array.shape[1]:,} columns, time has {time.size:,} bins: both must "
                "have one for each bin."
            )
    for name, array in (("time", time[None]), ("handVel", velocity)):
        missing = ~np.isfinite(array).all(axis=0)
        if missing.any():
            raise RecordingError(
                f"{name} has no value (NaN) in {missing.sum():,} of {len(missing):,} bins, first "
                f"in bin {missing.argmax() + 1}: delete these bins in time, spikes and handVel."
            )


def _on_regular_clock(time: np.ndarray, width: float, notes: list[str]) -> np.ndarray:
    """Starts of bins, (n,) s, put on a regular clock of this width if all are near it."""
    # 1 / width is exactly a whole number for common widths
    regular = time[0] + np.arange(len(time)) / (1 / width)
    off = np.abs(time - regular).max()
    if not off <= _JITTER * width:
        return time
    if off > 1e-6 * width:
        notes.append(
            f"Bin starts up to {1e3 * off:.2g} ms off were put on a regular clock of "
            f"{1e3 * width:g} ms."
        )
    return regular


def _moving_rows(velocity: np.ndarray, notes: list[str]) -> np.ndarray:
    """Velocity, (C, n), without the rows that never change, unless none does."""
    varies = velocity.min(1) != velocity.max(1)  # True for NaN
    if varies.all() or not varies.any():
        return velocity
    still = np.flatnonzero(~varies).tolist()
    notes.append(f"Rows {still} of handVel never change and were left out.")
    return velocity[varies]
