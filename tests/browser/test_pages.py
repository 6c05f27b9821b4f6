"""The built web pages: links, alternative texts, headings; in a browser without a network: formulas, widths, weight."""

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


def test_links_lead_somewhere_and_show_something(pages):
    for path in pages.glob("*.html"):
        html = path.read_text(encoding="utf-8")
        assert all(tag in html for tag in ('name="description"', 'property="og:image"', 'rel="icon"')), path.name
        for url in parse(path).loads + parse(path).links:
            target, _, anchor = url.partition("#")
            if re.match(r"(\w+:|//)", target):
                continue
            file = pages / unquote(target.split("?")[0]) if target else path
            assert file.exists(), f"{path.name} -> {url}"
            if anchor and file.suffix == ".html":
                assert unquote(anchor) in parse(file).anchors, f"{path.name} -> {url}"


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


WIDTHS = [("screen", 1440), ("print", 690), ("screen", 390)]  # a computer, paper, a telephone
# boxes of code whose text sticks out, and formulas that are wider than their column, are no LaTeX or have two numbers
OUTSIDE = """() => [...document.querySelectorAll(".cell_input pre, div.math > div")]
    .filter(box => box.scrollWidth > box.clientWidth + 1)
    .concat([...document.querySelectorAll(".katex-error, .math .tag, div.math > span + span")]).map(x => x.innerText)"""
HANDOUTS = sorted(path.stem for path in (NOTEBOOKS.parent / "docs/handouts").glob("*.md"))
LOADED = "performance.getEntriesByType('resource').map(entry => new URL(entry.name).pathname)"
PAGES = (
    "index",
    "GLOSSARY",
    "NOTES.zh",
    "TEACHING",
    "api",
    "possm_course.chapters.ch08.neural_turing_machine",
    "possm_lite.nn.ssm",
    *NAMES,
)
COLOURED = ("index", "02_scoring", "TEACHING", "possm_lite.nn.ssm")  # the colours are the same on all pages


@pytest.mark.parametrize("name", HANDOUTS)
def test_a_handout_is_two_sides_of_paper(offline_page, pages, name):
    offline_page.goto(f"file://{pages}/handout_{name}.html")
    offline_page.wait_for_function("document.querySelector('.math .katex')")
    printed = offline_page.pdf(prefer_css_page_size=True)
    assert len(re.findall(rb"/Type\s*/Page\b", printed)) == 2
    assert offline_page.problems == []


@pytest.mark.parametrize("name", PAGES)
def test_page_in_a_browser(offline_page, pages, name):
    """Formulas fit, on wide screens and paper in their size; solutions are closed; axe finds nothing serious; code is
    wrapped, and the page never scrolls sideways; a chapter is light."""
    axe = pytest.importorskip("axe_playwright_python", reason="axe-core is not installed: make .venv/.site")
    offline_page.goto(f"file://{pages}/{name}.html")
    offline_page.evaluate((Path(axe.__file__).parent / "axe.min.js").read_text(encoding="utf-8"))
    # contrast takes most of the time; KaTeX describes formulas itself; in a long signature, Sphinx has a list of terms
    rules = {"color-contrast": {"enabled": name in COLOURED}, "definition-list": {"enabled": False}}
    options = {"preload": False, "resultTypes": ["violations"], "rules": rules}  # preload fetches the style sheets
    for theme in ("light", "dark") if name in COLOURED else ("light",):
        offline_page.add_style_tag(content="* { transition: none !important }")  # or axe sees colours in between
        offline_page.evaluate("theme => document.documentElement.dataset.theme = theme", theme)
        found = offline_page.evaluate("options => axe.run({exclude: [['.katex']]}, options)", options)
        serious = [v for v in found["violations"] if v["impact"] in ("serious", "critical")]
        assert serious == [], json.dumps([(v["id"], v["nodes"][0]["html"][:200]) for v in serious], indent=1)
    for media, width in WIDTHS:
        offline_page.emulate_media(media=media)
        offline_page.set_viewport_size({"width": width, "height": 900})
        offline_page.wait_for_timeout(300)
        assert offline_page.evaluate(OUTSIDE) == []
        assert width < 600 or not offline_page.locator("div.math[style*=font-size]").count()
        assert offline_page.evaluate("document.documentElement.scrollWidth") <= width
    if name in NAMES:
        solutions = offline_page.locator("details.sd-dropdown")
        assert not any(solution.locator("pre").first.is_visible() for solution in solutions.all())
        solutions.locator("summary").first.click()
        assert solutions.locator("pre").first.is_visible()
        files = {pages / f"{name}.html", *(Path(unquote(url)) for url in offline_page.evaluate(LOADED))}
        assert sum(file.stat().st_size for file in files) <= 1_600_000  # not compressed
    assert offline_page.problems == []


