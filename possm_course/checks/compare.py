"""How values are compared. NumPy's arrays, lists, plain numbers and tensors of any precision are alike here."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor


def difference(a: Any, b: Any, tolerance: float, names: Sequence[str] = ()) -> str | None:
    """What is wrong with `a`, as a clause, or None if it equals `b`; `names`: what the parts of `b` are called."""
    if isinstance(b, dict):
        if not isinstance(a, dict) or set(a) != set(b):
            return f"expected a dict with the keys {', '.join(b)}, got {described(a)}."
        a, b, names = [a[key] for key in b], [*b.values()], [*b]
    if isinstance(b, list | tuple):
        return _difference_of_parts(a, b, tolerance, names)
    a, b = (x.item() if isinstance(x, Tensor) and x.shape == () and x.dtype == torch.bool else x for x in (a, b))
    if isinstance(b, bool | str):
        return None if type(a) is type(b) and a == b else f"expected {described(b)}, got {described(a)}."
    return _difference_of_numbers(as_tensor(a), as_tensor(b), tolerance)


def _difference_of_parts(a: Any, b: Sequence, tolerance: float, names: Sequence[str]) -> str | None:
    if isinstance(a, Tensor) and a.dim() and [x.shape for x in a] == [getattr(y, "shape", ()) for y in b]:
        a = [*a]  # several results in one tensor
    if not isinstance(a, list | tuple) or len(a) != len(b):
        return f"expected {len(b)} results, got {described(a)}."
    names = names or [f"result {i + 1}" for i in range(len(b))]
    for name, x, y in zip(names, a, b, strict=True):
        if message := difference(x, y, tolerance):
            return f"{name}: {message}"
    return None


def _difference_of_numbers(a: Any, b: Tensor, tolerance: float) -> str | None:
    if not isinstance(a, Tensor) or (a.dim() and not b.dim()):
        kind = "a tensor or an array of numbers" if b.dim() else "a number"
        return f"expected {kind}, got {described(a)}."
    if a.shape != b.shape:
        return f"the shape is {tuple(a.shape)}, expected {tuple(b.shape)}."
    if not b.dim() and not b.is_complex():
        b = b.double()
    # integers pass for real numbers, but truth values do not
    if a.numel() and not (torch.can_cast(a.dtype, b.dtype) and (a.dtype == torch.bool) == (b.dtype == torch.bool)):
        return f"the dtype is {a.dtype}, expected {b.dtype}."
    a, b = a.detach().to(b.dtype), b.detach()
    wrong = (a != b) & ~(a.isnan() & b.isnan())
    if b.is_floating_point() or b.is_complex():
        wrong &= ~(b.isfinite() & ((a - b).abs() <= tolerance * b.abs().clamp(min=1.0)))
    if not wrong.any():
        return None
    where = tuple(wrong.nonzero()[0].tolist())
    x, y = b[where].item(), a[where].item()
    digits = next((n for n in range(6, 17) if f"{x:.{n}g}" != f"{y:.{n}g}"), 17)  # six, or what tells them apart
    expected, got = f"{x:.{digits}g}", f"{y:.{digits}g}"
    if not where:
        return f"expected {expected}, got {got}."
    return f"expected {expected} at {list(where)}, got {got}; {int(wrong.sum())} of {a.numel()} are wrong."


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


def described(value: Any) -> str:
    """What a message calls a value."""
    if isinstance(value, Tensor):
        return f"a tensor of shape {tuple(value.shape)}"
    if value is None or isinstance(value, int | float | str):
        return repr(value)
    kind = type(value).__name__
    return f"a {kind} of {len(value)}" if isinstance(value, list | tuple | dict) else f"a value of type {kind}"
