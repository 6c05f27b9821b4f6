"""Run a student's function so that its errors and endless loops stay inside the check."""

import _thread
import contextlib
import io
import linecache
import threading
from collections.abc import Callable
from textwrap import shorten
from traceback import walk_tb
from typing import Any, NamedTuple

from .compare import without_arrays


class Failure(NamedTuple):
    """Why there is no result."""

    kind: str
    message: str


MISSING = "not attempted yet"
ENDLESS = "endless"
SECONDS = 15.0


class Complaint(Exception):
    """Raised by what observes a function: its text is all that the student reads."""


def _stub(x):
    """Compiles to the same bytecode as every function that has only a docstring and three dots."""


def checked(function: Callable) -> Callable:
    """The student's function, with tensors for arrays; a Complaint where it returns nothing."""

    def call(*args: Any, **kwargs: Any) -> Any:
        result = without_arrays(function(*args, **kwargs))
        if result is ... or (result is None and _code(function) == _code(_stub)):
            raise Complaint(MISSING)
        if result is None:
            raise Complaint("the function returns nothing. Is its `return` missing?")
        return result

    return call


def _code(function: Callable) -> bytes | None:
    return function.__code__.co_code if hasattr(function, "__code__") else None


def run(function: Callable[[], Any]) -> Any:
    """The function's result or its Failure; its output is discarded. Ctrl-C is raised as usual."""
    expired = threading.Event()
    timer = threading.Timer(SECONDS, lambda: expired.set() or _thread.interrupt_main())  # as Ctrl-C does
    timer.start()
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            return function()
    except KeyboardInterrupt:
        if not expired.is_set():
            raise
        return Failure(ENDLESS, f"it was still running after {SECONDS:g} s. Is there a loop without end?")
    except Complaint as error:
        return Failure(str(error), str(error))
    except (Exception, SystemExit) as error:
        return Failure(f"{type(error).__name__}: {error}", _error_message(error))
    finally:
        timer.cancel()


def _error_message(error: BaseException) -> str:
    """The error in one line, with the line of the student's cell that raised it."""
    places = [(frame.f_code.co_filename, line) for frame, line in walk_tb(error.__traceback__)]
    cells = [place for place in places if "ipykernel" in place[0] or place[0].startswith("<")]  # not packages
    where, advice = "", ""
    if cells:
        where = f" in line {cells[-1][1]} of its cell, `{linecache.getline(*cells[-1]).strip()}`"
    if isinstance(error, NameError) and not isinstance(error, UnboundLocalError):
        advice = f" If a cell above makes `{error.name}`, run that first: menu Run, Run All Above Selected Cell."
    if "requires grad" in str(error):
        advice = " A gradient is asked for here: compute with torch alone, without NumPy, .item() and .detach()."
    text = shorten(f": {error}".rstrip(": ."), 160, placeholder="...")
    return f"it raised {type(error).__name__}{where}{text}.{advice}"
