"""Slides made from the chapters by tools/site/slides.py, and the minutes that tools/rehearse.py counts from them."""

import importlib
import re

import nbformat
import pytest

from tools.execute import read

from .test_chapters import CHAPTERS

KINDS = {"slide", "subslide", "fragment", "-", "notes", "skip"}
TAGS = {"slide:no-input", "slide:no-output", "slide:only-picture"}


@pytest.fixture
def slides():
    pytest.importorskip("nbconvert", reason="nbconvert is not installed: make .venv/.site")
    return importlib.import_module("tools.site.slides")


@pytest.fixture
def rehearse(slides):
    return importlib.import_module("tools.rehearse")


@pytest.mark.parametrize("path", CHAPTERS, ids=lambda path: path.stem)
def test_every_cell_has_a_slide_type(path):
    cells = read(path).cells
    kinds = [cell.metadata.slideshow.slide_type for cell in cells]
    assert set(kinds) <= KINDS and kinds[0] == "slide"
    breaks = sum(cell.metadata.slideshow.get("show", []).count("---") for cell in cells)
    breaks += sum(len(cell.metadata.slideshow.get("text", [""])) - 1 for cell in cells)
    assert 12 <= breaks + sum(kind in ("slide", "subslide") for kind in kinds) <= 45
    for cell, kind in zip(cells, kinds, strict=True):
        tags = cell.metadata.get("tags", [])
        assert {tag for tag in tags if tag.startswith("slide:")} <= TAGS
        if cell.cell_type == "markdown" and cell.source.startswith("## "):
            assert kind == "slide", cell.source[:60]
        if cell.source.startswith("check.") or cell.source.endswith(".sweep()"):
            assert kind == "skip", cell.source
        if any(tag.startswith("exercise:") for tag in tags):
            assert kind not in ("skip", "notes"), "exercises are shown"


@pytest.mark.parametrize("path", CHAPTERS, ids=lambda path: path.stem)
def test_a_slide_shows_something_in_few_words(slides, path):
    """`to_slides` raises where no sentence of the chapter begins with an excerpt's words."""
    for slide in slides.split(slides.to_slides(read(path)).cells):
        text = slides.shown_text(slide)
        assert slides.count_words(text) <= slides.WORDS, text
        assert slides.code_lines(slide) <= slides.CODE_LINES, text
        assert slides.shows_something(slide), text
        kinds = [cell.metadata.slideshow.slide_type for cell in slide]
        assert kinds.count("notes") <= 1 and "notes" not in kinds[2:], text


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
    for row in sum(rehearse.plans(guide).values(), []):
        assert row.needed <= row.planned, f"{row.what}: {row.needed} minutes"
