"""Training that is killed repeatedly, or runs out of disk space, ends with the weights of an undisturbed training."""

import os
import signal
import sys
import time
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

from possm_lite.app import experiment
from possm_lite.app.cli import main
from possm_lite.training.checkpoint import TrainingCheckpoint

from ..forks import FORKS
from ..test_cli import RESULTS, SMALL, names
from ..training.helpers import assert_same_checkpoints, simulated

resource = pytest.importorskip("resource")
TIMEOUT_S, EPOCHS = 300, 8


def run_command(folder: Path, command: list[str], limit: int | None, kill: bool, errors):
    """Run possm-lite, its stderr in a pipe. Beyond a limit of the size of a file a write is an error, or kills."""
    os.chdir(folder)
    os.dup2(errors.fileno(), 2)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    torch.set_num_threads(1)
    if limit:
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL if kill else signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    # saved after every epoch, so that many processes are killed during a save
    experiment.TrainingCheckpoint = partial(TrainingCheckpoint, every_s=0.0)
    sys.exit(main(command))


@pytest.fixture(scope="module")
def decode(tmp_path_factory):
    """Starts a run, or resumes it if it exists; kills it after so many seconds, or when a file appears."""
    folder = tmp_path_factory.mktemp("killed")
    simulated(0, 4).save(folder / "a.npz")

    def decode(run: str, after: float | str | None = None, limit=None, kill=False) -> tuple[int, str]:
        new = ["a.npz", "--epochs", str(EPOCHS), *SMALL, "--out", run]
        command = ["decode", *(["--resume", run] if (folder / run).exists() else new)]
        reader, writer = FORKS.Pipe(duplex=False)
        process = FORKS.Process(target=run_command, args=(folder, command, limit, kill, writer))
        process.start()
        writer.close()
        if isinstance(after, str):
            wait_for(folder / after)
        else:
            process.join(TIMEOUT_S if after is None else after)
        process.kill()
        process.join()
        with open(reader.fileno(), closefd=False) as stderr:
            return process.exitcode, stderr.read()

    decode.folder = folder
    return decode


def wait_for(path: Path):
    deadline = time.monotonic() + TIMEOUT_S
    while not path.exists() and time.monotonic() < deadline:
        time.sleep(0.002)


def epochs_saved(run: Path) -> int:
    """Epochs in the newest state, which can always be read."""
    path = run / "training.pt"
    return len(torch.load(path, weights_only=True)["history"]["loss"]) if path.exists() else 0


def test_random_kills_end_with_the_same_weights(decode, rounds, record):
    """In turn: killed while writing a file, killed at any moment, and out of disk space (a limit on the file size)."""
    rng, folder = np.random.default_rng(), decode.folder
    assert decode("interrupted", after="interrupted/training.pt")[0] == -signal.SIGKILL
    size = (folder / "interrupted" / "training.pt").stat().st_size
    start = time.perf_counter()
    assert decode("whole")[0] == 0
    duration = time.perf_counter() - start
    wanted, partial_files, number, saved = rounds(6, 60), 0, 0, 0
    for stop in range(wanted):
        run = folder / f"run-{number}"
        if stop % 3 == 1:
            status, stderr = decode(run.name, after=rng.uniform(0, 0.7 * duration))
        else:
            limit = 50 if stop % 2 else int(rng.integers(1000, size))  # in any file, or in any file of arrays
            status, stderr = decode(run.name, limit=limit, kill=stop % 3 == 0)
        if status == 2:
            lines = [line for line in stderr.splitlines() if line.startswith("possm-lite: ")]
            assert len(lines) == 1 and "could not be written: File too large" in lines[0]
            assert run.exists() == lines[0].endswith(f"possm-lite decode --resume {run.name}")
            assert not run.exists() or not list(run.glob(".*.partial"))
        else:
            assert status in (0, -signal.SIGKILL, -signal.SIGXFSZ), stderr
        if status and (run / "unfinished.json").exists():
            partial_files += any(run.glob(".*.partial"))
            before, saved = saved, epochs_saved(run)
            assert before <= saved <= EPOCHS
        elif run.exists():  # finished, though perhaps killed before it removed the state
            (run / "training.pt").unlink(missing_ok=True)
            assert_same_checkpoints(run, folder / "whole")
            number, saved = number + 1, 0
    for name in ("interrupted", f"run-{number}"):
        assert decode(name)[0] == 0 and names(folder / name) == RESULTS
        assert_same_checkpoints(folder / name, folder / "whole")
    assert partial_files >= wanted // 6
    record(
        "trainings killed while writing, killed at any moment, or out of disk space",
        f"{wanted}: resumed to the weights of an undisturbed training, bit for bit",
    )
