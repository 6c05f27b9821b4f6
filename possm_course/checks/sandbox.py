"""Runs a student's function so that its errors and endless loops stay inside the check."""

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

MISSING = "not attempted yet"
ENDLESS = "endless"
SECONDS = 15.0  # after which a function counts as endless


class Failure(NamedTuple):
    """Why there is no result.

    Attributes:
        kind: `MISSING`, `ENDLESS`, or what was raised; two failures of one kind count as equal answers.
        message: What the student reads: a sentence or more.
    """

    kind: str
    message: str


class Complaint(Exception):
    """Raised by the `observe` of a case: its text is all that the student reads."""


def _stub(x):
    """Compiles to the same bytecode as every function that has only a docstring and three dots."""


def checked(function: Callable) -> Callable:
    """A student's function as a check calls it.

    Args:
        function: The student's function, of any arguments.

    Returns:
        A function of the same arguments that returns tensors in place of NumPy's arrays.

    Raises:
        Complaint: when it is called, and `function` returns nothing: it is still a stub, or its `return` is missing.
    """

    def call(*args: Any, **kwargs: Any) -> Any:
        result = without_arrays(function(*args, **kwargs))
        is_stub = result is None and _code(function) == _code(_stub)
        if result is ... or is_stub:
            raise Complaint(MISSING)
        if result is None:
            raise Complaint("the function returns nothing. Is its `return` missing?")
        return result

    return call


def _code(function: Callable) -> bytes | None:
    """The bytecode of a function, or None of a callable that has none."""
    return function.__code__.co_code if hasattr(function, "__code__") else None


def run(function: Callable[[], Any]) -> Any:
    """Calls a function for at most `SECONDS` and discards what it prints.

    Args:
        function: A function without arguments.

    Returns:
        Its result, or a `Failure` where it raised or was still running.

    Raises:
        KeyboardInterrupt: the user pressed Ctrl-C.
    """
    expired = threading.Event()

    def expire() -> None:
        expired.set()
        _thread.interrupt_main()  # raises KeyboardInterrupt in `function`, as Ctrl-C does

    timer = threading.Timer(SECONDS, expire)
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
    text = shorten(f": {error}".rstrip(": ."), 160, placeholder="...")
    return f"it raised {type(error).__name__}{_place(error)}{text}.{_advice(error)}"


def _place(error: BaseException) -> str:
    """The last line of a cell that the error passed, as a clause; empty where it passed none."""
    places = [(frame.f_code.co_filename, line) for frame, line in walk_tb(error.__traceback__)]
    cells = [place for place in places if "ipykernel" in place[0] or place[0].startswith("<")]  # not packages
    if not cells:
        return ""
    file, line = cells[-1]
    return f" in line {line} of its cell, `{linecache.getline(file, line).strip()}`"


def _advice(error: BaseException) -> str:
    """What to do about an error that students often meet, as a sentence; empty about others."""
    if "requires grad" in str(error):
        return " A gradient is asked for here: compute with torch alone, without NumPy, .item() and .detach()."
    if isinstance(error, NameError) and not isinstance(error, UnboundLocalError):
        return f" If a cell above makes `{error.name}`, run that first: menu Run, Run All Above Selected Cell."
    return ""
