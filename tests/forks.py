"""Processes that are forks of one that has imported already what takes seconds; kernels among them. Not on Windows."""

import multiprocessing
import os
import time

import matplotlib
from ipykernel.kernelapp import IPKernelApp

FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(["torch._dynamo", "possm_lite.app.commands", "matplotlib.pyplot", __name__])


class ForkedKernel(FORKS.Process):
    """Instead of the `subprocess.Popen` that starts a kernel."""

    stdin = stdout = stderr = None
    wait = FORKS.Process.join

    def __init__(self, command: list[str], cwd: str, **_):
        super().__init__(daemon=True)
        self.arguments, self.folder = command[command.index("-f") :], cwd
        self.start()
        while os.getpgid(self.pid) != self.pid:  # a kernel is ended with its group
            time.sleep(0.01)

    def run(self):
        os.setpgid(0, 0)
        os.chdir(self.folder)
        matplotlib.rcParams["backend"] = "module://matplotlib_inline.backend_inline"
        IPKernelApp.launch_instance(self.arguments)

    def poll(self) -> int | None:
        return self.exitcode
