"""A recording in the form of the lecture notes (chapter 10), and back, as in CONVERTERS.md."""

import numpy as np

from possm_lite.recordings import Recording

PAUSE_BINS = 19  # between trials: nothing is known of the time there


def to_notes(recording: Recording, bin_width_s: float = 0.05) -> list[dict]:
    """The trials of a recording in the form of the lecture notes, in whole bins.

    Args:
        recording: what is written down.
        bin_width_s: width of a bin in s.

    Returns:
        A `{"trial_id": ..., "spikes": [bin, ...], "vel": [bin, ...]}` for each trial. A bin of
        `spikes` is a list of (unit, seconds in the bin), or 0; one of `vel` is a list of samples
        (samples, C), evenly spaced.
    """
    units = recording.unit_ids[recording.spike_units].tolist()
    notes = []
    for trial_id, (start, stop) in enumerate(recording.trials):
        n_bins = int((stop - start) / bin_width_s + 1e-6)
        edges = start + bin_width_s * np.arange(n_bins + 1)
        s = np.searchsorted(recording.spike_times, edges - 1e-6 * bin_width_s)
        v = np.searchsorted(recording.behavior_times, edges - 1e-6 * bin_width_s)
        spikes, vel = [], []
        for i, edge in enumerate(edges[:-1]):
            within = slice(s[i], s[i + 1])
            offsets = np.maximum(recording.spike_times[within] - edge, 0.0).tolist()
            spikes.append(list(zip(units[within], offsets, strict=True)) or 0)
            vel.append(recording.behavior[v[i] : v[i + 1]].tolist())
        notes.append({"trial_id": trial_id, "spikes": spikes, "vel": vel})
    return notes


def from_notes(trials: list[dict], bin_width_s: float = 0.05, **fields) -> Recording:
    """The recording that lecture notes describe, its trials one after the other with pauses.

    Args:
        trials: in the form of `to_notes`.
        bin_width_s: width of a bin in s.
        fields: further fields of `Recording`.

    Returns:
        The recording.
    """
    trains, times, behavior, intervals = {}, [], [], []
    first = 0  # bin of the trial, counted through the session
    for trial in trials:
        for b, (pairs, samples) in enumerate(
            zip(trial["spikes"], trial["vel"], strict=True), first
        ):
            for unit, time in pairs or ():
                trains.setdefault(unit, []).append(b * bin_width_s + time)
            times += [(b + j / len(samples)) * bin_width_s for j in range(len(samples))]
            behavior += list(samples)
        stop = first + len(trial["spikes"])
        intervals.append((first * bin_width_s, stop * bin_width_s))
        first = stop + PAUSE_BINS
    return Recording.from_trains(
        dict(sorted(trains.items())), times, behavior, trials=intervals, **fields
    )
