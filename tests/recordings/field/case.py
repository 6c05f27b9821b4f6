"""Recordings as public reports describe them: each written anew, with what must become of it, decided beforehand.

A case that is read must give the spikes and the behaviour of the recording that it was written from, or a stated part
of them, with a true note. A case that cannot be read ends in one line that says what it is and what to do.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from possm_lite.recordings import Recording


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
