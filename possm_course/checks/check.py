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

A check never raises, whatever the student's function does: what went wrong is reported in one line. Of what it says the
most certain comes first: a known mistake, then two at once, then what the answer has in common with the right one, then
a known mistake beside another difference, and last the first number that is wrong.
"""

import functools
import inspect
import re
import sys
import textwrap
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from .compare import as_tensor, described, difference
from .likeness import HARMLESS, consistent, likeness
from .sandbox import ENDLESS, MISSING, Complaint, Failure, checked, run, settings_set_aside


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


class Exercise(ABC):
    """What both kinds of checks share: called with an answer, one prints a line about it.

    Attributes:
        name: that of the exercise.
    """

    name: str

    def __call__(self, student: Any) -> None:
        message = self.examine(student).message
        try:
            print(message)
        except UnicodeEncodeError:  # a console that knows no ✓, such as that of a Chinese Windows
            encoding = getattr(sys.stdout, "encoding", None) or "ascii"
            for sign, word in (("✓", "[right]"), ("✗", "[wrong]"), ("·", "-"), ("→", "->")):
                message = message.replace(sign, word)
            print(message.encode(encoding, errors="replace").decode(encoding))

    def examine(self, student: Any) -> Verdict:
        """The verdict on the answer `student`, a function or a value; None and three dots are no answer yet."""
        fault = MISSING if student is None or student is ... else self.fault(student)
        if fault == MISSING:
            return Verdict("missing", f"· {self.name}: {fault}")
        if fault:
            return Verdict("wrong", f"✗ {self.name}: {' '.join(fault.split())}")
        return Verdict("right", f"✓ {self.name}")

    @abstractmethod
    def fault(self, student: Any) -> str | None:
        """What is wrong with the answer `student`, in one line: `MISSING` of a stub, None where it is right."""


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
        ValueError: the old code does not occur, or the edit has no arrow.
    """
    if callable(edits):
        return edits
    source = _source(answer)
    for edit in (edits,) if isinstance(edits, str) else edits:
        old, arrow, new = edit.partition(" → ")
        if not arrow or old == new:
            raise ValueError(f"{answer.__name__}: {edit!r} changes nothing: write 'old code → new code'.")
        if old not in source:
            raise ValueError(f"{answer.__name__}: {edit!r} is not an edit of the right answer: {old!r} is not there.")
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
        self._shown = functools.cache(self._shown_by)

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
        outcomes, seconds = [], []
        for case in self.cases.values():
            start = time.monotonic()
            outcome = self.outcome(student, case)
            seconds.append(time.monotonic() - start)
            if _failed_by(outcome, ENDLESS):
                return outcome.message  # the other cases would take as long
            outcomes.append(outcome)
        if _failed_by(outcomes[0], MISSING):
            return MISSING
        return self._first_fault(student, outcomes, seconds)

    def _first_fault(self, student: Callable, outcomes: list, seconds: list[float]) -> str | None:
        """What is wrong with a student's outcomes, one of each case, where the first is that differs."""
        for i, (name, case) in enumerate(self.cases.items()):
            right = self._known_outcome(self.reference, case)
            if isinstance(right, Failure):  # an import was interrupted, say: an answer that fails alike is not right
                return f"the right answer failed, too: {right.message} Restart the kernel, and run the cells again."
            if message := _differs(outcomes[i], right, case, self.results):
                if found := self._mistake(outcomes, i) or self._two_mistakes(outcomes, i):
                    return found
                if seconds[i] < _AGAIN_S and self._keeps_something(student, case, outcomes[i]):
                    return f"on {name}: {_KEPT}"
                return (
                    self._alike(outcomes, i, same_everywhere=True)
                    or self._nearly_a_mistake(outcomes, i)
                    or self._alike(outcomes, i, same_everywhere=False)
                    or f"on {name}: {message}{_cut(outcomes[i], right, case)}"
                )
        case = next(iter(self.cases.values()))
        if seconds[0] < _AGAIN_S and self._keeps_something(student, case, outcomes[0]):
            return f"right when it is called once, but {_KEPT}"
        return None

    def _keeps_something(self, student: Callable, case: Case, outcome: Any) -> bool:
        """Whether a second call with the same arguments gives something else."""
        if _differs(outcome, outcome, case):  # what cannot be compared at all
            return False
        again = self.outcome(student, case)
        return _differs(again, outcome, case) is not None and not _failed_by(again, ENDLESS)

    def outcome(self, function: Callable, case: Case) -> Any:
        """What is observed of a function in a case.

        Args:
            function: The student's, the right answer, or one with a mistake.
            case: The case.

        Returns:
            What its `observe` returns, or a `Failure` where the function raised or changed an argument in place.
        """
        with settings_set_aside():  # the same random numbers for every answer, and gradients even under no_grad
            args = case.make()
            observed = run(lambda: case.observe(checked(function), *args))
            if isinstance(observed, Failure):
                return observed
            return _changed(args, case.make()) or observed

    def _shown_by(self, trap: Callable) -> list[bool]:
        """Of every case, whether it tells a known mistake from the right answer."""
        shown = []
        for case in self.cases.values():
            trapped, right = self._known_outcome(trap, case), self._known_outcome(self.reference, case)
            shown.append(_differs(trapped, right, case) is not None)
        return shown

    def _agreement(self, outcomes: list, trap: Callable) -> list[bool]:
        """Of every case, whether a student's outcome is that of a known mistake."""
        return [self._agrees(outcome, trap, case) for case, outcome in zip(self.cases.values(), outcomes, strict=True)]

    def _agrees(self, outcome: Any, trap: Callable, case: Case) -> bool:
        """Whether a student's outcome in a case is that of a known mistake."""
        return _differs(outcome, self._known_outcome(trap, case), case) is None

    def _mistake(self, outcomes: list, first_wrong: int) -> str | None:
        """The message of the mistake that a student has made, or None.

        A mistake counts only where it agrees with the student on every case in which it differs from the right answer,
        the student's first wrong case among them. Of several, the one that agrees longest from the first case is meant.
        """
        best, longest = None, 0
        case = [*self.cases.values()][first_wrong]
        for message, trap in self.traps:
            shows = self._shown(trap)
            if not shows[first_wrong] or not self._agrees(outcomes[first_wrong], trap, case):
                continue  # most are told by this one case
            agrees = self._agreement(outcomes, trap)
            agrees_where_shown = all(agree for agree, shown in zip(agrees, shows, strict=True) if shown)
            n_agreed = [*agrees, False].index(False)  # cases, from the first
            if agrees_where_shown and n_agreed > longest:
                best, longest = message, n_agreed
        return best

    @functools.cached_property
    def _pairs(self) -> list[tuple[str, Callable]]:
        """Message and function of every two known mistakes that can be in one answer, as edits of the right one."""
        pairs = []
        edits = [(_as_tuple(mistake), message) for mistake, message in self.mistakes.items() if not callable(mistake)]
        for (first, message), (second, other) in combinations(edits, 2):
            for edit in (first + second, second + first):
                try:
                    both = edited(self.reference, edit)
                except (ValueError, SyntaxError):  # one has taken away what the other changes
                    continue
                pairs.append((f"two things are wrong. First: {message} Second: {other}", both))
                break
        return pairs

    def _two_mistakes(self, outcomes: list, first_wrong: int) -> str | None:
        """The messages of two known mistakes at once, or None. Both must show, and agree on every case.

        What is a single number or a word agrees too easily with one of so many pairs: it is not looked for there.
        """
        start = time.process_time()  # a busy machine finds the same
        case = [*self.cases.values()][first_wrong]
        if not _tells(outcomes[first_wrong]):
            return None
        for message, pair in self._pairs:
            if time.process_time() - start > _PAIRS_S:
                break
            if _differs(outcomes[first_wrong], self._known_outcome(pair, case), case) is not None:
                continue
            if all(self._agreement(outcomes, pair)):
                return message
        return None

    def _alike(self, outcomes: list, first_wrong: int, same_everywhere: bool) -> str | None:
        """How a wrong answer is like the right one in every case that is wrong, with the first of them; or None.

        The factor, say, must be the same everywhere if `same_everywhere`; else it may depend on the case.
        """
        if _of_gradients([*self.cases.values()][first_wrong]):
            return None  # more is said of a gradient that is lost
        found, n_cases = [], 0
        for i, (case, outcome) in enumerate(zip(self.cases.values(), outcomes, strict=True)):
            right = self._known_outcome(self.reference, case)
            if _differs(outcome, right, case) is None or (i != first_wrong and _of_gradients(case)):
                continue
            like = None if isinstance(outcome, Failure) else likeness(outcome, right, case.tolerance, self.results)
            if like is None:
                return None
            found.append(like)
            n_cases += 1
        if not found or any(each.kind != found[0].kind for each in found):
            return None
        if same_everywhere and not consistent(found):
            return None
        name, case = [*self.cases.items()][first_wrong]
        right = self._known_outcome(self.reference, case)
        if not _tells(right) and (n_cases < 2 or not consistent(found)):
            return None  # a single number is always some factor away from another
        numbers = _differs(outcomes[first_wrong], right, case, self.results)
        how = found[0].message[:1].upper() + found[0].message[1:]
        message = f"on {name}: {numbers} {how}"
        if not consistent(found) and found[0].kind in ("factor", "offset"):
            message += " In other cases it is another number, so it depends on a size or on what is given."
        return message

    def _nearly_a_mistake(self, outcomes: list, first_wrong: int) -> str | None:
        """The message of a known mistake beside which something else differs, or None.

        It is enough to be the mistake up to a factor, an order of axes, a shape or a dtype; or to agree on the first
        wrong case and on half of those that show it, where a case has several numbers: one number agrees by chance.
        """
        best, most = None, 0.0
        for message, trap in self.traps:
            told = [i for i, shown in enumerate(self._shown(trap)) if shown]
            if first_wrong not in told:
                continue
            agrees = self._agreement(outcomes, trap)
            if self._is_like(outcomes, trap, told):
                return f"{message} Besides, there is a factor, a shape or an order of axes that should be another."
            share = sum(agrees[i] for i in told) / len(told)
            if agrees[first_wrong] and _tells(outcomes[first_wrong]) and share >= 0.5 and share > most:
                other = next(name for i, name in enumerate(self.cases) if i in told and not agrees[i])
                best, most = f"{message} (Something else differs on {other}.)", share
        return best

    def _is_like(self, outcomes: list, trap: Callable, told: list[int]) -> bool:
        """Whether a student's outcomes are those of a known mistake up to what is harmless, in the cases `told`."""
        cases, n_like = [*self.cases.values()], 0
        for i in told:
            trapped = self._known_outcome(trap, cases[i])
            if _differs(outcomes[i], trapped, cases[i]) is None:
                n_like += _tells(trapped)
                continue
            if _of_gradients(cases[i]):
                continue
            if isinstance(outcomes[i], Failure) or isinstance(trapped, Failure) or not _tells(trapped):
                return False
            right = self._known_outcome(self.reference, cases[i])
            like = likeness(outcomes[i], trapped, cases[i].tolerance)
            itself = likeness(trapped, right, cases[i].tolerance)
            if like is None or like.kind not in HARMLESS:
                return False
            if itself is not None and itself.kind in HARMLESS:  # a mere factor, to which the right answer is as near
                return False
            n_like += 1
        return n_like > 0


