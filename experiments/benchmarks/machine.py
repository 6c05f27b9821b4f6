"""The machine's description, and timers that are fair on a shared machine."""

import multiprocessing
import os
import platform
import re
import subprocess
import sys
import time
import timeit
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager

import numpy as np
import torch


def describe() -> dict[str, str]:
    """What the results depend on: the machine, its software, its load and the time of a loop."""
    loop_s = timeit.timeit(lambda: exec("for i in range(10**7): pass", {}), number=1)  # as at the prompt: i is global
    return {
        "processor": f"{_processor()}, {torch.backends.cpu.get_cpu_capability()}, {os.cpu_count() or 1} cores",
        "memory": f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.0f} GiB",
        "system": f"{platform.system()} {platform.machine()}",
        "software": f"Python {platform.python_version()}, torch {torch.__version__}, NumPy {np.__version__}",
        "threads": f"torch with {torch.get_num_threads()} threads unless noted",
        "load": f"load average {os.getloadavg()[0]:.1f} before the start",
        "loop": f"`for i in range(10**7): pass` in {loop_s:.2f} s",
    }


def _processor() -> str:
    """The model of the processor, or its architecture where the system does not say."""
    command = ["sysctl", "machdep.cpu.brand_string"] if sys.platform == "darwin" else ["cat", "/proc/cpuinfo"]
    output = subprocess.run(command, capture_output=True, text=True).stdout
    found = re.search(r"(?:model name\s*|brand_string): (.+)", output)
    return found[1] if found else platform.machine()


@contextmanager
def threads(n: int) -> Iterator[None]:
    """Run torch with `n` threads inside the context."""
    before = torch.get_num_threads()
    torch.set_num_threads(n)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def time_in_turns(
    calls: dict[str, Callable], rounds: int, repeats: dict[str, int] | int = 1, pause: Callable = lambda: None
) -> dict[str, np.ndarray]:
    """Times of each call, interleaved, so that a slow moment of the machine affects all of them.

    A turn begins with a call that is not counted, because the turn before has replaced the contents of the caches.

    Args:
        calls: what is timed, by name.
        rounds: turns of each.
        repeats: calls in a turn, a number for all or by name.
        pause: called before each call, untimed.

    Returns:
        Seconds by name, (rounds, repeats).
    """
    times = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            n = repeats if isinstance(repeats, int) else repeats[name]
            _, *counted = [_seconds(call, pause) for _ in range(n + 1)]
            times[name].append(counted)
    return {name: np.array(each) for name, each in times.items()}


def _seconds(call: Callable, pause: Callable) -> float:
    pause()
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def ratio(slow: np.ndarray, fast: np.ndarray) -> float:
    """Median over rounds of the ratio of the medians of each round, from times (rounds, repeats) of two programs."""
    return float(np.median(np.median(slow, 1) / np.median(fast, 1)))


def in_new_process(function: Callable, *args):
    """`function(*args)` in a process of its own; `function` must be importable."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(function, *args).result()
