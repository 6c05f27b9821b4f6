"""HDF5 files: those of O'Doherty and Sabes, and of brainsets.

* `indy_*.mat` and `loco_*.mat` (Zenodo 583331), MATLAB v7.3: `t` (k,) s; `cursor_pos` (k, 2) mm; `finger_pos` (k, 3 or
  6), first z, -x, -y in cm; `chan_names`; `spikes`, cells (channels, units) of times in s, of which the first unit of a
  channel are threshold crossings that were sorted into no unit. HDF5 holds the transpose of each.
* `.h5` of brainsets: a `temporaldata.Data` as its `to_hdf5` writes it. temporaldata would allocate any declared size.
"""

import math
from pathlib import Path

import numpy as np

from ...errors import RecordingError, wrap_errors
from ..arrays import MAX_BYTES
from .contents import Contents, Series, intervals


def read_indy(path: Path) -> Contents:
    """Spikes, and the positions of cursor and finger. "M1 001/0" are the unsorted spikes of a channel, as in POSSM."""
    file = _open(path, "indy_*.mat, the MATLAB v7.3 layout read here,", "t", "spikes", "chan_names", "cursor_pos")
    names, grid = (read_dataset(file[name], name, "O") for name in ("chan_names", "spikes"))
    channels = ["".join(map(chr, read_dataset(file[name], "chan_names", "u").flat)) for name in names.flat]
    if grid.ndim != 2 or grid.shape[1] != len(channels):
        raise RecordingError(f"spikes must be (units, {len(channels)}) for {len(channels)} chan_names: {grid.shape}.")
    cells = [file[cell] for cell in grid.flat]
    # MATLAB stores the shape of an empty array in its place
    full = [i for i, cell in enumerate(cells) if cell.size and "MATLAB_empty" not in cell.attrs]
    if 8 * sum(cells[i].size for i in full) > MAX_BYTES:  # cells may share one large data set
        raise RecordingError(f"spikes declares more than {MAX_BYTES} bytes.")
    trains = [read_dataset(cells[i], f"spikes, cell {i}").ravel() for i in full]
    unit, channel = np.divmod(full, len(channels))
    names = np.array(channels)[channel]

    def read(name: str, column=slice(None), factor=1.0) -> tuple[np.ndarray, np.ndarray]:
        return read_dataset(file["t"], "t").ravel(), read_dataset(file[name], name).T[:, column] * factor

    series = [Series("cursor_pos", lambda: read("cursor_pos"), "mm")]
    if "finger_pos" in file:
        series.append(Series("finger_pos", lambda: read("finger_pos", [1, 2, 0], [-1, -1, 1]), "cm"))
    return Contents(
        np.concatenate(trains),
        np.repeat(np.arange(len(trains)), [len(train) for train in trains]),
        np.array([f"{name}/{u}" for name, u in zip(names, unit, strict=True)]),
        series,
        session_id=path.stem,
        unit_table={"channel": names, "unit": unit, "area": np.array([name.split()[0] for name in names])},
        default=("cursor_pos",),
        notes=(f"{(unit == 0).sum()} of {len(unit)} units are unsorted spikes; the filter unit > 0 leaves them out.",),
    )


def read_brainsets(path: Path) -> Contents:
    """Spikes, trials, `domain` as the observed times, and every field of a time series, called "cursor/vel"."""
    file = _open(path, "a file of brainsets", "spikes/timestamps", "spikes/unit_index", "units/id")

    def columns(name: str) -> dict[str, np.ndarray]:
        table = file[name] if name in set(file) else {}  # a link to nothing is in it, and raises
        data = {key: data for key, data in table.items() if getattr(data, "ndim", 0) == 1}
        arrays = {key: read_dataset(column, f"{name}/{key}", "biufS") for key, column in data.items()}
        return {key: np.char.decode(array) if array.dtype.kind == "S" else array for key, array in arrays.items()}

    def read(name: str, field: str) -> tuple[np.ndarray, np.ndarray]:
        group, values = file[name], read_dataset(file[name][field], f"{name}/{field}")
        if "timestamps" in group:
            return read_dataset(group["timestamps"], f"{name}/timestamps"), values
        return group["domain/start"][0] + np.arange(len(values)) / group.attrs["sampling_rate"], values

    units, trials, domain = columns("units"), columns("trials"), columns("domain")
    groups = [name for name in file if "TimeSeries" in str(file[name].attrs.get("object")) and name != "spikes"]
    return Contents(
        read_dataset(file["spikes/timestamps"], "spikes/timestamps"),
        read_dataset(file["spikes/unit_index"], "spikes/unit_index", "iu"),
        units.pop("id"),
        [
            Series(f"{name}/{field}", lambda n=name, f=field: read(n, f), shape=data.shape)
            for name in groups
            for field, data in file[name].items()
            if not field.startswith("timestamp") and getattr(data, "ndim", 0) in (1, 2) and data.dtype.kind in "iuf"
        ],
        session_id=str(file["session"].attrs["id"]) if "session" in file else path.stem,
        trials=intervals(trials, "start", "end"),
        unit_table=units,
        trial_table=trials,
        observed=intervals(domain, "start", "end") if domain else None,
    )


def _open(path: Path, layout: str, *required: str):
    import h5py

    file = h5py.File(path, "r")
    if missing := [name for name in required if name not in file]:
        listed = ", ".join(file)[:200] or "nothing"
        raise RecordingError(f"has no {', '.join(missing)}, which {layout} has; it has {listed}. See CONVERTERS.md.")
    return file


def read_dataset(data, field: str, kinds: str = "iuf") -> np.ndarray:
    """A data set as float64, as int64 if `kinds` has no "f", or as stored if it has "O" or "S"; its size is checked."""
    with wrap_errors(f"{field} cannot be read"):
        shape, dtype = data.shape, np.dtype(data.dtype)
        items = max(math.prod(shape), math.prod(getattr(data, "chunks", None) or ()))  # chunks are unpacked whole
        if dtype.kind not in kinds:
            expected = "numbers" if "f" in kinds else "references" if kinds == "O" else "whole numbers"
            raise RecordingError(f"{field} must hold {expected}, not {dtype}.")
        if items * dtype.itemsize > MAX_BYTES:
            raise RecordingError(f"{field} declares shape {shape} of {dtype}, or chunks, over {MAX_BYTES} bytes.")
        array = np.asarray(data[()])
        return array if set("OS") & set(kinds) else array.astype(np.float64 if "f" in kinds else np.int64, copy=False)
