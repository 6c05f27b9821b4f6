"""Duration of `make test`, and the size of each package in statements."""

import ast
import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from .page import ROOT, Item, row

LONGEST_S = 330
PACKAGES = ("possm_lite", "possm_course", "experiments", "tests", "tools")


def measure(short: bool = False) -> Iterator[Item]:
    """The rows of the section; `short`: `make test` is not run, only shown by make."""
    start = time.perf_counter()
    dry_run = ["--dry-run"] if short else []
    # ARGS: not those of `make bench`, which make hands on
    done = subprocess.run(["make", *dry_run, "test", "ARGS="], cwd=ROOT, capture_output=True, text=True)
    seconds = time.perf_counter() - start
    passed = re.search(r"(\d+) passed", done.stdout)
    n_passed = int(passed[1]) if passed else 0
    what, limit = "`make test`, environment set up", f"<= {LONGEST_S} s, exit status 0"
    yield row(what, seconds, "{:.0f} s", limit, done.returncode == 0 and seconds <= LONGEST_S)
    yield row("tests and cells that pass, of all in `make test`", n_passed, "{:,}")
    yield from sizes()


def sizes() -> Iterator[Item]:
    """Statements of each package, without docstrings."""
    for package in PACKAGES:
        n_statements = sum(count_statements(path.read_text(encoding="utf-8")) for path in _modules(package))
        yield row(f"statements: {package}", n_statements, "{:,}")


def _modules(package: str) -> list[Path]:
    """The Python files of a folder of the repository that git knows, or all of them where there is no git."""
    command = ["git", "ls-files", f"{package}/*.py"]
    try:
        listed = subprocess.check_output(command, cwd=ROOT, text=True, stderr=subprocess.DEVNULL)
    except (OSError, subprocess.CalledProcessError):
        return sorted(ROOT.joinpath(package).rglob("*.py"))
    return [ROOT / name for name in listed.split()]


def count_statements(source: str) -> int:
    """Statements in the code `source` of a module, without docstrings; a definition is one, beside those in it."""
    statements = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.stmt)]
    return sum(not _is_docstring(statement) for statement in statements)


def _is_docstring(statement: ast.stmt) -> bool:
    is_constant = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
    return is_constant and isinstance(statement.value.value, str)
