"""Every broken recording is refused in one line, or read with a note of what was left out."""

import json
import os
import resource
import shutil
import signal
import time
import traceback
import warnings
from collections import Counter
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

pytest.importorskip("pynwb")  # with it come h5py and pandas

from possm_lite.errors import prefix_errors
from possm_lite.recordings import Recording, RecordingError, load_recording
from possm_lite.recordings.data_report import data_report
from possm_lite.simulate import simulate_session
from possm_lite.simulate.neurons import SimulationConfig

from ..recordings.layout_files import WRITERS
from .mutations import mutate

NUMPY = (".npz, our own format", "phy", "pynapple")  # read by libraries that no byte makes crash
SHORT = (*NUMPY, ".mat, counts", "NWB: MC_Maze", "NWB: FALCON M1", "indy", "brainsets")
SECONDS, MEMORY = 20, 4 * 2**30
NUMBERS = ("spike_times", "spike_units", "behavior_times", "behavior", "trials")
SAME, VALUES_DIFFER, ROWS, FAR = range(4)
# "said": a note or a warning that the file had none of before. "other": it holds other numbers, as possible as those
# before, such as an array in another order or a bit of a number in a file without checksums: nothing can tell.
RIGHT = ("same", "said", "other", "refused")
OPTIONS = ({}, {"units": "rate > 2"}, {"columns": ("1",)}, {"spikes_only": True})


@pytest.fixture(scope="module")
def tiny() -> Recording:
    return simulate_session(2, SimulationConfig(n_trials=3, n_units=5)).recording


class Read(NamedTuple):
    """A recording that was read, and what is said of it: its notes, and the lines of the check."""

    recording: Recording
    lines: list[str]


def read(path: Path, options: dict) -> Read:
    """What `check` and `decode` have before training; RecordingError: refused."""
    recording = load_recording(path, **options)
    with prefix_errors(path):  # as `check` does
        report = list(data_report(recording))
    return Read(recording, [*recording.notes, *report])


def outcome(path: Path, options: dict, intact: Read, part: str, kind: str) -> str:
    """One of `RIGHT`, or what is wrong."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            warnings.simplefilter("ignore", ResourceWarning)
            found = read(path, options)
    except RecordingError as exc:
        message = str(exc).removeprefix(f"{path}: ")
        is_one_line = message != str(exc) and "\n" not in message and 10 < len(message) < 900
        return "refused" if is_one_line else f"not one line that begins with the path: {exc}"
    except Exception:
        return f"not refused, but {traceback.format_exc()}"
    recording = found.recording
    numbers = {name: (getattr(recording, name), getattr(intact.recording, name)) for name in NUMBERS}
    if not all(np.isfinite(array).all() for array, _ in numbers.values()):
        return "read, with values that are not finite"
    if (np.diff(recording.spike_times) < 0).any() or (np.diff(recording.behavior_times) <= 0).any():
        return "read, with times out of order"
    changes = [change(*pair) for pair in numbers.values()]
    if max(changes) == SAME:
        return "same"
    if part == "bytes" and path.suffix == ".npz":
        return "read, with other numbers in spite of checksums"
    if any(line not in intact.lines for line in found.lines if is_remark(line, found)):
        return "said"
    # a matrix with a row for each, without the last; or all spikes of one cluster
    are_fewer_units = kind == ("shorter" if path.suffix == ".mat" else "constant")
    are_fewer_units &= recording.n_units < intact.recording.n_units
    is_visible = max(changes) == FAR or (ROWS in changes and part == "field" and not are_fewer_units)
    return f"read, without a word, with {changes} of {NUMBERS}" if is_visible else "other"


def is_remark(line: str, found: Read) -> bool:
    """Whether a line says more than what every recording has: a note, a warning, or how many trials there are."""
    return line in found.recording.notes or line.startswith(("warning", "trials"))


def change(array: np.ndarray, intact: np.ndarray) -> int:
    """How much an array has changed: not, to other values that are possible, in rows, or to values that are not."""
    if array.shape != intact.shape:
        return ROWS
    distance = np.abs(array - intact).max(initial=0)
    extent = np.ptp(intact) if intact.size else 0.0
    return FAR if distance > 10 * extent else SAME if distance <= 1e-5 * extent else VALUES_DIFFER


def in_child(check) -> str:
    """What `check` returns in a forked process of little time and memory, or how that process died."""
    read_end, write_end = os.pipe()
    if (child := os.fork()) == 0:
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(SECONDS)
        try:
            os.write(write_end, json.dumps(check()).encode()[:60_000])
        finally:
            os._exit(0)
    os.close(write_end)
    with open(read_end, "rb") as pipe:
        written = pipe.read()
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if status == -signal.SIGALRM:
        return "hangs"
    return json.loads(written) if written else "crashes"


@pytest.mark.parametrize("title", WRITERS)
def test_broken_recordings_are_refused_or_read(title, tmp_path, tiny, rounds, record, monkeypatch):
    """A long run reads each of 10,000 files in a child and counts where bytes make libhdf5 or SciPy crash or hang."""
    n = rounds(30 if title in SHORT else 0, 500)
    if n == 0:
        pytest.skip("only in make soak")
    run = rounds(lambda check: check(), in_child)
    parts = ("bytes", "field") if title in NUMPY else rounds(("field",), ("bytes", "field"))
    seed = rounds(0, int(time.time()))
    rng, outcomes = np.random.default_rng(seed), Counter()
    monkeypatch.chdir(tmp_path)  # where a payload would make its folder
    (tmp_path / "good").mkdir()
    source = WRITERS[title](tmp_path / "good", tiny).path
    path = tmp_path / source.name
    intact = [read(source, options) for options in OPTIONS]
    for i in range(n):
        chosen = rng.integers(len(OPTIONS))
        (shutil.copytree if source.is_dir() else shutil.copy)(source, path)
        part, kind = mutate(rng, path, parts)
        found = run(partial(outcome, path, OPTIONS[chosen], intact[chosen], part, kind))
        case = f"seed {seed}, case {i}: {part}, {kind}, {OPTIONS[chosen]}: {found}"
        may_die = found in ("crashes", "hangs") and part == "bytes" and path.suffix in (".nwb", ".h5", ".mat")
        assert found in RIGHT or may_die, case
        assert not Path("unpickled").exists(), case
        outcomes[found] += 1
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    assert min(outcomes["same"], outcomes["refused"]) > n // 20, outcomes
    died = f", {outcomes['crashes']} crash and {outcomes['hangs']} hang the library that reads them"
    counts = (
        f"{outcomes['same']} read with the same numbers, {outcomes['said']} with a note or a warning, "
        f"{outcomes['other']} hold other possible numbers, {outcomes['refused']} refused in one line"
    )
    record(f"broken recordings, {title}", f"{n}: {counts}{died if outcomes['crashes'] + outcomes['hangs'] else ''}")
