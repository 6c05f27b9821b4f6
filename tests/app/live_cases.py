"""Streams as public reports describe them: events with time stamps of another clock, and what must be said of them."""

import re
from collections.abc import Callable
from typing import NamedTuple

from possm_lite.app.lsl import LiveBins

WIDTH_S = 0.05


class LiveCase(NamedTuple):
    """A stream whose events have other times than they should.

    Attributes:
        name: of the case.
        source: the public report.
        stamp: the time stamp of an event, from its own time, seconds.
        says: what the first line must match: a regular expression.
        n_bins: so many bins are decoded at least, in four seconds.
    """

    name: str
    source: str
    stamp: Callable[[float], float]
    says: str
    n_bins: int


CASES = [
    LiveCase(
        "live_clock_jumps_back",
        "labstreaminglayer #131",
        lambda t: t - 3 * (t > 9),
        r"has jumped by -3.0 s: decoding goes on",
        76,
    ),
    LiveCase(
        "live_clock_jumps_ahead",
        "labstreaminglayer #131",
        lambda t: t + 2 * (t > 9),
        r"has jumped by \+2.0 s: decoding goes on",
        76,
    ),
    LiveCase(
        "live_another_clock",
        "labstreaminglayer #131",
        lambda t: t - 4993,
        r"time stamps are 4993.0 s behind the LSL clock from the first on",
        76,
    ),
    LiveCase("live_milliseconds", "own variant", lambda t: 1000 * t, r"ahead of its LSL clock: .* not used", 0),
    LiveCase("live_clock_stands_still", "own variant", lambda t: min(t, 8.0), r"late: such events are not used", 19),
]


def play(bins: LiveBins, stamp: Callable, seconds: float = 4.0, begin_s: float = 7.0, every_s: float = 0.01) -> list:
    """An event each 10 ms, with the time that `stamp` makes of its own; the bins that are over, when each was."""
    found = []
    for number in range(round(seconds / every_s)):
        now_s = begin_s + number * every_s
        bins.add(1, number, stamp(now_s), now_s)
        found += [(now_s, *bin) for bin in bins.finished(now_s)]
    return found


def unsaid(case: LiveCase) -> str:
    """What is wrong with what is said and decoded of a case; "" if nothing is."""
    lines: list[str] = []
    bins = LiveBins(["a", "b"], WIDTH_S, 0.02, lines.append)
    bins.restart(["b", "other", "a"])
    n_bins = len(play(bins, case.stamp))
    if len(lines) != 1 or not re.search(case.says, lines[0]):
        return f"said: {lines}"
    return "" if n_bins >= case.n_bins else f"only {n_bins} bins"
