"""How long a chapter and its slides take: python -m tools.rehearse prints the minutes of TEACHING.md and of the card of
each chapter, what each row of a plan needs, and what a plan of 90 minutes takes to prepare; python -m tools.rehearse 04
prints the minutes of chapter 04 alone.

The card gives a range. Its lower end counts the words and the exercises; its upper end also a minute for each picture
and displayed formula, and the lines of visible code.

Measured: words, slides, the words of the speaker's notes, the seconds of the cells (`make bench ARGS="course"`).
Estimated: the words that are read or spoken in a minute, and the minutes of exercises. Nobody spoke: all of the notes
are taken to be read aloud, and whatever a class asks comes on top. Statements of exercises and sources are not read
aloud.
"""

import json
import math
import re
import sys
from dataclasses import dataclass
from pathlib import Path

from nbformat import NotebookNode

from tools.execute import read
from tools.site.prepare import ROOT
from tools.site.slides import count_words, notes, parts, shown_text, split, to_slides

READ, SPOKEN = 120, 130  # words per minute
KNOWN = 200  # words per minute of an instructor, who reads what is known in new words
CLICKING, SLIDING = 2, 1  # minutes to open a notebook and run it beforehand, and for a slider
CODE = 15  # lines of visible code per minute
LONGEST = 90  # minutes of one sitting
WRITING, PREDICTING = 8, 3  # minutes of an exercise whose statement gives none
STATED = re.compile(r"\*\*Exercise \d+\.\d+.*?(\d+) minutes", flags=re.S)
DISPLAY = re.compile(r"\$\$.+?\$\$", flags=re.S)
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
        lengths = exercise_minutes(notebook)  # before the cells become slides
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


@dataclass(frozen=True)
class Card:
    """The minutes on the card of a chapter.

    Attributes:
        words: minutes of reading the words.
        looking: minutes for pictures, displayed formulas and visible code.
        exercises: minutes of all exercises together.
    """

    words: float
    looking: float
    exercises: int

    @property
    def low(self) -> int:
        return 5 * math.floor((self.words + self.exercises) / 5)

    @property
    def high(self) -> int:
        return 5 * math.ceil((self.words + self.looking + self.exercises) / 5)

    def __str__(self) -> str:
        return f"{self.low} to {self.high} minutes"


def card(notebook: NotebookNode) -> Card:
    """What the card of a chapter must say."""
    texts = [cell.source for cell in notebook.cells if cell.cell_type == "markdown"]
    words = sum(len(text.split()) for text in texts)
    formulas = sum(len(DISPLAY.findall(text)) for text in texts)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    pictures = sum(has_picture(cell) for cell in code)
    lines = sum(visible_lines(cell) for cell in code)
    return Card(words / READ, pictures + formulas + lines / CODE, sum(exercise_minutes(notebook).values()))


def exercise_minutes(notebook: NotebookNode) -> dict[str, int]:
    """The minutes of each exercise: those in its statement, or a guess where none stand there."""
    found, statement = {}, ""
    for cell in notebook.cells:
        if name := exercise(cell):
            stated = STATED.search(statement)
            guess = WRITING if DEFINES.search(cell.source) else PREDICTING
            found[name] = int(stated[1]) if stated else guess
            statement = ""
        elif STATED.search(cell.source) and cell.cell_type == "markdown":
            statement = cell.source  # the code of a friend may come before the cell of the exercise
    return found


def has_picture(cell: NotebookNode) -> bool:
    return any("image/png" in output.get("data", {}) for output in cell.outputs)


def visible_lines(cell: NotebookNode) -> int:
    """Lines of code that a reader sees: none of a folded cell, and none of the stub of an exercise."""
    if cell.metadata.get("jupyter", {}).get("source_hidden") or exercise(cell):
        return 0
    return sum(bool(line.strip()) for line in cell.source.splitlines())


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


@dataclass
class Preparation:
    """What an instructor does before a plan, the course being set up.

    Attributes:
        words: to read, those of the guide about this plan and its chapters, and those of the sections shown.
        notebooks: to open and run beforehand; while their cells run, one goes on.
        sliders: in the sections shown.
        exercises: minutes of those of the plan, each done once.
    """

    words: int
    notebooks: int
    sliders: int
    exercises: int

    @property
    def minutes(self) -> int:
        return math.ceil(self.words / KNOWN + CLICKING * self.notebooks + SLIDING * self.sliders + self.exercises)

    def __str__(self) -> str:
        reading = math.ceil(self.words / KNOWN)
        return (
            f"{self.words:,} words in {reading} minutes, {self.notebooks} notebooks, {self.sliders} sliders, "
            f"{self.exercises} minutes of exercises: {self.minutes} minutes"
        )


