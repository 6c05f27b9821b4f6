"""In what way a wrong answer is like the right one: a factor, a sign, another order of axes, one row off.

Such a likeness is named where no known mistake is. It is also what a known mistake may differ by and still be known.
"""

import math
from collections.abc import Iterator, Sequence
from itertools import permutations
from typing import Any, NamedTuple

import torch
from torch import Tensor

from .compare import as_tensor, difference, tolerance_of, wrong_entries

HARMLESS = {"factor", "axes", "shape", "dtype"}  # by what a known mistake may differ and still be known


class Likeness(NamedTuple):
    """How one result is like another.

    Attributes:
        kind: "factor", "offset", "axes", "shape", "dtype", "order", "moved", "power", "sign", "swapped" or "near".
        amount: The factor, the offset or the largest relative difference; 0 for other kinds.
        message: A sentence that says it to whoever made the first result, with "it" for the second one.
    """

    kind: str
    amount: float
    message: str


def likeness(a: Any, b: Any, tolerance: float, names: Sequence[str] = ()) -> Likeness | None:
    """In what way a wrong result `a` is like `b`.

    Args:
        a: What a student's function returned, as `difference` takes it.
        b: The right result, or that of a known mistake.
        tolerance: As for `difference`.
        names: What messages call each part of a list or tuple.

    Returns:
        The likeness, of the first part that differs where there are several and all that differ have one; or None.
    """
    if isinstance(b, dict):
        same_keys = isinstance(a, dict) and set(a) == set(b)
        return likeness([a[key] for key in b], [*b.values()], tolerance, list(b)) if same_keys else None
    if isinstance(b, list | tuple):
        return _of_parts(a, b, tolerance, names)
    return next(_found(as_tensor(a), as_tensor(b), tolerance), None)


def _of_parts(a: Any, b: Sequence, tolerance: float, names: Sequence[str]) -> Likeness | None:
    """As `likeness`, of several results."""
    if not isinstance(a, list | tuple) or len(a) != len(b):
        return None
    if len(b) > 1 and difference(a[::-1], b, tolerance) is None:
        return Likeness("swapped", 0.0, "the results are right, but their order is not: the last one comes first.")
    found = []
    for i, (x, y) in enumerate(zip(a, b, strict=True)):
        if difference(x, y, tolerance) is None:
            continue
        like = likeness(x, y, tolerance)
        if like is None or as_tensor(y).numel() < 3:  # a single number is always some factor away from another
            return None
        name = f"{names[i]}: " if i < len(names) else ""
        found.append(like._replace(message=name + like.message))
    return found[0] if found else None


def _found(a: Any, b: Any, tolerance: float) -> Iterator[Likeness]:
    """The likenesses of two tensors, the most telling first."""
    if not (isinstance(a, Tensor) and isinstance(b, Tensor)) or a.device.type == "meta":
        return
    a, b = a.detach().cpu(), b.detach()
    if not a.numel() or a.numel() != b.numel() or b.dtype == torch.bool or a.dtype == torch.bool:
        return
    tolerance = max(tolerance_of(a, tolerance), 1e-6)
    if a.is_complex() or b.is_complex():
        a, b = a.to(torch.complex128), b.to(torch.complex128)
    else:
        a, b = a.double(), b.double()

    def equal(x: Tensor, y: Tensor) -> bool:
        return x.shape == y.shape and not wrong_entries(x, y, tolerance).any()

    if a.shape == b.shape and equal(a, b):
        yield Likeness("dtype", 0.0, "the numbers are right, but their dtype is not.")
    if _is_varied(b):
        yield from _rearranged(a, b, equal)
    if a.shape == b.shape and not a.is_complex():
        yield from _recomputed(a, b, tolerance, equal)


def _is_varied(x: Tensor) -> bool:
    """Whether numbers are many and different enough for their arrangement to say something."""
    return x.numel() >= 3 and len(x.flatten().unique()) >= min(3, x.numel())


