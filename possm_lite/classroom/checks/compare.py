"""What a function did in a case, and how two such outcomes are compared."""

from dataclasses import dataclass, field
from numbers import Real
from typing import Any

import torch
from torch import Tensor

from .sandbox import Failure


@dataclass(frozen=True)
class Outcome:
    """What was observed, or the failure instead of it, and the indices of the arguments that were changed in place."""

    observed: Any
    failure: Failure | None = None
    changed: list[int] = field(default_factory=list)


def same(a: Outcome, b: Outcome, tolerance: float) -> bool:
    """Whether two outcomes are equal: two failures of one kind are, and NaN equals NaN here."""
    if a.failure or b.failure:
        return a.failure is not None and b.failure is not None and a.failure.kind == b.failure.kind
    return a.changed == b.changed and _compare(a.observed, b.observed, tolerance, nan_equal=True) is None


def difference(student: Outcome, right: Outcome, tolerance: float) -> str | None:
    """What is wrong with the student's outcome, as a clause, or None. RuntimeError if the reference itself failed."""
    if right.failure:
        raise RuntimeError(f"the reference of this check fails: {right.failure.message}")
    if student.failure:
        return student.failure.message
    if student.changed:
        i = student.changed[0]
        ordinal = {0: "first", 1: "second", 2: "third"}.get(i, f"{i + 1}th")
        return f"the {ordinal} argument was changed in place. Work on a copy: `x.clone()`, or `x + 1` for `x += 1`."
    return _compare(student.observed, right.observed, tolerance)


def _compare(a: Any, b: Any, tolerance: float, nan_equal: bool = False) -> str | None:
    if isinstance(b, tuple):
        if not isinstance(a, tuple) or len(a) != len(b):
            got = f"{len(a)} values" if isinstance(a, tuple) else f"a single {type(a).__name__}"
            return f"expected a tuple of {len(b)} values, got {got}."
        messages = [_compare(x, y, tolerance, nan_equal) for x, y in zip(a, b, strict=True)]
        return next((f"value {i + 1} of the tuple: {message}" for i, message in enumerate(messages) if message), None)
    if isinstance(b, Tensor) and b.dim() == 0 and not b.is_complex() and not isinstance(a, Tensor):
        b = b.item()  # a plain number is accepted for a tensor without axes
    if isinstance(b, bool | str) or b is None:
        return None if type(a) is type(b) and a == b else f"expected {_shown(b)}, got {_shown(a)}."
    if isinstance(b, int | float):
        number = as_number(a)
        if number is None:
            return f"expected a number, got a value of type {type(a).__name__}."
        a, b = (torch.tensor(float(x), dtype=torch.float64) for x in (number, b))
    return _compare_tensors(a, b, tolerance, nan_equal)


def as_number(value: Any) -> float | None:
    """A real number of Python, NumPy or torch as a float, at most 1e300 for an integer; None for any other value."""
    if isinstance(value, Tensor) and value.numel() == 1 and value.layout == torch.strided and not value.is_meta:
        value = value.item()
    if isinstance(value, bool) or not isinstance(value, Real):
        return None
    return float(max(-1e300, min(value, 1e300)) if isinstance(value, int) else value)


def _compare_tensors(a: Any, b: Tensor, tolerance: float, nan_equal: bool) -> str | None:
    if not isinstance(a, Tensor):
        return f"expected a tensor, got a value of type {type(a).__name__}."
    if a.layout != torch.strided or a.is_meta:
        return "expected a dense tensor with values, got a sparse one or one on the meta device."
    if a.shape != b.shape:
        return f"the shape is {tuple(a.shape)}, expected {tuple(b.shape)}."
    if a.dtype != b.dtype:
        return f"the dtype is {a.dtype}, expected {b.dtype}."
    a, b = a.detach(), b.detach()
    if not (b.is_floating_point() or b.is_complex()):
        wrong = a != b
    else:
        if nan_equal:
            a, b = (x.masked_fill(a.isnan() & b.isnan(), 0) for x in (a, b))
        if a.isnan().any() and not b.isnan().any():
            return f"{int(a.isnan().sum())} of {a.numel()} numbers are NaN." if a.dim() else "the result is NaN."
        # written so that NaN counts as wrong, and infinity equals infinity only
        wrong = ~((a == b) | (b.isfinite() & ((a - b).abs() <= tolerance * b.abs().clamp(min=1.0))))
    if not wrong.any():
        return None
    where = tuple(int(i) for i in wrong.nonzero()[0])
    index, count = (f" at {list(where)}", f"; {int(wrong.sum())} of {a.numel()} are wrong") if where else ("", "")
    expected, got = _numbers(b[where].item(), a[where].item())
    return f"expected {expected}{index}, got {got}{count}."


def _numbers(a: complex, b: complex) -> tuple[str, str]:
    """Two numbers with four digits, or as many more as it takes to tell them apart."""
    if isinstance(a, int):
        return str(a), str(b)
    shown = [(f"{a:.{digits}g}", f"{b:.{digits}g}") for digits in range(4, 18)]
    return next((pair for pair in shown if pair[0] != pair[1]), shown[0])


def _shown(value: Any) -> str:
    plain = value is None or isinstance(value, bool | int | float | str)
    return repr(value) if plain else f"a value of type {type(value).__name__}"
