"""Slides made from the chapters by site/slides.py, and the minutes that site/rehearse.py counts from them."""

import importlib
import re

import pytest
from execute import read

from .test_chapters import CHAPTERS

KINDS = {"slide", "subslide", "fragment", "-", "notes", "skip"}
TAGS = {"slide:no-input", "slide:no-output", "slide:only-picture"}


@pytest.fixture
def slides():
    pytest.importorskip("nbconvert", reason="nbconvert is not installed: make .venv/.site")
    return importlib.import_module("slides")


@pytest.fixture
def rehearse(slides):
    return importlib.import_module("rehearse")


@pytest.mark.parametrize("path", CHAPTERS, ids=lambda path: path.stem)
def test_every_cell_has_a_slide_type(path):
    cells = read(path).cells
    kinds = [cell.metadata.slideshow.slide_type for cell in cells]
    assert set(kinds) <= KINDS and kinds[0] == "slide"
    breaks = sum(cell.metadata.slideshow.get("show", []).count("---") for cell in cells)
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


def test_the_guide_has_the_minutes_of_the_slides(rehearse):
    """Words may change by a twentieth before the tables of TEACHING.md must be printed anew."""
    guide = (rehearse.ROOT / "TEACHING.md").read_text(encoding="utf-8")
    named = re.findall(r"^\| (?:\[(\d\d) |([A-Z][^|]+) \| \d+ \| )(.+) \|$", guide, flags=re.M)
    stated = {chapter or plan: row for chapter, plan, row in named}
    chapters, plans = rehearse.chapter_rows(), rehearse.plan_rows(guide)
    assert len(plans) == 4
    for name, row in {**chapters, **plans}.items():
        values = stated[name].replace(",", "").split(" | ")
        printed = row[:3] if name in chapters else row[1:]
        for value, number in zip(values[-len(printed) :], printed, strict=True):
            assert abs(int(value) - number) <= max(1, number / 20), f"{name}: {row}, python site/rehearse.py"
        if name in chapters:
            assert row[2] + row[3] <= int(values[4]), f"{name} takes longer aloud than its card says"
        else:
            assert row[-2] <= row[-1]
    for row in sum(rehearse.plans(guide).values(), []):
        assert row.needed <= row.planned, f"{row.what}: {row.needed} minutes"
