"""Checks of exercises: a student's answer is compared with the right one, one mechanism at a time.

An exercise is its right answer, a plain function, and the mistakes that students make in it. A mistake is an edit of
the right answer, "old code → new code", or a function where it is another algorithm, and the message beside it is shown
where a student's answer equals that of the mistake:

    @exercise(
        cases={"two keys": lambda: (torch.tensor([1.0, 2.0]),), "a gradient": Case(two_keys, gradient(0))},
        mistakes={"/ e.sum(-1, keepdim=True) → ": "nothing is divided. What makes shares of numbers?"},
    )
    def softmax(x):
        e = x.exp()
        return e / e.sum(-1, keepdim=True)

A check never raises, whatever the student's function does: what went wrong is reported in one line.
"""

import functools
import inspect
import re
import sys
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from .compare import as_tensor, described, difference
from .sandbox import ENDLESS, MISSING, Complaint, Failure, checked, run


@dataclass(frozen=True)
class Case:
    """A situation that isolates one mechanism."""

    make: Callable[[], tuple]  # returns the arguments, fresh and the same every time
    # (function, *args) -> what is compared: a tensor, number or string, or several, in a tuple or by name in a dict
    observe: Callable = lambda function, *args: function(*args)
    tolerance: float = 1e-5  # largest difference allowed, relative to the size of the right answer where above one


class Verdict(NamedTuple):
    """`status` is "right", "wrong" or "missing"; `message` is the line that the student reads."""

    status: str
    message: str


class Exercise:
    """What both kinds of checks share; `fault(student)` is what is wrong, in one line, or None."""

    def __call__(self, student: Any) -> None:
        print(self.examine(student).message)

    def examine(self, student: Any) -> Verdict:
        fault = MISSING if student is None or student is ... else self.fault(student)
        if fault == MISSING:
            return Verdict("missing", f"· {self.name}: {fault}")
        if fault:
            return Verdict("wrong", f"✗ {self.name}: {' '.join(fault.split())}")
        return Verdict("right", f"✓ {self.name}")


def edited(answer: Callable, edits: str | tuple[str, ...] | Callable) -> Callable:
    """The function (or class) with some of its code replaced, wherever it occurs; ValueError if it does not occur."""
    if callable(edits):  # another algorithm
        return edits
    source = textwrap.dedent(inspect.getsource(answer))
    source = source[re.search(r"^(def|class) ", source, re.MULTILINE).start() :]  # without the decorator
    for edit in (edits,) if isinstance(edits, str) else edits:
        old, _, new = edit.partition(" → ")
        if old not in source:
            raise ValueError(f"{answer.__name__}: {edit!r} is not an edit of the right answer.")
        source = source.replace(old, new)
    namespace = dict(vars(sys.modules[answer.__module__]))  # with what the module defines further down
    exec(source, namespace)  # noqa: S102
    return namespace[answer.__name__]


def exercise(**parts: Any) -> Callable[[Callable], "Check"]:
    """Decorator that makes a `Check` of the right answer; `parts` are its other fields."""
    return lambda answer: Check(answer, **parts)