FIGURES = Path(__file__).parents[2] / "docs/site/_static/figures"
WITH_FIGURE = sorted(path.stem for path in FIGURES.glob("[0-9][0-9]_*.js"))


@pytest.mark.parametrize("name", WITH_FIGURE)
def test_a_chapter_begins_with_a_figure_that_moves(offline_page, pages, name):
    """Its sliders are in the first screen, also of a small laptop."""
    offline_page.set_viewport_size({"width": 1366, "height": 768})
    offline_page.goto(f"file://{pages}/{name}.html")
    sliders = offline_page.locator("figure.moving").first.locator("input").all()
    boxes = [slider.bounding_box() for slider in sliders]
    assert sliders and max(box["y"] + box["height"] for box in boxes) < 500


def test_first_page_plays_the_live_page(offline_page, pages):
    offline_page.goto(f"file://{pages}/index.html")
    live = offline_page.frame("live")
    live.wait_for_function("document.querySelector('#captions li')?.offsetHeight > 0")
    arena = live.locator("#arena").bounding_box()
    assert arena["y"] + 200 < 720, "the square is below the first screen"
    assert offline_page.problems == []
    live.locator("a[href^='index.html']").first.evaluate(
        "link => { link.href = '01_kernel_regression.html'; link.click(); }"
    )
    offline_page.wait_for_url("**/01_kernel_regression.html")  # of the page, not of the frame


def test_search_puts_chapters_before_the_reference(offline_page, pages):
    offline_page.goto(f"file://{pages}/search.html?q=softmax")
    offline_page.wait_for_selector(".search-summary:has-text('Search finished')")
    found = [link.get_attribute("href") for link in offline_page.locator("ul.search > li > a").all()]
    kinds = [
        "reference" if re.match("possm_|api", url) else "chapter" if url[:2].isdigit() else "guide" for url in found
    ]
    assert len(found) > 20 and kinds == sorted(kinds, key=["chapter", "guide", "reference"].index)
    assert offline_page.problems == []


def test_a_search_that_finds_nothing_offers_the_words_that_were_meant(offline_page, pages):
    offline_page.goto(f"file://{pages}/search.html?q=sofmax")
    assert offline_page.locator(".search-summary a[href='GLOSSARY.html']").is_visible()
    assert offline_page.locator(".search-button-field:visible, .search-button:visible").count() == 0  # one field
    meant = offline_page.locator(".search-summary a").first
    offline_page.goto(f"file://{pages}/index.html")
    assert not offline_page.get_by_text("Hide Search Matches").is_visible()  # nothing is marked
    offline_page.go_back()
    meant.click()
    offline_page.wait_for_selector(".search-summary:has-text('Search finished')")
    assert offline_page.url.endswith("?q=softmax")
    offline_page.goto(f"file://{pages}/02_scoring.html")
    assert offline_page.get_by_text("Hide Search Matches").is_visible()
    assert offline_page.problems == []


# stops and commas that are left of the end of the formula before them: at the beginning of the next line
STOPS = """() => [...document.querySelectorAll("span.math")].filter(({nextSibling: after}) => {
    if (after?.nodeType !== Node.TEXT_NODE || !/^[.,]/.test(after.data)) return false;
    const stop = document.createRange();
    stop.setStart(after, 0);
    stop.setEnd(after, 1);
    const end = [...after.previousSibling.querySelectorAll(".base")].at(-1).getBoundingClientRect();
    return stop.getBoundingClientRect().left < end.left;
}).map(({textContent}) => textContent)"""


def test_no_line_begins_with_a_stop(offline_page, pages):
    offline_page.goto(f"file://{pages}/06_recurrent_networks.html")
    for width in (1440, 900, 600, 390):
        offline_page.set_viewport_size({"width": width, "height": 900})
        assert offline_page.evaluate(STOPS) == []
