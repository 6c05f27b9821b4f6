"""What a function did in a case, and how two such outcomes are compared."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from .sandbox import Trouble

PLACES = ("first", "second", "third", "fourth", "fifth", "sixth")


@dataclass(frozen=True)
class Outcome:
    """What was observed, or the trouble that came instead, and the places of the arguments that were changed."""

    observed: Any
    trouble: Trouble | None = None
    touched: list[int] = field(default_factory=list)

    @property
    def missing(self) -> bool:
        """True of a stub."""
        return self.trouble is not None and self.trouble.kind == "missing"


def same(a: Outcome, b: Outcome, tolerance: float) -> bool:
    """Whether two outcomes are one: two troubles of one kind are, and NaN is NaN here."""
    if a.trouble or b.trouble:
        return a.trouble is not None and b.trouble is not None and a.trouble.kind == b.trouble.kind
    return a.touched == b.touched and _compare(a.observed, b.observed, tolerance, nan_is_nan=True) is None


def difference(student: Outcome, right: Outcome, tolerance: float) -> str | None:
    """What is wrong with the student's outcome, in half a sentence; None where nothing is."""
    if right.trouble:
        raise RuntimeError(f"the right answer of this check fails itself: {right.trouble.told}")
    if student.trouble:
        return student.trouble.told
    if student.touched:
        i = student.touched[0]
        place = PLACES[i] if i < len(PLACES) else f"{i + 1}th"
        return f"the {place} argument was changed in place. Work on a copy: `x.clone()`, or `x + 1` for `x += 1`."
    return _compare(student.observed, right.observed, tolerance)


def _compare(a: Any, b: Any, tolerance: float, nan_is_nan: bool = False) -> str | None:
    if isinstance(b, tuple):
        if not isinstance(a, tuple) or len(a) != len(b):
            got = f"{len(a)}" if isinstance(a, tuple) else f"a single {type(a).__name__}"
            return f"{len(b)} values are wanted, returned as a tuple, this is {got}."
        told = [_compare(x, y, tolerance, nan_is_nan) for x, y in zip(a, b, strict=True)]
        return next((f"value {i + 1} of the tuple: {line}" for i, line in enumerate(told) if line), None)
    if isinstance(b, bool | str) or b is None:
        return None if type(a) is type(b) and a == b else f"{_shown(b)} is right, this is {_shown(a)}."
    if isinstance(b, int | float):
        return _compare_numbers(a, b, tolerance, nan_is_nan)
    return _compare_tensors(a, b, tolerance, nan_is_nan)


def _compare_numbers(a: Any, b: float, tolerance: float, nan_is_nan: bool) -> str | None:
    if isinstance(a, Tensor) and a.numel() == 1:
        a = a.item()
    if isinstance(a, bool) or not isinstance(a, int | float):
        return f"a number is wanted, this is of type {type(a).__name__}."
    if nan_is_nan and math.isnan(a) and math.isnan(b):
        return None
    if a == b or (math.isfinite(b) and abs(a - b) <= tolerance * max(1.0, abs(b))):
        return None
    return "the result is NaN." if math.isnan(a) else f"{b:.4g} is right, this is {a:.4g}."


def _compare_tensors(a: Any, b: Tensor, tolerance: float, nan_is_nan: bool) -> str | None:
    if b.dim() == 0 and isinstance(a, int | float):  # a plain number for a tensor without axes
        a = torch.tensor(a, dtype=b.dtype)
    if not isinstance(a, Tensor):
        return f"a tensor is wanted, this is of type {type(a).__name__}."
    if a.layout != torch.strided or a.is_meta:
        return "a plain tensor that holds its numbers is wanted, not a sparse or an empty one."
    if a.shape != b.shape:
        return f"the shape is {tuple(a.shape)}, it must be {tuple(b.shape)}."
    if a.dtype != b.dtype:
        return f"the dtype is {a.dtype}, it must be {b.dtype}."
    a, b = a.detach(), b.detach()
    if not (b.is_floating_point() or b.is_complex()):
        wrong = a != b
    else:
        if nan_is_nan:
            a, b = (x.masked_fill(a.isnan() & b.isnan(), 0) for x in (a, b))
        if a.isnan().any() and not b.isnan().any():
            return f"{int(a.isnan().sum())} of {a.numel()} numbers are NaN."
        # written so that NaN counts as wrong, and infinity as right beside infinity only
        wrong = ~((a == b) | (b.isfinite() & ((a - b).abs() <= tolerance * b.abs().clamp(min=1.0))))
    if not wrong.any():
        return None
    where = tuple(int(i) for i in wrong.nonzero()[0])
    place = f" at {list(where)}" if where else ""
    n_off = f"{int(wrong.sum())} of {a.numel()}"
    return f"{_number(b[where])} is right{place}, this is {_number(a[where])}; {n_off} are off."


def _number(x: Tensor) -> str:
    return f"{x.item():.4g}" if x.is_floating_point() or x.is_complex() else str(x.item())


def _shown(value: Any) -> str:
    plain = value is None or isinstance(value, bool | int | float | str)
    return repr(value) if plain else f"of type {type(value).__name__}"
