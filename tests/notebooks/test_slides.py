"""Every cell says what it is on the wall; texts are cut at sentences, formulas and items, as they are asked for."""

import importlib
from pathlib import Path

import pytest

from possm_lite.classroom.execute import read

ROOT = Path(__file__).parents[2]
CHAPTERS = [pytest.param(path, id=path.stem) for path in sorted((ROOT / "notebooks").glob("[0-9][0-9]_*.ipynb"))]
KINDS = {"slide", "subslide", "fragment", "-", "notes", "skip"}
TAGS = {"slide:no-input", "slide:no-output", "slide:only-picture"}
WORDS = 110  # a formula or a table counts as one

TEXT = """## 2. How near?

The width is $w$. Is 0.5 s near? **Large $w$,
narrow kernel.** So:

$$K(u) = e^{-u^2/2} \\tag{2.1}$$

* one thing. And more of it
* another

> **Exercise 2.1: write it.** Given `x`. A hint: none."""


@pytest.fixture
def slides(monkeypatch):
    pytest.importorskip("nbconvert", reason="nbconvert is not here: make .venv/.site")
    monkeypatch.syspath_prepend(str(ROOT / "site"))
    return importlib.import_module("slides")


@pytest.mark.parametrize("path", CHAPTERS)
def test_every_cell_says_what_it_is_on_the_wall(path):
    cells = read(path).cells
    kinds = [cell.metadata.slideshow.slide_type for cell in cells]
    assert set(kinds) <= KINDS and kinds[0] == "slide"
    shown = sum(kind in ("slide", "subslide") for kind in kinds)
    shown += sum(cell.metadata.slideshow.get("show", []).count("---") for cell in cells)
    assert 12 <= shown <= 45
    for cell in cells:
        if cell.cell_type == "markdown" and cell.source.startswith("## "):
            assert cell.metadata.slideshow.slide_type == "slide", cell.source[:60]
        if cell.source.startswith("check.") or cell.source.endswith(".sweep()"):
            assert cell.metadata.slideshow.slide_type == "skip", cell.source
        tags = {tag for tag in cell.metadata.get("tags", []) if tag.startswith("slide:")}
        assert tags <= TAGS
        if any(tag.startswith("exercise:") for tag in cell.metadata.get("tags", [])):
            assert cell.metadata.slideshow.slide_type not in ("skip", "notes"), "an exercise is to be seen"


@pytest.mark.parametrize("path", CHAPTERS)
def test_what_is_shown_is_in_the_chapter_and_no_more_than_can_be_read(slides, path):
    """A sentence that was changed must be named anew; `pieces` raises where nothing begins so."""
    for cell in read(path).cells:
        for piece in slides.pieces(cell):
            if piece.cell_type == "markdown" and piece.metadata.slideshow.slide_type != "notes":
                words = sum(
                    1 if part.startswith(("$$", "|")) else len(part.split())
                    for _, b in slides.parts(piece.source)
                    for part in b
                )
                assert words <= WORDS, piece.source


def test_a_text_is_cut_at_sentences_formulas_and_items(slides):
    blocks = [block for _, block in slides.parts(TEXT)]
    assert blocks == [
        ["## 2. How near?"],
        ["The width is $w$.", "Is 0.5 s near?", "**Large $w$,\nnarrow kernel.**", "So:"],
        ["$$K(u) = e^{-u^2/2} \\tag{2.1}$$"],
        ["* one thing.", "And more of it"],
        ["* another"],
        ["**Exercise 2.1: write it.**", "Given `x`.", "A hint: none."],
    ]
    assert [quoted for quoted, _ in slides.parts(TEXT)] == [False] * 5 + [True]


def test_what_is_shown_keeps_the_order_of_the_text_and_its_quotes(slides):
    shown = slides.excerpt(TEXT, ["Given", "(2.1)", "## 2.", "Is 0.5", "**Exercise"])
    assert shown.split("\n\n") == [
        "## 2. How near?",
        "Is 0.5 s near?",
        "$$K(u) = e^{-u^2/2} \\tag{2.1}$$",
        "> **Exercise 2.1: write it.** Given `x`.",
    ]


@pytest.mark.parametrize("start", ["Is 0.6", "(2.2)", "narrow kernel"])
def test_what_is_not_there_is_named(slides, start):
    with pytest.raises(ValueError, match="nothing begins with"):
        slides.excerpt(TEXT, ["The width", start])


def test_of_code_the_named_parts_are_shown(slides):
    code = "import math\n\n\ndef f(x):\n    y = x\n\n    return y\n\n\nprint(f(1))"
    assert slides.definitions(code, ["def f"]) == "def f(x):\n    y = x\n\n    return y"
    with pytest.raises(ValueError, match="nothing begins with 'def g'"):
        slides.definitions(code, ["def f", "def g"])


def test_a_break_makes_a_slide_and_the_whole_text_is_in_the_notes_once(slides):
    [chapter, *_] = [read(param.values[0]) for param in CHAPTERS[1:2]]
    cells = slides.on_the_wall(chapter).cells
    starts = [i for i, cell in enumerate(cells) if cell.metadata.slideshow.slide_type in ("slide", "subslide")]
    for start, stop in zip(starts, [*starts[1:], len(cells)], strict=True):
        kinds = [cell.metadata.slideshow.slide_type for cell in cells[start:stop]]
        assert kinds.count("notes") <= 1 and "notes" not in kinds[2:], "notes come before what is uncovered"
