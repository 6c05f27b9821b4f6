"""TEACHING.md knows every chapter and exercise there is, and its minutes add up."""

import json
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "TEACHING.md").read_text(encoding="utf-8")
CHAPTERS = [pytest.param(path, id=path.stem) for path in sorted((ROOT / "notebooks").glob("*.ipynb"))]
WRITE_MIN, PREDICT_MIN = 8, 3  # what the guide estimates for a function and for a number


@cache
def cells_of(chapter: Path) -> list[tuple[str, str, tuple[str, ...]]]:
    """Type, source and exercise IDs of every cell."""
    cells = json.loads(chapter.read_text(encoding="utf-8"))["cells"]
    prefix = "exercise:"
    return [
        (
            cell["cell_type"],
            "".join(cell["source"]),
            tuple(tag[len(prefix) :] for tag in cell["metadata"].get("tags", []) if tag.startswith(prefix)),
        )
        for cell in cells
    ]


def exercises(chapter: Path) -> dict[str, str]:
    """ID -> source of the cell, in the order of the chapter."""
    return {name: source for _, source, names in cells_of(chapter) for name in names}


def sections(chapter: Path) -> set[int]:
    said = "\n".join(source for kind, source, _ in cells_of(chapter) if kind == "markdown")
    return {int(number) for number in re.findall(r"^## (\d+)\.", said, flags=re.MULTILINE)}


def under(heading: str) -> str:
    """What stands in TEACHING.md under a heading that begins so, down to the next one of its level or above."""
    level = len(heading.split()[0])
    part = re.search(rf"^{re.escape(heading)}.*?(?=^#{{1,{level}}} |\Z)", TEXT, flags=re.MULTILINE | re.DOTALL)
    assert part, f"TEACHING.md has no heading {heading!r}"
    return part[0]


def plans() -> list:
    parts = re.split(r"^### ", under("## Plans"), flags=re.MULTILINE)[1:]
    return [pytest.param(part, id=part.splitlines()[0]) for part in parts]


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_a_chapter_has_its_section_with_all_exercises(chapter):
    title = cells_of(chapter)[0][1].splitlines()[0]
    section = under(f"### {title.removeprefix('# ')}\n")
    for item in ("Exercises.", "What goes wrong.", "Stop after §", "Ask."):
        assert f"* **{item}" in section
    listed = section.split("**What goes wrong")[0]
    number = int(chapter.name[:2])
    wanted = [f"`{name}` ({number}.{place})" for place, name in enumerate(exercises(chapter), start=1)]
    assert re.findall(r"`\w+` \(\d+\.\d+\)", listed) == wanted
    assert int(re.search(r"\*\*Stop after §(\d+)", section)[1]) in sections(chapter)


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_the_minutes_of_a_chapter_are_those_of_its_card(chapter):
    row = re.search(rf"^\| \[{chapter.stem}\]\(.*$", under("## Minutes"), flags=re.MULTILINE)
    assert row, f"{chapter.stem} is not in the table of minutes"
    reading, kinds, estimate, together = (cell.strip() for cell in row[0].strip("| ").split("|")[1:])
    written, predicted = (int(count) for count in kinds.split("+"))
    asked = exercises(chapter).values()
    assert written == sum(source.startswith("def ") or "\ndef " in source for source in asked)
    assert written + predicted == len(asked)
    assert int(reading) == int(re.search(r"\*\*Time\*\* \| (\d+) minutes", cells_of(chapter)[0][1])[1])
    assert int(estimate) == WRITE_MIN * written + PREDICT_MIN * predicted
    assert int(together) == int(reading) + int(estimate)


def test_there_are_plans_of_90_minutes_a_day_and_a_semester():
    headings = [part.values[0].splitlines()[0] for part in plans()]
    assert sum("(90 minutes)" in heading for heading in headings) >= 2
    assert any(heading.startswith("A day") for heading in headings)
    assert any(heading.startswith("A semester") for heading in headings)


@pytest.mark.parametrize("plan", plans())
def test_the_minutes_of_a_plan_add_up(plan):
    total = int(re.search(r"\((\d+) minutes\)", plan.splitlines()[0])[1])
    head, _, *rows = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in plan.splitlines() if line.startswith("|")
    ]
    assert sum(int(row[head.index("minutes")]) for row in rows) == total


@pytest.mark.parametrize("plan", plans())
def test_a_plan_names_only_sections_and_exercises_that_exist(plan):
    by_number = {path.name[:2]: path for path in (ROOT / "notebooks").glob("*.ipynb")}
    for number, rest in re.findall(r"\b(\d\d)((?:,? (?:and |to |or )?§\d+)+)", plan):
        if number in by_number:
            assert {int(section) for section in re.findall(r"§(\d+)", rest)} <= sections(by_number[number])
    known = {name for path in by_number.values() for name in exercises(path)}
    assert set(re.findall(r"`([a-z]\w*)`", plan)) <= known


def test_every_link_leads_somewhere():
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", TEXT):
        if not re.match(r"https?:", target):
            assert (ROOT / target).exists(), target
