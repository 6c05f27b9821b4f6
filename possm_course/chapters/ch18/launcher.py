"""Several processes started from a notebook by torchrun (chapter 18)."""

import json
import os
import subprocess
import sys
from pathlib import Path

import possm_lite

# imports what torchrun and its programs need, and then forks a torchrun for each line of arguments
LAUNCHER = """
import json, os, signal, sys
signal.signal(signal.SIGINT, signal.SIG_DFL)
import possm_lite.app.commands, possm_lite.app.experiment, torch._dynamo
from torch.distributed import run
for line in sys.stdin:
    if child := os.fork():
        print(os.waitpid(child, 0)[1], flush=True)
        continue
    for number, name in ((1, "stdout"), (2, "stderr")):
        os.dup2(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
    run.main(json.loads(line))
    break
"""
MODULE = str(Path(possm_lite.__file__).with_name("__main__.py"))  # the program of `-m possm_lite`


class Torchrun:
    """`torchrun --nproc-per-node PROCESSES ARGUMENTS` in a folder.

    On Linux it has torch imported before. Called with arguments and the number of processes, it
    returns what was written and raises RuntimeError if a process fails.

    Args:
        folder: where the processes run.
    """

    def __init__(self, folder: Path):
        environment = {k: v for k, v in os.environ.items() if k != "TORCHELASTIC_RUN_ID"}
        environment["OMP_NUM_THREADS"] = "1"
        environment["TMPDIR"] = str(folder)  # torchrun leaves a folder of its own behind
        self._folder = folder
        self._options = {"cwd": folder, "env": environment, "text": True}
        self._start()

    def _start(self):
        """On Linux, start the launcher, which imports torch once for all calls."""
        if sys.platform == "linux":
            pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
            command = [sys.executable, "-c", LAUNCHER]
            self._launcher = subprocess.Popen(command, **pipes, **self._options)

    def __call__(self, *arguments: str, processes: int) -> subprocess.CompletedProcess:
        options = ["--standalone", "--nproc-per-node", str(processes)]
        if sys.platform == "linux":
            done = self._fork([*options, "--start-method", "fork", "--run-path", *arguments])
        else:
            done = self._spawn([*options, "--start-method", "spawn", "--run-path", *arguments])
        if done.returncode:
            raise RuntimeError(done.stderr)
        return done

    def _fork(self, line: list[str]) -> subprocess.CompletedProcess:
        """Run torchrun with a line of arguments in a fork of the launcher."""
        if self._launcher.poll() is not None:  # a cell was interrupted
            self._start()
        print(json.dumps(line), file=self._launcher.stdin, flush=True)
        status = int(self._launcher.stdout.readline())
        written = [(self._folder / name).read_text() for name in ("stdout", "stderr")]
        return subprocess.CompletedProcess(line, status, *written)

    def _spawn(self, line: list[str]) -> subprocess.CompletedProcess:
        """Run torchrun with a line of arguments in a new process."""
        command = [sys.executable, "-m", "torch.distributed.run", *line]
        return subprocess.run(command, capture_output=True, timeout=300, **self._options)
