"""The answers that a class has handed in, checked, in one table: `python -m possm_course.grade FOLDER`.

FOLDER has one notebook a student (`anna.ipynb`), or a folder each, with `06_recurrent_networks.ipynb`. Every notebook
is graded in a process of its own, forked from one that has loaded torch and has run the checks once. There

1. `_confine` takes from the process what students' code does not need: files, network, programs, memory;
2. `_read` splits the notebook into statements, and says which names each one binds and reads;
3. `_candidates` finds where an exercise is answered: by tag, by name, or by what its check is called with;
4. `_answered` runs the statements that the answer needs, those that import and define, and no other;
5. the check of the exercise examines the answer, and its verdict is written to a file, line by line.

So what an answer does to its process costs only its own verdict. `main` reads the verdicts and prints them.
"""

import argparse
import ast
import contextlib
import csv
import json
import linecache
import multiprocessing
import os
import re
import shutil
import signal
import struct
import symtable
import sys
import tempfile
import textwrap
import time
import unicodedata
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from multiprocessing import connection
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib.pyplot  # a second for every process whose answer draws, were it not loaded here
import torch

import possm_lite

from .checks import Check
from .checks.check import Exercise
from .checks.sandbox import Failure, run
from .exercises import (
    ch00,
    ch01,
    ch02,
    ch03,
    ch04,
    ch05,
    ch06,
    ch07,
    ch08,
    ch09,
    ch10,
    ch11,
    ch12,
    ch13,
    ch14,
    ch15,
    ch16,
    ch17,
    ch18,
    ch19,
)

_MODULES = (ch00, ch01, ch02, ch03, ch04, ch05, ch06, ch07, ch08, ch09, ch10, ch11, ch12, ch13, ch14, ch15, ch16, ch17)
_MODULES += (ch18, ch19)
CHAPTERS = {
    module.__name__[-2:]: {each.name: each for each in vars(module).values() if isinstance(each, Exercise)}
    for module in _MODULES
}

STATUSES = RIGHT, WRONG, NOT_RUN, MISSING = "right", "wrong", "not run", "missing"  # the best first
SIGNS = {RIGHT: "✓", MISSING: "–", NOT_RUN: "?"}
COLUMNS = ["student", "chapter", "exercise", "status", "message"]  # of the CSV
TEACHING = Path(__file__).parents[1] / "docs" / "TEACHING.md"
_FORKS = sys.platform == "linux"  # elsewhere a fork may hang, and every process loads torch
_LARGEST = 100_000_000  # bytes of a notebook; with pictures, a chapter has half a megabyte


@dataclass
class Notebook:
    """A notebook that was handed in.

    Attributes:
        student: The name of the file, or of the folder.
        path: Of the file.
        text: What is in it.
        chapter: "06", or "" where the notebook does not say.
        verdicts: Exercise -> status and message, of the exercises that have been found in it.
        problem: Why nothing in it could be run; empty otherwise.
    """

    student: str
    path: Path
    text: str = ""
    chapter: str = ""
    verdicts: dict[str, tuple[str, str]] = field(default_factory=dict)
    problem: str = ""


def main(argv: list[str] | None = None) -> int:
    """Grade a folder: print the table, write the CSV.

    Args:
        argv: The folder and options; None: those of this process.

    Returns:
        The exit status: 0, or 2 with one line on stderr where there is nothing to grade, or 130 if interrupted.
    """
    parser = argparse.ArgumentParser(
        prog="python -m possm_course.grade",
        description="Check the answers that a class has handed in. This RUNS what students wrote, confined as "
        "docs/TEACHING.md says; what was handed in is not changed.",
    )
    add = parser.add_argument
    add("folder", type=Path, help="of NAME.ipynb, one a student, or of NAME/NN_chapter.ipynb")
    add("--csv", type=Path, metavar="FILE", help="where to write the verdicts (default FOLDER/grades.csv)")
    add("--seconds", type=float, default=60.0, metavar="S", help="for a notebook (default 60)")
    add("--jobs", type=int, default=2, metavar="N", help="notebooks graded at a time (default 2)")
    options = parser.parse_args(argv)
    if not _has_signs(sys.stdout.encoding):  # such as a file on Chinese Windows
        sys.stdout.reconfigure(encoding="utf-8")
    target = options.csv or options.folder / "grades.csv"
    try:
        notebooks = collect(options.folder)
        _refuse_to_replace(target)
        print(_warning(notebooks), flush=True)
        grade([each for each in notebooks if each.chapter], options.seconds, max(1, options.jobs))
        rows = table_rows(notebooks)
        print(report(rows, [each for each in notebooks if each.problem]))
        with target.open("w", newline="", encoding="utf-8-sig") as file:  # by its first bytes Excel knows UTF-8
            csv.writer(file).writerows([COLUMNS, *([_no_formula(text) for text in row] for row in rows)])
    except (OSError, KeyboardInterrupt) as error:
        sys.stderr.write(f"possm_course.grade: {' '.join(str(error).split()) or 'interrupted'}\n")
        return 130 if isinstance(error, KeyboardInterrupt) else 2
    print(f"\nEvery verdict with its whole message: {target}")
    return 0


