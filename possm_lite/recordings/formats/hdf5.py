"""HDF5 files: those of O'Doherty and Sabes, and of brainsets.

* `indy_*.mat` and `loco_*.mat` (Zenodo 583331), MATLAB v7.3: `t` (k,) s; `cursor_pos` (k, 2) mm;
  `finger_pos` (k, 3 or 6), first z, -x, -y in cm; `chan_names`; `spikes`, cells (channels, units)
  of times in s, of which the first unit of a channel are threshold crossings that were sorted into
  no unit. HDF5 holds the transposes.
* `.h5` of brainsets: a `temporaldata.Data` as its `to_hdf5` writes it.
"""

from functools import partial
from pathlib import Path

import numpy as np

from ...errors import RecordingError, listed
from .contents import Contents, Series, intervals


def read_indy(path: Path) -> Contents:
    """What is in a file of O'Doherty and Sabes.

    Args:
        path: the file.

    Returns:
        Spikes, and the positions of cursor and finger. "M1 001/0" are the unsorted spikes of a
        channel, as in POSSM. The cursor is decoded by default.
    """
    import h5py

    with h5py.File(path, "r") as file:
        channels = np.array(_texts(file, "chan_names"))
        trains = _trains(file)
        t = file["t"][()].ravel()
        cursor = file["cursor_pos"][()].T
        series = [Series("cursor_pos", lambda: (t, cursor), "mm")]
        if "finger_pos" in file:
            finger = file["finger_pos"][()].T[:, [1, 2, 0]] * [-1, -1, 1]  # x, y, z
            series.append(Series("finger_pos", lambda: (t, finger), "cm"))
    unit, channel = np.array(list(trains)).T
    names = channels[channel]
    n_unsorted = (unit == 0).sum()
    note = (
        f"{n_unsorted} of {len(unit)} units are unsorted spikes; "
        "the filter unit > 0 leaves them out."
    )
    return Contents(
        np.concatenate(list(trains.values())),
        np.repeat(np.arange(len(trains)), [len(train) for train in trains.values()]),
        np.array([f"{name}/{u}" for name, u in zip(names, unit, strict=True)]),
        series,
        session_id=path.stem,
        unit_table={
            "channel": names,
            "unit": unit,
            "area": np.array([name.split()[0] for name in names]),
        },
        default=("cursor_pos",),
        notes=(note,),
    )


def _texts(file, name: str) -> list[str]:
    """The texts in an array of cells of MATLAB, whose characters are stored as numbers."""
    texts = []
    for cell in file[name][()].flat:
        texts.append("".join(chr(code) for code in file[cell][()].flat))
    return texts


def _trains(file) -> dict[tuple[int, int], np.ndarray]:
    """The spike times in s of each cell that is not empty, by unit of the channel and channel."""
    trains = {}
    for place, reference in np.ndenumerate(file["spikes"][()]):
        cell = file[reference]
        # MATLAB stores the shape of an empty array in its place
        if cell.size and "MATLAB_empty" not in cell.attrs:
            trains[place] = cell[()].ravel()
    return trains


def read_brainsets(path: Path) -> Contents:
    """What is in a file of brainsets.

    Args:
        path: the file.

    Returns:
        Spikes, trials, the domain as the observed times, and every field of a time series, called
        "cursor/vel". A series is read from the file only when it is chosen.
    """
    import h5py

    with h5py.File(path, "r") as file:
        missing = [name for name in ("spikes", "units") if name not in file]
        if missing:
            raise RecordingError(
                f"has no {' and no '.join(missing)}, as a file of brainsets has: it has "
                f"{listed(list(file)) or 'nothing'}. "
                "Convert it to an .npz: CONVERTERS.md shows how."
            )
        units = read_columns(find(file, "units"))
        trials = read_columns(find(file, "trials"))
        domain = read_columns(find(file, "domain"))
        series = []
        for name, group in file.items():
            if name != "spikes" and "TimeSeries" in str(group.attrs.get("object")):
                series += _fields(path, name, group)
        return Contents(
            file["spikes/timestamps"][()],
            file["spikes/unit_index"][()],
            units.pop("id"),
            series,
            session_id=str(file["session"].attrs["id"]) if "session" in file else path.stem,
            trials=intervals(trials, "start", "end"),
            unit_table=units,
            trial_table=trials,
            observed=intervals(domain, "start", "end") if domain else None,
            observed_name="domain",
        )


def _fields(path: Path, name: str, group) -> list[Series]:
    """A series for each field of numbers or text in a time series of brainsets."""
    series = []
    for field, data in group.items():
        has_values = getattr(data, "ndim", 0) in (1, 2) and data.dtype.kind in "iufbSO"
        if has_values and not field.startswith("timestamp"):
            read = partial(_read_field, path, name, field)
            series.append(Series(f"{name}/{field}", read, shape=data.shape))
    return series


def _read_field(path: Path, name: str, field: str) -> tuple[np.ndarray, np.ndarray]:
    """Times (T,) in s and values of a field of a time series of brainsets."""
    import h5py

    with h5py.File(path, "r") as file:
        group = file[name]
        values = read_values(group[field])
        if "timestamps" in group:
            return group["timestamps"][()], values
        seconds = np.arange(len(values)) / group.attrs["sampling_rate"]
        return group["domain/start"][0] + seconds, values


def find(file, address: str):
    """What is at an address of an HDF5 file, None where nothing is.

    Args:
        file: of h5py, or a group of it.
        address: names of groups and of what is in the last, with slashes between them.

    Raises:
        RecordingError: there is a link to nothing.
    """
    for name in address.split("/"):
        # `name in file` is False of a link to nothing
        if file is None or name not in set(file.keys()):
            return None
        link = file.get(name, getlink=True)
        file = file.get(name)
        if file is None:
            target = getattr(link, "filename", "") or getattr(link, "path", "")
            raise RecordingError(f"{name} is a link to {target}, which is not there.")
    return file


def read_values(data) -> np.ndarray:
    """The numbers, truth values or text of a data set of h5py, `data`, of its shape."""
    import h5py

    if h5py.check_string_dtype(data.dtype):
        return data.asstr(errors="replace")[()].astype(str)
    return data[()]


def read_columns(table) -> dict[str, np.ndarray]:
    """The data sets of numbers or text in a group, by name, (n,) each.

    Args:
        table: the group of h5py; None has no columns.
    """
    import h5py

    found = {}
    for name, data in (table or {}).items():
        is_text = getattr(data, "ndim", 0) == 1 and h5py.check_string_dtype(data.dtype)
        if is_text or (getattr(data, "ndim", 0) == 1 and data.dtype.kind in "iufb"):
            found[name] = read_values(data)
    return found
