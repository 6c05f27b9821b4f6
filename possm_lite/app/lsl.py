"""Spike events by Lab Streaming Layer (LSL), with the package pylsl: sent, received and decoded.

LIVE.md has their format.
"""

import contextlib
import os
import socket
import sys
import time
from argparse import Namespace
from array import array
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np

from ..decoder.stream import StreamingDecoder
from ..errors import PossmError, listed
from ..recordings.batch import bin_index
from ..recordings.formats import load_recording
from ..training.checkpoint import TrainedOn
from ..training.evaluate import even_offsets
from .experiment import EMBEDDED
from .run_dir import load_run

# where LSL looks for its own
_SETTINGS = ("lsl_api.cfg", "~/lsl_api/lsl_api.cfg", "/etc/lsl_api/lsl_api.cfg")
_QUIET_S = 1.0  # so long without an event is reported
_JUMP_S = 0.5  # so long only events that cannot be used: the clock of the source has jumped
_N_STRAY = 3  # so many in a row at least
_KINDS = ("late", "lost", "of unknown units", "off the clock")


def import_pylsl():
    """The module `pylsl`. It logs nothing, unless LSL has settings on this computer.

    Raises:
        PossmError: pylsl, or the library that it loads, is not installed.
    """
    try:
        import pylsl
    except (ImportError, RuntimeError, OSError) as exc:  # RuntimeError: of that library
        reason = str(exc).split(". ")[0]
        remedy = 'Install "possm-lite[live]", and the library liblsl where pylsl does not bring it.'
        raise PossmError(f"{reason}. {remedy}") from exc
    has_settings = "LSLAPICFG" in os.environ or any(
        Path(path).expanduser().exists() for path in _SETTINGS
    )
    if not has_settings:
        pylsl.set_config_content("[log]\nlevel = -3\n")
    return pylsl


def spike_outlet(name: str, unit_ids):
    """A `pylsl.StreamOutlet` for spike events.

    Args:
        name: name of the stream.
        unit_ids: names of its units, which events number from 1.

    Returns:
        An outlet of two int32 channels: unit, 0 for none, and number of the event, from 0.

    Raises:
        PossmError: without pylsl.
    """
    pylsl = import_pylsl()
    source_id = f"possm-lite-{name}-{socket.gethostname()}"
    info = pylsl.StreamInfo(name, "Spikes", 2, pylsl.IRREGULAR_RATE, "int32", source_id)
    info.set_channel_labels(["unit", "number"])
    units = info.desc().append_child("units")
    for unit_id in unit_ids:
        units.append_child("unit").append_child_value("id", str(unit_id))
    return pylsl.StreamOutlet(info)


def simulate(options: Namespace) -> int:
    """Send the spikes of a recording as a stream, at their own pace, once there is a receiver.

    A sample without a spike marks the start, with which a receiver may begin its bins, and another
    one the end.

    Args:
        options: those of `simulate`; `start_s` is where in the recording to start, seconds.

    Returns:
        The exit status, 0.

    Raises:
        PossmError: without pylsl, or for a start that is not before the end.
    """
    recording = load_recording(options.recording or EMBEDDED)
    name = options.stream
    begin_s, end_s = recording.span
    start_s = begin_s if options.start_s is None else options.start_s
    if not -np.inf < start_s < end_s:
        raise PossmError(
            f"--start must lie before the end of the recording, {end_s:g} s, not at {start_s:g} s."
        )
    is_sent = (recording.spike_times >= start_s) & (recording.spike_times <= end_s)
    times = np.r_[start_s, recording.spike_times[is_sent], end_s] - start_s
    units = np.r_[0, recording.spike_units[is_sent] + 1, 0]
    samples = np.c_[units, np.arange(len(units))].astype(np.int32)  # (n, 2)
    pylsl = import_pylsl()
    outlet = spike_outlet(name, recording.unit_ids)
    print(f"{name}: {recording.session_id} is sent once there is a receiver", flush=True)
    while not outlet.wait_for_consumers(0.1):  # not for longer: Ctrl-C is noticed in between
        pass
    stamps = pylsl.local_clock() + times
    sent = 0
    while sent < len(stamps):
        time.sleep(max(0.0, stamps[sent] - pylsl.local_clock()))
        due = np.searchsorted(stamps, pylsl.local_clock(), side="right")
        outlet.push_chunk(samples[sent:due], stamps[sent:due].tolist())
        sent = due
    time.sleep(0.5)  # closed at once, it would lose what is not sent yet
    print(f"{is_sent.sum():,} spikes of {recording.n_units} units were sent")
    return 0


