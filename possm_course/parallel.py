"""Trainings that do not depend on each other, on several cores of the computer."""

import contextlib
import threading
from collections.abc import Callable, Iterable

import joblib
import torch

N_LARGEST = 4  # each process takes about half a gigabyte


def in_parallel(function: Callable, calls: Iterable[tuple]) -> list:
    """`[function(*arguments) for arguments in calls]`, several at a time, each in a process with one thread and with
    a copy of what the function uses. With one core, or LOKY_MAX_CPU_COUNT=1, all run in this process."""
    with joblib.parallel_config("loky", n_jobs=min(joblib.cpu_count(), N_LARGEST), inner_max_num_threads=1):
        # one call at a time, so that each has its own copy; arrays mapped to memory could not be changed
        return joblib.Parallel(batch_size=1, max_nbytes=None)(joblib.delayed(_call)(function, own) for own in calls)


def _call(function: Callable, arguments: tuple):
    with torch.random.fork_rng([]):  # a seed set in a call does not outlast it
        return function(*arguments)


def start_processes() -> None:
    """Start the processes of `in_parallel` in the background, for they need seconds until they have imported torch."""
    if joblib.cpu_count() > 1:
        threading.Thread(target=_import_training, daemon=True).start()


def _import_training() -> None:
    with contextlib.suppress(RuntimeError):  # interrupted
        in_parallel(__import__, [("possm_lite.training",)] * N_LARGEST)
