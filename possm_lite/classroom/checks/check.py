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

import inspect
import math
import re
import sys
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from .compare import as_number, as_tensor, described, difference, ordinal
from .sandbox import MISSING, Complaint, Failure, FunctionWrapper, run

SECONDS = 5.0  # for all calls of a student's function in one case
Outcome = tuple[Any, Failure | None]  # what was observed of a function, or why nothing was


def _call(function: Callable, *args: Any) -> Any:
    return function(*args)


@dataclass(frozen=True)
class Case:
    """A situation that isolates one mechanism."""

    make: Callable[[], tuple]  # returns the arguments, fresh and the same every time
    # (function, *args) -> what is compared: a tensor, number or string, or several, in a tuple or by name in a dict
    observe: Callable = _call
    tolerance: float = 1e-5  # largest difference allowed, relative to the size of the right answer where above one
    name: str = ""  # what is special about it, a noun phrase that fits after "on"


@dataclass(frozen=True)
class Verdict:
    """`status` is "right", "wrong" or "missing"; `message` is the line that the student reads."""

    status: str
    message: str


def exercise(
    cases: Mapping[str, Callable[[], tuple] | Case],
    mistakes: Mapping[str | tuple[str, ...] | Callable, str],
    results: tuple[str, ...] = (),
    tolerance: float | None = None,
) -> Callable[[Callable], "Check"]:
    """Decorator that makes a `Check` of the right answer.

    Args:
        cases: by name, simplest first: a `Case`, or the function that makes its arguments.
        mistakes: the likeliest, each with its message: an edit of the right answer, "old code → new code", a tuple of
            edits, or a function.
        results: what messages call each of several results: "the weights".
        tolerance: of every case.
    """
    known = []
    for name, case in cases.items():
        case = case if isinstance(case, Case) else Case(case)
        known.append(replace(case, name=name, tolerance=case.tolerance if tolerance is None else tolerance))
    return lambda answer: Check(answer, known, mistakes, results)


def edited(answer: Callable, edits: tuple[str, ...]) -> Callable:
    """The function (or class) with some of its code replaced, wherever it occurs.

    Raises:
        ValueError: an edit does not occur in it.
    """
    source = textwrap.dedent(inspect.getsource(answer))
    source = source[re.search(r"^(def|class) ", source, re.MULTILINE).start() :]  # without the decorator
    for edit in edits:
        old, _, new = edit.partition(" → ")
        if old not in source:
            raise ValueError(f"{answer.__name__}: {edit!r} is not an edit of the right answer.")
        source = source.replace(old, new)
    namespace = dict(vars(sys.modules[answer.__module__]))  # with what the module defines further down
    exec(source, namespace)  # noqa: S102
    return namespace[answer.__name__]