def _streams(name: str, source: str | None) -> list:
    """The streams of a name, as `pylsl.StreamInfo`, that come from a host or have a source id.

    LSL gives the first that answers, unless it waits for others.
    """
    pylsl = import_pylsl()
    found = pylsl.resolve_byprop("name", name, timeout=0.5)
    if found:
        found = pylsl.resolve_byprop("name", name, minimum=2**10, timeout=1.0) or found
    return [s for s in found if source in (None, s.hostname(), s.source_id(), s.uid())]


def _origin(stream) -> str:
    """Where a stream comes from, for a message."""
    return f"host {stream.hostname()} (source id {stream.source_id() or 'none'})"


def _origins(streams: Sequence) -> list[str]:
    """Where several streams come from, in alphabetical order, since they answer in any.

    Of those that share host and source id also what differs: two programs of one kind on one
    computer do, and LSL numbers each at its start.
    """
    origins = [_origin(stream) for stream in streams]
    are_same = len(set(origins)) < len(origins)
    return sorted(
        f"{origin[:-1]}, number {stream.uid()})" if are_same else origin
        for origin, stream in zip(origins, streams, strict=True)
    )


class SpikeInlet:
    """A connection to a stream of spike events, which is waited for.

    pylsl's LostError or TimeoutError says that the source has stopped.

    Args:
        name: name of the stream.
        source: host, source id or number of the stream that is meant, where several have this name.

    Attributes:
        origin: host and source id of the stream.
        unit_ids: names of the units of the stream, which events number from 1.
        correction_s: seconds that, added to a time stamp, give the LSL clock of this computer.

    Raises:
        PossmError: the stream has another format, several have its name, or there is no pylsl.
    """

    def __init__(self, name: str, source: str | None = None):
        self._pylsl = pylsl = import_pylsl()
        self.unit_ids: list[str] = []
        while not (found := _streams(name, source)):
            pass
        if len(found) > 1:
            # one that has just stopped may still be found
            time.sleep(_QUIET_S)
            found = _streams(name, source) or found
        if len(found) > 1:
            raise PossmError(
                f"{len(found)} streams are called {name}: {listed(_origins(found))}. Stop the "
                "others, or name host, source id or number of one with --source."
            )
        self.origin = _origin(found[0])
        if (found[0].channel_count(), found[0].channel_format()) != (2, pylsl.cf_int32):
            raise PossmError(
                f"stream {name} must have two int32 channels: unit and number of each event."
            )
        # recovering, LSL would hide that a source stops
        self._inlet = pylsl.StreamInlet(found[0], recover=False)
        unit = self._inlet.info(5.0).desc().child("units").child("unit")
        while not unit.empty():
            self.unit_ids.append(unit.child_value("id"))
            unit = unit.next_sibling("unit")
        if not self.unit_ids:  # without names, every spike would be one of an unknown unit
            raise PossmError(
                f"stream {name} must list its units in its description: desc/units/unit/id."
            )
        self.correction_s = self._inlet.time_correction(5.0)
        self._inlet.open_stream(5.0)  # nothing is received that was sent before

    def now(self) -> float:
        """The time on the clock of the stream, seconds."""
        return self._pylsl.local_clock() - self.correction_s

    def pull(self, timeout_s: float) -> list[tuple[int, int, float]]:
        """The new events.

        Args:
            timeout_s: how long the first one is waited for at most, seconds.

        Returns:
            Of each event its unit, its number and its time stamp, seconds on the clock of the
            stream.
        """
        self.correction_s = self._inlet.time_correction(1.0)
        n_most = 2**16  # more than it keeps: all
        samples, stamps = self._inlet.pull_chunk(timeout_s, n_most, min_samples=1)
        events = zip(samples, stamps, strict=True)
        return [(unit, number, stamp) for (unit, number), stamp in events]


