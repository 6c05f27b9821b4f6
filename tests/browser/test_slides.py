"""The slides in a browser without a network: each fits on the screen, in letters large enough for the back row."""

from pathlib import Path

import pytest

from .test_pages import NAMES, parse, remote_urls

WIDTH, HEIGHT = 1280, 720  # of offline_page
SMALLEST_PX = {"body": 28, "code": 20, "formula": 20}
# The extent of the current slide and its smallest font sizes on the screen. Indices are smaller than their letters, as
# on paper, so the size of a formula is that of its container.
MEASURE = """() => {
    const slide = Reveal.getCurrentSlide(), scale = Reveal.getScale();
    const reach = {left: 0, top: 0, right: 0, bottom: 0}, smallest = {body: 99, code: 99, formula: 99};
    const note = (kind, element) => {
        smallest[kind] = Math.min(smallest[kind], scale * parseFloat(getComputedStyle(element).fontSize));
    };
    const images = [];
    for (const element of slide.querySelectorAll('*')) {
        if (element.closest('aside, mjx-assistive-mml, svg *, defs')) continue;
        const box = element.getBoundingClientRect();
        if (!box.width || !box.height) continue;
        reach.left = Math.min(reach.left, box.left);
        reach.top = Math.min(reach.top, box.top);
        reach.right = Math.max(reach.right, box.right);
        reach.bottom = Math.max(reach.bottom, box.bottom);
        if (element.tagName === 'IMG') {  // object-fit: contain leaves a part of the box empty
            const scale = Math.min(box.height / element.naturalHeight, box.width / element.naturalWidth);
            images.push([scale * element.naturalHeight, scale * element.naturalWidth]);
        }
        if (element.tagName === 'MJX-CONTAINER') note('formula', element);
        const own = Array.from(element.childNodes).some(n => n.nodeType === 3 && n.data.trim());
        if (own) note(element.closest('pre, code') ? 'code' : 'body', element);
    }
    return {reach, smallest, images, inside:
            slide.scrollHeight <= slide.clientHeight && slide.scrollWidth <= slide.clientWidth};
}"""


# MEASURE for each slide, after its last fragment.
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


def show(page, slides: Path, name: str) -> None:
    page.goto(f"file://{slides}/{name}.slides.html")
    page.wait_for_function("window.Reveal && Reveal.isReady()", timeout=20_000)


def test_slides_need_no_network(slides):
    paths = sorted(slides.glob("*.slides.html"))
    assert [path.name.removesuffix(".slides.html") for path in paths] == NAMES
    for page in map(parse, paths):
        files = [url for url in page.loads if not url.startswith("data:image/png;")]
        assert all(url.startswith("lib/") and (slides / url).exists() for url in files)
        assert all(len(image.get("alt") or "") > 15 for image in page.images)
    assert remote_urls(slides) == []


@pytest.mark.parametrize("name", NAMES)
def test_slides_are_readable_from_the_back_row(offline_page, slides, name, screenshots):
    show(offline_page, slides, name)
    assert offline_page.locator('.slides [data-mml-node="merror"]').count() == 0
    assert offline_page.evaluate("document.querySelector('.slides').textContent.includes('$$')") is False
    measured = offline_page.evaluate(WALK)
    assert len(measured) == offline_page.evaluate("Reveal.getTotalSlides()") and 12 <= len(measured) <= 45
    for slide in measured:
        assert slide["inside"], slide
        assert slide["reach"]["left"] >= 0 and slide["reach"]["top"] >= 0, slide
        assert slide["reach"]["right"] <= WIDTH and slide["reach"]["bottom"] <= HEIGHT, slide
        assert all(slide["smallest"][kind] >= pixels for kind, pixels in SMALLEST_PX.items()), slide
        assert all(height >= HEIGHT / 4 or width >= WIDTH * 3 / 4 for height, width in slide["images"]), slide
    for number, share in enumerate((0, 1 / 3, 2 / 3)):
        h, v = measured[int(share * len(measured))]["at"].split("/")
        offline_page.evaluate(f"Reveal.slide({h}, {v}, 99)")
        offline_page.screenshot(path=screenshots / f"slide-{name}-{number}.png")
    assert offline_page.problems == []


def test_keys_of_the_guide(offline_page, slides):
    """Space: next slide, o: overview, s: a window with the notes, which have the chapter's text and formulas."""
    show(offline_page, slides, "01_kernel_regression")
    offline_page.keyboard.press("Space")
    assert offline_page.evaluate("Reveal.getSlidePastCount()") == 1
    offline_page.keyboard.press("o")
    assert offline_page.evaluate("Reveal.isOverview()")
    offline_page.keyboard.press("Escape")
    offline_page.evaluate("Reveal.slide(3, 0)")
    assert "at the points around 1.0 s" in offline_page.evaluate("Reveal.getSlideNotes()")
    with offline_page.context.expect_page() as opened:
        offline_page.keyboard.press("s")
    notes = opened.value.locator(".speaker-controls-notes .value")
    notes.get_by_text("bandwidth").wait_for(timeout=20_000)
    assert "w*w" not in notes.inner_text() and notes.locator("svg").count() > 5
    assert offline_page.problems == []
