"""Filters of units and trials: comparisons of the columns of a table, such as "quality == 'good' and rate > 1"."""

import ast
import contextlib
import operator
import re
from collections.abc import Mapping

import numpy as np

from ...errors import RecordingError

_MAX_LENGTH = 500
_COMPARE = {"Eq": operator.eq, "NotEq": operator.ne, "Lt": operator.lt, "LtE": operator.le, "Gt": operator.gt}
_COMPARE["GtE"] = operator.ge


def matching_rows(expression: str, table: Mapping[str, np.ndarray], option: str) -> np.ndarray:
    """The rows of a table for which an expression holds, shape (n,), bool.

    It is parsed, never executed: names of columns (_ for other characters than letters and digits), numbers, texts in
    quotes, lists of these, comparisons, in, and, or, not and parentheses.

    Args:
        expression: the filter; it may come from an untrusted file.
        table: columns of numbers, text or bool, (n,) each.
        option: "units" or "trials", for messages.

    Raises:
        RecordingError: naming the expression, what is wrong with it, and the columns.
    """
    columns = {re.sub(r"\W", "_", name): np.asarray(column) for name, column in table.items()}
    try:
        if len(expression) > _MAX_LENGTH:
            raise RecordingError(f"is longer than {_MAX_LENGTH} characters")
        return _rows(_value(ast.parse(expression.strip(), mode="eval").body, columns))
    except (SyntaxError, ValueError, TypeError, OverflowError, RecursionError, MemoryError) as exc:
        problem = str(exc) if isinstance(exc, RecordingError) else "is not a comparison of columns"
        raise RecordingError(
            f"{option}={expression[:200]!r} {problem}. The columns are {', '.join(sorted(columns))}."
        ) from exc


def _value(node: ast.expr, columns: Mapping[str, np.ndarray]):
    """The column (n,), constant, list, or bool (n,) that a node of the expression stands for."""
    match node:
        case ast.Name(id=name) if name in columns:
            return columns[name]
        case ast.Constant(value=str() | int() | float() as value):
            return value
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as value)):
            return -value
        case ast.List(elts=items) | ast.Tuple(elts=items):
            return [_value(item, columns) for item in items]
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return ~_rows(_value(operand, columns))
        case ast.BoolOp(op=op, values=values):
            combine = np.logical_and if isinstance(op, ast.And) else np.logical_or
            return combine.reduce([_rows(_value(value, columns)) for value in values])
        case ast.Compare(left=left, ops=[op], comparators=[right]):
            return _compare(type(op).__name__, _value(left, columns), _value(right, columns))
    raise RecordingError(f"may not use {ast.unparse(node)!r}")


def _rows(value) -> np.ndarray:
    if not isinstance(value, np.ndarray) or value.dtype != bool:
        raise RecordingError("has a part that is neither true nor false of a row")
    return value


def _compare(op: str, left, right) -> np.ndarray:
    if isinstance(left, list) or isinstance(right, list) != (op in ("In", "NotIn")):
        raise RecordingError("may use a list only after in, and in only before a list")
    if isinstance(right, list):
        found = np.any([_compare("Eq", left, value) for value in right], axis=0)
        return found if op == "In" else ~found
    left, right = np.asarray(left), np.asarray(right)
    if left.dtype.kind == "U" and right.dtype.kind in "iuf":  # names that are numbers, such as ids of units
        with contextlib.suppress(ValueError):
            left = left.astype(np.float64)
    if (left.dtype.kind == "U") != (right.dtype.kind == "U"):
        raise RecordingError("compares text with a number; text has quotes")
    return _COMPARE[op](left, right)
