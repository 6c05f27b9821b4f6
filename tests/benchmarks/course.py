"""How long a class waits: each chapter from top to bottom, as it stands in the repository, and its slowest cells."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from possm_lite.classroom import execute

from .parts import Part, Row, Table, row

NOTEBOOKS = Path(__file__).resolve().parents[2] / "notebooks"
N_SLOWEST = 10
FIRST_LONGER = 6  # chapters from here on may take longer
TOTALS = {("00", "05"): 180, ("06", "09"): 240, ("10", "17"): 420}  # s


@dataclass(frozen=True)
class Cell:
    """A cell that has been run.

    Args:
        place: in its notebook, from 1, cells of text counted too.
        first_line: of its code.
        seconds: it took.
    """

    place: int
    first_line: str
    seconds: float


def measure(short: bool = False) -> Iterator[Part]:
    chapters = sorted(NOTEBOOKS.glob("[0-9][0-9]_*.ipynb"))
    yield from measure_chapters(chapters[:1] if short else chapters)


def measure_chapters(chapters: list[Path]) -> Iterator[Part]:
    """Rows of each chapter, of the sums that are limited where all their chapters were run, and the slowest cells."""
    seconds, cells = {}, []
    for path in chapters:
        seconds[path.stem], run = timed(path)
        cells += [(path.stem, cell) for cell in run]
        yield _chapter_row(path.stem, seconds[path.stem], len(run))
    for (first, last), limit in TOTALS.items():
        of = [s for name, s in seconds.items() if first <= name[:2] <= last]
        if len(of) == int(last) - int(first) + 1:
            yield row(f"chapters {first} to {last} together", sum(of), "{:.0f} s", f"<= {limit} s", sum(of) <= limit)
    yield row(f"all {len(seconds)} chapters", sum(seconds.values()), "{:.0f} s")
    cells.sort(key=lambda of: of[1].seconds, reverse=True)
    table = Table(f"The {N_SLOWEST} slowest cells", ["chapter", "cell", "its first line", "s"])
    for name, cell in cells[:N_SLOWEST]:
        table.rows.append([name, str(cell.place), f"`{cell.first_line}`", f"{cell.seconds:.1f}"])
    yield table


def timed(path: Path) -> tuple[float, list[Cell]]:
    """Seconds of a chapter, the start of its kernel included, and of each of its cells. The file stays as it is."""
    notebook, started, cells = execute.read(path), {}, []

    def begins(cell, cell_index):
        started[cell_index] = time.perf_counter()

    def ends(cell, cell_index, execute_reply):
        took = time.perf_counter() - started[cell_index]
        cells.append(Cell(cell_index + 1, _first_line(cell.source), took))

    began = time.perf_counter()
    execute.run(notebook, path.parent, timeout_s=300, on_cell_execute=begins, on_cell_executed=ends)
    return time.perf_counter() - began, cells


def _chapter_row(name: str, seconds: float, n_cells: int) -> Row:
    limit = 60 if int(name[:2]) < FIRST_LONGER else 75
    return row(f"{name}, {n_cells} cells", seconds, "{:.0f} s", f"<= {limit} s", seconds <= limit)


def _first_line(source: str) -> str:
    """The first line that is no comment, short enough for a table."""
    lines = [line.strip() for line in source.splitlines() if line.strip()]
    line = next((line for line in lines if not line.startswith("#")), lines[0] if lines else "")
    return (line if len(line) <= 60 else f"{line[:59]}…").replace("`", "'")