def _has_signs(encoding: str | None) -> bool:
    """Whether an output can show the signs of the table."""
    try:
        return bool("✓–…".encode(encoding or "ascii"))
    except UnicodeEncodeError:
        return False


def _refuse_to_replace(target: Path) -> None:
    """Raises where the CSV would replace a file that is not one of ours."""
    if target.exists() and not target.read_text("utf-8-sig", "replace").startswith(",".join(COLUMNS)):
        raise FileExistsError(f"{target} is there already and is not a table of grades: give another --csv FILE")


def _no_formula(text: str) -> str:
    """A text that a spreadsheet does not take for a formula."""
    return "'" + text if text[:1] in "=+-@" and text else text


def _warning(notebooks: list[Notebook]) -> str:
    """What is said before anything runs."""
    how = "Linux itself (landlock) and Python" if _landlock() else "Python alone: trust your students, or use Linux"
    n = len({each.student for each in notebooks})
    return (
        f"{len(notebooks)} notebooks of {n} students. What they wrote will be RUN, each notebook in a process of its "
        f"own that may\nwrite only into a temporary folder and has no network. That is enforced by {how}."
    )


def collect(folder: Path) -> list[Notebook]:
    """The notebooks in a folder, by student.

    Args:
        folder: Of the notebooks, or of a folder for each student. Hidden folders, and those of macOS, are left out.

    Returns:
        The notebooks that were found, also those that cannot be read, whose `problem` says why.

    Raises:
        FileNotFoundError: there is none.
    """
    found = []
    for path in sorted(folder.rglob("*.ipynb")):
        inside = path.relative_to(folder).parts
        if not any(part.startswith((".", "__MACOSX")) for part in inside):
            notebook = Notebook(_plain(inside[0] if len(inside) > 1 else path.stem), path)
            try:
                _load(notebook)
            except OSError as error:
                notebook.problem = f"it cannot be read ({error.strerror})"
            found.append(notebook)
    if not found:
        raise FileNotFoundError(f"{folder} has no notebooks: NAME.ipynb of each student, or NAME/NN_chapter.ipynb")
    return found


def _load(notebook: Notebook) -> None:
    """Reads the text of a notebook, and of which chapter it is; nothing of it is run."""
    path = notebook.path
    if not path.is_file() or path.stat().st_size > _LARGEST:
        notebook.problem = "it is no file, or larger than 100 MB"
        return
    notebook.text = path.read_text("utf-8", "replace")
    if not notebook.text.lstrip().startswith("{"):
        notebook.problem = "it is not a notebook"
        return
    named = re.search(r"possm_course\.exercises import ch(\d\d)", notebook.text) or re.match(r"(\d\d)_", path.name)
    if named and named[1] in CHAPTERS:
        notebook.chapter = named[1]
    else:
        notebook.problem = "of which chapter is it? It does not import possm_course.exercises"


# What the processes do


