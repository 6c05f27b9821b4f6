"""Trainings that do not depend on each other, on several cores of the computer.

Not with the pool of a library: with those of multiprocessing and loky comes a process that ignores the signal to end. A
Jupyter kernel that is shut down waits for it until it is killed itself, and its temporary folders stay.
"""

import os
import pickle
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import joblib
import torch

N_LARGEST = 4  # each process takes about half a gigabyte
IDLE_S = 300  # then a process ends and gives its memory back
_BEGIN = "import sys; sys.path[:] = {}; from possm_lite.classroom.parallel import _serve; _serve()"
_started: list["_Worker"] = []


def start_processes() -> None:
    """Start the processes of `in_parallel` in the background, for they need seconds until they have imported torch."""
    _workers()


def in_parallel(function: Callable, calls: Iterable[tuple]) -> list:
    """`[function(*arguments) for arguments in calls]`, several calls at a time, each with one thread.

    This process and a worker for every further core, up to three: each takes the next call when it has finished one.
    A worker has a copy of what the function uses, and what a call prints or changes there is lost: use what it returns.
    A call that draws random numbers sets its own seed.
    On a computer with one core, or where LOKY_MAX_CPU_COUNT=1, all calls run here.

    Raises: what a call raises; RuntimeError if a process was killed.
    """
    waiting, results, n_threads = enumerate(list(calls)), {}, torch.get_num_threads()
    workers = _workers()

    def take_calls(run: Callable):
        for i, arguments in waiting:
            results[i] = run(partial(function, *arguments))

    with ThreadPoolExecutor(N_LARGEST) as pool:  # each of its threads waits for one worker
        taken = [pool.submit(take_calls, worker.run) for worker in workers]
        try:
            torch.set_num_threads(1)
            with torch.random.fork_rng([]):  # a seed set in a call does not outlast `in_parallel`
                take_calls(lambda call: call())
            for thread in taken:
                thread.result()
        except BaseException:  # also Ctrl-C: nobody needs the other calls now
            for worker in workers:
                worker.end()
            raise
        finally:
            torch.set_num_threads(n_threads)
    return [results[i] for i in range(len(results))]


def _workers() -> list["_Worker"]:
    """One for every further core, up to three; those that have ended are replaced."""
    _started[:] = [worker for worker in _started if worker.process.poll() is None]
    n_workers = min(joblib.cpu_count(), N_LARGEST) - 1
    _started.extend(_Worker() for _ in range(n_workers - len(_started)))
    return _started[:n_workers]


class _Worker:
    """A process that executes one call after the other."""

    def __init__(self):
        threads = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
        self.process = subprocess.Popen(
            [sys.executable, "-c", _BEGIN.format(sys.path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=os.environ | threads,
            start_new_session=True,  # so Ctrl-C in a terminal is not for it, and no Jupyter kernel waits for it
        )

    def run(self, call: Callable):
        """What `call()` returns there."""
        message = _pickled(call)
        try:
            _send(message, self.process.stdin)
            result, error, where = pickle.loads(pickle.load(self.process.stdout))
        except (EOFError, OSError):
            raise RuntimeError(f"a process of in_parallel was killed: exit status {self.process.wait()}") from None
        if error is not None:
            raise error from RuntimeError(f"in another process:\n{where}")
        return result

    def end(self) -> None:
        self.process.kill()
        self.process.wait()


def _serve() -> None:
    """Executes the calls that arrive at this process, until the other end of the pipe is closed."""
    results = os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what a call prints must not get between the results
    import torch._dynamo  # noqa: F401  as an optimizer does in its first step: half of the seconds

    while True:
        idle = threading.Timer(IDLE_S, os._exit, [0])
        idle.start()
        try:
            message = pickle.load(sys.stdin.buffer)
        except EOFError:
            os._exit(0)  # at once: to take torch apart needs most of a second
        idle.cancel()
        try:
            answer = _pickled((pickle.loads(message)(), None, None))
        except Exception as error:
            answer = _pickled((None, error, traceback.format_exc()))
        _send(answer, results)


def _pickled(value) -> bytes:
    """Also functions and classes of a notebook, which no other process can import."""
    return pickle.dumps(joblib.wrap_non_picklable_objects(value, keep_wrapper=False))


def _send(message: bytes, pipe) -> None:
    pickle.dump(message, pipe)
    pipe.flush()
