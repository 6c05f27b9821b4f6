"""Consistency of chapters, exercises and solutions, without executing them."""

import ast
import re
from importlib import import_module
from pathlib import Path

import pytest

from possm_course.checks import Check, ValueCheck
from tools import execute

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
CHAPTERS = sorted(NOTEBOOKS.glob("*.ipynb"))
DEEPER = sorted((NOTEBOOKS / "deeper").glob("*.ipynb"))
SOLUTIONS = sorted((NOTEBOOKS / "solutions").glob("*.ipynb"))
ALL = [pytest.param(path, id=str(path.relative_to(NOTEBOOKS))) for path in CHAPTERS + DEEPER + SOLUTIONS]


def exercises(notebook) -> dict[str, int]:
    """Exercise ID -> index of its cell."""
    found = {}
    for index, cell in enumerate(notebook.cells):
        for tag in cell.metadata.get("tags", []):
            if tag.startswith("exercise:"):
                assert tag.removeprefix("exercise:") not in found, f"{tag} twice"
                found[tag.removeprefix("exercise:")] = index
    return found


def signature(cell, name: str) -> list[str]:
    """What a cell defines as `name`: a function with its arguments, a class with those of its methods, or a value."""
    for node in ast.parse(cell.source).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == name:
            return [name]
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name == name:
            functions = [node] if isinstance(node, ast.FunctionDef) else node.body
            return [f"{n.name}({ast.unparse(n.args)})" for n in functions if isinstance(n, ast.FunctionDef)]
    raise AssertionError(f"the cell of exercise:{name} does not define {name}")


def printed(cell) -> str:
    return "".join(output.get("text", "") for output in cell.outputs)


@pytest.mark.parametrize("path", ALL)
def test_outputs_are_of_the_committed_code(path):
    notebook = execute.read(path)
    assert notebook.metadata.possm_lite.outputs_of == execute.fingerprint(notebook), "run `make notebooks`"
    assert path.stat().st_size < 500_000
    assert "widgets" not in notebook.metadata
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
    assert not [cell.id for cell in code if "execution" in cell.metadata]


@pytest.mark.parametrize("path", CHAPTERS, ids=lambda path: path.stem)
def test_stubs_checks_and_solutions_match(path):
    chapter, solutions = execute.read(path), execute.read(NOTEBOOKS / "solutions" / path.name)
    for deeper in DEEPER:
        if deeper.name == path.name:
            chapter.cells += execute.read(deeper).cells
    module = import_module(f"possm_course.exercises.ch{path.name[:2]}")
    stubs, solved = exercises(chapter), exercises(solutions)
    assert list(stubs) == list(solved)
    assert len(stubs) >= (2 if path.name[:2] == "00" else 3)
    assert set(stubs) == {key for key, value in vars(module).items() if isinstance(value, Check | ValueCheck)}
    for exercise in stubs:
        stub, solution = chapter.cells[stubs[exercise]], solutions.cells[solved[exercise]]
        assert signature(stub, exercise) == signature(solution, exercise)
        for notebook, indices in ((chapter, stubs), (solutions, solved)):
            assert notebook.cells[indices[exercise] + 1].source == f"check.{exercise}({exercise})"
        assert printed(chapter.cells[stubs[exercise] + 1]) == f"· {exercise}: not attempted yet\n"
        assert printed(solutions.cells[solved[exercise] + 1]) == f"✓ {exercise}\n"


@pytest.mark.parametrize("path", ALL)
def test_interactive_figures_are_followed_by_a_sweep(path):
    code = [cell for cell in execute.read(path).cells if cell.cell_type == "code"]
    for cell, following in zip(code, [*code[1:], None], strict=False):
        for name in re.findall(r"^(\w+) = explore\(", cell.source, flags=re.MULTILINE):
            assert following is not None and following.source == f"{name}.sweep()"
            assert any("image/png" in output.get("data", {}) for output in cell.outputs), "no still figure"


@pytest.mark.parametrize("path", CHAPTERS[1:] + DEEPER, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_first_cell_loads_the_exercises(path):
    """In a kernel without possm_lite this line is the first to fail, and the traceback shows its comment."""
    if path in DEEPER and not exercises(execute.read(path)):
        return
    first = next(cell for cell in execute.read(path).cells if cell.cell_type == "code")
    imported = f"from possm_course.exercises import ch{path.name[:2]} as check"
    assert first.source.startswith(f"{imported}  # not found? Chapter 00 says what to do\n")
