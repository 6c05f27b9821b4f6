"""Several processes train like one; if one of them fails, all stop and a line says why."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from possm_lite.app import experiment
from possm_lite.app.cli import main
from possm_lite.errors import DistributedError
from possm_lite.recordings.arrays import read_arrays
from possm_lite.training.distributed import SINGLE_PROCESS, ProcessGroup
from possm_lite.training.windows import slots_of_rank

from ..test_cli import RESULTS, names
from .distributed_worker import CASES, first_gradients
from .helpers import InterruptedCheckpoint, simulated

WORKER = Path(__file__).with_name("distributed_worker.py")
ENVIRONMENT = {k: v for k, v in os.environ.items() if k != "TORCHELASTIC_RUN_ID"} | {"OMP_NUM_THREADS": "1"}


def torchrun(size, *arguments, **options) -> subprocess.Popen:
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(size), *arguments]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    return subprocess.Popen(command, env=ENVIRONMENT, **pipes, **options)


def finish(process, *starts) -> tuple[int, list[str]]:
    """Exit status, and the lines of errors or with other given starts."""
    output, _ = process.communicate(timeout=120)
    lines = output.splitlines()
    return process.returncode, [line for line in lines if line.startswith(("possm-lite:", "[rank", *starts))]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two small recordings and a damaged one."""
    folder = tmp_path_factory.mktemp("distributed")
    for n in (1, 2):
        simulated(n, 4 + n).save(folder / f"s{n}.npz")
    (folder / "broken.npz").write_bytes((folder / "s2.npz").read_bytes()[:2000])
    return folder


def test_gradients_equal_those_of_one_process(tmp_path):
    status, lines = finish(torchrun(2, str(WORKER), str(tmp_path / "gradients")))
    assert status == 0, lines
    for rank in range(2):
        saved = np.load(tmp_path / f"gradients-{rank}.npz")
        assert not saved["threads"].size  # a thread of the group left at exit can abort the process
        for name, case in CASES.items():
            expected = first_gradients(*case, SINGLE_PROCESS)
            scale = np.abs(expected).max()
            assert scale > 1e-3
            np.testing.assert_allclose(saved[name], expected, rtol=0, atol=1e-6 * scale, err_msg=name)


def test_interrupted_run_resumes_in_two_processes(folder, monkeypatch):
    """More processes than sessions, too."""
    monkeypatch.chdir(folder)
    assert main(["decode", "s1.npz", "--epochs", "3", "--out", "one"]) == 0
    monkeypatch.setattr(experiment, "TrainingCheckpoint", InterruptedCheckpoint)
    assert main(["decode", "s1.npz", "--epochs", "3", "--out", "two"]) == 130
    status, lines = finish(torchrun(2, "-m", "possm_lite", "decode", "--resume", "two", cwd=folder), "R² mean")
    assert status == 0 and len(lines) == 1, lines  # one process prints
    assert names(folder / "two") == RESULTS
    expected, arrays = (read_arrays(folder / run / "checkpoint.npz") for run in ("one", "two"))
    for name in arrays.keys() - {"format", "about"}:
        np.testing.assert_allclose(arrays[name], expected[name], rtol=0, atol=1e-5, err_msg=name)


def test_one_failing_process_stops_all(folder):
    before = names(folder)
    decode = ["-m", "possm_lite", "decode", "s1.npz", "broken.npz", "--epochs", "1", "--out", "failed"]
    status, lines = finish(torchrun(2, *decode, cwd=folder))
    assert status != 0 and any(line.startswith("possm-lite: broken.npz: ") for line in lines), lines
    assert all(line.startswith("possm-lite: ") for line in lines), lines
    assert names(folder) == before


def test_one_killed_process_stops_all(folder):
    before = names(folder)
    decode = ["-m", "possm_lite", "decode", "s1.npz", "s2.npz", "--epochs", "100000", "--out", "killed"]
    process = torchrun(2, *decode, cwd=folder)
    process.stdout.readline()  # printed once all processes have met
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    os.kill(max(map(int, children)), signal.SIGKILL)
    status, lines = finish(process)
    assert status != 0 and len(lines) <= 1, lines  # this process, or torchrun, notices it first
    assert all("another process died" in line and line.endswith("decode --resume killed") for line in lines), lines
    assert set(names(folder)) - set(before) == {"killed"}
    files = {name for name in names(folder / "killed") if not name.endswith(".partial")}
    assert {"unfinished.json"} <= files <= {"unfinished.json", "training.pt"}


def test_more_processes_than_windows_are_refused():
    with pytest.raises(DistributedError, match="5 processes cannot share a batch of 4 windows"):
        slots_of_rank(ProcessGroup(0, 5), 4)
