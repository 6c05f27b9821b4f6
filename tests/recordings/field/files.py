"""Files that a library cannot open, and text in other encodings."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path

import h5py
import numpy as np
import scipy.io
import scipy.sparse
from pynwb import NWBHDF5IO, NWBFile, TimeSeries

from possm_lite.recordings import Recording

from ..layout_files import write_pynapple
from ..layouts import in_bins, position_of, trains_of
from .case import FieldCase, whole

_LOCKED = []  # files that stay open until the tests end
_POINTER = "sha256:" + "4d7a" * 16
_KEY = "annex/objects/qF/8V/SHA256E-s12345678--4d7a.nwb"


def write_nwb(recording: Recording, path: Path) -> Path:
    """A good file of NWB."""
    file = NWBFile("reaches", "id", datetime(2021, 3, 4, tzinfo=timezone.utc), session_id="monday")
    for train in trains_of(recording):
        file.add_unit(spike_times=train)
    for start, stop in recording.trials:
        file.add_trial(start_time=start, stop_time=stop)
    hand = TimeSeries(name="hand_vel", data=recording.behavior, unit="mm/s", timestamps=recording.behavior_times)
    file.create_processing_module("behavior", "movement").add(hand)
    with NWBHDF5IO(str(path), "w") as io:
        io.write(file)
    return path


def locked(recording: Recording, folder: Path) -> Path:
    """Open for writing elsewhere: HDF5 locks a file so, also against its own process."""
    path = write_nwb(recording, folder / "monday.nwb")
    file = open(path, "rb")  # noqa: SIM115
    with suppress(ImportError):
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX)
    _LOCKED.append(file)
    return path


def crashed(recording: Recording, folder: Path) -> Path:
    """HDF5 marks a file that is written to in its new form; a program that crashes leaves the mark."""
    path = folder / "session.h5"
    code = "import h5py, os, sys; f = h5py.File(sys.argv[1], 'w', libver='latest'); f['a'] = 1; f.flush(); os._exit(0)"
    subprocess.run([sys.executable, "-c", code, str(path)], check=True)
    return path


def content(name: str, text: str | bytes) -> Callable[[Recording, Path], Path]:
    """A writer of a file with this content."""

    def write(recording: Recording, folder: Path) -> Path:
        path = folder / name
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return path

    return write


def link(target: str) -> Callable[[Recording, Path], Path]:
    """A writer of a link that leads to nothing."""

    def write(recording: Recording, folder: Path) -> Path:
        path = folder / "monday.nwb"
        os.symlink(target, path)
        return path

    return write


def truncated(recording: Recording, folder: Path) -> Path:
    path = write_nwb(recording, folder / "monday.nwb")
    path.write_bytes(path.read_bytes()[:-3000])
    return path


def compressed(recording: Recording, folder: Path) -> Path:
    """Spikes that say that they are compressed by a filter that is nowhere."""
    path = write_nwb(recording, folder / "monday.nwb")
    with h5py.File(path, "r+") as file:
        times = file["units/spike_times"][()]
        del file["units/spike_times"]
        plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        plist.set_chunk(times.shape)
        plist.set_filter(32768, h5py.h5z.FLAG_OPTIONAL, (1,))
        space = h5py.h5s.create_simple(times.shape)
        data = h5py.h5d.create(file["units"].id, b"spike_times", h5py.h5t.NATIVE_DOUBLE, space, plist)
        data.write_direct_chunk((0,), times.tobytes())
    return path


def linked_out(recording: Recording, folder: Path) -> Path:
    path = write_nwb(recording, folder / "monday.nwb")
    with h5py.File(path, "r+") as file:
        del file["units/spike_times"]
        file["units/spike_times"] = h5py.ExternalLink("sorted.h5", "/times")
    return path


def old_nwb(recording: Recording, folder: Path) -> Path:
    with h5py.File(folder / "alm.nwb", "w") as file:
        file["nwb_version"] = "NWB-1.0.6"
        file["processing/extracellular/UnitTimes/u0/times"] = recording.spike_times
    return folder / "alm.nwb"


def pickled(recording: Recording, folder: Path) -> Path:
    trains = np.array(trains_of(recording), dtype=object)
    np.savez(folder / "arrays.npz", spike_times=trains, spike_units=np.arange(len(trains)))
    return folder / "arrays.npz"


# MATLAB


def counts_of(recording: Recording) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Starts of bins of 50 ms (n,), counts (n, units), and velocity in m/s there, (n, 2)."""
    counts, _ = in_bins(recording, 0.05, *recording.span)
    return 0.05 * np.arange(len(counts)), counts, recording.behavior[::50][: len(counts)] / 1000


