"""The web pages as they are built: nothing comes from elsewhere, every link leads somewhere, every picture is told."""

import re
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import nbformat
import pytest

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
NAMES = sorted(p.stem for p in NOTEBOOKS.glob("[0-9][0-9]_*.ipynb"))
LOADS = {"script": "src", "img": "src", "link": "href", "iframe": "src", "source": "src", "video": "src"}
MIB = 2**20


class Page(HTMLParser):
    """What a page loads, links to, names, and shows."""

    def __init__(self, text: str):
        super().__init__()
        self.loads, self.links, self.names, self.headings, self.pictures = [], [], set(), [], []
        self.in_article = False  # around it, the theme repeats headings for print
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        if "id" in found:
            self.names.add(found["id"])
        if LOADS.get(tag) in found and found.get("rel") not in ("canonical", "license"):
            self.loads.append(found[LOADS[tag]])
        if tag == "a" and found.get("href"):
            self.links.append(found["href"])
        self.in_article |= tag == "article"
        if re.fullmatch("h[1-6]", tag) and self.in_article:
            self.headings.append(int(tag[1]))
        if tag == "img":
            self.pictures.append(found)

    def handle_endtag(self, tag):
        self.in_article &= tag != "article"


@cache
def read(path: Path) -> Page:
    return Page(path.read_text(encoding="utf-8"))


def elsewhere(path: Path) -> list[str]:
    """What a style sheet loads from the network."""
    return re.findall(r"(?:url\(|@import)\s*['\"]?\s*(?:https?:)?//[^)'\"]+", path.read_text(encoding="utf-8"))


@pytest.fixture(params=NAMES)
def page(request, pages) -> Path:
    return pages / f"{request.param}.html"


def test_nothing_is_loaded_from_elsewhere(pages):
    for path in pages.glob("*.html"):
        assert [url for url in read(path).loads if re.match(r"(\w+:)?//", url)] == [], path.name
    for path in pages.rglob("*.css"):
        assert elsewhere(path) == [], path.name


def test_what_is_loaded_or_linked_is_there(pages):
    for path in pages.glob("*.html"):
        for url in read(path).loads + read(path).links:
            target, _, name = url.partition("#")
            if re.match(r"(\w+:|//)", target):
                continue
            there = pages / unquote(target.split("?")[0]) if target else path
            assert there.exists(), f"{path.name} -> {url}"
            if name and there.suffix == ".html":
                assert unquote(name) in read(there).names, f"{path.name} -> {url}"


def test_every_picture_says_what_it_shows(page):
    pictures = read(page).pictures
    assert pictures
    for picture in pictures:
        assert len(picture.get("alt") or "") > 15 and "_images/" not in picture["alt"], picture


def test_headings_are_in_order(page):
    headings = read(page).headings
    assert headings.count(1) == 1
    assert all(after <= before + 1 for before, after in zip(headings, headings[1:], strict=False)), headings


def test_every_exercise_has_its_solution_behind_a_fold(page):
    text = page.read_text(encoding="utf-8")
    cells = nbformat.read(NOTEBOOKS / f"{page.stem}.ipynb", as_version=4).cells
    exercises = [tag for cell in cells for tag in cell.metadata.get("tags", []) if tag.startswith("exercise:")]
    assert exercises and text.count(">A solution<") == text.count('<details class="sd-') == len(exercises)
    assert "<details open" not in text


def test_films_are_short_and_light(pages):
    films = {}
    for frame in (pages / "films").glob("*.png"):
        films.setdefault(frame.stem.rsplit("-", 1)[0], []).append(frame.stat().st_size)
    assert {"01_kernel_regression-1", "04_positions-1"} <= set(films)
    for name, sizes in films.items():
        assert 5 <= len(sizes) <= 40 and sum(sizes) <= 700_000, (name, len(sizes), sum(sizes))


def test_all_of_it_is_under_60_mib(pages):
    assert sum(p.stat().st_size for p in pages.rglob("*") if p.is_file()) < 60 * MIB