def grade(notebooks: list[Notebook], seconds: float, jobs: int) -> None:
    """Fills in the verdicts of notebooks, each in a process of its own.

    Args:
        notebooks: What was handed in, of known chapters.
        seconds: For each notebook, also where a process that crashed is followed by another.
        jobs: How many processes there are at a time.
    """
    context = multiprocessing.get_context("fork" if _FORKS else "spawn")
    if _FORKS:
        for chapter in {each.chapter for each in notebooks}:
            _warm(CHAPTERS[chapter].values())
    waiting, running, n_done = deque((each, None) for each in notebooks), {}, 0
    try:
        while waiting or running:
            while waiting and len(running) < jobs:
                notebook, deadline = waiting.popleft()
                process = _Grading(context, notebook, deadline or time.monotonic() + seconds)
                running[process.sentinel] = process
            soonest = min(process.deadline for process in running.values())
            ended = connection.wait(list(running), timeout=max(0.0, soonest - time.monotonic()))
            now = time.monotonic()
            for process in [each for each in running.values() if each.sentinel in ended or each.deadline <= now]:
                del running[process.sentinel]
                if process.end():
                    n_done += 1
                else:
                    waiting.appendleft((process.notebook, process.deadline))
            if sys.stderr.isatty():
                sys.stderr.write(f"\r{n_done} of {len(notebooks)} \r")
    finally:
        for process in running.values():
            process.stop()


def _warm(exercises: Iterable[Exercise]) -> None:
    """Runs the checks: what the right answer and its mistakes give is then known to all processes that are forked."""
    torch.set_num_threads(1)
    for exercise in exercises:
        if isinstance(exercise, Check):
            mistakes = [trap for _, trap in exercise.traps[:1]]
            for answer in (exercise.reference, *mistakes, lambda *_: torch.linspace(0.1, 0.7, 7)):
                exercise.examine(answer)


class _Grading:
    """A process that grades a notebook until `deadline`, in a temporary folder of its own."""

    def __init__(self, context: Any, notebook: Notebook, deadline: float):
        self.notebook, self.deadline = notebook, deadline
        self.folder = tempfile.TemporaryDirectory(prefix="grade-", ignore_cleanup_errors=True)
        done = [name for name, (status, _) in notebook.verdicts.items() if status]
        left = max(1.0, deadline - time.monotonic())
        arguments = notebook.text, notebook.chapter, done, self.folder.name, left
        self.process = context.Process(target=_grade_one, args=arguments, daemon=True)
        self.process.start()
        self.sentinel = self.process.sentinel

    def stop(self) -> None:
        """Ends the process, and all that it started."""
        if hasattr(os, "killpg"):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, signal.SIGKILL)  # not yet reaped, so the number is still its own
        self.process.kill()
        self.process.join()

    def end(self) -> bool:
        """Ends the process and reads its verdicts. False: it crashed, and another process has to go on."""
        is_late = time.monotonic() >= self.deadline
        self.stop()
        verdicts, begun = self.notebook.verdicts, ""
        for name, status, message in _lines(Path(self.folder.name, "verdicts")):
            if name in CHAPTERS[self.notebook.chapter] and status in ("", *STATUSES):
                verdicts[name] = status, _plain(message)
                begun = name if message == _BEGUN else begun
            elif not name:
                self.notebook.problem = _plain(message)
        self.folder.cleanup()
        left = [name for name, (status, _) in verdicts.items() if not status]
        code = self.process.exitcode
        how = f"exit status {code}" if code >= 0 else signal.strsignal(-code) or f"signal {-code}"
        reason = "the time of its notebook was up" if is_late else f"it ended the process that checked it ({how})"
        if begun in left and not is_late:
            verdicts[begun] = NOT_RUN, reason
            return len(left) == 1
        verdicts.update(dict.fromkeys(left, (NOT_RUN, reason)))
        if not verdicts:
            self.notebook.problem = self.notebook.problem or reason
        return True


_BEGUN = "begun"


def _lines(log: Path) -> Iterator[tuple[str, str, str]]:
    """Exercise, status and message of each whole line that a process has written."""
    if log.is_file():
        for line in log.read_bytes()[:1_000_000].decode(errors="replace").splitlines():
            with contextlib.suppress(ValueError, TypeError, RecursionError):
                name, status, message = json.loads(line)
                yield str(name), str(status), str(message)


