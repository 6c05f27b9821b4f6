"""Recordings as public reports describe them: each written anew, with what must become of it, decided beforehand.

A case that is read must give the spikes and the behaviour of the recording that it was written from, or a stated part
of them, with a true note. A case that cannot be read ends in one line that says what it is and what to do.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np

from possm_lite.recordings import Recording, RecordingError, load_recording
from possm_lite.recordings.data_report import data_report


@dataclass(frozen=True)
class FieldCase:
    """A situation that somebody met.

    Attributes:
        name: of the case, in lower case with underscores.
        source: the public report, such as "Kilosort #498".
        write: writes a recording into a folder as the report describes it; returns the path to read.
        says: what a note, a warning of the check or, if it is refused, the error must match: a regular expression.
            Empty: nothing is to be said.
        silent: what none of these lines may match: advice that would do harm, or words of a library.
        options: of `load_recording`, such as {"units": "id != 1"}.
        expected: what must be read, from the recording that was written; None: it is refused.
    """

    name: str
    source: str
    write: Callable[[Recording, Path], Path]
    says: str = ""
    silent: str = r"argsort|Error\b|Traceback"
    options: dict = field(default_factory=dict)
    expected: Callable[[Recording], Recording] | None = None


def whole(recording: Recording) -> Recording:
    """All of what was written."""
    return recording


class Outcome(NamedTuple):
    """What became of a case.

    Attributes:
        lines: notes and lines of the check, or the refusal.
        wrong: what is wrong with the numbers that were read, or with being read or refused; "" if nothing is.
        unsaid: what should have been said and was not, or was said and should not; "" if nothing is.
    """

    lines: list[str]
    wrong: str
    unsaid: str


def outcome(case: FieldCase, recording: Recording, folder: Path) -> Outcome:
    """What becomes of a case that is made from this recording in an empty folder."""
    path = case.write(recording, folder)
    try:
        read = load_recording(path, **case.options)
        lines = [*read.notes, *data_report(read)]
    except RecordingError as exc:
        read, lines = None, [str(exc)]
    if read is None:
        wrong = "" if case.expected is None else f"refused: {lines[0]}"
    elif case.expected is None:
        wrong = "read, not refused"
    else:
        wrong = difference(read, case.expected(recording))
    unsaid = "" if not case.says or any(re.search(case.says, line) for line in lines) else f"no line with {case.says}"
    if harmful := [line for line in lines if re.search(case.silent, line) or "\n" in line]:
        unsaid = f"must not be said: {harmful[0]}"
    return Outcome(lines, wrong, unsaid)


def difference(read: Recording, expected: Recording) -> str:
    """What differs of spikes, in order, and behaviour; "" if nothing does."""
    if read.n_units != expected.n_units:
        return f"{read.n_units} units, not {expected.n_units}"
    if read.spike_times.shape != expected.spike_times.shape:
        return f"{len(read.spike_times)} spikes, not {len(expected.spike_times)}"
    if np.abs(read.spike_times - expected.spike_times).max(initial=0) > 1e-4:  # of samples at 30 kHz
        return "other spike times"
    if not np.array_equal(read.spike_units, expected.spike_units):
        return "spikes of other units"
    if read.behavior.shape != expected.behavior.shape:
        return f"behaviour of shape {read.behavior.shape}, not {expected.behavior.shape}"
    if len(read.behavior):
        error = np.sqrt(np.mean((read.behavior - expected.behavior) ** 2))
        if not error < 0.05 * expected.behavior.std():  # of a derivative
            return f"behaviour that is {error / expected.behavior.std():.0%} of its spread away"
    return ""
