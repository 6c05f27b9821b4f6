"""What the commands say of recordings with a fault: each is made from one simulated recording."""

import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from possm_lite.errors import PossmError
from possm_lite.recordings import Recording, load_recording
from possm_lite.recordings.data_report import data_report
from possm_lite.simulate import simulate_session
from possm_lite.simulate.neurons import SimulationConfig
from possm_lite.training import prepare

from . import field
from .page import Item, Table, row

Change = Callable[[Recording], dict]


class Fault(NamedTuple):
    """A fault of a recording.

    Attributes:
        name: of the fault.
        change: the fields that it changes, with their values.
        named: part of the line that must name it.
    """

    name: str
    change: Change
    named: str


def _spike_times(change: Callable[[np.ndarray], np.ndarray]) -> Change:
    """Spike times changed like this."""
    return lambda r: {"spike_times": change(r.spike_times)}


def _spikes(kept: Callable[[Recording], np.ndarray]) -> Change:
    """Only these spikes."""

    def change(r: Recording) -> dict:
        chosen = kept(r)
        return {"spike_times": r.spike_times[chosen], "spike_units": r.spike_units[chosen]}

    return change


def _samples(kept: Callable[[np.ndarray], np.ndarray]) -> Change:
    """Only these samples of behaviour, chosen by their times, and no trials."""

    def change(r: Recording) -> dict:
        chosen = kept(r.behavior_times)
        return {"behavior_times": r.behavior_times[chosen], "behavior": r.behavior[chosen], "trials": []}

    return change


def _in_ms(*names: str) -> Change:
    """These fields in milliseconds."""
    return lambda r: {name: 1e3 * getattr(r, name) for name in names}


def _restarted(times: np.ndarray) -> np.ndarray:
    """The clock begins again at half of the spikes."""
    half = len(times) // 2
    return np.concatenate([times[:half], times[half:] - times[half]])


def _duplicated(r: Recording) -> dict:
    """Unit 3 has the spikes of unit 7, a tenth of a millisecond later."""
    copied = r.spike_times[r.spike_units == 7] + 1e-4
    kept = r.spike_units != 3
    times = np.append(r.spike_times[kept], copied)
    units = np.append(r.spike_units[kept], np.full(len(copied), 3))
    order = np.argsort(times, kind="stable")
    return {"spike_times": times[order], "spike_units": units[order]}


def _frozen(r: Recording) -> dict:
    """Behaviour keeps one value from 30 to 55 s."""
    behavior = r.behavior.copy()
    first, last = np.searchsorted(r.behavior_times, (30.0, 55.0))
    behavior[first:last] = behavior[first + 200]
    return {"behavior": behavior}


def _position(logged: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> Change:
    """Behaviour is the derivative of a position in mm that was logged like this."""

    def change(r: Recording) -> dict:
        position = logged(r.behavior_times, r.behavior.cumsum(0) * r.sample_interval)
        derived = Recording.from_position([r.spike_times], r.behavior_times, position, "mm")
        return {name: getattr(derived, name) for name in ("behavior_times", "behavior", "notes")}

    return change


FAULTS = (
    Fault("spikes in milliseconds", _in_ms("spike_times"), "spike_times look like milliseconds: the span is"),
    Fault("spikes in samples, 30 kHz", _spike_times(lambda t: np.round(3e4 * t)), "sample indices at 30,000 Hz"),
    Fault("spikes in samples, 24.414 kHz", _spike_times(lambda t: np.round(24414.0625 * t)), "indices at 24,414 Hz"),
    Fault("spikes in Unix time", _spike_times(lambda t: 1.7e9 + t), "spike_times look like Unix time"),
    Fault("behaviour in milliseconds", _in_ms("behavior_times", "trials"), "behavior_times look like milliseconds"),
    Fault(
        "both in milliseconds", _in_ms("spike_times", "behavior_times", "trials"), "look like milliseconds or samples"
    ),
    Fault(
        "spikes on a clock 500 s later",
        _spike_times(lambda t: t + 500),
        "two clocks. Align them by a sync pulse; if both began together, subtract 500.0 s",
    ),
    Fault("spikes end at 75 %", _spikes(lambda r: r.spike_times < 0.75 * r.span[1]), "the test part, "),
    Fault("spikes end at 90 %", _spikes(lambda r: r.spike_times < 0.9 * r.span[1]), "from 84.8 to 94.2 s"),
    Fault("a clock that restarts", _spike_times(_restarted), "the clock of spike_times restarts once"),
    Fault("half of the units silent", _spikes(lambda r: r.spike_units >= 10), "warning: 10 of 20 units are silent"),
    Fault("a unit twice", _duplicated, "units with the same spikes, or many of them: 3 and 7"),
    Fault("a gap in behaviour", _samples(lambda t: (t < 40) | (t > 52)), "warning: gaps in behaviour: 1, 12.0 s"),
    Fault("a constant column", lambda r: {"behavior": r.behavior * [1, 0]}, "warning: 1 of 2 columns are constant: y"),
    Fault("behaviour constant", lambda r: {"behavior": 0 * r.behavior}, "behavior is constant in all 2 columns"),
    Fault("tracking lost for 25 s", _frozen, "warning: behaviour does not change for up to 25.1 s, from 29.9 s on"),
    Fault(
        "trials without spikes",
        _spikes(lambda r: (r.spike_times < r.trials[20, 0]) | (r.spike_times >= r.trials[23, 1])),
        "warning: 4 of 60 trials have no spike",
    ),
    Fault("behaviour at 5 Hz", _samples(lambda t: np.arange(0, len(t), 200)), "sampled every 0.2 s, more slowly than"),
    Fault(
        "a position of 60 Hz, logged at 1 kHz",
        _position(lambda t, x: x[np.searchsorted(t, np.floor(t * 60) / 60)]),
        "logged at 1000 Hz, it changes at 60 Hz",
    ),
    Fault("a position in whole pixels", _position(lambda t, x: np.round(x)), "rounded to steps"),
)


def simulated() -> Recording:
    """Sixty trials of twenty units, a hundred seconds."""
    recording = simulate_session(1, SimulationConfig(n_trials=60, n_units=20)).recording
    return replace(recording, unit_ids=[str(i) for i in range(20)])


def printed(recording: Recording, change: Callable[[Recording], dict], path: Path) -> list[str]:
    """Report and notes of the recording with these fields changed, saved to and read from a file; or the refusal."""
    try:
        replace(recording, **change(recording)).save(path)
        session = prepare(load_recording(path))
        report = data_report(session.recording, session.timeline.bin_width_s, vars(session.split))
        return [*report, *(f"note: {note}" for note in session.recording.notes)]
    except PossmError as exc:
        return [f"refused: {exc}"]


def measure(short: bool) -> Iterator[Item]:
    """The rows of the section; `short`: every tenth of the faults of public reports."""
    recording = simulated()
    rows, n_named = [], 0
    with tempfile.TemporaryDirectory() as folder:
        for fault in FAULTS:
            lines = printed(recording, fault.change, Path(folder, "recording.npz"))
            found = [line for line in lines if fault.named in line]
            n_named += bool(found)
            rows.append([fault.name, *(found or ["not named"])])
    yield row("faults named correctly", n_named, f"{{}} of {len(rows)}", "all", n_named == len(rows))
    yield Table("What is printed before training", ["fault", "line"], rows)
    yield from field.measure_named(short)
