"""Reads broken recordings in child processes with little time and memory, and compares them with reference readers.

A file that is read must contain what the reference reader reads, and a file with a fault must be refused.

    python -m tests.reliability.fuzz_runner        a JSON request per line of input, a JSON report per line of output
"""

import contextlib
import importlib
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
from possm_lite.spikes.derivative import differentiate
from possm_lite.spikes.io import subprocess_reader
from possm_lite.spikes.io.contents import Selection

from . import reference_readers
from .mutations import good_recording, good_variables
from .reference_readers import Reference, as_reference

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

    def __call__(self, *request) -> dict:
        """The outcome and reason of `check_file`, with seconds and megabytes used."""
        self.process.stdin.write(json.dumps(request, default=str) + "\n")
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
        "number of behavior_columns": fields["behavior_columns"].shape not in ((0,), fields["behavior"].shape[1:]),
        "number of spike_units": len(fields["spike_units"]) != len(spikes),
        "unsorted spike_times": (spikes[1:] < spikes[:-1]).any(),
        "unknown unit": any(not 0 <= int(unit) < units.size for unit in fields["spike_units"]),
        "unit_ids": units.ndim != 1 or len(set(units.tolist())) < max(len(units), 1),
        "number of behavior_times": len(times) != len(fields["behavior"]) or len(times) == 1,
        "nothing": len(times) == len(spikes) == 0,
        "unsorted behavior_times": (times[1:] <= times[:-1]).any(),
        "reversed trial": (trials[:, 1] <= trials[:, 0]).any(),
        "overlapping trials": (trials[1:, 0] < trials[:-1, 1]).any(),
    }
    return next((name for name, is_present in faults.items() if is_present), None)


def difference_in_counts(recording: Recording, variables: dict, options: dict) -> str | None:
    """The first difference of a recording from the variables of a MATLAB file, or None."""
    starts, counts, velocity = (variables[name].astype(np.float64) for name in ("time", "spikes", "handVel"))
    counts = counts[_rows(options.get("units"), {"id": np.arange(len(counts)).astype(str)})]
    velocity = velocity[[int(column) for column in options.get("columns", range(len(velocity)))]]
    width = recording.sample_interval
    edges = np.append(recording.behavior_times, recording.behavior_times[-1] + width)
    ours = np.zeros(counts.shape)
    np.add.at(ours, (recording.spike_units, np.searchsorted(edges, recording.spike_times, side="right") - 1), 1)
    if not np.array_equal(ours, counts):
        return "counts differ"
    if np.abs(starts.ravel() - recording.behavior_times).max() > 0.021 * width:
        return "behavior_times differ"
    return None if np.array_equal(velocity.T, recording.behavior) else "velocity differs"


def check_file(format_name: str, path: Path, part: str, options: dict) -> tuple[str, str]:
    """Outcome and reason: "read", "refused" or, for an error of the package, "wrong".

    Args:
        format_name: a key of `FORMATS`.
        path: the broken file or folder, with the name of the good one that it was made from.
        part: what was broken, "bytes", "field" or "container".
        options: of `load_recording`.
    """
    try:
        recording = io.load_recording(path, **options)
    except RecordingError as exc:
        message = str(exc)
        if not message.startswith(f"{path}: ") or "\n" in message or len(message) > len(str(path)) + 900:
            return "wrong", f"not one line that begins with the path: {message!r}"
        needless = part == "field" and format_name == "npz" and not options and "must cover every trial" not in message
        return "wrong" if needless and _is_faultless(path) else "refused", message.removeprefix(f"{path}: ")
    try:
        found = fault(vars(recording)) or _difference_from_reference(recording, format_name, path, part, options)
    except Exception as exc:
        return "wrong", f"was read, but the reference reader raised {exc!r}"
    return ("wrong", f"was read, but {found}") if found else ("read", "")


def _difference_from_reference(recording, format_name: str, path: Path, part: str, options: dict) -> str | None:
    if format_name == "mat":
        has_checksums = path.stem == "compressed" and part == "bytes"
        variables = good_variables() if has_checksums else reference_readers.read_mat(path)
        return difference_in_counts(recording, variables, options)
    if format_name != "npz":
        return difference(recording, reference_readers.READERS[format_name](path), options)
    has_checksums = part == "bytes"
    fields = vars(good_recording(path.stem == "clock")) if has_checksums else reference_readers.read_npz(path)
    names = () if options else ("behavior_name", "behavior_unit", "session_id", "notes")
    same = all(getattr(recording, name) == fields[name] for name in names)
    return fault(fields) or difference(recording, as_reference(fields), options) or (None if same else "texts differ")


