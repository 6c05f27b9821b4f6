"""Chapters with widgets in JupyterLab: they run, sliders work by mouse and keyboard, a solution passes its check."""

import io
import itertools
import math
import re
import shutil
import statistics
from pathlib import Path

import execute
import pytest
from PIL import Image

from .lab import ROOT, Notebook, Server, printed

NOTEBOOKS = ROOT / "notebooks"
EXPLORED = re.compile(r"^(\w+) = explore\(", re.MULTILINE)


def figures(name: str) -> list[tuple[str, str]]:
    """Cell and name of each interactive figure of a chapter."""
    cells = execute.read(NOTEBOOKS / name).cells
    return [(c.id, m) for c in cells if c.cell_type == "code" for m in EXPLORED.findall(c.source)]


CHAPTERS = [path.stem for path in sorted(NOTEBOOKS.glob("[0-9]*.ipynb")) if figures(path.name)]


def first_not_needed(name: str) -> str:
    """The cell below the last interactive figure and the first exercise with its check; `make test` runs the others."""
    cells = execute.read(NOTEBOOKS / f"{name}.ipynb").cells
    exercise = next(i for i, cell in enumerate(cells) if "exercise:" in "".join(cell.metadata.get("tags", [])))
    drawn = dict(figures(f"{name}.ipynb"))
    last = max(i for i, cell in enumerate(cells) if cell.id in drawn or "LiveLoop(" in cell.source)
    return cells[max(exercise + 1, last) + 1].id


def first_solution(name: str) -> tuple[str, str]:
    """Tag and solved source of the first exercise of a chapter."""
    for cell in execute.read(NOTEBOOKS / "solutions" / f"{name}.ipynb").cells:
        for tag in cell.metadata.get("tags", []):
            if tag.startswith("exercise:"):
                return tag, cell.source
    raise AssertionError(f"{name} has no solution")


@pytest.fixture(scope="module")
def server(tmp_path_factory, chromium):
    pytest.importorskip("jupyterlab", reason="JupyterLab is not installed: pip install -e .[lab]")
    folder = tmp_path_factory.mktemp("lab")  # a copy, so that no test writes into the repository
    for name in ("notebooks", "data"):
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


def test_file_list_shows_chapters_with_their_whole_names(server, page, screenshots):
    page.goto(f"{server.url}lab/tree/notebooks?reset&token={server.token}")
    names = page.locator(".jp-DirListing-content .jp-DirListing-itemName")
    names.first.wait_for(timeout=60_000)
    # as wide as on macOS and Windows: without their fonts, Chromium takes a wider one
    font = "document.documentElement.style.setProperty('--jp-ui-font-family', 'Helvetica, Arial')"
    page.evaluate(font)
    page.wait_for_timeout(1000)
    page.screenshot(path=screenshots / "lab-files.png")
    chapters = sorted(path.name for path in NOTEBOOKS.glob("*.ipynb"))
    assert sorted(names.all_inner_texts()) == sorted([*chapters, "solutions"])
    texts = page.locator(".jp-DirListing-content .jp-DirListing-itemText")
    assert texts.count() == len(chapters) + 1
    width = "e => e.getBoundingClientRect().width"
    for text in texts.all():
        assert text.locator("span").evaluate(width) <= text.evaluate(width) + 1, text.inner_text()


@pytest.mark.parametrize("name", CHAPTERS)
def test_chapter_works_in_jupyterlab(name, server, page, screenshots):
    notebook = Notebook(page, server, name)
    try:
        notebook.run_above(first_not_needed(name), timeout_s=300)
        assert notebook.errors() == []
        for number, (cell_id, variable) in enumerate(figures(f"{name}.ipynb"), 1):
            shown = notebook.run_again(cell_id)  # two figures of a chapter may have the same name
            widget_image(shown).save(screenshots / f"widget-{name}-{number}.png")
            check_sliders(notebook, shown, variable)
            page.screenshot(path=screenshots / f"lab-{name}-{number}.png")
        if any("LiveLoop(" in "".join(cell["source"]) for cell in notebook.cells()):
            check_closed_loop(notebook, screenshots / "lab-closed-loop.png")
        check_solution(notebook, name)
        page.screenshot(path=screenshots / f"lab-{name}-check.png")
        assert notebook.errors() == []
    except Exception:
        page.screenshot(path=screenshots / f"lab-{name}-failed.png")
        raise
    finally:
        notebook.close()


