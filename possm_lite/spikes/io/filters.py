"""Filters of units and trials: comparisons of the columns of a table, such as "quality == 'good' and rate > 1"."""

import ast
import operator
import re
from collections.abc import Mapping

import numpy as np

from ...errors import RecordingError

_MAX_LENGTH = 500
_COMPARISONS = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda left, right: np.any([_compare(operator.eq, left, value) for value in right], axis=0),
    ast.NotIn: lambda left, right: ~np.any([_compare(operator.eq, left, value) for value in right], axis=0),
}


def matching_rows(expression: str, table: Mapping[str, np.ndarray], option: str) -> np.ndarray:
    """The rows of a table for which an expression holds, shape (n,), bool.

    The expression is parsed, never executed. It may have names of columns (other characters than letters and digits
    written as _), numbers, texts in quotes, True and False, lists of these, ==, !=, <, <=, >, >=, in, not in, and, or,
    not and parentheses.

    Args:
        expression: the filter; it may come from an untrusted file.
        table: columns, (n,) each, of numbers, text or bool.
        option: "units" or "trials", for messages.

    Raises:
        RecordingError: naming the expression, what is wrong with it, and the columns.
    """
    columns = {re.sub(r"\W", "_", name): np.asarray(column) for name, column in table.items()}
    try:
        if len(expression) > _MAX_LENGTH:
            raise RecordingError(f"is longer than {_MAX_LENGTH} characters")
        rows = _evaluate(ast.parse(expression.strip(), mode="eval").body, columns)
        if not isinstance(rows, np.ndarray) or rows.dtype != bool:
            raise RecordingError("compares no column")
    except (SyntaxError, ValueError, TypeError, OverflowError, RecursionError, MemoryError) as exc:
        problem = str(exc) if isinstance(exc, RecordingError) else "is not a comparison of columns"
        raise RecordingError(
            f"{option}={expression[:200]!r} {problem}. The columns are {', '.join(sorted(columns))}; "
            "an example: duration > 0.5 and id != '3'."
        ) from exc
    return rows


def _evaluate(node: ast.expr, columns: Mapping[str, np.ndarray]):
    """The column, constant, list or bool (n,) that a node stands for."""
    match node:
        case ast.Name(id=name) if name in columns:
            return columns[name]
        case ast.Name(id=name):
            raise RecordingError(f"names {name}, which is not a column")
        case ast.Constant(value=bool() | str() as value):
            return value
        case ast.Constant(value=int() | float() as value):
            return float(value)
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as value)):
            return -float(value)
        case ast.List(elts=items) | ast.Tuple(elts=items) | ast.Set(elts=items):
            return [_evaluate(item, columns) for item in items]
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return ~_truth(_evaluate(operand, columns))
        case ast.BoolOp(op=op, values=values):
            combine = np.logical_and if isinstance(op, ast.And) else np.logical_or
            return combine.reduce([_truth(_evaluate(value, columns)) for value in values])
        case ast.Compare(left=left, ops=ops, comparators=right):
            values = [_evaluate(value, columns) for value in (left, *right)]
            pairs = zip(ops, values[:-1], values[1:], strict=True)
            return np.logical_and.reduce([_compare(_COMPARISONS[type(op)], a, b) for op, a, b in pairs])
    raise RecordingError(f"may not use {ast.unparse(node)!r}")


def _truth(value) -> np.ndarray:
    if not isinstance(value, np.ndarray) or value.dtype != bool:
        raise RecordingError("joins what is not true or false with and, or, not")
    return value


def _compare(comparison, left, right) -> np.ndarray:
    if isinstance(right, list) != (comparison in (_COMPARISONS[ast.In], _COMPARISONS[ast.NotIn])):
        raise RecordingError("uses a list otherwise than after in, or in without a list")
    if not isinstance(right, list):
        left, right = _as_numbers(left, right), _as_numbers(right, left)
        if (np.asarray(left).dtype.kind == "U") != (np.asarray(right).dtype.kind == "U"):
            raise RecordingError("compares text with a number; text is written in quotes")
    return comparison(left, right)


def _as_numbers(value, other):
    """A column of texts that are numbers, such as names of units, as numbers where it is compared with one."""
    if isinstance(value, np.ndarray) and value.dtype.kind == "U" and np.asarray(other).dtype.kind == "f":
        try:
            return value.astype(np.float64)
        except ValueError:
            return value
    return value
