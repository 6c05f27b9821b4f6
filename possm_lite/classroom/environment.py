"""What a student runs first: is everything here that the course needs, and if not, what is to be done?

Needs nothing but the standard library, so that it can say of everything else that it is missing.
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
MEMORY_GB = 2.0  # the hungriest chapter, 17, takes 1.3 with its processes; the rest is for the browser
RESTART = "then restart the kernel"

# of a container, which sees all cores and all memory of its machine but may not use them
CPU_LIMIT, MEMORY_LIMIT = Path("/sys/fs/cgroup/cpu.max"), Path("/sys/fs/cgroup/memory.max")
MEMORY_USED, MEMINFO = Path("/sys/fs/cgroup/memory.current"), Path("/proc/meminfo")


def check_environment() -> None:
    """Print one line for each thing the course needs: ✓ it is there, ✗ what to do, · what cannot be told."""
    lines = examine()
    print("\n".join(lines))
    failed = sum(line.startswith("✗") for line in lines)
    if failed:
        need = "line needs" if failed == 1 else "lines need"
        print(f"\n{failed} {need} you. Do what stands there, and run this cell again.")
    else:
        print("\nEverything is in place.")


def examine() -> list[str]:
    """The lines that `check_environment` prints."""
    python, floors = declared_floors()
    lines = [python_line(python), project_line()]
    lines += [package_line(name, floors.get(name)) for name in PACKAGES]
    cores = usable_cores()
    return [*lines, cores_line(cores), memory_line(*free_memory()), *threads_lines(cores)]


def require() -> None:
    """What every chapter asks together with its check: is nothing here older than the course can use?

    It reads what pip has noted and loads nothing. A package that is missing says so itself when it is imported.

    Raises:
        ImportError: of the first package that is too old; its message is one line and says what to do.
    """
    _, floors = declared_floors()
    for name in PACKAGES:
        try:
            version = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
        if not reaches(version, floors.get(name)):
            raise ImportError(too_old(name, version.partition("+")[0], floors[name]), name=name)


def declared_floors() -> tuple[str | None, dict[str, str]]:
    """The lowest Python, and {package: lowest version}, as the installed project declares them in pyproject.toml."""
    try:
        metadata = importlib.metadata.metadata(PROJECT)
        wanted = importlib.metadata.requires(PROJECT) or []
    except importlib.metadata.PackageNotFoundError:
        return None, {}
    wanted = [f"python{metadata['Requires-Python']}", *wanted]
    found = (re.match(r"([\w.-]+)\s*\(?>=\s*([\d.]+)", line) for line in wanted)
    floors = {match[1]: match[2] for match in found if match}
    return floors.pop("python", None), floors


def python_line(floor: str | None, version: str | None = None) -> str:
    version = version or platform.python_version()
    if reaches(version, floor):
        return f"✓ Python {version}"
    return f"✗ Python {version}: at least {floor} is needed. Choose a newer one as kernel: menu Kernel, Change Kernel."


def project_line() -> str:
    """possm_lite is what this file belongs to: it is here, but is it installed, and in the version it has?"""
    import possm_lite

    here, install = possm_lite.__version__, 'in the folder of the course: pip install -e ".[lab]"'
    try:
        installed = importlib.metadata.version(PROJECT)
    except importlib.metadata.PackageNotFoundError:
        return f"✗ possm_lite {here}: it lies here but is not installed. In a terminal, {install}, {RESTART}."
    if installed != here:
        return f"✗ possm_lite {here}: it was installed as {installed}. In a terminal, {install}, {RESTART}."
    return f"✓ possm_lite {here}"


def package_line(name: str, floor: str | None) -> str:
    """Is a package here, does it load, is it new enough?"""
    wanted = f'"{name}>={floor}"' if floor else name  # in quotes, since > means something to a shell
    try:
        version = version_of(name)
    except Exception as error:  # a package that is broken may raise anything
        if isinstance(error, ModuleNotFoundError) and error.name == name:
            return f"✗ {name} is missing. In a terminal: pip install {wanted}, {RESTART}."
        again = f"pip install --force-reinstall {wanted}, {RESTART}"
        return f"✗ {name} is installed but does not load ({type(error).__name__}). In a terminal: {again}."
    if reaches(version, floor):
        return f"✓ {name} {version}"
    return f"✗ {too_old(name, version, floor)}"


def too_old(name: str, version: str, floor: str) -> str:
    again = f'pip install -U "{name}>={floor}"'
    return f"{name} {version}: at least {floor} is needed. In a terminal: {again}, {RESTART}."


def version_of(name: str) -> str:
    """The version of a package that loads, without its build: 2.13.0 of 2.13.0+cpu.

    Raises:
        ModuleNotFoundError: if there is none; whatever else a broken package raises.
    """
    module = importlib.import_module(name)
    version = getattr(module, "__version__", None) or importlib.metadata.version(name)
    return str(version).partition("+")[0]


def reaches(version: str, floor: str | None) -> bool:
    """Whether a version is at least `floor`; 2.4.0rc1 counts as 2.4.0, and no floor is always reached."""
    return floor is None or numbers(version) >= numbers(floor)


def numbers(version: str) -> tuple[int, ...]:
    """The release as numbers, without zeros at the end: 2.4 and 2.4.0 are one."""
    release = re.match(r"\d+(\.\d+)*", version)
    parts = [int(part) for part in release[0].split(".")] if release else []
    while parts and parts[-1] == 0:
        parts.pop()
    return tuple(parts)


def usable_cores() -> int:
    """The cores this process may use, which may be fewer than the machine has."""
    try:
        cores = len(os.sched_getaffinity(0))
    except AttributeError:  # not Linux
        cores = os.cpu_count() or 1
    quota, _, period = read(CPU_LIMIT).partition(" ")
    if quota.isdigit() and period.strip().isdigit():
        cores = min(cores, max(1, round(int(quota) / int(period))))
    return cores


def cores_line(cores: int) -> str:
    return f"✓ {cores} CPU core{'s' * (cores != 1)}"


def free_memory() -> tuple[float | None, str]:
    """Gigabytes this process may still take, or what comes nearest; and what that is called."""
    available = re.search(r"MemAvailable:\s*(\d+) kB", read(MEMINFO))
    if available:
        limit, used = read(MEMORY_LIMIT).strip(), read(MEMORY_USED).strip()
        room = int(limit) - int(used) if limit.isdigit() and used.isdigit() else float("inf")
        return min(int(available[1]) * 1024, room) / 1e9, "free"
    try:  # macOS tells how much there is, not how much is free
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 1e9, "in all"
    except (AttributeError, ValueError, OSError):
        return None, ""


def memory_line(gigabytes: float | None, kind: str) -> str:
    if gigabytes is None:
        return f"· memory: this system does not say how much is free. {MEMORY_GB:.0f} GB are enough."
    if gigabytes < MEMORY_GB:
        cure = "Close other notebooks (menu Kernel, Shut Down All Kernels) and programs."
        return f"✗ {gigabytes:.1f} GB of memory {kind}: {MEMORY_GB:.0f} GB are needed. {cure}"
    return f"✓ {gigabytes:.0f} GB of memory {kind}"


def threads_lines(cores: int) -> list[str]:
    """Whether PyTorch computes on no more threads than there are cores; no line where PyTorch does not load."""
    try:
        threads = importlib.import_module("torch").get_num_threads()
    except Exception:  # its own line has said so
        return []
    one = "set OMP_NUM_THREADS=1 before you start Jupyter"
    if threads > cores:
        trouble = "more than there are cores, so they wait for each other"
        return [f"✗ PyTorch computes on {threads} threads, {trouble}: {one}."]
    if threads == 1:
        return ["✓ PyTorch computes on 1 thread"]
    return [f"✓ PyTorch computes on {threads} threads. If other notebooks compute at the same time, {one}."]


def read(path: Path) -> str:
    """What a small file of the system holds; nothing if it is not there."""
    try:
        return path.read_text(encoding="utf-8")
    except OSError:
        return ""
