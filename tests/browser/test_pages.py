"""The built web pages: links, alternative texts, headings; in a browser without a network: formulas, films, search."""

import json
import re
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import nbformat
import pytest

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
NAMES = sorted(path.stem for path in NOTEBOOKS.glob("[0-9][0-9]_*.ipynb"))
DEEPER = {f"{path.stem}_deeper" for path in (NOTEBOOKS / "deeper").glob("[0-9][0-9]_*.ipynb")}
LOADS = {"script": "src", "img": "src", "link": "href", "iframe": "src", "source": "src", "video": "src"}


class Page(HTMLParser):
    """The URLs that a page loads and links to, its anchors, heading levels and images."""

    def __init__(self, text: str):
        super().__init__()
        self.loads, self.links, self.anchors, self.headings, self.images = [], [], set(), [], []
        self.in_article = False  # outside of it, the theme repeats headings for print
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        self.anchors.add(found.get("id"))
        if LOADS.get(tag) in found and found.get("rel") not in ("canonical", "license"):
            self.loads.append(found[LOADS[tag]])
        if tag == "a" and found.get("href"):
            self.links.append(found["href"])
        self.in_article |= tag == "article"
        if re.fullmatch("h[1-6]", tag) and self.in_article:
            self.headings.append(int(tag[1]))
        if tag == "img":
            self.images.append(found)

    def handle_endtag(self, tag):
        self.in_article &= tag != "article"


@cache
def parse(path: Path) -> Page:
    return Page(path.read_text(encoding="utf-8"))


def remote_urls(folder: Path) -> list[str]:
    """What the style sheets below a folder load from a network."""
    remote = re.compile(r"(?:url\(|@import)\s*['\"]?\s*(?:https?:)?//[^)'\"]+")
    return [url for path in folder.rglob("*.css") for url in remote.findall(path.read_text(encoding="utf-8"))]


def test_no_page_needs_a_network(pages):
    assert [url for p in pages.glob("*.html") for url in parse(p).loads if re.match(r"(\w+:)?//", url)] == []
    assert remote_urls(pages) == []


def test_links_lead_somewhere(pages):
    for path in pages.glob("*.html"):
        for url in parse(path).loads + parse(path).links:
            target, _, anchor = url.partition("#")
            if re.match(r"(\w+:|//)", target):
                continue
            file = pages / unquote(target.split("?")[0]) if target else path
            assert file.exists(), f"{path.name} -> {url}"
            assert not anchor or file.suffix != ".html" or unquote(anchor) in parse(file).anchors, (
                f"{path.name} -> {url}"
            )


def test_only_chapters_and_guides_are_pages(pages):
    extra = {"index", "GLOSSARY", "TEACHING", "BENCHMARKS", "api", "live", "search", "genindex", "py-modindex"}
    shown = {path.stem for path in pages.rglob("*.html") if "_static" not in path.parts} - extra
    assert {name for name in shown if not name.startswith("possm_lite.")} == DEEPER.union(NAMES)


def test_first_page_has_a_card_a_chapter_and_what_was_measured(pages):
    html = (pages / "index.html").read_text(encoding="utf-8")
    cards = re.findall(
        r'sd-card-img-top" src="([^"]+)".*?<p class="minutes">(\d+) minutes.*?href="(\w+)\.html"', html, re.S
    )
    minutes = re.compile(r"\*\*Time\*\* \| (\d+) minutes")
    heads = [nbformat.read(NOTEBOOKS / f"{name}.ipynb", as_version=4).cells[0].source for name in NAMES]
    assert [(name, time) for _, time, name in cards] == list(
        zip(NAMES, [minutes.search(h)[1] for h in heads], strict=True)
    )
    assert sum((pages / image).stat().st_size for image, _, _ in cards) < 700_000
    latency = json.loads((NOTEBOOKS.parent / "tests/benchmarks/results/latency.json").read_text(encoding="utf-8"))
    row = next(item for item in latency["items"] if item.get("what") == "streaming step, p50")
    assert re.search(rf"<p>streaming step, p50</p></td>\s*<td><p>{row['measured']}</p>", html)
    assert "@software{" in re.sub("<[^>]+>", "", html)


