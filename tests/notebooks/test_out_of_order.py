"""A kernel that was restarted half-way: right after the imports of a chapter, every exercise can be done and checked.

"The imports" are the import statements of the first code cell, and in chapter 00, where that looks at the computer, of
the one that brings `check`. What else these cells do, such as the training in chapter 13, no exercise needs.
"""

import ast
import re
from functools import cache

import pytest

from possm_lite.classroom import execute

from .test_chapters import CHAPTERS, NOTEBOOKS, exercises

read = cache(execute.read)

NEEDED = {  # exercise -> what its solution takes from a cell further down than the imports
    "read_bin": "R",
    "read_states": "R",
}


def import_cells(chapter) -> list:
    code = [cell for cell in chapter.cells if cell.cell_type == "code"]
    brings_check = next(cell for cell in code if " as check" in cell.source)
    return [code[0]] if brings_check is code[0] else [code[0], brings_check]


def after_imports(chapter) -> dict:
    """What a new kernel knows when only the imports of the chapter have run."""
    statements = [node for cell in import_cells(chapter) for node in ast.walk(ast.parse(cell.source))]
    imports = [node for node in statements if isinstance(node, ast.Import | ast.ImportFrom)]
    known = {}
    exec("\n".join(ast.unparse(node) for node in imports), known)
    return known


def told(chapter, answers, exercise: str, capsys) -> str:
    """What the check of an exercise prints where only the imports ran, and the cell of `exercise` in `answers`."""
    known = after_imports(chapter)
    place = exercises(answers)[exercise]
    exec(compile(answers.cells[place].source, "<cell>", "exec"), known)
    capsys.readouterr()
    exec(answers.cells[place + 1].source, known)
    return capsys.readouterr().out


ASKED = [
    pytest.param(path.name, exercise, id=f"{path.name[:2]}-{exercise}")
    for path in CHAPTERS
    for exercise in exercises(read(path))
]


@pytest.mark.parametrize("path", [pytest.param(path, id=path.stem) for path in CHAPTERS[1:]])
def test_a_chapter_begins_with_its_check(path):
    """In a kernel without possm_lite this line is the first to fail, and the traceback shows its comment."""
    first = import_cells(read(path))
    line = r"from possm_lite\.classroom\.checks import \w+ as check  # not found\? Chapter 00 says what to do\n"
    assert len(first) == 1 and re.match(line, first[0].source)


@pytest.mark.parametrize(("name", "exercise"), ASKED)
def test_a_stub_is_not_attempted_yet(name, exercise, capsys):
    chapter = read(NOTEBOOKS / name)
    assert told(chapter, chapter, exercise, capsys) == f"· {exercise}: not attempted yet\n"


@pytest.mark.parametrize(("name", "exercise"), ASKED)
def test_a_solution_is_right_or_told_what_to_run(name, exercise, capsys):
    chapter, solutions = read(NOTEBOOKS / name), read(NOTEBOOKS / "solutions" / name)
    line = told(chapter, solutions, exercise, capsys)
    if exercise not in NEEDED:
        assert line == f"✓ {exercise}\n"
    else:
        assert line.startswith(f"✗ {exercise}: ") and line.count("\n") == 1
        missing = f"name '{NEEDED[exercise]}' is not defined."
        assert f"{missing} If a cell above makes `{NEEDED[exercise]}`, run that first: menu Run, " in line


def test_what_is_needed_is_needed_by_an_exercise():
    assert set(NEEDED) <= {param.values[1] for param in ASKED}
