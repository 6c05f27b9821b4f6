"""Execution of the chapters and of their solutions. Each chapter is executed once, in a kernel of its own.

After the check of each exercise ("not attempted yet") follow its solution and the check again ("✓"). No later cell
reads what stubs or solutions define, as a test asserts, so the outputs of the other cells are the same with either.
"""

import ast
import re
import symtable
from functools import cache

import nbformat
import pytest
from nbclient.exceptions import CellControlSignal, DeadKernelError

from possm_lite.classroom import execute

from .test_chapters import CHAPTERS, NOTEBOOKS, SOLUTIONS, exercises, printed

LONGEST_FIRST = [15, 12, 16, 17, 8, 7, 13, 6, 14, 9, 11, 10, 5, 3, 0, 2, 1, 4]  # by `make bench ARGS=course`
NEEDED = {"read_bin": "R", "read_states": "R"}  # exercise -> name from a cell below the imports that its solution reads

read = cache(execute.read)


def with_solutions(chapter, solutions):
    """The cells of the chapter, with solution and check inserted after the check of each stub."""
    cells, solved = list(chapter.cells), exercises(solutions)
    for exercise, index in reversed(exercises(chapter).items()):
        cells[index + 2 : index + 2] = solutions.cells[solved[exercise] : solved[exercise] + 2]
    return cells


def is_compared(cell) -> bool:
    return "nbval-check-output" in cell.metadata.get("tags", []) or cell.source.startswith("check.")


def comparable(cell) -> list:
    """The outputs without images and execution counts."""
    kinds = [{kind: data for kind, data in out.get("data", {}).items() if kind != "image/png"} for out in cell.outputs]
    return [(out.get("name"), out.get("text"), data) for out, data in zip(cell.outputs, kinds, strict=True)]


@pytest.mark.parametrize("path", [CHAPTERS[number] for number in LONGEST_FIRST], ids=lambda path: path.stem)
def test_chapter_runs_with_stubs_and_solutions(path):
    committed = with_solutions(read(path), read(NOTEBOOKS / "solutions" / path.name))
    notebook = nbformat.v4.new_notebook(cells=[nbformat.from_dict(cell) for cell in committed])
    started = []
    try:
        execute.run(notebook, NOTEBOOKS, 120, on_cell_start=lambda cell, cell_index: started.append(cell_index))
    except (CellControlSignal, DeadKernelError) as error:
        pytest.fail(f"{path.stem}, cell {committed[started[-1]].id}: {error}", pytrace=False)
    execute.tidy(notebook)
    for before, now in zip(committed, notebook.cells, strict=True):
        if now.cell_type == "code" and is_compared(now):
            assert comparable(now) == comparable(before), f"{path.stem}, cell {now.id}:\n{now.source}"


def reads(table: symtable.SymbolTable) -> set[str]:
    """Global names that a cell and its functions read."""
    is_cell = table.get_type() == "module"
    own = {s.get_name() for s in table.get_symbols() if s.is_referenced() and (is_cell or s.is_global())}
    return own.union(*map(reads, table.get_children()))


@pytest.mark.parametrize("path", SOLUTIONS, ids=lambda path: path.stem)
def test_no_later_cell_reads_an_exercise(path):
    chapter, solutions = read(NOTEBOOKS / path.name), read(path)
    solved = exercises(solutions)
    for exercise, index in exercises(chapter).items():
        both = chapter.cells[index].source + "\n" + solutions.cells[solved[exercise]].source
        symbols = symtable.symtable(both, exercise, "exec").get_symbols()
        defined = {symbol.get_name() for symbol in symbols if symbol.is_assigned() or symbol.is_imported()}
        for cell in chapter.cells[index + 2 :]:
            if cell.cell_type == "code":
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
    loads_exercises = next(cell for cell in code if "\ncheck = load_exercises(" in cell.source)
    nodes = [node for cell in (code[0], loads_exercises) for node in ast.walk(ast.parse(cell.source))]
    imports = [node for node in nodes if isinstance(node, ast.Import | ast.ImportFrom)]
    namespace = {}
    exec("\n".join(map(ast.unparse, imports)), namespace)
    namespace["check"] = namespace["load_exercises"](path.stem, NOTEBOOKS)
    return namespace


@pytest.mark.parametrize(
    ("path", "exercise"),
    [pytest.param(p, exercise, id=f"{p.name[:2]}-{exercise}") for p in CHAPTERS for exercise in exercises(read(p))],
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
    if exercise in NEEDED:
        missing = f"name '{NEEDED[exercise]}' is not defined."
        assert re.fullmatch(
            rf"✗ {exercise}: .*{re.escape(missing)} .*`{NEEDED[exercise]}`, run that first.*\n", verdicts[1]
        )
    else:
        assert verdicts[1] == f"✓ {exercise}\n"