def _grade_one(text: str, chapter: str, done: list[str], folder: str, seconds: float) -> None:
    """What a process does: grades the text of a notebook, and writes the verdicts to a file in its temporary folder."""
    log = os.open(Path(folder, "verdicts"), os.O_WRONLY | os.O_CREAT)

    def note(name: str, status: str, message: str) -> None:
        os.write(log, (json.dumps([name, status, message[:1000]]) + "\n").encode())

    _confine(folder, seconds)
    try:
        statements, tags, broken = _read(text)
    except Exception as error:  # whatever is wrong with a file that somebody calls a notebook
        note("", "", f"it is not a notebook ({type(error).__name__})")
        return
    exercises = CHAPTERS[chapter]
    found = {name: _candidates(name, exercise, statements, tags) for name, exercise in exercises.items()}
    found = {name: places for name, places in found.items() if places}
    if not found:
        note("", "", f"no exercise of chapter {chapter} is in it")
    for name in found:
        if name not in done:
            note(name, "", "")
    for name, places in found.items():
        if name not in done:
            note(name, "", _BEGUN)
            verdict = MISSING, ""
            for cell, answer in places:
                found_here = _verdict(exercises[name], statements, cell, answer, broken)
                if verdict[0] == MISSING or found_here[0] == RIGHT:
                    verdict = found_here
                if verdict[0] == RIGHT:
                    break
            note(name, *verdict)


# How an answer is taken from a notebook


class Statement(NamedTuple):
    """A statement of a notebook, outside of functions.

    Attributes:
        cell: The number of its cell.
        node: Its code.
        kind: "import", "define" (a function, a class, or names that are given values), or "do": it trains, draws,
            prints, or loops.
        binds: The names that it gives a value, or part of one.
        reads: The global names that it reads, inside functions too.
    """

    cell: int
    node: ast.stmt
    kind: str
    binds: frozenset[str]
    reads: frozenset[str]


_TRAINS = re.compile(r"fit|train|learn|adapt|parallel|explore")  # names of functions that take long


def _read(text: str) -> tuple[list[Statement], dict[int, list[str]], dict[int, str]]:
    """The statements of a notebook in their order; the exercises with which each cell is tagged; errors of syntax."""
    statements, tags, broken = [], {}, {}
    for number, cell in enumerate(json.loads(text)["cells"], 1):
        if cell["cell_type"] != "code":
            continue
        source = "".join(cell["source"])
        marks = [tag for tag in cell.get("metadata", {}).get("tags", []) if isinstance(tag, str)]
        tags[number] = [tag.removeprefix("exercise:") for tag in marks if tag.startswith("exercise:")]
        # magics of IPython: a cell of another language, a line of it
        source = re.sub(r"\A\s*%%(?!time|capture).*", "", source, flags=re.DOTALL)
        source = re.sub(r"^(\s*)[%!].*", r"\1pass", source, flags=re.MULTILINE)
        file = f"<cell {number}>"
        linecache.cache[file] = len(source), None, source.splitlines(keepends=True), file  # messages quote the line
        try:
            nodes = ast.parse(source, file).body
            statements += [_statement(number, node) for node in nodes]
        except (SyntaxError, ValueError, RecursionError) as error:
            broken[number] = f"{type(error).__name__} in line {getattr(error, 'lineno', None) or '?'} of its cell"
    return statements, tags, broken


def _statement(cell: int, node: ast.stmt) -> Statement:
    """A statement, with the names that it binds and reads."""
    kind = _kind(node)
    if kind == "import":
        names = [(each.asname or each.name).partition(".")[0] for each in node.names]
        return Statement(cell, node, kind, frozenset(names), frozenset())
    table = symtable.symtable(ast.unparse(node), "cell", "exec")
    binds = {each.get_name() for each in table.get_symbols() if each.is_assigned() or each.is_imported()}
    for part in ast.walk(node) if not isinstance(node, ast.FunctionDef | ast.ClassDef) else ():
        if isinstance(part, ast.Subscript | ast.Attribute) and isinstance(part.ctx, ast.Store):
            binds.add(_root(part))
        elif isinstance(part, ast.Call) and kind == "do":  # table.append(x), fit(model), model(x) in a loop: a change
            if isinstance(part.func, ast.Attribute) or not isinstance(node, ast.Expr):
                binds.add(_root(part.func))
            binds.update(_root(each) for each in part.args if _TRAINS.search(_last(part.func)))
    return Statement(cell, node, kind, frozenset(binds), frozenset(_reads(table)))