_AGAIN_S = 0.5  # s: what took longer is not called a second time
_PAIRS_S = 2.0  # s, for all pairs of mistakes
_KEPT = (
    "a second call with the same arguments gives something else: what does it keep from the first one (a default "
    "argument that is changed, a global, an attribute of `self`), or does it draw random numbers of its own?"
)


def _as_tuple(mistake: str | tuple[str, ...]) -> tuple[str, ...]:
    """The edits of a mistake."""
    return (mistake,) if isinstance(mistake, str) else mistake


def _tells(outcome: Any) -> bool:
    """Whether an outcome has so many numbers that it does not agree with another by chance."""
    if isinstance(outcome, Failure):
        return False
    if isinstance(outcome, dict):
        outcome = [*outcome.values()]
    if isinstance(outcome, list | tuple):
        numbers = [as_tensor(part) for part in outcome]
        return sum(part.numel() for part in numbers if isinstance(part, Tensor)) >= 3
    outcome = as_tensor(outcome)
    return isinstance(outcome, Tensor) and outcome.numel() >= 3


def _of_gradients(case: Case) -> bool:
    """Whether a case observes gradients."""
    return "gradient" in getattr(case.observe, "__name__", "")


def _cut(outcome: Any, right: Any, case: Case) -> str:
    """A sentence about gradients that do not arrive, in part or at all; empty where that is not so."""
    if not _of_gradients(case):
        return ""
    if isinstance(outcome, dict) and isinstance(right, dict):
        pairs = [(outcome.get(key), value) for key, value in right.items()]
    else:
        pairs = [(outcome, right)]
    for a, b in pairs:
        if not (isinstance(a, Tensor) and isinstance(b, Tensor)) or a.shape != b.shape:
            continue
        if a.device != b.device or not a.isfinite().all() or torch.allclose(a, b.to(a.dtype), rtol=1e-3, atol=1e-5):
            continue
        how = "Part of it is lost on the way" if a.any() else "Nothing flows back to it"
        return f" {how}: `.detach()`, `.data`, `torch.tensor(x)`, NumPy and `no_grad` cut a gradient off."
    return ""


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
        mistakes: Mistake -> message, the likeliest ones. A mistake is "old code → new code", an edit of the right
            answer, a tuple of such edits, or a function; the message says what was done, and does not give the answer
            away. Two edits at once are recognised without being listed.
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
        if isinstance(fresh, int | float | str | list | tuple | dict | np.ndarray | Tensor) and _is_other(now, fresh):
            how = "Work on a copy: `x.clone()` (NumPy: `x.copy()`), or `x + 1` for `x += 1`."
            return Failure("changed", f"argument {i + 1} was changed in place. {how}")
    return None