def from_counts(recording: Recording) -> Recording:
    starts, counts, velocity = counts_of(recording)
    return Recording.from_counts(counts, 0.05, velocity, behavior_times=starts, behavior_unit="m/s")


def mat_sparse(recording: Recording, folder: Path) -> Path:
    starts, counts, velocity = counts_of(recording)
    sparse = scipy.sparse.csc_matrix(counts.T.astype(float))
    data = {"time": starts[None], "spikes": sparse, "handVel": velocity.T}
    scipy.io.savemat(folder / "a.mat", data)
    return folder / "a.mat"


def mat_rows(recording: Recording, folder: Path) -> Path:
    """A row for each bin, as Python would have it."""
    starts, counts, velocity = counts_of(recording)
    scipy.io.savemat(folder / "a.mat", {"time": starts[:, None], "spikes": counts, "handVel": velocity})
    return folder / "a.mat"


def mat_csr(recording: Recording, folder: Path) -> Path:
    """Velocity is sparse, too."""
    starts, counts, velocity = counts_of(recording)
    sparse = {"spikes": scipy.sparse.csr_matrix(counts.T.astype(float)), "handVel": scipy.sparse.csc_matrix(velocity.T)}
    scipy.io.savemat(folder / "a.mat", {"time": starts[None], **sparse})
    return folder / "a.mat"


def own_hdf5(recording: Recording, folder: Path) -> Path:
    with h5py.File(folder / "own.h5", "w") as file:
        file["spike_times"], file["spike_units"] = recording.spike_times, recording.spike_units
    return folder / "own.h5"


def mat73(is_sparse: bool, names: tuple[str, ...] = ("time", "spikes", "handVel")):
    """A writer of the counts as `save -v7.3` writes them: HDF5, transposed, behind 512 bytes."""

    def write(recording: Recording, folder: Path) -> Path:
        starts, counts, velocity = counts_of(recording)
        path = folder / "a.mat"
        with h5py.File(path, "w", userblock_size=512) as file:
            file[names[0]], file[names[2]] = starts[:, None], velocity
            if is_sparse:
                sparse = scipy.sparse.csc_matrix(counts.T.astype(float))
                group = file.create_group(names[1])
                group.attrs["MATLAB_sparse"] = np.uint64(sparse.shape[0])
                group["data"] = sparse.data
                group["ir"] = sparse.indices.astype(np.uint64)
                group["jc"] = sparse.indptr.astype(np.uint64)
            else:
                file[names[1]] = counts.astype(np.uint8)
        with open(path, "r+b") as file:
            file.write(b"MATLAB 7.3 MAT-file".ljust(116) + bytes(8) + b"\x00\x02IM")
        return path

    return write


def mat_cells(recording: Recording, folder: Path) -> Path:
    starts, _, velocity = counts_of(recording)
    cells = np.empty((1, recording.n_units), dtype=object)
    cells[0] = trains_of(recording)
    scipy.io.savemat(folder / "a.mat", {"time": starts[None], "spikes": cells, "handVel": velocity.T})
    return folder / "a.mat"


def mat_struct(recording: Recording, folder: Path) -> Path:
    starts, counts, velocity = counts_of(recording)
    data = {"time": starts[None], "spikes": counts.T, "handVel": velocity.T}
    scipy.io.savemat(folder / "a.mat", {"session": data})
    return folder / "a.mat"


# Folders


