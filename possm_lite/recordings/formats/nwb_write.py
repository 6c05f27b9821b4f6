"""Writes a recording to an NWB file, in the layout that `possm_lite.recordings.formats.nwb` reads (MC_Maze, MC_RTT)."""

import uuid
import warnings
from datetime import datetime, timezone
from pathlib import Path

import numpy as np

from ...errors import prefix_errors
from ..arrays import atomic_write
from ..npz_format import regular_clock
from ..recording import Recording, is_number

_UNKNOWN_DATE = datetime(1970, 1, 1, tzinfo=timezone.utc)  # NWB requires one


def write_nwb(recording: Recording, path: str | Path, series: str = "hand_vel"):
    """Write a recording atomically to `path`. `load_recording` reads back all but notes and names.

    Of the names it keeps `session_id` and those of units that are whole numbers, NWB's ids; others are in the column
    `unit_name`. The behaviour, in processing/behavior, gets the name of the `series`; `obs_intervals` is all of the
    recording. Raises RecordingError if the file could not be written; a file that was at `path` is unchanged.
    """
    import pynwb

    file = pynwb.NWBFile(
        session_description="Spikes and behaviour, written by possm-lite.",
        identifier=str(uuid.uuid4()),
        session_start_time=_UNKNOWN_DATE,
        session_id=recording.session_id,
        notes="\n".join(recording.notes) or None,
    )
    clock = regular_clock(recording.behavior_times)  # gives the times bit for bit, or is None
    times = {"timestamps": recording.behavior_times} if clock is None else {"starting_time": clock[0], "rate": clock[1]}
    behavior = pynwb.TimeSeries(name=series, data=recording.behavior, unit=recording.behavior_unit, **times)
    file.create_processing_module("behavior", recording.behavior_name).add(behavior)
    for start, stop in recording.trials:
        file.add_trial(start_time=start, stop_time=stop)
    names = recording.unit_ids.tolist()
    numbered = all(is_number(name) for name in names)
    if not numbered:
        file.add_unit_column("unit_name", "what the laboratory calls the unit")
    times = np.concatenate((recording.spike_times, recording.behavior_times, recording.span))
    for i, name in enumerate(names):
        columns = {"id": int(name)} if numbered else {"id": i, "unit_name": name}
        spikes = recording.spike_times[recording.spike_units == i]
        file.add_unit(spike_times=spikes, obs_intervals=[[times.min(), times.max()]], **columns)
    # of a list, hdmf would convert each number by itself
    file.units["spike_times"].target.transform(lambda numbers: np.array(numbers))
    with prefix_errors(path), atomic_write(path) as partial, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about the suffix of the temporary name
        with pynwb.NWBHDF5IO(str(partial), "w") as io:
            io.write(file)
