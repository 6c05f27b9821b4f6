"""A recording in every layout of file or folder that is read, written as its own software writes it."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import h5py
import numpy as np
import scipy.io

from possm_lite.recordings import Recording

from . import layouts, nwb_files
from .layouts import Layout, in_bins, position_of, sampled, trains_of

RATE = 30_000.0
PICKLE = np.array({"area": ["M1", "M1", "S1"]}, dtype=object)


# Programs: each writes a recording, and a position in mm at its times, (T, 2); returns the path and what it calls units


def write_indy(folder: Path, r: Recording, position: np.ndarray) -> tuple[Path, list[str]]:
    """Cells (channels, units) as MATLAB stores them: references, transposed, empty ones as their shape."""

    def cell(value, **options):
        data = refs.create_dataset(f"c{len(refs)}", data=value, **options)
        return data.ref

    path, names = folder / "indy_20160915_01.mat", []
    with h5py.File(path, "w", userblock_size=512) as file:
        refs = file.create_group("#refs#")
        empty = cell(np.array([0, 0], np.uint64))
        refs["c0"].attrs["MATLAB_empty"] = np.uint8(1)
        n_channels = max(2, round(2 / 3 * r.n_units))
        channels = [f"{'MS'[k % 2]}1 {k + 1:03d}" for k in range(n_channels)]
        spikes = np.full((3, n_channels), empty, dtype=h5py.ref_dtype)
        for i, train in enumerate(trains_of(r)):  # one unit on each channel, then a second on the later ones
            place = (0, i) if i < n_channels else (1, i - n_channels + 1)
            spikes[place] = cell(train[None])
            names.append(f"{channels[place[1]]}/{place[0]}")
        file["spikes"] = spikes
        cells = [cell(np.array([[ord(c)] for c in name], np.uint16)) for name in channels]
        file["chan_names"] = np.array([cells], dtype=h5py.ref_dtype)
        file["t"] = r.behavior_times[None]
        file["cursor_pos"] = position.T
        x, y = position.T / 10
        file["finger_pos"] = np.stack((np.ones_like(x), -x, -y, 0 * x, 0 * x, 0 * x))
        file["target_pos"] = np.round(position.T, -1)
    with open(path, "r+b") as file:
        file.write(b"MATLAB 7.3 MAT-file".ljust(116) + bytes(8) + b"\x00\x02IM")
    return path, names


def write_phy(folder: Path, r: Recording, position: np.ndarray) -> tuple[Path, np.ndarray]:
    folder = folder / "phy"
    folder.mkdir()
    names = np.append([5, 7, 12], np.arange(101, 101 + r.n_units))[: r.n_units]
    samples = np.append(np.rint(r.spike_times * RATE), [1234, 2345])
    clusters = np.append(names[r.spike_units], [9, 9])  # 9: noise
    order = np.argsort(samples, kind="stable")
    np.save(folder / "spike_times.npy", samples[order].astype(np.uint64)[:, None])
    np.save(folder / "spike_clusters.npy", clusters[order].astype(np.int32))
    (folder / "params.py").write_text("dat_path = 'raw.dat'\nn_channels_dat = 384\nsample_rate = 30000.\nhp = False\n")
    (folder / "cluster_group.tsv").write_text("cluster_id\tgroup\n5\tgood\n9\tnoise\n12\tmua\n")
    (folder / "cluster_KSLabel.tsv").write_text("cluster_id\tKSLabel\n5\tgood\n7\tmua\n9\tmua\n12\tmua\n")
    table = np.column_stack((r.behavior_times, position))
    np.savetxt(folder / "tracking.csv", table, "%.17g", ",", header="time,cursor_pos_x,cursor_pos_y", comments="")
    rows = [f"{start},{stop},{'RF'[i % 2]}\n" for i, (start, stop) in enumerate(r.trials)]
    (folder / "trials.csv").write_text("".join(["start,stop,result\n", *rows]))
    return folder, names


def write_pynapple(folder: Path, r: Recording, position: np.ndarray) -> tuple[Path, np.ndarray]:
    """What `save` of pynapple 0.11 writes."""
    folder = folder / "pynapple"
    folder.mkdir()
    keys = np.append([2, 3, 8], np.arange(101, 101 + r.n_units))[: r.n_units]
    times = r.behavior_times
    spikes = {"t": r.spike_times, "index": keys[r.spike_units], "keys": keys}
    frame = {"t": times, "d": position, "columns": np.array(["x", "y"], dtype=object)}
    support = {"start": times[:1], "end": times[-1:], "_metadata": PICKLE}
    np.savez(folder / "spikes.npz", type=np.array(["TsGroup"]), **spikes, **support)
    np.savez(folder / "cursor_pos.npz", type=np.array(["TsdFrame"]), **frame, **support)
    np.savez(folder / "speed.npz", type=np.array(["Tsd"]), t=times, d=times, **support)
    start, end = r.trials.T
    np.savez(folder / "trials.npz", start=start, end=end, type=np.array(["IntervalSet"]), _metadata=PICKLE)
    return folder, keys


def write_brainsets(folder: Path, r: Recording, position: np.ndarray) -> tuple[Path, np.ndarray]:
    """What `Data.to_hdf5` of temporaldata 0.1.6 writes."""
    times, path = r.behavior_times, folder / "indy_20160915_01.h5"
    ids = np.array([f"u{i}" for i in range(r.n_units)], "S")

    def add(name: str, kind: str, **columns):
        group = file.create_group(name)
        for key, column in columns.items():
            group[key] = column
        group.attrs["object"] = kind
        return group

    with h5py.File(path, "w") as file:
        for name, columns in (
            ("spikes", {"timestamps": r.spike_times, "unit_index": r.spike_units}),
            ("cursor", {"timestamps": times, "pos": position, "acc": position * 0}),
        ):
            stamps = columns["timestamps"]
            indices = np.searchsorted(stamps, np.arange(times[-1] + 1))
            add(name, "IrregularTimeSeries", **columns, timestamp_indices_1s=indices)
            add(f"{name}/domain", "Interval", start=stamps[:1], end=stamps[-1:])
        step = times[1] - times[0]
        add("gaze", "RegularTimeSeries", angle=times[::2]).attrs["sampling_rate"] = 1 / (2 * step)
        add("gaze/domain", "Interval", start=times[:1], end=times[-1:] + step)
        areas = np.array(["M1", *["M1", "S1"] * len(ids)][: len(ids)], "S")
        add("units", "ArrayDict", id=ids, area=areas)
        start, end = r.trials.T
        results = np.array(["RF"[i % 2] for i in range(len(start))], "S")
        add("trials", "Interval", start=start, end=end, is_valid=np.arange(len(start)) % 2 == 0, result=results)
        add("domain", "Interval", start=times[:1], end=times[-1:])
        add("session", "Data").attrs["id"] = "indy_20160915_01"
        file.attrs.update({"object": "Data", "absolute_start": 0.0})
    return path, ids.astype(str)


def write_program(write: Callable, changes: dict, folder: Path, recording: Recording) -> Layout:
    """The recording with the position at 250 Hz and spikes on the clock of samples, in one of the layouts above."""
    r = sampled(recording, 4)
    trains = [np.unique(np.rint(train * RATE)) / RATE for train in trains_of(r)]
    r = Recording.from_trains(trains, r.behavior_times, r.behavior, trials=r.trials)
    path, names = write(folder, r, position_of(r))
    return Layout({}, replace(r, **{"unit_ids": names, "behavior_unit": "a.u./s"} | changes), path)


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


WRITERS: dict[str, Callable[[Path, Recording], Layout]] = {
    ".npz, our own format": write_own,
    ".mat, counts": write_counts,
    **{title: partial(nwb_files.write_layout, title) for title in nwb_files.WRITERS},
    "indy": partial(write_program, write_indy, {"trials": [], "behavior_unit": "mm/s"}),
    "phy": partial(write_program, write_phy, {}),
    "pynapple": partial(write_program, write_pynapple, {}),
    "brainsets": partial(write_program, write_brainsets, {}),
}
LAYOUTS = WRITERS | {f"converter: {title}": write for title, write in layouts.WRITERS.items()}
