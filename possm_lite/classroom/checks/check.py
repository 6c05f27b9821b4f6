"""Checks of exercises: a student's answer is compared with the right one, one mechanism at a time.

A check never raises, whatever the student's function does: what went wrong is reported in one line. A trap is a known
mistake written as a function: where a student's answer equals that of a trap, the trap's message is shown.
"""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from .compare import Outcome, as_number, difference, same
from .observers import call
from .sandbox import MISSING, FunctionWrapper, run

SECONDS = 5.0  # for all calls of a student's function in one case


@dataclass(frozen=True)
class Case:
    """A situation that isolates one mechanism."""

    name: str  # what is special about it, a noun phrase that fits after "on"
    make: Callable[[], tuple]  # returns the arguments, fresh and the same every time
    observe: Callable = call  # (function, *args) -> what is compared: a tensor, number, string, or a tuple of these
    tolerance: float = 1e-5  # largest difference allowed, relative to the size of the right answer where above one


@dataclass(frozen=True)
class Verdict:
    """`status` is "right", "wrong" or "missing"; `message` is the line that the student reads."""

    status: str
    message: str


class Check:
    """Checks an exercise in which a function is written.

    `name`: ID of the exercise and name of the student's function; `reference`: a right answer; `cases`: simplest first;
    `traps`: message -> known mistake, a function with the signature of the reference.
    """

    def __init__(self, name: str, *, reference: Callable, cases: list[Case], traps: dict[str, Callable]):
        self.name, self.reference, self.cases, self.traps = name, reference, cases, traps

    def __call__(self, student: Any) -> None:
        print(self.examine(student).message)

    def examine(self, student: Any) -> Verdict:
        """Run all cases and, if an answer is wrong, look for the mistake."""
        if student is None or student is ...:
            return _missing(self.name)
        if not callable(student):
            return _wrong(self.name, f"expected a function, got a value of type {type(student).__name__}.")
        outcomes = []
        for case in self.cases:
            outcomes.append(self.outcome(student, case, SECONDS))
            if outcomes[-1].failure is not None and outcomes[-1].failure.final:
                break  # do not wait for an endless loop again
        if outcomes[0].failure is MISSING:
            return _missing(self.name)
        right = [self.outcome(self.reference, case) for case in self.cases]
        for case, outcome, expected in zip(self.cases, outcomes, right, strict=False):
            message = difference(outcome, expected, case.tolerance)
            if message:
                return _wrong(self.name, self._matching_trap(outcomes, right) or f"on {case.name}: {message}")
        return Verdict("right", f"✓ {self.name}")

    def outcome(self, function: Callable, case: Case, seconds: float = math.inf) -> Outcome:
        """What is observed of a function in a case, and which arguments it changed; no time limit by default."""
        args = case.make()
        wrapped = FunctionWrapper(function)
        # the same random numbers for every answer, and gradients even if the notebook has disabled them
        with torch.random.fork_rng(devices=[]), torch.enable_grad():
            torch.default_generator.manual_seed(0)  # much faster than torch.manual_seed, which looks for every device
            observed, failure = run(lambda: case.observe(wrapped, *args), seconds)
        changed = [i for i, (now, fresh) in enumerate(zip(args, case.make(), strict=True)) if _changed(now, fresh)]
        return Outcome(observed, wrapped.failure or failure, changed)

    def _matching_trap(self, outcomes: list[Outcome], right: list[Outcome]) -> str | None:
        """The message of the trap that agrees with the student on the longest run of cases from the first."""
        best, best_agreed = None, 0
        for message, trap in self.traps.items():
            agreed = distinguishing = 0
            for case, outcome, expected in zip(self.cases, outcomes, right, strict=False):
                trapped = self.outcome(trap, case)
                if not same(outcome, trapped, case.tolerance):
                    break
                agreed += 1
                distinguishing += not same(trapped, expected, case.tolerance)
            if distinguishing and agreed > best_agreed:
                best, best_agreed = message, agreed
        return best


class ValueCheck:
    """Checks an exercise in which a value is predicted.

    `name`: ID of the exercise and name of the student's variable; `expected`: a number, correct up to `tolerance`, or a
    string, of which case, spaces, commas and brackets are ignored; `traps`: message -> the wrong value it is about.
    """

    def __init__(self, name: str, *, expected: float | str, tolerance: float = 0.0, traps: dict[str, float | str]):
        self.name, self.expected, self.tolerance, self.traps = name, expected, tolerance, traps

    def __call__(self, student: Any) -> None:
        print(self.examine(student).message)

    def examine(self, student: Any) -> Verdict:
        """Compare the value with the expected one and with the traps."""
        if student is None or student is ...:
            return _missing(self.name)
        if isinstance(self.expected, str):
            kind, value = "text", str(student) if isinstance(student, str | list | tuple) else None
        else:
            kind, value = "a number", as_number(student)
        if value is None:
            return _wrong(self.name, f"expected {kind}, got a value of type {type(student).__name__}.")
        for message, known in [("", self.expected), *self.traps.items()]:
            if self._equal(value, known):
                return _wrong(self.name, message) if message else Verdict("right", f"✓ {self.name}")
        shown = repr(value) if isinstance(value, str) else f"{value:.6g}"
        return _wrong(self.name, f"{shown} is not right. Read the question once more.")

    def _equal(self, student: float | str, value: float | str) -> bool:
        if isinstance(value, str):
            student, value = (re.sub(r"[\s,()\[\]]", "", text.lower()) for text in (student, value))
            return student == value
        return abs(student - value) <= self.tolerance


def _missing(name: str) -> Verdict:
    return Verdict("missing", f"· {name}: not attempted yet")


def _wrong(name: str, message: str) -> Verdict:
    return Verdict("wrong", f"✗ {name}: {' '.join(message.split())}")


def _changed(now: Any, fresh: Any) -> bool:
    """Whether an argument was changed in place; types other than tensors, lists and plain values are not compared."""
    if type(now) is not type(fresh):
        return True
    if isinstance(fresh, list | tuple):
        return len(now) != len(fresh) or any(_changed(a, b) for a, b in zip(now, fresh, strict=True))
    if isinstance(fresh, Tensor):
        return now.shape != fresh.shape or not torch.equal(now.detach().nan_to_num(), fresh.detach().nan_to_num())
    return isinstance(fresh, int | float | str) and now != fresh
