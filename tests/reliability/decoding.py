"""A fork server for `test_checkpoints.py`: runs possm-lite in child processes, which need not load torch again.

Each line on stdin is a request in JSON: `command`, the arguments of possm-lite; `after`, seconds until SIGKILL, or the
name of a file whose appearance triggers it; `bytes`, the limit of the size of a file, and `kill`, whether exceeding it
kills the process in the middle of the write, or is an error of the write, as on a full disk. The response is a line in
JSON with the status of the process and its stderr.
"""

import json
import math
import os
import resource
import signal
import sys
import time
import traceback
from functools import partial

import matplotlib.backends.backend_agg  # noqa: F401  this and the next are else loaded by every child
import torch._dynamo  # noqa: F401

from possm_lite import commands
from possm_lite.cli import main
from possm_lite.training.checkpoint import TrainingCheckpoint


def run_child(request: dict, stderr: int):
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    os.dup2(stderr, 2)
    if request["bytes"] is not None:
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL if request["kill"] else signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_FSIZE, (request["bytes"], request["bytes"]))
    # saved after every epoch, so that many processes are killed during a save
    commands.TrainingCheckpoint = partial(TrainingCheckpoint, share=math.inf)
    try:
        os._exit(main(request["command"]))
    except BaseException:
        traceback.print_exc()
        os._exit(1)


def wait(after: float | str):
    if not isinstance(after, str):
        return time.sleep(after)
    deadline = time.monotonic() + 60
    while not os.path.exists(after) and time.monotonic() < deadline:
        time.sleep(0.002)


def handle(request: dict) -> dict:
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        run_child(request, writer)
    os.close(writer)
    if request["after"] is not None:
        wait(request["after"])
        os.kill(child, signal.SIGKILL)
    with open(reader) as file:
        stderr = file.read()
    return {"status": os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), "stderr": stderr}


for line in sys.stdin:
    print(json.dumps(handle(json.loads(line))), flush=True)
