"""Small is a property that one keeps: the size of the package, of the exercises, of the README and of a path."""

import json

import pytest

from .benchmarks.page import ROOT
from .benchmarks.suite import count_lines

LINES = {"possm_lite": 8_000, "notebooks/exercises": 5_000, "tests": 13_000}
WORDS = {
    "00": 2_400,
    "01": 3_100,
    "02": 2_500,
    "03": 3_000,
    "04": 2_400,
    "05": 2_300,
    "06": 3_000,
    "07": 2_900,
    "08": 2_900,
    "09": 3_500,
    "10": 3_100,
    "11": 2_900,
    "12": 3_000,
    "15": 3_000,
    "17": 3_000,
    "18": 2_300,
}
DEEPER, CELLS = {"0[0-9]": 14_000, "1[0-9]": 12_000}, 45  # words of ten chapters together; cells with code on a path


@pytest.mark.parametrize("folder", LINES)
def test_lines_stay_within_their_budget(folder):
    n = count_lines(folder)
    assert 0 < n <= LINES[folder], (
        f"{folder} has {n:,} lines of Python, its budget is {LINES[folder]:,}. Take something out before you add: a "
        "case that no lab meets within a year, an option that one chapter uses, a guard that a library repeats."
    )


def test_the_readme_stays_within_its_budget():
    n = len((ROOT / "README.md").read_text(encoding="utf-8").split())
    assert n <= 1_000, f"README.md has {n:,} words, its budget is 1,000. Take out what a first visitor does not need."


def sources(folder: str, number: str, kind: str) -> list[str]:
    cells = [
        cell
        for path in ROOT.glob(f"notebooks/{folder}{number}_*.ipynb")
        for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]
    ]
    return ["".join(cell["source"]) for cell in cells if cell["cell_type"] == kind]


@pytest.mark.parametrize("number", WORDS)
def test_a_path_stays_within_its_budget(number):
    n = sum(len(source.split()) for source in sources("", number, "markdown"))
    assert 0 < n <= WORDS[number], f"{n:,} words, {WORDS[number]:,} at most: move what proves or refines to deeper."
    assert len(sources("", number, "code")) <= CELLS


@pytest.mark.parametrize("numbers", DEEPER)
def test_deeper_stays_within_its_budget(numbers):
    n = sum(len(source.split()) for source in sources("deeper/", numbers, "markdown"))
    assert 0 < n <= DEEPER[numbers], f"{n:,} words in notebooks/deeper/{numbers}, {DEEPER[numbers]:,} at most."