def preparations(guide: str) -> dict[str, Preparation]:
    """Of each plan of 90 minutes."""
    paths = {path.name[:2]: path for path in (ROOT / "notebooks").glob("[0-9][0-9]_*.ipynb")}
    of_chapter = {text[:2]: text for text in re.split(r"^### (?=\d\d )", guide, flags=re.M)[1:]}
    begin, about = guide.split("\n## Plans\n")[0], guide.split("\n## The room\n")[1]
    found = {}
    for title, rows in plans(guide).items():
        if f"\n### {title} (90 minutes)\n" not in guide:
            continue
        text = guide.split(f"\n### {title} (")[1].split("\n### ")[0].split("\n## ")[0]
        beforehand = re.search(r"\*\*Run beforehand:\*\*(.+?)\*\*", text, flags=re.S)[1]
        chapters_shown = sorted(set().union(*(row.chapters for row in rows)))
        shown = [cell for row in rows for cell in cells_of(row.what, paths)]
        texts = [begin, text, about, *(of_chapter[number].split("\n## ")[0] for number in chapters_shown)]
        texts += [cell.source for cell in shown if cell.cell_type == "markdown"]
        found[title] = Preparation(
            words=sum(len(each.split()) for each in texts),
            notebooks=len(set(re.findall(r"\b\d\d\b", beforehand))),
            sliders=sum(cell.source.count("Slider(") for cell in shown if cell.cell_type == "code"),
            exercises=sum(row.exercises for row in rows),
        )
    return found


def cells_of(what: str, paths: dict[str, Path]) -> list[NotebookNode]:
    """The cells of the sections that a row of a plan names."""
    found = []
    for number, sections in named(what):
        section = None
        for cell in read(paths[number]).cells:
            if heading := HEADING.search(cell.source) if cell.cell_type == "markdown" else None:
                section = int(heading[1]) if heading[1] else None
            found += [cell] if section in sections or not sections else []
    return found


def print_chapter(path: Path, row: tuple[int, ...]) -> Card:
    """Print the lines of one chapter for TEACHING.md and for its card."""
    notebook = read(path)
    title = notebook.cells[0].source.splitlines()[0].removeprefix("# ")
    slides, words, aloud, _ = row
    lasting = card(notebook)
    print(f"{title}: {slides} slides, {words:,} words\n* {lasting}, {aloud} aloud")
    sittings = "" if lasting.high <= LONGEST else "; in two sittings, ..."
    print(f"| **Time** | {lasting}, {lasting.exercises} of them for exercises{sittings} |")
    return lasting


def print_plans(guide: str) -> None:
    """Print what each row of each plan needs."""
    filled, prepared = plan_rows(guide), preparations(guide)
    for title, rows in plans(guide).items():
        print("\n{}: {} slides, {:,} words, {} + {} + {} minutes, {} of {}".format(title, *filled[title]))
        for row in rows:
            late = "  TOO LONG" if row.needed > row.planned else ""
            print(f"  {row.planned:3} planned, {row.needed:3} needed, {row.slides:2} slides: {row.what[:70]}{late}")
        if title in prepared:
            print(f"  to prepare: {prepared[title]}")


def main(numbers: list[str]) -> None:
    rows, paths = chapter_rows(), sorted((ROOT / "notebooks").glob("[0-9][0-9]_*.ipynb"))
    if unknown := set(numbers) - set(rows):
        sys.exit(f"no chapter {', '.join(sorted(unknown))}: chapters are {min(rows)} to {max(rows)}")
    cards = [print_chapter(path, rows[path.name[:2]]) for path in paths if not numbers or path.name[:2] in numbers]
    if numbers:
        return
    low, high = sum(each.low for each in cards), sum(each.high for each in cards)
    print(f"\nAll chapters: {low / 60:.0f} to {high / 60:.0f} hours")
    print_plans((ROOT / "docs" / "TEACHING.md").read_text(encoding="utf-8"))


if __name__ == "__main__":
    main(sys.argv[1:])
