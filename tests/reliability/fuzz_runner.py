"""Reads broken recordings in child processes with little time and memory, and compares them with reference readers.

A file that is read must contain what the reference reader reads, and a file with a fault must be refused.

    python -m tests.reliability.fuzz_runner        a JSON request per line of input, a JSON report per line of output
"""

import json
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
import traceback
import warnings
from collections import Counter
from dataclasses import asdict
from pathlib import Path

import numpy as np

from possm_lite.spikes import Recording, RecordingError, io
from possm_lite.spikes.arrays import load_npz
from possm_lite.spikes.io import subprocess_reader
from possm_lite.spikes.io.contents import Selection

from . import reference_readers
from .mutations import good_recording, good_variables

ROOT = Path(__file__).parents[2]
SECONDS = 20  # of CPU for one file; an intact one takes 0.1
MEMORY = 4 * 2**30
NUMBERS = ("spike_times", "behavior_times", "trials", "behavior")


class FuzzRunner:
    """Client of a process that runs `main`, after the statement `setup`."""

    def __init__(self, setup: str = ""):
        program = f"from tests.reliability import fuzz_runner\n{setup}\nfuzz_runner.main()"
        one_thread = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self.process = subprocess.Popen([sys.executable, "-c", program], cwd=ROOT, env=one_thread, **pipes)

    def __call__(self, path: Path, source: str, part: str) -> dict:
        """The outcome and reason of `check_file`, with seconds and megabytes used."""
        self.process.stdin.write(json.dumps([str(path), source, part]) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def close(self):
        self.process.communicate(timeout=60)


def fault(fields: dict) -> str | None:
    """The first fault in the fields of a recording, or None. Behaviour need not cover the trials here."""
    for name in (*NUMBERS, "spike_units"):
        array = fields[name]
        shape = {"behavior": (-1, fields["behavior"].shape[-1]), "trials": (-1, 2)}.get(name, (-1,))
        if array.size and array.dtype.kind not in ("iu" if name == "spike_units" else "iuf"):
            return f"{name} holds {array.dtype}"
        if (array.size or len(shape) == 1) and (array.ndim != len(shape) or array.shape[1:] != shape[1:]):
            return f"{name} has shape {array.shape}"
        if not np.isfinite(array.astype(np.float64)).all():
            return f"{name} is not finite"
    spikes, times = (fields[name].astype(np.float64) for name in ("spike_times", "behavior_times"))
    trials, units = fields["trials"].astype(np.float64).reshape(-1, 2), fields["unit_ids"].astype(str)
    faults = {
        "number of behavior_columns": fields["behavior_columns"].shape != fields["behavior"].shape[1:],
        "number of spike_units": len(fields["spike_units"]) != len(spikes),
        "unsorted spike_times": (spikes[1:] < spikes[:-1]).any(),
        "unknown unit": any(not 0 <= int(unit) < units.size for unit in fields["spike_units"]),
        "unit_ids": units.ndim != 1 or len(set(units.tolist())) < max(len(units), 1),
        "number of behavior_times": len(times) != len(fields["behavior"]) or len(times) < 2,
        "unsorted behavior_times": (times[1:] <= times[:-1]).any(),
        "reversed trial": (trials[:, 1] <= trials[:, 0]).any(),
        "overlapping trials": (trials[1:, 0] < trials[:-1, 1]).any(),
    }
    return next((name for name, is_present in faults.items() if is_present), None)


def difference(recording: Recording, reference: dict) -> str | None:
    """The first field in which a recording differs from the reference, or None."""
    for name in (*NUMBERS, "spike_units", "unit_ids"):
        ours, theirs = getattr(recording, name), reference[name]
        if ours.size != theirs.size or not np.array_equal(ours, theirs.astype(ours.dtype).reshape(ours.shape)):
            return f"{name} differs"
    for name in ("behavior_name", "behavior_unit", "session_id", "notes"):
        if name in reference and getattr(recording, name) != reference[name]:
            return f"{name} is {getattr(recording, name)!r}, not {reference[name]!r}"
    return None


def difference_in_counts(recording: Recording, variables: dict) -> str | None:
    """The first difference of a recording from the variables of a MATLAB file, or None."""
    starts, counts, velocity = (variables[name].astype(np.float64) for name in ("time", "spikes", "handVel"))
    width = recording.sample_interval
    edges = np.append(recording.behavior_times, recording.behavior_times[-1] + width)
    ours = np.zeros(counts.shape)
    np.add.at(ours, (recording.spike_units, np.searchsorted(edges, recording.spike_times, side="right") - 1), 1)
    if not np.array_equal(ours, counts):
        return "counts differ"
    if np.abs(starts.ravel() - recording.behavior_times).max() > 0.021 * width:
        return "behavior_times differ"
    return None if np.array_equal(velocity.T, recording.behavior) else "velocity differs"


def check_file(path: Path, source: str, part: str) -> tuple[str, str]:
    """Outcome and reason: "read", "refused" or, for an error of the package, "wrong".

    Args:
        path: the broken file.
        source: name of the good file that it was made from.
        part: what was broken, "bytes", "field" or "container".
    """
    try:
        recording = io.load_recording(path)
    except RecordingError as exc:
        message = str(exc)
        if not message.startswith(f"{path}: ") or "\n" in message or len(message) > len(str(path)) + 600:
            return "wrong", f"not one line that begins with the path: {message!r}"
        needless = part == "field" and path.suffix == ".npz" and "must cover every trial" not in message
        return "wrong" if needless and _is_faultless(path) else "refused", message.removeprefix(f"{path}: ")
    try:
        found = fault(vars(recording)) or _difference_from_reference(recording, path, source, part)
    except Exception as exc:
        return "wrong", f"was read, but the reference reader raised {exc!r}"
    return ("wrong", f"was read, but {found}") if found else ("read", "")


def _difference_from_reference(recording: Recording, path: Path, source: str, part: str) -> str | None:
    if path.suffix == ".mat":
        has_checksums = source == "compressed.mat" and part == "bytes"
        return difference_in_counts(recording, good_variables() if has_checksums else reference_readers.read_mat(path))
    if path.suffix == ".npz" and part == "bytes":  # there are checksums
        return difference(recording, vars(good_recording(on_a_clock=source.startswith("clock"))))
    if path.suffix == ".npz":
        reference = reference_readers.read_npz(path)
        return fault(reference) or difference(recording, reference)
    return _difference_but_for_mending(recording, reference_readers.read_nwb(path))


def _difference_but_for_mending(recording: Recording, reference: dict) -> str | None:
    """The first difference from what an NWB file holds, where rows that a note counts may be missing."""
    counted = Counter()
    for note in recording.notes:
        if match := re.match(r"(\d+) of \d+ (spikes|samples|rows|trials|units) ", note):
            counted[match[2].replace("rows", "samples")] += int(match[1])
    for what, names in (("spikes", ("spike_times", "spike_units")), ("samples", ("behavior_times", "behavior"))):
        ours, theirs = (
            Counter(map(tuple, np.column_stack([fields[name] for name in names]).tolist()))
            for fields in (vars(recording), reference)
        )
        if ours - theirs or (theirs - ours).total() != counted[what]:
            return f"{what} differ"
    if counted["trials"] == 0 and not np.array_equal(recording.trials, reference["trials"]):
        return "trials differ"
    if not np.isin(recording.trials[:, 0], reference["trials"][:, 0]).all():
        return "trials differ"
    same_units = np.array_equal([name.split("#")[0] for name in recording.unit_ids], reference["unit_ids"])
    return fault(vars(recording)) if same_units else "unit_ids differ"


def _is_faultless(path: Path) -> bool:
    try:
        return fault(reference_readers.read_npz(path)) is None
    except Exception:
        return False


def read_in_process(path: Path, selection: Selection) -> dict[str, np.ndarray]:
    """Replaces `read_in_subprocess` in a process that reads one file."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess_reader.convert(str(path), asdict(selection), folder)
        if (error := Path(folder, "error.txt")).exists():
            raise RecordingError(error.read_text(encoding="utf-8"))
        return load_npz(Path(folder, "recording.npz"))


def main():
    """Fork for each request once the readers are imported, and print a report."""
    warnings.simplefilter("ignore")
    io.read_in_subprocess = read_in_process
    for line in sys.stdin:
        path, source, part = json.loads(line)
        if path.endswith(".nwb"):
            from possm_lite.spikes.io.nwb import import_pynwb

            import_pynwb()
        print(json.dumps(_report_of_child(Path(path), source, part)), flush=True)


def _report_of_child(path: Path, source: str, part: str) -> dict:
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, 2 * SECONDS)
        os.chdir(path.parent)  # where a payload would make its folder
        try:
            outcome = check_file(path, source, part)
            if Path("unpickled").exists():
                outcome = ("wrong", "code in the file was executed")
        except BaseException:
            outcome = ("error", traceback.format_exc())
        os.write(write_end, json.dumps(outcome).encode()[:60_000])
        os._exit(0)
    os.close(write_end)
    with open(read_end, "rb") as pipe:
        written = pipe.read()
    _, status, usage = os.wait4(child, 0)
    died = ("died", f"exit status {os.waitstatus_to_exitcode(status)}")
    outcome, reason = json.loads(written) if written else died
    seconds = usage.ru_utime + usage.ru_stime  # CPU time, which other processes on the machine do not change
    return {"outcome": outcome, "reason": reason, "seconds": seconds, "megabytes": usage.ru_maxrss / 1024}
