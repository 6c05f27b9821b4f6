"""Results kept as JSON, one file a section, and BENCHMARKS.md written from them and from nothing else."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path

from matplotlib.figure import Figure

from possm_lite.classroom.execute import fewer_colors

from .parts import Note, Part, Picture, Row, Table

PAGE, RESULTS, FIGURES = Path("BENCHMARKS.md"), Path("tests/benchmarks/results"), Path("tests/benchmarks/figures")

TITLES = {
    "claims": "What else is claimed",
    "latency": "Latency",
    "training": "Training",
    "accuracy": "Accuracy",
    "course": "The course",
}
_KINDS = {kind.__name__.lower(): kind for kind in (Row, Table, Picture, Note)}

_INTRODUCTION = """\
# Benchmarks

Written by `make bench`, never by hand. `make bench ARGS="latency"` measures one section anew and leaves the others as
they are; the figures of each stand in `tests/benchmarks/results/`, from which this page is made.

What is compared was run in turn in one process, so that a slow moment of the machine falls on both sides: trust ratios
more than times. p50, p99 and p99.9 are the times that 50, 99 and 99.9 % of calls stay below.
"""


def keep(root: Path, name: str, about: dict, parts: Iterable[Part]) -> None:
    """Write a section's figures and pictures under `root`, over those measured before.

    Args:
        root: the repository, or a folder that stands for it.
        name: of the section.
        about: when, how long, by which command, on which machine.
        parts: what it yielded.
    """
    kept = []
    (root / RESULTS).mkdir(parents=True, exist_ok=True)
    for part in parts:
        if isinstance(part, Picture) and part.figure is not None:
            (root / FIGURES).mkdir(parents=True, exist_ok=True)
            (root / FIGURES / f"{part.name}.png").write_bytes(_png(part.figure))
            part = Picture(part.name, part.says)
        kept.append({"kind": type(part).__name__.lower(), **asdict(part)})
    text = json.dumps({"section": name, **about, "parts": kept}, indent=1, ensure_ascii=False)
    (root / RESULTS / f"{name}.json").write_text(text + "\n", encoding="utf-8")


def results(root: Path) -> dict[str, dict]:
    """What was kept, by section, in the order of the page; "parts" are parts again."""
    found = {}
    for name in TITLES:
        path = root / RESULTS / f"{name}.json"
        if path.exists():
            section = json.loads(path.read_text(encoding="utf-8"))
            parts = [dict(part) for part in section["parts"]]
            found[name] = section | {"parts": [_KINDS[part.pop("kind")](**part) for part in parts]}
    return found


def render(found: dict[str, dict]) -> str:
    """The page: which limits are missed, then each section."""
    limits = [(name, p) for name, s in found.items() for p in s["parts"] if isinstance(p, Row) and p.limit]
    missed = [
        f"* {TITLES[name]}: {row.what}: {row.measured}, limit {row.limit}" for name, row in limits if not row.holds
    ]
    ends = f", {len(missed)} missed:" if missed else ", all of them kept."
    lines = [_INTRODUCTION, f"**{len(limits)} limits{ends}**", *([""] if missed else []), *missed]
    for name, section in found.items():
        lines += ["", f"## {TITLES[name]}", "", _measured(section)]
        for group in _grouped(section["parts"]):
            lines += ["", *_written(group)]
    return "\n".join(lines) + "\n"


def write_page(root: Path) -> Path:
    page = root / PAGE
    page.write_text(render(results(root)), encoding="utf-8")
    return page


def line(name: str, row: Row) -> str:
    """A row on the terminal."""
    return f"{'ok  ' if row.holds else 'MISS'}  {name:8}  {row.what:64}  {row.measured:>20}  {row.limit}".rstrip()


def _measured(section: dict) -> str:
    said = "; ".join(section["machine"].values())
    return f"`{section['command']}` on {section['date']}, {section['seconds']:.0f} s. Machine: {said}."


def _grouped(parts: list[Part]) -> list[list[Part]]:
    """Rows that follow each other go into one table."""
    groups: list[list[Part]] = []
    for part in parts:
        if groups and isinstance(part, Row) and isinstance(groups[-1][0], Row):
            groups[-1].append(part)
        else:
            groups.append([part])
    return groups


def _written(group: list[Part]) -> list[str]:
    part = group[0]
    if isinstance(part, Row):
        rows = [[r.what, r.measured, r.limit if r.holds else f"{r.limit}, **missed**"] for r in group]
        return _table(["what", "measured", "limit"], rows)
    if isinstance(part, Table):
        return [f"### {part.title}", "", *_table(part.head, part.rows)]
    if isinstance(part, Picture):
        return [f"![{part.says}]({(FIGURES / part.name).as_posix()}.png)"]
    return [part.text]


def _table(head: list[str], rows: list[list[str]]) -> list[str]:
    cells = [head, ["---"] * len(head), *rows]
    return ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in cells]


def _png(figure: Figure) -> bytes:
    drawn = io.BytesIO()
    figure.savefig(drawn, format="png", dpi=100)
    return base64.b64decode(fewer_colors(base64.b64encode(drawn.getvalue()).decode()))
