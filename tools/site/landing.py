"""The first page of the site: docs/site/index.md, with what is known elsewhere filled in. Nothing on it is typed twice.

Figures and minutes come from the notebooks, what a chapter covers from the README, and the results from
experiments/benchmarks/results.
"""

from __future__ import annotations

import base64
import io
import json
import re
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
# What a visitor may want to know: the chapters that answer it, and the cell whose figure is on the card
QUESTIONS = {
    "What is attention?": (range(1, 4), "ecf41bda"),
    "How does a network know when something happened?": (range(4, 6), "clocks"),
    "How does a network remember?": ((6, 7, 8, 9, 15), "c07answer"),
    "How does a decoder read spikes?": (range(10, 13), "8f98b46e"),
    "Is the decoder any good, and is it fast enough?": (range(13, 15), "0480586d"),
    "How do I decode a recording of my own?": (range(16, 100), "23f0e166"),
}
CARD_WIDTH = 640  # pixels of a card's figure
RESULTS = ROOT / "experiments" / "benchmarks" / "results"
COMPARED = "All decoders: "  # tables of the section "accuracy", one a recording
DECODERS = {"POSSM, gru": "POSSM", "GRU on counts": "GRU on counts", "Wiener filter": "linear (Wiener) filter"}


def landing(chapters: list[Chapter], images: Path) -> str:
    """The page in Markdown; the figures of the cards are written into the folder `images`, beside the page."""
    text = (ROOT / "docs" / "site" / "index.md").read_text(encoding="utf-8")
    parts = {"n_chapters": str(len(chapters)), "run": run(), "cards": cards(chapters, images), "measured": measured()}
    for name, part in parts.items():
        text = text.replace(f"{{{{ {name} }}}}", part)
    return text


def run() -> str:
    """How to get the course, open it, and train the decoder."""
    url = f"https://github.com/{REPOSITORY}" if REPOSITORY else "URL"
    lines = [f"git clone {url} possm-lite && cd possm-lite"]
    lines += ["make lab         # the course, in JupyterLab", "make decode      # train the decoder, and test it"]
    on_github = f"[The source]({url}) is on GitHub. "
    source = on_github if REPOSITORY else "URL is the address of the course; whoever gave you these pages knows it. "
    return "```bash\n" + "\n".join(lines) + f"\n```\n\n{source}Python 3.10 to 3.14, git and make are enough."


def cards(chapters: list[Chapter], images: Path) -> str:
    """A card for each question in Markdown; their figures are written into the folder `images`."""
    lines = ["::::{grid} 1 1 2 2", ":gutter: 3", ":class-container: questions", ""]
    images.mkdir()
    covered = covers()
    for question, (numbers, cell) in QUESTIONS.items():
        answering = [chapter for chapter in chapters if int(chapter.number) in numbers]
        shown = next((chapter for chapter in answering if cell in chapter.figures), None)
        if shown is None:
            raise ValueError(f"QUESTIONS names cell {cell!r} for {question!r}; no chapter of it has a figure there.")
        (images / f"{shown.name}.png").write_bytes(thumbnail(shown.figures[cell]))
        minutes = [int(n) for chapter in answering for n in re.findall(r"\d+", chapter.time)]
        lines += [
            f":::{{grid-item-card}} {question}",
            f":img-top: {images.name}/{shown.name}.png",
            f":img-alt: {shown.alts[cell]}",
            *[":class-img-top: drawing"] * is_drawing(shown.figures[cell]),
            "",
            *(f"* [{c.title}]({c.name}.ipynb): {covered[c.name]}" for c in answering),
            "",
            f'<p class="minutes">{sum(minutes[::2]) / 60:.0f} to {sum(minutes[1::2]) / 60:.0f} hours</p>',
            ":::",
            "",
        ]
    return "\n".join([*lines, "::::"])


def covers() -> dict[str, str]:
    """What each chapter covers, in a few words: the rows of the table of README.md."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    return dict(re.findall(r"^\| \[(\w+)\]\(notebooks/\S+\) \| (.+) \|$", readme, re.M))


def is_drawing(png: str) -> bool:
    """Whether a figure, a PNG in base64, is of lines on white, not of squares whose lightness means a number."""
    with Image.open(io.BytesIO(base64.b64decode(png))) as image:
        lightness = image.convert("L").histogram()
    return sum(lightness[:200]) < 0.1 * sum(lightness)


def thumbnail(png: str) -> bytes:
    """A figure, a PNG in base64, as a PNG of the width of a card."""
    buffer = io.BytesIO()
    with Image.open(io.BytesIO(base64.b64decode(png))) as image:
        small = image.convert("RGB")
        small.thumbnail((CARD_WIDTH, CARD_WIDTH), Image.Resampling.LANCZOS)
        small.save(buffer, format="PNG")
    return base64.b64decode(fewer_colors(base64.b64encode(buffer.getvalue()).decode()))


def measured() -> str:
    """Decoders compared on each recording, out of the benchmarks."""
    accuracy = json.loads((RESULTS / "accuracy.json").read_text(encoding="utf-8"))
    lines = ["| recording | " + " | ".join(DECODERS.values()) + " |", "|---" * (1 + len(DECODERS)) + "|"]
    for table in accuracy["items"]:
        if table.get("title", "").startswith(COMPARED):
            r2 = {row[0]: float(row[1].split(" ")[0]) for row in table["rows"]}
            shares = " | ".join(f"{r2[decoder]:.0%}".replace("%", " %") for decoder in DECODERS)
            lines.append(f"| {table['title'].removeprefix(COMPARED).split(',')[0]} | {shares} |")
    return "\n".join(lines)
