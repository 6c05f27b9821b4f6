"""Check of the student's computer: versions of Python and packages, cores, memory.

Imports only the standard library, so that it can report that everything else is missing.
"""

import os
import platform
import re
from importlib import import_module, metadata
from pathlib import Path

PROJECT = "possm-lite"
PACKAGES = ("numpy", "scipy", "torch", "matplotlib", "tqdm", "ipywidgets", "joblib")
MEMORY_GB = 3.0  # a chapter with processes takes up to 1.0, and each of up to four processes half a GB
MEMINFO = Path("/proc/meminfo")
RESTART = "then restart the kernel"


def check_environment() -> None:
    """Print one line for each thing the course needs: ✓ it is there, ✗ what to do, · unknown."""
    lines = [f"✓ Python {platform.python_version()}", project_line(), *map(package_line, PACKAGES)]
    lines += [f"✓ {os.cpu_count()} CPU cores", memory_line()]
    failed = any(line.startswith("✗") for line in lines)
    lines += ["", "Follow each line marked ✗, then run this cell again." if failed else "Everything is in place."]
    print("\n".join(lines))


def check_versions() -> None:
    """Raises ImportError naming the first package that is too old and the command that updates it, in one line.

    Imports no package; a missing one is reported by its own import.
    """
    for name in PACKAGES:
        if message := outdated(name):
            raise ImportError(message, name=name)


def installed_version(name: str) -> str | None:
    try:
        return metadata.version(name).partition("+")[0]
    except metadata.PackageNotFoundError:
        return None


def minimum_version(name: str) -> str:
    """The lowest version of a package that the installed project declares, "0" if it declares none."""
    requirements = metadata.requires(PROJECT) if installed_version(PROJECT) else []
    return next((r[len(name) + 2 :].split(";")[0] for r in requirements if r.startswith(f"{name}>=")), "0")


def release(version: str) -> list[int]:
    """Its three numbers, to be compared: 2.4.0rc1 counts as 2.4.0, and 2.4 equals 2.4.0."""
    return [*map(int, re.findall(r"\d+", re.match(r"[\d.]*", version)[0])), 0, 0, 0][:3]


def outdated(name: str) -> str | None:
    """What to do about a package whose installed version is too old, in one line; None for any other."""
    version = installed_version(name)
    minimum = minimum_version(name)
    if version is None or release(version) >= release(minimum):
        return None
    command = f'pip install -U "{name}>={minimum}"'
    return f"{name} {version}: at least {minimum} is needed. In a terminal: {command}, {RESTART}."


def project_line() -> str:
    """This file is part of possm_lite; the package may still not be installed."""
    version = installed_version(PROJECT)
    if version:
        return f"✓ possm_lite {version}"
    command = f'pip install -e ".[lab]", {RESTART}'
    return f"✗ possm_lite is here but not installed. In a terminal, in the folder of the course: {command}."


def package_line(name: str) -> str:
    """Whether a package is installed, new enough and can be imported."""
    version = installed_version(name)
    if version is None:
        return f'✗ {name} is missing. In a terminal: pip install "{name}>={minimum_version(name)}", {RESTART}.'
    if message := outdated(name):
        return f"✗ {message}"
    try:
        import_module(name)
    except Exception as error:  # a broken package may raise anything
        command = f"pip install --force-reinstall {name}=={version}, {RESTART}"
        return f"✗ {name} is installed but does not load ({type(error).__name__}). In a terminal: {command}."
    return f"✓ {name} {version}"


def memory_line() -> str:
    if not MEMINFO.exists():
        return f"· memory: this system does not report how much is free. {MEMORY_GB:.0f} GB are enough."
    available = re.search(r"MemAvailable:\s*(\d+)", MEMINFO.read_text(encoding="utf-8"))
    gigabytes = 1024 * int(available[1]) / 1e9
    if gigabytes >= MEMORY_GB:
        return f"✓ {gigabytes:.0f} GB of memory free"
    action = "Close other notebooks (menu Kernel, Shut Down All Kernels) and programs."
    return f"✗ {gigabytes:.1f} GB of memory free: {MEMORY_GB:.0f} GB are needed. {action}"
