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


def _result(function: Callable, *args: Any) -> Any:
    """What a function returns: what a case compares unless it says otherwise."""
    return function(*args)


@dataclass(frozen=True)
class Case:
    """A situation that isolates one mechanism.

    Attributes:
        make: Returns the arguments of the function, as a tuple; fresh ones, and the same every time.
        observe: Called with the function and its arguments, returns what is compared: a tensor, number or string, or
            several, in a tuple or by name in a dict. Default: what the function returns. `gradient` makes another.
        tolerance: Largest difference allowed, relative to the size of the right answer where that is above one.
    """

    make: Callable[[], tuple]
    observe: Callable = _result
    tolerance: float = 1e-5


class Verdict(NamedTuple):
    """What a check says of an answer.

    Attributes:
        status: "right", "wrong" or "missing".
        message: The line that the student reads.
    """

    status: str
    message: str


class Exercise:
    """What both kinds of checks share: called with an answer, one prints a line about it.

    A subclass has a `name`, that of the exercise, and a method `fault`.
    """

    name: str

    def __call__(self, student: Any) -> None:
        print(self.examine(student).message)

    def examine(self, student: Any) -> Verdict:
        """The verdict on the answer `student`, a function or a value; None and three dots are no answer yet."""
        fault = MISSING if student is None or student is ... else self.fault(student)
        if fault == MISSING:
            return Verdict("missing", f"· {self.name}: {fault}")
        if fault:
            return Verdict("wrong", f"✗ {self.name}: {' '.join(fault.split())}")
        return Verdict("right", f"✓ {self.name}")

    def fault(self, student: Any) -> str | None:
        """What is wrong with the answer `student`, in one line: `MISSING` of a stub, None where it is right."""
        raise NotImplementedError


def edited(answer: Callable, edits: str | tuple[str, ...] | Callable) -> Callable:
    """The right answer with a mistake in it.

    Args:
        answer: A function or class, in whose source the code is replaced.
        edits: "old code → new code", or a tuple of such edits, made one after another. The old code is replaced
            wherever it occurs, and must be there to the letter; no new code deletes it. A function, for a mistake
            that is another algorithm, is returned as it is.

    Returns:
        The edited function or class, which sees the names of the module of `answer`.

    Raises:
        ValueError: the old code does not occur.
    """
    if callable(edits):
        return edits
    source = _source(answer)
    for edit in (edits,) if isinstance(edits, str) else edits:
        old, _, new = edit.partition(" → ")
        if old not in source:
            raise ValueError(f"{answer.__name__}: {edit!r} is not an edit of the right answer.")
        source = source.replace(old, new)
    namespace = dict(vars(sys.modules[answer.__module__]))  # with what the module defines further down
    exec(source, namespace)  # noqa: S102
    return namespace[answer.__name__]


def _source(answer: Callable) -> str:
    """The source of a function or class, without its decorators."""
    source = textwrap.dedent(inspect.getsource(answer))
    start = re.search(r"^(def|class) ", source, re.MULTILINE).start()
    return source[start:]