def _is_other(now: Any, fresh: Any) -> bool:
    """Whether an argument is not what it was; lists of other things than numbers count as unchanged."""
    try:
        return difference(now, fresh, 0.0) is not None
    except Exception:
        return False


def _differs(outcome: Any, other: Any, case: Case, results: tuple[str, ...] = ()) -> str | None:
    """What is wrong with an outcome, if `other` is right. Two failures of one kind are equal."""
    if isinstance(outcome, Failure):
        return None if _failed_by(other, outcome.kind) else outcome.message
    if isinstance(other, Failure):
        return other.message
    try:
        return difference(outcome, other, case.tolerance, results)
    except Exception as error:  # an object of the student's that raises when it is looked at
        return (
            f"expected {described(other)}, got {described(outcome)}, which cannot be compared ({type(error).__name__})."
        )


@dataclass(eq=False)
class ValueCheck(Exercise):
    """Checks an exercise in which a value is predicted.

    Attributes:
        name: ID of the exercise, and name of the student's variable.
        expected: The right value. Of a string, case, spaces, commas, quotation marks and brackets are ignored.
        tolerance: Largest difference allowed from a number, in its own unit; also from that of a mistake.
        mistakes: Wrong value -> message.
        hint: Where to look, for a wrong value that is none of the `mistakes`.
    """

    name: str
    expected: float | str = field(kw_only=True)
    tolerance: float = field(default=0.0, kw_only=True)
    mistakes: Mapping[float | str, str] = field(kw_only=True)
    hint: str = field(default="", kw_only=True)

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
        shown = repr(value) if self._is_text else f"{value:g}"
        return f"{shown} is {self._how_wrong(value)} {self.hint}"

    def _how_wrong(self, value: str | float) -> str:
        """What can be said of any wrong value: on which side it lies, or how many letters are in their places."""
        if not self._is_text:
            if value != value:
                return "not a number."
            return "not right. It is too large." if value > self.expected else "not right. It is too small."
        right = self._read(self.expected)
        if sorted(value) == sorted(right):
            return "in another order than it should be."
        n = sum(a == b for a, b in zip(value, right, strict=False))
        return f"not right. {n} of {len(right)} are in their places." if len(right) > 1 else "not right."

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
    try:
        if hasattr(value, "tolist"):  # an array or a tensor
            value = value.tolist()
        if isinstance(value, set | frozenset):
            value = sorted(value)
        if not isinstance(value, str | list | tuple):
            return None
        return re.sub(r"[\s,()\[\]'\"]", "", str(value).lower())
    except Exception:  # an object of the student's that cannot be read
        return None


