"""Duration of `make test`, and lines of Python."""

import re
import subprocess
import time
from collections.abc import Iterator

from .page import ROOT, Item, row

LONGEST_S = 330
PARTS = {"possm_lite": "possm_lite", "possm_course": "possm_course", "experiments": "experiments", "tests": "tests"}


def measure(short: bool = False) -> Iterator[Item]:
    start = time.perf_counter()
    # ARGS: not those of `make bench`, which make hands on
    done = subprocess.run(["make", *["--dry-run"] * short, "test", "ARGS="], cwd=ROOT, capture_output=True, text=True)
    seconds = time.perf_counter() - start
    passed = re.search(r"(\d+) passed", done.stdout)
    n_passed = int(passed[1]) if passed else 0
    what, limit = "`make test`, environment set up", f"<= {LONGEST_S} s, exit status 0"
    yield row(what, seconds, "{:.0f} s", limit, done.returncode == 0 and seconds <= LONGEST_S)
    yield row("tests and cells that pass, of all in `make test`", n_passed, "{:,}")
    for part, folder in PARTS.items():
        yield row(f"lines of Python: {part}", count_lines(folder), "{:,}")


def count_lines(folder: str) -> int:
    """Lines of the Python files in a folder of the repository that git knows, or of all where there is no git."""
    try:
        listed = subprocess.check_output(
            ["git", "ls-files", f"{folder}/*.py"], cwd=ROOT, text=True, stderr=subprocess.DEVNULL
        )
        paths = [ROOT / name for name in listed.split()]
    except (OSError, subprocess.CalledProcessError):
        paths = ROOT.joinpath(folder).rglob("*.py")
    return sum(len(path.read_text(encoding="utf-8").splitlines()) for path in paths)
