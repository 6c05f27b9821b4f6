"""Run a student's function so that errors, endless loops and endless printing stay inside the check."""

import _thread
import contextlib
import io
import linecache
import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from textwrap import shorten
from traceback import walk_tb
from typing import Any

from .compare import described, without_arrays

MAX_PRINTED = 10_000  # characters


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
        self._function, self.failure, self.result, self.raised = function, None, None, False

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


class CappedStringIO(io.StringIO):
    """Keeps what is printed, and complains beyond MAX_PRINTED characters."""

    def write(self, text: str) -> int:
        if self.tell() > MAX_PRINTED:
            raise Complaint("it prints without end.", True)
        return super().write(text)


class Timeout:
    """Interrupts the main thread, as Ctrl-C does, after `seconds`, and then every second until the block ends."""

    def __init__(self, seconds: float):
        self._seconds, self.expired = seconds, False
        self._done, self._lock = threading.Event(), threading.Lock()

    def __enter__(self):
        if self._seconds < math.inf and threading.current_thread() is threading.main_thread():
            threading.Thread(target=self._watch, daemon=True).start()
        return self

    def _watch(self):
        delay = self._seconds
        while not self._done.wait(delay):
            with self._lock:
                if not self._done.is_set():
                    self.expired = True
                    _thread.interrupt_main()
            delay = 1.0

    def __exit__(self, kind, *_):
        with self._lock:
            self._done.set()
        if self.expired and kind is None:
            time.sleep(0.1)  # ended just as the timeout expired: let the interrupt arrive here, not later


def run(function: Callable[[], Any], seconds: float) -> tuple[Any, Failure | None]:
    """The function's result and None, or None and its failure; its output is discarded. Ctrl-C is raised as usual."""
    timeout = Timeout(seconds)
    endless = Failure("endless", f"it was still running after {seconds:g} s. Is there a loop without end?", True)
    try:
        with timeout, contextlib.redirect_stdout(CappedStringIO()), contextlib.redirect_stderr(CappedStringIO()):
            result = function()
        return (None, endless) if timeout.expired else (result, None)  # it may have caught the interrupt
    except KeyboardInterrupt:
        if not timeout.expired:
            raise
        return None, endless
    except Complaint as error:
        return None, Failure(str(error), *error.args)
    except BaseException as error:  # a student's sys.exit() too must not end the kernel
        return None, Failure(f"{type(error).__name__}: {error}", _error_message(error))


def _error_message(error: BaseException) -> str:
    """The error in one line, with the line of the student's cell that raised it."""
    files = [(frame.f_code.co_filename, line) for frame, line in walk_tb(error.__traceback__)]
    lines = [place for place in files if "ipykernel" in place[0] or place[0].startswith("<")]  # cells, not packages
    where, message = "", shorten(str(error).removesuffix("."), 160, placeholder="...")
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
