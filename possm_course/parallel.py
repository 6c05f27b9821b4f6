"""Trainings that do not depend on each other, on several cores of the computer."""

import contextlib
import threading
from collections.abc import Callable, Iterable

import joblib
import torch

N_LARGEST = 4  # each process takes about half a gigabyte


def in_parallel(function: Callable, calls: Iterable[tuple]) -> list:
    """The results of calls that do not depend on each other, several at a time.

    Each call has a process with one thread and a copy of what the function uses, at most `N_LARGEST` at a time. With
    one core, or LOKY_MAX_CPU_COUNT=1, all run in this process.

    Args:
        function: What is called; one defined in a notebook, too.
        calls: The arguments of each call, as a tuple.

    Returns:
        `[function(*arguments) for arguments in calls]`.
    """
    n_processes = min(joblib.cpu_count(), N_LARGEST)
    with joblib.parallel_config("loky", n_jobs=n_processes, inner_max_num_threads=1):
        # one call at a time, so that each has its own copy; arrays mapped to memory could not be changed
        run = joblib.Parallel(batch_size=1, max_nbytes=None)
        return run(joblib.delayed(_call)(function, arguments) for arguments in calls)


def _call(function: Callable, arguments: tuple):
    """The result of one call, without a trace in torch's random numbers."""
    with torch.random.fork_rng([]):  # a seed set in a call does not outlast it
        return function(*arguments)


def start_processes() -> None:
    """Start the processes of `in_parallel` in the background, for they need seconds until they have imported torch."""
    if joblib.cpu_count() > 1:
        threading.Thread(target=_import_training, daemon=True).start()


def _import_training() -> None:
    """Make every process import torch."""
    with contextlib.suppress(RuntimeError):  # interrupted
        in_parallel(__import__, [("possm_lite.training",)] * N_LARGEST)
