"""Chapters, their exercises and their solutions hang together, and the solutions solve what the chapters ask."""

import ast
import re
from pathlib import Path

import nbformat
import pytest

from possm_lite.classroom import execute
from possm_lite.classroom.checks import Check, ValueCheck, load_exercises

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
CHAPTERS = sorted(NOTEBOOKS.glob("*.ipynb"))
SOLUTIONS = sorted((NOTEBOOKS / "solutions").glob("*.ipynb"))
WITH_EXERCISES = [pytest.param(path.name, id=path.stem) for path in SOLUTIONS]
ALL = [pytest.param(path, id=str(path.relative_to(NOTEBOOKS))) for path in CHAPTERS + SOLUTIONS]


def exercises(notebook) -> dict[str, int]:
    """ID of each exercise and the place of its cell."""
    found = {}
    for place, cell in enumerate(notebook.cells):
        for tag in cell.metadata.get("tags", []):
            if tag.startswith("exercise:"):
                assert tag.removeprefix("exercise:") not in found, f"{tag} twice"
                found[tag.removeprefix("exercise:")] = place
    return found


def wanted(cell, name: str) -> str:
    """What a cell defines under the exercise's name: a signature, or that it is a value."""
    for node in ast.parse(cell.source).body:
        if isinstance(node, ast.FunctionDef) and node.name == name:
            return f"def {name}({ast.unparse(node.args)})"
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == name:
            return f"{name} = "
    raise AssertionError(f"nothing called {name} is defined in the cell of exercise:{name}")


def printed(cell) -> str:
    return "".join(output.get("text", "") for output in cell.outputs)


def with_solutions(name: str):
    """The chapter with every stub replaced by its solution."""
    chapter, solutions = execute.read(NOTEBOOKS / name), execute.read(NOTEBOOKS / "solutions" / name)
    solved = exercises(solutions)
    for exercise, place in exercises(chapter).items():
        chapter.cells[place].source = solutions.cells[solved[exercise]].source
    return chapter


@pytest.mark.parametrize("path", ALL)
def test_outputs_are_of_the_code_they_stand_under(path):
    notebook = execute.read(path)
    assert notebook.metadata.possm_lite.outputs_of == execute.fingerprint(notebook), "run `make notebooks`"
    assert path.stat().st_size < 500_000
    assert "widgets" not in notebook.metadata
    run = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in run] == list(range(1, len(run) + 1))
    assert not [cell.id for cell in run if "execution" in cell.metadata]


@pytest.mark.parametrize("name", WITH_EXERCISES)
def test_stubs_checks_and_solutions_hold_together(name):
    chapter, solutions = execute.read(NOTEBOOKS / name), execute.read(NOTEBOOKS / "solutions" / name)
    module = load_exercises(name.removesuffix(".ipynb"), NOTEBOOKS)
    asked, solved = exercises(chapter), exercises(solutions)
    assert list(asked) == list(solved)
    assert len(asked) >= (2 if name.startswith("00") else 3)
    assert set(asked) == {key for key, value in vars(module).items() if isinstance(value, Check | ValueCheck)}
    for exercise in asked:
        stub, solution = chapter.cells[asked[exercise]], solutions.cells[solved[exercise]]
        assert wanted(stub, exercise) == wanted(solution, exercise)
        for notebook, place in ((chapter, asked), (solutions, solved)):
            assert notebook.cells[place[exercise] + 1].source == f"check.{exercise}({exercise})"
        assert printed(chapter.cells[asked[exercise] + 1]) == f"· {exercise}: not attempted yet\n"
        assert printed(solutions.cells[solved[exercise] + 1]) == f"✓ {exercise}\n"


@pytest.mark.parametrize("path", ALL)
def test_an_interactive_figure_is_followed_by_its_sweep(path):
    code = [cell for cell in execute.read(path).cells if cell.cell_type == "code"]
    for cell, after in zip(code, [*code[1:], None], strict=True):
        for name in re.findall(r"^(\w+) = explore\(", cell.source, flags=re.MULTILINE):
            assert after is not None and after.source == f"{name}.sweep()"
            assert any("image/png" in output.get("data", {}) for output in cell.outputs), "no still picture"


@pytest.mark.parametrize("name", WITH_EXERCISES)
def test_a_chapter_runs_with_its_solutions(name):
    chapter = with_solutions(name)
    execute.run(chapter, NOTEBOOKS, timeout_s=120)
    for exercise, place in exercises(chapter).items():
        assert printed(chapter.cells[place + 1]) == f"✓ {exercise}\n"


def test_every_chapter_with_exercises_has_solutions():
    asking = [path.name for path in CHAPTERS if exercises(nbformat.read(path, as_version=4))]
    assert asking == [path.name for path in SOLUTIONS]
