"""HDF5 files: those of O'Doherty and Sabes, and of brainsets.

* `indy_*.mat` and `loco_*.mat` (Zenodo 583331), MATLAB v7.3: `t` (k,) s; `cursor_pos` (k, 2) mm; `finger_pos` (k, 3 or
  6), first z, -x, -y in cm; `chan_names`; `spikes`, cells (channels, units) of times in s. HDF5 holds the transposes.
* `.h5` of brainsets: a `temporaldata.Data` as its `to_hdf5` writes it.
"""

from pathlib import Path

import numpy as np

from .contents import Contents, Series, intervals


def read_indy(path: Path) -> Contents:
    """Spikes, and the positions of cursor and finger. "M1 001/0" are the unsorted spikes of a channel, as in POSSM."""
    import h5py

    with h5py.File(path, "r") as file:
        channels = np.array(
            ["".join(map(chr, file[name][()].flat)) for name in file["chan_names"][()].flat]
        )
        cells = {
            place: file[cell] for place, cell in np.ndenumerate(file["spikes"][()])
        }  # (unit, channel)
        # MATLAB stores the shape of an empty array in its place
        full = {
            at: cell[()].ravel()
            for at, cell in cells.items()
            if cell.size and "MATLAB_empty" not in cell.attrs
        }
        unit, channel = np.array(list(full)).T
        t = file["t"][()].ravel()
        series = [Series("cursor_pos", lambda cursor=file["cursor_pos"][()].T: (t, cursor), "mm")]
        if "finger_pos" in file:
            finger = file["finger_pos"][()].T[:, [1, 2, 0]] * [-1, -1, 1]
            series.append(Series("finger_pos", lambda: (t, finger), "cm"))
    names = channels[channel]
    return Contents(
        np.concatenate(list(full.values())),
        np.repeat(np.arange(len(full)), [len(train) for train in full.values()]),
        np.array([f"{name}/{u}" for name, u in zip(names, unit, strict=True)]),
        series,
        session_id=path.stem,
        unit_table={
            "channel": names,
            "unit": unit,
            "area": np.array([name.split()[0] for name in names]),
        },
        default=("cursor_pos",),
        notes=(
            f"{(unit == 0).sum()} of {len(unit)} units are unsorted spikes; the filter unit > 0 leaves them out.",
        ),
    )


def read_brainsets(path: Path) -> Contents:
    """Spikes, trials, `domain` as the observed times, and every field of a time series, called "cursor/vel"."""
    import h5py

    def read(name: str, field: str) -> tuple[np.ndarray, np.ndarray]:
        with h5py.File(path, "r") as file:
            group = file[name]
            values = group[field][()]
            if "timestamps" in group:
                return group["timestamps"][()], values
            return group["domain/start"][0] + np.arange(len(values)) / group.attrs[
                "sampling_rate"
            ], values

    with h5py.File(path, "r") as file:
        units, trials, domain = (
            read_columns(find(file, name)) for name in ("units", "trials", "domain")
        )
        series = [
            Series(f"{name}/{field}", lambda n=name, f=field: read(n, f), shape=data.shape)
            for name, group in file.items()
            if "TimeSeries" in str(group.attrs.get("object")) and name != "spikes"
            for field, data in group.items()
            if not field.startswith("timestamp")
            and getattr(data, "ndim", 0) in (1, 2)
            and data.dtype.kind in "iuf"
        ]
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
        )


def find(file, address: str):
    """What is at an address of an HDF5 file, None where nothing is. A link to nothing raises KeyError."""
    for name in address.split("/"):
        if file is None or name not in set(
            file.keys()
        ):  # `name in file` is False of a link to nothing
            return None
        file = file[name]
    return file


def read_columns(table) -> dict[str, np.ndarray]:
    """The data sets (n,) of numbers or text in a group by name; {} of None."""
    import h5py

    found = {}
    for name, data in (table or {}).items():
        if getattr(data, "ndim", 0) == 1 and h5py.check_string_dtype(data.dtype):
            found[name] = data.asstr(errors="replace")[()].astype(str)
        elif getattr(data, "ndim", 0) == 1 and data.dtype.kind in "iufb":
            found[name] = data[()]
    return found