def _rearranged(a: Tensor, b: Tensor, equal: Any) -> Iterator[Likeness]:
    """The right numbers at other places."""
    if 2 <= b.dim() <= 4 and a.dim() == b.dim():
        for order in permutations(range(b.dim())):
            if [*order] != [*range(b.dim())] and equal(a.permute(order), b):
                moved = [i for i, axis in enumerate(order) if i != axis]
                places = "axes are in another order"
                if len(moved) == 2:
                    places = f"axes {moved[0]} and {moved[1]} have changed places"
                yield Likeness("axes", 0.0, f"the numbers are right, but their {places}; it should be {_shape(b)}.")
    if a.shape != b.shape and equal(a.reshape(b.shape), b):
        yield Likeness("shape", 0.0, f"the numbers are right, but the shape is {_shape(a)} and should be {_shape(b)}.")
    if a.shape != b.shape:
        return
    for axis in range(b.dim()):
        if b.shape[axis] > 1 and equal(a.flip(axis), b):
            yield Likeness("order", 0.0, f"the numbers are right, but axis {axis} runs backwards, and should not.")
    yield from _moved(a, b, equal)
    if not a.is_complex() and len(b.unique()) > 3 and equal(a.flatten().sort().values, b.flatten().sort().values):
        yield Likeness("order", 0.0, "the right numbers are all there, but in an order that should be another.")


def _shape(x: Tensor) -> str:
    """The shape of a tensor, as text."""
    return str(tuple(x.shape))


def _moved(a: Tensor, b: Tensor, equal: Any) -> Iterator[Likeness]:
    """What stands one or two places earlier or later than it should, along one axis."""
    for axis in range(b.dim()):
        n = b.shape[axis]
        for by in (1, 2):
            if n <= by + 2 or not _is_varied(b.narrow(axis, by, n - by)):
                continue
            steps = "one place" if by == 1 else f"{by} places"
            if equal(a.narrow(axis, by, n - by), b.narrow(axis, 0, n - by)):
                yield Likeness("moved", by, f"what you have along axis {axis} comes {steps} later than it should.")
            if equal(a.narrow(axis, 0, n - by), b.narrow(axis, by, n - by)):
                yield Likeness("moved", -by, f"what you have along axis {axis} comes {steps} earlier than it should.")


def _recomputed(a: Tensor, b: Tensor, tolerance: float, equal: Any) -> Iterator[Likeness]:
    """Numbers of which a function of one number makes the right ones."""
    if not (a.isfinite().all() and b.isfinite().all()) or not b.any():
        return
    factor = float((a * b).sum() / (b * b).sum())
    if abs(factor) > 1e-6 and abs(factor - 1) > 1e-4 and equal(a / factor, b):
        message = f"every number is {factor:.4g} times what it should be."
        if abs(factor + 1) < 1e-5:
            message = "every number has the opposite sign of what it should have."
        yield Likeness("factor", factor, message)
    if b.numel() < 3 or not _is_varied(b):
        return
    offset = float((a - b).mean())
    if abs(offset) > 1e-4 and equal(a - offset, b):
        side = "large" if offset > 0 else "small"
        yield Likeness(
            "offset", offset, f"every number is too {side}, by {abs(offset):.4g}: the rest is as it should be."
        )
    if equal(a.abs(), b.abs()):
        yield Likeness("sign", 0.0, "the sizes are right, but not all signs are what they should be.")
    for function, message in _POWERS:
        made = function(b)
        if made.isfinite().all() and equal(a, made):
            yield Likeness("power", 0.0, message)
    largest = float(((a - b).abs() / b.abs().clamp(min=1.0)).max())
    if largest < 0.01:
        share = f"{100 * largest:.2g} %" if largest > 1e-6 else f"{largest:.1g}"
        yield Likeness(
            "near",
            largest,
            f"your numbers are nearly right, off by {share} at most: look for what is rounded, for a small constant, "
            "or for n where there should be n - 1.",
        )


_POWERS = (
    (torch.square, "these are the squares of what they should be."),
    (torch.sqrt, "these are the roots of what they should be."),
    (torch.reciprocal, "each number is one over what it should be."),
    (torch.log, "these are the logarithms of what they should be."),
    (torch.exp, "these are the exponentials of what they should be: one exp too many."),
)


def consistent(found: Sequence[Likeness]) -> bool:
    """Whether the likenesses of several cases say the same: one kind, and one factor.

    Args:
        found: Likenesses of a student's results, one of each case that is wrong.

    Returns:
        Whether they are alike.
    """
    first = found[0]
    return all(each.kind == first.kind for each in found) and all(
        math.isclose(each.amount, first.amount, rel_tol=1e-3, abs_tol=1e-6) for each in found
    )
