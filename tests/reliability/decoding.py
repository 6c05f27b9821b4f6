"""Run by `test_checkpoints.py`: possm-lite in processes of their own, and their ends. Forked, they need not load torch.

Each line on stdin is an order in JSON: `command`, what to give to possm-lite; `after`, seconds until SIGKILL, or the
name of a file at whose appearance it comes; `bytes`, how long a file can become, and `kill`, whether a process that
goes beyond ends there, in the middle of a write, or is told that it cannot, as on a full disk. The answer is a line
with the status of the process and what it said on stderr.
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

import matplotlib.backends.backend_agg  # noqa: F401  this and the next are loaded at first use, by every process anew
import torch._dynamo  # noqa: F401

from possm_lite import commands
from possm_lite.cli import main
from possm_lite.training.checkpoint import TrainingCheckpoint


def decode(order: dict, stderr: int):
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    os.dup2(stderr, 2)
    if order["bytes"] is not None:
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL if order["kill"] else signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_FSIZE, (order["bytes"], order["bytes"]))
    # after every epoch, so that many ends come while it is saving
    commands.TrainingCheckpoint = partial(TrainingCheckpoint, share=math.inf)
    try:
        os._exit(main(order["command"]))
    except BaseException:
        traceback.print_exc()
        os._exit(1)


def wait(after: float | str):
    if not isinstance(after, str):
        return time.sleep(after)
    gives_up = time.monotonic() + 60
    while not os.path.exists(after) and time.monotonic() < gives_up:
        time.sleep(0.002)


def carry_out(order: dict) -> dict:
    reads, writes = os.pipe()
    process = os.fork()
    if not process:
        decode(order, writes)
    os.close(writes)
    if order["after"] is not None:
        wait(order["after"])
        os.kill(process, signal.SIGKILL)
    with open(reads) as stderr:
        said = stderr.read()
    return {"status": os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]), "stderr": said}


for line in sys.stdin:
    print(json.dumps(carry_out(json.loads(line))), flush=True)
