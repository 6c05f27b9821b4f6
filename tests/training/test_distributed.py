"""Several processes train like one; if one of them fails, all stop and a line says why."""

import os
import signal
import subprocess
import sys

import numpy as np
import pytest
from torch.distributed.elastic.utils.distributed import get_free_port

from possm_lite.app import experiment
from possm_lite.app.cli import main
from possm_lite.errors import DistributedError
from possm_lite.recordings.arrays import read_arrays
from possm_lite.training.distributed import SINGLE_PROCESS, ProcessGroup
from possm_lite.training.windows import slots_of_rank

from ..forks import FORKS
from ..reliability.test_checkpoints import run_command, wait_for
from ..test_cli import RESULTS, SMALL, names
from .distributed_worker import CASES, first_gradients, save_gradients
from .helpers import InterruptedCheckpoint, simulated

ENVIRONMENT = {k: v for k, v in os.environ.items() if k != "TORCHELASTIC_RUN_ID"} | {"OMP_NUM_THREADS": "1"}


def torchrun(*arguments, starts=(), **options) -> tuple[int, list[str]]:
    """Exit status of two processes, and their lines of errors or with other given starts."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", *arguments]
    run = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, timeout=120, **options)
    lines = (run.stdout + run.stderr).splitlines()
    return run.returncode, [line for line in lines if line.startswith(("possm-lite:", "[rank", *starts))]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two small recordings and a damaged one."""
    folder = tmp_path_factory.mktemp("distributed")
    for n in (1, 2):
        simulated(n, 4 + n).save(folder / f"s{n}.npz")
    (folder / "broken.npz").write_bytes((folder / "s2.npz").read_bytes()[:2000])
    return folder


def test_gradients_equal_those_of_one_process(tmp_path):
    ranks = start_two(save_gradients, str(tmp_path / "gradients"))
    for process in ranks:
        process.join(120)
    assert [process.exitcode for process in ranks] == [0, 0]
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
    decode = ["decode", "s1.npz", "--epochs", "3", *SMALL, "--out"]
    assert main([*decode, "one"]) == 0
    monkeypatch.setattr(experiment, "TrainingCheckpoint", InterruptedCheckpoint)
    assert main([*decode, "two"]) == 130
    status, lines = torchrun("-m", "possm_lite", "decode", "--resume", "two", starts=["R² mean"], cwd=folder)
    assert status == 0 and len(lines) == 1, lines  # one process prints
    assert names(folder / "two") == RESULTS
    expected, arrays = (read_arrays(folder / run / "checkpoint.npz") for run in ("one", "two"))
    for name in arrays.keys() - {"format", "about"}:
        np.testing.assert_allclose(arrays[name], expected[name], rtol=0, atol=1e-5, err_msg=name)


def start_two(function, *arguments) -> list:
    """Two processes of one group, each of which calls the function."""
    port = get_free_port()
    ranks = [FORKS.Process(target=run_rank, args=(n, port, function, *arguments)) for n in (0, 1)]
    for process in ranks:
        process.start()
    return ranks


def run_rank(rank: int, port: int, function, *arguments):
    """What torchrun does, faster."""
    group = {"RANK": rank, "WORLD_SIZE": 2, "MASTER_ADDR": "localhost", "MASTER_PORT": port, "TORCHELASTIC_RUN_ID": 0}
    os.environ.update({name: str(value) for name, value in group.items()})
    function(*arguments)


def decode_in_two(folder, recordings, out, killed_after=None) -> tuple[list[int], list[str]]:
    """Exit statuses of two processes, and sorted lines of errors. The second is killed when a file appears."""
    reader, writer = FORKS.Pipe(duplex=False)
    command = ["decode", *recordings, "--epochs", "1000", *SMALL, "--out", out]
    ranks = start_two(run_command, folder, command, None, False, writer)
    writer.close()
    if killed_after:
        wait_for(folder / killed_after)
        ranks[1].kill()
    with open(reader.fileno(), closefd=False) as errors:
        lines = [line for line in errors.read().splitlines() if line.startswith("possm-lite:")]
    for process in ranks:
        process.join()
    return [process.exitcode for process in ranks], sorted(lines)


def test_one_failing_process_stops_all(folder):
    before = names(folder)
    status, (other, broken) = decode_in_two(folder, ["s1.npz", "broken.npz"], "failed")
    assert status == [2, 2] and names(folder) == before
    assert broken.startswith("possm-lite: broken.npz: ") and "another process died" in other


def test_one_killed_process_stops_all(folder):
    before = names(folder)
    status, (line,) = decode_in_two(folder, ["s1.npz", "s2.npz"], "killed", killed_after="killed/training.pt")
    assert status == [2, -signal.SIGKILL]
    assert "another process died" in line and line.endswith("decode --resume killed")
    assert set(names(folder)) - set(before) == {"killed"}
    files = {name for name in names(folder / "killed") if not name.endswith(".partial")}
    assert files == {"unfinished.json", "training.pt"}


def test_more_processes_than_windows_are_refused():
    with pytest.raises(DistributedError, match="5 processes cannot share a batch of 4 windows"):
        slots_of_rank(ProcessGroup(0, 5), 4)
