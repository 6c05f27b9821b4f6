"""Check of the student's computer: versions of Python and packages, cores, memory, threads.

Imports only the standard library, so that it can report that everything else is missing.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import os
import platform
import re
from pathlib import Path

PROJECT = "possm-lite"
PACKAGES = ("numpy", "scipy", "torch", "matplotlib", "tqdm", "ipywidgets")
MEMORY_GB = 2.0  # the largest chapter, 17, takes 1.3 with its processes; the rest is for the browser
RESTART = "then restart the kernel"

# limits of a container, which reports all cores and all memory of its machine but may not use them
CPU_LIMIT, MEMORY_LIMIT = Path("/sys/fs/cgroup/cpu.max"), Path("/sys/fs/cgroup/memory.max")
MEMORY_USED, MEMINFO = Path("/sys/fs/cgroup/memory.current"), Path("/proc/meminfo")


def check_environment() -> None:
    """Print one line for each thing the course needs: ✓ it is there, ✗ what to do, · unknown."""
    lines = environment_lines()
    print("\n".join(lines))
    failed = sum(line.startswith("✗") for line in lines)
    if failed:
        print(f"\n{failed} problem{'s' * (failed != 1)}. Follow each line marked ✗, then run this cell again.")
    else:
        print("\nEverything is in place.")


def environment_lines() -> list[str]:
    """The lines that `check_environment` prints."""
    python, minimum = minimum_versions()
    packages = [package_line(name, minimum.get(name)) for name in PACKAGES]
    cores = usable_cores()
    resources = [f"✓ {cores} CPU core{'s' * (cores != 1)}", memory_line(*free_memory()), *threads_lines(cores)]
    return [python_line(python), project_line(), *packages, *resources]


def check_versions() -> None:
    """Reads the installed versions without importing a package. A missing one is reported by its own import.

    Raises:
        ImportError: naming the first package that is too old and the command that updates it, in one line.
    """
    _, minimum = minimum_versions()
    for name in PACKAGES:
        try:
            version = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
        if not is_at_least(version, minimum.get(name)):
            raise ImportError(outdated(name, version.partition("+")[0], minimum[name]), name=name)


def minimum_versions() -> tuple[str | None, dict[str, str]]:
    """The lowest Python, and {package: lowest version}, as the installed project declares them in pyproject.toml."""
    try:
        metadata = importlib.metadata.metadata(PROJECT)
        requirements = importlib.metadata.requires(PROJECT) or []
    except importlib.metadata.PackageNotFoundError:
        return None, {}
    requirements = [f"python{metadata['Requires-Python']}", *requirements]
    matches = (re.match(r"([\w.-]+)\s*\(?>=\s*([\d.]+)", line) for line in requirements)
    minimum = {match[1]: match[2] for match in matches if match}
    return minimum.pop("python", None), minimum


def python_line(minimum: str | None, version: str | None = None) -> str:
    version = version or platform.python_version()
    if is_at_least(version, minimum):
        return f"✓ Python {version}"
    return f"✗ Python {version}: at least {minimum} is needed. Choose another kernel: menu Kernel, Change Kernel."


def project_line() -> str:
    """This file is part of possm_lite; the package may still not be installed, or in another version."""
    from possm_lite import __version__

    try:
        installed = importlib.metadata.version(PROJECT)
    except importlib.metadata.PackageNotFoundError:
        installed = None
    if installed == __version__:
        return f"✓ possm_lite {__version__}"
    problem = f"version {installed} is installed" if installed else "it is here but not installed"
    install = f'pip install -e ".[lab]", {RESTART}'
    return f"✗ possm_lite {__version__}: {problem}. In a terminal, in the folder of the course: {install}."


def package_line(name: str, minimum: str | None) -> str:
    """Whether a package is installed, can be imported and is new enough."""
    requirement = f'"{name}>={minimum}"' if minimum else name  # quoted, since > redirects in a shell
    try:
        module = importlib.import_module(name)
        version = str(getattr(module, "__version__", None) or importlib.metadata.version(name)).partition("+")[0]
    except Exception as error:  # a broken package may raise anything
        if isinstance(error, ModuleNotFoundError) and error.name == name:
            return f"✗ {name} is missing. In a terminal: pip install {requirement}, {RESTART}."
        command = f"pip install --force-reinstall {requirement}, {RESTART}"
        return f"✗ {name} is installed but does not load ({type(error).__name__}). In a terminal: {command}."
    return f"✓ {name} {version}" if is_at_least(version, minimum) else f"✗ {outdated(name, version, minimum)}"


def outdated(name: str, version: str, minimum: str) -> str:
    command = f'pip install -U "{name}>={minimum}"'
    return f"{name} {version}: at least {minimum} is needed. In a terminal: {command}, {RESTART}."


def is_at_least(version: str, minimum: str | None) -> bool:
    """Compares releases only: 2.4.0rc1 counts as 2.4.0, and 2.4 equals 2.4.0. No minimum: True."""

    def release(text: str) -> list[int]:
        match = re.match(r"\d+(\.\d+)*", text)
        return [int(part) for part in re.sub(r"(\.0+)+$", "", match[0]).split(".")] if match else []

    return minimum is None or release(version) >= release(minimum)


def usable_cores() -> int:
    """The cores this process may use, which may be fewer than the machine has."""
    try:
        cores = len(os.sched_getaffinity(0))
    except AttributeError:  # not Linux
        cores = os.cpu_count() or 1
    quota, _, period = _read(CPU_LIMIT).partition(" ")
    if quota.isdigit() and period.strip().isdigit():
        cores = min(cores, max(1, round(int(quota) / int(period))))
    return cores


def free_memory() -> tuple[float | None, str]:
    """Gigabytes that are "free", or "in all" where the system does not report the free ones; None where neither."""
    available = re.search(r"MemAvailable:\s*(\d+) kB", _read(MEMINFO))
    if available:
        limit, used = _read(MEMORY_LIMIT).strip(), _read(MEMORY_USED).strip()
        left = int(limit) - int(used) if limit.isdigit() and used.isdigit() else float("inf")
        return min(int(available[1]) * 1024, left) / 1e9, "free"
    try:  # macOS
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 1e9, "in all"
    except (AttributeError, ValueError, OSError):
        return None, ""


def memory_line(gigabytes: float | None, kind: str) -> str:
    if gigabytes is None:
        return f"· memory: this system does not report how much is free. {MEMORY_GB:.0f} GB are enough."
    if gigabytes < MEMORY_GB:
        action = "Close other notebooks (menu Kernel, Shut Down All Kernels) and programs."
        return f"✗ {gigabytes:.1f} GB of memory {kind}: {MEMORY_GB:.0f} GB are needed. {action}"
    return f"✓ {gigabytes:.0f} GB of memory {kind}"


def threads_lines(cores: int) -> list[str]:
    """Whether PyTorch computes on no more threads than there are cores; no line where PyTorch cannot be imported."""
    try:
        threads = importlib.import_module("torch").get_num_threads()
    except Exception:  # reported by package_line
        return []
    action = "set OMP_NUM_THREADS=1 before you start Jupyter"
    if threads > cores:
        return [f"✗ PyTorch computes on {threads} threads, more than there are cores, which is slower: {action}."]
    if threads == 1:
        return ["✓ PyTorch computes on 1 thread"]
    return [f"✓ PyTorch computes on {threads} threads. If other notebooks compute at the same time, {action}."]


def _read(path: Path) -> str:
    """The text of a small system file; empty if it does not exist."""
    try:
        return path.read_text(encoding="utf-8")
    except OSError:
        return ""
