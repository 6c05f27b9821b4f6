"""Slides made from the chapters by tools/site/slides.py, and the minutes that tools/rehearse.py counts from them."""

import importlib
import re

import nbformat
import pytest

from tools.execute import read

from .test_chapters import CHAPTERS, cell_name, shown

KINDS = {"slide", "subslide", "fragment", "-", "notes", "skip"}
TAGS = {"slide:no-input", "slide:no-output", "slide:only-picture"}


@pytest.fixture
def slides():
    pytest.importorskip("nbconvert", reason="nbconvert is not installed: make .venv/.site")
    return importlib.import_module("tools.site.slides")


@pytest.fixture
def rehearse(slides):
    return importlib.import_module("tools.rehearse")


def slide_types(path) -> list[str]:
    """The slide type of every cell, each of which must have one."""
    cells = read(path).cells
    kinds = [cell.metadata.get("slideshow", {}).get("slide_type") for cell in cells]
    for index, kind in enumerate(kinds):
        assert kind in KINDS, (
            f"{cell_name(path, index)} has the slide type {kind}: give it one of {', '.join(sorted(KINDS))} "
            "(JupyterLab: property inspector, Slide Type; in the file: slideshow.slide_type in the cell's metadata). "
            'skip is for cells that no slide shows, "-" for those that go on with the slide before'
        )
    return kinds


@pytest.mark.parametrize("path", CHAPTERS, ids=lambda path: path.stem)
def test_every_cell_has_a_slide_type(path):
    cells, kinds = read(path).cells, slide_types(path)
    assert kinds[0] == "slide", f"{cell_name(path, 0)} must have the slide type slide: it is the title"
    n_slides = sum(kind in ("slide", "subslide") for kind in kinds)
    n_slides += sum(cell.metadata.slideshow.get("show", []).count("---") for cell in cells)
    n_slides += sum(len(cell.metadata.slideshow.get("text", [""])) - 1 for cell in cells)
    assert 12 <= n_slides <= 45, f"{shown(path)} has {n_slides} slides: between 12 and 45 is what a class can follow"
    for index, (cell, kind) in enumerate(zip(cells, kinds, strict=True)):
        tags, name = cell.metadata.get("tags", []), cell_name(path, index)
        unknown = {tag for tag in tags if tag.startswith("slide:")} - TAGS
        assert not unknown, f"{name} has the tag {', '.join(unknown)}: the tags of slides are {', '.join(sorted(TAGS))}"
        if cell.cell_type == "markdown" and cell.source.startswith("## "):
            assert kind == "slide", f"{name} has the slide type {kind}: a section begins a slide"
        if cell.source.startswith("check.") or cell.source.endswith(".sweep()"):
            assert kind == "skip", f"{name} has the slide type {kind}: checks and sweeps are not shown, skip them"
        if any(tag.startswith("exercise:") for tag in tags):
            assert kind not in ("skip", "notes"), f"{name} has the slide type {kind}: exercises are shown"


@pytest.mark.parametrize("path", CHAPTERS, ids=lambda path: path.stem)
def test_a_slide_shows_something_in_few_words(slides, path):
    """`to_slides` raises where no sentence of the chapter begins with an excerpt's words."""
    slide_types(path)
    for slide in slides.split(slides.to_slides(read(path)).cells):
        text = slides.shown_text(slide)
        this = f"This slide of {shown(path)}:\n\n{text}\n\n"
        show = "(slideshow.show or slideshow.text in the metadata of its cell; tools/site/slides.py says how)"
        n_words, n_lines = slides.count_words(text), slides.code_lines(slide)
        assert n_words <= slides.WORDS, f"{this}has {n_words} words, at most {slides.WORDS}: say less on it {show}"
        assert n_lines <= slides.CODE_LINES, (
            f"{this}has {n_lines} lines of code, at most {slides.CODE_LINES}: show some of its functions {show}, "
            "or give its cell the tag slide:no-input"
        )
        assert slides.shows_something(slide), (
            f"{this}has statements only: show a picture, a result, code, a formula, a table or a question {show}, "
            "or give its cell the slide type notes"
        )
        kinds = [cell.metadata.slideshow.slide_type for cell in slide]
        assert kinds.count("notes") <= 1 and "notes" not in kinds[2:], f"{this}has its notes in two places"


def test_a_cell_has_sentences_of_its_own_for_its_slides(slides):
    metadata = {"slideshow": {"slide_type": "slide", "text": ["One *idea*.", "See [04](04_positions.ipynb)."]}}
    cell = nbformat.v4.new_markdown_cell("A paragraph that no slide quotes.", metadata=metadata)
    first, notes, second = slides.pieces(cell)
    assert first.source == "One *idea*." and second.source == "See [04](../04_positions.html)."
    assert notes.source == "A paragraph that no slide quotes."
    kinds = [piece.metadata.slideshow.slide_type for piece in (first, notes, second)]
    assert kinds == ["slide", "notes", "subslide"]


def test_the_guide_has_the_minutes_of_the_slides(rehearse):
    """They may change by one before those of TEACHING.md must be printed anew."""
    guide = (rehearse.ROOT / "docs" / "TEACHING.md").read_text(encoding="utf-8")
    stated = re.findall(r"^### (\d\d) .+\n\* \d+ to (\d+) minutes, (\d+) aloud\.", guide, flags=re.M)
    rows = rehearse.chapter_rows().values()
    for (number, longest, said), (_, _, aloud, cells) in zip(stated, rows, strict=True):
        assert abs(int(said) - aloud) <= 1, f"{number}: python -m tools.rehearse"
        assert aloud + cells <= int(longest), f"{number} takes longer aloud than its card says"
    filled = [together / planned for *_, together, planned in rehearse.plan_rows(guide).values()]
    assert len(filled) == 5 and min(filled) > 0.25 and max(filled) < 0.55  # "a quarter to a half"
    prepared = rehearse.preparations(guide)
    lengths = [each.minutes for each in prepared.values()]
    low, high = map(int, re.search(r"steps 2 to 4 take (\d+) to (\d+) minutes", guide).groups())
    assert len(lengths) == 3 and low <= min(lengths) < low + 5 and high - 5 < max(lengths) <= high, lengths
    words = int(re.search(r"about ([\d,]+) words to read", guide)[1].replace(",", ""))
    decoding = next(each for title, each in prepared.items() if title.startswith("Neural decoding"))
    assert abs(words - decoding.words) <= 250, decoding
    for row in sum(rehearse.plans(guide).values(), []):
        assert row.needed <= row.planned, f"{row.what}: {row.needed} minutes"
