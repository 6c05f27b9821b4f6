"""What a recording holds and what is odd about it, in a few lines, before anything is trained on it."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np

from ..errors import RecordingError, listed
from .quality import behavior_gaps, duplicated_units, firing_rates, silent_units, times_are_resolved
from .recording import Recording
from .split import elapsed, recorded_time

_UNIX_S = 1e8  # clocks that differ by more count from 1970 and from the start of a recording
_SAMPLE_RATES = (1e4, 2e4, 24_414.0625, 2.5e4, 3e4, 3.2e4, 4e4, 44_100.0)
_COMPARED = 200_000  # spikes in which duplicated units are looked for
_UNITS_OF_TIME = {1e3: "milliseconds", 1e6: "microseconds", 1e9: "nanoseconds"}
_UNITS_OF_TIME |= {rate: f"sample indices at {rate:,.0f} Hz" for rate in _SAMPLE_RATES}


def data_report(
    recording: Recording, bin_width_s: float = 0.05, parts: Mapping[str, np.ndarray] | None = None
) -> list[str]:
    """What is decoded and how it was sampled, trials, spikes, units: a line each, and what is odd, most as "warning: ".

    `parts` and RecordingError as in `check_decodable`. Of spikes alone, only the lines about them.
    """
    check_decodable(recording, parts)
    pieces = recorded_time(recording)
    lines = [*_behavior(recording, bin_width_s)] if len(recording.behavior_times) else []
    return [*lines, *_trials_and_spikes(recording, pieces), *_units(recording)]


def check_decodable(recording: Recording, parts: Mapping[str, np.ndarray] | None = None):
    """Raise RecordingError, with the likely cause, if no decoding can mean anything.

    Each of the `parts` of a split, start and stop in seconds (n, 2) by name, must have spikes.
    """
    if len(recording.spike_times) == 0:
        raise RecordingError("spike_times is empty: nothing can be decoded.")
    start, stop = recording.span
    if start == stop:
        raise RecordingError("spike_times are all the same: nothing can be decoded.")
    if len(recording.behavior_times):
        _check_clocks(recording)
        if (recording.behavior == recording.behavior[0]).all():
            n = recording.n_columns
            raise RecordingError(
                f"behavior is constant in all {n} columns: there is nothing to decode."
            )
    is_slow = len(recording.behavior_times) == 0 or recording.sample_interval > 0.5
    if is_slow and len(recording.spike_times) < recording.n_units * (stop - start) / 60:
        raise RecordingError(
            "times look like milliseconds or samples: units have less than a spike a minute."
        )
    for name, part in (parts or {}).items():
        if np.diff(np.searchsorted(recording.spike_times, part)).sum() == 0:
            empty = f"the {name} part, {part[0, 0]:.1f} to {part[-1, 1]:.1f} s, has no spike: {_extent(recording)}"
            raise RecordingError(
                f"{empty}. The recording of spikes was shorter, or has another clock."
            )


def _check_clocks(recording: Recording):
    """Raise RecordingError if spikes and behaviour hardly overlap in time."""
    first, last = recording.spike_times[[0, -1]]
    start, stop = recording.behavior_times[[0, -1]]
    inside = np.diff(np.searchsorted(recording.spike_times, (start, stop)))[0]
    share = inside / len(recording.spike_times)
    if share > 0.05 and min(stop, last) - max(start, first) > 0.05 * (stop - start):
        return
    ratio = max(last - first, 1e-9) / (stop - start)
    for field, factor in (("spike_times", ratio), ("behavior_times", 1 / ratio)):
        scale = min(_UNITS_OF_TIME, key=lambda unit: abs(np.log(unit / factor)))
        if 0.8 < factor / scale < 1.25:
            found = f"the span is {stop - start:,.0f} s, the last spike is at {last:,.0f}. Divide by {scale:,.10g}."
            raise RecordingError(f"{field} look like {_UNITS_OF_TIME[scale]}: {found}")
    if inside / recording.n_units >= 0.05 * (
        stop - start
    ):  # ordinary rates: a short part of a long session
        return
    offset = first - start
    cause = (
        f"spike_times have an offset of about {offset:,.1f} s"
        if inside == 0
        else "spike_times have another clock"
    )
    if abs(offset) > _UNIX_S:
        cause = f"{'spike_times' if offset > 0 else 'behavior_times'} look like Unix time"
    raise RecordingError(
        f"{cause}: {_extent(recording)}; {100 * share:.3g} % of the spikes are inside of that."
    )


def _behavior(recording: Recording, bin_width_s: float) -> Iterator[str]:
    names = recording.behavior_columns
    yield f"decoded: {recording.behavior_name} in {recording.behavior_unit}, {len(names)} columns: {listed(names)}"
    constant = np.ptp(recording.behavior, axis=0) == 0
    if constant.any():
        yield f"warning: {constant.sum()} of {len(names)} columns are constant: {listed(names[constant])}"
    times = recording.behavior_times
    interval = recording.sample_interval
    yield f"behaviour: {times[0]:.1f} to {times[-1]:.1f} s, {len(times):,} samples, {1 / interval:.4g} Hz"
    if interval > 1.01 * bin_width_s:
        yield f"warning: behaviour is sampled every {interval:.3g} s, more slowly than bins of {bin_width_s:g} s"
    gaps = behavior_gaps(recording)
    trials = recording.trials if len(recording.trials) else np.array([recording.span])
    lost = np.diff(elapsed(gaps, trials))[:, 0]
    lost[lost < 5 * interval] = 0  # at the edges of trials
    if lost.sum() > 0.001 * len(times) * interval:
        longest = f"the longest is {lost.max():.1f} s at {gaps[lost.argmax(), 0]:.1f} s"
        yield f"warning: gaps in behaviour: {(lost > 0).sum()}, {lost.sum():.1f} s in all; {longest}"
    changed = np.diff(recording.behavior, axis=0).any(axis=1) | (np.diff(times) > 1)
    first = np.flatnonzero(np.append(True, changed))  # of each run of equal samples
    frozen = times[np.append(first[1:], len(times)) - 1] - times[first]  # seconds without a change
    share = frozen[frozen > 1].sum() / (len(times) * interval)
    if frozen.max() > 5 or share > 0.05:
        longest = f"for up to {frozen.max():.1f} s, from {times[first[frozen.argmax()]]:.1f} s on"
        yield f"warning: behaviour does not change {longest}, {100 * share:.3g} % of the time: rest, or lost tracking"


def _trials_and_spikes(recording: Recording, pieces: np.ndarray) -> Iterator[str]:
    trials = recording.trials
    times = recording.spike_times
    if len(trials):
        lengths = np.diff(trials)[:, 0]
        yield f"trials: {len(trials)} of {lengths.min():.3g} to {lengths.max():.3g} s, {lengths.sum():.1f} s in all"
    else:
        yield f"trials: none; {np.diff(pieces).sum():.1f} s without pauses"
    n_spikes = np.diff(np.searchsorted(times, trials))[:, 0]
    silent = n_spikes == 0
    if silent.any() and n_spikes.mean() > 3:
        yield f"warning: {silent.sum()} of {len(trials)} trials have no spike, first at {trials[silent][0, 0]:.1f} s"
    start, stop = pieces[0, 0], pieces[-1, 1]
    inside = times[(times >= start) & (times <= stop)]
    line = f"spikes: {len(times):,}, {100 * len(inside) / len(times):.3g} % of them at {start:.1f} to {stop:.1f} s"
    yield f"warning: {line}: no behaviour for the others" if 2 * len(inside) < len(times) else line
    bounds = np.concatenate([[start], inside, [stop]])
    silence = (
        np.diff(elapsed(bounds, pieces)) / np.diff(pieces).sum()
    )  # shares of the recorded time
    i = silence.argmax()
    n = len(silence)
    if silence[i] > max(
        0.03, 3 * np.log(n + 1) / n
    ):  # the longest of n random intervals is about log(n) / n
        span = f"{bounds[i]:.1f} to {bounds[i + 1]:.1f} s"
        yield f"warning: no unit has a spike from {span}, {100 * silence[i]:.3g} % of the recorded time"


def _units(recording: Recording) -> Iterator[str]:
    names = recording.unit_ids
    yield f"units: {len(names)}, median rate {np.median(firing_rates(recording)):.3g} Hz"
    silent = silent_units(recording)
    if len(silent):
        warning = "warning: " if len(silent) > 0.1 * len(names) else ""
        yield f"{warning}{len(silent)} of {len(names)} units are silent (< 1 spike a minute): {listed(names[silent])}"
    # coincidences of all spikes would take long to count: those in the middle
    first = max(0, (len(recording.spike_times) - _COMPARED) // 2)
    spikes = {
        name: getattr(recording, name)[first : first + _COMPARED]
        for name in ("spike_times", "spike_units")
    }
    part = replace(
        recording, **spikes, behavior_times=[], behavior=recording.behavior[:0], trials=[]
    )
    pairs = duplicated_units(part) if times_are_resolved(part) else ()
    if len(pairs):
        same = listed([f"{names[a]} and {names[b]}" for a, b in pairs])
        yield f"warning: units with the same spikes, or many of them: {same}"


def _extent(recording: Recording) -> str:
    start, stop = recording.span
    first, last = recording.spike_times[[0, -1]]
    return (
        f"spikes are at {first:,.1f} to {last:,.1f} s, behaviour at {start:,.1f} to {stop:,.1f} s"
    )