def _kind(node: ast.stmt) -> str:
    """What a statement does; an `if` or `try`, what all in it does."""
    if isinstance(node, ast.Import | ast.ImportFrom):
        return "import"
    if isinstance(node, ast.If | ast.Try):
        handled = [each for handler in getattr(node, "handlers", []) for each in handler.body]
        inside = [*node.body, *node.orelse, *getattr(node, "finalbody", []), *handled]
        return "define" if all(_kind(each) != "do" or isinstance(each, ast.Pass) for each in inside) else "do"
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return "define"
    if isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign):
        calls = [each for each in ast.walk(node) if isinstance(each, ast.Call)]
        return "do" if any(_TRAINS.search(_last(call.func)) for call in calls) else "define"
    return "do"


def _root(node: ast.expr) -> str:
    """The first name of `name.attribute[index]`; empty of what has none."""
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Starred):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def _last(node: ast.expr) -> str:
    """The name by which a function is called, without its module."""
    return node.attr if isinstance(node, ast.Attribute) else _root(node)


def _reads(table: symtable.SymbolTable) -> set[str]:
    """Global names that some code and its functions read."""
    is_outside = table.get_type() == "module"
    own = {each.get_name() for each in table.get_symbols() if each.is_referenced() and (is_outside or each.is_global())}
    return own.union(*map(_reads, table.get_children()))


def _candidates(
    name: str, exercise: Exercise, statements: list[Statement], tags: dict[int, list[str]]
) -> list[tuple[int, str]]:
    """Where an exercise may be answered: cell and name of the answer, the likeliest first."""
    wanted = ast.FunctionDef | ast.ClassDef if isinstance(exercise, Check) else ast.Assign | ast.AnnAssign
    tagged = [cell for cell, names in tags.items() if name in names]
    names = {name, *_checked(name, statements)}
    named = {each.cell for each in statements if each.binds & names}
    places = [(cell, name) for cell in reversed(tagged)]
    for statement in reversed(statements):
        if isinstance(statement.node, wanted):
            is_renamed = statement.cell in tagged and statement.cell not in named
            places += [(statement.cell, each) for each in statement.binds & (statement.binds if is_renamed else names)]
    return list(dict.fromkeys(places))


def _checked(name: str, statements: list[Statement]) -> Iterator[str]:
    """The names of what students call `check.name` with, in a cell of its own as the chapters have it."""
    sizes = Counter(each.cell for each in statements)
    for statement in statements:
        call = getattr(statement.node, "value", None)
        is_call = sizes[statement.cell] == 1 and isinstance(call, ast.Call) and len(call.args) == 1
        if is_call and (_root(call.func), _last(call.func)) == ("check", name):
            yield _root(call.args[0])


def _verdict(
    exercise: Exercise, statements: list[Statement], cell: int, answer: str, broken: dict[int, str]
) -> tuple[str, str]:
    """Status and message of one answer."""
    if cell in broken:
        return NOT_RUN, broken[cell]
    chosen, undone = _needed(statements, cell, answer)
    namespace, failed = {"__name__": "__main__"}, ""
    for statement in chosen:
        code = compile(ast.Module([statement.node], []), f"<cell {statement.cell}>", "exec")
        outcome = run(lambda code=code: exec(code, namespace))  # noqa: S102
        if isinstance(outcome, Failure):
            where = "its cell" if statement.cell == cell else f"cell {statement.cell}, which it needs"
            failed = f"{where}: {outcome.message}"
            undone |= statement.binds - namespace.keys()
    if answer not in namespace:
        return (NOT_RUN, failed) if failed else (MISSING, "")
    verdict = exercise.examine(namespace[answer])
    message = verdict.message.partition(": ")[2]
    if verdict.status == WRONG and "raised NotImplementedError" in message:
        return MISSING, ""
    lacks = re.search(r"name '(\w+)' is not defined", message)
    if verdict.status == WRONG and lacks and lacks[1] in undone:
        made = failed or "a cell makes it that does more than import and define, and is not run here"
        return NOT_RUN, f"it reads `{lacks[1]}`: {made}"
    return verdict.status, message if verdict.status == WRONG else ""


