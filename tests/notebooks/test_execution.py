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

from .test_chapters import (
    CHAPTERS,
    DEEPER,
    NOTEBOOKS,
    SOLUTIONS,
    cell_name,
    execute_it,
    exercises,
    index_of,
    index_of_check,
    printed,
    read,
    shown,
)

NEEDED = {"read_bin": "R"}  # exercise -> name from a cell below the imports that its solution reads


def reads(table: symtable.SymbolTable) -> set[str]:
    """Global names that a cell and its functions read."""
    is_cell = table.get_type() == "module"
    own = {s.get_name() for s in table.get_symbols() if s.is_referenced() and (is_cell or s.is_global())}
    return own.union(*map(reads, table.get_children()))


@pytest.mark.parametrize("path", CHAPTERS + DEEPER, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_no_later_cell_reads_an_exercise(path):
    chapter, solutions = read(path), NOTEBOOKS / "solutions" / path.name
    for exercise, index in exercises(path).items():
        solution = read(solutions).cells[index_of(exercise, solutions)]
        both = chapter.cells[index].source + "\n" + solution.source
        symbols = symtable.symtable(both, exercise, "exec").get_symbols()
        defined = {symbol.get_name() for symbol in symbols if symbol.is_assigned() or symbol.is_imported()}
        for later, cell in enumerate(chapter.cells[index + 2 :], start=index + 2):
            asks = f"check.{exercise}.examine({exercise})" in cell.source
            if cell.cell_type != "code" or asks or "reads-exercises" in cell.metadata.get("tags", []):
                continue
            also_read = defined & reads(symtable.symtable(cell.source, cell.id, "exec"))
            assert not also_read, (
                f"{cell_name(path, later)} reads {', '.join(sorted(also_read))}, which students write in "
                f"exercise:{exercise}: a chapter must run without their answers. Rename what the cell reads, ask "
                f"`check.{exercise}.examine({exercise})` in it first, or give it the tag reads-exercises"
            )


@pytest.mark.parametrize("path", SOLUTIONS, ids=lambda path: path.stem)
def test_solutions_print_their_committed_outputs(path, monkeypatch, capsys):
    monkeypatch.chdir(path.parent)
    namespace = {}
    for index, cell in enumerate(read(path).cells):
        if cell.cell_type != "code":
            continue
        only_prints = all(output.get("name") == "stdout" for output in cell.outputs)
        assert only_prints, f"{cell_name(path, index)} shows a value, a figure or a warning: a solution only prints"
        exec(compile(cell.source, cell.id, "exec"), namespace)
        assert capsys.readouterr().out == printed(cell), (
            f"{cell_name(path, index)} prints something else than what is stored: {execute_it(path)}"
        )


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
        for exercise in exercises(path)
    ],
)
def test_exercise_needs_only_the_imports(path, exercise, capsys):
    """After a restart of the kernel, any exercise can be solved and checked, or the message names what is missing."""
    namespace, verdicts = dict(after_imports(path)), []
    solutions = NOTEBOOKS / "solutions" / path.name
    for notebook in (path, solutions):
        cells, index = read(notebook).cells, index_of_check(exercise, notebook)
        exec(compile(cells[index - 1].source, "<cell>", "exec"), namespace)
        capsys.readouterr()
        assert hasattr(namespace["check"], exercise), (
            f"possm_course/exercises/ch{path.name[:2]}.py has no {exercise}: "
            "write the right answer under `@exercise` there; help(possm_course.checks) has an example"
        )
        exec(cells[index].source, namespace)
        verdicts.append(capsys.readouterr().out)
    alone = f"runs after a restart with nothing but the imports of {shown(path)}"
    assert verdicts[0] == f"· {exercise}: not attempted yet\n", f"the stub of {exercise} {alone}: leave `...` in it"
    expected = f"✓ {exercise}"
    if name := NEEDED.get(exercise):
        expected = rf"✗ {exercise}: .*name '{name}' is not defined\. .*`{name}`, run that first.*"
    assert re.fullmatch(expected + "\n", verdicts[1]), (
        f"the solution of {exercise} {alone}: import what it needs in the first cells of the chapter"
    )
