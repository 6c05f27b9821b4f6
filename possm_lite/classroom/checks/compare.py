"""How values are compared. NumPy's arrays, lists, plain numbers and tensors of any precision are alike here."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

_ORDINALS = ("first", "second", "third")
_COUNTS = {1: "one", 2: "two", 3: "three", 4: "four"}


def difference(a: Any, b: Any, tolerance: float, names: Sequence[str] = ()) -> str | None:
    """What is wrong with `a`, as a clause, or None if it equals `b`; `names`: what the parts of `b` are called."""
    if isinstance(a, Tensor) and (a.layout != torch.strided or a.is_nested or a.is_meta):
        return "expected a dense tensor with values, got a sparse or nested one, or one on the meta device."
    if isinstance(b, dict):
        if not isinstance(a, dict) or set(a) != set(b):
            got = ", ".join(map(str, a)) if isinstance(a, dict) else described(a)
            return f"expected a dict with the keys {', '.join(b)}, got {got}."
        return _difference_of_parts([a[key] for key in b], [*b.values()], tolerance, [*b])
    if isinstance(b, list | tuple):
        return _difference_of_parts(a, b, tolerance, names)
    a, b = (x.item() if isinstance(x, Tensor) and not (x.dim() or x.is_complex()) else x for x in (a, b))
    if isinstance(b, bool | str) or b is None:
        return None if type(a) is type(b) and a == b else f"expected {described(b)}, got {described(a)}."
    if isinstance(b, int | float):
        number = as_number(a)
        if number is None:
            return f"expected a number, got {described(a)}."
        a, b = number, float(b)
    return _difference_of_tensors(as_tensor(a), as_tensor(b), tolerance)


def _difference_of_parts(a: Any, b: Sequence, tolerance: float, names: Sequence[str]) -> str | None:
    count = _COUNTS.get(len(b), len(b))
    if isinstance(a, Tensor) and a.dim() and [x.shape for x in a] == [getattr(y, "shape", ()) for y in b]:
        a = [*a]  # several results in one tensor
    if not isinstance(a, list | tuple) or len(a) != len(b):
        return f"expected {count} result{'s' * (len(b) > 1)}, got {described(a)}."
    if len(names) != len(b):
        names = [f"the {ordinal(i)} of the {count} results" if len(b) > 1 else "the item" for i in range(len(b))]
    for name, x, y in zip(names, a, b, strict=True):
        if message := difference(x, y, tolerance):
            return f"{name}: {message}"
    return None


def _difference_of_tensors(a: Any, b: Tensor, tolerance: float) -> str | None:
    if not isinstance(a, Tensor):
        return f"expected a tensor or an array of numbers, got {described(a)}."
    if a.shape != b.shape:
        return f"the shape is {tuple(a.shape)}, expected {tuple(b.shape)}."
    # integers pass for real numbers, but truth values do not
    fits = torch.can_cast(a.dtype, b.dtype) and (a.dtype == torch.bool) == (b.dtype == torch.bool)
    if a.numel() and not fits:
        return f"the dtype is {a.dtype}, expected {b.dtype}."
    a, b = a.detach().to(b.dtype), b.detach()
    wrong = a != b  # also where both are NaN, but not where both are infinite
    if b.is_floating_point() or b.is_complex():
        if (a.isnan() & ~b.isnan()).any():
            n_wrong = int((a.isnan() & ~b.isnan()).sum())
            return f"{n_wrong} of {a.numel()} numbers are NaN." if a.dim() else "the result is NaN."
        near = b.isfinite() & ((a - b).abs() <= tolerance * b.abs().clamp(min=1.0))
        wrong = wrong & ~near & ~(a.isnan() & b.isnan())
    if not wrong.any():
        return None
    where = tuple(wrong.nonzero()[0].tolist())
    expected, got = _numbers(b[where].item(), a[where].item())
    if not where:
        return f"expected {expected}, got {got}."
    return f"expected {expected} at {list(where)}, got {got}; {int(wrong.sum())} of {a.numel()} are wrong."


def _numbers(a: complex, b: complex) -> tuple[str, str]:
    """Two numbers with four digits, or as many more as it takes to tell them apart."""
    if isinstance(a, int):
        return str(a), str(b)
    shown = [(f"{a:.{digits}g}", f"{b:.{digits}g}") for digits in range(4, 18)]
    return next((pair for pair in shown if pair[0] != pair[1]), shown[0])


def as_tensor(value: Any) -> Any:
    """A tensor of an array, a number or nested lists of these and tensors, with gradients; other values unchanged."""
    try:
        if isinstance(value, list | tuple) and any(isinstance(item, list | tuple | Tensor) for item in value):
            return torch.stack([as_tensor(item) for item in value])
        return value if isinstance(value, Tensor) else torch.from_numpy(np.array(value))
    except (TypeError, ValueError, RuntimeError):  # text, objects, rows of unequal length
        return value


def without_arrays(value: Any) -> Any:
    """The value with tensors for NumPy's arrays and numbers, also in lists and tuples."""
    if type(value) in (list, tuple):
        return type(value)(without_arrays(item) for item in value)
    return as_tensor(value) if isinstance(value, np.ndarray | np.generic) else value


def as_number(value: Any) -> float | None:
    """A real number of Python, NumPy or torch as a float; None for any other value."""
    value = as_tensor(value)
    if not isinstance(value, Tensor) or value.dim() or value.is_complex() or value.dtype == torch.bool:
        return None
    return float(value)


def described(value: Any) -> str:
    """What a message calls a value."""
    if isinstance(value, Tensor):
        return f"a tensor of shape {tuple(value.shape)}"
    if value is None or isinstance(value, bool | float | str) or (type(value) is int and abs(value) < 1e9):
        return repr(value)
    kind = type(value).__name__
    return f"a {kind} of {len(value)}" if isinstance(value, list | tuple) else f"a value of type {kind}"


def ordinal(index: int) -> str:
    """In words up to the third; the first has index 0."""
    return _ORDINALS[index] if index < 3 else f"{index + 1}th"
