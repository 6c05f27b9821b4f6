"""Checks of exercises: what a student wrote is run beside the right answer, one mechanism at a time.

A check never raises, whatever the student's function does: what goes wrong is told in one line. A mistake that has a
name is recognised by making it: each trap is the mistake itself, written as a function, and the student's answer that
equals a trap's is told what it looks like.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from .outcome import Outcome, difference, same
from .sandbox import Watched, run

SECONDS = 5.0  # for all calls of one case


def normal(*shape: int, seed: int = 0) -> Tensor:
    """Standard normal numbers that come out the same every time: for arguments of cases."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def call(function: Callable, *args: Any) -> Any:
    """The plainest observation: what the function returns."""
    return function(*args)


@dataclass(frozen=True)
class Case:
    """One situation that isolates one mechanism.

    Args:
        about: what is special about it, a noun phrase that fits behind "on".
        make: gives the arguments, fresh and the same every time.
        observe: observe(function, *args) gives what is compared: a tensor, a number, a string, or a tuple of these.
        tolerance: largest difference allowed, relative to the size of the right answer where that is above one.
    """

    about: str
    make: Callable[[], tuple]
    observe: Callable = call
    tolerance: float = 1e-5


@dataclass(frozen=True)
class Verdict:
    """`status` is "right", "wrong" or "missing"; `line` is what the student reads."""

    status: str
    line: str


class Check:
    """The check of an exercise in which a function is written.

    Args:
        name: the exercise's ID, which is also the name of the student's function.
        reference: a right answer.
        cases: situations, simplest first.
        traps: what to say -> the mistake, as a function called like the right answer.
    """

    def __init__(self, name: str, *, reference: Callable, cases: list[Case], traps: dict[str, Callable]):
        self.name, self.reference, self.cases, self.traps = name, reference, cases, traps

    def __call__(self, student: Any) -> None:
        print(self.examine(student).line)

    def examine(self, student: Any) -> Verdict:
        """Run every case; of a wrong answer, name the mistake."""
        if student is None or student is ...:
            return _missing(self.name)
        if not callable(student):
            return _wrong(self.name, f"a function is wanted, this is {_kind(student)}.")
        outcomes = []
        for case in self.cases:
            outcomes.append(self.outcome(student, case))
            if outcomes[-1].trouble is not None and outcomes[-1].trouble.ends_it:
                break  # an endless loop is not waited for again
        if outcomes[0].missing:
            return _missing(self.name)
        for case, outcome in zip(self.cases, outcomes, strict=False):
            told = difference(outcome, self.outcome(self.reference, case), case.tolerance)
            if told:
                return _wrong(self.name, self._trap(outcomes) or f"on {case.about}: {told}")
        return Verdict("right", f"✓ {self.name}")

    def outcome(self, function: Callable, case: Case) -> Outcome:
        """What is observed of a function in a case, and whether it left its arguments alone."""
        args = case.make()
        watched = Watched(function)
        # the same random numbers for everyone, gradients whatever the notebook has switched off
        with torch.random.fork_rng(devices=[]), torch.enable_grad():
            torch.manual_seed(0)
            observed, trouble = run(lambda: case.observe(watched, *args), SECONDS)
        touched = [i for i, (now, fresh) in enumerate(zip(args, case.make(), strict=True)) if _changed(now, fresh)]
        return Outcome(observed, watched.trouble or trouble, touched)

    def _trap(self, outcomes: list[Outcome]) -> str | None:
        """The message of the trap that gives the student's outcome in every case, else in the first that tells."""
        best, best_agreed = None, 0
        for message, trap in self.traps.items():
            agreed = told_apart = 0
            for case, outcome in zip(self.cases, outcomes, strict=False):
                trapped = self.outcome(trap, case)
                if not same(outcome, trapped, case.tolerance):
                    break
                agreed += 1
                told_apart += not same(trapped, self.outcome(self.reference, case), case.tolerance)
            if told_apart and agreed > best_agreed:
                best, best_agreed = message, agreed
        return best


class Answer:
    """The check of an exercise in which a value is predicted.

    Args:
        name: the exercise's ID, which is also the name of the student's variable.
        expected: a number or a string; case, blanks, commas and brackets of a string do not count.
        tolerance: largest difference allowed of a number.
        traps: what to say -> the wrong value it is said to.
    """

    def __init__(self, name: str, *, expected: float | str, tolerance: float = 0.0, traps: dict[str, float | str]):
        self.name, self.expected, self.tolerance, self.traps = name, expected, tolerance, traps

    def __call__(self, student: Any) -> None:
        print(self.examine(student).line)

    def examine(self, student: Any) -> Verdict:
        if student is None or student is ...:
            return _missing(self.name)
        if isinstance(student, Tensor) and student.numel() == 1:
            student = student.item()
        wanted = str if isinstance(self.expected, str) else (int, float)
        if wanted is str and isinstance(student, list | tuple):
            student = str(student)
        if not isinstance(student, wanted):
            kind = "a word" if wanted is str else "a number"
            return _wrong(self.name, f"{kind} is wanted, this is {_kind(student)}.")
        if self._equal(student, self.expected):
            return Verdict("right", f"✓ {self.name}")
        for message, value in self.traps.items():
            if self._equal(student, value):
                return _wrong(self.name, message)
        return _wrong(self.name, f"{student!r} is not it. Read once more what is asked.")

    def _equal(self, student: float | str, value: float | str) -> bool:
        if isinstance(value, str):
            return _plain(student) == _plain(value)
        return abs(student - value) <= self.tolerance


def _plain(text: str) -> str:
    return re.sub(r"[\s,()\[\]]", "", text.lower())


def _missing(name: str) -> Verdict:
    return Verdict("missing", f"· {name}: not attempted yet")


def _wrong(name: str, message: str) -> Verdict:
    return Verdict("wrong", f"✗ {name}: {' '.join(message.split())}")


def _kind(value: Any) -> str:
    return f"of type {type(value).__name__}"


def _changed(now: Any, fresh: Any) -> bool:
    """Whether an argument is no longer what it was; of other things than tensors and lists nobody asks."""
    if isinstance(fresh, list | tuple):
        return len(now) != len(fresh) or any(_changed(a, b) for a, b in zip(now, fresh, strict=True))
    if isinstance(fresh, Tensor):
        return now.shape != fresh.shape or not torch.equal(now.detach().nan_to_num(), fresh.detach().nan_to_num())
    return isinstance(fresh, int | float | str) and now != fresh
