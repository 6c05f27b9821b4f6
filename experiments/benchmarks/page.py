"""Results, saved as a JSON file per section; from them RESULTS.md, with all, and BENCHMARKS.md, with what was found."""

import base64
import io
import json
import re
import time
from collections.abc import Iterable
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure

from tools.execute import fewer_colors

from .machine import describe

ROOT = Path(__file__).resolve().parents[2]
PAGE, FOLDER = Path("docs/BENCHMARKS.md"), Path("experiments/benchmarks")
RESULTS, FIGURES = FOLDER / "results", FOLDER / "figures"
TEMPLATE = ROOT / FOLDER / "page.md"  # of BENCHMARKS.md, by hand: each {{...}} is a measured figure
NOTES = ROOT / FOLDER / "notes.md"  # by hand, without figures, appended to RESULTS.md
TITLES = {
    "claims": "Claims of the README",
    "latency": "Latency",
    "live": "Live input",
    "training": "Training",
    "accuracy": "Accuracy",
    "possible": "How good it could be",
    "intervals": "Intervals over trials",
    "recipe": "Changes of the recipe",
    "classes": "Classes",
    "codes": "The code of time",
    "trials": "Few trials",
    "weights": "When weights pay",
    "layouts": "Layouts of recordings",
    "course": "The course",
    "faults": "Faults of recordings",
    "suite": "Tests and size",
    "reliability": "Reliability",
}
# Rows whose figures the README quotes, by hand
IN_README = ["`make decode`, without set-up", "layouts that decode as in our own format", "faults named correctly"]
IN_README += ["recordings of public reports, read as in our own format", "faults of public reports named"]
IN_README += [f"`make decode`, R² of {name}" for name in ("POSSM", "the GRU on counts", "the Wiener filter")]


class Row(NamedTuple):
    """One measured value.

    Attributes:
        what: was measured.
        measured: the value, with its unit.
        limit: in words, or empty.
        holds: whether the value is within the limit.
    """

    what: str
    measured: str
    limit: str = ""
    holds: bool = True


class Table(NamedTuple):
    """A table.

    Attributes:
        title: above it.
        head: names of the columns.
        rows: cells, row by row.
    """

    title: str
    head: list[str]
    rows: list[list[str]]


class Plot(NamedTuple):
    """A figure.

    Attributes:
        name: of its file, without ".png".
        alt: its alternative text.
        figure: None once it is saved.
    """

    name: str
    alt: str
    figure: Figure | None = None


class Note(NamedTuple):
    """A remark: what was skipped, how something was measured."""

    text: str


Item = Row | Table | Plot | Note
_KINDS = {kind.__name__.lower(): kind for kind in (Row, Table, Plot, Note)}


def row(what: str, measured: float, form: str, limit: str = "", holds: bool = True) -> Row:
    """A row whose value `measured` is formatted by `form`, such as "{:.0f} µs"; the others as in `Row`."""
    return Row(what, form.format(measured), limit, bool(holds))


def with_spread(values: np.ndarray, sign: str = "") -> str:
    """The mean, and ± the standard deviation of several values, (n,); `sign` as in a format."""
    mean = f"{values.mean():{sign}.3f}"
    return f"{mean} ± {values.std(ddof=1):.3f}" if len(values) > 1 else mean


def save_results(root: Path, name: str, metadata: dict, items: Iterable[Item]) -> None:
    """Write a section's JSON file and figures.

    Args:
        root: the repository, or a folder with the same layout.
        name: of the section.
        metadata: "date", "command", "machine" (a dict) and "seconds", None where they mean nothing.
        items: in the order of the page.
    """
    for folder in (RESULTS, FIGURES):
        (root / folder).mkdir(parents=True, exist_ok=True)
    saved = []
    for item in items:
        if isinstance(item, Plot) and item.figure is not None:
            (root / FIGURES / f"{item.name}.png").write_bytes(_png(item.figure))
            item = Plot(item.name, item.alt)
        saved.append({"kind": type(item).__name__.lower(), **item._asdict()})
    text = json.dumps({"section": name, **metadata, "items": saved}, indent=1, ensure_ascii=False)
    (root / RESULTS / f"{name}.json").write_text(text + "\n", encoding="utf-8")


def _png(figure: Figure) -> bytes:
    png = io.BytesIO()
    figure.savefig(png, format="png", dpi=100)
    return base64.b64decode(fewer_colors(base64.b64encode(png.getvalue()).decode()))


