"""Run time of each chapter from top to bottom, and of the notebooks in `deeper/`, one after the other."""

import time
from collections.abc import Iterator
from pathlib import Path

from tools import execute

from .page import ROOT, Item, row

LONGEST_S = 30  # of one chapter
PARTS = {  # pattern of the notebooks, and how long they may take together
    "chapters 00 to 09": ("0[0-9]_*.ipynb", 90),
    "chapters 10 to 18": ("1[0-8]_*.ipynb", 130),
    "chapter 19": ("19_*.ipynb", 40),
    "deeper, 00 to 09": ("deeper/0[0-9]_*.ipynb", 90),
    "deeper, 10 to 18": ("deeper/1[0-8]_*.ipynb", 90),
    "deeper, 19": ("deeper/19_*.ipynb", 40),
}


def measure(short: bool = False) -> Iterator[Item]:
    """The rows of the section; `short`: the first notebook of each part."""
    for part, (pattern, limit) in PARTS.items():
        paths = sorted((ROOT / "notebooks").glob(pattern))
        total = 0.0
        for path in paths[:1] if short else paths:
            took = time_notebook(path)
            total += took
            name = str(path.relative_to(ROOT / "notebooks").with_suffix(""))
            yield row(name, took, "{:.0f} s", f"<= {LONGEST_S} s", took <= LONGEST_S)
        yield row(f"{part} together", total, "{:.0f} s", f"<= {limit} s", total <= limit)


def time_notebook(path: Path) -> float:
    """Seconds from the start of the kernel to the end of the last cell. The file is not changed."""
    notebook = execute.read(path)
    start = time.perf_counter()
    execute.run(notebook, path.parent, timeout_s=300)
    return time.perf_counter() - start