def _needed(statements: list[Statement], cell: int, answer: str) -> tuple[list[Statement], set[str]]:
    """The statements that an answer needs, in the order in which they run, and needed names that none of them makes.

    A name is taken from the cells above; from those below where none above has it. An import is believed before
    anything else that binds its name. What a loop changes, or a call trains, is not what its assignment made of it, so
    it is not taken at all, except in the cell of the answer itself, of which all is run that the answer needs.
    """
    changed = {name for each in statements if each.cell != cell and each.kind == "do" for name in each.binds}
    chosen = {i for i, each in enumerate(statements) if "*" in each.binds}
    undone, seen, names = set(), set(), [answer]
    while names:
        name = names.pop()
        if name in seen:
            continue
        seen.add(name)
        binders = [(i, each) for i, each in enumerate(statements) if name in each.binds]
        own = [(i, each) for i, each in binders if each.cell == cell]
        makers = [(i, each) for i, each in binders if each.cell != cell and each.kind != "do"]
        makers = [(i, each) for i, each in makers if each.kind == "import"] or makers
        makers = [(i, each) for i, each in makers if each.cell < cell] or makers
        if name in changed and not any(isinstance(each.node, _CODE) for _, each in makers):
            undone.add(name)
            makers = []
        for i, statement in own if name == answer else own + makers:
            chosen.add(i)
            names += statement.reads
    order = sorted(chosen, key=lambda i: (statements[i].cell == cell, statements[i].cell > cell, i))
    return [statements[i] for i in order], undone


_CODE = ast.Import | ast.ImportFrom | ast.FunctionDef | ast.ClassDef


# What a process may not do

_MAY_NOT = ("subprocess.", "os.system", "os.exec", "os.posix_spawn", "os.spawn", "os.fork", "os.startfile", "os.kill")
_MAY_NOT += ("socket.", "ctypes.", "webbrowser.", "winreg.", "signal.alarm")
_CHANGE = {"os.remove", "os.rename", "os.rmdir", "os.mkdir", "os.chmod", "os.chown", "os.link", "os.symlink"}
_CHANGE |= {"os.truncate", "os.utime", "os.setxattr", "os.removexattr", "os.lchown", "os.chflags"}
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_MEMORY = 2 * 1024**3  # bytes that a process may take, beyond what it begins with


def _confine(folder: str, seconds: float) -> None:
    """Takes from this process what an answer does not need, for good. It may write into a folder in `folder`."""
    home = os.path.realpath(os.path.join(folder, "home"))
    os.mkdir(home)
    os.chdir(home)
    os.environ.update(dict.fromkeys(("HOME", "USERPROFILE", "TMPDIR", "TEMP", "TMP", "MPLCONFIGDIR"), home))
    tempfile.tempdir = home
    matplotlib.use("Agg")
    torch.set_num_threads(1)
    silence = os.open(os.devnull, os.O_RDWR)
    for number in range(3):
        os.dup2(silence, number)
    if hasattr(os, "setsid"):
        os.setsid()
    _limit(seconds)
    readable = [os.path.realpath(path) for path in _readable()]
    _landlock(home, readable)
    sys.addaudithook(_guard(home, [home, *readable]))


def _readable() -> list[str]:
    """What an answer may read outside of its folder: Python, its packages, the system, and the course."""
    course, package = Path(__file__).parent, Path(possm_lite.__file__).parent
    places = [course, package, course.parent / "data", course.parent / "experiments"]
    places += [sys.prefix, sys.base_prefix, sys.exec_prefix, *(path for path in sys.path if path.endswith("-packages"))]
    places += ["/usr", "/lib", "/lib64", "/bin", "/etc", "/proc", "/sys", "/dev", "/System", "/Library"]
    return [str(place) for place in places if os.path.isdir(place) and str(place) != os.sep]


def _limit(seconds: float) -> None:
    """Limits of the system on time, memory, sizes of files and numbers of processes; none on Windows."""
    try:
        import resource
    except ImportError:
        return
    limits = {"CPU": int(seconds) + 5, "FSIZE": 64 * 1024**2, "CORE": 0, "NOFILE": 256}
    if sys.platform == "linux":
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        limits["AS"] = pages * resource.getpagesize() + _MEMORY
        mine = [each for each in Path("/proc").glob("[0-9]*") if each.exists() and each.stat().st_uid == os.getuid()]
        limits["NPROC"] = 64 + sum(len(list(each.glob("task/*"))) for each in mine)
    for name, most in limits.items():
        kind = getattr(resource, f"RLIMIT_{name}")
        hard = resource.getrlimit(kind)[1]
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(kind, (most, most))


