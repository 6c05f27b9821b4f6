"""The form of the lecture notes: a list of trials, each with its bins of spikes and of velocity."""

from collections.abc import Iterable, Mapping

import numpy as np

from ..errors import RecordingError, prefix_errors, wrap_errors

_PAUSE_BINS = 19  # between trials: nothing is known of the time there


def from_notes(trials: Iterable[Mapping], bin_width_s: float) -> tuple[dict, list, list, list]:
    """Trains by unit, times and rows of behaviour, and trials, for `Recording.from_lecture_notes`. Times in seconds."""
    trains, times, behavior, intervals = {}, [], [], []
    first = 0  # bin of the trial, counted through the session
    with prefix_errors("trials"), wrap_errors("have another form"):
        for trial in trials:
            for b, (pairs, samples) in enumerate(zip(trial["spikes"], trial["vel"], strict=True), first):
                for unit, time in pairs if np.ndim(pairs) else ():
                    if not -1e-6 <= time / bin_width_s <= 1 + 1e-6:
                        raise RecordingError(f"time {time} s is not within a bin of {bin_width_s} s.")
                    trains.setdefault(unit, []).append(b * bin_width_s + time)
                times += [(b + j / len(samples)) * bin_width_s for j in range(len(samples))]
                behavior += list(samples)
            stop = first + len(trial["spikes"])
            intervals.append((first * bin_width_s, stop * bin_width_s))
            first = stop + _PAUSE_BINS
        return dict(sorted(trains.items())), times, behavior, intervals


def to_notes(recording, bin_width_s: float) -> list[dict]:
    """The trials of `Recording.to_lecture_notes`."""
    units = recording.unit_ids[recording.spike_units].tolist()
    notes = []
    for trial_id, (start, stop) in enumerate(recording.trials):
        edges = start + bin_width_s * np.arange(int((stop - start) / bin_width_s + 1e-6) + 1)
        s = np.searchsorted(recording.spike_times, edges - 1e-6 * bin_width_s)
        v = np.searchsorted(recording.behavior_times, edges - 1e-6 * bin_width_s)
        spikes, vel = [], []
        for i, edge in enumerate(edges[:-1]):
            offsets = np.maximum(recording.spike_times[s[i] : s[i + 1]] - edge, 0.0)
            spikes.append(list(zip(units[s[i] : s[i + 1]], offsets.tolist(), strict=True)) or 0)
            times = recording.behavior_times[v[i] : v[i + 1]]
            evenly = edge + bin_width_s * np.arange(len(times)) / max(len(times), 1)
            if (np.abs(times - evenly) > 1.01 * recording.sample_interval).any():
                raise RecordingError(f"behavior_times has a gap in trial {trial_id}, from {edge:.6f} s on: drop it.")
            vel.append(recording.behavior[v[i] : v[i + 1]].tolist())
        if spikes:
            notes.append({"trial_id": trial_id, "spikes": spikes, "vel": vel})
    return notes
