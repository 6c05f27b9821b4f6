"""README, TEACHING, GLOSSARY and the other guides agree with the files, chapters, exercises and commands they name."""

import json
import re
from functools import cache
from pathlib import Path

import pytest

from tools.execute import read
from tools.rehearse import LONGEST, card
from tools.site import boards

ROOT = Path(__file__).parents[1]
NAMES = "README README.zh CHANGELOG data/README experiments/benchmarks/RESULTS"
HANDOUTS = sorted(ROOT.glob("docs/handouts/*.md"))
IN_DOCS = [path.relative_to(ROOT).as_posix() for path in [*sorted(ROOT.glob("docs/*.md")), *HANDOUTS]]
GUIDES = [*(f"{name}.md" for name in NAMES.split()), *IN_DOCS]
CHAPTERS = {path.name[:2]: path for path in sorted((ROOT / "notebooks").glob("[0-9][0-9]_*.ipynb"))}
TEACHING, GLOSSARY = ((ROOT / "docs" / name).read_text(encoding="utf-8") for name in ("TEACHING.md", "GLOSSARY.md"))
FOLDERS = ("notebooks", "notebooks/solutions")
# in the order of the glossary: B, T, N, U, L, D, H, d, F, h, k, Q
DIMENSIONS = "batch n_bins n_spikes n_units n_latents dim n_heads head_dim n_freqs hidden context_bins n_queries"


@cache
def cells(number: str, folder: str = "notebooks") -> list[dict]:
    path = ROOT / folder / CHAPTERS[number].name
    return json.loads(path.read_text(encoding="utf-8"))["cells"]


@cache
def text(number: str, folder: str = "notebooks") -> str:
    return "\n".join("".join(cell["source"]) for cell in cells(number, folder))


def sections(number: str) -> set[str]:
    return set(re.findall(r"^## (\d+)\.", text(number), flags=re.MULTILINE))


def exercises(number: str) -> list[str]:
    tags = [tag for cell in cells(number) for tag in cell["metadata"].get("tags", [])]
    return [tag.removeprefix("exercise:") for tag in tags if tag.startswith("exercise:")]


def table(markdown: str) -> list[list[str]]:
    """The cells of a table, without its head."""
    return [line.strip("| ").split(" | ") for line in markdown.splitlines() if line.startswith("|")][2:]


@pytest.mark.parametrize("guide", GUIDES)
def test_links_and_commands_exist(guide):
    markdown, folder = (ROOT / guide).read_text(encoding="utf-8"), (ROOT / guide).parent
    links = [link for link in re.findall(r"\]\(([^)#]+)", markdown) if not link.startswith("http")]
    broken = [link for link in links if not (folder / link).exists()]
    assert not broken, f"links of {guide} lead to no file: they are relative to {guide}"
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE))
    unknown = set(re.findall(r"(?:`|^)make ([a-z]+)", markdown, flags=re.MULTILINE)) - targets
    assert not unknown, f"{guide} names targets that the Makefile does not have: `make help` lists those it has"


def test_readme_names_every_chapter_and_existing_modules():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    folders = (ROOT, ROOT / "possm_lite", ROOT / "possm_course")
    files = re.findall(r"`(\w+/[\w/]+\.py)`", readme)
    missing = [name for name in files if not any((folder / name).exists() for folder in folders)]
    assert not missing, "README.md names modules that do not exist: they were moved or renamed"
    rows = [row for row in table(readme) if row[0].startswith("[")]
    named = [row[0] for row in rows]
    chapters = [f"[{path.stem}](notebooks/{path.name})" for path in CHAPTERS.values()]
    assert named == chapters, (
        "the table of README.md must have a row for each chapter, in order, that begins with its link"
    )


@pytest.mark.parametrize("number", CHAPTERS)
def test_teaching_guide_covers_the_chapter(number):
    title = "".join(cells(number)[0]["source"]).splitlines()[0]
    section = TEACHING.split(f"\n### {title.removeprefix('# ')}\n")[1].split("\n### ")[0]
    assert re.search(r"\*\*Stop after §(\d+)", section)[1] in sections(number)


@pytest.mark.parametrize("number", CHAPTERS)
def test_the_card_has_the_minutes_of_the_chapter(number):
    found = card(read(CHAPTERS[number]))
    advice = "`.venv/bin/python -m tools.rehearse` prints the line of the card and that of docs/TEACHING.md"
    line = f"| **Time** | {found}, {found.exercises} of them for exercises"
    assert line in text(number), f"the card of chapter {number} must begin with {line!r}: {advice}"
    title = "".join(cells(number)[0]["source"]).splitlines()[0].removeprefix("# ")
    begins = f"\n### {title}\n* {found}, "
    assert begins in TEACHING, f"the section {title!r} of docs/TEACHING.md must begin with '* {found}': {advice}"
    in_two = "in two sittings" in text(number)
    assert found.high <= LONGEST or in_two, f"chapter {number} takes over {LONGEST} minutes: say 'in two sittings'"


