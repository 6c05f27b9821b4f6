"""Duration of `make test`, and lines of Python."""

import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from .page import ROOT, Item, row

LONGEST_S = 360
PARTS = {"package": "possm_lite/", "exercises": "notebooks/exercises/", "tests": "tests/", "site": "site/"}


def measure(short: bool = False) -> Iterator[Item]:
    start = time.perf_counter()
    # ARGS: not those of `make bench`, which make hands on
    done = subprocess.run(["make", *["--dry-run"] * short, "test", "ARGS="], cwd=ROOT, capture_output=True, text=True)
    seconds, passed = time.perf_counter() - start, re.search(r"(\d+) passed", done.stdout)
    n_passed = int(passed[1]) if passed else 0
    what = f"`make test`, environment set up: {n_passed:,} tests and cells, exit status {done.returncode}"
    holds = done.returncode == 0 and seconds <= LONGEST_S
    yield row(what, seconds, "{:.0f} s", f"<= {LONGEST_S} s, exit status 0", holds)
    files = subprocess.run(["git", "ls-files", "*.py"], cwd=ROOT, capture_output=True, text=True, check=True)
    lines = {name: len(Path(ROOT, name).read_text(encoding="utf-8").splitlines()) for name in files.stdout.split()}
    for part, folder in PARTS.items():
        n = sum(n for name, n in lines.items() if name.startswith(folder))
        yield row(f"lines of Python: {part}", n, "{:,}")
