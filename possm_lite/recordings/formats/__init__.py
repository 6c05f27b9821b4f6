"""Recordings from files: our own `.npz`, MATLAB, NWB and others.

A file goes one way, each step in a module of its own:

1. `find_format` and `READERS`, here: which function reads the file.
2. `folders`, `hdf5`, `mat`, `nwb`: what is in it, as `Contents`, and what is special to one format,
   such as the labels of a sorter.
3. `assemble`: the same for all formats. `select_units` and `select_trials` apply filters
   (`filters`), sort and mend; `select_behavior` finds the series that is decoded (`series_names`,
   `join_series`), reads it (`load_series`, where a position becomes a velocity) and leaves out
   rows. Each choice and repair is a note of the recording.
4. `Recording` checks what comes out, and `data_report` says what is odd about it.
"""

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from functools import partial
from pathlib import Path

import numpy as np

from ...errors import RecordingError, listed, locate_guide, prefix_errors, wrap_errors
from .. import tracking
from ..arrays import from_arrays, load_npz
from ..labels import is_text
from ..recording import Recording
from .assemble import assemble
from .contents import Contents, Selection, columns_of_trials, contents_of, series_in_memory
from .explain import check_content, explain, refuse_old_nwb
from .folders import read_phy, read_pynapple
from .hdf5 import read_brainsets
from .mat import read_mat, read_mat73
from .nwb import read_nwb

__all__ = ["load_recording"]


def read_npz(path: Path) -> Contents:
    """What is in an `.npz` file.

    Args:
        path: a file of `Recording.save`, or one of another source with arrays under the same names:
            `spike_times`, `spike_units` and, unless it has spikes alone, `behavior_times` and
            `behavior`. Defaults of the others are those of `from_arrays` and `Recording`.

    Returns:
        The recording; as columns of trials the arrays called `trials_...` and, of another source,
        any array as long as the trials; as series those of another source that have times, such as
        choice and choice_times, and `behavior` where it holds labels.

    Raises:
        RecordingError: an array is missing or cannot be used. Without the path.
    """
    arrays = load_npz(path)
    n_trials = len(np.atleast_1d(arrays.get("trials", ())))
    prefix = "trials_"
    named = {name: array for name, array in arrays.items() if name.startswith(prefix)}
    columns = columns_of_trials(named, n_trials)
    lost = [name for name in named if name not in columns]
    columns = {name.removeprefix(prefix): array for name, array in columns.items()}
    series = []
    if "format" not in arrays:
        own = {field.name for field in fields(Recording)} | named.keys()
        others = {name: array for name, array in arrays.items() if name not in own}
        timed = {name for name in others if f"{name}_times" in others}
        series = [series_in_memory(name, others[f"{name}_times"], others[name]) for name in timed]
        columns |= columns_of_trials({n: a for n, a in others.items() if n not in timed}, n_trials)
        used = {*timed, *[f"{name}_times" for name in timed], *columns}
        lost += [name for name in others if name not in used | {"behavior_clock"}]
        arrays = {name: array for name, array in arrays.items() if name not in used}
    if lost and n_trials:
        raise RecordingError(
            f"{listed(lost)}: an array beside a recording must be as long as the trials, "
            f"{n_trials} values, or have times, as choice and choice_times."
        )
    values = from_arrays(arrays, path.stem)
    labels = None
    if "format" not in arrays and _are_labels(values):
        times, labels = values.pop("behavior_times"), values.pop("behavior")
    found = contents_of(Recording(**values), columns)
    if labels is not None:
        series.append(series_in_memory(found.default[0], times, labels))
        found = found._replace(recording=None)
    return found._replace(series=[*found.series, *series])


def _are_labels(values: Mapping) -> bool:
    """Whether the behaviour among the fields of a recording holds labels at each time."""
    behavior, times = values.get("behavior", ()), values.get("behavior_times", ())
    if not len(behavior) or np.size(behavior) != len(behavior) or len(times) != len(behavior):
        return False
    found = behavior if is_text(behavior) else tracking.labels(times, behavior.ravel())
    return len(found) > 0 and (is_text(behavior) or (found % 1 == 0).all())


# Each reads a path to what it found there. To add a format, add its function here, and in
# `find_format` how it is recognised if not by the suffix. Any exception of a reader becomes one
# line that names file, format and cause.
READERS: dict[str, Callable[[Path], Contents | Recording]] = {
    ".npz": read_npz,
    ".mat": read_mat,
    ".mat v7.3": read_mat73,
    ".nwb": read_nwb,
    ".h5": read_brainsets,
    ".hdf5": read_brainsets,
    "folder of phy": read_phy,
    "folder of pynapple": read_pynapple,
}


