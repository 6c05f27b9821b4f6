"""Chapters with widgets in JupyterLab: they run, and sliders work by mouse and keyboard."""

import io
import itertools
import re
import shutil
import statistics

import pytest
from PIL import Image

from tools import execute

from .lab import ROOT, Notebook, Server

NOTEBOOKS = ROOT / "notebooks"
EXPLORED = re.compile(r"^(\w+) = explore\(", re.MULTILINE)


def figures(name: str) -> list[tuple[str, str]]:
    """Cell and name of each interactive figure of a chapter."""
    cells = execute.read(NOTEBOOKS / name).cells
    return [(c.id, m) for c in cells if c.cell_type == "code" for m in EXPLORED.findall(c.source)]


CHAPTERS = [path.stem for path in sorted(NOTEBOOKS.glob("[0-9]*.ipynb")) if figures(path.name)]


@pytest.fixture(scope="module")
def server(tmp_path_factory, chromium):
    pytest.importorskip("jupyterlab", reason="JupyterLab is not installed: pip install -e .[lab]")
    folder = tmp_path_factory.mktemp("lab")  # a copy, so that no test writes into the repository
    for name in ("notebooks", "data", "experiments"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns(".*", "runs", "recordings"))
    running = Server(folder)
    yield running
    running.close()


@pytest.fixture
def page(chromium):
    context = chromium.new_context(viewport={"width": 1366, "height": 768})  # a small laptop
    page = context.new_page()
    yield page
    context.close()


@pytest.mark.parametrize("name", CHAPTERS)
def test_chapter_works_in_jupyterlab(name, server, page):
    """As far as its last interactive figure; `make test` runs the rest."""
    cells = execute.read(NOTEBOOKS / f"{name}.ipynb").cells
    drawn = dict(figures(f"{name}.ipynb"))
    last = max(i for i, cell in enumerate(cells) if cell.id in drawn or "LiveLoop(" in cell.source)
    notebook = Notebook(page, server, name)
    try:
        notebook.run_above(cells[last + 1].id, timeout_s=300)
        assert notebook.errors() == []
        for cell_id, variable in figures(f"{name}.ipynb"):
            check_sliders(notebook, notebook.run_again(cell_id), variable)  # two figures may have the same name
        if any("LiveLoop(" in "".join(cell["source"]) for cell in notebook.cells()):
            check_closed_loop(notebook)
        assert notebook.errors() == []
    finally:
        notebook.close()


def check_sliders(notebook: Notebook, shown, variable: str):
    """Dragging and arrow keys change the figure; each slider has a name, and announces the number that was drawn."""
    figure, sliders = shown.locator("img.widget-image[alt*=' ']"), shown.locator(".widget-slider:has([aria-label])")
    names = notebook.ask(f"list({variable}.values)")
    assert figure.bounding_box()["width"] == figure.evaluate("e => e.naturalWidth"), "scaled, so blurred"
    assert sliders.count() == len(names)
    for index, name in enumerate(names):
        for move in (drag, press):
            value = f"{variable}.values[{name!r}]"
            before, old = pixels(figure), notebook.ask(value)
            move(notebook.page, sliders.nth(index))
            shown_value, new, after = settled(notebook, sliders.nth(index), value, figure)
            assert new != old, f"{name} does not follow {move.__name__}"
            assert shown_value == pytest.approx(new, rel=0.01, abs=0.005), name  # two decimals or three digits
            assert after != before, f"{name}: the same figure at {old} and {new}"


def settled(notebook: Notebook, slider, value: str, figure) -> tuple[float, float, bytes]:
    """The number that a slider announces, `value` in the kernel and the figure, once nothing changes any more.

    The kernel takes moves in another thread than what is asked (a subshell), so it may answer before it has them.
    """
    seen = []
    for _ in range(30):
        notebook.page.wait_for_timeout(300)
        text = slider.locator(".noUi-handle").get_attribute("aria-valuetext").replace("−", "-")
        seen.append((float(text), notebook.ask(value), pixels(figure)))
        if seen[-2:-1] == seen[-1:] and seen[-1][0] == pytest.approx(seen[-1][1], rel=0.01, abs=0.005):
            break
    return seen[-1]


def check_closed_loop(notebook: Notebook):
    """Twenty bins a second with time to spare, new figures throughout, and a slider that acts."""
    cell = next(c for c in notebook.cells() if "LiveLoop(" in "".join(c["source"]) and c["cell_type"] == "code")
    shown = notebook.show(cell["id"])
    figure, button = shown.locator("img.widget-image"), shown.get_by_role("button", name="start / stop")
    button.click()
    seen, clocks = set(), []
    for _ in range(11):
        notebook.page.wait_for_timeout(500)
        seen.add(pixels(figure))
        clocks.append(notebook.ask("[len(live.used_ms), __import__('time').perf_counter()]"))
    used_ms = notebook.ask("live.used_ms")
    drag(notebook.page, shown.locator(".widget-slider").last)
    notebook.page.wait_for_timeout(500)
    assert notebook.ask("live.loop.gain") > 1
    button.click()
    assert len(seen) == 11
    rates = [(n - m) / (end - start) for (m, start), (n, end) in itertools.pairwise(clocks)]
    assert 18 < statistics.median(rates) < 22, rates  # not of the whole time: other processes hold up a part of it
    assert statistics.median(used_ms) < 25, "less than half a bin to spare"


def drag(page, slider):
    """Drag over more than half of the slider, to the side with room."""
    slider.scroll_into_view_if_needed()
    rail, knob = (slider.locator(part).bounding_box() for part in (".slider", ".noUi-handle"))
    x, y = knob["x"] + knob["width"] / 2, knob["y"] + knob["height"] / 2
    way = 0.6 * rail["width"] * (1 if x < rail["x"] + rail["width"] / 2 else -1)
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + way, y, steps=6)
    page.mouse.up()


def press(page, slider):
    """The arrow key that leads away from the nearer end, ten times."""
    knob = slider.locator(".noUi-handle")
    least, most, now = (float(knob.get_attribute(f"aria-value{part}")) for part in ("min", "max", "now"))
    knob.focus()
    for _ in range(10):
        page.keyboard.press("ArrowRight" if now < (least + most) / 2 else "ArrowLeft")


def pixels(figure) -> bytes:
    return Image.open(io.BytesIO(figure.screenshot())).convert("RGB").tobytes()