def pynapple_folder(change: Callable[[Path, Recording], None]) -> Callable[[Recording, Path], Path]:
    """A writer of a folder of pynapple that is changed then."""

    def write(recording: Recording, folder: Path) -> Path:
        path, _ = write_pynapple(folder, recording, position_of(recording))
        (path / "speed.npz").unlink()
        change(path, recording)
        return path

    return write


def rewritten(path: Path, drop: tuple[str, ...]):
    """The file of an object without some of its arrays."""
    with np.load(path, allow_pickle=True) as file:
        arrays = {name: file[name] for name in file.files if name not in drop}
    np.savez(path, **arrays)


def of_old_pynapple(path: Path, recording: Recording):
    """Older versions of pynapple: no `keys`, and in the first releases no `type`."""
    for file in path.glob("*.npz"):
        rewritten(file, ("type", "keys", "_metadata"))


def with_more(path: Path, recording: Recording):
    """What else a session has: a second TsGroup, epochs, and results of other programs."""
    shutil.copy(path / "spikes.npz", path / "all_clusters.npz")
    for name in ("sleep", "wake_epochs"):
        np.savez(path / f"{name}.npz", start=[0.0], end=[9.0], type=np.array(["IntervalSet"]))
    np.savez(path / "figure.npz", axes=np.array([{"a": 1}], dtype=object))


def with_two_groups(path: Path, recording: Recording):
    shutil.copy(path / "spikes.npz", path / "probe_a.npz")
    (path / "spikes.npz").rename(path / "probe_b.npz")


def without_group(path: Path, recording: Recording):
    (path / "spikes.npz").unlink()


def without_trials(path: Path, recording: Recording):
    (path / "trials.npz").rename(path / "wake.npz")
    shutil.copy(path / "wake.npz", path / "sleep.npz")


def in_a_folder(recording: Recording, folder: Path) -> Path:
    """A folder with one recording, which is not of pynapple."""
    return mat_sparse(recording, folder).parent


def sorter_inside(recording: Recording, folder: Path) -> Path:
    (folder / "kilosort4").mkdir()
    np.save(folder / "kilosort4" / "spike_times.npy", np.arange(3))
    return folder


def zarr(recording: Recording, folder: Path) -> Path:
    (folder / "monday.nwb").mkdir()
    (folder / "monday.nwb" / ".zgroup").write_text("{}")
    return folder / "monday.nwb"


# Text


def chinese(recording: Recording, folder: Path) -> Path:
    """Names in Chinese, of the path with a blank, of the session, the columns and their unit."""
    path = folder / "周一 记录"
    path.mkdir()
    names = {"session_id": "猴子甲_周一", "behavior_name": "手速度", "behavior_columns": ("水平", "垂直")}
    replace(recording, **names, behavior_unit="毫米/s").save(path / "会话 1.npz")
    return path / "会话 1.npz"