def difference(recording: Recording, reference: Reference, options: dict) -> str | None:
    """The first difference from what a file holds and the options select, where rows that a note counts may be missing.

    A filter is evaluated by Python, for each row by itself.
    """
    counted = Counter()
    for note in recording.notes:
        if match := re.match(r"(\d+) of \d+ (spikes|rows|samples of behaviour|trials) .*were left out\.", note):
            counted[match[2].split()[0].replace("rows", "samples")] += int(match[1])
    # spikes
    times, units = np.float64(reference.spike_times), np.int64(reference.spike_units)
    finite, ids = np.isfinite(times), reference.unit_ids.astype(str)
    rate = np.bincount(units[finite], minlength=len(ids)) / max(np.ptp(times[finite]), 1e-9)
    kept = _rows(options.get("units"), {**reference.unit_table, "id": ids, "rate": rate})
    if not np.array_equal([name.split("#")[0] for name in recording.unit_ids], ids[kept]):
        return "unit_ids differ"
    index = np.cumsum(kept) - 1
    chosen = finite & kept[units]
    theirs = Counter(zip(times[chosen].tolist(), index[units[chosen]].tolist(), strict=True))
    ours = Counter(zip(recording.spike_times.tolist(), recording.spike_units.tolist(), strict=True))
    if ours != theirs or counted["spikes"] != (~finite).sum():
        return "spikes differ"
    # trials
    trials = np.float64(reference.trials)
    table = {**reference.trial_table, "start": trials[:, 0], "stop": trials[:, 1], "duration": np.diff(trials)[:, 0]}
    trials = trials[_rows(options.get("trials"), table)]
    moved = any("trials overlapped" in note or "trials were not in order" in note for note in recording.notes)
    same = moved or counted["trials"] > 0 or np.array_equal(recording.trials, trials)
    same &= len(recording.trials) + counted["trials"] == len(trials)
    if not same or not np.isin(recording.trials[:, 0], trials[:, 0]).all():
        return "trials differ"
    if options.get("spikes_only"):
        return "behaviour was read" if len(recording.behavior) else None
    # behaviour
    name = recording.behavior_name
    wanted = options.get("behavior", "").removesuffix(":raw")
    if wanted not in name:
        return f"{name} was read, not {wanted}"
    times, values = reference.series(name.removeprefix("velocity of "))
    values = np.float64(values).reshape(len(values), -1)
    late = np.append(False, times[1:] <= np.fmax.accumulate(np.where(np.isfinite(times), times, np.nan))[:-1])
    good = np.isfinite(times) & ~late
    times, values = np.float64(times)[good], values[good]
    if name.startswith("velocity of "):
        values, _ = differentiate(times, values)
    values = values[:, [int(column) for column in options.get("columns", range(values.shape[1]))]]
    with np.errstate(over="ignore"):  # the last bit of a number in a text depends on the version of pandas
        theirs, ours = (
            Counter(map(tuple, np.column_stack(rows).astype(np.float32).tolist()))
            for rows in ((times, values), (recording.behavior_times, recording.behavior))
        )
    if ours - theirs or (theirs - ours).total() != counted["samples"]:
        return "samples differ"
    return None


def _rows(expression: str | None, table: dict[str, np.ndarray]) -> np.ndarray:
    """The rows of a table for which an expression holds, (n,) bool."""
    rows = zip(*(column.tolist() for column in table.values()), strict=True)
    return np.array([bool(eval(expression or "True", {}, dict(zip(table, row, strict=True)))) for row in rows], bool)


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
    os.environ["PYNWB_NO_CACHE_DIR"] = "1"
    for module in ("pynwb", "pandas", "scipy.io"):  # slow to import, so before the fork
        with contextlib.suppress(ImportError):
            importlib.import_module(module)
    io.read_in_subprocess = read_in_process
    for line in sys.stdin:
        format_name, path, *request = json.loads(line)
        print(json.dumps(_report_of_child(format_name, Path(path), *request)), flush=True)


def _report_of_child(format_name: str, path: Path, *request) -> dict:
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
            outcome = check_file(format_name, path, *request)
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
