"""The web pages in a browser that has no network: formulas, films, folds, search, and what axe-core says of them."""

import json
from pathlib import Path

import pytest

NAMES = sorted(p.stem for p in (Path(__file__).parents[2] / "notebooks").glob("[0-9][0-9]_*.ipynb"))


@pytest.fixture
def reader(pages, chromium):
    """A page that can reach the built files and nothing else; it tells what it asked for besides."""
    context = chromium.new_context(viewport={"width": 1300, "height": 900}, offline=True)
    page, page.asked, page.trouble = context.new_page(), [], []
    page.on("request", lambda r: None if r.url.startswith(("file:", "data:")) else page.asked.append(r.url))
    page.on("pageerror", lambda error: page.trouble.append(str(error)))
    page.open = lambda name: (page.goto(f"file://{pages}/{name}.html"), page.wait_for_load_state("load"))
    yield page
    context.close()


@pytest.mark.parametrize("name", NAMES)
def test_a_chapter_can_be_read_without_a_network(reader, name, screenshots):
    reader.open(name)
    if reader.locator(".math").count():
        reader.wait_for_function("document.querySelectorAll('mjx-container').length > 0", timeout=20_000)
        assert reader.locator("mjx-merror").count() == 0
    for fold in reader.locator("details.sd-dropdown").all():
        assert not fold.locator("pre").first.is_visible()
    reader.locator("details.sd-dropdown summary").first.click()
    assert reader.locator("details.sd-dropdown pre").first.is_visible()
    reader.screenshot(path=screenshots / f"page-{name}.png", full_page=True)
    assert reader.asked == [] and reader.trouble == []


@pytest.mark.parametrize("name", ["01_kernel_regression", "04_positions"])
def test_a_film_follows_its_slider(reader, name):
    reader.open(name)
    film = reader.locator("figure.film").first
    slider, image, shown = (film.locator(part) for part in ("input", "img", "output"))
    slider.focus()
    before = image.get_attribute("src"), shown.inner_text(), image.screenshot()
    for _ in range(4):
        reader.keyboard.press("ArrowRight")
    reader.wait_for_timeout(300)
    assert image.get_attribute("src") != before[0] and shown.inner_text() != before[1]
    assert image.screenshot() != before[2] and shown.inner_text() in image.get_attribute("alt")
    assert reader.evaluate("e => e.naturalWidth", image.element_handle()) > 100


def test_search_finds_a_word(reader):
    reader.open("search")
    reader.goto(reader.url + "?q=rotation")
    reader.wait_for_selector("#search-results li", timeout=20_000)
    assert any("positions" in (a.get_attribute("href") or "") for a in reader.locator("#search-results a").all())


PAGES = ["index", "GLOSSARY", "TEACHING", *NAMES]
DARK = ["index", "02_scoring", "TEACHING"]  # the colours are the same on all pages


@pytest.mark.parametrize(("name", "theme"), [(n, "light") for n in PAGES] + [(n, "dark") for n in DARK])
def test_axe_finds_nothing_serious(reader, name, theme):
    axe = pytest.importorskip("axe_playwright_python", reason="axe-core is not here: make .venv/.site")
    reader.open(name)
    reader.evaluate("theme => document.documentElement.dataset.theme = theme", theme)
    reader.wait_for_timeout(500)
    reader.evaluate((Path(axe.__file__).parent / "axe.min.js").read_text(encoding="utf-8"))
    # formulas are MathJax's, thousands of nodes with a description of its own beside them
    found = reader.evaluate("axe.run({exclude: [['mjx-container']]})")["violations"]
    serious = [(v["id"], len(v["nodes"]), v["nodes"][0]["html"][:200]) for v in found if v["impact"] in SERIOUS]
    assert serious == [], json.dumps(serious, indent=1)


SERIOUS = ("serious", "critical")