def record(what: str, measured: str) -> None:
    """Save a row of the section that long tests write, in place of the one that said the same, and render the page."""
    today = time.strftime("%Y-%m-%d")
    found = load_results(ROOT).get("reliability", {"items": []})
    rows = {item.what: item for item in found["items"]}
    rows[what] = Row(what, f"{measured} ({today})")
    metadata = {"date": today, "command": "make soak", "machine": describe(), "seconds": None}
    save_results(ROOT, "reliability", metadata, rows.values())
    write_page(ROOT)


def load_results(root: Path) -> dict[str, dict]:
    """The saved sections by name, in the order of the page; "items" holds Row, Table, Plot and Note objects."""
    found = {}
    for name in TITLES:
        path = root / RESULTS / f"{name}.json"
        if path.exists():
            section = json.loads(path.read_text(encoding="utf-8"))
            items = [_KINDS[item.pop("kind")](**item) for item in section["items"]]
            found[name] = section | {"items": items}
    return found


def write_page(root: Path) -> Path:
    """Write all results, and the page of what was found where all sections are there."""
    sections = load_results(root)
    (root / FOLDER / "RESULTS.md").write_text(render(sections), encoding="utf-8")
    if sections.keys() == TITLES.keys():
        (root / PAGE).write_text(fill(TEMPLATE.read_text(encoding="utf-8"), sections), encoding="utf-8")
    return root / FOLDER / "RESULTS.md"


def fill(template: str, sections: dict[str, dict]) -> str:
    """The template with its places filled in: each {{section / row}}, {{section / table / row / column}} and
    {{section / key of its machine}} by a figure, {{section / table}} by the table, {{missed}} by the list of limits
    that are missed.

    Raises:
        ValueError: a place names no figure, or several.
    """

    def value(place: re.Match) -> str:
        if place[1] == "missed":
            return "\n".join(missed(sections))
        name, *path = place[1].split(" / ")
        found = figures_at(sections[name], path)
        if len(found) != 1:
            raise ValueError(f"{place[0]} names {len(found)} figures, not one.")
        return found[0]

    return re.sub(r"\{\{(.+?)\}\}", value, template)


def figures_at(section: dict, path: list[str]) -> list[str]:
    """The figures of a section with the path [row], [table, row, column] or [key of its machine]; a whole [table]."""
    found = []
    for item in section["items"]:
        if isinstance(item, Row) and [item.what] == path:
            found.append(item.measured)
        elif isinstance(item, Table) and [item.title] == path:
            found.append("\n".join(_table(item.head, item.rows)))
        elif isinstance(item, Table) and item.title == path[0]:
            column = item.head.index(path[2])
            found += [cells[column] for cells in item.rows if cells[0] == path[1]]
    found += [text for key, text in section["machine"].items() if [key] == path]
    return found


def missed(sections: dict[str, dict]) -> list[str]:
    """Lines of the limits that are missed."""
    lines = []
    for name, section in sections.items():
        for item in section["items"]:
            if isinstance(item, Row) and item.limit and not item.holds:
                lines.append(f"* {TITLES[name]}: {item.what}: {item.measured}, limit {item.limit}")
    return lines


def render(sections: dict[str, dict]) -> str:
    """All results, section by section, and the notes."""
    lines = [
        "# Results",
        "",
        "Written by `make bench`; what they mean is in [BENCHMARKS.md](../../docs/BENCHMARKS.md).",
    ]
    for name, section in sections.items():
        machine = "; ".join(section["machine"].values())
        took = f", {section['seconds']:.0f} s" if section["seconds"] else ""
        run = f"`{section['command']}` on {section['date']}{took}. Machine: {machine}."
        lines += ["", f"## {TITLES[name]}", "", run]
        for kind, items in groupby(section["items"], key=type):
            if kind is Row:  # consecutive rows are one table
                lines += ["", *_table(["what", "measured", "limit"], [_cells(row) for row in items])]
                continue
            for item in items:
                if kind is Table:
                    lines += ["", f"### {item.title}", "", *_table(item.head, item.rows)]
                elif kind is Plot:
                    lines += ["", f"![{item.alt}](figures/{item.name}.png)"]
                else:
                    lines += ["", item.text]
    return "\n".join([*lines, "", NOTES.read_text(encoding="utf-8")])


def _cells(row: Row) -> list[str]:
    return [row.what, row.measured, row.limit if row.holds else f"{row.limit}, **missed**"]


def _table(head: list[str], rows: list[list[str]]) -> list[str]:
    cells = [head, ["---"] * len(head), *rows]
    return ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in cells]