def test_chapters_and_functions_link_to_each_other(pages):
    """Chapter 15 to the function of its formula and back; chapter 02 to what it imports and back."""
    for chapter, module, name, formula in (
        ("15_state_space_models", "possm_lite.blocks.ssm", "ssm_kernel", "formula-15-11"),
        ("02_scoring", "possm_lite.blocks.attention", "masked_softmax", None),
    ):
        there, back = parse(pages / f"{chapter}.html").links, parse(pages / f"{module}.html").links
        assert f"{module}.html#{module}.{name}" in there
        assert f"{chapter}.html" in back and (formula is None or f"{chapter}.html#{formula}" in back)


def test_reference_has_every_import_of_the_chapters(pages):
    anchors = set().union(*(parse(path).anchors for path in pages.glob("possm_lite.*.html")))
    linked = {url.partition("#")[2] for name in NAMES for url in parse(pages / f"{name}.html").links}
    assert len(linked & anchors) > 100
    html = (pages / "possm_lite.decoder.stream.html").read_text(encoding="utf-8")
    assert "Raises" in html and "Args" not in html


@pytest.mark.parametrize("name", NAMES)
def test_chapter_has_alt_texts_headings_and_solutions(name, pages):
    path = pages / f"{name}.html"
    page, html = parse(path), path.read_text(encoding="utf-8")
    assert page.images
    for image in page.images:
        assert len(image.get("alt") or "") > 15 and "_images/" not in image["alt"], image
    assert page.headings.count(1) == 1
    assert all(after <= before + 1 for before, after in zip(page.headings, page.headings[1:], strict=False))
    cells = nbformat.read(NOTEBOOKS / f"{name}.ipynb", as_version=4).cells
    exercises = [tag for cell in cells for tag in cell.metadata.get("tags", []) if tag.startswith("exercise:")]
    assert exercises and html.count(">A solution<") == html.count('<details class="sd-') == len(exercises)
    assert "<details open" not in html


def test_films_and_site_are_small(pages):
    films = {}
    for frame in (pages / "films").glob("*.png"):
        films.setdefault(frame.stem.rsplit("-", 1)[0], []).append(frame.stat().st_size)
    assert {"01_kernel_regression-1", "04_positions-1"} <= set(films)
    for name, sizes in films.items():
        assert 5 <= len(sizes) <= 40 and sum(sizes) <= 700_000, (name, len(sizes), sum(sizes))
    assert sum(path.stat().st_size for path in pages.rglob("*") if path.is_file()) < 60 * 2**20


@pytest.mark.parametrize("name", NAMES)
def test_chapter_can_be_read_offline(offline_page, pages, name, screenshots):
    offline_page.goto(f"file://{pages}/{name}.html")
    if offline_page.locator(".math").count():
        offline_page.wait_for_function("document.querySelectorAll('mjx-container').length > 0", timeout=20_000)
        assert offline_page.locator("mjx-merror").count() == 0
    solutions = offline_page.locator("details.sd-dropdown")
    assert not any(solution.locator("pre").first.is_visible() for solution in solutions.all())
    solutions.locator("summary").first.click()
    assert solutions.locator("pre").first.is_visible()
    offline_page.screenshot(path=screenshots / f"page-{name}.png", full_page=True)
    assert offline_page.problems == []


@pytest.mark.parametrize("name", ["01_kernel_regression", "04_positions"])
def test_film_follows_its_slider(offline_page, pages, name):
    offline_page.goto(f"file://{pages}/{name}.html")
    film = offline_page.locator("figure.film").first
    slider, image, shown = (film.locator(part) for part in ("input", "img", "output"))
    slider.focus()
    before = image.get_attribute("src"), shown.inner_text(), image.screenshot()
    for _ in range(4):
        offline_page.keyboard.press("ArrowRight")
    offline_page.wait_for_timeout(300)
    after = image.get_attribute("src"), shown.inner_text(), image.screenshot()
    assert all(new != old for new, old in zip(after, before, strict=True))
    assert shown.inner_text() in image.get_attribute("alt")
    assert offline_page.evaluate("e => e.naturalWidth", image.element_handle()) > 100


