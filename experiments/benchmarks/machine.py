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
    """What the results depend on."""
    command = ["sysctl", "machdep.cpu.brand_string"] if sys.platform == "darwin" else ["cat", "/proc/cpuinfo"]
    output = subprocess.run(command, capture_output=True, text=True).stdout
    name = re.search(r"(?:model name\s*|brand_string): (.+)|$", output)[1] or platform.machine()
    loop_s = timeit.timeit(lambda: exec("for i in range(10**7): pass", {}), number=1)  # as at the prompt: i is global
    return {
        "processor": f"{name}, {torch.backends.cpu.get_cpu_capability()}, {os.cpu_count() or 1} cores",
        "memory": f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.0f} GiB",
        "system": f"{platform.system()} {platform.machine()}",
        "software": f"Python {platform.python_version()}, torch {torch.__version__}, NumPy {np.__version__}",
        "threads": f"torch with {torch.get_num_threads()} threads unless noted",
        "load": f"load average {os.getloadavg()[0]:.1f} before the start",
        "loop": f"`for i in range(10**7): pass` in {loop_s:.2f} s",
    }


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

    A turn of `repeats` calls, a number for all or by name, begins with one that is not counted, because the turn before
    has replaced the contents of the caches. `pause` is called before each call, untimed.
    Returns seconds by name, (rounds, repeats).
    """
    times = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            n = repeats if isinstance(repeats, int) else repeats[name]
            times[name].append([_seconds(call, pause) for _ in range(n + 1)][1:])
    return {name: np.array(each) for name, each in times.items()}


def _seconds(call: Callable, pause: Callable) -> float:
    pause()
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def ratio(slow: np.ndarray, fast: np.ndarray) -> float:
    """Median over rounds of the ratio of the medians of each round."""
    return float(np.median(np.median(slow, 1) / np.median(fast, 1)))


def in_new_process(function: Callable, *args):
    """`function(*args)` in a process of its own; `function` must be importable."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(function, *args).result()
