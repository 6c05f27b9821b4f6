"""Exercises in their chapters. nbval runs the chapters with their stubs (see the Makefile); here are the solutions.

No later cell reads what a stub or a solution defines, as a test asserts, so a chapter that runs with the one runs with
the other. A cell that asks the check first takes the student's answer only where it is right; one tagged
`reads-exercises` runs only then, or only defines (chapter 12).
"""

import ast
import re
import symtable
from functools import cache

import pytest

from tools import execute

from .test_chapters import CHAPTERS, DEEPER, NOTEBOOKS, SOLUTIONS, exercises, printed

NEEDED = {"read_bin": "R"}  # exercise -> name from a cell below the imports that its solution reads

read = cache(execute.read)


def reads(table: symtable.SymbolTable) -> set[str]:
    """Global names that a cell and its functions read."""
    is_cell = table.get_type() == "module"
    own = {s.get_name() for s in table.get_symbols() if s.is_referenced() and (is_cell or s.is_global())}
    return own.union(*map(reads, table.get_children()))


@pytest.mark.parametrize("path", CHAPTERS + DEEPER, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_no_later_cell_reads_an_exercise(path):
    chapter, solutions = read(path), read(NOTEBOOKS / "solutions" / path.name)
    solved = exercises(solutions)
    for exercise, index in exercises(chapter).items():
        both = chapter.cells[index].source + "\n" + solutions.cells[solved[exercise]].source
        symbols = symtable.symtable(both, exercise, "exec").get_symbols()
        defined = {symbol.get_name() for symbol in symbols if symbol.is_assigned() or symbol.is_imported()}
        for cell in chapter.cells[index + 2 :]:
            asks = f"check.{exercise}.examine({exercise})" in cell.source
            if cell.cell_type == "code" and not asks and "reads-exercises" not in cell.metadata.get("tags", []):
                assert not defined & reads(symtable.symtable(cell.source, cell.id, "exec")), cell.id


@pytest.mark.parametrize("path", SOLUTIONS, ids=lambda path: path.stem)
def test_solutions_print_their_committed_outputs(path, monkeypatch, capsys):
    monkeypatch.chdir(path.parent)
    namespace = {}
    for cell in read(path).cells:
        if cell.cell_type == "code":
            assert all(output.get("name") == "stdout" for output in cell.outputs)
            exec(compile(cell.source, cell.id, "exec"), namespace)
            assert capsys.readouterr().out == printed(cell), cell.id


@cache
def after_imports(path) -> dict:
    """The namespace of a new kernel in which only the imports and the exercises of a chapter have been loaded."""
    code = [cell for cell in read(path).cells if cell.cell_type == "code"]
    loads_exercises = next(cell for cell in code if "from possm_course.exercises import ch" in cell.source)
    nodes = [node for cell in (code[0], loads_exercises) for node in ast.walk(ast.parse(cell.source))]
    imports = [node for node in nodes if isinstance(node, ast.Import | ast.ImportFrom)]
    namespace = {}
    exec("\n".join(map(ast.unparse, imports)), namespace)
    return namespace


@pytest.mark.parametrize(
    ("path", "exercise"),
    [
        pytest.param(path, exercise, id=f"{path.name[:2]}-{exercise}")
        for path in CHAPTERS + DEEPER
        for exercise in exercises(read(path))
    ],
)
def test_exercise_needs_only_the_imports(path, exercise, capsys):
    """After a restart of the kernel, any exercise can be solved and checked, or the message names what is missing."""
    namespace, verdicts = dict(after_imports(path)), []
    for notebook in (read(path), read(NOTEBOOKS / "solutions" / path.name)):
        index = exercises(notebook)[exercise]
        exec(compile(notebook.cells[index].source, "<cell>", "exec"), namespace)
        capsys.readouterr()
        exec(notebook.cells[index + 1].source, namespace)
        verdicts.append(capsys.readouterr().out)
    assert verdicts[0] == f"· {exercise}: not attempted yet\n"
    expected = f"✓ {exercise}"
    if name := NEEDED.get(exercise):
        expected = rf"✗ {exercise}: .*name '{name}' is not defined\. .*`{name}`, run that first.*"
    assert re.fullmatch(expected + "\n", verdicts[1])
