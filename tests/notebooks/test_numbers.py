"""Each decimal number that the prose of chapters 10 to 19 quotes is printed by one of their cells.

A retraining, another seed or another recording changes what a cell prints; a sentence does not follow by itself.
"""

import re
from functools import cache
from pathlib import Path

import pytest

from tools import execute

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
CHAPTERS = sorted(NOTEBOOKS.glob("1[0-9]_*.ipynb"))  # those before calculate small examples in the text

NOT_QUOTED = re.compile(
    r"\*\*Sources\.\*\*.*"  # numbers of other people's papers
    r"|\$\$.*?\$\$|\$[^$]*\$|`[^`]*`"  # formulas and code
    r"|\]\([^)]*\)"  # addresses of links
    r"|\(\d+\.\d+[a-z]?\)"  # numbers of formulas
    r"|[Ee]xercises? \d+\.\d+(?:(?:, | and | to )\d+\.\d+)*",
    re.DOTALL,
)
DECIMAL = re.compile(r"(?<![\w.])\d+\.\d+(?![\w.]*\d)")
PRINTED = re.compile(r"\d+(?:\.\d+)?(?:e[-+]?\d+)?")


@cache
def printed(path: Path) -> tuple[float, ...]:
    """Every number in the code and the text outputs of a notebook, without signs."""
    if not path.exists():
        return ()
    texts = []
    for cell in execute.read(path).cells:
        if cell.cell_type == "code":
            texts.append(cell.source)
            texts += [output.get("text", "") for output in cell.outputs]
            texts += [output.get("data", {}).get("text/html", "") for output in cell.outputs]
    return tuple(float(number) for number in PRINTED.findall("\n".join(texts).replace(",", "")))


def quoted(path: Path) -> list[tuple[int, str, str]]:
    """Each decimal number in the prose of a notebook: its cell, the number, and the words around it."""
    found = []
    for index, cell in enumerate(execute.read(path).cells):
        if cell.cell_type == "markdown":
            prose = NOT_QUOTED.sub(" ", cell.source)
            for number in DECIMAL.finditer(prose):
                around = prose[max(number.start() - 40, 0) : number.end() + 20].replace("\n", " ")
                found.append((index, number.group(), around))
    return found


def agrees(number: str, value: float) -> bool:
    """Whether a printed value, rounded to the digits of the quoted number, is that number."""
    digits = len(number.partition(".")[2])
    return abs(float(number) - value) <= 0.5 * 10**-digits + 1e-9


@pytest.mark.parametrize("path", CHAPTERS, ids=lambda path: path.stem)
def test_quoted_numbers_are_printed(path):
    values = printed(path) + printed(path.parent / "deeper" / path.name)
    stale = [
        f"cell {index + 1}: {number} in '... {around} ...'"
        for index, number, around in quoted(path)
        if not any(agrees(number, value) for value in values)
    ]
    assert not stale, "no cell of the chapter or of its deeper part prints:\n" + "\n".join(stale)


def test_a_stale_number_is_noticed():
    assert agrees("0.61", 0.6149) and not agrees("0.61", 0.617)
    assert NOT_QUOTED.sub("", "(11.2), Exercise 3.1 and 3.2, $0.5x$ of [it](a/1.5)") == ", ,  of [it"
