"""Running what a student wrote so that nothing of it reaches the notebook: errors, endless loops, endless printing."""

from __future__ import annotations

import _thread
import contextlib
import io
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

MAX_PRINTED = 10_000  # characters


@dataclass(frozen=True)
class Trouble:
    """What came instead of a result: its kind, one line about it, and whether a second call is worth waiting for."""

    kind: str
    told: str
    ends_it: bool = False


class PrintsWithoutEnd(Exception):
    pass


def _stub(x):
    """Compiled like every function of a docstring and three dots."""


class Watched:
    """The student's function, seen from inside an observation: its first result that is none is remembered."""

    def __init__(self, function: Callable):
        self._function, self.trouble = function, None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        try:
            result = self._function(*args, **kwargs)
        except NotImplementedError as error:
            if not error.args:  # torch raises it too, with a message, for what it cannot do
                self.trouble = self.trouble or Trouble("missing", "")
            raise
        if result is ...:
            self.trouble = self.trouble or Trouble("missing", "")
        elif result is None:
            code = getattr(self._function, "__code__", None)
            is_stub = code is not None and code.co_code == _stub.__code__.co_code
            nothing = Trouble("nothing", "the function returns nothing. Is its `return` missing?")
            self.trouble = self.trouble or (Trouble("missing", "") if is_stub else nothing)
        return result


class _Paper(io.StringIO):
    """What a function prints, up to a length."""

    def write(self, text: str) -> int:
        if self.tell() > MAX_PRINTED:
            raise PrintsWithoutEnd
        return super().write(text)


class _Alarm:
    """Interrupts the main thread, as Ctrl-C does, when the block takes longer than `seconds`, then every second."""

    def __init__(self, seconds: float):
        self._seconds, self.rang = seconds, False
        self._over, self._lock = threading.Event(), threading.Lock()

    def __enter__(self):
        if threading.current_thread() is threading.main_thread():
            threading.Thread(target=self._watch, daemon=True).start()
        return self

    def _watch(self):
        patience = self._seconds
        while not self._over.wait(patience):
            with self._lock:
                if not self._over.is_set():
                    self.rang = True
                    _thread.interrupt_main()
            patience = 1.0

    def __exit__(self, kind, *_):
        with self._lock:
            self._over.set()
        if self.rang and kind is None:
            time.sleep(0.1)  # the function ended as the alarm rang: the interrupt must land here, not later


def run(function: Callable[[], Any], seconds: float) -> tuple[Any, Trouble | None]:
    """The function's result, or None and the trouble there was; what it prints is swallowed.

    Raises:
        KeyboardInterrupt: if the person at the keyboard interrupts, not the alarm.
    """
    alarm = _Alarm(seconds)
    endless = Trouble("endless", f"it was still running after {seconds:g} s. Is there a loop without end?", True)
    try:
        with alarm, contextlib.redirect_stdout(_Paper()), contextlib.redirect_stderr(_Paper()):
            result = function()
        return (None, endless) if alarm.rang else (result, None)  # it may have ended by catching the interrupt
    except KeyboardInterrupt:
        if not alarm.rang:
            raise
        return None, endless
    except PrintsWithoutEnd:
        return None, Trouble("prints", "it prints without end.", True)
    except BaseException as error:  # a student's sys.exit() too must not end the kernel
        return None, Trouble(f"{type(error).__name__}: {error}", _told(error))


def _told(error: BaseException) -> str:
    """The error in one line, with the line of the student's cell it came from."""
    trace, line = error.__traceback__, None
    while trace is not None:
        name = trace.tb_frame.f_code.co_filename
        if "ipykernel" in name or name.startswith("<"):  # a cell, not a file of a package
            line = trace.tb_lineno
        trace = trace.tb_next
    message = " ".join(str(error).split())
    message = message if len(message) <= 160 else message[:157] + "..."
    place = f" in line {line} of its cell" if line else ""
    return f"it raised {type(error).__name__}{place}{': ' + message if message else ''}{_advice(error)}"


def _advice(error: BaseException) -> str:
    """What to do about an error that is of the notebook or the machine; nothing about those of the answer."""
    if isinstance(error, NameError) and error.name and not isinstance(error, UnboundLocalError):
        return f". If a cell above makes `{error.name}`, run that first: menu Run, Run All Above Selected Cell."
    if isinstance(error, MemoryError) or "DefaultCPUAllocator" in str(error):
        return ". It asked for more memory than there is: look at the shapes of what it makes."
    return ""
