"""The first page of the site: docs/site/index.md, with what is known elsewhere filled in. Nothing on it is typed twice.

Cards come from the notebooks, figures of merit from experiments/benchmarks/results.
"""

from __future__ import annotations

import base64
import io
import json
from pathlib import Path

from PIL import Image

from tools.execute import fewer_colors
from tools.site.chapters import ROOT, Chapter
from tools.site.repository import REPOSITORY

PARTS = {
    "I · Attention": range(6),
    "II · Recurrence and memory": range(6, 10),
    "III · Decoding spikes": range(10, 20),
}
# cell of the figure on the card of a chapter; the others show their first
CARD_FIGURE = {
    "01": "93e06cbd",
    "02": "ec31f957",
    "04": "clocks",
    "05": "e85343f4",
    "06": "a9039e3c",
    "07": "413c72c4",
    "08": "d447d6a9",
    "09": "8a59b9d2",
    "10": "8f98b46e",
    "11": "c11answer",
    "12": "machine-12-figure",
    "14": "0480586d",
    "15": "68d01c2a",
    "16": "23f0e166",
    "17": "c056aeed",
    "18": "ca2a4e9e",
}
CARD_WIDTH = 480  # pixels of a card's figure
RESULTS = ROOT / "experiments" / "benchmarks" / "results"
# section and row of the benchmarks, in the order of the page
MEASURED = [
    ("claims", "`make decode`, without set-up"),
    ("latency", "streaming step, p50"),
    ("latency", "times faster than POYO on its window of 1 s, p50"),
    ("layouts", "layouts that decode as in our own format"),
    ("faults", "faults named correctly"),
]
COMPARED = "All decoders: "  # tables of the section "accuracy", one a recording
DECODERS = ["POSSM, gru", "GRU on counts"]


def landing(chapters: list[Chapter], images: Path) -> str:
    """The page in Markdown; the figures of the cards are written into the folder `images`, beside the page."""
    text = (ROOT / "docs" / "site" / "index.md").read_text(encoding="utf-8")
    parts = {"caption": caption(), "run": run(), "cards": cards(chapters, images), "measured": measured()}
    for name, part in parts.items():
        text = text.replace(f"{{{{ {name} }}}}", part)
    return text


def caption() -> str:
    """What the moving picture shows, in numbers of its data."""
    data = (ROOT / "docs" / "site" / "_static" / "decoded_data.js").read_text(encoding="utf-8")
    played = json.loads(data.removeprefix("const decoded = ").rstrip(";\n"))
    return (
        f"{played['n_units']} simulated units. Decoded in bins of 50 ms on trials that training never saw: "
        f"R² {played['r2']:.2f}. The decoded path (orange) starts again from the hand (grey) whenever it rests."
    )


def run() -> str:
    """How to get the course, open it, and train the decoder."""
    first = f"git clone https://github.com/{REPOSITORY} possm-lite && cd possm-lite"
    lines = [first if REPOSITORY else "cd possm-lite    # the folder of the course"]
    lines += ["make lab         # the course, in JupyterLab", "make decode      # train the decoder, and test it"]
    source = f"[The source](https://github.com/{REPOSITORY}) is on GitHub. " * bool(REPOSITORY)
    return "```bash\n" + "\n".join(lines) + f"\n```\n\n{source}Python 3.10 to 3.14, git and make are enough."


def cards(chapters: list[Chapter], images: Path) -> str:
    """The cards of all chapters in Markdown, part by part; their figures are written into the folder `images`."""
    lines = []
    images.mkdir()
    for title, numbers in PARTS.items():
        lines += [f"### {title}", "", "::::{grid} 1 2 3 3", ":gutter: 3", ":class-container: chapters", ""]
        for chapter in chapters:
            if int(chapter.number) in numbers:
                (images / f"{chapter.name}.png").write_bytes(thumbnail(card_figure(chapter)))
                lines += card(chapter, f"{images.name}/{chapter.name}.png")
        lines += ["::::", ""]
    return "\n".join(lines)


def card_figure(chapter: Chapter) -> str:
    """The figure of a card, a PNG in base64.

    Raises:
        ValueError: `CARD_FIGURE` names a cell without a figure.
    """
    cell = CARD_FIGURE.get(chapter.number, next(iter(chapter.figures)))
    if cell not in chapter.figures:
        raise ValueError(f"CARD_FIGURE names cell {cell!r} of chapter {chapter.name}, which has no figure.")
    return chapter.figures[cell]


def card(chapter: Chapter, image: str) -> list[str]:
    """Lines of one card; `image` is the address of its figure."""
    aim = chapter.aim.replace(r"\sqrt ", "√").replace("$", "")  # the page loads nothing for formulas
    return [
        f":::{{grid-item-card}} {chapter.title}",
        f":link: {chapter.name}",
        ":link-type: doc",
        f":img-top: {image}",
        f":img-alt: A figure of chapter {chapter.title}",
        "",
        f"{aim[0].upper()}{aim[1:]}.",
        "",
        f'<p class="minutes">{chapter.time}</p>',
        ":::",
        "",
    ]


def thumbnail(png: str) -> bytes:
    """A figure, a PNG in base64, as a PNG of the width of a card."""
    buffer = io.BytesIO()
    with Image.open(io.BytesIO(base64.b64decode(png))) as image:
        small = image.convert("RGB")
        small.thumbnail((CARD_WIDTH, CARD_WIDTH), Image.Resampling.LANCZOS)
        small.save(buffer, format="PNG")
    return base64.b64decode(fewer_colors(base64.b64encode(buffer.getvalue()).decode()))


def measured() -> str:
    """Two tables out of the benchmarks: decoders compared on each recording, and single figures with their limits."""
    sections = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in RESULTS.glob("*.json")}
    dates = {sections["accuracy"]["date"]} | {sections[section]["date"] for section, _ in MEASURED}
    first_to_last = " to ".join(sorted({min(dates), max(dates)}))
    lines = [
        *compared(sections["accuracy"]["items"]),
        "",
        "R² displayed: of the newest finished output at each moment.",
        "",
        *against_limits(sections),
        "",
        f"Measured by `make bench`, {first_to_last}.",
        "[All figures](BENCHMARKS.md), with those that missed their limit, the machines and the commands.",
    ]
    return "\n".join(lines)


def compared(items: list[dict]) -> list[str]:
    """Lines of the table of decoders, from the items of the section "accuracy"."""
    lines = ["| recording | decoder | R² | R² displayed |", "|---|---|---|---|"]
    for table in items:
        if not table.get("title", "").startswith(COMPARED):
            continue
        recording = table["title"].removeprefix(COMPARED)
        rows = {row[0]: dict(zip(table["head"], row, strict=True)) for row in table["rows"]}
        for decoder in DECODERS:
            lines += [f"| {recording} | {decoder} | {rows[decoder]['R²']} | {rows[decoder]['R² displayed']} |"]
            recording = ""  # once for all of its rows
    return lines


def against_limits(sections: dict[str, dict]) -> list[str]:
    """Lines of the table of single figures, from all sections."""
    lines = ["| | measured | limit |", "|---|---|---|"]
    for section, what in MEASURED:
        rows = {item["what"]: item for item in sections[section]["items"] if "what" in item}
        row = rows[what]
        missed = "" if row["holds"] else ", **missed**"
        lines += [f"| {what} | {row['measured']} | {row['limit']}{missed} |"]
    return lines
