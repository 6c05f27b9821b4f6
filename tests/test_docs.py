"""README, TEACHING, GLOSSARY and the other guides agree with the files, chapters, exercises and commands they name."""

import json
import math
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
NAMES = "README CONTRIBUTING CHANGELOG CONVERTERS LIVE TEACHING GLOSSARY BENCHMARKS LICENSE-TEXT data/README"
GUIDES = [f"{name}.md" for name in NAMES.split()]
CHAPTERS = {path.name[:2]: path for path in sorted((ROOT / "notebooks").glob("[0-9][0-9]_*.ipynb"))}
TEACHING, GLOSSARY = ((ROOT / name).read_text(encoding="utf-8") for name in ("TEACHING.md", "GLOSSARY.md"))
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
    assert [link for link in links if not (folder / link).exists()] == []
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE))
    assert set(re.findall(r"(?:`|^)make ([a-z]+)", markdown, flags=re.MULTILINE)) <= targets


def test_readme_names_every_chapter_and_existing_modules():
    readme, package = (ROOT / "README.md").read_text(encoding="utf-8"), ROOT / "possm_lite"
    files = re.findall(r"`(\w+/[\w/]+\.py)`", readme)
    assert [name for name in files if not (ROOT / name).exists() and not (package / name).exists()] == []
    rows = [row for row in table(readme) if row[0].startswith("[")]
    assert [row[0] for row in rows] == [f"[{path.stem}](notebooks/{path.name})" for path in CHAPTERS.values()]


@pytest.mark.parametrize("number", CHAPTERS)
def test_teaching_guide_covers_the_chapter(number):
    title = "".join(cells(number)[0]["source"]).splitlines()[0]
    section = TEACHING.split(f"\n### {title.removeprefix('# ')}\n")[1].split("\n### ")[0]
    expected = [(name, f"{int(number)}.{i}") for i, name in enumerate(exercises(number), 1)]
    assert re.findall(r"`(\w+)` \((\d+\.\d+)\)", section.split("**What goes wrong")[0]) == expected
    assert re.search(r"\*\*Stop after §(\d+)", section)[1] in sections(number)
    (row,) = (row for row in table(TEACHING) if row[0].startswith(f"[{number} "))
    reading, counts, estimate, total = row[1:5]
    written, predicted = (int(count) for count in counts.split(" + "))
    assert written + predicted == len(expected)
    words = sum(len("".join(cell["source"]).split()) for cell in cells(number) if cell["cell_type"] == "markdown")
    assert (int(reading), int(estimate)) == (math.ceil(words / 150), 8 * written + 3 * predicted)
    assert int(total) == int(reading) + int(estimate)
    card = f"{total} minutes: {reading} of reading, {estimate} of exercises"
    assert f"| **Time** | {card}" in text(number), "python site/rehearse.py"
    assert int(total) <= 90 or "in two sittings" in text(number)


def test_glossary_is_complete_and_sorted():
    symbols, terms = (table(GLOSSARY.split(f"\n## {title}\n")[1].split("\n## ")[0]) for title in ("Symbols", "Terms"))
    assert " ".join(row[1].strip("`") for row in symbols[:12]) == DIMENSIONS
    assert "".join(row[0].strip("$") for row in symbols[:12]) == "BTNULDHdFhkQ"
    names = [row[0].casefold() for row in terms]
    assert len(names) >= 120 and names == sorted(set(names))
    for *_, english, chinese, link in [*symbols, *([term, chinese, link] for term, chinese, _, link in terms)]:
        assert re.search(r"[\u4e00-\u9fff]", chinese), english
        number, section, deeper = re.match(r"\[(\d\d)(?: §(\d+)|( deeper))?\]", link).groups()
        assert section is None or section in sections(number), english
        markdown = text(number, "notebooks/deeper") if deeper else text(number)
        words = re.sub(r"\s+", " ", re.sub(r"[*`]", "", markdown)).casefold()
        assert english.split(" (")[0].casefold() in words, f"{english} is not in chapter {number}"
