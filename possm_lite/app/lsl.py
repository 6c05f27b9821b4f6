"""Spike events as streams of Lab Streaming Layer (LSL), by the package pylsl; CONVERTERS.md has their format."""

import os
import time
from pathlib import Path

import numpy as np

from ..errors import PossmError
from ..recordings.recording import Recording

_SETTINGS = ("lsl_api.cfg", "~/lsl_api/lsl_api.cfg", "/etc/lsl_api/lsl_api.cfg")  # where LSL looks for its own


def import_pylsl():
    """The module `pylsl`. It logs nothing, unless LSL has settings on this computer. PossmError if not installed."""
    try:
        import pylsl
    except (ImportError, RuntimeError, OSError) as exc:  # RuntimeError: of the library that it loads
        remedy = 'Install "possm-lite[live]", and the library liblsl where pylsl does not bring it.'
        raise PossmError(f"{str(exc).split('. ')[0]}. {remedy}") from exc
    if "LSLAPICFG" not in os.environ and not any(Path(path).expanduser().exists() for path in _SETTINGS):
        pylsl.set_config_content("[log]\nlevel = -3\n")
    return pylsl


def spike_outlet(name: str, unit_ids):
    """A `pylsl.StreamOutlet` for spike events of these units."""
    pylsl = import_pylsl()
    info = pylsl.StreamInfo(name, "Spikes", 2, pylsl.IRREGULAR_RATE, "int32", f"possm-lite-{name}")
    info.set_channel_labels(["unit", "number"])
    units = info.desc().append_child("units")
    for unit_id in unit_ids:
        units.append_child("unit").append_child_value("id", str(unit_id))
    return pylsl.StreamOutlet(info)


def play(recording: Recording, name: str, start_s: float | None = None) -> int:
    """Send the spikes of a recording from `start_s` on at its own pace, once there is a receiver; returns how many.

    A sample without a spike marks the start, with which a receiver may begin its bins, and another one the end.
    """
    begin_s, end_s = recording.span
    start_s = begin_s if start_s is None else start_s
    if not -np.inf < start_s < end_s:
        raise PossmError(f"--start must lie before the end of the recording, {end_s:g} s, not at {start_s:g} s.")
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
    return int(is_sent.sum())


class SpikeInlet:
    """A connection to the stream of spike events `name`, which is waited for. PossmError for another format.

    `correction_s`, added to a time stamp, gives the LSL clock of this computer. pylsl's LostError or TimeoutError says
    that the source has stopped.
    """

    def __init__(self, name: str):
        self._pylsl = pylsl = import_pylsl()
        self.unit_ids: list[str] = []
        while not (found := pylsl.resolve_byprop("name", name, timeout=0.5)):
            pass
        if (found[0].channel_count(), found[0].channel_format()) != (2, pylsl.cf_int32):
            raise PossmError(f"stream {name} must have two int32 channels: unit and number of each event.")
        self._inlet = pylsl.StreamInlet(found[0], recover=False)  # LSL would hide that a source stops
        unit = self._inlet.info(5.0).desc().child("units").child("unit")
        while not unit.empty():
            self.unit_ids.append(unit.child_value("id"))
            unit = unit.next_sibling("unit")
        if not self.unit_ids:  # without names, every spike would be one of an unknown unit
            raise PossmError(f"stream {name} must list its units in its description: desc/units/unit/id.")
        self.correction_s = self._inlet.time_correction(5.0)
        self._inlet.open_stream(5.0)  # nothing is received that was sent before

    def now(self) -> float:
        return self._pylsl.local_clock() - self.correction_s

    def pull(self, timeout_s: float) -> list[tuple[int, int, float]]:
        """Unit, number and time stamp of each new event; the first is waited for, `timeout_s` at most."""
        self.correction_s = self._inlet.time_correction(1.0)
        samples, stamps = self._inlet.pull_chunk(timeout_s, 2**16, min_samples=1)  # all: more than it keeps
        return [(unit, number, stamp) for (unit, number), stamp in zip(samples, stamps, strict=True)]
