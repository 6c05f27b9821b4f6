"""How an answer is compared with the right one.

NumPy's arrays, lists, plain numbers and tensors of any precision count as equal where their numbers are equal. What the
numbers are compared to follows the precision of the answer: float16 keeps three digits, and no more are asked of it.
"""

from collections.abc import Iterator, Sequence
from itertools import islice
from textwrap import shorten
from typing import Any

import numpy as np
import torch
from torch import Tensor


def difference(a: Any, b: Any, tolerance: float, names: Sequence[str] = ()) -> str | None:
    """What is wrong with an answer, in one clause, or None where it equals the right one.

    Args:
        a: The student's answer: a tensor, array, number, truth value or string, or a list, tuple or dict of these.
        b: The right answer. Its type decides how the two are compared: a dict by its keys, a list or tuple part by
            part, a string or truth value exactly, everything else as numbers.
        tolerance: Largest difference allowed of two real or complex numbers, relative to the size of the right one
            where that is above one.
        names: What the message calls each part of a list or tuple `b`; "result 1" and so on where it is empty.

    Returns:
        A clause with its full stop, such as "expected 1 at [0], got 0; 1 of 3 are wrong.", or None.
    """
    if isinstance(b, dict):
        return _difference_of_dicts(a, b, tolerance)
    if isinstance(b, list | tuple):
        return _difference_of_parts(a, b, tolerance, names)
    a, b = _plain(a), _plain(b)
    if isinstance(b, bool | str):
        is_equal = type(a) is type(b) and a == b  # so that no __eq__ of the student's is asked
        return None if is_equal else f"expected {described(b)}, got {described(a)}."
    return _difference_of_numbers(as_tensor(a), as_tensor(b), tolerance)


def _plain(value: Any) -> Any:
    """A truth value for a tensor of one; other values unchanged."""
    is_flag = isinstance(value, Tensor) and value.shape == () and value.dtype == torch.bool
    return value.item() if is_flag else value


def _difference_of_dicts(a: Any, b: dict, tolerance: float) -> str | None:
    """As `difference`: both must have the same keys, and equal values in them."""
    if not isinstance(a, dict) or set(a) != set(b):
        return f"expected a dict with the keys {', '.join(b)}, got {described(a)}."
    return _difference_of_parts([a[key] for key in b], list(b.values()), tolerance, names=list(b))


def _difference_of_parts(a: Any, b: Sequence, tolerance: float, names: Sequence[str]) -> str | None:
    """As `difference`: the first part that differs, after its name."""
    if _holds_parts(a, b):
        a = list(a)
    if not isinstance(a, list | tuple) or len(a) != len(b):
        return f"expected {len(b)} results, got {described(a)}."
    if not names:
        names = [f"result {i + 1}" for i in range(len(b))]
    for name, x, y in zip(names, a, b, strict=True):
        if message := difference(x, y, tolerance):
            return f"{name}: {message}"
    return None


def _holds_parts(a: Any, b: Sequence) -> bool:
    """Whether `a` is one tensor that has the parts of `b` along its first axis."""
    if not isinstance(a, Tensor) or a.dim() == 0:
        return False
    return [x.shape for x in a] == [getattr(y, "shape", ()) for y in b]


def _difference_of_numbers(a: Any, b: Tensor, tolerance: float) -> str | None:
    """As `difference`: kind, shape and dtype first, then the numbers."""
    if not isinstance(a, Tensor) or (a.dim() and not b.dim()):
        kind = "a tensor or an array of numbers" if b.dim() else "a number"
        return f"expected {kind}, got {described(a)}."
    if a.device != b.device and a.device.type == "meta":
        return "the result is on the device meta, where a tensor has no numbers. Expected one on the cpu."
    a = a.detach().cpu()  # from a GPU: its numbers are what counts
    if a.layout != torch.strided:
        a = a.to_dense()
    if a.shape != b.shape:
        return f"the shape is {tuple(a.shape)}, expected {tuple(b.shape)}."
    if not b.dim() and not b.is_complex():
        b = b.double()  # a single number may have any precision
    if a.numel() and not _passes_for(a.dtype, b.dtype):
        return f"the dtype is {a.dtype}, expected {b.dtype}."
    tolerance = tolerance_of(a, tolerance)
    a, b = a.to(b.dtype), b.detach()
    wrong = wrong_entries(a, b, tolerance)
    return _first_wrong(a, b, wrong) if wrong.any() else None


