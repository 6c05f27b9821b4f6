"""The machine: what it is, what it can do at most, and stopwatches that are fair on it."""

from __future__ import annotations

import multiprocessing
import os
import platform
import resource
import subprocess
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import torch


def describe() -> dict[str, str]:
    """What figures depend on, in words."""
    cores = os.cpu_count() or 1
    return {
        "processor": f"{processor()}, {torch.backends.cpu.get_cpu_capability()}, {cores} cores",
        "memory": f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.0f} GiB",
        "system": f"{platform.system()} {platform.machine()}",
        "software": f"Python {platform.python_version()}, torch {torch.__version__}, NumPy {np.__version__}",
        "threads": f"torch with {torch.get_num_threads()} threads where nothing else is said",
        "load": f"{os.getloadavg()[0]:.1f} processes were running in the minute before",
    }


def processor() -> str:
    """The name the processor gives itself."""
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        names = [line.split(":", 1)[1].strip() for line in cpuinfo.read_text().splitlines() if "model name" in line]
    else:  # macOS
        asked = subprocess.run(["sysctl", "-n", "machdep.cpu.brand_string"], capture_output=True, text=True)
        names = [asked.stdout.strip()]
    return next(filter(None, names), platform.machine())


@contextmanager
def threads(n: int) -> Iterator[None]:
    """Torch with `n` threads, and then with as many as before."""
    before = torch.get_num_threads()
    torch.set_num_threads(n)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def seconds(call: Callable, *arguments) -> float:
    began = time.perf_counter()
    call(*arguments)
    return time.perf_counter() - began


def in_turn(calls: dict[str, Callable], rounds: int, repeats: dict[str, int] | int = 1) -> dict[str, np.ndarray]:
    """Seconds of each call, (rounds, repeats): in turn, so that a slow moment of the machine falls on all of them.

    A turn begins with a call that is not counted: the one before has left the caches to somebody else's data.

    Args:
        calls: what to time, without arguments.
        rounds: turns of each.
        repeats: calls in a turn, for all or by name.
    """
    times = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            call()
            n = repeats if isinstance(repeats, int) else repeats[name]
            times[name].append([seconds(call) for _ in range(n)])
    return {name: np.array(each) for name, each in times.items()}


def ratio(slow: np.ndarray, fast: np.ndarray) -> float:
    """How many times longer one takes than the other: the median over rounds of the ratio of their medians."""
    return float(np.median(np.median(slow, 1) / np.median(fast, 1)))


def product_rate(n: int = 1024, rounds: int = 15) -> float:
    """Floating-point operations a second of a product of float32 matrices, the most this machine does in torch."""
    a, b, c = (torch.randn(n, n) for _ in range(3))
    times = in_turn({"product": lambda: torch.mm(a, b, out=c)}, rounds)["product"]
    return 2 * n**3 / float(np.median(times))


def high_water_mib() -> float:
    """Most memory this process ever held."""
    status = Path("/proc/self/status")
    if status.exists():  # Linux, where ru_maxrss of a new process begins at that of its parent
        return int(status.read_text().split("VmHWM:")[1].split()[0]) / 2**10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20  # macOS counts bytes


def apart(function: Callable, tasks: list[tuple], processes: int = 1, fresh: bool = False) -> Iterator:
    """`function(*task)` of each task, in the order in which they end, in other processes.

    Args:
        function: of a module, so that the others find it.
        tasks: its arguments.
        processes: how many at once.
        fresh: each task gets a process that has done nothing before.
    """
    groups = [[task] for task in tasks] if fresh else [tasks]
    for group in groups:
        with ProcessPoolExecutor(processes, multiprocessing.get_context("spawn")) as pool:
            for done in as_completed([pool.submit(function, *task) for task in group]):
                yield done.result()
