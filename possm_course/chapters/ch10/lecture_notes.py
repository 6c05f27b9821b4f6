"""A recording in the form of the lecture notes (chapter 10), and back, as in CONVERTERS.md."""

import numpy as np

from possm_lite.recordings import Recording, RecordingError

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
        trials: in the form of `to_notes`; `vel` may also be one array of samples for the whole
            trial, (samples, C), evenly spaced from its start.
        bin_width_s: width of a bin in s.
        fields: further fields of `Recording`.

    Returns:
        The recording.

    Raises:
        RecordingError: times of spikes that are not seconds in their bin, with the factor, or
            samples of velocity that do not fit the bins.
    """
    _check_pairs(trials)
    _check_offsets(trials, bin_width_s)
    trains, times, behavior, intervals = {}, [], [], []
    first = 0  # bin of the trial, counted through the session
    velocities, per_bin = _velocity_in_bins(trials)
    for trial, velocity in zip(trials, velocities, strict=True):
        for b, (pairs, samples) in enumerate(zip(trial["spikes"], velocity, strict=True), first):
            for unit, time in _pairs(pairs):
                trains.setdefault(unit, []).append(b * bin_width_s + time)
            n = per_bin or len(samples)
            times += [(b + j / n) * bin_width_s for j in range(len(samples))]
            behavior += list(samples)
        stop = first + len(trial["spikes"])
        last = stop - 1 + len(samples) / n  # the array of a trial may end within its last bin
        intervals.append((first * bin_width_s, last * bin_width_s))
        first = stop + PAUSE_BINS
    return Recording.from_trains(
        dict(sorted(trains.items())), times, behavior, trials=intervals, **fields
    )


def _pairs(spikes) -> list:
    """The spikes of a bin, (unit, time) each; none for 0."""
    return [] if np.ndim(spikes) == 0 else spikes


def _check_pairs(trials: list[dict]):
    """RecordingError unless the spikes of each bin are pairs of a unit and a time, or 0.

    From lecture notes of others: a matrix of counts, (bins, units).
    """
    for trial in trials:
        for b, pairs in enumerate(trial["spikes"]):
            is_none = np.ndim(pairs) == 0 and not pairs
            is_pairs = not is_none and np.ndim(pairs) == 2 and np.shape(pairs)[1] == 2
            if not (is_none or is_pairs or np.shape(pairs) == (0,)):
                raise RecordingError(
                    f"spikes of bin {b} have shape {np.shape(pairs)}; each bin has a list of "
                    "(unit, time), or 0. Of counts, (bins, units), Recording.from_counts makes a "
                    "recording."
                )


def _check_offsets(trials: list[dict], bin_width_s: float):
    """RecordingError unless each spike has a time in its bin, from 0 up to its width, in s.

    From the lecture notes: offsets in whole milliseconds, 0 to 49, put spikes up to 49 s late.
    """
    offsets, bins = [], []
    for trial in trials:
        for b, pairs in enumerate(trial["spikes"]):
            offsets += [time for _, time in _pairs(pairs)]
            bins += [b] * len(_pairs(pairs))
    offsets = np.array(offsets, dtype=np.float64)
    starts = bin_width_s * np.array(bins)
    width = bin_width_s * (1 + 1e-6)
    if len(offsets) == 0 or (offsets.min() >= 0 and offsets.max() <= width):
        return
    found = f"times of spikes in their bin run from {offsets.min():g} to {offsets.max():g}"
    since_bin = offsets - starts
    if since_bin.min() >= -1e-6 and since_bin.max() <= width:
        raise RecordingError(
            f"{found}: they are counted from the start of the trial. "
            f"Subtract the start of the bin, {bin_width_s:g} s times its number."
        )
    for unit, factor in (("milliseconds", 1e3), ("samples at 30,000 Hz", 3e4), ("µs", 1e6)):
        # a bin that is full of spikes has one in its second half
        if offsets.min() >= 0 and 0.5 < offsets.max() / (factor * bin_width_s) <= 1 + 1e-6:
            raise RecordingError(
                f"{found}, a bin has {bin_width_s:g} s: they are {unit}. Divide them by "
                f"{factor:,.0f}."
            )
    raise RecordingError(
        f"{found}; they must be seconds from the start of the bin, from 0 to {bin_width_s:g}."
    )


def _velocity_in_bins(trials: list[dict]) -> tuple[list[list], int | None]:
    """The samples of each bin of each trial, from both forms of `vel`, and how many a bin has.

    Lecture notes have a list of bins, each as long as it is (None), or one array for a trial. Such
    an array may differ from the bins of its trial by less than a bin: what is after them is left
    out, and the last bin may have fewer samples.
    """
    if not trials or not all(_is_one_array(trial["vel"]) for trial in trials):
        return [trial["vel"] for trial in trials], None
    n_samples = np.array([len(trial["vel"]) for trial in trials])
    n_bins = np.array([len(trial["spikes"]) for trial in trials])
    per_bin = n_samples / np.maximum(n_bins, 1)
    for k in (int(np.floor(per_bin.min() + 1e-9)), int(np.ceil(per_bin.max() - 1e-9))):
        if k and (abs(n_samples - k * n_bins) < k).all():
            bins = [
                [trial["vel"][k * b : k * b + k] for b in range(n)]
                for trial, n in zip(trials, n_bins.tolist(), strict=True)
            ]
            return bins, k
    n_columns = np.array([np.shape(trial["vel"])[1] for trial in trials])
    if (n_samples < 10).all() and (n_columns >= n_bins).all():
        raise RecordingError(
            f"vel has shape {np.shape(trials[0]['vel'])}, {n_samples[0]} samples of "
            f"{n_columns[0]} columns: it is transposed. Turn it, so that each sample has a row."
        )
    worst = int(np.argmax(abs(per_bin - np.median(per_bin))))
    raise RecordingError(
        f"vel must have as many samples in each bin: trials have {per_bin.min():.3g} to "
        f"{per_bin.max():.3g} a bin; trial {worst} has {n_samples[worst]} samples and "
        f"{n_bins[worst]} bins."
    )


def _is_one_array(velocity) -> bool:
    """Whether the first entry of `vel` is one sample, (C,), and not the samples of a bin."""
    return len(velocity) > 0 and np.ndim(velocity[0]) == 1
