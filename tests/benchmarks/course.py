"""Run time of each chapter from top to bottom, and its slowest cells."""

import os
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

import execute

from .page import ROOT, Item, Table, row

N_SLOWEST = 10
TOTALS_S = {("00", "09"): 130, ("00", "18"): 300}
ONE_THREAD = {"OMP_NUM_THREADS": "1", "LOKY_MAX_CPU_COUNT": "1"}  # as `make test` runs them


class CellTime(NamedTuple):
    """Run time of one cell; `number` counts all cells of the notebook from 1."""

    chapter: str
    number: int
    first_line: str
    seconds: float


def measure(short: bool = False) -> Iterator[Item]:
    chapters = sorted((ROOT / "notebooks").glob("[0-9][0-9]_*.ipynb"))
    yield from measure_chapters(chapters[:1] if short else chapters)


def measure_chapters(chapters: list[Path]) -> Iterator[Item]:
    """Rows of each chapter, of complete groups of TOTALS_S, of all two at a time; a table of the slowest cells."""
    seconds, cells = {}, []
    for path in chapters:
        seconds[path.stem], timed = time_chapter(path)
        cells += timed
        limit = 40 if int(path.name[:2]) < 10 else 45
        took = seconds[path.stem]
        yield row(f"{path.stem}, {len(timed)} cells", took, "{:.0f} s", f"<= {limit} s", took <= limit)
    for (first, last), limit in TOTALS_S.items():
        group = [s for name, s in seconds.items() if first <= name[:2] <= last]
        if len(group) == int(last) - int(first) + 1:
            total = sum(group)
            yield row(f"chapters {first} to {last} together", total, "{:.0f} s", f"<= {limit} s", total <= limit)
    start = time.perf_counter()
    with patch.dict(os.environ, ONE_THREAD), ThreadPoolExecutor(2) as pool:
        list(pool.map(time_chapter, sorted(chapters, key=lambda path: -seconds[path.stem])))
    took = time.perf_counter() - start
    yield row("all of these, two at a time with a thread each", took, "{:.0f} s", "<= 300 s", took <= 300)
    slowest = sorted(cells, key=lambda cell: -cell.seconds)[:N_SLOWEST]
    rows = [[c.chapter, str(c.number), f"`{c.first_line}`", f"{c.seconds:.1f}"] for c in slowest]
    yield Table(f"The {N_SLOWEST} slowest cells", ["chapter", "cell", "first line", "s"], rows)


def time_chapter(path: Path) -> tuple[float, list[CellTime]]:
    """Seconds from the start of the kernel to the end of the last cell, and of each cell. The file is not changed."""
    notebook, started, cells = execute.read(path), {}, []

    def on_start(cell, cell_index):
        started[cell_index] = time.perf_counter()

    def on_end(cell, cell_index, execute_reply):
        seconds = time.perf_counter() - started[cell_index]
        cells.append(CellTime(path.stem, cell_index + 1, _first_line(cell.source), seconds))

    start = time.perf_counter()
    execute.run(notebook, path.parent, timeout_s=300, on_cell_execute=on_start, on_cell_executed=on_end)
    return time.perf_counter() - start, cells


def _first_line(source: str) -> str:
    """The first line that is not a comment, cut to 60 characters."""
    line = next((line.strip() for line in source.splitlines() if line.strip() and line.strip()[0] != "#"), "")
    return (line if len(line) <= 60 else f"{line[:59]}…").replace("`", "'")