class LiveBins:
    """Sorts events into bins of the stream's clock, and counts those that cannot be used.

    Bin 0 begins with the first event. A bin is over when an event of a later bin has come, or else
    some time after its end.

    Where only events come that cannot be used, no bin is handed out. If for half a second all of
    them are off by the same time, the clock of the source has jumped (labstreaminglayer #131), or
    was another from the first event on: they are sorted in on the old clock, or on that of this
    computer, on which bins go on, and so are those that follow. Events that are off by different
    times are dropped, and so are the bins of that time.

    Args:
        unit_ids: names of the units of the decoder, in its order.
        bin_width_s: width of a bin, seconds.
        wait_s: how long after its end a bin waits for late events, seconds.
        warn: gets a line for the first event of each kind that is counted, again after a
            `restart`; and for each jump of the clock.

    Attributes:
        counts: number of events of each kind that could not be used.
    """

    def __init__(
        self,
        unit_ids: Sequence[str],
        bin_width_s: float,
        wait_s: float,
        warn: Callable[[str], None],
    ):
        self._model_units = {name: unit for unit, name in enumerate(unit_ids, 1)}
        self._width_s = bin_width_s
        self._wait_s = wait_s
        self._warn = warn
        self.counts = Counter()
        self.restart([])

    def restart(self, stream_units: Sequence[str]):
        """Forget all but the counts.

        Args:
            stream_units: names of the units of the stream from now on.
        """
        self._unit_of_place = {0: 0}  # 0: no spike
        for place, name in enumerate(stream_units, 1):
            if name in self._model_units:
                self._unit_of_place[place] = self._model_units[name]
        self._warned = set()
        self._held: dict[str, str] = {}  # lines that wait: it may be a jump of the clock
        self._start_s = None
        self._number = None
        self._heard_s = -np.inf  # when the last event came
        self._next = 0  # the bin to be handed out next
        self._newest = 0  # that of the newest event
        # of each bin: unit, offset, time
        self._events: dict[int, list[tuple[int, float, float]]] = {}
        self._jump_s = 0.0  # by which the clock of the source has jumped since the first event
        self._ages_s = deque([0.0], maxlen=100)  # of the last usable events, when they came
        # events in a row that cannot be used: place, time, time of arrival, kind
        self._strays: deque[tuple[int, float, float, str]] = deque()
        self._astray_s = np.inf  # since when all are
        self._unknown = (0, 0)  # bins from, to: without an event that can be used, not silent

    def add(self, place: int, number: int, time_s: float, now_s: float):
        """Sort in an event.

        Args:
            place: number of the unit in the stream, from 1; 0: no spike.
            number: number of the event, from 0.
            time_s: its time stamp, seconds on the clock of the stream.
            now_s: the time now, on the same clock.
        """
        self._check_number(number)
        self._heard_s = now_s
        time_s -= self._jump_s
        kind = self._sort_in(place, time_s, now_s)
        if kind is None:
            self._end_strays(time_s)
            self._say_held()
        else:
            self._astray_s = min(self._astray_s, now_s)
            self._strays.append((place, time_s, now_s, kind))
            self._follow_jump(now_s)

    def _sort_in(self, place: int, time_s: float, now_s: float) -> str | None:
        """Sort in an event on the clock of the bins; returns why it cannot be used, or None."""
        age_s = now_s - time_s
        if age_s < -self._width_s or (self._start_s is None and age_s > _QUIET_S):
            off = f"{abs(age_s):.3f} s {'behind' if age_s > 0 else 'ahead of'} its LSL clock"
            line = f"a time stamp is {off}: such events are not used"
            return self._count_stray("off the clock", line)
        if self._start_s is None:
            self._start_s = time_s
        index = self._bin_of(time_s)
        # where no bin is handed out, as if they were
        is_over = index < self._next or (self._are_astray() and self._end_s(index) <= now_s)
        if is_over:
            line = f"an event comes {age_s:.3f} s late: such events are not used"
            return self._count_stray("late", line)
        self._ages_s.append(age_s)
        self._newest = max(self._newest, index)
        if place not in self._unit_of_place:
            self._count(
                "of unknown units", f"unit {place} of the stream is not one of the run: not used"
            )
        unit = self._unit_of_place.get(place, 0)
        since_start_s = max(time_s - self._start_s - index * self._width_s, 0.0)
        offset_s = min(since_start_s, np.nextafter(self._width_s, 0))  # rounding stays in the bin
        self._events.setdefault(index, []).append((unit, offset_s, time_s))
        return None

    def _bin_of(self, time_s: float) -> int:
        """The bin that a time is in."""
        return int(bin_index(time_s - self._start_s, self._width_s))

    def _follow_jump(self, now_s: float):
        """Sort in the strays of the last second on the old clock, if all are off by one time."""
        while now_s - self._strays[0][2] > _QUIET_S:
            self._strays.popleft()
        first_s = self._strays[0][2]
        if not self._are_astray() or now_s - first_s < _JUMP_S * (1 - 1e-6):
            return
        ages_s = [came_s - time_s for _, time_s, came_s, _ in self._strays]
        if np.ptp(ages_s) > _JUMP_S / 2:  # no clock that goes on as before
            self._say_held()
            return
        jump_s = float(np.median(self._ages_s) - np.median(ages_s))
        self._jump_s += jump_s
        self._held.clear()  # this line says it better
        self._warn(self._jump_line(jump_s))
        strays = list(self._strays)
        self._end_strays(first_s)
        for place, time_s, came_s, kind in strays:
            self.counts[kind] -= 1
            self._sort_in(place, time_s - jump_s, came_s)

    def _jump_line(self, jump_s: float) -> str:
        """What is said of a clock that jumps by so many seconds, or is another from the first."""
        seconds = round(jump_s, 1 if abs(jump_s) >= 1 else 2)
        if self._start_s is None:
            where = "behind" if jump_s < 0 else "ahead of"
            return (
                f"the time stamps are {abs(seconds)} s {where} the LSL clock from the first on: "
                "they are taken to be of the moment at which they come"
            )
        return (
            f"the clock of the source has jumped by {seconds:+} s: decoding goes on with the new "
            "clock"
        )

    def _are_astray(self) -> bool:
        """Whether only events come that cannot be used."""
        return len(self._strays) >= _N_STRAY

    def _end_strays(self, time_s: float):
        """Drop the strays: from a time on there are events that can be used, or none."""
        if self._are_astray() and self._start_s is not None:
            self._unknown = (self._bin_of(self._astray_s), self._bin_of(time_s))
        self._strays.clear()
        self._astray_s = np.inf

    def _check_number(self, number: int):
        """Count the events that are missing before this one."""
        if self._number is not None and number > self._number + 1:
            n = number - self._number - 1
            line = f"{n} events are lost: number {number} comes after {self._number}"
            self._count("lost", line, n)
        self._number = number

    def due_s(self) -> float:
        """When the next bin is over, seconds on the clock of the stream, if no event comes."""
        if self._start_s is None or self._are_astray():
            return np.inf
        return self._end_s(self._next)

    def _end_s(self, index: int) -> float:
        """When a bin, and the time that it waits for late events, is over."""
        return self._start_s + (index + 1) * self._width_s + self._wait_s

    def finished(self, now_s: float) -> Iterator[tuple[float, list[int], list[float], float]]:
        """Each bin that is over, once.

        Args:
            now_s: seconds on the clock of the stream, up to which all events were added.

        Yields:
            Start of the bin; unit of each spike, in the order of the decoder; its time since the
            start; and time stamp of the newest event, NaN without one. All in seconds.
        """
        is_quiet = now_s - self._heard_s > _QUIET_S
        if is_quiet:
            self._say_held()
        if self._start_s is None:
            return
        if is_quiet:
            self._end_strays(self._heard_s)
        if self._are_astray():
            now_s = min(now_s, self._astray_s)
        while self._next < self._newest or self._end_s(self._next) <= now_s:
            events = self._events.pop(self._next, [])
            start_s = self._start_s + self._next * self._width_s
            is_unknown = self._unknown[0] <= self._next < self._unknown[1]
            self._next += 1
            if is_unknown and not events:
                continue
            if start_s - self._heard_s > _QUIET_S:
                self._count("silent", f"no event for {_QUIET_S:g} s: silent bins are decoded")
            spikes = [(unit, offset_s) for unit, offset_s, _ in events if unit]
            units = [unit for unit, _ in spikes]
            offsets = [offset_s for _, offset_s in spikes]
            newest_s = max((time_s for _, _, time_s in events), default=np.nan)
            yield start_s, units, offsets, newest_s

    def _count_stray(self, kind: str, line: str) -> str:
        """Count an event that is not of its time; the line waits until it is no jump of the clock.

        Returns the kind.
        """
        self.counts[kind] += 1
        if kind not in self._warned:
            self._held.setdefault(kind, line)
        return kind

    def _say_held(self):
        """Say the lines that have waited."""
        for kind, line in self._held.items():
            self._warned.add(kind)
            self._warn(line)
        self._held.clear()

    def _count(self, kind: str, line: str, n: int = 1) -> str:
        """Count n events of a kind; the first time, say so in a line. Returns the kind."""
        self.counts[kind] += n
        if kind not in self._warned:
            self._warned.add(kind)
            self._warn(line)
        return kind