def test_plans_name_sections_and_exercises_that_exist():
    plans = TEACHING.split("\n## Plans\n")[1].split("\n## ")[0]
    for number, listed in re.findall(r"(\d\d)(?: to)?((?:,? (?:and )?§\d+(?: to §\d+)?)+)", plans):
        unknown = set(re.findall(r"§(\d+)", listed)) - sections(number)
        assert not unknown, f"a plan of docs/TEACHING.md names {number}{listed}; chapter {number} has no such section"
    unknown = set(re.findall(r"`(\w+)`", plans)) - {name for number in CHAPTERS for name in exercises(number)}
    assert not unknown, "a plan of docs/TEACHING.md names exercises that no chapter has: was one renamed?"
    cards = [card(read(path)) for path in CHAPTERS.values()]
    hours = f"{sum(each.low for each in cards) / 60:.0f} to {sum(each.high for each in cards) / 60:.0f} hours"
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert hours in TEACHING and hours in readme, f"README.md and docs/TEACHING.md must say {hours!r} of all chapters"


@pytest.mark.parametrize("path", HANDOUTS, ids=lambda path: path.stem)
def test_code_of_a_handout_is_that_of_its_chapter(path):
    """An empty function is the beginning of a cell, an answer a whole one."""
    every = [cell["source"] for number in CHAPTERS for folder in FOLDERS for cell in cells(number, folder)]
    sources = ["".join(lines) for lines in every]
    front, answers = path.read_text(encoding="utf-8").split("\n## Answers\n")
    blocks = re.findall(r"```python\n(.+?)\n```", front, flags=re.S)
    solved = re.findall(r"```python\n(.+?)\n```", answers, flags=re.S)
    for block in blocks:
        assert any(source.startswith(block) for source in sources), f"no cell begins so:\n{block}"
    for block in solved:
        assert block in sources, f"no cell is:\n{block}"
    empty, filled = ({re.match(r"def (\w+)", block)[1] for block in each} for each in (blocks, solved))
    assert len(filled) == 2 and filled <= empty


def test_teaching_guide_shows_every_drawing(tmp_path):
    shown = re.findall(r"!\[.+?\]\(boards/(\w+)\.svg\)", TEACHING)
    boards.main(tmp_path)
    for folder in (ROOT / "docs/boards", tmp_path):
        assert sorted(path.stem for path in folder.glob("*.svg")) == sorted(shown), f"{folder}: tools.site.boards"


def test_glossary_is_complete_and_sorted():
    symbols, terms = (table(GLOSSARY.split(f"\n## {title}\n")[1].split("\n## ")[0]) for title in ("Symbols", "Terms"))
    first = "the first rows of the symbols in docs/GLOSSARY.md must be the dimensions, in this order"
    assert " ".join(row[1].strip("`") for row in symbols[:12]) == DIMENSIONS, first
    assert "".join(row[0].strip("$") for row in symbols[:12]) == "BTNULDHdFhkQ", first
    names = [row[0].casefold() for row in terms]
    assert len(names) >= 120, "docs/GLOSSARY.md has lost terms"
    assert names == sorted(set(names)), "the terms of docs/GLOSSARY.md must be in alphabetical order, each once"
    for *_, english, chinese, link in [*symbols, *([term, chinese, link] for term, chinese, _, link in terms)]:
        row = f"docs/GLOSSARY.md, {english!r}"
        assert re.search(r"[\u4e00-\u9fff]", chinese), f"{row}: the Chinese name is missing"
        place = re.match(r"\[(\d\d)(?: §(\d+)|( deeper))?\]", link)
        assert place, f"{row}: the link {link!r} must be named after its chapter: [02], [02 §3] or [02 deeper]"
        number, section, deeper = place.groups()
        assert section is None or section in sections(number), f"{row}: chapter {number} has no section {section}"
        markdown = text(number, "notebooks/deeper") if deeper else text(number)
        words = re.sub(r"\s+", " ", re.sub(r"[*`]", "", markdown)).casefold()
        assert english.split(" (")[0].casefold() in words, (
            f"{row}: chapter {number}{deeper or ''} does not have this word. Use it there, or link another"
        )