CASES: list[FieldCase] = [
    FieldCase("nwb_locked", "h5py #1066, pynwb #1790", locked, "another program.*close it there"),
    FieldCase("h5_of_a_crash", "own variant", crashed, "not closed by the program.*h5clear"),
    FieldCase(
        "nwb_annex_lfs",
        "datalad #6973, datalad #3513",
        content("a.nwb", f"version https://git-lfs.github.com/spec/v1\noid {_POINTER}\nsize 12\n"),
        "pointer of Git LFS.*git lfs pull",
        silent="CONVERTERS|Error",
    ),
    FieldCase(
        "nwb_annex_unlocked",
        "datalad #6973, datalad #3513",
        content("a.nwb", f"/{_KEY}\n"),
        "pointer of git-annex or DataLad.*datalad get",
        silent="CONVERTERS|Error",
    ),
    FieldCase("nwb_annex_locked", "datalad #6973", link(f".git/{_KEY}"), "link of git-annex or DataLad.*datalad get"),
    FieldCase("nwb_broken_link", "datalad #6973", link("/mnt/usb/monday.nwb"), "link to /mnt/usb/monday.nwb, where no"),
    FieldCase("npz_empty", "an upload that ended", content("a.npz", b""), "is empty, 0 bytes"),
    FieldCase("nwb_web_page", "a download without a login", content("a.nwb", "<!DOCTYPE html>\n"), "is a web page"),
    FieldCase("mat_other_content", "scipy", content("a.mat", b"\xfe" * 4000), r"is not a \.mat file, though"),
    FieldCase("nwb_packed", "a download as it came", content("a.nwb.gz", b"\x1f\x8b"), r"is packed \(\.gz\): unpack"),
    FieldCase("nwb_truncated", "h5py", truncated, r"is incomplete, \d+ bytes of \d+: copy or download it again"),
    FieldCase("nwb_filter", "pynwb #1529, h5py #2294", compressed, "compressed by.*32768.*pip install hdf5plugin"),
    FieldCase("nwb_linked_out", "own variant", linked_out, "links to files that are not there: sorted.h5"),
    FieldCase("nwb_of_version_1", "own variant", old_nwb, "NWB-1.0.6: only NWB 2 is read"),
    FieldCase(
        "npz_pickled",
        "NumPy",
        pickled,
        "spike_times is no array of numbers but, .* a list of arrays, one for each unit: put all times into",
    ),
    FieldCase("mat_sparse", "mat7.3 #28, scipy #23594", mat_sparse, expected=from_counts),
    FieldCase("mat_rows_for_bins", "MATLAB", mat_rows, "a row for each bin, and was turned", expected=from_counts),
    FieldCase("mat_csr", "mat7.3 #28", mat_csr, expected=from_counts),
    FieldCase("h5_of_ones_own", "own variant", own_hdf5, "has no spikes and no units, as a file of brainsets"),
    FieldCase(
        "mat_lfs",
        "datalad #3513",
        content("a.mat", f"version https://git-lfs.github.com/spec/v1\noid {_POINTER}\n"),
        "git lfs pull",
    ),
    FieldCase("mat73_counts", "mat7.3 #28", mat73(False), expected=from_counts),
    FieldCase("mat73_sparse", "mat7.3 #28", mat73(True), expected=from_counts),
    FieldCase("mat_cells", "issue 50", mat_cells, r"spikes is a cell array, of spike times it seems: counts are"),
    FieldCase(
        "mat73_other",
        "mat7.3",
        mat73(False, ("t0", "n", "v")),
        "has no time and no spikes and no handVel, only n, t0, v; needed are time",
    ),
    FieldCase(
        "mat_struct",
        "scipy",
        mat_struct,
        r"has only session, a struct. In MATLAB: load it, then save\('new.mat', '-struct', 'session'\)",
    ),
    FieldCase("pynapple_old", "pynapple before 0.6", pynapple_folder(of_old_pynapple), expected=whole),
    FieldCase(
        "pynapple_with_more",
        "pynapple #53",
        pynapple_folder(with_more),
        "2 files of the kind TsGroup, all_clusters, spikes: spikes was used",
        expected=whole,
    ),
    FieldCase(
        "pynapple_two_groups",
        "pynapple",
        pynapple_folder(with_two_groups),
        "2 files of the kind TsGroup, probe_a, probe_b: call the one that is meant spikes.npz",
    ),
    FieldCase(
        "pynapple_without_trials",
        "pynapple",
        pynapple_folder(without_trials),
        "2 files of the kind IntervalSet, sleep, wake: none was used as trials",
        expected=lambda recording: replace(recording, trials=[]),
    ),
    FieldCase(
        "pynapple_without_spikes",
        "pynapple",
        pynapple_folder(without_group),
        r"has no TsGroup.*: cursor_pos \(TsdFrame\), trials \(IntervalSet\)",
        silent=r"\{|Error",
    ),
    FieldCase("folder_of_recordings", "a new user", in_a_folder, "is a folder; name the recording in it: a.mat"),
    FieldCase("folder_of_a_session", "SpikeInterface", sorter_inside, "files of phy in kilosort4: name that folder"),
    FieldCase("nwb_zarr", "neuroconv", zarr, "NWB in the form of Zarr, which is not read"),
    FieldCase("npz_chinese", "matplotlib #15062, PID-Analyzer #56", chinese, expected=whole),
]
