"""How long a chapter and its slides take: python -m tools.rehearse prints the minutes of TEACHING.md and of the card of
each chapter, and what each row of a plan needs.

Measured: words, slides, the words of the speaker's notes, the seconds of the cells (`make bench ARGS="course"`).
Estimated: the words that are read or spoken in a minute, and the minutes of exercises. Nobody spoke: all of the notes
are taken to be read aloud, and whatever a class asks comes on top. Statements of exercises and sources are not read
aloud.
"""

import json
import math
import re
from dataclasses import dataclass

from nbformat import NotebookNode

from tools.execute import read
from tools.site.prepare import ROOT
from tools.site.slides import count_words, notes, parts, shown_text, split, to_slides

READ, SPOKEN = 150, 130  # words per minute
WRITING, PREDICTING = 8, 3  # minutes of an exercise, as in TEACHING.md
DEFINES = re.compile(r"^(def|class) ", flags=re.M)
PLANS = re.compile(r"^### (.+?) \((\d+) minutes\)\n(?:(?!\* |#).*\n)+((?:\* \*\*\d+\*\* .*\n)+)", flags=re.M)
HEADING = re.compile(r'^(?:## |<p class="section">)(?:(\d+)\. )?', flags=re.M)
SECTIONS = re.compile(r"\b(\d\d)(:|(?: §\d+(?: to §\d+)?(?:,? and|,)?(?= §)| §\d+(?: to §\d+)?)+)")


@dataclass
class Slide:
    section: int | None  # None: title, "Deeper" and the last sections
    words: int
    exercises: set[str]


def chapters() -> dict[str, tuple[list[Slide], dict[str, int]]]:
    """By number: the slides, and the minutes of each exercise."""
    found = {}
    for path in sorted((ROOT / "notebooks").glob("[0-9][0-9]_*.ipynb")):
        notebook = read(path)
        lengths = {}
        for cell in notebook.cells:
            if name := exercise(cell):
                lengths[name] = WRITING if DEFINES.search(cell.source) else PREDICTING
        found[path.name[:2]] = rehearse(notebook), lengths
    return found


def rehearse(notebook: NotebookNode) -> list[Slide]:
    slides, section = [], None
    for cells in split(to_slides(notebook).cells):
        if heading := HEADING.search(shown_text(cells)):
            section = int(heading[1]) if heading[1] else None
        slides.append(Slide(section, spoken_words(cells), {name for cell in cells if (name := exercise(cell))}))
    return slides


def spoken_words(cells: list[NotebookNode]) -> int:
    """Words of the notes, and of what is on the slide and not in them, without statements of exercises and sources."""
    said, shown = (without_exercises(text) for text in (notes(cells), shown_text(cells)))
    more = [part for _, block in parts(shown) for part in block if one_line(part) not in one_line(said)]
    return count_words(said.split("**Sources.**")[0]) + sum(map(count_words, more))


def without_exercises(text: str) -> str:
    return re.sub(r"^> ?\*\*Exercise.*?(?=^[^>]|\Z)", "", text, flags=re.M | re.S)


def one_line(text: str) -> str:
    return " ".join(re.sub("^> ?", "", text, flags=re.M).split())


def exercise(cell: NotebookNode) -> str | None:
    return next((tag.split(":")[1] for tag in cell.metadata.get("tags", []) if tag.startswith("exercise:")), None)


def seconds() -> dict[str, int]:
    """Seconds of all cells of a chapter, from the benchmark."""
    items = json.loads((ROOT / "experiments/benchmarks/results/course.json").read_text(encoding="utf-8"))["items"]
    rows = [item for item in items if re.fullmatch(r"\d\d_\w+", item.get("what", ""))]
    return {row["what"][:2]: int(row["measured"].split()[0]) for row in rows}


def minutes(words: int) -> int:
    return math.ceil(words / SPOKEN)