def tolerance_of(a: Any, tolerance: float) -> float:
    """The largest difference allowed of an answer: at least four steps of its precision, if that is a coarse one.

    Args:
        a: The answer.
        tolerance: What a case allows; 0 stays 0.

    Returns:
        That, or more for float16 and bfloat16.
    """
    is_coarse = isinstance(a, Tensor) and a.dtype in (torch.float16, torch.bfloat16)
    return max(tolerance, 4 * torch.finfo(a.dtype).eps) if is_coarse and tolerance > 0 else tolerance


def _passes_for(dtype: torch.dtype, expected: torch.dtype) -> bool:
    """Whether a dtype is accepted: integers pass for real numbers, but truth values do not."""
    return torch.can_cast(dtype, expected) and (dtype == torch.bool) == (expected == torch.bool)


def wrong_entries(a: Tensor, b: Tensor, tolerance: float) -> Tensor:
    """Where two tensors of one shape and dtype differ.

    Args:
        a: The student's numbers.
        b: The right ones.
        tolerance: Largest difference allowed, relative to the size of the right number where that is above one.

    Returns:
        True where they differ by more; NaN equals NaN.
    """
    wrong = (a != b) & ~(a.isnan() & b.isnan())
    if b.is_floating_point() or b.is_complex():
        is_close = (a - b).abs() <= tolerance * b.abs().clamp(min=1.0)
        wrong &= ~(b.isfinite() & is_close)
    return wrong


def _first_wrong(a: Tensor, b: Tensor, wrong: Tensor) -> str:
    """The message about the first of the `wrong` entries of `a`."""
    where = tuple(wrong.nonzero()[0].tolist())
    expected, got = _told_apart(b[where].item(), a[where].item())
    if not where:
        return f"expected {expected}, got {got}."
    return f"expected {expected} at {list(where)}, got {got}; {int(wrong.sum())} of {a.numel()} are wrong."


def _told_apart(x: complex, y: complex) -> tuple[str, str]:
    """Two numbers as text, with six digits, or with as many as tell them apart; with 17 at most."""
    for digits in range(6, 18):
        texts = f"{x:.{digits}g}", f"{y:.{digits}g}"
        if texts[0] != texts[1]:
            break
    return texts


def as_tensor(value: Any) -> Any:
    """A tensor of numbers that come in another form.

    Args:
        value: A tensor, an array, a number, or lists and tuples of these, nested to any depth.

    Returns:
        The tensor, with its gradients; the value itself where it is no numbers: text, objects, rows of unequal length.
    """
    try:
        if isinstance(value, list | tuple) and any(isinstance(item, list | tuple | Tensor) for item in value):
            return torch.stack([as_tensor(item) for item in value])
        if isinstance(value, Tensor):
            return value if type(value) is Tensor else value.as_subclass(Tensor)
        array = np.array(value)
        if array.dtype.kind == "f" and array.dtype.itemsize > 8:  # longdouble, which torch does not know
            array = array.astype(np.float64)
        return torch.from_numpy(array.astype(array.dtype.newbyteorder("="), copy=False))
    except Exception:  # whatever an object of the student's raises that is asked for its numbers
        return value


_MOST = 100_000  # items of a generator


def without_arrays(value: Any) -> Any:
    """The `value` with tensors in place of arrays and numbers of NumPy, also in lists, tuples, dicts, generators."""
    if isinstance(value, Iterator):
        value = list(islice(value, _MOST))
    if type(value) in (list, tuple):
        return type(value)(without_arrays(item) for item in value)
    if type(value) is dict:
        return {key: without_arrays(item) for key, item in value.items()}
    return as_tensor(value) if isinstance(value, np.ndarray | np.generic) else value


def described(value: Any) -> str:
    """What a message calls a `value`: a tensor by its shape, a number or string by itself, others by their type."""
    if isinstance(value, Tensor):
        return f"a tensor of shape {tuple(value.shape)}"
    if value is None or type(value) in (bool, int, float, str):
        return shorten(repr(value), 80, placeholder="...")
    kind = type(value).__name__
    try:
        if isinstance(value, int | float | str):
            return shorten(repr(value), 80, placeholder="...")
        return f"a {kind} of {len(value)}" if isinstance(value, list | tuple | dict) else f"a value of type {kind}"
    except Exception:  # a __repr__ or __len__ of the student's
        return f"a value of type {kind}"
