"""Checks of exercises: a student's answer is compared with the right one, one mechanism at a time.

A check never raises, whatever the student's function does: what went wrong is reported in one line. A trap is a known
mistake written as a function: where a student's answer equals that of a trap, the trap's message is shown.
"""

import math
import re
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

import torch
from torch import Tensor

from .compare import as_number, described, difference, ordinal
from .observers import call
from .sandbox import MISSING, Failure, FunctionWrapper, run

SECONDS = 5.0  # for all calls of a student's function in one case


@dataclass(frozen=True)
class Case:
    """A situation that isolates one mechanism."""

    name: str  # what is special about it, a noun phrase that fits after "on"
    make: Callable[[], tuple]  # returns the arguments, fresh and the same every time
    observe: Callable = call  # (function, *args) -> a tensor, number or string, or several: a tuple, or a dict by name
    tolerance: float = 1e-5  # largest difference allowed, relative to the size of the right answer where above one


@dataclass(frozen=True)
class Outcome:
    """What was observed, or the failure instead of it, and the indices of the arguments that were changed in place."""

    observed: Any
    failure: Failure | None = None
    changed: list[int] = field(default_factory=list)

    def equals(self, other: "Outcome", case: Case) -> bool:
        """Two failures of one kind are equal, and so is NaN to NaN."""
        if self.failure or other.failure:
            return bool(self.failure and other.failure) and self.failure.kind == other.failure.kind
        return self.changed == other.changed and not difference(self.observed, other.observed, case.tolerance, True)


@dataclass(frozen=True)
class Verdict:
    """`status` is "right", "wrong" or "missing"; `message` is the line that the student reads."""

    status: str
    message: str


@dataclass(eq=False)
class Check:
    """Checks an exercise in which a function is written. Arrays, lists and any precision pass for a tensor."""

    name: str  # ID of the exercise and name of the student's function
    _: KW_ONLY
    reference: Callable  # a right answer
    cases: list[Case]  # simplest first
    traps: dict[str, Callable]  # message -> known mistake, a function with the signature of the reference
    results: tuple[str, ...] = ()  # what messages call each of several results: "the weights"

    def __call__(self, student: Any) -> None:
        print(self.examine(student).message)

    def examine(self, student: Any) -> Verdict:
        """Run all cases and, if an answer is wrong, look for the mistake."""
        if student is None or student is ...:
            return _missing(self.name)
        if not callable(student):
            return _wrong(self.name, f"expected a function, got {described(student)}.")
        outcomes = []
        for case in self.cases:
            outcomes.append(self.outcome(student, case, SECONDS))
            if outcomes[-1].failure is not None and outcomes[-1].failure.final:
                break  # do not wait for an endless loop again
        if outcomes[0].failure is MISSING:
            return _missing(self.name)
        right = [self.outcome(self.reference, case) for case in self.cases]
        for i, (case, outcome, expected) in enumerate(zip(self.cases, outcomes, right, strict=False)):
            message = self._difference(outcome, expected, case)
            if message:
                return _wrong(self.name, self._mistake(outcomes, right, i) or f"on {case.name}: {message}")
        return Verdict("right", f"✓ {self.name}")

    def outcome(self, function: Callable, case: Case, seconds: float = math.inf) -> Outcome:
        """What is observed of a function in a case, and which arguments it changed; no time limit by default."""
        args = case.make()
        wrapped = FunctionWrapper(function)
        # the same random numbers for every answer, and gradients even if the notebook has disabled them
        with torch.random.fork_rng(devices=[]), torch.enable_grad():
            torch.default_generator.manual_seed(0)  # much faster than torch.manual_seed, which looks for every device
            observed, failure = run(lambda: wrapped.observed(case.observe, args), seconds)
        changed = [i for i, (now, fresh) in enumerate(zip(args, case.make(), strict=True)) if _changed(now, fresh)]
        return Outcome(observed, wrapped.failure or failure, changed)

    def _difference(self, student: Outcome, right: Outcome, case: Case) -> str | None:
        """What is wrong with the student's outcome, as a clause, or None. RuntimeError if the reference failed."""
        if right.failure:
            raise RuntimeError(f"the reference of this check fails: {right.failure.message}")
        if student.failure:
            return student.failure.message
        if student.changed:
            which = ordinal(student.changed[0])
            return f"the {which} argument was changed in place. Work on a copy: `x.clone()`, or `x + 1` for `x += 1`."
        return difference(student.observed, right.observed, case.tolerance, names=self.results)

    def _mistake(self, outcomes: list[Outcome], right: list[Outcome], first_wrong: int) -> str | None:
        """The message of the trap that the student fell into.

        A trap counts only where it agrees with the student on every case that tells it from the right answer, the
        student's first wrong case among them. Of several, the one that agrees longest from the first case is meant.
        """
        best, longest = None, 0
        for message, trap in self.traps.items():
            agreed = 0
            for i, (case, outcome, expected) in enumerate(zip(self.cases, outcomes, right, strict=False)):
                trapped = self.outcome(trap, case)
                agrees, tells = outcome.equals(trapped, case), not trapped.equals(expected, case)
                if (tells and not agrees) or (i == first_wrong and not tells):
                    break
                agreed += agrees and agreed == i
            else:
                if agreed > longest:
                    best, longest = message, agreed
        return best


@dataclass(eq=False)
class ValueCheck:
    """Checks an exercise in which a value is predicted."""

    name: str  # ID of the exercise and name of the student's variable
    _: KW_ONLY
    expected: float | str  # of a string, case, spaces, commas and brackets are ignored
    tolerance: float = 0.0  # of a number
    traps: dict[str, float | str]  # message -> the wrong value it is about

    def __call__(self, student: Any) -> None:
        print(self.examine(student).message)

    def examine(self, student: Any) -> Verdict:
        """Compare the value with the expected one and with the traps."""
        if student is None or student is ...:
            return _missing(self.name)
        if isinstance(self.expected, str):
            listed = student.tolist() if hasattr(student, "tolist") else student
            kind, value = "text", str(listed) if isinstance(listed, str | list | tuple) else None
        else:
            kind, value = "a number", as_number(student)
        if value is None:
            return _wrong(self.name, f"expected {kind}, got {described(student)}.")
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
