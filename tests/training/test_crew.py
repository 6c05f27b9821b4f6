"""Several processes train as one would, and when one of them fails all stop and one says why."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from possm_lite.errors import DistributedError
from possm_lite.spikes import simulate_session
from possm_lite.spikes.simulation.neurons import SimulationConfig
from possm_lite.training.distributed import SINGLE_PROCESS, process_group
from possm_lite.training.windows import ProcessGroup, slots_of_rank

WORKER = Path(__file__).with_name("crew_worker.py")
ENVIRONMENT = {k: v for k, v in os.environ.items() if k != "TORCHELASTIC_RUN_ID"} | {"OMP_NUM_THREADS": "1"}


def torchrun(size, *arguments, **options) -> subprocess.Popen:
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(size), *arguments]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    return subprocess.Popen(command, env=ENVIRONMENT, **pipes, **options)


def finish(process) -> tuple[int, list[str]]:
    said, _ = process.communicate(timeout=120)
    return process.returncode, said.splitlines()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two small recordings and one that is broken."""
    folder = tmp_path_factory.mktemp("crew")
    for n in (1, 2):
        simulate_session(n, SimulationConfig(n_trials=8, n_units=4 + n)).recording.save(folder / f"s{n}.npz")
    (folder / "broken.npz").write_bytes((folder / "s2.npz").read_bytes()[:2000])
    return folder


@pytest.fixture(scope="module")
def by_one(tmp_path_factory):
    path = tmp_path_factory.mktemp("one") / "gradients"
    subprocess.run([sys.executable, WORKER, path], env=ENVIRONMENT, check=True, timeout=120)
    return np.load(f"{path}-0.npz")


@pytest.mark.parametrize("size", [2, 3])
def test_gradients_are_those_of_one_process_with_the_same_global_batch(tmp_path, by_one, size):
    status, said = finish(torchrun(size, str(WORKER), str(tmp_path / "gradients")))
    assert status == 0, said
    for rank in range(size):
        ours = np.load(tmp_path / f"gradients-{rank}.npz")
        assert set(ours) == set(by_one)
        for name in by_one:
            scale = np.abs(by_one[name]).max()
            assert scale > 1e-3
            np.testing.assert_allclose(ours[name], by_one[name], rtol=0, atol=1e-6 * scale, err_msg=name)
        left = np.load(tmp_path / f"gradients-{rank}-threads.npz")["left"]
        assert not left.size, "a thread that outlives its group can abort the process at its end"


def test_more_processes_than_sessions_decode(folder):
    out = folder / "more"
    status, said = finish(
        torchrun(2, "-m", "possm_lite", "decode", "s1.npz", "--epochs", "1", "--out", out, cwd=folder)
    )
    assert status == 0, said
    assert sum(line.startswith("POSSM  ") for line in said) == 1  # one table, not two
    assert sorted(p.name for p in out.iterdir()) == ["checkpoint.npz", "decoded.png", "metrics.json"]


def test_one_that_fails_stops_all_with_one_line(folder):
    before = sorted(folder.iterdir())
    decode = ["-m", "possm_lite", "decode", "s1.npz", "broken.npz", "--epochs", "1", "--out", "failed"]
    status, said = finish(torchrun(2, *decode, cwd=folder))
    assert status != 0
    ours = [line for line in said if line.startswith(("possm-lite:", "[rank"))]
    assert len(ours) == 1 and ours[0].startswith("possm-lite: broken.npz: "), said
    assert sorted(folder.iterdir()) == before


def test_one_that_is_killed_stops_all_with_one_line(folder):
    before = sorted(folder.iterdir())
    decode = ["-m", "possm_lite", "decode", "s1.npz", "s2.npz", "--epochs", "100000", "--out", "killed"]
    process = torchrun(2, *decode, cwd=folder)
    process.stdout.readline()  # what is decoded is said when all processes have met
    time.sleep(2)
    os.kill(max(children(process.pid)), signal.SIGKILL)
    status, said = finish(process)
    assert status != 0
    ours = [line for line in said if "possm-lite:" in line or "[rank" in line]
    assert len(ours) == 1 and "another process has gone away" in ours[0], said
    assert ours[0].endswith("; to go on: possm-lite decode --resume killed")
    assert {p.name for p in folder.iterdir()} - {p.name for p in before} == {"killed"}
    left = {p.name for p in (folder / "killed").iterdir() if p.suffix != ".partial"}
    assert {"unfinished.json"} <= left <= {"unfinished.json", "training.npz"}


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def test_without_torchrun_a_process_is_alone(monkeypatch):
    monkeypatch.delenv("TORCHELASTIC_RUN_ID", raising=False)
    with process_group() as us:
        assert us is SINGLE_PROCESS and us.is_main
        assert us.all_gather({2: "b", 1: "a"}) == {1: "a", 2: "b"} and us.all_reduce_sum(2.5) == 2.5


def test_more_processes_than_windows_are_refused():
    with pytest.raises(DistributedError, match="5 processes cannot share a batch of 4 windows"):
        slots_of_rank(ProcessGroup(0, 5), 4)
