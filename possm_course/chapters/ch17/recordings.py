"""The recording of chapter 17: simulated, written as MC_Maze is, cut short, with faults to find."""

from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path

import numpy as np

from possm_lite.recordings import Recording, quality
from possm_lite.recordings.recording import covered_trials
from possm_lite.simulate import simulate_session
from possm_lite.simulate.neurons import SimulationConfig


def simulated() -> Recording:
    """The session of the chapter where there is no other: 240 trials, 80 units."""
    return simulate_session(16, SimulationConfig(n_trials=240, n_units=80)).recording


def write_nwb(recording: Recording, path: str | Path):
    """Writes spikes, behaviour as "hand_vel" and trials with pynwb.

    Units get the numbers that NWB calls them by.

    Args:
        recording: what is written.
        path: of the file.
    """
    from pynwb import NWBHDF5IO, NWBFile, TimeSeries

    when = datetime(1970, 1, 1, tzinfo=timezone.utc)  # NWB requires a date
    file = NWBFile(
        "Spikes and behaviour of possm-lite", "possm-lite", when, session_id=recording.session_id
    )
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


def beginning(recording: Recording, seconds: float, first: float = 0.0) -> Recording:
    """Some seconds of a recording, or all of it if it is no longer than that.

    Args:
        recording: it is not changed.
        seconds: how many, in s.
        first: where they begin, in s since the start.

    Returns:
        The new recording, with a note.
    """
    start, stop = recording.span
    if stop - start <= seconds:
        return recording
    low, high = start + first, start + first + seconds
    spikes = (low <= recording.spike_times) & (recording.spike_times < high)
    samples = (low <= recording.behavior_times) & (recording.behavior_times < high)
    trials = (recording.trials[:, 0] >= low) & (recording.trials[:, 1] < high)
    return replace(
        recording,
        spike_times=recording.spike_times[spikes],
        spike_units=recording.spike_units[spikes],
        behavior_times=recording.behavior_times[samples],
        behavior=recording.behavior[samples],
        trials=recording.trials[trials],
        notes=(*recording.notes, f"Cut to {seconds:.0f} of {stop - start:.0f} s."),
    )


def spoiled(recording: Recording) -> tuple[Recording, dict[str, int]]:
    """A copy of a recording with four faults.

    The spikes of one unit are counted to another; the first unit is silent; one unit is doubled,
    over what another recorded; 4 % of the behaviour are lost.

    Args:
        recording: it is not changed.

    Returns:
        The copy, and the units "merged", "silent", "doubled" and "its copy"; with fewer than four
        units that fire, none is doubled.
    """
    rng = np.random.default_rng(0)
    n_firing = len(np.unique(recording.spike_units))
    ranked = np.argsort(-quality.firing_rates(recording))[:n_firing]  # that fire, busiest first
    merged = ranked[0]
    silent = ranked[max(n_firing // 2, min(3, n_firing - 1))]
    times, units = recording.spike_times, recording.spike_units.copy()
    units[units == silent] = merged
    victims = {"merged": merged, "silent": silent}
    if n_firing > 3:
        doubled, copy = ranked[1:3]
        victims |= {"doubled": doubled, "its copy": copy}
        twice = times[units == doubled]
        twice = twice[rng.random(len(twice)) < 0.9]
        twice = twice + rng.normal(0, 0.0002, len(twice))
        times = np.concatenate([times[units != copy], twice])
        units = np.concatenate([units[units != copy], np.full(len(twice), copy)])
    order = np.argsort(times, kind="stable")

    first, last = recording.span
    after_middle = recording.behavior_times - first - 0.42 * (last - first)  # s
    lost = np.abs(after_middle) < 0.02 * (last - first)
    behavior_times = recording.behavior_times[~lost]
    broken = replace(
        recording,
        spike_times=times[order],
        spike_units=units[order],
        behavior_times=behavior_times,
        behavior=recording.behavior[~lost],
        trials=recording.trials[covered_trials(recording.trials, behavior_times)],
    )
    return broken, victims
