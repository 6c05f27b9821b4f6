"""Recordings in NWB files, in the layout of the Neural Latents Benchmark (MC_Maze, MC_RTT: DANDI 000128, 129, 138-140).

* `units` with `spike_times`: all units, those marked `heldout` too. `obs_intervals` are not needed.
* `processing/behavior`, itself or a container in it such as `Position`: the first there is of `hand_vel`, `finger_vel`
  and `cursor_vel` is the velocity; else the first of `hand_pos`, `finger_pos` and `cursor_pos` is differentiated.
* `intervals/trials` with `start_time` and `stop_time`, if there are trials.
"""

from __future__ import annotations

import contextlib
import os
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from ...errors import RecordingError, wrap_errors
from ..arrays import read_dataset
from ..recording import Recording, check_trial_order, covered_trials, shown
from .nwb_behavior import read_behavior

_NO_CACHE = "PYNWB_NO_CACHE_DIR"
# What pynwb cannot open it leaves out, with this warning: without its trials a recording would seem to have had none.
_READ = ("units", "intervals/trials", "processing/behavior", "general/session_id", "general/subject")
_BROKEN = f"Path to Group altered/broken at /({'|'.join(_READ)}|(intervals|processing|general)$)"
_ROUNDING = 1e-6  # s: trials that overlap by less touch, and were rounded


def read_nwb(path: Path, behavior: str | None = None) -> Recording:
    """The recording in an NWB file of the layout above.

    Args:
        path: the file.
        behavior: a series in processing/behavior, as "hand_vel" or "Position/hand_pos", instead of the first choice.
            It is taken for a velocity, unless its name ends in "_pos" or "position" or, with a name that does not end
            in "_vel" or "velocity", it is an NWB SpatialSeries: those are positions, and differentiated.

    Raises:
        RecordingError: without the name of the file, for `load_recording` to put in front.
    """
    with _opened(path) as file:
        spike_times, spike_units, unit_ids = _read_units(file)
        times, velocity, unit, notes = read_behavior(file, behavior)
        trials, trial_notes = _read_trials(file, times)
        return Recording(
            spike_times=spike_times,
            spike_units=spike_units,
            unit_ids=unit_ids,
            behavior_times=times,
            velocity=velocity,
            velocity_unit=unit,
            trials=trials,
            session_id=_session_name(file),
            notes=(*notes, *trial_notes),
        )


@contextlib.contextmanager
def _opened(path: Path) -> Iterator:
    """The NWB file, closed at the end."""
    pynwb = import_pynwb()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about versions of the format, mostly; what we need is checked
        warnings.filterwarnings("error", _BROKEN)
        with wrap_errors("is damaged or no NWB file"):
            io = pynwb.NWBHDF5IO(str(path), "r")
        try:
            with wrap_errors("is damaged or no NWB file"):
                file = io.read()
            yield file
        finally:
            with wrap_errors("cannot be closed"):
                io.close()


def import_pynwb():
    """The module pynwb, kept from the pickle of its types that it would leave in the user's cache, and read ever after.

    Raises:
        RecordingError: it is not installed. Without the name of the file.
    """
    before = os.environ.get(_NO_CACHE)
    os.environ[_NO_CACHE] = "1"
    try:
        import pynwb
    except ImportError as trouble:
        raise RecordingError("NWB files need pynwb: pip install possm-lite[recordings]") from trouble
    finally:
        if before is None:
            del os.environ[_NO_CACHE]
        else:
            os.environ[_NO_CACHE] = before
    return pynwb


def _session_name(file) -> str:
    """The subject and the session, as the names of sessions repeat from one to the next; else the file's identifier."""
    if not file.session_id:
        return str(file.identifier)
    subject = file.subject.subject_id if file.subject else None
    return f"{subject}_{file.session_id}" if subject else str(file.session_id)


def _read_units(file) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Spike times in seconds, sorted, and their units, both (N,); the names of the units (U,)."""
    if file.units is None or "spike_times" not in file.units.colnames:
        raise RecordingError("units/spike_times is missing.")
    column = file.units["spike_times"]
    if not hasattr(column, "target"):
        raise RecordingError("units/spike_times_index is missing: which spike is whose?")
    times = read_dataset(column.target.data, "units/spike_times", finite=True)
    ends = read_dataset(column.data, "units/spike_times_index", kinds="iu")
    unit_ids = read_dataset(file.units.id.data, "units/id", kinds="iu")
    counts = np.diff(ends, prepend=0)
    if times.ndim != 1 or ends.shape != unit_ids.shape or counts.min(initial=0) < 0 or counts.sum() != times.size:
        raise RecordingError(
            f"units/spike_times_index must share out {times.size} spike times among {unit_ids.size} units: "
            f"it has {ends.size} entries, the last is {ends[-1] if ends.size else 'none'}."
        )
    order = np.argsort(times, kind="stable")
    return times[order], np.repeat(np.arange(len(counts)), counts)[order], unit_ids.astype(str)


def _read_trials(file, behavior_times: np.ndarray) -> tuple[np.ndarray, list[str]]:
    """Start and stop in seconds of the trials that behaviour covers, (n, 2), and what had to be decided."""
    trials = _trial_table(file)
    if len(trials) == 0:
        return trials, ["There are no trials in intervals/trials."]
    notes = _end_where_next_starts(trials)
    check_trial_order(trials)
    covered = covered_trials(trials, behavior_times)
    if not covered.any():
        raise RecordingError(
            f"intervals/trials: behaviour, {shown(behavior_times[0], 3)} to {shown(behavior_times[-1], 3)}, covers "
            f"none of the {len(trials)} trials, {shown(trials[0, 0], 3)} to {shown(trials[-1, 1], 3)}."
        )
    if not covered.all():
        notes.append(f"{(~covered).sum()} of {len(trials)} trials that behaviour does not cover were left out.")
    return trials[covered], notes


def _trial_table(file) -> np.ndarray:
    """All trials of the file, (n, 2)."""
    if file.trials is None:
        _check_that_there_are_none(file.container_source)
        return np.empty((0, 2))
    with wrap_errors("intervals/trials cannot be read"):
        columns = [file.trials[name].data for name in ("start_time", "stop_time")]
    start = read_dataset(columns[0], "intervals/trials/start_time", finite=True)
    stop = read_dataset(columns[1], "intervals/trials/stop_time", finite=True)
    if start.ndim != 1 or start.shape != stop.shape:
        raise RecordingError(f"intervals/trials has start_time of shape {start.shape}, stop_time of {stop.shape}.")
    return np.stack((start, stop), axis=1)


def _check_that_there_are_none(path: str):
    """pynwb passes over, without a word, what stands in the place of trials and is no table."""
    import h5py

    with wrap_errors("intervals cannot be read"), h5py.File(path, "r") as file:
        intervals = file.get("intervals", {})
        there = not isinstance(intervals, dict | h5py.Group) or "trials" in intervals
    if there:
        raise RecordingError("intervals/trials is there, but is no table of trials.")


def _end_where_next_starts(trials: np.ndarray) -> list[str]:
    """Mend, in place, trials that touch and overlap by a rounding; a note if there are any."""
    overlap = trials[:-1, 1] - trials[1:, 0]
    rounded = np.flatnonzero((overlap > 0) & (overlap < _ROUNDING))
    trials[rounded, 1] = trials[rounded + 1, 0]
    note = f"{len(rounded)} trials that ran less than a microsecond into the next one end where it starts."
    return [note] if len(rounded) else []
