"""Training that is killed repeatedly, or runs out of disk space, ends with the weights of an undisturbed training."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from possm_lite.spikes.arrays import read_arrays

from ..test_cli import RESULTS, names
from ..training.helpers import assert_same_checkpoints, simulated

pytest.importorskip("resource")
ROOT = Path(__file__).parents[2]
ENVIRONMENT = {k: v for k, v in os.environ.items() if k != "TORCHELASTIC_RUN_ID"} | {
    "PYTHONPATH": str(ROOT),
    "OMP_NUM_THREADS": "1",
}
TIMEOUT_S, EPOCHS = 300, 8


class Decoder:
    """Runs possm-lite in forked processes that start within milliseconds; see `decoding.py`."""

    def __init__(self, folder: Path):
        self.folder, script = folder, Path(__file__).with_name("decoding.py")
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self._process = subprocess.Popen([sys.executable, script], cwd=folder, env=ENVIRONMENT, **pipes)

    def __call__(self, run: str, after=None, limit=None, kill=False) -> dict:
        """Start a run, or resume it if it exists."""
        new = ["a.npz", "--epochs", str(EPOCHS), "--out", run]
        command = ["decode", *(["--resume", run] if (self.folder / run).exists() else new)]
        order = {"command": command, "after": after, "bytes": limit, "kill": kill}
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def close(self):
        self._process.stdin.close()
        self._process.wait(TIMEOUT_S)
        self._process.stdout.close()


@pytest.fixture(scope="module")
def decode(tmp_path_factory):
    folder = tmp_path_factory.mktemp("killed")
    simulated(0, 4).save(folder / "a.npz")
    decoder = Decoder(folder)
    yield decoder
    decoder.close()


def epochs_saved(run: Path) -> int:
    """Epochs in the newest state, which can always be read."""
    if not (run / "training.npz").exists():
        return 0
    return len(json.loads(str(read_arrays(run / "training.npz")["about"]))["history"]["loss"])


def test_random_kills_end_with_the_same_weights(decode, rounds, record):
    """In turn: killed while writing a file, killed at any moment, and out of disk space (a limit on the file size)."""
    rng, folder = np.random.default_rng(), decode.folder
    assert decode("interrupted", after="interrupted/training.npz")["status"] == -signal.SIGKILL
    size, start = (folder / "interrupted" / "training.npz").stat().st_size, time.perf_counter()
    assert decode("whole")["status"] == 0
    duration = time.perf_counter() - start
    wanted, stops, partial, number, saved = rounds(6, 60), 0, 0, 0, 0
    while stops < wanted:
        run = folder / f"run-{number}"
        if stops % 3 == 1:
            ended = decode(run.name, after=rng.uniform(0, 0.7 * duration))
        else:
            limit = int(rng.integers(1000, size // 4)) if stops % 2 else 50  # in any file of arrays, or in any file
            ended = decode(run.name, limit=limit, kill=stops % 3 == 0)
        if ended["status"] == 2:
            lines = [line for line in ended["stderr"].splitlines() if line.startswith("possm-lite: ")]
            assert len(lines) == 1 and "could not be written: File too large" in lines[0]
            assert run.exists() == lines[0].endswith(f"possm-lite decode --resume {run.name}")
            assert not run.exists() or not list(run.glob(".*.partial"))
        else:
            assert ended["status"] in (0, -signal.SIGKILL, -signal.SIGXFSZ), ended["stderr"]
        stops += 1
        if ended["status"] and (run / "unfinished.json").exists():
            partial += any(run.glob(".*.partial"))
            before, saved = saved, epochs_saved(run)
            assert before <= saved <= EPOCHS
        elif run.exists():  # finished, though perhaps killed before it removed the state
            (run / "training.npz").unlink(missing_ok=True)
            assert_same_checkpoints(run, folder / "whole")
            number, saved = number + 1, 0
    for name in ("interrupted", f"run-{number}"):
        assert decode(name)["status"] == 0
        assert names(folder / name) == RESULTS
        assert_same_checkpoints(folder / name, folder / "whole")
    assert partial >= wanted // 6
    record(
        "trainings killed while writing, killed at any moment, or out of disk space",
        f"{stops}: resumed to the weights of an undisturbed training, bit for bit",
    )


def test_two_processes_resume_with_the_same_weights(decode, rounds, record):
    """One of torchrun's processes is killed. Of two processes gradients are added up in the same order."""
    if not rounds(0, 1):
        pytest.skip("only at length: make soak")
    folder = decode.folder
    simulated(1, 5).save(folder / "b.npz")
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]

    def run(*arguments):
        return subprocess.Popen([*torchrun, "-m", "possm_lite", "decode", *arguments], cwd=folder, env=ENVIRONMENT)

    new = ["a.npz", "b.npz", "--epochs", "200", "--out"]
    assert run(*new, "two").wait(TIMEOUT_S) == 0
    process, deadline = run(*new, "again"), time.monotonic() + TIMEOUT_S
    while not (folder / "again" / "training.npz").exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    os.kill(int(children[-1]), signal.SIGKILL)
    assert process.wait(TIMEOUT_S) != 0
    assert 1 <= epochs_saved(folder / "again") < 200
    assert run("--resume", "again").wait(TIMEOUT_S) == 0
    for session in ("simulated-0", "simulated-1"):
        assert_same_checkpoints(folder / "again" / session, folder / "two" / session)
    record("training on two processes, one of them killed", "resumed to the same weights, bit for bit")
