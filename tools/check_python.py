"""Exits with the reason if this Python cannot run possm-lite: python tools/check_python.py [NEWEST_MINOR_VERSION]"""

import platform
import sys

newest = int(sys.argv[1]) if len(sys.argv) > 1 else 14
this = f"Python {platform.python_version()} ({sys.executable})"
if not (3, 10) <= sys.version_info[:2] <= (3, newest):
    sys.exit(f"possm-lite needs Python 3.10 to 3.{newest}; this is {this}. Name another: make PYTHON=python3.11 ...")
if (platform.system(), platform.machine()) == ("Darwin", "x86_64"):
    sys.exit(f"PyTorch has no pip build for Intel Macs any more, and this is {this}. Use conda: environment.yml")
try:
    import ensurepip  # noqa: F401
    import venv  # noqa: F401
except ImportError:
    sys.exit(f"{this} lacks the venv module. On Debian and Ubuntu: sudo apt install python3-venv")
