"""How values are compared. NumPy's arrays, lists, plain numbers and tensors of any precision are alike here."""

from collections.abc import Sequence
from numbers import Real
from typing import Any

import numpy as np
import torch
from torch import Tensor

_ORDINALS, _COUNTS = ("first", "second", "third"), {2: "two", 3: "three", 4: "four"}


def difference(a: Any, b: Any, tolerance: float, nan_equal: bool = False, names: Sequence[str] = ()) -> str | None:
    """What is wrong with `a`, as a clause, or None if it equals `b`; `names`: what the parts of `b` are called."""
    if isinstance(b, dict):
        if not isinstance(a, dict) or set(a) != set(b):
            got = ", ".join(map(str, a)) if isinstance(a, dict) else described(a)
            return f"expected a dict with the keys {', '.join(b)}, got {got}."
        a, b, names = [a[key] for key in b], [*b.values()], [*b]
    if isinstance(b, list | tuple):
        count = _COUNTS.get(len(b), len(b))
        if isinstance(a, Tensor) and _is_dense(a) and a.dim() and [x.shape for x in a] == [_shape(y) for y in b]:
            a = [*a]  # several results in one tensor
        if not isinstance(a, list | tuple) or len(a) != len(b):
            return f"expected {count} results, got {described(a)}."
        if len(names) != len(b):
            names = [f"the {ordinal(i)} of the {count} results" for i in range(len(b))]
        messages = [difference(x, y, tolerance, nan_equal) for x, y in zip(a, b, strict=True)]
        return next((f"{name}: {text}" for name, text in zip(names, messages, strict=True) if text), None)
    if isinstance(b, Tensor) and b.dim() == 0 and not b.is_complex() and not isinstance(a, Tensor):
        b = b.item()  # a plain number is accepted for a tensor without axes
    if isinstance(b, bool | str) or b is None:
        a = a.item() if isinstance(a, Tensor) and a.dim() == 0 and _is_dense(a) else a
        return None if type(a) is type(b) and a == b else f"expected {described(b)}, got {described(a)}."
    if isinstance(b, int | float):
        number = as_number(a)
        if number is None:
            return f"expected a number, got {described(a)}."
        a, b = (torch.tensor(float(x), dtype=torch.float64) for x in (number, b))
    return _difference_of_tensors(as_tensor(a), b, tolerance, nan_equal)


def _difference_of_tensors(a: Any, b: Tensor, tolerance: float, nan_equal: bool) -> str | None:
    if not isinstance(a, Tensor):
        return f"expected a tensor, got {described(a)}."
    if not _is_dense(a):
        return "expected a dense tensor with values, got a sparse one or one on the meta device."
    if a.shape != b.shape:
        return f"the shape is {tuple(a.shape)}, expected {tuple(b.shape)}."
    if a.numel() and not (_kind(a) == _kind(b) or 0 < _kind(a) < _kind(b)):
        return f"the dtype is {a.dtype}, expected {b.dtype}."
    a, b = a.detach().to(b.dtype), b.detach()
    if _kind(b) < 2:
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


def without_arrays(value: Any) -> Any:
    """The value with tensors for NumPy's arrays and Python's numbers for NumPy's, also in lists and tuples."""
    if type(value) in (list, tuple):
        return type(value)(without_arrays(item) for item in value)
    return as_tensor(value) if isinstance(value, np.ndarray) else value.item() if _is_scalar(value) else value


def as_tensor(value: Any) -> Any:
    """A tensor of an array, a number or nested lists of these and tensors, with gradients; other values unchanged."""
    try:
        if isinstance(value, list | tuple) and any(isinstance(item, list | tuple | Tensor) for item in value):
            return torch.stack([as_tensor(item) for item in value])
        return value if isinstance(value, Tensor) else torch.from_numpy(np.array(value))
    except (TypeError, ValueError, RuntimeError):  # text, objects, rows of unequal length
        return value


def as_number(value: Any) -> float | None:
    """A real number of Python, NumPy or torch as a float, at most 1e300 for an integer; None for any other value."""
    if _is_scalar(value) or (isinstance(value, Tensor) and value.dim() == 0 and _is_dense(value)):
        value = value.item()
    if isinstance(value, bool) or not isinstance(value, Real):
        return None
    return float(max(-1e300, min(value, 1e300)) if isinstance(value, int) else value)


def described(value: Any) -> str:
    """What a message calls a value."""
    if value is None or isinstance(value, bool | int | float | str):
        return repr(value)
    kind = type(value).__name__
    is_list = isinstance(value, list | tuple)
    of_any = f"a {kind} of {len(value)}" if is_list else f"a value of type {kind}"
    return f"a tensor of shape {tuple(value.shape)}" if isinstance(value, Tensor) else of_any


def ordinal(index: int) -> str:
    """In words up to the third; the first has index 0."""
    return _ORDINALS[index] if index < 3 else f"{index + 1}th"


def _kind(x: Tensor) -> int:
    """Integers (1) are accepted for real numbers (2), and these for complex ones (3), but truth values for neither."""
    return 3 if x.is_complex() else 2 if x.is_floating_point() else int(x.dtype != torch.bool)


def _is_scalar(value: Any) -> bool:
    return isinstance(value, np.generic) or (isinstance(value, np.ndarray) and value.ndim == 0)


def _is_dense(x: Tensor) -> bool:
    return x.layout == torch.strided and not x.is_meta


def _shape(value: Any) -> torch.Size:
    return value.shape if isinstance(value, Tensor) else torch.Size()
