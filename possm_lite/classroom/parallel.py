"""Trainings that do not depend on each other, on several cores of the computer."""

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor

import joblib
import torch
from joblib.externals.loky import get_reusable_executor

N_LARGEST = 4  # each process takes about half a gigabyte


def start_processes() -> None:
    """Start the processes of `in_parallel` in the background, for they need seconds until they have imported torch."""
    for _ in range(_n_workers()):
        _workers().submit(_import_torch)


def _import_torch():
    import torch._dynamo  # noqa: F401  as an optimizer does in its first step: half of the seconds


def in_parallel(function: Callable, calls: Iterable[tuple]) -> list:
    """`[function(*arguments) for arguments in calls]`, several calls at a time, each with one thread.

    This process and a worker process for every further core: each takes the next call when it has finished one.
    A worker has a copy of what the function uses, and what a call prints or changes there is lost: use what it returns.
    On a computer with one core, or where LOKY_MAX_CPU_COUNT=1, all calls run here.

    Raises: what a call raises.
    """
    waiting, results, n_threads = enumerate(list(calls)), {}, torch.get_num_threads()

    def take_calls(run: Callable):
        for i, arguments in waiting:
            results[i] = run(function, *arguments)

    with ThreadPoolExecutor(N_LARGEST) as pool:  # each of its threads waits for one worker
        taken = [pool.submit(take_calls, _run_in_worker) for _ in range(_n_workers())]
        try:
            torch.set_num_threads(1)
            with torch.random.fork_rng([]):  # a seed that is set in a call ends with it, as it does in a worker
                take_calls(_run_here)
            for thread in taken:
                thread.result()
        except BaseException:  # also Ctrl-C: nobody needs the other calls now
            if taken:
                _workers().shutdown(kill_workers=True)
            raise
        finally:
            torch.set_num_threads(n_threads)
    return [results[i] for i in range(len(results))]


def _run_here(function: Callable, *arguments):
    return function(*arguments)


def _run_in_worker(function: Callable, *arguments):
    return _workers().submit(function, *arguments).result()


def _workers():
    threads = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    return get_reusable_executor(_n_workers(), timeout=300, env=threads)


def _n_workers() -> int:
    return min(joblib.cpu_count(), N_LARGEST) - 1