@dataclass(eq=False)
class Check(Exercise):
    """Checks an exercise in which a function is written. Arrays, lists and any precision pass for a tensor.

    Attributes:
        reference: The right answer, whose name is that of the exercise.
        cases: Name -> case, the simplest first. The name says what is special about it and fits after "on". Instead
            of a `Case` it may be a function that returns the arguments.
        mistakes: Mistake -> message, the likeliest mistakes; each is what `edited` takes: "old code → new code", a
            tuple of such edits, or a function.
        results: What messages call each of several results: "the weights".
        tolerance: That of every case; None leaves each its own.
    """

    reference: Callable
    cases: Mapping[str, Callable[[], tuple] | Case]
    mistakes: Mapping[str | tuple[str, ...] | Callable, str]
    results: tuple[str, ...] = ()
    tolerance: float | None = None

    def __post_init__(self):
        cases = {}
        for name, case in self.cases.items():
            if not isinstance(case, Case):
                case = Case(case)
            cases[name] = replace(case, tolerance=self.tolerance or case.tolerance)
        self.cases = cases
        # that of the right answer and of a mistake is always the same: computed once, for all attempts
        self._known_outcome = functools.cache(self.outcome)

    @property
    def name(self) -> str:
        """The name of the exercise: that of the right answer."""
        return self.reference.__name__

    @functools.cached_property
    def traps(self) -> list[tuple[str, Callable]]:
        """Message and function of every known mistake."""
        return [(message, edited(self.reference, mistake)) for mistake, message in self.mistakes.items()]

    def fault(self, student: Any) -> str | None:
        """What is wrong with the function `student`, after running all cases: None, or the message for the student.

        That is the message of the mistake where its answer equals that of a known one, else what differs in the first
        case that does.
        """
        if not callable(student):
            return f"expected a function, got {described(student)}."
        outcomes = []
        for case in self.cases.values():
            outcome = self.outcome(student, case)
            if _failed_by(outcome, ENDLESS):
                return outcome.message  # the other cases would take as long
            outcomes.append(outcome)
        if _failed_by(outcomes[0], MISSING):
            return MISSING
        return self._first_fault(outcomes)

    def _first_fault(self, outcomes: list) -> str | None:
        """What is wrong with a student's outcomes, one of each case, where the first is that differs."""
        for i, (name, case) in enumerate(self.cases.items()):
            right = self._known_outcome(self.reference, case)
            if isinstance(right, Failure):  # an import was interrupted, say: an answer that fails alike is not right
                return f"the right answer failed, too: {right.message} Restart the kernel, and run the cells again."
            if message := _differs(outcomes[i], right, case, self.results):
                return self._mistake(outcomes, i) or f"on {name}: {message}"
        return None

    def outcome(self, function: Callable, case: Case) -> Any:
        """What is observed of a function in a case.

        Args:
            function: The student's, the right answer, or one with a mistake.
            case: The case.

        Returns:
            What its `observe` returns, or a `Failure` where the function raised or changed an argument in place.
        """
        args = case.make()
        # the same random numbers for every answer, and gradients even if the notebook has disabled them
        with torch.random.fork_rng(devices=[]), torch.enable_grad():
            torch.default_generator.manual_seed(0)  # much faster than torch.manual_seed, which looks for every device
            observed = run(lambda: case.observe(checked(function), *args))
        if isinstance(observed, Failure):
            return observed
        failure = _changed(args, case.make())
        return failure or observed

    def _mistake(self, outcomes: list, first_wrong: int) -> str | None:
        """The message of the mistake that a student has made, or None.

        A mistake counts only where it agrees with the student on every case in which it differs from the right answer,
        the student's first wrong case among them. Of several, the one that agrees longest from the first case is meant.
        """
        best, longest = None, 0
        for message, trap in self.traps:
            agrees, shows = [], []
            for case, outcome in zip(self.cases.values(), outcomes, strict=True):
                trapped = self._known_outcome(trap, case)
                right = self._known_outcome(self.reference, case)
                agrees.append(_differs(outcome, trapped, case) is None)
                shows.append(_differs(trapped, right, case) is not None)
            agrees_where_shown = all(agree for agree, shown in zip(agrees, shows, strict=True) if shown)
            n_agreed = [*agrees, False].index(False)  # cases, from the first
            if shows[first_wrong] and agrees_where_shown and n_agreed > longest:
                best, longest = message, n_agreed
        return best


def exercise(
    *,
    cases: Mapping[str, Callable[[], tuple] | Case],
    mistakes: Mapping[str | tuple[str, ...] | Callable, str],
    results: tuple[str, ...] = (),
    tolerance: float | None = None,
) -> Callable[[Callable], Check]:
    """Decorator that makes a `Check` of the right answer, under whose name it then stands in the module.

    Args:
        cases: Name -> a function that returns the arguments as a tuple, or a `Case`. The simplest first, each with
            one thing more; its name fits after "on": "on two keys: expected ...".
        mistakes: Mistake -> message, at most six. A mistake is "old code → new code", an edit of the right answer, a
            tuple of such edits, or a function; the message says what was done, and does not give the answer away.
        results: What messages call each result, if the function returns several: ("the sums", "the weights").
        tolerance: Largest difference allowed in every case, relative to the size of the right answer where that is
            above one; None: 1e-5, or what a `Case` says.

    Returns:
        The decorator, which takes the right answer, a function, and returns its check. `check.reference` is the
        function.
    """

    def decorate(answer: Callable) -> Check:
        return Check(answer, cases, mistakes, results, tolerance)

    return decorate


def _failed_by(outcome: Any, kind: str) -> bool:
    """Whether an outcome is a failure of this kind."""
    return isinstance(outcome, Failure) and outcome.kind == kind