def test_first_page_moves_unless_motion_is_to_be_reduced(offline_page, pages):
    canvas, button = offline_page.locator("#decoded"), offline_page.locator("#decoded-button")

    def moves() -> bool:
        before = canvas.screenshot()
        offline_page.wait_for_timeout(400)
        return canvas.screenshot() != before

    offline_page.goto(f"file://{pages}/index.html")
    assert moves() and button.inner_text() == "Pause"
    button.click()
    assert not moves() and button.inner_text() == "Play"
    offline_page.emulate_media(reduced_motion="reduce")
    offline_page.reload()
    assert not moves() and button.inner_text() == "Play"
    button.click()
    assert moves()
    assert offline_page.problems == []


WIDTHS = [(1300, 800), (390, 844)]  # a small laptop, a telephone
OUTSIDE = """() => [...document.querySelectorAll("article pre")].filter(box => {
    const text = document.createRange();
    text.selectNodeContents(box);
    const scrolls = ["auto", "scroll"].includes(getComputedStyle(box).overflowX);
    return !scrolls && text.getBoundingClientRect().right > box.getBoundingClientRect().right + 1;
}).map(box => box.innerText.slice(0, 80))"""
CUT = """() => [...document.querySelectorAll(".cell_input pre")]
    .filter(box => box.scrollWidth > box.clientWidth + 1).length"""

CUT_FORMULAS = """() => [...document.querySelectorAll("div.math mjx-container")].filter(formula =>
    formula.getBoundingClientRect().left < formula.closest("div.math").getBoundingClientRect().left - 1).length"""


@pytest.mark.parametrize("name", ["index", "GLOSSARY", "TEACHING", "possm_lite.blocks.neural_turing_machine", *NAMES])
def test_nothing_is_wider_than_its_box(offline_page, pages, name):
    """Code is wrapped, prints and formulas scroll in their boxes from their beginning, and the page itself never."""
    offline_page.goto(f"file://{pages}/{name}.html")
    for width, height in WIDTHS:
        offline_page.set_viewport_size({"width": width, "height": height})
        assert offline_page.evaluate(OUTSIDE) == []
        assert offline_page.evaluate(CUT) == 0
        assert offline_page.evaluate("document.documentElement.scrollWidth") <= width
        if offline_page.locator("div.math").count():
            offline_page.wait_for_function("document.querySelectorAll('mjx-container').length > 0", timeout=20_000)
            assert offline_page.evaluate(CUT_FORMULAS) == 0


def test_search_finds_a_word(offline_page, pages):
    offline_page.goto(f"file://{pages}/search.html?q=rotation")
    offline_page.wait_for_selector("#search-results li", timeout=20_000)
    links = offline_page.locator("#search-results a").all()
    assert any("positions" in (link.get_attribute("href") or "") for link in links)


PAGES = ("index", "GLOSSARY", "TEACHING", "api", "possm_lite.blocks.ssm", *NAMES)
COLOURED = ("index", "02_scoring", "TEACHING", "possm_lite.blocks.ssm")  # the colours are the same on all pages


@pytest.mark.parametrize(("name", "theme"), [(n, "light") for n in PAGES] + [(n, "dark") for n in COLOURED])
def test_axe_finds_nothing_serious(offline_page, pages, name, theme):
    axe = pytest.importorskip("axe_playwright_python", reason="axe-core is not installed: make .venv/.site")
    offline_page.goto(f"file://{pages}/{name}.html")
    offline_page.evaluate("theme => document.documentElement.dataset.theme = theme", theme)
    offline_page.wait_for_timeout(500)
    offline_page.evaluate((Path(axe.__file__).parent / "axe.min.js").read_text(encoding="utf-8"))
    # contrast takes most of the time; MathJax describes its formulas itself, in thousands of nodes
    options = {"resultTypes": ["violations"], "rules": {"color-contrast": {"enabled": name in COLOURED}}}
    found = offline_page.evaluate("options => axe.run({exclude: [['mjx-container']]}, options)", options)["violations"]
    serious = [v for v in found if v["impact"] in ("serious", "critical")]
    assert serious == [], json.dumps([(v["id"], v["nodes"][0]["html"][:200]) for v in serious], indent=1)