def find_format(path: Path) -> str:
    """The key of `READERS` for a file or folder.

    Args:
        path: the file or folder.

    Raises:
        FileFormatError: there is no such file, or its format is not read. Without the path.
    """
    if path.is_dir():
        return _folder_format(path)
    check_content(path)
    kind = path.suffix.lower() or "file without a suffix"
    if kind == ".mat" and _is_hdf5(path):
        kind = ".mat v7.3"
    if kind == ".nwb":
        refuse_old_nwb(path)
    if kind not in READERS:
        if any(path.parent.glob("spike_*.npy")):
            raise RecordingError("is one file of a folder of phy or Kilosort: name the folder.")
        raise RecordingError(
            f"is a {kind}, which is not read. Read are NWB, folders of phy, Kilosort or pynapple, "
            ".mat of counts, .h5 of brainsets and .npz; from others: CONVERTERS.md."
        )
    return kind


def _folder_format(path: Path) -> str:
    """The key of `READERS` for a folder.

    RecordingError names what to open instead: recordings in it, or the folder of the sorter.
    neuroconv and DANDI offer NWB as Zarr, a folder of many files.
    """
    if any(path.glob("spike_*.npy")):
        return "folder of phy"
    if any((path / name).exists() for name in (".zgroup", ".zattrs", "zarr.json")):
        raise RecordingError(
            "is NWB in the form of Zarr, which is not read: export it as NWB in the form of HDF5, "
            "which is one file."
        )
    if inside := sorted(file.parent.name for file in path.glob("*/spike_times.npy")):
        raise RecordingError(f"has the files of phy in {listed(inside)}: name that folder.")
    if any(path.glob("*.npz")):
        return "folder of pynapple"
    recordings = sorted(file.name for file in path.iterdir() if file.suffix.lower() in READERS)
    if recordings:
        raise RecordingError(f"is a folder; name the recording in it: {listed(recordings)}.")
    raise RecordingError(
        "is a folder without spike_times.npy of phy or Kilosort and without files of pynapple. "
        "What is read: CONVERTERS.md."
    )


def _is_hdf5(path: Path) -> bool:
    """Whether a `.mat` file is of version 7.3, which is HDF5."""
    with open(path, "rb") as file:
        file.seek(512)  # MATLAB puts as many bytes before HDF5
        return file.read(4) == b"\x89HDF"


def load_recording(
    path: str | Path,
    behavior: str | Sequence[str] | None = None,
    columns: Sequence[str] = (),
    units: str = "",
    trials: str = "",
    spikes_only: bool = False,
) -> Recording:
    """The recording in a file or folder.

    Read are `.npz`, `.mat`, `.nwb`, `.h5` of brainsets, folders of phy and of pynapple's `.npz`
    files; CONVERTERS.md says what each holds. An `.npz` written by `Recording.save` gives the same
    recording. What was chosen, left out or mended is in the notes of the recording.

        recording = load_recording("monday.nwb", "hand_pos", units="quality == 'good'")

    Args:
        path: the file or folder.
        behavior: the series to decode, by name or that of its container; several are decoded side
            by side. Default: a velocity of hand, finger or cursor. Of a position the velocity is
            taken; "hand_pos:raw" is the position. Labels, such as a choice, are decoded as classes,
            at each time or of each trial; so are numbers by "state:class".
        columns: of these series, by name or by number from 0. Default: all.
        units: a filter such as "quality == 'good' and rate > 1", of the columns of the file's table
            of units, `id` and `rate` in Hz; comparisons are joined by and, or, not.
        trials: a filter such as "result == 'R'", with `start`, `stop` and `duration` in seconds.
        spikes_only: behaviour is not read and need not be there.

    Raises:
        RecordingError: the file cannot be used. One line: the file, the field, the value.
    """
    path = Path(path)
    selection = Selection(behavior, columns, units, trials, spikes_only)
    with prefix_errors(path), locate_guide():
        kind = find_format(path)
        with wrap_errors(partial(explain, path=path, kind=kind)):
            with contextlib.suppress(ImportError):  # pynwb #1529: it registers its filters
                import hdf5plugin
            return assemble(READERS[kind](path), selection)
