"""Check of the student's computer: versions of Python and packages, cores, memory, threads.

Imports only the standard library, so that it can report that everything else is missing.
"""

import importlib
import importlib.metadata
import os
import platform
import re
from pathlib import Path

PROJECT = "possm-lite"
PACKAGES = ("numpy", "scipy", "torch", "matplotlib", "tqdm", "ipywidgets", "joblib")
MEMORY_GB = 3.0  # the largest chapter, 13, takes 1.3 with two processes, and half a GB for each of up to two more
RESTART = "then restart the kernel"

# limits of a container, which reports all cores and all memory of its machine but may not use them
CPU_LIMIT, MEMORY_LIMIT = Path("/sys/fs/cgroup/cpu.max"), Path("/sys/fs/cgroup/memory.max")
MEMORY_USED, MEMORY_STAT = Path("/sys/fs/cgroup/memory.current"), Path("/sys/fs/cgroup/memory.stat")
MEMINFO = Path("/proc/meminfo")


def check_environment() -> None:
    """Print one line for each thing the course needs: ✓ it is there, ✗ what to do, · unknown."""
    cores = usable_cores()
    lines = [python_line(platform.python_version()), project_line(), *map(package_line, PACKAGES)]
    lines += [f"✓ {cores} CPU core{'s' * (cores != 1)}", memory_line(), *threads_line(cores)]
    print("\n".join(lines))
    failed = sum(line.startswith("✗") for line in lines)
    if failed:
        print(f"\n{failed} problem{'s' * (failed != 1)}. Follow each line marked ✗, then run this cell again.")
    else:
        print("\nEverything is in place.")


def check_versions() -> None:
    """Raises ImportError naming the first package that is too old and the command that updates it, in one line.

    Imports no package; a missing one is reported by its own import.
    """
    for name in PACKAGES:
        version = installed_version(name)
        if version and release(version) < release(minimum_version(name)):
            raise ImportError(outdated(name, version), name=name)


def installed_version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name).partition("+")[0]
    except importlib.metadata.PackageNotFoundError:
        return None


def minimum_version(name: str) -> str:
    """The lowest version of a package, or of "python", that the installed project declares; "" if it declares none."""
    if installed_version(PROJECT) is None:
        return ""
    metadata = importlib.metadata.metadata(PROJECT)
    requirements = [f"python{metadata['Requires-Python']}", *(metadata.get_all("Requires-Dist") or [])]
    matches = (re.match(rf"{name}\s*\(?>=\s*([\d.]+)", requirement) for requirement in requirements)
    return next((match[1] for match in matches if match), "")


def release(version: str) -> list[int]:
    """Its three numbers, to be compared: 2.4.0rc1 counts as 2.4.0, and 2.4 equals 2.4.0."""
    return [*map(int, re.findall(r"\d+", re.match(r"[\d.]*", version)[0])), 0, 0, 0][:3]


def outdated(name: str, version: str) -> str:
    minimum = minimum_version(name)
    command = f'pip install -U "{name}>={minimum}"'
    return f"{name} {version}: at least {minimum} is needed. In a terminal: {command}, {RESTART}."


def python_line(version: str) -> str:
    minimum = minimum_version("python")
    if release(version) >= release(minimum):
        return f"✓ Python {version}"
    return f"✗ Python {version}: at least {minimum} is needed. Choose another kernel: menu Kernel, Change Kernel."


def project_line() -> str:
    """This file is part of possm_lite; the package may still not be installed, or in another version."""
    from possm_lite import __version__

    installed = installed_version(PROJECT)
    if installed == __version__:
        return f"✓ possm_lite {__version__}"
    problem = f"version {installed} is installed" if installed else "it is here but not installed"
    install = f'pip install -e ".[lab]", {RESTART}'
    return f"✗ possm_lite {__version__}: {problem}. In a terminal, in the folder of the course: {install}."


def package_line(name: str) -> str:
    """Whether a package is installed, can be imported and is new enough."""
    minimum = minimum_version(name)
    requirement = f'"{name}>={minimum}"' if minimum else name  # quoted, since > redirects in a shell
    try:
        module = importlib.import_module(name)
        version = str(getattr(module, "__version__", None) or installed_version(name)).partition("+")[0]
    except Exception as error:  # a broken package may raise anything
        if isinstance(error, ModuleNotFoundError) and error.name == name:
            return f"✗ {name} is missing. In a terminal: pip install {requirement}, {RESTART}."
        command = f"pip install --force-reinstall {requirement}, {RESTART}"
        return f"✗ {name} is installed but does not load ({type(error).__name__}). In a terminal: {command}."
    return f"✓ {name} {version}" if release(version) >= release(minimum) else f"✗ {outdated(name, version)}"


def usable_cores() -> int:
    """The cores this process may use, which may be fewer than the machine has."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    limit = re.match(r"(\d+) (\d+)", _read(CPU_LIMIT))  # microseconds of computing, in a period
    return min(cores, max(1, round(int(limit[1]) / int(limit[2])))) if limit else cores


def memory_line() -> str:
    """The free memory, or all memory where the system does not report what is free."""
    available = re.search(r"MemAvailable:\s*(\d+)", _read(MEMINFO))
    limit, used = (re.match(r"\d+", _read(path)) for path in (MEMORY_LIMIT, MEMORY_USED))
    cache = re.search(r"^inactive_file (\d+)", _read(MEMORY_STAT), re.MULTILINE)  # counts as used, and is given up
    if available:
        left = int(limit[0]) - int(used[0]) + int(cache[1] if cache else 0) if limit and used else float("inf")
        gigabytes, kind = min(1024 * int(available[1]), left) / 1e9, "free"
    else:
        try:  # macOS
            gigabytes, kind = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 1e9, "in all"
        except (AttributeError, ValueError, OSError):
            return f"· memory: this system does not report how much is free. {MEMORY_GB:.0f} GB are enough."
    if gigabytes >= MEMORY_GB:
        return f"✓ {gigabytes:.0f} GB of memory {kind}"
    action = "Close other notebooks (menu Kernel, Shut Down All Kernels) and programs."
    return f"✗ {gigabytes:.1f} GB of memory {kind}: {MEMORY_GB:.0f} GB are needed. {action}"


def threads_line(cores: int) -> list[str]:
    """Whether PyTorch computes on no more threads than there are cores; no line where PyTorch cannot be imported."""
    try:
        threads = importlib.import_module("torch").get_num_threads()
    except Exception:  # reported by package_line
        return []
    action = "set OMP_NUM_THREADS=1 before you start Jupyter"
    if threads > cores:
        return [f"✗ PyTorch computes on {threads} threads, more than there are cores, which is slower: {action}."]
    advice = f"s. If other notebooks compute at the same time, {action}." if threads > 1 else ""
    return [f"✓ PyTorch computes on {threads} thread{advice}"]


def _read(path: Path) -> str:
    """The text of a small system file; empty if it does not exist."""
    try:
        return path.read_text(encoding="utf-8")
    except OSError:
        return ""