@dataclass(eq=False)
class Check(Exercise):
    """Checks an exercise in which a function is written. Arrays, lists and any precision pass for a tensor."""

    reference: Callable  # the right answer, with the name of the exercise
    cases: Mapping[str, Callable[[], tuple] | Case]  # simplest first; what is special about each fits after "on"
    # the likeliest, each with its message: "old code → new code", a tuple of such edits, or a function
    mistakes: Mapping[str | tuple[str, ...] | Callable, str]
    results: tuple[str, ...] = ()  # what messages call each of several results: "the weights"
    tolerance: float | None = None  # of every case

    def __post_init__(self):
        cases = {name: case if isinstance(case, Case) else Case(case) for name, case in self.cases.items()}
        self.cases = {name: replace(case, tolerance=self.tolerance or case.tolerance) for name, case in cases.items()}
        # that of the right answer and of a mistake is always the same: computed once, for all attempts
        self._known_outcome = functools.cache(self.outcome)

    @property
    def name(self) -> str:
        return self.reference.__name__

    @functools.cached_property
    def traps(self) -> list[tuple[str, Callable]]:
        """Message and function of every known mistake."""
        return [(message, edited(self.reference, mistake)) for mistake, message in self.mistakes.items()]

    def fault(self, student: Any) -> str | None:
        """Runs all cases and, if an answer is wrong, looks for the mistake."""
        if not callable(student):
            return f"expected a function, got {described(student)}."
        outcomes = []
        for case in self.cases.values():
            outcomes.append(self.outcome(student, case))
            if isinstance(outcomes[-1], Failure) and outcomes[-1].kind == ENDLESS:
                return outcomes[-1].message
        if outcomes[0] == Failure(MISSING, MISSING):
            return MISSING
        for i, (name, case) in enumerate(self.cases.items()):
            right = self._known_outcome(self.reference, case)
            if isinstance(right, Failure):  # an import was interrupted, say: an answer that fails alike is not right
                return f"the right answer failed, too: {right.message} Restart the kernel, and run the cells again."
            if message := _differs(outcomes[i], right, case, self.results):
                return self._mistake(outcomes, i) or f"on {name}: {message}"
        return None

    def outcome(self, function: Callable, case: Case) -> Any:
        """What is observed of a function in a case, or the Failure."""
        args = case.make()
        # the same random numbers for every answer, and gradients even if the notebook has disabled them
        with torch.random.fork_rng(devices=[]), torch.enable_grad():
            torch.default_generator.manual_seed(0)  # much faster than torch.manual_seed, which looks for every device
            observed = run(lambda: case.observe(checked(function), *args))
        if isinstance(observed, Failure):
            return observed
        for i, (now, fresh) in enumerate(zip(args, case.make(), strict=True)):
            if isinstance(fresh, int | float | str | list | tuple | Tensor) and difference(now, fresh, 0.0):
                how = "Work on a copy: `x.clone()` (NumPy: `x.copy()`), or `x + 1` for `x += 1`."
                return Failure("changed", f"argument {i + 1} was changed in place. {how}")
        return observed

    def _mistake(self, outcomes: list, first_wrong: int) -> str | None:
        """The message of the trap that the student fell into.

        A trap counts only where it agrees with the student on every case in which it differs from the right answer,
        the student's first wrong case among them. Of several, the one that agrees longest from the first case is meant.
        """
        best, longest = None, 0
        for message, trap in self.traps:
            agrees, shows = [], []
            for case, outcome in zip(self.cases.values(), outcomes, strict=True):
                trapped = self._known_outcome(trap, case)
                agrees.append(not _differs(outcome, trapped, case))
                shows.append(bool(_differs(trapped, self._known_outcome(self.reference, case), case)))
            agreed = [*agrees, False].index(False)
            if shows[first_wrong] and all(a for a, s in zip(agrees, shows, strict=True) if s) and agreed > longest:
                best, longest = message, agreed
        return best


def _differs(outcome: Any, other: Any, case: Case, results: tuple[str, ...] = ()) -> str | None:
    """What is wrong with an outcome, if `other` is right. Two failures of one kind are equal."""
    if isinstance(outcome, Failure):
        return None if isinstance(other, Failure) and outcome.kind == other.kind else outcome.message
    return other.message if isinstance(other, Failure) else difference(outcome, other, case.tolerance, results)


@dataclass(eq=False)
class ValueCheck(Exercise):
    """Checks an exercise in which a value is predicted."""

    name: str  # ID of the exercise and name of the student's variable
    _: KW_ONLY
    expected: float | str  # of a string, case, spaces, commas and brackets are ignored
    tolerance: float = 0.0  # of a number
    mistakes: Mapping[float | str, str]  # wrong value -> message

    def fault(self, student: Any) -> str | None:
        """Compare the value with the expected one and with the known mistakes."""
        kind, read = ("text", _letters) if isinstance(self.expected, str) else ("a number", _number)
        value = read(student)
        if value is None:
            return f"expected {kind}, got {described(student)}."
        for known, message in [(self.expected, None), *self.mistakes.items()]:
            if value == read(known) or (kind == "a number" and abs(value - known) <= self.tolerance):
                return message
        return f"{student} is not right. Read the question once more."


def _letters(value: Any) -> str | None:
    value = value.tolist() if hasattr(value, "tolist") else value
    return re.sub(r"[\s,()\[\]'\"]", "", str(value).lower()) if isinstance(value, str | list | tuple) else None


def _number(value: Any) -> float | None:
    value = as_tensor(value)
    return float(value) if isinstance(value, Tensor) and value.dim() == 0 and not value.is_complex() else None


def normal(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> Tensor:
    """Standard normal numbers from their own generator."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def gradient(*arguments: int) -> Callable:
    """Observe the gradient by some arguments, counted from 0, of a sum that weighs every output differently.

    One argument gives a tensor, several give a dict; an argument that is not used has the gradient zero.
    """

    def observe(function: Callable, *args: Any) -> Any:
        args = [a.clone().requires_grad_() if i in arguments else a for i, a in enumerate(args)]
        output = as_tensor(function(*args))
        if not (isinstance(output, Tensor) and output.requires_grad):
            raise Complaint("no gradient flows back from the result: is there NumPy, .item(), .detach() or no_grad()?")
        weights = torch.linspace(-1, 2, output.numel(), dtype=output.dtype).view_as(output)  # their sum is not zero
        gradients = torch.autograd.grad((output * weights).sum(), [args[i] for i in arguments], materialize_grads=True)
        named = {f"the gradient by argument {i + 1}": g for i, g in zip(arguments, gradients, strict=True)}
        return named if len(arguments) > 1 else gradients[0]

    return observe