def _changed(args: tuple, fresh_args: tuple) -> Failure | None:
    """The failure of a function that has changed one of its arguments in place, or None."""
    for i, (now, fresh) in enumerate(zip(args, fresh_args, strict=True)):
        if isinstance(fresh, int | float | str | list | tuple | Tensor) and difference(now, fresh, 0.0):
            how = "Work on a copy: `x.clone()` (NumPy: `x.copy()`), or `x + 1` for `x += 1`."
            return Failure("changed", f"argument {i + 1} was changed in place. {how}")
    return None


def _differs(outcome: Any, other: Any, case: Case, results: tuple[str, ...] = ()) -> str | None:
    """What is wrong with an outcome, if `other` is right. Two failures of one kind are equal."""
    if isinstance(outcome, Failure):
        return None if _failed_by(other, outcome.kind) else outcome.message
    if isinstance(other, Failure):
        return other.message
    return difference(outcome, other, case.tolerance, results)


@dataclass(eq=False)
class ValueCheck(Exercise):
    """Checks an exercise in which a value is predicted.

    Attributes:
        name: ID of the exercise, and name of the student's variable.
        expected: The right value. Of a string, case, spaces, commas, quotation marks and brackets are ignored.
        tolerance: Largest difference allowed from a number, in its own unit; also from that of a mistake.
        mistakes: Wrong value -> message.
    """

    name: str
    _: KW_ONLY
    expected: float | str
    tolerance: float = 0.0
    mistakes: Mapping[float | str, str]

    def fault(self, student: Any) -> str | None:
        """What is wrong with the value `student`: None, the message of a known mistake, or that it is not right."""
        value = self._read(student)
        if value is None:
            kind = "text" if self._is_text else "a number"
            return f"expected {kind}, got {described(student)}."
        if self._agrees(value, self.expected):
            return None
        for wrong, message in self.mistakes.items():
            if self._agrees(value, wrong):
                return message
        return f"{student} is not right. Read the question once more."

    @property
    def _is_text(self) -> bool:
        """Whether a text is asked for, not a number."""
        return isinstance(self.expected, str)

    def _read(self, value: Any) -> str | float | None:
        """The letters or the number of a value, whichever is asked for; None where it has none."""
        return _letters(value) if self._is_text else _number(value)

    def _agrees(self, value: str | float, known: float | str) -> bool:
        """Whether what was read of the student's value is a known one, within the tolerance."""
        if value == self._read(known):
            return True
        return not self._is_text and abs(value - known) <= self.tolerance


def _letters(value: Any) -> str | None:
    """A string or a list, as lower-case text without spaces, commas, quotation marks and brackets."""
    if hasattr(value, "tolist"):  # an array or a tensor
        value = value.tolist()
    if not isinstance(value, str | list | tuple):
        return None
    return re.sub(r"[\s,()\[\]'\"]", "", str(value).lower())


def _number(value: Any) -> float | None:
    """The real number that a value is, in whatever form."""
    value = as_tensor(value)
    is_number = isinstance(value, Tensor) and value.dim() == 0 and not value.is_complex()
    return float(value) if is_number else None


def normal(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> Tensor:
    """Standard normal numbers from their own generator: the same ones for the same `seed`.

    Args:
        *shape: Lengths of the axes.
        seed: Of the generator.
        dtype: Of the numbers.

    Returns:
        A tensor of this shape.
    """
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def gradient(*arguments: int) -> Callable:
    """What a `Case` observes to compare gradients: those of a sum that weighs every output differently.

    Args:
        *arguments: The arguments by which the gradient is taken, counted from 0; floating-point tensors.

    Returns:
        A function for the `observe` of a `Case`. Of one argument it returns a tensor, of several a dict; an argument
        that is not used has the gradient zero. It raises a `Complaint` where no gradient flows back from the result.
    """

    def observe(function: Callable, *args: Any) -> Any:
        args = list(args)
        for i in arguments:
            args[i] = args[i].clone().requires_grad_()
        output = as_tensor(function(*args))
        if not (isinstance(output, Tensor) and output.requires_grad):
            raise Complaint("no gradient flows back from the result: is there NumPy, .item(), .detach() or no_grad()?")
        weights = torch.linspace(-1, 2, output.numel(), dtype=output.dtype)  # their sum is not zero
        total = (output * weights.view_as(output)).sum()
        gradients = torch.autograd.grad(total, [args[i] for i in arguments], materialize_grads=True)
        if len(arguments) == 1:
            return gradients[0]
        names = [f"the gradient by argument {i + 1}" for i in arguments]
        return dict(zip(names, gradients, strict=True))

    return observe
