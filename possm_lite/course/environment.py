"""Check of the student's computer: Python and packages, cores, memory.

Imports only the standard library, so that it can report that everything else is missing.
"""

import os
import platform
import re
from importlib import import_module, metadata
from pathlib import Path

PACKAGES = ("possm-lite", "numpy", "scipy", "torch", "matplotlib", "tqdm", "ipywidgets", "joblib")
MEMORY_GB = 3.0  # a chapter with processes takes up to 1.0, and each of up to four processes half a GB
MEMINFO = Path("/proc/meminfo")


def check_environment() -> None:
    """Print one line for each thing the course needs: ✓ it is there, ✗ what to do, · unknown."""
    lines = [f"✓ Python {platform.python_version()}", *map(package_line, PACKAGES)]
    lines += [f"✓ {os.cpu_count()} CPU cores", memory_line()]
    failed = any(line.startswith("✗") for line in lines)
    lines += ["", "Follow each line marked ✗, then run this cell again." if failed else "Everything is in place."]
    print("\n".join(lines))


def package_line(name: str) -> str:
    """Whether a package is installed and can be imported; that its version fits, pip has seen to."""
    try:
        version = metadata.version(name)
        import_module(name.replace("-", "_"))
    except metadata.PackageNotFoundError:
        command = 'In a terminal, in the folder of the course: pip install -e ".[lab]", then restart the kernel.'
        return f"✗ {name} is not installed. {command}"
    except Exception as error:  # a broken package may raise anything
        command = f"In a terminal: pip install --force-reinstall {name}, then restart the kernel."
        return f"✗ {name} is installed but does not load ({type(error).__name__}). {command}"
    return f"✓ {name} {version.partition('+')[0]}"


def memory_line() -> str:
    """Only Linux says how much is free."""
    if not MEMINFO.exists():
        return f"· memory: {MEMORY_GB:.0f} GB free are enough."
    free = 1024 * int(re.search(r"MemAvailable:\s*(\d+)", MEMINFO.read_text(encoding="utf-8"))[1]) / 1e9
    advice = "" if free >= MEMORY_GB else f": {MEMORY_GB:.0f} GB are needed. Close other notebooks and programs."
    return f"{'✗' if advice else '✓'} {free:.1f} GB of memory free{advice}"
