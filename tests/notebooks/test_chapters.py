"""Consistency of chapters, exercises and solutions, without executing them."""

import ast
import re
from functools import cache
from importlib import import_module
from itertools import pairwise
from pathlib import Path

import pytest

from possm_course.checks import Check, ValueCheck
from tools import execute

ROOT = Path(__file__).parents[2]
NOTEBOOKS = ROOT / "notebooks"
CHAPTERS = sorted(NOTEBOOKS.glob("*.ipynb"))
DEEPER = sorted((NOTEBOOKS / "deeper").glob("*.ipynb"))
SOLUTIONS = sorted((NOTEBOOKS / "solutions").glob("*.ipynb"))
ALL = [pytest.param(path, id=str(path.relative_to(NOTEBOOKS))) for path in CHAPTERS + DEEPER + SOLUTIONS]
LARGEST = 500_000  # bytes

read = cache(execute.read)


def shown(path: Path) -> str:
    """What a message calls a file: its path in the project."""
    return path.relative_to(ROOT).as_posix()


def execute_it(path: Path) -> str:
    """What a message says about outputs that are old or missing."""
    return f"run `.venv/bin/python -m tools.execute {shown(path)}` and commit it"


def cell_name(path: Path, index: int) -> str:
    """What a message calls a cell of a notebook: its number, counted from 1, its ID and how it begins."""
    cells = read(path).cells
    if index >= len(cells):
        return f"{shown(path)} after its last cell, {len(cells)}"
    begins = cells[index].source.strip().partition("\n")[0][:60]
    return f"cell {index + 1} of {shown(path)} (id {cells[index].id}, {begins!r})"


def exercises(path: Path) -> dict[str, int]:
    """Exercise ID -> index of its cell in the notebook."""
    found = {}
    for index, cell in enumerate(read(path).cells):
        for tag in cell.metadata.get("tags", []):
            if not tag.startswith("exercise:"):
                continue
            name = tag.removeprefix("exercise:")
            assert name not in found, (
                f"{cell_name(path, index)} and cell {found[name] + 1} have the same tag, {tag}: "
                "give each exercise a name of its own"
            )
            found[name] = index
    return found


def index_of(exercise: str, path: Path) -> int:
    """The index of the cell of an exercise in a notebook that must have it."""
    found = exercises(path)
    wanted = "the right answer, word for word" if path.parent.name == "solutions" else "the signature and `...`"
    assert exercise in found, (
        f"no cell of {shown(path)} has the tag exercise:{exercise}. Add a code cell with {wanted}, give it this tag "
        f"(JupyterLab: property inspector, Cell Tags), and after it a cell `check.{exercise}({exercise})`"
    )
    return found[exercise]


def source_after(path: Path, index: int) -> str:
    """The source of the cell after this one; empty after the last one."""
    return "".join(cell.source for cell in read(path).cells[index + 1 : index + 2])


def signature(path: Path, exercise: str) -> list[str]:
    """What the cell of an exercise defines: a function or the methods of a class, with their arguments, or a value."""
    index = index_of(exercise, path)
    for node in ast.parse(read(path).cells[index].source).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == exercise:
            return [exercise]
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name == exercise:
            functions = [node] if isinstance(node, ast.FunctionDef) else node.body
            return [f"{n.name}({ast.unparse(n.args)})" for n in functions if isinstance(n, ast.FunctionDef)]
    raise AssertionError(
        f"{cell_name(path, index)} has the tag exercise:{exercise} and does not define {exercise}: "
        f"begin it with `def {exercise}(...):` or `{exercise} = ...`, or change the tag"
    )


def printed(cell) -> str:
    return "".join(output.get("text", "") for output in cell.outputs)


def index_of_check(exercise: str, path: Path) -> int:
    """The index of the cell that checks an exercise, which comes directly after that of the exercise."""
    index, call = index_of(exercise, path), f"check.{exercise}({exercise})"
    assert source_after(path, index) == call, (
        f"after {cell_name(path, index)} comes {source_after(path, index)[:60]!r}: "
        f"a code cell with nothing but `{call}` must come directly after the exercise"
    )
    return index + 1


def verdict(path: Path, exercise: str) -> str:
    """What the check of an exercise has printed in a notebook."""
    return printed(read(path).cells[index_of_check(exercise, path)])


@pytest.mark.parametrize("path", ALL)
def test_outputs_are_of_the_committed_code(path):
    notebook = read(path)
    stored = notebook.metadata.get("possm_lite", {}).get("outputs_of")
    assert stored == execute.fingerprint(notebook), f"the code was changed after its outputs: {execute_it(path)}"
    size = path.stat().st_size
    assert size < LARGEST, f"{shown(path)} has {size} bytes, at most {LARGEST}: draw fewer or smaller figures"
    assert "widgets" not in notebook.metadata, f"the state of widgets is stored: {execute_it(path)}"
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    counts = [cell.execution_count for cell in code]
    assert counts == list(range(1, len(code) + 1)), f"cells were not executed in order: {execute_it(path)}"
    timed = [cell.id for cell in code if "execution" in cell.metadata]
    assert not timed, f"the times of execution are stored: {execute_it(path)}"