def _number(value: Any) -> float | None:
    """The real number that a value is, in whatever form."""
    value = as_tensor(value)
    is_number = isinstance(value, Tensor) and value.dim() == 0 and not value.is_complex()
    return float(value) if is_number and value.device.type != "meta" else None


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
        result = function(*args)
        output = as_tensor(result)
        outputs = result if not isinstance(output, Tensor) and isinstance(result, list | tuple) else [output]
        outputs = [each for each in map(as_tensor, outputs) if isinstance(each, Tensor) and each.requires_grad]
        if not outputs:
            raise Complaint(
                "no gradient flows back from the result: is there NumPy, .item(), .detach(), .data, torch.tensor(x) or "
                "no_grad()?"
            )
        total = sum((each * _weights(each)).sum() for each in outputs)
        gradients = torch.autograd.grad(total, [args[i] for i in arguments], materialize_grads=True)
        if len(arguments) == 1:
            return gradients[0]
        names = [f"the gradient by argument {i + 1}" for i in arguments]
        return dict(zip(names, gradients, strict=True))

    observe.__name__ = "gradient"
    return observe


def _weights(output: Tensor) -> Tensor:
    """A weight for each number of a result, all different, whose sum is not zero."""
    return torch.linspace(-1, 2, output.numel(), dtype=output.dtype).view_as(output)
