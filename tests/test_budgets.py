"""Small is a property that one keeps: the size of the package, of the exercises, of the README and of a path."""

import json

import pytest

from .benchmarks.page import ROOT
from .benchmarks.suite import count_lines

LINES = {"possm_lite": 8_000, "notebooks/exercises": 5_000, "tests": 13_000}
PART_I = (2_400, 3_100, 2_500, 3_000, 2_400, 2_300, 3_000, 2_900, 2_900, 3_500)  # words of the chapters 00 to 09
PART_III = (3_100, 2_900, 3_000, 3_200, 2_700, 3_000, 2_700, 3_000, 2_300)  # of 10 to 18
PAGES = {"README": 1_000, "TEACHING": 4_000, "BENCHMARKS": 2_000}  # words
DEEPER, CELLS = {"0[0-9]": 14_000, "1[0-9]": 12_000}, 45  # words of ten chapters together; cells with code on a path


@pytest.mark.parametrize("folder", LINES)
def test_lines_stay_within_their_budget(folder):
    n = count_lines(folder)
    assert 0 < n <= LINES[folder], (
        f"{folder} has {n:,} lines of Python, its budget is {LINES[folder]:,}. Take something out before you add: a "
        "case that no lab meets within a year, an option that one chapter uses, a guard that a library repeats."
    )


@pytest.mark.parametrize("page", PAGES)
def test_a_page_stays_within_its_budget(page):
    n = len((ROOT / f"{page}.md").read_text(encoding="utf-8").split())
    assert n <= PAGES[page], f"{page}.md has {n:,} words, its budget is {PAGES[page]:,}: what does no reader need?"


def sources(folder: str, number: str, kind: str) -> list[str]:
    paths = ROOT.glob(f"notebooks/{folder}{number}_*.ipynb")
    cells = [cell for path in paths for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]]
    return ["".join(cell["source"]) for cell in cells if cell["cell_type"] == kind]


@pytest.mark.parametrize(("number", "limit"), list(enumerate(PART_I + PART_III)))
def test_a_path_stays_within_its_budget(number, limit):
    n = sum(len(source.split()) for source in sources("", f"{number:02}", "markdown"))
    assert 0 < n <= limit, f"{n:,} words, {limit:,} at most: move what proves or refines to deeper."
    assert len(sources("", f"{number:02}", "code")) <= CELLS


@pytest.mark.parametrize("numbers", DEEPER)
def test_deeper_stays_within_its_budget(numbers):
    n = sum(len(source.split()) for source in sources("deeper/", numbers, "markdown"))
    assert 0 < n <= DEEPER[numbers], f"{n:,} words in notebooks/deeper/{numbers}, {DEEPER[numbers]:,} at most."
