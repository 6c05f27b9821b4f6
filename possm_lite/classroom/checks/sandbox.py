"""Run a student's function so that errors and endless loops stay inside the check."""

import _thread
import contextlib
import io
import linecache
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from textwrap import shorten
from traceback import walk_tb
from typing import Any

from .compare import described, without_arrays


@dataclass(frozen=True)
class Failure:
    """Why there is no result. `final`: a second call would not end either."""

    kind: str
    message: str
    final: bool = False


MISSING = Failure("missing", "")
NOTHING = Failure("nothing", "the function returns nothing. Is its `return` missing?")


class Complaint(Exception):
    """Raised by what observes a function: its text is all that the student reads. A second argument is `final`."""


def _stub(x):
    """Compiles to the same bytecode as every function that has only a docstring and three dots."""


class FunctionWrapper:
    """The student's function, with tensors for arrays; `failure` records the first call that returned nothing."""

    def __init__(self, function: Callable):
        self._function = function
        self.failure = None
        self.result = None
        self.raised = False

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self.raised = True
        try:
            self.result = result = without_arrays(self._function(*args, **kwargs))
        except NotImplementedError as error:
            if not error.args:  # torch raises it too, with a message, for what it cannot do
                self.failure = self.failure or MISSING
            raise
        self.raised = False
        if result is None or result is ...:
            code = getattr(self._function, "__code__", None)
            is_stub = result is ... or (code is not None and code.co_code == _stub.__code__.co_code)
            self.failure = self.failure or (MISSING if is_stub else NOTHING)
        return result

    def observed(self, observe: Callable, args: tuple) -> Any:
        """What `observe` makes of the function; where it cannot use a result, a complaint about that result."""
        try:
            return observe(self, *args)
        except Exception as error:
            if self.raised or self.result is None or callable(self.result) or isinstance(error, Complaint):
                raise  # an object that the function made, such as a module, may have raised it
            message = f": {shorten(str(error), 160)}" if isinstance(error, RuntimeError) else "."  # torch's
            raise Complaint(f"it returns {described(self.result)}, which cannot be used{message}") from error


def run(function: Callable[[], Any], seconds: float) -> tuple[Any, Failure | None]:
    """The function's result and None, or None and its failure; its output is discarded. Ctrl-C is raised as usual."""
    done = threading.Event()
    expired = threading.Event()
    endless = Failure("endless", f"it was still running after {seconds:g} s. Is there a loop without end?", True)

    def watch() -> None:
        while not done.wait(min(seconds, threading.TIMEOUT_MAX)):  # again and again, for an answer may catch it
            expired.set()
            _thread.interrupt_main()  # as Ctrl-C does

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            result = function()
        done.set()
        watcher.join()
        if expired.is_set():  # it has caught the interrupt, or ended just then: let it arrive here, not later
            time.sleep(0.1)
            return None, endless
        return result, None
    except KeyboardInterrupt:
        if not expired.is_set():
            raise
        return None, endless
    except Complaint as error:
        return None, Failure(str(error), *error.args)
    except BaseException as error:  # a student's sys.exit() too must not end the kernel
        return None, Failure(f"{type(error).__name__}: {error}", _error_message(error))
    finally:
        done.set()


def _error_message(error: BaseException) -> str:
    """The error in one line, with the line of the student's cell that raised it."""
    files = [(frame.f_code.co_filename, line) for frame, line in walk_tb(error.__traceback__)]
    lines = [place for place in files if "ipykernel" in place[0] or place[0].startswith("<")]  # cells, not packages
    where = ""
    message = shorten(str(error).removesuffix("."), 160, placeholder="...")
    if lines:
        code = linecache.getline(*lines[-1]).strip()
        where = f" in line {lines[-1][1]} of its cell{f', `{code}`' if code else ''}"
    return f"it raised {type(error).__name__}{where}{': ' + message if message else ''}{_advice(error)}"


def _advice(error: BaseException) -> str:
    """What to do about errors caused by the notebook or the machine, not by the answer; else empty."""
    if isinstance(error, NameError) and error.name and not isinstance(error, UnboundLocalError):
        return f". If a cell above makes `{error.name}`, run that first: menu Run, Run All Above Selected Cell."
    if "requires grad" in str(error):
        return ". A gradient is asked for here: compute with torch alone, without NumPy, .item() and .detach()."
    if isinstance(error, MemoryError) or "DefaultCPUAllocator" in str(error):
        return ". It asked for more memory than there is: look at the shapes of what it makes."
    return ""
