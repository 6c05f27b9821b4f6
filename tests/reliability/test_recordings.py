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

import numpy as np
import pytest

pytest.importorskip("pynwb")  # with it come h5py and pandas

from possm_lite.recordings import Recording, RecordingError, load_recording
from possm_lite.simulate import simulate_session
from possm_lite.simulate.neurons import SimulationConfig

from ..recordings.layout_files import WRITERS
from .mutations import VALUES, mutate

NUMPY = (".npz, our own format", "phy", "pynapple")  # read by libraries that no byte makes crash
SHORT = (*NUMPY, ".mat, counts", "NWB: MC_Maze", "NWB: FALCON M1", "indy", "brainsets")
SECONDS, MEMORY = 20, 4 * 2**30
NUMBERS = ("spike_times", "spike_units", "behavior_times", "behavior", "trials")
OPTIONS = ({}, {"units": "rate > 2"}, {"columns": ("1",)}, {"spikes_only": True})


@pytest.fixture(scope="module")
def tiny() -> Recording:
    return simulate_session(2, SimulationConfig(n_trials=3, n_units=5)).recording


def outcome(path: Path, options: dict, intact: Recording, part: str, kind: str) -> str:
    """ "read", "refused", or what is wrong."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            recording = load_recording(path, **options)
    except RecordingError as exc:
        message = str(exc).removeprefix(f"{path}: ")
        is_one_line = message != str(exc) and "\n" not in message and 10 < len(message) < 900
        return "refused" if is_one_line else f"not one line that begins with the path: {exc}"
    except Exception:
        return f"not refused, but {traceback.format_exc()}"
    numbers = {name: getattr(recording, name) for name in NUMBERS}
    if not all(np.isfinite(array).all() for array in numbers.values()):
        return "read, with values that are not finite"
    if (np.diff(recording.spike_times) < 0).any() or (np.diff(recording.behavior_times) <= 0).any():
        return "read, with times out of order"
    is_changed = any(not np.array_equal(array, getattr(intact, name)) for name, array in numbers.items())
    if part == "bytes" and path.suffix == ".npz" and is_changed:
        return "read, with other numbers in spite of checksums"
    is_shorter = any(len(array) < len(getattr(intact, name)) for name, array in numbers.items())
    if kind in VALUES and is_shorter and recording.notes == intact.notes:
        return "read, with rows left out without a note"
    return "read"


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
    intact = [load_recording(source, **options) for options in OPTIONS]
    for i in range(n):
        chosen = rng.integers(len(OPTIONS))
        (shutil.copytree if source.is_dir() else shutil.copy)(source, path)
        part, kind = mutate(rng, path, parts)
        found = run(partial(outcome, path, OPTIONS[chosen], intact[chosen], part, kind))
        case = f"seed {seed}, case {i}: {part}, {kind}, {OPTIONS[chosen]}: {found}"
        may_die = found in ("crashes", "hangs") and part == "bytes" and path.suffix in (".nwb", ".h5", ".mat")
        assert found in ("read", "refused") or may_die, case
        assert not Path("unpickled").exists(), case
        outcomes[found] += 1
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    assert min(outcomes["read"], outcomes["refused"]) > n // 20, outcomes
    died = f", {outcomes['crashes']} crash and {outcomes['hangs']} hang the library that reads them"
    counts = f"{outcomes['read']} read, {outcomes['refused']} refused in one line"
    record(f"broken recordings, {title}", f"{n}: {counts}{died if outcomes['crashes'] + outcomes['hangs'] else ''}")