@dataclass(eq=False)
class Check:
    """Checks an exercise in which a function is written. Arrays, lists and any precision pass for a tensor."""

    reference: Callable  # the right answer, with the name of the exercise
    cases: list[Case]  # simplest first
    mistakes: Mapping[str | tuple[str, ...] | Callable, str]  # as in `exercise`
    results: tuple[str, ...] = ()  # what messages call each of several results: "the weights"
    _outcomes: dict[tuple[Callable, Case], Outcome] = field(default_factory=dict, init=False, repr=False)

    @property
    def name(self) -> str:
        return self.reference.__name__

    @cached_property
    def traps(self) -> list[tuple[str, Callable]]:
        """Message and function of every known mistake."""
        traps = []
        for mistake, message in self.mistakes.items():
            if isinstance(mistake, str):
                mistake = (mistake,)
            if isinstance(mistake, tuple):
                mistake = edited(self.reference, mistake)
            traps.append((message, mistake))
        return traps

    def __call__(self, student: Any) -> None:
        print(self.examine(student).message)

    def examine(self, student: Any) -> Verdict:
        """Run all cases and, if an answer is wrong, look for the mistake."""
        if student is None or student is ...:
            return _missing(self.name)
        if not callable(student):
            return _wrong(self.name, f"expected a function, got {described(student)}.")
        rows = []  # what the student's function did in each case, and what the right answer does
        for case in self.cases:
            _, failure = outcome = self.outcome(student, case, SECONDS)
            if failure is MISSING and not rows:
                return _missing(self.name)
            rows.append((case, outcome, self._outcome_of_known(self.reference, case)))
            if failure and failure.final:
                break  # do not wait for an endless loop again
        for i, (case, (observed, failure), (expected, failed)) in enumerate(rows):
            if failed:
                raise RuntimeError(f"the reference of {self.name} fails: {failed.message}")
            message = failure.message if failure else difference(observed, expected, case.tolerance, names=self.results)
            if message:
                always = failure and all(other and other.kind == failure.kind for _, (_, other), _ in rows)
                where = "" if always else f"on {case.name}: "
                return _wrong(self.name, self._mistake(rows, i) or where + message)
        return Verdict("right", f"✓ {self.name}")

    def outcome(self, function: Callable, case: Case, seconds: float = math.inf) -> Outcome:
        """What is observed of a function in a case; no time limit by default."""
        args = case.make()
        wrapped = FunctionWrapper(function)
        # the same random numbers for every answer, and gradients even if the notebook has disabled them
        with torch.random.fork_rng(devices=[]), torch.enable_grad():
            torch.default_generator.manual_seed(0)  # much faster than torch.manual_seed, which looks for every device
            observed, failure = run(lambda: wrapped.observed(case.observe, args), seconds)
        changed = [ordinal(i) for i, pair in enumerate(zip(args, case.make(), strict=True)) if _changed(*pair)]
        if changed and not failure:
            how = "Work on a copy: `x.clone()` (NumPy: `x.copy()`), or `x + 1` for `x += 1`."
            failure = Failure(f"changed {changed}", f"the {changed[0]} argument was changed in place. {how}")
        return observed, wrapped.failure or failure

    def _outcome_of_known(self, function: Callable, case: Case) -> Outcome:
        """The outcome of the reference or a trap. It is always the same, so it is computed once, for all attempts."""
        if (function, case) not in self._outcomes:
            self._outcomes[function, case] = self.outcome(function, case)
        return self._outcomes[function, case]

    def _mistake(self, rows: list[tuple[Case, Outcome, Outcome]], first_wrong: int) -> str | None:
        """The message of the trap that the student fell into.

        A trap counts only where it agrees with the student on every case in which it differs from the right answer,
        the student's first wrong case among them. Of several, the one that agrees longest from the first case is meant.
        """
        best, longest = None, 0
        for message, trap in self.traps:
            agreed = 0
            for i, (case, outcome, expected) in enumerate(rows):
                trapped = self._outcome_of_known(trap, case)
                agrees, differs = _same(outcome, trapped, case), not _same(trapped, expected, case)
                if (differs and not agrees) or (i == first_wrong and not differs):
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
    mistakes: Mapping[float | str, str]  # wrong value -> message

    def __call__(self, student: Any) -> None:
        print(self.examine(student).message)

    def examine(self, student: Any) -> Verdict:
        """Compare the value with the expected one and with the traps."""
        if student is None or student is ...:
            return _missing(self.name)
        kind, read = ("text", _letters) if isinstance(self.expected, str) else ("a number", as_number)
        value = read(student)
        if value is None:
            return _wrong(self.name, f"expected {kind}, got {described(student)}.")
        for known, message in [(self.expected, ""), *self.mistakes.items()]:
            if value == read(known) or (kind == "a number" and abs(value - known) <= self.tolerance):
                return _wrong(self.name, message) if message else Verdict("right", f"✓ {self.name}")
        shown = f"{value:.6g}" if kind == "a number" else repr(student)
        if kind == "a number" and 0 < self.expected < 1 and abs(value / 100 - self.expected) <= self.tolerance:
            return _wrong(self.name, f"{shown} is in per cent. Give it as a share of one.")
        return _wrong(self.name, f"{shown} is not right. Read the question once more.")


def _letters(value: Any) -> str | None:
    value = value.tolist() if hasattr(value, "tolist") else value
    return re.sub(r"[\s,()\[\]'\"]", "", str(value).lower()) if isinstance(value, str | list | tuple) else None


def _missing(name: str) -> Verdict:
    return Verdict("missing", f"· {name}: not attempted yet")


def _wrong(name: str, message: str) -> Verdict:
    return Verdict("wrong", f"✗ {name}: {' '.join(message.split())}")


def _same(a: Outcome, b: Outcome, case: Case) -> bool:
    """Two failures of one kind are equal."""
    (observed, failure), (other, failed) = a, b
    if failure or failed:
        return bool(failure and failed) and failure.kind == failed.kind
    return difference(observed, other, case.tolerance) is None


def _changed(now: Any, fresh: Any) -> bool:
    """Whether an argument was changed in place; types other than tensors, lists and plain values are not compared."""
    if type(now) is not type(fresh):
        return True
    if isinstance(fresh, list | tuple):
        return len(now) != len(fresh) or any(_changed(a, b) for a, b in zip(now, fresh, strict=True))
    if isinstance(fresh, Tensor):
        return now.shape != fresh.shape or not torch.equal(now.detach().nan_to_num(), fresh.detach().nan_to_num())
    return isinstance(fresh, int | float | str) and now != fresh


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
        named = {f"the gradient by the {ordinal(i)} argument": g for i, g in zip(arguments, gradients, strict=True)}
        return named if len(arguments) > 1 else gradients[0]

    return observe
