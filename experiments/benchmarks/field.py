"""Recordings as public reports describe them: how many are read as in our own format, how many faults are named."""

import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from possm_lite.recordings import Recording
from possm_lite.simulate import simulate_session
from possm_lite.simulate.neurons import SimulationConfig
from tests.app import live_cases
from tests.recordings.field import CASES
from tests.recordings.field.case import FieldCase, Outcome, outcome

from .page import Item, Table, row

Case = FieldCase | live_cases.LiveCase
# What a report is about, by the first word of a case's name
SOURCES = {
    "ks4": "Kilosort, phy, SpikeInterface",
    "phy": "Kilosort, phy, SpikeInterface",
    "allen": "Kilosort, phy, SpikeInterface",
    "nwb": "NWB: pynwb, neuroconv, AllenSDK, DANDI",
    "h5": "NWB: pynwb, neuroconv, AllenSDK, DANDI",
    "pynapple": "pynapple",
    "mat": "MATLAB",
    "mat73": "MATLAB",
    "npz": "arrays of one's own, .npz",
    "good": "arrays of one's own, .npz",
    "folder": "folders and downloads",
    "live": "Lab Streaming Layer",
}


def source_of(case: Case) -> str:
    """The program or format that a case is about."""
    return SOURCES[case.name.partition("_")[0]]


def is_read(case: FieldCase) -> bool:
    """Whether a case must be read, not refused."""
    return case.expected is not None


def is_named(case: FieldCase) -> bool:
    """Whether something must be said of a case: in the refusal, in a note, or in a line of the check."""
    return bool(case.says) or case.expected is None


def measure_read() -> Iterator[Item]:
    """How many of the cases that must be read give the numbers of our own format."""
    kept = [case for case in CASES if is_read(case)]
    wrong = {case.name: text for case in kept if (text := _outcome(case).wrong)}
    title = "Recordings of public reports, read as in our own format"
    yield from _by_source("recordings of public reports, read as in our own format", title, kept, wrong)


def measure_named(short: bool = False) -> Iterator[Item]:
    """How many of the faults that are in the cases are named; `short`: of every tenth, since each case is a test."""
    kept = [case for case in CASES if is_named(case)][:: 10 if short else 1]
    unsaid = {}
    for case in kept:
        found = _outcome(case)
        if text := found.unsaid or (not is_read(case) and found.wrong):
            unsaid[case.name] = text
    unsaid |= {case.name: text for case in live_cases.CASES if (text := live_cases.unsaid(case))}
    title = "Faults of public reports that are named"
    yield from _by_source("faults of public reports named", title, [*kept, *live_cases.CASES], unsaid)


@cache
def _recording() -> Recording:
    """The one that the tests write their cases from: some name its twelve units."""
    return simulate_session(1, SimulationConfig(n_trials=12, n_units=12)).recording


def _outcome(case: FieldCase) -> Outcome:
    """What becomes of a case, in a folder of its own."""
    with tempfile.TemporaryDirectory() as folder:
        return outcome(case, _recording(), Path(folder))


def _by_source(what: str, title: str, cases: list[Case], failed: dict[str, str]) -> Iterator[Item]:
    """The row of all cases, and a table with a line for each source.

    Args:
        what: the row measures.
        title: of the table.
        cases: all that are counted.
        failed: the names of those that are not right, and why.
    """
    n_right = len(cases) - len(failed)
    yield row(what, n_right, f"{{}} of {len(cases)}", "all", not failed)
    rows = []
    for source in dict.fromkeys(SOURCES.values()):
        own = [case for case in cases if source_of(case) == source]
        if own:
            lost = [f"{case.name}: {failed[case.name]}" for case in own if case.name in failed]
            rows.append([source, f"{len(own) - len(lost)} of {len(own)}", _reports(own), "; ".join(lost)])
    yield Table(title, ["source", "right", "reports", "not right"], rows)


def _reports(cases: list[Case]) -> str:
    """The public reports that cases stand for, each once."""
    parts = [part.strip() for case in cases for part in case.source.split(",")]
    return ", ".join(sorted({part for part in parts if "#" in part}, key=str.lower))
