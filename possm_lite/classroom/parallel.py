"""Trainings that do not depend on each other, on several cores of the computer."""

import threading
from collections.abc import Callable, Iterable

import joblib
import torch

N_LARGEST = 4  # each process takes about half a gigabyte


def start_processes() -> None:
    """Start the processes of `in_parallel` in the background, for they need seconds until they have imported torch."""
    if _n_processes() > 1:
        calls = [()] * _n_processes()
        threading.Thread(None, in_parallel, "start_processes", (_import_torch, calls), daemon=True).start()


def _import_torch():
    import torch._dynamo  # noqa: F401  as an optimizer does in its first step: half of the seconds


def in_parallel(function: Callable, calls: Iterable[tuple]) -> list:
    """`[function(*arguments) for arguments in calls]`, several calls at a time, each in a process with one thread.

    A process has a copy of what the function uses: what it prints or changes there is lost, what it returns comes back.
    On a computer with one core, or where LOKY_MAX_CPU_COUNT=1, the calls run here, one after another.

    Raises: what a call raises.
    """
    n_processes = _n_processes()
    if n_processes == 1:
        with torch.random.fork_rng([]):  # a seed that is set in a call ends with it, as it does in a process
            return [function(*arguments) for arguments in calls]
    with joblib.parallel_config("loky", inner_max_num_threads=1):
        return joblib.Parallel(n_processes)(joblib.delayed(function)(*arguments) for arguments in calls)


def _n_processes() -> int:
    return min(joblib.cpu_count(), N_LARGEST)
