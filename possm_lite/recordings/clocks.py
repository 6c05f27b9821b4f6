"""Clocks that restart, spikes at times that are not possible, and times in another unit than s.

* AllenSDK #1349: -1 stands for an invalid spike. Kilosort #645: samples below 0, cast to unsigned
  integers, are 1.8e19. Such times are alone, far from the others.
* python-neo #1755 (Blackrock): the clock was reset, once or several times; nwbinspector #394: that
  of one unit alone. Sorting would lay the blocks over each other.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from ..errors import RecordingError, listed

_FAR = 3  # far: so many times the extent of the middle half away from it
_SLOTS = 20  # of the time around a spike in which others are looked for
_FEW_SLOTS = 4  # of them have spikes around one that is alone
_SPARSE = 0.2  # of the usual number of spikes is around one that is alone
_LOOK = 4000  # times that a quick look takes
_FEWEST = 20  # different times, below which nothing is far
_STEP_BACK = 0.01  # of the span: shorter steps back are jitter
_UNSORTED = 0.25  # share of steps back from which times are in no order at all
_SAMPLE_RATES = (1e4, 2e4, 24_414.0625, 2.5e4, 3e4, 3.2e4, 4e4, 44_100.0)
UNITS_OF_TIME = {1e3: "milliseconds", 1e6: "microseconds", 1e9: "nanoseconds"}
UNITS_OF_TIME |= {rate: f"sample indices at {rate:,.0f} Hz" for rate in _SAMPLE_RATES}


def impossible_times(times: np.ndarray) -> np.ndarray:
    """Which spikes have no time, or one that is not possible.

    Args:
        times: of all spikes, seconds, in any order, (N,).

    Returns:
        True for NaN, infinity and the times of `isolated_times`, (N,), bool.
    """
    impossible = ~np.isfinite(times)
    if not impossible.any() and not _reaches_far(times):
        return impossible
    valid = np.flatnonzero(~impossible)
    order = valid[np.argsort(times[valid], kind="stable")]
    impossible[order] = isolated_times(times[order])
    return impossible


def padding(times: np.ndarray, units: np.ndarray) -> np.ndarray:
    """Spikes at exactly 0 s of which a unit has several: an array was filled up with zeros.

    MATLAB: a matrix with a row for each unit is as long as the busiest one, and zeros fill the
    other rows. None are found where other times repeat as often, as rounded times do.

    Args:
        times: of all spikes, seconds, in any order, (N,).
        units: index of the unit of each, from 0, (N,).

    Returns:
        True for each such spike, (N,), bool.
    """
    is_zero = times == 0
    if np.count_nonzero(is_zero) < 2:
        return np.zeros(len(times), dtype=bool)
    n_zeros = np.bincount(units[is_zero], minlength=units.max() + 1)
    is_padding = is_zero & (n_zeros[units] > 1)
    order = np.lexsort((times, units))
    is_repeat = (np.diff(times[order]) == 0) & (np.diff(units[order]) == 0)
    n_others = np.count_nonzero(is_repeat & ~is_zero[order[1:]])
    return is_padding if np.count_nonzero(is_padding) > n_others else np.zeros_like(is_padding)


@np.errstate(over="ignore", invalid="ignore")  # times may be as large as numbers are
def isolated_times(times: np.ndarray) -> np.ndarray:
    """Which spikes are before zero or far from the others, and have hardly another around them.

    A block of spikes that is as dense as the others is never left out, wherever it is: recordings
    may begin before zero, and go on the next day. Several spikes at one time count as one, so that
    a value such as -1 may be there a thousand times.

    Args:
        times: of all spikes, seconds, sorted and finite, (N,).

    Returns:
        True for each such spike, (N,), bool.
    """
    nothing = np.zeros(len(times), dtype=bool)
    if not _reaches_far(times):
        return nothing
    distinct = times[np.append(True, np.diff(times) > 0)]
    first, last = _usual(distinct)
    extent = last - first
    if len(distinct) < _FEWEST or extent <= 0:
        return nothing
    low, high = min(0.0, first - _FAR * extent), last + _FAR * extent
    is_far = (distinct < low) | (distinct > high) | ((distinct < 0) & (first >= 0))
    rate = len(distinct) / 2 / extent  # of different times, Hz
    alone = distinct[is_far][_are_alone(distinct, distinct[is_far], rate)]
    return np.isin(times, alone)


def _reaches_far(times: np.ndarray) -> bool:
    """Whether times, (N,) s in any order, go below zero or far beyond their middle half.

    A quick look at a part of them, so that an hour of spikes need not be sorted for it.
    """
    if len(times) < _FEWEST:
        return False
    part = np.sort(times[:: max(1, len(times) // _LOOK)])
    first, last = _usual(part)
    extent = last - first
    highest = times.max()
    # also where a value that is not possible is there so often that it is in the middle half
    is_beyond = highest > last + _FAR * extent or highest - last < 1e-3 * extent
    return times.min() < 0 or is_beyond


def _usual(times: np.ndarray) -> tuple[float, float]:
    """First and last time, s, of the middle half of sorted times, (N,)."""
    return times[len(times) // 4], times[3 * len(times) // 4]


def _are_alone(distinct: np.ndarray, far: np.ndarray, rate: float) -> np.ndarray:
    """Which of some times, (n,) s, have hardly another time around them, (n,) bool.

    Args:
        distinct: all different times, seconds, sorted, (N,).
        far: those asked about, of them.
        rate: how many of them there usually are, Hz.
    """
    width = max(1.0, _SLOTS / rate)  # s, in which as many spikes are usual as there are slots
    n_near = _number_within(distinct, far, width / 2)
    slots = np.unique(np.floor(distinct / (width / _SLOTS)))
    n_slots = _number_within(slots, np.floor(far / (width / _SLOTS)), _SLOTS / 2)
    alone = (n_near < _SPARSE * rate * width) | (n_slots < _FEW_SLOTS)
    # AllenSDK #1349: -1, also in a recording of so few spikes that the first ones are around it
    is_code = (far < 0) & (far == np.floor(far))
    before_zero = distinct[distinct < 0]
    alone |= is_code & (_number_within(before_zero, far, width / 2) < _FEW_SLOTS)
    # the first and last ones of a dense block are no worse than the others
    block = np.cumsum(np.diff(far, prepend=far[:1]) > width)
    share = np.bincount(block, alone) / np.maximum(np.bincount(block), 1)
    return share[block] > 0.5


def _number_within(values: np.ndarray, centers: np.ndarray, distance: float) -> np.ndarray:
    """How many of the sorted values, (N,), are within a distance of each center, (n,)."""
    first = np.searchsorted(values, centers - distance, "left")
    stop = np.searchsorted(values, centers + distance, "right")
    return stop - first


def note_impossible(
    impossible: np.ndarray, times: np.ndarray, units: np.ndarray, names: Sequence[str]
) -> list[str]:
    """A note for spikes that are left out because they have no time, or none that is possible.

    Args:
        impossible: of `impossible_times`, (N,).
        times: of all spikes, seconds, (N,).
        units: index in `names` of each spike, (N,).
        names: of the units, (U,).
    """
    notes = []
    missing = ~np.isfinite(times)
    if missing.any():
        of_units = _units(names, np.unique(units[missing]))
        notes.append(
            f"{missing.sum()} of {len(times)} spikes without a time were left out, of {of_units}."
        )
    is_padding = impossible & (times == 0)
    if is_padding.any():
        notes.append(
            f"{is_padding.sum()} of {len(times)} spikes at 0 s, where units have several, were "
            "left out: they only fill an array."
        )
    is_far = impossible & ~missing & ~is_padding
    if is_far.any():
        of_units = _units(names, np.unique(units[is_far]))
        notes.append(
            f"{is_far.sum()} of {len(times)} spikes without a possible time were left out: "
            f"{_extent(times[is_far])}, {_why(times[is_far])}, of {of_units}."
        )
    return notes


def _extent(times: np.ndarray) -> str:
    """The times, (n,) s, in a few words: "at -1 s" or "at 300 to 2e+06 s"."""
    first, last = (f"{time:.6g}" for time in (times.min(), times.max()))
    return f"at {first} s" if first == last else f"at {first} to {last} s"


def _why(times: np.ndarray) -> str:
    """Why the times, (n,) s, are not possible."""
    return "which stands for no time" if (times == -1).all() else "far from the others"


def find_restarts(times: np.ndarray) -> np.ndarray:
    """Where a clock begins again.

    It goes back by 1 % of the span or more, by at least half of what it had advanced since it last
    began, and stays below for three times. Where a quarter of all steps go back, or most of those
    steps back are no restarts, the times are merely in no order.

    Args:
        times: seconds, in the order in which they were recorded, (N,).

    Returns:
        Index of the first time of each block but the first, (n,).
    """
    steps = np.diff(times)
    back = 1 + np.flatnonzero(steps < -_STEP_BACK * np.ptp(times)) if len(steps) else steps[:0]
    if np.count_nonzero(steps < 0) > _UNSORTED * len(steps):
        return np.empty(0, dtype=int)
    restarts: list[int] = []
    begin = 0
    for i in back.astype(int):
        peak = times[i - 1]
        begins_again = peak - times[i] >= 0.5 * (peak - times[begin])
        following = times[i : i + 3]
        if begins_again and len(following) == 3 and (following < peak).all():
            restarts.append(i)
            begin = i
    is_clock = 2 * len(restarts) >= len(back)
    return np.array(restarts if is_clock else [], dtype=int)


def restarted(name: str, n_restarts: int, seconds: float) -> str:
    """What happened to a clock that restarts, and what to do, in a sentence.

    Args:
        name: of its times.
        n_restarts: how often.
        seconds: the last time before it first restarts.
    """
    often = f"{n_restarts} times, first" if n_restarts > 1 else "once,"
    n = n_restarts + 1
    return (
        f"the clock of {name.removeprefix('times of ')} restarts {often} after {seconds:.1f} s: "
        f"export each of the {n} blocks as a file of its own and train on all: possm-lite decode "
        "BLOCK_1 BLOCK_2 ..."
    )


def check_trains(times: np.ndarray, units: np.ndarray, names: Sequence[str]) -> list[str]:
    """Raise RecordingError if the clock of the spikes restarts, or that of a few units.

    Not of a unit whose blocks each go on until the others end: it was merged of several, one after
    the other (phy and MATLAB append), and sorting is right.

    Args:
        times: of the spikes, seconds, those of each unit in the order of the file, (N,).
        units: index in `names` of each spike, (N,).
        names: of the units, (U,).

    Returns:
        A note of merged units, if there are any.

    Raises:
        RecordingError: with the number of blocks, or the names of the units.
    """
    if not (np.diff(times) < 0).any():
        return []
    by_unit, unit = times, units
    if (np.diff(units) < 0).any():
        order = np.argsort(units, kind="stable")
        by_unit, unit = times[order], units[order]
    is_back = (np.diff(by_unit) < 0) & (np.diff(unit) == 0)
    if not is_back.any():
        return []
    n_restarts = np.zeros(len(names), dtype=int)
    last = np.full(len(names), np.nan)  # s, before the clock of the unit first restarts
    ends: dict[int, np.ndarray] = {}  # s, the last time of each block of a unit that restarts
    for u in np.unique(unit[1:][is_back]):
        start, stop = np.searchsorted(unit, [u, u + 1])
        restarts = find_restarts(by_unit[start:stop])
        n_restarts[u] = len(restarts)
        if len(restarts):
            last[u] = by_unit[start + restarts[0] - 1]
            ends[u] = np.append(by_unit[start + restarts - 1], by_unit[stop - 1])
    bad = np.flatnonzero(n_restarts)
    if len(bad) == 0:
        return []
    if 2 * len(bad) <= len(names) and (merged := _merged(ends, by_unit, ~np.isin(unit, bad))):
        if len(merged) == len(bad):
            return [
                f"The spikes of {_units(names, merged)} came in several blocks that each last as "
                "long as the recording, as of units that were merged: they were sorted."
            ]
        bad = np.setdiff1d(bad, merged)
    n_spikes = np.bincount(units, minlength=len(names))
    seconds = last[bad[n_spikes[bad].argmax()]]
    n_firing = np.count_nonzero(n_spikes > 3)  # of fewer spikes no restart is known
    if 2 * len(bad) > n_firing:
        # a unit without spikes in a block has fewer; one that has more is odd
        n = int(np.quantile(n_restarts[bad], 0.9, method="higher"))
        raise RecordingError(restarted("spike_times", n, seconds))
    raise RecordingError(
        f"spike_times of {_units(names, bad)} restart after {seconds:.1f} s, those of the other "
        f"{n_firing - len(bad)} units do not. {_leave_out(names, bad)}"
    )


def _merged(ends: Mapping[int, np.ndarray], times: np.ndarray, is_other: np.ndarray) -> list[int]:
    """The units each of whose blocks goes on until about the end of the others.

    Args:
        ends: the last time of each block, seconds, by unit.
        times: of all spikes, seconds, (N,).
        is_other: True for those of units that do not restart, (N,), bool.
    """
    if not is_other.any():
        return []
    first, last = times[is_other].min(), times[is_other].max()
    return [u for u, stops in ends.items() if (stops > first + 0.9 * (last - first)).all()]


def check_possible(
    impossible: np.ndarray, times: np.ndarray, units: np.ndarray, names: Sequence[str]
):
    """Raise RecordingError for a unit most of whose spikes are at many impossible times.

    Such a unit has another clock or unit of time than the others; the few of its spikes that seem
    possible are no better.

    Args:
        impossible: of `impossible_times`, (N,).
        times: of the spikes, seconds, (N,).
        units: index in `names` of each spike, (N,).
        names: of the units, (U,).
    """
    is_far = impossible & np.isfinite(times)
    n_far = np.bincount(units[is_far], minlength=len(names))
    n_all = np.bincount(units, minlength=len(names))
    suspects = np.flatnonzero((2 * n_far > n_all) & (n_far >= _FEWEST))
    bad = [u for u in suspects if len(np.unique(times[is_far & (units == u)])) >= _FEWEST]
    if not bad:
        return
    own = times[is_far & np.isin(units, bad)]
    raise RecordingError(
        f"spike_times of {_units(names, bad)} are not possible: {len(own)} of them are "
        f"{_extent(own)}, far from those of the other units. {_leave_out(names, bad)}"
    )


def _units(names: Sequence[str], bad: Sequence[int]) -> str:
    """The units at these indices, in words."""
    return f"unit{'s' if len(bad) > 1 else ''} {listed([str(names[u]) for u in bad])}"


def _leave_out(names: Sequence[str], bad: Sequence[int]) -> str:
    """The option that leaves these units out, in a sentence."""
    is_number = all(str(name).isdecimal() for name in names)
    ids = [str(names[u]) if is_number else repr(str(names[u])) for u in bad]
    rule = f"id != {ids[0]}" if len(ids) == 1 else f"id not in [{', '.join(ids)}]"
    return f'Leave out what cannot be right: --units "{rule}".'


def check_unit_of_time(spike_times: np.ndarray, n_units: int, behavior_times: np.ndarray):
    """Refuse spikes and behaviour whose spans differ by a common unit of time.

    The longer of the two is in that unit, unless the times then make no sense: rates of units and
    the interval of samples say which. From reports: spikes divided by the sampling rate twice
    (nwbinspector #679).

    Args:
        spike_times: sorted, (N,), two or more.
        n_units: U.
        behavior_times: sorted, (T,), two or more.

    Raises:
        RecordingError: with the times at fault and the factor.
    """
    spike_s, behavior_s = max(np.ptp(spike_times), 1e-9), np.ptp(behavior_times)
    rate = len(spike_times) / n_units / spike_s
    interval = np.median(np.diff(behavior_times))
    ratio = spike_s / behavior_s
    spans = f"the span is {behavior_s:,.4g} s, the last spike is at {spike_times[-1]:,.4g}"
    if behavior_s > 10:
        spans = f"the span is {behavior_s:,.0f} s, the last spike is at {spike_times[-1]:,.0f}"
    # the longer times, divided; or else the shorter ones, multiplied
    for longer, shorter, factor in (
        ("spike_times", "behavior_times", ratio),
        ("behavior_times", "spike_times", 1 / ratio),
    ):
        distance = {unit: abs(np.log(unit / factor)) for unit in UNITS_OF_TIME}
        unit = min(distance, key=distance.get)
        if not 0.8 < factor / unit < 1.25:
            continue
        if longer == "spike_times":
            divided, multiplied = (rate * unit, interval), (rate, interval * unit)
        else:
            divided, multiplied = (rate, interval / unit), (rate / unit, interval)
        if _is_plausible(*multiplied) and not _is_plausible(*divided):
            by = "the sampling rate" if unit in _SAMPLE_RATES else f"{unit:,.0f}"
            raise RecordingError(
                f"spike_times span {spike_s:,.3g} s, behavior_times {behavior_s:,.3g} s: {shorter} "
                f"look divided by {by} once too often. Write them multiplied by {unit:,.10g}."
            )
        raise RecordingError(
            f"{longer} look like {UNITS_OF_TIME[unit]}: {spans}. Divide by {unit:,.10g}."
        )


def _is_plausible(rate: float, interval: float) -> bool:
    """Whether units can fire so often, Hz, and behaviour have a sample so often, seconds."""
    return 0.01 < rate < 500 and 2e-4 < interval < 20
