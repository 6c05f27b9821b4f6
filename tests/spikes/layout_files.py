"""A recording in every layout of file or folder that is read, written as its own software writes it."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

import h5py
import numpy as np
import scipy.io

from possm_lite.spikes import Recording

from . import layouts, nwb_files
from .layouts import Layout, in_bins, position_of, sampled, trains_of

RATE = 30_000.0
PICKLE = np.array({"area": ["M1", "M1", "S1"]}, dtype=object)


class Session(NamedTuple):
    """Three units or more, the position of a cursor, trials. `unit_ids`: as each program calls the units."""

    trains: list[np.ndarray]  # seconds, on the clock of samples
    times: np.ndarray  # (T,) s
    position: np.ndarray  # (T, 2) mm
    trials: np.ndarray  # (n, 2) s


def merged(session: Session) -> tuple[np.ndarray, np.ndarray]:
    """Times in order and units from 0, both (N,)."""
    times = np.concatenate(session.trains)
    order = np.argsort(times, kind="stable")
    return times[order], np.repeat(np.arange(len(session.trains)), [len(train) for train in session.trains])[order]


def names_from(first: list[int], session: Session) -> np.ndarray:
    """A number for each unit: these, then 101, 102, ..."""
    return np.append(first, np.arange(101, 101 + len(session.trains)))[: len(session.trains)]


def results(session: Session) -> list[str]:
    return ["RF"[i % 2] for i in range(len(session.trials))]


def write_indy(session: Session, folder: Path) -> Path:
    """Cells (channels, units) as MATLAB stores them: references, transposed, empty ones as their shape."""

    def cell(value, **options):
        data = refs.create_dataset(f"c{len(refs)}", data=value, **options)
        return data.ref

    path = folder / "indy_20160915_01.mat"
    with h5py.File(path, "w", userblock_size=512) as file:
        refs = file.create_group("#refs#")
        empty = cell(np.array([0, 0], np.uint64))
        refs["c0"].attrs["MATLAB_empty"] = np.uint8(1)
        n_channels = max(2, round(2 / 3 * len(session.trains)))
        spikes = np.full((3, n_channels), empty, dtype=h5py.ref_dtype)
        for i, train in enumerate(session.trains):
            spikes[(0, i) if i < n_channels else (1, i - n_channels + 1)] = cell(train[None])
        file["spikes"] = spikes
        channels = [f"{'MS'[k % 2]}1 {k + 1:03d}" for k in range(n_channels)]
        names = [cell(np.array([[ord(c)] for c in name], np.uint16)) for name in channels]
        file["chan_names"] = np.array([names], dtype=h5py.ref_dtype)
        file["t"] = session.times[None]
        file["cursor_pos"] = session.position.T
        x, y = session.position.T / 10
        angles = np.zeros((3, len(x)))
        file["finger_pos"] = np.concatenate((np.stack((np.ones_like(x), -x, -y)), angles))
        file["target_pos"] = np.round(session.position.T, -1)
    with open(path, "r+b") as file:
        file.write(b"MATLAB 7.3 MAT-file".ljust(116) + bytes(8) + b"\x00\x02IM")
    return path


def write_phy(session: Session, folder: Path) -> Path:
    times, units = merged(session)
    folder = folder / "phy"
    folder.mkdir()
    noise = np.array([1234, 2345])
    samples, clusters = (
        np.append(np.rint(times * RATE), noise),
        np.append(names_from([5, 7, 12], session)[units], [9, 9]),
    )
    order = np.argsort(samples, kind="stable")
    np.save(folder / "spike_times.npy", samples[order].astype(np.uint64)[:, None])
    np.save(folder / "spike_clusters.npy", clusters[order].astype(np.int32))
    (folder / "params.py").write_text("dat_path = 'raw.dat'\nn_channels_dat = 384\nsample_rate = 30000.\nhp = False\n")
    groups, labels = {5: "good", 9: "noise", 12: "mua"}, {5: "good", 7: "mua", 9: "mua", 12: "mua"}
    for name, table in (("group", groups), ("KSLabel", labels)):
        rows = [f"{cluster}\t{value}\n" for cluster, value in table.items()]
        (folder / f"cluster_{name}.tsv").write_text("".join([f"cluster_id\t{name}\n", *rows]))
    table = np.column_stack((session.times, session.position))
    np.savetxt(folder / "tracking.csv", table, "%.17g", ",", header="time,cursor_pos_x,cursor_pos_y", comments="")
    rows = [f"{start},{stop},{r}\n" for (start, stop), r in zip(session.trials, results(session), strict=True)]
    (folder / "trials.csv").write_text("".join(["start,stop,result\n", *rows]))
    return folder


def write_pynapple(session: Session, folder: Path) -> Path:
    """What `save` of pynapple 0.11 writes."""
    times, units = merged(session)
    folder = folder / "pynapple"
    folder.mkdir()
    index, support = names_from([2, 3, 8], session)[units], {"start": times[:1], "end": times[-1:]}
    group = {"t": times, "index": index, "keys": names_from([2, 3, 8], session)}
    np.savez(folder / "spikes.npz", type=np.array(["TsGroup"]), _metadata=PICKLE, **group, **support)
    support = {"start": session.times[:1], "end": session.times[-1:]}
    frame = {"t": session.times, "d": session.position, "columns": np.array(["x", "y"], dtype=object)}
    np.savez(folder / "cursor_pos.npz", **frame, **support, type=np.array(["TsdFrame"]), _metadata=PICKLE)
    np.savez(folder / "speed.npz", t=session.times, d=session.times, **support, type=np.array(["Tsd"]))
    start, end = session.trials.T
    np.savez(folder / "trials.npz", start=start, end=end, type=np.array(["IntervalSet"]), _metadata=PICKLE)
    return folder


def write_brainsets(session: Session, folder: Path) -> Path:
    """What `Data.to_hdf5` of temporaldata 0.1.6 writes."""
    times, units = merged(session)
    start, end = session.trials.T
    path = folder / "indy_20160915_01.h5"

    def add(group, kind: str, timekeys=(), unicode=(), **columns):
        for name, column in columns.items():
            group[name] = column
        group.attrs["object"] = kind
        group.attrs["_unicode_keys"] = np.array(unicode, dtype="S")
        group.attrs["timekeys"] = np.array(timekeys, dtype="S")
        return group

    def series(name: str, **columns):
        group = add(file.create_group(name), "IrregularTimeSeries", ["timestamps"], **columns)
        span = {"start": columns["timestamps"][:1], "end": columns["timestamps"][-1:]}
        add(group.create_group("domain"), "Interval", ["start", "end"], **span)
        group["timestamp_indices_1s"] = np.searchsorted(columns["timestamps"], np.arange(session.times[-1] + 1))

    with h5py.File(path, "w") as file:
        series("spikes", timestamps=times, unit_index=units)
        ids = np.array([f"u{i}" for i in range(len(session.trains))], "S")
        areas = np.array(["M1", *["M1", "S1"] * len(ids)][: len(ids)], "S")
        add(file.create_group("units"), "ArrayDict", unicode=["id", "area"], id=ids, area=areas)
        series("cursor", timestamps=session.times, pos=session.position, acc=session.position * 0)
        span = {"start": session.times[:1], "end": session.times[-1:]}
        gaze = add(file.create_group("gaze"), "RegularTimeSeries", angle=session.times[::2])
        step = session.times[1] - session.times[0]
        gaze.attrs["sampling_rate"] = 1 / (2 * step)
        add(gaze.create_group("domain"), "Interval", ["start", "end"], **span | {"end": span["end"] + step})
        table = {"is_valid": np.arange(len(start)) % 2 == 0, "result": np.array(results(session), "S")}
        table |= {"start": start, "end": end}
        add(file.create_group("trials"), "Interval", ["start", "end"], ["result"], **table)
        add(file.create_group("domain"), "Interval", ["start", "end"], **span)
        session_group = file.create_group("session")
        session_group.attrs.update({"id": "indy_20160915_01", "object": "Data", "absolute_start": 0.0})
        file.attrs.update({"object": "Data", "absolute_start": 0.0})
    return path


def indy_names(n_units: int) -> list[str]:
    """One unit on each channel, then a second on the later ones."""
    n_channels = max(2, round(2 / 3 * n_units))
    places = [(0, i) if i < n_channels else (1, i - n_channels + 1) for i in range(n_units)]
    return [f"{'MS'[channel % 2]}1 {channel + 1:03d}/{unit}" for unit, channel in sorted(places)]


def write_program(write: Callable, names: Callable, changes: dict, folder: Path, recording: Recording) -> Layout:
    """The recording with the position at 250 Hz and spikes on the clock of samples, in one of the layouts above."""
    r = sampled(recording, 4)
    trains = [np.unique(np.rint(train * RATE)) / RATE for train in trains_of(r)]
    session = Session(trains, r.behavior_times, position_of(r), r.trials)
    spike_times, spike_units = merged(session)
    fields = {"spike_times": spike_times, "spike_units": spike_units, "unit_ids": names(session)}
    return Layout({}, replace(r, **fields | {"behavior_unit": "a.u./s"} | changes), write(session, folder))


def write_own(folder: Path, recording: Recording) -> Layout:
    recording.save(folder / "session.npz")
    return Layout({}, recording, folder / "session.npz")


def write_counts(folder: Path, recording: Recording) -> Layout:
    """A .mat with velocity at the starts of bins of 50 ms, in m/s."""
    counts, _ = in_bins(recording, 0.05, *recording.span)
    starts = 0.05 * np.arange(len(counts))
    velocity = recording.behavior[::50][: len(counts)] / 1000
    data = {"time": starts[None], "spikes": counts.T.astype(float), "handVel": velocity.T}
    scipy.io.savemat(folder / "session.mat", data)
    expected = Recording.from_counts(counts, 0.05, velocity, behavior_times=starts, behavior_unit="m/s")
    return Layout({}, expected, folder / "session.mat")


_INDY = {"trials": [], "behavior_unit": "mm/s"}
WRITERS: dict[str, Callable[[Path, Recording], Layout]] = {
    ".npz, our own format": write_own,
    ".mat, counts": write_counts,
    **{title: partial(nwb_files.write_layout, title) for title in nwb_files.WRITERS},
    "indy": partial(write_program, write_indy, lambda session: indy_names(len(session.trains)), _INDY),
    "phy": partial(write_program, write_phy, partial(names_from, [5, 7, 12]), {}),
    "pynapple": partial(write_program, write_pynapple, partial(names_from, [2, 3, 8]), {}),
    "brainsets": partial(
        write_program, write_brainsets, lambda session: [f"u{i}" for i in range(len(session.trains))], {}
    ),
}
LAYOUTS = WRITERS | {f"converter: {title}": write for title, write in layouts.WRITERS.items()}
