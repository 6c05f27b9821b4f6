"""Check of the student's computer. Only the standard library is imported: all else may be missing."""

import os
import platform
from importlib import import_module, metadata

PACKAGES = ("possm-lite", "numpy", "scipy", "torch", "matplotlib", "tqdm", "ipywidgets", "joblib")


def check_environment() -> None:
    """Print one line for each thing the course needs: ✓ it is there, ✗ what to do."""
    lines = [f"✓ Python {platform.python_version()}", *map(package_line, PACKAGES)]
    lines.append(f"✓ {os.cpu_count()} CPU cores")
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