def card(notebook: NotebookNode) -> tuple[int, int, int]:
    """Minutes of reading, exercises in which something is written, exercises in which a value is predicted."""
    words = sum(len(cell.source.split()) for cell in notebook.cells if cell.cell_type == "markdown")
    stubs = [cell.source for cell in notebook.cells if exercise(cell)]
    written = sum(bool(DEFINES.search(source)) for source in stubs)
    return math.ceil(words / READ), written, len(stubs) - written


def chapter_rows() -> dict[str, tuple[int, ...]]:
    """Slides, words, minutes aloud and minutes of the cells of each chapter."""
    took, found = seconds(), {}
    for number, (slides, _) in chapters().items():
        words = sum(slide.words for slide in slides)
        found[number] = len(slides), words, minutes(words), math.ceil(took[number] / 60)
    return found


def named(what: str) -> list[tuple[str, set[int]]]:
    """The sections that a row of a plan names, "01 §1 to §3 and §9"; "00:" is a whole chapter, with no sections."""
    found = []
    for number, listed in SECTIONS.findall(what):
        ranges = re.findall(r"§(\d+)(?: to §(\d+))?", listed)
        found.append((number, {n for first, last in ranges for n in range(int(first), int(last or first) + 1)}))
    return found


@dataclass
class Row:
    planned: int
    what: str
    slides: int
    words: int
    exercises: int
    chapters: set[str]

    @property
    def needed(self) -> int:
        return minutes(self.words) + self.exercises


def plans(guide: str) -> dict[str, list[Row]]:
    """The plans of a day or less, row by row, without breaks. The slide of an exercise is shown if the row names it."""
    course, found = chapters(), {}
    lengths = {name: length for _, exercises in course.values() for name, length in exercises.items()}
    for title, _, table in PLANS.findall(guide):
        found[title] = []
        for line in table.splitlines():
            planned, what = line.removeprefix("* **").split("** ", 1)
            done = set(re.findall(r"`(\w+)`", what)) & set(lengths)
            shown = [
                slide
                for number, sections in named(what)
                for slide in course[number][0]
                if (slide.section in sections or not sections) and slide.exercises <= done
            ]
            if what not in ("Break", "Lunch"):
                aloud = sum(slide.words for slide in shown)
                pause = sum(lengths[name] for name in done)
                found[title].append(Row(int(planned), what, len(shown), aloud, pause, {n for n, _ in named(what)}))
    return found


def plan_rows(guide: str) -> dict[str, tuple[int, ...]]:
    """Of each plan: slides, words, minutes aloud, of all cells of its chapters, of exercises, together, and planned."""
    took, found = seconds(), {}
    for title, rows in plans(guide).items():
        words, pause = sum(row.words for row in rows), sum(row.exercises for row in rows)
        cells = math.ceil(sum(took[number] for number in set().union(*(row.chapters for row in rows))) / 60)
        planned, slides = sum(row.planned for row in rows), sum(row.slides for row in rows)
        found[title] = slides, words, minutes(words), cells, pause, minutes(words) + cells + pause, planned
    return found


if __name__ == "__main__":
    guide = (ROOT / "docs" / "TEACHING.md").read_text(encoding="utf-8")
    rows = chapter_rows()
    for path in sorted((ROOT / "notebooks").glob("[0-9][0-9]_*.ipynb")):
        notebook = read(path)
        title = notebook.cells[0].source.splitlines()[0].removeprefix("# ")
        reading, written, predicted = card(notebook)
        doing = WRITING * written + PREDICTING * predicted
        slides, words, aloud, _ = rows[path.name[:2]]
        print(f"{title}: {slides} slides, {words:,} words\n* {reading} + {doing} minutes, {aloud} aloud")
        print(f"| **Time** | {reading + doing} minutes: {reading} of reading, {doing} of exercises |")
    filled = plan_rows(guide)
    for title, rows in plans(guide).items():
        print("\n{}: {} slides, {:,} words, {} + {} + {} minutes, {} of {}".format(title, *filled[title]))
        for row in rows:
            late = "  TOO LONG" if row.needed > row.planned else ""
            print(f"  {row.planned:3} planned, {row.needed:3} needed, {row.slides:2} slides: {row.what[:70]}{late}")
