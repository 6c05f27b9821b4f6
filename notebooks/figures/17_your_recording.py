"""A recording as an NWB file in the layout of MC_Maze, for chapter 17 without one of your own."""

from datetime import datetime, timezone
from pathlib import Path

import numpy as np

from possm_lite.recordings import Recording


def write_nwb(recording: Recording, path: str | Path):
    """Write spikes, behaviour as "hand_vel" and trials with pynwb; units get the numbers that NWB calls them by."""
    from pynwb import NWBHDF5IO, NWBFile, TimeSeries

    when = datetime(1970, 1, 1, tzinfo=timezone.utc)  # NWB requires a date
    file = NWBFile("Spikes and behaviour of possm-lite", "possm-lite", when, session_id=recording.session_id)
    times, unit = recording.behavior_times, recording.behavior_unit
    hand = TimeSeries(name="hand_vel", data=recording.behavior, unit=unit, timestamps=times)
    file.create_processing_module("behavior", recording.behavior_name).add(hand)
    for start, stop in recording.trials:
        file.add_trial(start_time=start, stop_time=stop)
    for i in range(recording.n_units):
        file.add_unit(spike_times=recording.spike_times[recording.spike_units == i], id=i)
    # of a list, hdmf would convert each number by itself
    file.units["spike_times"].target.transform(lambda numbers: np.array(numbers))
    with NWBHDF5IO(str(path), "w") as io:
        io.write(file)
