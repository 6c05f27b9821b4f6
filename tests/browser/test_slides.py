"""The slides in a browser without a network: each fits on the screen, in letters large enough for the back row."""

from pathlib import Path

import pytest

from .test_pages import NAMES, parse, remote_urls

WIDTH, HEIGHT = 1280, 720  # of offline_page
SMALLEST_PX = {"body": 28, "code": 20, "formula": 20}
# For each slide, after its last fragment: its extent and its smallest font sizes on the screen. Indices are smaller
# than their letters, as on paper, so the size of a formula is that of its container.
WALK = """() => {
    const measure = () => {
        const slide = Reveal.getCurrentSlide(), scale = Reveal.getScale();
        const reach = {left: 0, top: 0, right: 0, bottom: 0}, smallest = {body: 99, code: 99, formula: 99};
        const note = (kind, element) => {
            smallest[kind] = Math.min(smallest[kind], scale * parseFloat(getComputedStyle(element).fontSize));
        };
        for (const element of slide.querySelectorAll('*')) {
            if (element.closest('aside, mjx-assistive-mml, svg *, defs')) continue;
            const box = element.getBoundingClientRect();
            if (!box.width || !box.height) continue;
            for (const side of ['left', 'top']) reach[side] = Math.min(reach[side], box[side]);
            for (const side of ['right', 'bottom']) reach[side] = Math.max(reach[side], box[side]);
            if (element.tagName === 'MJX-CONTAINER') note('formula', element);
            const own = Array.from(element.childNodes).some(n => n.nodeType === 3 && n.data.trim());
            if (own) note(element.closest('pre, code') ? 'code' : 'body', element);
        }
        return {reach, smallest};
    };
    const seen = {};
    for (let step = 0; step < 300; step++) {
        const {indexh, indexv} = Reveal.getState();
        seen[`${indexh}/${indexv}`] = measure();
        if (Reveal.isLastSlide() && !Reveal.availableFragments().next) break;
        Reveal.next();
    }
    return Object.entries(seen).map(([at, found]) => ({at, ...found}));
}"""


def show(page, slides: Path, name: str) -> None:
    page.goto(f"file://{slides}/{name}.slides.html")
    page.wait_for_function("window.Reveal && Reveal.isReady()")


def test_slides_need_no_network_and_link_to_the_pages(pages, slides):
    assert len(list(slides.glob("*.html"))) == len(NAMES)
    for page in (parse(slides / f"{name}.slides.html") for name in NAMES):
        files = [url for url in page.loads if not url.startswith("data:image/png;")]
        assert all(url.startswith("lib/") and (slides / url).exists() for url in files)
        links = [url.partition("#") for url in page.links if ":" not in url]
        assert all(anchor in {"", *parse(pages / url[3:]).anchors} for url, _, anchor in links)
        assert all(len(image.get("alt") or "") > 15 for image in page.images)
    assert remote_urls(slides) == []


@pytest.mark.parametrize("name", NAMES)
def test_slides_are_readable_from_the_back_row(offline_page, slides, name):
    show(offline_page, slides, name)
    assert offline_page.locator('.slides [data-mml-node="merror"]').count() == 0
    assert offline_page.evaluate("document.querySelector('.slides').textContent.includes('$$')") is False
    assert offline_page.locator(".slides aside.notes").count()  # the chapter's text
    measured = offline_page.evaluate(WALK)
    assert len(measured) == offline_page.evaluate("Reveal.getTotalSlides()") and 12 <= len(measured) <= 45
    for slide in measured:
        assert slide["reach"]["left"] >= 0 and slide["reach"]["top"] >= 0, slide
        assert slide["reach"]["right"] <= WIDTH and slide["reach"]["bottom"] <= HEIGHT, slide
        assert all(slide["smallest"][kind] >= pixels for kind, pixels in SMALLEST_PX.items()), slide
    assert offline_page.problems == []
