"""Every chapter with a widget in JupyterLab: it runs, sliders move by mouse and by keyboard, a solution gets its ✓."""

import io
import math
import re
import time
from pathlib import Path

import pytest
from PIL import Image

from possm_lite.classroom import execute

from .lab import Notebook, Server, course_at, printed

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
EXPLORED = re.compile(r"^(\w+) = explore\(", re.MULTILINE)


def figures(name: str) -> list[tuple[str, str]]:
    """Cell and name of each interactive figure of a chapter."""
    cells = execute.read(NOTEBOOKS / name).cells
    return [(c.id, m) for c in cells if c.cell_type == "code" for m in EXPLORED.findall(c.source)]


CHAPTERS = [path.stem for path in sorted(NOTEBOOKS.glob("[0-9]*.ipynb")) if figures(path.name)]


def first_solution(name: str) -> tuple[str, str]:
    """Tag of the first exercise of a chapter, and what stands in its cell when it is solved."""
    for cell in execute.read(NOTEBOOKS / "solutions" / f"{name}.ipynb").cells:
        for tag in cell.metadata.get("tags", []):
            if tag.startswith("exercise:"):
                return tag, cell.source
    raise AssertionError(f"{name} has no solution")


@pytest.fixture(scope="module")
def server(tmp_path_factory, chromium):
    pytest.importorskip("jupyterlab", reason="JupyterLab is not here: pip install -e .[lab]")
    running = Server(course_at(tmp_path_factory.mktemp("lab")))
    yield running
    running.close()


@pytest.fixture
def page(chromium):
    context = chromium.new_context(viewport={"width": 1366, "height": 768})  # a small laptop
    page = context.new_page()
    yield page
    context.close()


@pytest.mark.parametrize("name", CHAPTERS)
def test_a_chapter_in_jupyterlab(name, server, page, screenshots):
    notebook = Notebook(page, server, name)
    try:
        notebook.run_all(patience_s=300)
        assert notebook.errors() == []
        for number, (cell_id, variable) in enumerate(figures(f"{name}.ipynb"), 1):
            shown = notebook.run_again(cell_id)  # two figures of a chapter may bear the same name
            cut_out(shown).save(screenshots / f"widget-{name}-{number}.png")
            sliders_move_the_picture(notebook, shown, variable)
            page.screenshot(path=screenshots / f"lab-{name}-{number}.png")
        if any("LiveLoop(" in "".join(cell["source"]) for cell in notebook.cells()):
            the_closed_loop_plays(notebook, screenshots / "lab-closed-loop.png")
        a_solution_gets_its_tick(notebook, name)
        page.screenshot(path=screenshots / f"lab-{name}-check.png")
        assert notebook.errors() == []
    except Exception:
        page.screenshot(path=screenshots / f"lab-{name}-failed.png")
        raise
    finally:
        notebook.close()


def cut_out(shown) -> Image.Image:
    """Sliders and picture, and no empty paper beside them: so they stand in the README."""
    whole = Image.open(io.BytesIO(shown.locator(".widget-vbox").screenshot()))
    return whole.crop((0, 0, round(shown.locator("img.widget-image").bounding_box()["width"]), whole.height))


def sliders_move_the_picture(notebook: Notebook, shown, variable: str):
    """Each slider, dragged and then moved by an arrow key: other pixels, and beside it the number that was drawn."""
    picture, sliders = shown.locator("img.widget-image"), shown.locator(".widget-slider")
    names = notebook.ask(f"list({variable}.values)")
    assert sliders.count() == len(names)
    width = picture.bounding_box()["width"]
    assert width == picture.evaluate("e => e.naturalWidth"), "not in its own size: blurred"
    for place, name in enumerate(names):
        slider = sliders.nth(place)
        for move in (drag, press):
            before, was = pixels(picture), notebook.ask(f"{variable}.values[{name!r}]")
            move(notebook.page, slider)
            number, now = settled(notebook, slider, f"{variable}.values[{name!r}]")
            assert now != was, f"{name} stands still under {move.__name__}"
            assert math.isclose(number, now, rel_tol=0.01, abs_tol=0.005), f"{name}: {number} is shown for {now}"
            assert pixels(picture) != before, f"{name}: the same picture at {was} and {now}"


def settled(notebook: Notebook, slider, expression: str, patience_s: float = 10.0) -> tuple[float, float]:
    """The number beside a slider and the one in the kernel, when both have stood still for a moment."""
    seen = []
    for _ in range(round(patience_s / 0.3)):
        notebook.page.wait_for_timeout(300)
        text = slider.locator(".widget-readout").inner_text().replace("−", "-")
        seen.append((float(text), notebook.ask(expression)))
        if seen[-2:-1] == seen[-1:]:
            break
    return seen[-1]


def the_closed_loop_plays(notebook: Notebook, screenshot: Path):
    """Twenty bins a second for some seconds, the picture new in each, and time to spare; a slider acts meanwhile."""
    cell = next(c for c in notebook.cells() if "LiveLoop(" in "".join(c["source"]) and c["cell_type"] == "code")
    shown = notebook.show(cell["id"])
    picture, button = shown.locator("img.widget-image"), shown.get_by_role("button", name="start / stop")
    button.click()
    notebook.page.wait_for_timeout(1000)
    began, bins = time.monotonic(), len(notebook.ask("live.used_ms"))
    seen = set()
    for _ in range(10):
        notebook.page.wait_for_timeout(500)
        seen.add(pixels(picture))
    used_ms, seconds = notebook.ask("live.used_ms"), time.monotonic() - began
    notebook.page.screenshot(path=screenshot)
    drag(notebook.page, shown.locator(".widget-slider").last)
    notebook.page.wait_for_timeout(500)
    assert notebook.ask("live.loop.gain") > 1
    button.click()
    assert len(seen) == 10
    assert 17 < (len(used_ms) - bins) / seconds < 23
    assert sorted(used_ms)[len(used_ms) // 2] < 25, "half a bin is the least to spare"


def drag(page, slider):
    """Over more than half of the slider, to the side where there is room."""
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


def pixels(picture) -> bytes:
    return Image.open(io.BytesIO(picture.screenshot())).convert("RGB").tobytes()


def a_solution_gets_its_tick(notebook: Notebook, name: str):
    tag, solution = first_solution(name)
    cells = notebook.cells()
    place = next(i for i, cell in enumerate(cells) if tag in cell["tags"])
    exercise = tag.removeprefix("exercise:")
    assert printed(cells[place + 1]) == f"· {exercise}: not attempted yet\n"
    notebook.type_over(cells[place]["id"], solution)
    after = notebook.cells()
    assert "".join(after[place]["source"]) == solution
    assert printed(after[place + 1]) == f"✓ {exercise}\n"
