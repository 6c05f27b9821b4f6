"""What a recording holds and what is odd about it, in a few lines, before training.

`check_decodable` refuses a recording of which no decoding can mean anything; `data_report` has a
line for what is merely odd. A new rule is a function of its own: `_check_...`, which raises, or one
that yields a line, "warning: " first, beside those of behaviour, trials, spikes or units.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np

from ..errors import RecordingError, as_option, listed
from .arrays import AS_SAVED
from .clocks import check_unit_of_time
from .quality import behavior_gaps, duplicated_units, firing_rates, silent_units, times_are_resolved
from .recording import Recording
from .split import elapsed, recorded_time
from .tracking import bad_frames, labels, lost_samples, wrapping_period

_UNIX_S = 1e8  # clocks that differ by more count from 1970 and from the start of a recording
_COMPARED = 200_000  # spikes in which duplicated units are looked for


def data_report(
    recording: Recording, bin_width_s: float = 0.05, parts: Mapping[str, np.ndarray] | None = None
) -> list[str]:
    """What is decoded and how it was sampled, trials, spikes and units of a recording.

    Args:
        recording: the session; one of spikes alone gets the lines about them.
        bin_width_s: of the bins that it will be decoded in, seconds.
        parts: of a split, as in `check_decodable`.

    Returns:
        A line for each, and for what is odd; most of the latter begin with "warning: ".

    Raises:
        RecordingError: as `check_decodable`.
    """
    check_decodable(recording, parts)
    pieces = recorded_time(recording)
    lines: list[str] = []
    if len(recording.behavior_times):
        lines += _columns(recording)
        lines += _sampling(recording, bin_width_s)
        lines += _gaps(recording)
        if len(recording.classes):
            lines += _classes(recording, parts or {})
        else:
            lines += _rest(recording)
            lines += _labels(recording)
            lines += _jumps(recording, pieces)
    lines += _trials(recording, pieces)
    lines += _spikes(recording, pieces)
    lines += _silence(recording, pieces)
    lines += _units(recording)
    lines += _duplicates(recording)
    return lines


def note_lines(recording: Recording) -> list[str]:
    """The notes of a recording as lines; one that is a warning says so itself."""
    return [note if note.startswith("warning: ") else f"note: {note}" for note in recording.notes]


def check_decodable(recording: Recording, parts: Mapping[str, np.ndarray] | None = None):
    """Refuse a recording of which no decoding can mean anything.

    Args:
        recording: the session.
        parts: start and stop in seconds, (n, 2), of the parts of a split by name; each must have
            spikes.

    Raises:
        RecordingError: with the likely cause.
    """
    if len(recording.spike_times) == 0:
        raise RecordingError("spike_times is empty: nothing can be decoded.")
    start, stop = recording.span
    if recording.spike_times[0] == recording.spike_times[-1]:
        raise RecordingError("spike_times are all the same: nothing can be decoded.")
    if len(recording.behavior_times):
        _check_clocks(recording)
        if (recording.behavior == recording.behavior[0]).all():
            if len(recording.classes):
                only = recording.classes[int(recording.behavior[0, 0])]
                raise RecordingError(f"behavior has one class alone, {only}.")
            n = recording.n_columns
            raise RecordingError(
                f"behavior is constant in all {n} columns: there is nothing to decode."
            )
    is_slow = len(recording.behavior_times) == 0 or recording.sample_interval > 0.5
    if is_slow and len(recording.spike_times) < recording.n_units * (stop - start) / 60:
        raise RecordingError(
            "times look like milliseconds or samples: units have less than a spike a minute. "
            "Divide all times, those of spikes, behaviour and trials, by 1,000 or by the sampling "
            "rate."
        )
    for name, part in (parts or {}).items():
        _check_part(recording, name, part)


def _check_clocks(recording: Recording):
    """Raise RecordingError if spikes and behaviour hardly overlap in time.

    KiloSort #77, open-ephys/plugin-GUI #548: spikes count from the recording, behaviour from when
    the acquisition or the computer began.
    """
    first, last = recording.spike_times[[0, -1]]
    start, stop = recording.behavior_times[[0, -1]]
    inside = np.diff(np.searchsorted(recording.spike_times, (start, stop)))[0]
    share = inside / len(recording.spike_times)
    overlap = min(stop, last) - max(start, first)
    if share > 0.05 and overlap > 0.05 * (stop - start):
        return
    check_unit_of_time(recording.spike_times, recording.n_units, recording.behavior_times)
    # ordinary rates: a short part of a long session
    if inside / recording.n_units >= 0.05 * (stop - start):
        return
    offset = first - start
    cause = "two clocks"
    if abs(offset) > _UNIX_S:
        cause = f"{'spike_times' if offset > 0 else 'behavior_times'} look like Unix time"
    spans = (
        f"spikes are at {first:,.1f} to {last:,.1f} s, behaviour at {start:,.1f} to {stop:,.1f} s"
    )
    raise RecordingError(f"{spans}: {cause}. {align_remedy(offset, 'spike_times')}")


def align_remedy(offset: float, what: str) -> str:
    """How two clocks are put on one, in a sentence.

    Args:
        offset: by how much the first time of one is later than that of the other, seconds.
        what: the times that are later.
    """
    how = f"subtract {offset:,.1f} s from" if offset > 0 else f"add {-offset:,.1f} s to"
    return f"Align them by a sync pulse; if both began together, {how} {what}."


def _check_part(recording: Recording, name: str, part: np.ndarray):
    """Raise RecordingError if a part of a split, (n, 2) s, has no spike."""
    if np.diff(np.searchsorted(recording.spike_times, part)).sum():
        return
    raise RecordingError(
        f"the {name} part, {part[0, 0]:.1f} to {part[-1, 1]:.1f} s, has no spike: "
        f"{_extent(recording)}. The recording of spikes was shorter, or has another clock."
    )


def _extent(recording: Recording) -> str:
    """When spikes and behaviour begin and end, for messages."""
    start, stop = recording.span
    first, last = recording.spike_times[[0, -1]]
    return (
        f"spikes are at {first:,.1f} to {last:,.1f} s, behaviour at {start:,.1f} to {stop:,.1f} s"
    )


def _columns(recording: Recording) -> Iterator[str]:
    """What is decoded, and its columns that are constant."""
    names = recording.behavior_columns
    if len(recording.classes):
        yield f"decoded: {recording.behavior_name}, {len(recording.classes)} classes"
        return
    how = " as saved (not differentiated)" if recording.behavior_name == AS_SAVED else ""
    yield (
        f"decoded: {recording.behavior_name} in {recording.behavior_unit}{how}, "
        f"{len(names)} column{'s' * (len(names) > 1)}: {listed(names)}"
    )
    constant = np.ptp(recording.behavior, axis=0) == 0
    if constant.any():
        yield (
            f"warning: {constant.sum()} of {len(names)} columns are constant: "
            f"{listed(names[constant])}"
        )


def _sampling(recording: Recording, bin_width_s: float) -> Iterator[str]:
    """When and how often behaviour was sampled."""
    times = recording.behavior_times
    interval = recording.sample_interval
    yield (
        f"behaviour: {times[0]:.1f} to {times[-1]:.1f} s, {len(times):,} samples, "
        f"{1 / interval:.4g} Hz"
    )
    if interval > 1.01 * bin_width_s:
        yield (
            f"warning: behaviour is sampled every {interval:.3g} s, "
            f"more slowly than bins of {bin_width_s:g} s"
        )


def _gaps(recording: Recording) -> Iterator[str]:
    """Gaps in behaviour within trials, if they add up to a thousandth of the time."""
    interval = recording.sample_interval
    gaps = behavior_gaps(recording)
    trials = recording.trials if len(recording.trials) else np.array([recording.span])
    lost = np.diff(elapsed(gaps, trials))[:, 0]  # seconds of each gap
    lost[lost < 5 * interval] = 0  # at the edges of trials
    if lost.sum() > 0.001 * len(recording.behavior_times) * interval:
        yield (
            f"warning: gaps in behaviour: {(lost > 0).sum()}, {lost.sum():.1f} s in all; "
            f"the longest is {lost.max():.1f} s at {gaps[lost.argmax(), 0]:.1f} s"
        )


def _classes(recording: Recording, parts: Mapping[str, np.ndarray]) -> Iterator[str]:
    """How often each class is there, and those that a part of the split (by name) lacks.

    Counted are trials, where each has one label, else samples.
    """
    whole = recording.trials if len(recording.trials) else np.array([[-np.inf, np.inf]])
    per_trial = _count_classes(recording, whole)
    are_of_trials = len(whole) > 1 and ((per_trial > 0).sum(1) <= 1).all()
    what = "trials" if are_of_trials else "samples"
    counts = ((per_trial > 0) if are_of_trials else per_trial).sum(0)
    pairs = zip(recording.classes.tolist(), counts.tolist(), strict=True)
    shown = [f"{name} {n:,}" for name, n in pairs]
    yield f"classes, {what} of each: {', '.join(shown)[:600]}"
    found = {name: _count_classes(recording, part).sum(0) > 0 for name, part in parts.items()}
    for name, is_there in found.items():
        if not is_there.all():
            missing = listed(recording.classes[~is_there].tolist())
            then = " and cannot be decoded" if name == "train" else ""
            then = " and are left out of its balanced accuracy" if name == "test" else then
            yield f"warning: classes that the {name} part lacks{then}: {missing}"


def _count_classes(recording: Recording, intervals: np.ndarray) -> np.ndarray:
    """Samples of each of K classes in each interval, (n, 2) s, (n, K)."""
    ranges = np.searchsorted(recording.behavior_times, intervals - 1e-6)
    label = recording.behavior[:, 0].astype(int)
    n = len(recording.classes)
    return np.array([np.bincount(label[a:b], minlength=n) for a, b in ranges]).reshape(-1, n)


def _rest(recording: Recording) -> Iterator[str]:
    """Time in which behaviour does not change, if it is long and it holds more than labels.

    Stands for trackers that repeat the last position when they lose it, where others write (0, 0)
    (neuroconv #524).
    """
    if any("as labels do" in note for note in recording.notes):
        return
    times = recording.behavior_times
    changed = np.diff(times) > 1
    for column in recording.behavior.T:  # of few columns faster than by any
        changed |= np.diff(column) != 0
    first = np.flatnonzero(np.append(True, changed))  # of each run of equal samples
    last = np.append(first[1:], len(times)) - 1
    frozen = times[last] - times[first]  # seconds without a change
    share = frozen[frozen > 1].sum() / (len(times) * recording.sample_interval)
    if frozen.max() > 5 or share > 0.05:
        yield (
            f"warning: behaviour does not change for up to {frozen.max():.1f} s, "
            f"from {times[first[frozen.argmax()]]:.1f} s on, "
            f"{100 * share:.3g} % of the time: rest, or lost tracking"
        )


def _labels(recording: Recording) -> Iterator[str]:
    """Columns of a few values that repeat: choices, directions, states.

    Issue 50: R² 0.575 was reported of class labels -1 to 7.
    """
    as_classes = ""
    if recording.n_columns == 1:
        option = as_option("behavior", f"{recording.behavior_name}:class")
        as_classes = f" As classes: {option}."
    for name, column in zip(recording.behavior_columns, recording.behavior.T, strict=True):
        values = labels(recording.behavior_times, column)
        if len(values):
            if list(recording.behavior_columns) == ["x"]:  # by default, for want of a name
                name = recording.behavior_name
            yield (
                f"warning: {name} holds only {len(values)} values "
                f"({listed([f'{value:g}' for value in values])}), as labels do. They are decoded "
                f"as they are, as amounts; R² says little of them.{as_classes}"
            )


def _jumps(recording: Recording, pieces: np.ndarray) -> Iterator[str]:
    """Behaviour that jumps where no movement does: lost tracking, angles that wrap, bad frames.

    From reports: neuroconv #524, nwbinspector #233.
    """
    behavior = recording.behavior
    lost, value = lost_samples(behavior)
    if lost.any():
        yield (
            f"warning: behaviour jumps to {value} and back, {lost.sum()} of {len(lost)} samples: "
            "tracking was probably lost there; delete these samples and their times (gaps are "
            "allowed)"
        )
    first = np.searchsorted(pieces[:, 0], recording.behavior_times, side="right") - 1
    is_recorded = (first >= 0) & (recording.behavior_times < pieces[first, 1])
    behavior = behavior[is_recorded & ~lost]
    times = recording.behavior_times[is_recorded & ~lost]
    for name, column in zip(recording.behavior_columns, behavior.T, strict=True):
        period = wrapping_period(column)
        if period and len(labels(times, column)):
            continue  # directions in radians are named as labels
        if period:
            yield (
                f"warning: {name} is an angle that wraps at {period:.4g}, and no decoder follows "
                "the jumps: save its sine and cosine, or its speed, in its place"
            )
        elif n := bad_frames(column):
            yield (
                f"warning: {name} jumps in {n} of {len(column)} samples, which hold half of its "
                "variance: bad frames of the tracking, a reset, or a track that begins again; "
                "delete these samples and their times (gaps are allowed)"
            )


def _trials(recording: Recording, pieces: np.ndarray) -> Iterator[str]:
    """How many trials, how long, and those without a spike."""
    trials = recording.trials
    if len(trials):
        lengths = np.diff(trials)[:, 0]
        yield (
            f"trials: {len(trials)} of {lengths.min():.3g} to {lengths.max():.3g} s, "
            f"{lengths.sum():.1f} s in all"
        )
    else:
        yield f"trials: none; {np.diff(pieces).sum():.1f} s without pauses"
    n_spikes = np.diff(np.searchsorted(recording.spike_times, trials))[:, 0]
    silent = n_spikes == 0
    if silent.any() and n_spikes.mean() > 3:
        yield (
            f"warning: {silent.sum()} of {len(trials)} trials have no spike, "
            f"first at {trials[silent][0, 0]:.1f} s"
        )


def _spikes(recording: Recording, pieces: np.ndarray) -> Iterator[str]:
    """How many spikes, and whether most of them are at times of behaviour."""
    times = recording.spike_times
    start, stop = pieces[0, 0], pieces[-1, 1]
    inside = ((times >= start) & (times <= stop)).sum()
    percent = 100 * inside / len(times)
    line = f"spikes: {len(times):,}, {percent:.3g} % of them at {start:.1f} to {stop:.1f} s"
    if 2 * inside < len(times):
        line = f"warning: {line}: no behaviour for the others"
    yield line
    if len(times) > 20 and (times == np.floor(times)).all():
        yield (
            "warning: all spikes are at whole seconds: they were probably saved as whole numbers; "
            "export them again with their decimals"
        )


def _silence(recording: Recording, pieces: np.ndarray) -> Iterator[str]:
    """Times in which no unit has a spike, all that are longer than a second and than chance.

    From reports: spikes that are valid in some epochs alone (pynapple #53).
    """
    times = recording.spike_times
    start, stop = pieces[0, 0], pieces[-1, 1]
    inside = times[(times >= start) & (times <= stop)]
    bounds = np.concatenate([[start], inside, [stop]])
    silence = np.diff(elapsed(bounds, pieces))  # seconds of recorded time
    recorded = np.diff(pieces).sum()
    n = len(silence)
    # the longest of n random intervals is about log(n) / n
    holes = np.flatnonzero(silence > max(1.0, 3 * np.log(n + 1) / n * recorded))
    if not len(holes):
        return
    spans = [f"{bounds[i]:.1f} to {bounds[i + 1]:.1f} s" for i in holes]
    yield (
        f"warning: no unit has a spike from {listed(spans)}, "
        f"{100 * silence[holes].sum() / recorded:.3g} % of the recorded time{_offset(recording)}"
    )


def _offset(recording: Recording) -> str:
    """A question, to go on a line, if behaviour begins and ends as much later than the spikes."""
    if len(recording.behavior_times) == 0:
        return ""
    (first, last), (start, stop) = recording.spike_times[[0, -1]], recording.behavior_times[[0, -1]]
    offset = (start - first + stop - last) / 2
    if abs(offset) < 1 or abs((start - first) - (stop - last)) > 0.1 * abs(offset):
        return ""
    how = "late" if offset > 0 else "early"
    return (
        f"; spikes are at {first:.1f} to {last:.1f} s, behaviour at {start:.1f} to {stop:.1f} s: "
        f"is behaviour {abs(offset):.1f} s {how} on the clock of the spikes?"
    )


def _units(recording: Recording) -> Iterator[str]:
    """How many units, how fast, and those that are silent."""
    names = recording.unit_ids
    yield f"units: {len(names)}, median rate {np.median(firing_rates(recording)):.3g} Hz"
    silent = silent_units(recording)
    if len(silent):
        warning = "warning: " if len(silent) > 0.1 * len(names) else ""
        yield (
            f"{warning}{len(silent)} of {len(names)} units are silent (< 1 spike a minute): "
            f"{listed(names[silent])}"
        )


def _duplicates(recording: Recording) -> Iterator[str]:
    """Units with the same spikes, among the spikes in the middle of the recording.

    Stands for one neuron in two clusters, and for a table of units that was joined to itself.
    """
    # coincidences of all spikes would take long to count
    first = max(0, (len(recording.spike_times) - _COMPARED) // 2)
    middle = slice(first, first + _COMPARED)
    part = replace(
        recording,
        spike_times=recording.spike_times[middle],
        spike_units=recording.spike_units[middle],
        behavior_times=[],
        behavior=recording.behavior[:0],
        trials=[],
    )
    duplicates = duplicated_units(part) if times_are_resolved(part) else _equal_units(part)
    names = recording.unit_ids
    pairs = [f"{names[a]} and {names[b]}" for a, b in duplicates]
    if pairs:
        yield f"warning: units with the same spikes, or many of them: {listed(pairs)}"


def _equal_units(recording: Recording) -> list[tuple[int, int]]:
    """Pairs of units with exactly the same spikes, ten or more: all that can be said of counts."""
    units_of: dict[bytes, list[int]] = {}
    for unit in range(recording.n_units):
        times = recording.spike_times[recording.spike_units == unit]
        if len(times) >= 10:
            units_of.setdefault(times.tobytes(), []).append(unit)
    return [(units[0], other) for units in units_of.values() for other in units[1:]]