def live(options: Namespace) -> int:
    """Decode a stream of spike events NAME until Ctrl-C, and publish the stream NAME-decoded.

    Its samples are those of `predict`, all of a bin at once, stamped with the times of the
    behaviour. Prints the number of bins, of events that were not used, and the latency.

    Args:
        options: those of `live`; `stream` is NAME.

    Returns:
        The exit status, 0.

    Raises:
        PossmError: without pylsl, for a stream of another format, or for several of this name.
    """
    model, trained_on = load_run(options.run)
    name = options.stream

    def warn(line: str):
        print(f"possm-lite: {name}: {line}", file=sys.stderr, flush=True)

    pylsl = import_pylsl()
    offsets_s = even_offsets(model.config.bin_width_s)
    decoder = StreamingDecoder(model, 1, offsets_s)
    bins = LiveBins(trained_on.unit_ids, model.config.bin_width_s, options.wait_s, warn)
    outlet = _behavior_outlet(f"{name}-decoded", trained_on)
    latency_s = array("d")

    def decode_connection(inlet: SpikeInlet):
        missing = [unit for unit in trained_on.unit_ids if unit not in inlet.unit_ids]
        without = f", without {len(missing)} of the run: {listed(missing)}" if missing else ""
        warn(
            f"connected, {len(inlet.unit_ids)} units{without}, {inlet.origin}; "
            "decoding begins with the first event"
        )
        decoder.reset()
        bins.restart(inlet.unit_ids)
        while True:
            now_s = inlet.now()  # before pulling: all events of before are then received
            # not waited for longer than 0.05 s: Ctrl-C is noticed in between
            timeout_s = min(max(bins.due_s() - now_s, 0.0), 0.05)
            for unit, number, time_s in inlet.pull(timeout_s):
                bins.add(unit, number, time_s, inlet.now())
            for start_s, units, offsets, last_s in bins.finished(now_s):
                times_s = start_s + offsets_s + trained_on.lag_s + inlet.correction_s
                _, decoded = decoder.step(units, offsets)  # (n_slots, C)
                outlet.push_chunk(decoded, times_s.tolist())
                latency_s.append(inlet.now() - last_s)

    gone = contextlib.suppress(pylsl.util.LostError, pylsl.util.TimeoutError)
    with contextlib.suppress(KeyboardInterrupt):
        warn("waiting for the stream")
        while True:
            # a source that has stopped is sometimes found once more, and said to have stopped only
            # once
            with gone:
                inlet = SpikeInlet(name, options.source)
                with gone:
                    decode_connection(inlet)
                warn("the source stopped; waiting for it")
    print(_summary(bins.counts, latency_s))
    return 0


def _behavior_outlet(name: str, trained_on: TrainedOn):
    """A `pylsl.StreamOutlet` for the outputs of a decoder: float32, without a regular rate."""
    pylsl = import_pylsl()
    columns = list(trained_on.behavior_columns)
    info = pylsl.StreamInfo(
        name, trained_on.behavior_name, len(columns), source_id=f"possm-lite-{name}"
    )
    info.set_channel_labels(columns)
    info.set_channel_units(trained_on.behavior_unit)
    return pylsl.StreamOutlet(info)


def _summary(counts: Counter, latency_s: Sequence[float]) -> str:
    """A line on a decoding; the latency of each bin, in s, is NaN without an event."""
    events = ", ".join(f"{counts[kind]:,} {kind}" for kind in _KINDS)
    line = f"{len(latency_s):,} bins; events: {events}"
    if np.isfinite(latency_s).any():
        p50, p99 = 1e3 * np.nanpercentile(latency_s, (50, 99))
        line += f"; from the last event of a bin to its output p50 {p50:.2f} ms, p99 {p99:.2f} ms"
    return line