def widget_image(shown) -> Image.Image:
    """Sliders and figure without the empty space beside them, as in the README."""
    whole = Image.open(io.BytesIO(shown.locator(".widget-vbox").screenshot()))
    return whole.crop((0, 0, round(shown.locator("img.widget-image").bounding_box()["width"]), whole.height))


def check_sliders(notebook: Notebook, shown, variable: str):
    """Dragging and arrow keys change the figure, and each slider shows the number that was drawn."""
    figure, sliders = shown.locator("img.widget-image"), shown.locator(".widget-slider")
    names = notebook.ask(f"list({variable}.values)")
    assert sliders.count() == len(names)
    rails = [slider.locator(".slider").bounding_box() for slider in sliders.all()]
    assert len({(round(rail["x"]), round(rail["width"])) for rail in rails}) == 1, "sliders are not aligned"
    assert not any(sliders.locator(".widget-label").evaluate_all("es => es.map(e => e.scrollWidth > e.clientWidth)"))
    assert figure.bounding_box()["width"] == figure.evaluate("e => e.naturalWidth"), "scaled, so blurred"
    for index, name in enumerate(names):
        for move in (drag, press):
            value = f"{variable}.values[{name!r}]"
            before, old = pixels(figure), notebook.ask(value)
            move(notebook.page, sliders.nth(index))
            shown_value, new, after = settled(notebook, sliders.nth(index), value, figure)
            assert new != old, f"{name} does not follow {move.__name__}"
            assert close(shown_value, new), f"{name}: {shown_value} for {new}"
            assert after != before, f"{name}: the same figure at {old} and {new}"


def settled(notebook: Notebook, slider, value: str, figure, timeout_s: float = 10.0) -> tuple[float, float, bytes]:
    """The number beside a slider, `value` in the kernel and the figure, once the numbers agree and all are constant.

    The kernel takes moves in another thread than what is asked (a subshell), so it may answer before it has them.
    """
    seen = []
    for _ in range(round(timeout_s / 0.3)):
        notebook.page.wait_for_timeout(300)
        text = slider.locator(".widget-readout").inner_text().replace("−", "-")
        seen.append((float(text), notebook.ask(value), pixels(figure)))
        if seen[-2:-1] == seen[-1:] and close(*seen[-1][:2]):
            break
    return seen[-1]


def close(shown: float, value: float) -> bool:
    """Whether a slider shows a value, in two decimals or three digits."""
    return math.isclose(shown, value, rel_tol=0.01, abs_tol=0.005)


def check_closed_loop(notebook: Notebook, screenshot: Path):
    """Twenty bins a second with time to spare, new figures throughout, and a slider that acts."""
    cell = next(c for c in notebook.cells() if "LiveLoop(" in "".join(c["source"]) and c["cell_type"] == "code")
    shown = notebook.show(cell["id"])
    figure, button = shown.locator("img.widget-image"), shown.get_by_role("button", name="start / stop")
    button.click()
    notebook.page.wait_for_timeout(1000)
    clock = "[len(live.used_ms), __import__('time').perf_counter()]"  # of the kernel: an answer may arrive late
    seen, counted = set(), [notebook.ask(clock)]
    for _ in range(10):
        notebook.page.wait_for_timeout(500)
        seen.add(pixels(figure))
        counted.append(notebook.ask(clock))
    used_ms = notebook.ask("live.used_ms")
    notebook.page.screenshot(path=screenshot)
    drag(notebook.page, shown.locator(".widget-slider").last)
    notebook.page.wait_for_timeout(500)
    assert notebook.ask("live.loop.gain") > 1
    button.click()
    assert len(seen) == 10
    rates = [(n - m) / (end - start) for (m, start), (n, end) in itertools.pairwise(counted)]
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


def check_solution(notebook: Notebook, name: str):
    tag, solution = first_solution(name)
    cells = notebook.cells()
    index = next(i for i, cell in enumerate(cells) if tag in cell["tags"])
    exercise = tag.removeprefix("exercise:")
    assert printed(cells[index + 1]) == f"· {exercise}: not attempted yet\n"
    notebook.type_over(cells[index]["id"], solution, cells[index + 1]["id"])
    after = notebook.cells()
    assert "".join(after[index]["source"]) == solution
    assert printed(after[index + 1]) == f"✓ {exercise}\n"
