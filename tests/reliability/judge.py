"""Reads broken recordings, each in a process of its own with little time and memory, and judges what came of it.

The judge knows nothing of the package: it reads `.npz` with `numpy.load`, MATLAB files by a parser of its own and NWB
files with h5py, and holds what a recording must be in its own words. A file that was read must say what the judge sees
in it, and no file may be read in which the judge sees a fault.

    python -m reliability.judge SUFFIX FIRST LAST SEED FOLDER      in the folder of the tests; a line of JSON per file
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
import traceback
import warnings
from pathlib import Path

import numpy as np

from possm_lite.spikes import Recording, RecordingError
from possm_lite.spikes import io as files
from possm_lite.spikes.arrays import load_npz
from possm_lite.spikes.io import nwb
from possm_lite.spikes.io import subprocess_reader as apart

from .mutations import Broken, break_file, good_recording, good_variables
from .witness import seen_in_mat, seen_in_npz, seen_in_nwb

SECONDS = 20  # for one file, where a good one takes a tenth of one
MEMORY = 4 * 2**30
TIMES = ("spike_times", "behavior_times", "trials", "velocity")


def fault(seen: dict) -> str | None:
    """The first fault in the arrays of a recording, or None. Behaviour need not cover the trials here."""
    for name in (*TIMES, "spike_units"):
        array, ndim = seen[name], 1 + (name in ("velocity", "trials"))
        if array.size and array.dtype.kind not in ("iu" if name == "spike_units" else "iuf"):
            return f"{name} holds {array.dtype}"
        if (array.size or ndim == 1) and (array.ndim != ndim or (ndim == 2 and array.shape[1] != 2)):
            return f"{name} has shape {array.shape}"
        if name in TIMES and not np.all(np.isfinite(array.astype(np.float64))):
            return f"{name} is not finite"
    spikes, times = (seen[name].astype(np.float64) for name in ("spike_times", "behavior_times"))
    trials = seen["trials"].astype(np.float64).reshape(-1, 2)
    units = [str(name) for name in np.atleast_1d(seen["unit_ids"])]
    faults = {
        "spikes without units": len(seen["spike_units"]) != len(spikes),
        "spikes out of order": any(b < a for a, b in zip(spikes, spikes[1:], strict=False)),
        "a unit that is not there": any(not 0 <= int(unit) < len(units) for unit in seen["spike_units"]),
        "units of one name": len(set(units)) < len(units) or not units or seen["unit_ids"].ndim != 1,
        "times without velocity": len(times) != len(seen["velocity"]) or len(times) < 2,
        "times out of order": any(b <= a for a, b in zip(times, times[1:], strict=False)),
        "a trial backwards": any(stop <= start for start, stop in trials),
        "trials that overlap": any(start < stop for (_, stop), (start, _) in zip(trials, trials[1:], strict=False)),
    }
    return next((what for what, is_so in faults.items() if is_so), None)


def difference(recording: Recording, seen: dict) -> str | None:
    """The first field in which a recording is not what was seen, or None."""
    for name in (*TIMES, "spike_units", "unit_ids"):
        ours, theirs = getattr(recording, name), seen[name]
        if ours.size != theirs.size or not np.array_equal(ours, theirs.astype(ours.dtype).reshape(ours.shape)):
            return f"{name} differs"
    for name in ("velocity_unit", "session_id", "notes"):
        if name in seen and getattr(recording, name) != seen[name]:
            return f"{name} is {getattr(recording, name)!r}, not {seen[name]!r}"
    return None


def wrong_in_mat(recording: Recording, seen: dict) -> str | None:
    time, counts, velocity = (seen[name].astype(np.float64) for name in ("time", "spikes", "handVel"))
    width = recording.sample_interval
    edges = np.append(recording.behavior_times, recording.behavior_times[-1] + width)
    bins = np.searchsorted(edges, recording.spike_times, side="right") - 1
    ours = np.zeros(counts.shape)
    np.add.at(ours, (recording.spike_units, bins), 1)
    if not np.array_equal(ours, counts):
        return "counts in bins differ"
    if np.abs(time.ravel() - recording.behavior_times).max() > 0.021 * width:
        return "bins are not where they start"
    return None if np.array_equal(velocity[:2].T, recording.velocity) else "velocity differs"


def _left_out(recording: Recording, seen: dict) -> dict:
    """Trials that behaviour does not cover may be left out of an NWB file, in words."""
    kept = np.isin(seen["trials"][:, 0], recording.trials[:, 0])
    said = any("trials that behaviour does not cover were left out" in note for note in recording.notes)
    return seen | {"trials": seen["trials"][kept]} if said and not kept.all() else seen


# The verdict


def verdict(path: Path, broken: Broken) -> tuple[str, str]:
    """What came of a file, and a word on it: "read", "refused" or, where the package is at fault, "wrong"."""
    try:
        recording = files.load_recording(path)
    except RecordingError as trouble:
        message = str(trouble)
        if not message.startswith(f"{path}: ") or "\n" in message or len(message) > len(str(path)) + 600:
            return "wrong", f"an error that is not one line with the file in front: {message!r}"
        reason = message.removeprefix(f"{path}: ")
        needless = broken.part == "field" and path.suffix == ".npz" and _is_faultless(path, reason)
        return "wrong" if needless else "refused", reason
    try:
        found = _wrong(recording, path, broken)
    except Exception as trouble:
        return "wrong", f"was read, where a witness stops at {trouble!r}"
    return ("wrong", f"was read, but {found}") if found else ("read", "")


def _wrong(recording: Recording, path: Path, broken: Broken) -> str | None:
    """What is wrong with a recording that was read, or None."""
    if found := fault(vars(recording)):
        return found
    if path.suffix == ".mat":
        seen = seen_in_mat(path)
        if broken.source == "packed.mat" and broken.part == "bytes":
            seen = good_variables()  # there are checksums
        return wrong_in_mat(recording, seen)
    if path.suffix == ".npz" and broken.part == "bytes":
        good = good_recording(on_a_clock=broken.source.startswith("clock"))
        return difference(recording, vars(good))
    seen = seen_in_npz(path) if path.suffix == ".npz" else seen_in_nwb(path)
    if path.suffix == ".nwb":
        seen = _left_out(recording, seen)
    return fault(seen) or difference(recording, seen)


def _is_faultless(path: Path, reason: str) -> bool:
    """A witness sees no fault in a file that was refused, and the reason is none that it passes over."""
    try:
        faultless = fault(seen_in_npz(path)) is None
    except Exception:
        return False
    return faultless and "must cover every trial" not in reason


def judge_one(suffix: str, number: int, seed: int, folder: Path) -> tuple[str, str, str]:
    """Break a file and judge it, in a folder of its own below `folder`, where it stays if this is the end."""
    own = folder / f"{suffix[1:]}-{seed}-{number}"
    own.mkdir()
    os.chdir(own)  # where a payload would leave its mark
    path = own / f"a{suffix}"
    broken = break_file(suffix, number, seed, folder, path)
    (own / "what.txt").write_text(", ".join(broken))
    outcome, says = verdict(path, broken)
    if Path("unpickled").exists():
        outcome, says = "wrong", "code in the file was run"
    if outcome != "wrong":
        shutil.rmtree(own)
    return outcome, says, ", ".join(broken)


def read_here(path: Path, behavior: str | None) -> dict[str, np.ndarray]:
    """Replaces `read_in_subprocess`: reads in this process, which exists for this file only."""
    apart.convert(str(path), behavior, ".")
    if Path("error.txt").exists():
        raise RecordingError(Path("error.txt").read_text(encoding="utf-8"))
    return load_npz("recording.npz")


def judged(suffix: str, first: int, last: int, seed: int, folder: Path, before: str = "") -> list[dict]:
    """What `main` says of each file, from a process of its own, in which the statement `before` comes first."""
    program = f"import sys\nfrom reliability import judge\n{before}\njudge.main(*sys.argv[1:])"
    run = subprocess.run(
        [sys.executable, "-c", program, suffix, *map(str, (first, last, seed, folder))],
        cwd=Path(__file__).parents[1],
        env=os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )
    if run.returncode:
        raise RuntimeError(run.stderr[-2000:])
    return [json.loads(line) for line in run.stdout.splitlines()]


def main(suffix: str, first: str, last: str, seed: str, folder: str):
    """Fork for each file once all readers are loaded; a line of JSON on each."""
    warnings.simplefilter("ignore")
    files.read_in_subprocess = read_here
    if suffix == ".nwb":
        nwb.import_pynwb()
    for number in range(int(first), int(last)):
        begun = time.perf_counter()
        leaves, comes = os.pipe()
        child = os.fork()
        if child == 0:
            _limited()
            try:
                outcome = judge_one(suffix, number, int(seed), Path(folder))
            except BaseException:
                outcome = ("error", traceback.format_exc(), "")
            os.write(comes, json.dumps(outcome).encode()[:60_000])
            os._exit(0)
        os.close(comes)
        with open(leaves, "rb") as answer:
            written = answer.read()
        _, status, usage = os.wait4(child, 0)
        outcome, says, what = (
            json.loads(written) if written else ("died", f"exit status {os.waitstatus_to_exitcode(status)}", "")
        )
        report = {"number": number, "outcome": outcome, "says": says, "what": what}
        report |= {"seconds": time.perf_counter() - begun, "megabytes": usage.ru_maxrss / 1024}
        print(json.dumps(report), flush=True)


def _limited():
    """No more memory and time than a file may take, and an end without ado where it takes more."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, 2 * SECONDS)


if __name__ == "__main__":
    main(*sys.argv[1:])