def _guard(home: str, readable: list[str]) -> Callable[[str, tuple], None]:
    """An audit hook that lets Python write in `home` alone, read what is `readable`, and start and reach nothing."""

    def is_inside(path: Any, roots: list[str]) -> bool:
        if not isinstance(path, str | bytes | os.PathLike):
            return True  # a file that is open already
        real = os.path.realpath(os.fsdecode(path))
        return any(real == root or real.startswith(root + os.sep) for root in roots)

    def hook(event: str, args: tuple) -> None:
        if event == "open":
            path, _, flags = args
            writes = isinstance(flags, int) and flags & _WRITES and path != os.devnull
            allowed = is_inside(path, [home] if writes else readable)
        elif event in ("os.listdir", "os.scandir", "os.chdir"):
            allowed = args[0] is None or is_inside(args[0], readable)
        elif event in _CHANGE:
            allowed = all(is_inside(path, [home]) for path in args[:2])
        else:
            allowed = not event.startswith(_MAY_NOT)
        if not allowed:
            what = str(args[0])[:80] if args else ""
            raise PermissionError(f"an answer that is graded may not do this: {event} {what}")

    return hook


def _landlock(home: str = "", readable: Iterable[str] = ()) -> bool:
    """Has Linux confine this process, where it can: writing in `home`, reading there and in what is `readable`.

    Args:
        home: The folder; empty: nothing is done.
        readable: Other folders.

    Returns:
        Whether Linux can, or has done it. From version 4 of landlock on there is no TCP, from 6 no signal to others.

    Source: https://docs.kernel.org/userspace-api/landlock.html
    """
    if sys.platform != "linux":
        return False
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    version = libc.syscall(444, None, 0, 1)  # landlock_create_ruleset
    if version < 1 or not home:
        return version >= 1
    every = (1 << {1: 13, 2: 14, 3: 15, 4: 15}.get(version, 16)) - 1  # rights on files
    reading, on_file = 0b1100, every & (1 << 14 | 0b110)
    rules = struct.pack("QQQ", every, 3, 3)[: 8 if version < 4 else 16 if version < 6 else 24]
    rule_set = libc.syscall(444, rules, len(rules), 0)
    rights = {**dict.fromkeys(readable, reading), os.devnull: on_file, home: every & ~1}  # no program is started
    for path, right in rights.items():
        place = os.open(path, os.O_PATH)
        libc.syscall(445, rule_set, 1, struct.pack("=Qi", right, place), 0)  # landlock_add_rule
        os.close(place)
    libc.prctl(38, 1, 0, 0, 0)  # PR_SET_NO_NEW_PRIVS, without which it is refused
    return libc.syscall(446, rule_set, 0) == 0  # landlock_restrict_self


# What is printed


def table_rows(notebooks: list[Notebook]) -> list[list[str]]:
    """The rows of the CSV: student, chapter, exercise, status and message.

    Args:
        notebooks: Those that have been graded. Of two by one student with the same exercise the better verdict counts.

    Returns:
        For each student and chapter that was handed in, a row for each exercise that anybody's notebook of it has;
        without a chapter, what is of none.
    """
    best: dict[tuple[str, str], dict[str, tuple[str, str]]] = {}
    for notebook in notebooks:
        row = best.setdefault((notebook.chapter, notebook.student), {}) if notebook.chapter else {}
        for name, verdict in notebook.verdicts.items():
            row[name] = min(verdict, row.get(name, verdict), key=lambda each: STATUSES.index(each[0]))
    rows = [[each.student, "", "", NOT_RUN, each.problem] for each in notebooks if not each.chapter]
    for (chapter, student), verdicts in sorted(best.items()):
        found = {name for (other, _), each in best.items() if other == chapter for name in each}
        problem = next((each.problem for each in notebooks if (each.chapter, each.student) == (chapter, student)), "")
        other = (NOT_RUN, problem) if problem and not verdicts else (MISSING, "")
        for name in CHAPTERS[chapter]:
            if name in found:
                rows.append([student, chapter, name, *verdicts.get(name, other)])
    return rows


