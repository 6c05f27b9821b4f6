"""Runs a student's function so that its errors and endless loops stay inside the check."""

import _thread
import contextlib
import io
import linecache
import random
import signal
import threading
import warnings
from collections.abc import Callable, Iterator
from textwrap import shorten
from traceback import walk_tb
from types import FrameType
from typing import Any, NamedTuple

import numpy as np
import torch

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
    with _Limit() as limit:
        try:
            with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
                outcome = limit.call(function)
        except KeyboardInterrupt:
            if not limit.expired:
                raise
            outcome = None
        except Complaint as error:
            outcome = Failure(str(error), str(error))
        except (Exception, SystemExit) as error:
            outcome = _raised(error)
    if limit.stopped_by_user:
        raise KeyboardInterrupt
    if limit.expired:  # also where the function has swallowed the interrupt and returned something
        return Failure(ENDLESS, f"it was still running after {SECONDS:g} s. Is there a loop without end?")
    return outcome


class _Limit:
    """Interrupts a function after `SECONDS`, and again until it ends, so that no `except:` in it keeps it alive.

    The first interrupt may fall into a `try` whose `except: pass` swallows it. So each one leaves the next behind it,
    which Python delivers at the end of the round, outside of the `try`. What the user interrupts is treated alike.

    Attributes:
        expired: Whether the time was up.
        stopped_by_user: Whether Ctrl-C was pressed.
    """

    def __init__(self):
        self.expired = self.stopped_by_user = False
        self._ended = threading.Event()
        self._interrupt = threading.Event()
        self._is_main = threading.current_thread() is threading.main_thread()  # others receive no signals

    def call(self, function: Callable[[], Any]) -> Any:
        """The result of a function; the handler looks for this call among those that are running."""
        return function()

    def __enter__(self):
        if self._is_main:
            self._before = signal.signal(signal.SIGINT, self._handle)
            self._thread = threading.Thread(target=self._watch, daemon=True)
            self._thread.start()
        return self

    def __exit__(self, *error):
        self._ended.set()
        if self._is_main:
            self._interrupt.set()
            self._thread.join()
            signal.signal(signal.SIGINT, self._before or signal.default_int_handler)

    def _watch(self) -> None:
        """Waits, in a thread of its own, until time is up or the user interrupts; then interrupts until the end."""
        self._interrupt.wait(SECONDS)
        if self._ended.is_set():
            return
        self.expired = not self.stopped_by_user
        self._signal()
        while not self._ended.wait(0.2):  # should one have been lost
            self._signal()

    @staticmethod
    def _signal() -> None:
        """One interrupt of the main thread, which also ends its sleep where the system can do that."""
        if hasattr(signal, "pthread_kill"):
            signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
        else:
            _thread.interrupt_main()

    def _handle(self, number: int, frame: FrameType | None) -> None:
        """The handler of interrupts: raises as long as the function is running, and not in what comes after it."""
        if not self.expired:
            self.stopped_by_user = True
            self._interrupt.set()
        while frame is not None and frame.f_code is not _Limit.call.__code__:
            frame = frame.f_back
        if frame is not None:
            _AGAIN.trip  # noqa: B018
            raise KeyboardInterrupt


class _Signal(int):
    """The number of a signal, of which reading `trip` makes it pending.

    Python looks for signals after every call, but not after reading an attribute: so the handler can leave one behind
    without being called for it at once.
    """

    trip = property(_thread.interrupt_main)


_AGAIN = _Signal(signal.SIGINT)


def _raised(error: BaseException) -> Failure:
    """The failure of a function that raised an error, whose text may itself be broken."""
    try:
        return Failure(f"{type(error).__name__}: {error}", _error_message(error))
    except Exception:  # an error without text: its __str__ raises
        return Failure(type(error).__name__, f"it raised {type(error).__name__}{_place(error)}.")


@contextlib.contextmanager
def settings_set_aside() -> Iterator[None]:
    """Settings that a notebook may have changed are those of a fresh kernel inside, and as they were afterwards.

    They are the default dtype and device, modes of gradients, precision of products, deterministic algorithms, threads,
    what NumPy does about overflow, filters of warnings, and the state of all random numbers.
    """
    states = random.getstate(), np.random.get_state()
    dtype, threads = torch.get_default_dtype(), torch.get_num_threads()
    precision = torch.get_float32_matmul_precision()
    deterministic, warn_only = (
        torch.are_deterministic_algorithms_enabled(),
        torch.is_deterministic_algorithms_warn_only_enabled(),
    )
    with (
        torch.random.fork_rng(devices=[]),
        torch.inference_mode(False),
        torch.enable_grad(),
        torch.autograd.set_detect_anomaly(False),
        _default_device(),
        np.errstate(divide="warn", over="warn", under="ignore", invalid="warn"),
        warnings.catch_warnings(),
    ):
        try:
            warnings.simplefilter("ignore")
            random.seed(0)
            np.random.seed(0)
            torch.default_generator.manual_seed(0)  # much faster than torch.manual_seed, which looks for every device
            torch.set_default_dtype(torch.float32)
            if precision != "highest":
                torch.set_float32_matmul_precision("highest")
            if deterministic:
                torch.use_deterministic_algorithms(False)
            yield
        finally:
            random.setstate(states[0])
            np.random.set_state(states[1])
            torch.set_default_dtype(dtype)
            if torch.get_float32_matmul_precision() != precision:
                torch.set_float32_matmul_precision(precision)
            if torch.are_deterministic_algorithms_enabled() != deterministic:
                torch.use_deterministic_algorithms(deterministic, warn_only=warn_only)
            if torch.get_num_threads() != threads:
                torch.set_num_threads(threads)


@contextlib.contextmanager
def _default_device() -> Iterator[None]:
    """New tensors are on the CPU inside; the default device is as it was afterwards."""
    is_cpu = torch.empty(0).is_cpu  # torch 2.6 has get_default_device, which fails after set_default_device(None)
    with contextlib.nullcontext() if is_cpu else torch.device("cpu"):  # this slows every call, so only where needed
        yield
    if is_cpu and not torch.empty(0).is_cpu:
        torch.set_default_device(None)


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
    text = str(error)
    if "requires grad" in text or "does not require grad" in text:
        return " A gradient is asked for here: compute with torch alone, without NumPy, .item() and .detach()."
    if isinstance(error, NameError) and not isinstance(error, UnboundLocalError):
        return f" If a cell above makes `{error.name}`, run that first: menu Run, Run All Above Selected Cell."
    return ""