@pytest.mark.parametrize("path", CHAPTERS, ids=lambda path: path.stem)
def test_stubs_checks_and_solutions_match(path):
    number, solutions = path.name[:2], NOTEBOOKS / "solutions" / path.name
    notebooks = [path, *(deeper for deeper in DEEPER if deeper.name == path.name)]
    stubs = {}
    for notebook in notebooks:
        for exercise in exercises(notebook):
            assert exercise not in stubs, f"exercise:{exercise} is in the chapter and in deeper: rename one of them"
            stubs[exercise] = notebook
    for exercise in stubs:
        index_of(exercise, solutions)
    solved = list(exercises(solutions))
    assert list(stubs) == solved, f"{shown(solutions)} has other exercises than its chapter, or in another order"
    fewest = 2 if number == "00" else 3
    assert len(stubs) >= fewest, f"chapter {number} has {len(stubs)} exercises, at least {fewest}"
    module = import_module(f"possm_course.exercises.ch{number}")
    checks = {key for key, value in vars(module).items() if isinstance(value, Check | ValueCheck)}
    advice = f"possm_course/exercises/ch{number}.py and the cells tagged exercise:... of the chapter must have the same"
    assert set(stubs) - checks == set(), f"there is no check (`@exercise`, or a ValueCheck): {advice}"
    assert checks - set(stubs) == set(), f"a check has no cell in the chapter: {advice}"
    for exercise, notebook in stubs.items():
        assert signature(notebook, exercise) == signature(solutions, exercise), (
            f"{exercise} has other arguments in {shown(notebook)} than in {shown(solutions)}"
        )
        assert verdict(notebook, exercise) == f"· {exercise}: not attempted yet\n", (
            f"the stub of {exercise} must be empty, with `...` where students write. If it is, {execute_it(notebook)}"
        )
        assert verdict(solutions, exercise) == f"✓ {exercise}\n", (
            f"the stored output does not say that the solution is right: {execute_it(solutions)}"
        )


@pytest.mark.parametrize("path", CHAPTERS, ids=lambda path: path.stem)
def test_exercises_are_numbered_in_order(path):
    """Ascending within the chapter and within its deeper notebook, and none twice."""
    numbers = []
    for notebook in [path, *(deeper for deeper in DEEPER if deeper.name == path.name)]:
        texts = [cell.source for cell in read(notebook).cells if cell.cell_type == "markdown"]
        found = re.findall(r"\*\*Exercise (\d+)\.(\d+)", "\n".join(texts))
        assert {chapter for chapter, _ in found} <= {str(int(path.name[:2]))}, (
            f"{shown(notebook)} has an exercise that is numbered as one of another chapter: {found}"
        )
        here = [int(number) for _, number in found]
        assert here == sorted(here), f"the exercises of {shown(notebook)} are not in the order of their numbers: {here}"
        numbers += here
    twice = sorted({number for number in numbers if numbers.count(number) > 1})
    assert not twice, f"chapter {path.name[:2]} and its deeper notebook number two exercises alike: {twice}"


@pytest.mark.parametrize("path", ALL)
def test_interactive_figures_are_followed_by_a_sweep(path):
    cells = read(path).cells
    code = [index for index, cell in enumerate(cells) if cell.cell_type == "code"]
    for index, following in pairwise([*code, len(cells)]):
        for name in re.findall(r"^(\w+) = explore\(", cells[index].source, flags=re.MULTILINE):
            assert source_after(path, following - 1) == f"{name}.sweep()", (
                f"the code cell after {cell_name(path, index)} must be `{name}.sweep()`: it moves the sliders, "
                "so that a test draws the figure at their ends"
            )
            images = [output for output in cells[index].outputs if "image/png" in output.get("data", {})]
            assert images, f"{cell_name(path, index)} has no still figure: end it with `{name}`, and {execute_it(path)}"


@pytest.mark.parametrize("path", CHAPTERS[1:] + DEEPER, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_first_cell_loads_the_exercises(path):
    """In a kernel without possm_lite this line is the first to fail, and the traceback shows its comment."""
    if path in DEEPER and not exercises(path):
        return
    first = next(cell for cell in read(path).cells if cell.cell_type == "code")
    imported = f"from possm_course.exercises import ch{path.name[:2]} as check"
    line = f"{imported}  # not found? Chapter 00 says what to do\n"
    assert first.source.startswith(line), f"the first code cell of {shown(path)} must begin with this line:\n{line}"


@pytest.mark.parametrize("path", CHAPTERS, ids=lambda path: path.stem)
def test_figures_say_what_is_seen(path):
    """In the alternative text of their cell, which the web pages and slides show to whom does not see the figure."""
    for index, cell in enumerate(read(path).cells):
        if any("image/png" in output.get("data", {}) for output in cell.get("outputs", [])):
            alt = cell.metadata.get("mystnb", {}).get("image", {}).get("alt", "")
            assert len(alt) > 40, (
                f'{cell_name(path, index)} needs "mystnb": {{"image": {{"alt": "..."}}}} in its metadata: what is in '
                "the figure, for somebody who does not see it"
            )