def report(rows: list[list[str]], unread: list[Notebook]) -> str:
    """What is printed: a table for each chapter, why what could not be run, and the commonest mistakes.

    Args:
        rows: Of the CSV.
        unread: Notebooks with a `problem`.

    Returns:
        The text.
    """
    lines = []
    for chapter in sorted({row[1] for row in rows if row[1]}):
        lines += ["", f"Chapter {chapter}", *_table([row for row in rows if row[1] == chapter])]
    lines += ["", "✓ right, – not attempted, ? could not be run; else what is wrong"] if rows else []
    for each in unread:
        lines += _wrapped(f"? {each.student}, {each.path.name}: {each.problem}")
    said = {(each.student, each.problem) for each in unread}
    for student, _, name, status, message in rows:
        if status == NOT_RUN and (student, message) not in said:
            lines += _wrapped(f"? {student}, {name}: {message}")
    made = Counter((row[1], row[2], row[4]) for row in rows if row[3] == WRONG)
    if made:
        lines += ["", "The commonest mistakes"]
    for i, ((chapter, name, message), n) in enumerate(made.most_common(3), 1):
        lines += _wrapped(f"{i}. {n} student{'s' * (n > 1)}, {name} (chapter {chapter}): {message}")
    for chapter in dict.fromkeys(key[0] for key, _ in made.most_common(3)):
        if advice := what_goes_wrong(chapter):
            lines += _wrapped(f"TEACHING, chapter {chapter}, what goes wrong: {advice}")
    return "\n".join(lines)


def what_goes_wrong(chapter: str) -> str:
    """What the instructor's guide says that goes wrong in a chapter.

    Args:
        chapter: "06".

    Returns:
        Its sentences, without marks of formatting; empty where there is no guide, as in an installed package.
    """
    if not TEACHING.exists():
        return ""
    text = TEACHING.read_text(encoding="utf-8").partition(f"\n### {chapter} ")[2].partition("\n### ")[0]
    text = text.partition("**What goes wrong.**")[2].partition("\n* ")[0]
    return " ".join(re.sub(r"\[([^\]]*)\]\([^)]*\)|[$*`]", r"\1", text).split())


def _table(rows: list[list[str]]) -> list[str]:
    """Students × exercises of one chapter; in two tables or more, where the terminal is narrow."""
    names = list(dict.fromkeys(row[2] for row in rows))
    students = list(dict.fromkeys(row[0] for row in rows))
    room = shutil.get_terminal_size((140, 24)).columns - max(map(_width, students))
    fitting = [name for i, name in enumerate(names, 1) if sum(max(14, 2 + len(each)) for each in names[:i]) <= room]
    first = fitting or names[:1]
    most = min(26, max(12, room // len(first) - 2))
    cells = {(row[0], row[2]): SIGNS.get(row[3]) or phrase(row[4], most) for row in rows}
    grid = [["", *first], *([student, *(cells[student, name] for name in first)] for student in students)]
    widths = [max(map(_width, column)) for column in zip(*grid, strict=True)]
    lines = ["  ".join(text + " " * (w - _width(text)) for text, w in zip(line, widths, strict=True)) for line in grid]
    others = [row for row in rows if row[2] not in first]
    return [line.rstrip() for line in lines] + (["", *_table(others)] if others else [])


def phrase(message: str, width: int) -> str:
    """A mistake in a few words, for a table.

    Args:
        message: What the check says of the answer.
        width: Letters that there is room for.

    Returns:
        The first clause of the message, without the words with which many messages begin.
    """
    if message.startswith("it was still running"):
        return "endless loop"
    message = re.sub(r"^on [^:]*: ", "", message)
    message = re.sub(r"^it raised ", "", message)
    message = re.sub(r"^two things are wrong\. First: ", "", message)
    message = re.sub(r"^(that|this|it|these) (is|was|are) (the |an? )?", "", message)
    clause = re.split(r"[.:;?](?:\s|$)| in line ", message, maxsplit=1)[0]
    return clause if len(clause) <= width else clause[: width - 1].rstrip() + "…"


def _wrapped(text: str) -> list[str]:
    """A text in lines of a hundred letters, of which those after the first are set in."""
    return textwrap.wrap(text, 100, subsequent_indent="   ")


def _width(text: str) -> int:
    """The columns that a text takes in a terminal."""
    return sum(1 + (unicodedata.east_asian_width(letter) in "WF") for letter in text)


def _plain(text: str) -> str:
    """A text of students without line breaks and control characters."""
    return " ".join("".join(letter if letter.isprintable() else " " for letter in text).split())


if __name__ == "__main__":
    os.environ["CUDA_VISIBLE_DEVICES"] = ""  # threads of a GPU, started by the first gradient, do not survive a fork
    sys.exit(main())
