"""The slides in a browser that has no network: all of each is on the screen, and large enough for the back row."""

from pathlib import Path

import pytest

from .test_pages import elsewhere, read

ROOT = Path(__file__).parents[2]
NAMES = sorted(p.stem for p in (ROOT / "notebooks").glob("[0-9][0-9]_*.ipynb"))
WIDE, HIGH = 1280, 720
BODY_PX, CODE_PX, FORMULA_PX = 28, 20, 20
# What stands on the slide that is shown: how far it reaches, and its smallest letters as they are on the screen. An
# index is smaller than its letter, in formulas as on paper, so of a formula the size that it is set in counts.
MEASURE = """() => {
    const slide = Reveal.getCurrentSlide(), scale = Reveal.getScale();
    const reach = {left: 0, top: 0, right: 0, bottom: 0}, smallest = {body: 99, code: 99, formula: 99};
    const note = (kind, element) => {
        smallest[kind] = Math.min(smallest[kind], scale * parseFloat(getComputedStyle(element).fontSize));
    };
    const pictures = [];
    for (const element of slide.querySelectorAll('*')) {
        if (element.closest('aside, mjx-assistive-mml, svg *, defs')) continue;
        const box = element.getBoundingClientRect();
        if (!box.width || !box.height) continue;
        reach.left = Math.min(reach.left, box.left);
        reach.top = Math.min(reach.top, box.top);
        reach.right = Math.max(reach.right, box.right);
        reach.bottom = Math.max(reach.bottom, box.bottom);
        if (element.tagName === 'IMG') {
            pictures.push([box.height, box.width]);
        }
        if (element.tagName === 'MJX-CONTAINER') note('formula', element);
        const own = Array.from(element.childNodes).some(n => n.nodeType === 3 && n.data.trim());
        if (own) note(element.closest('pre, code') ? 'code' : 'body', element);
    }
    return {reach, smallest, pictures, words: slide.innerText.trim().split(/\\s+/).length,
            inside: slide.scrollHeight <= slide.clientHeight && slide.scrollWidth <= slide.clientWidth};
}"""


@pytest.fixture(scope="module")
def slides() -> Path:
    folder = ROOT / "site" / "_build" / "slides"
    if not (folder / "lib").exists():
        pytest.skip("the slides are not built: make slides")
    return folder


@pytest.fixture
def room(slides, chromium):
    """A screen of 1280 x 720 that can reach the built files and nothing else; it tells what went wrong."""
    context = chromium.new_context(viewport={"width": WIDE, "height": HIGH}, offline=True)
    page, page.asked, page.trouble = context.new_page(), [], []
    inside = ("file:", "data:", "about:")
    context.on("request", lambda r: None if r.url.startswith(inside) else page.asked.append(r.url))
    context.on("requestfailed", lambda r: page.trouble.append(f"{r.url} did not load"))
    context.on("weberror", lambda failed: page.trouble.append(str(failed.error)))

    def show(name: str) -> None:
        page.goto(f"file://{slides}/{name}.slides.html")
        page.wait_for_function("window.Reveal && Reveal.isReady()", timeout=20_000)

    page.show = show
    yield page
    context.close()


# Through all slides, uncovering what each covers; what was measured on each at its last step.
WALK = """() => {
    const measure = MEASURE, seen = {};
    for (let step = 0; step < 300; step++) {
        const {indexh, indexv} = Reveal.getState();
        seen[`${indexh}/${indexv}`] = measure();
        if (Reveal.isLastSlide() && !Reveal.availableFragments().next) break;
        Reveal.next();
    }
    return Object.entries(seen).map(([at, found]) => ({at, ...found}));
}""".replace("MEASURE", MEASURE)


def test_nothing_is_loaded_from_elsewhere(slides):
    pages = sorted(slides.glob("*.slides.html"))
    assert [page.name.removesuffix(".slides.html") for page in pages] == NAMES
    for page in pages:
        assert [url for url in read(page).loads if not url.startswith(("lib/", "data:image/png;"))] == [], page.name
        assert all((slides / url).exists() for url in read(page).loads if url.startswith("lib/"))
        for picture in read(page).pictures:
            assert len(picture.get("alt") or "") > 15, page.name
    assert {path.name: found for path in slides.rglob("*.css") if (found := elsewhere(path))} == {}


@pytest.mark.parametrize("name", NAMES)
def test_every_slide_can_be_read_from_the_back_row(room, name, screenshots):
    room.show(name)
    assert room.locator('.slides [data-mml-node="merror"]').count() == 0
    assert room.evaluate("document.querySelector('.slides').textContent.includes('$$')") is False
    measured = room.evaluate(WALK)
    assert len(measured) == room.evaluate("Reveal.getTotalSlides()") and 12 <= len(measured) <= 45
    for slide in measured:
        assert slide["inside"], slide
        assert slide["reach"]["left"] >= 0 and slide["reach"]["top"] >= 0, slide
        assert slide["reach"]["right"] <= WIDE and slide["reach"]["bottom"] <= HIGH, slide
        assert slide["smallest"]["body"] >= BODY_PX and slide["smallest"]["code"] >= CODE_PX, slide
        assert slide["smallest"]["formula"] >= FORMULA_PX, slide
        assert all(height >= HIGH / 4 or width >= WIDE * 3 / 4 for height, width in slide["pictures"]), slide
    for number, share in enumerate((0, 1 / 3, 2 / 3)):
        h, v = measured[int(share * len(measured))]["at"].split("/")
        room.evaluate(f"Reveal.slide({h}, {v}, 99)")
        room.screenshot(path=screenshots / f"slide-{name}-{number}.png")
    assert room.asked == [] and room.trouble == []


def test_the_keys_of_the_guide(room):
    """Space goes on, o shows all slides, s opens the notes, with the text that is not on the wall and its formulas."""
    room.show("01_kernel_regression")
    room.keyboard.press("Space")
    assert room.evaluate("Reveal.getSlidePastCount()") == 1
    room.keyboard.press("o")
    assert room.evaluate("Reveal.isOverview()")
    room.keyboard.press("Escape")
    room.evaluate("Reveal.slide(3, 0)")
    assert "at the points around 1.0 s" in room.evaluate("Reveal.getSlideNotes()")
    with room.context.expect_page() as opened:
        room.keyboard.press("s")
    notes = opened.value.locator(".speaker-controls-notes .value")
    notes.get_by_text("bandwidth").wait_for(timeout=20_000)
    assert "w*w" not in notes.inner_text() and notes.locator("svg").count() > 5
    assert room.asked == [] and room.trouble == []
