"""GLOSSARY.md has every dimension of the course, and each of its rows points at a chapter that knows the word."""

import json
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "GLOSSARY.md").read_text(encoding="utf-8")

# The dimension glossary of the design.
DIMENSIONS = {
    "B": "batch",
    "T": "n_bins",
    "N": "n_spikes",
    "U": "n_units",
    "L": "n_latents",
    "D": "dim",
    "H": "n_heads",
    "d": "head_dim",
    "F": "n_freqs",
    "h": "hidden",
    "k": "context_bins",
    "Q": "n_queries",
}


def rows(heading: str) -> list[list[str]]:
    """The cells of the table under a heading, without its two lines of head."""
    part = TEXT.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    lines = [line for line in part.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[2:]]


SYMBOLS, TERMS = rows("Symbols"), rows("Terms")
# English, 中文 and link of every row
ALL = [pytest.param(row[2], row[3], row[-1], id=row[0]) for row in SYMBOLS]
ALL += [pytest.param(row[0], row[1], row[-1], id=row[0]) for row in TERMS]


@cache
def text_of(chapter: Path) -> str:
    """What a chapter says, without marks of emphasis, in lower case."""
    cells = json.loads(chapter.read_text(encoding="utf-8"))["cells"]
    said = "\n".join("".join(cell["source"]) for cell in cells)
    return re.sub(r"\s+", " ", re.sub(r"[*`]", "", said)).casefold()


@cache
def sections_of(chapter: Path) -> set[str]:
    cells = json.loads(chapter.read_text(encoding="utf-8"))["cells"]
    said = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
    return set(re.findall(r"^## (\d+)\.", said, flags=re.MULTILINE))


def test_both_tables_have_as_many_cells_as_their_heads():
    assert {len(row) for row in SYMBOLS} == {5}
    assert {len(row) for row in TERMS} == {4}


@pytest.mark.parametrize("symbol", DIMENSIONS)
def test_every_dimension_is_there_with_its_name_in_code(symbol):
    assert f"`{DIMENSIONS[symbol]}`" in [row[1] for row in SYMBOLS if row[0] == f"${symbol}$"]


def test_terms_are_in_the_order_of_the_alphabet_and_nothing_is_there_twice():
    terms = [row[0].casefold() for row in TERMS]
    assert terms == sorted(terms)
    assert len(set(terms)) == len(terms)
    assert len({row[0] for row in SYMBOLS}) == len(SYMBOLS)
    assert len(terms) >= 120


@pytest.mark.parametrize("english, chinese, link", ALL)
def test_a_row_has_both_languages_and_a_chapter_that_knows_the_word(english, chinese, link):
    assert re.search(r"[\u4e00-\u9fff]", chinese)
    number, section, target = re.fullmatch(r"\[(\d\d)(?: §(\d+))?\]\((notebooks/.+\.ipynb)\)", link).groups()
    chapter = ROOT / target
    assert chapter.is_file() and chapter.name.startswith(number)
    assert section is None or section in sections_of(chapter)
    assert english.split(" (")[0].casefold() in text_of(chapter)
