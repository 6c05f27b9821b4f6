"""Filters of units and trials, such as "quality == 'good' and rate > 1".

They are comparisons of the columns of a table.
"""

import ast
import operator
import re
from collections.abc import Mapping

import numpy as np

from ...errors import RecordingError


def _not_in(column: np.ndarray, values: np.ndarray) -> np.ndarray:
    """True where a value of the column is none of these."""
    return ~np.isin(column, values)


_COMPARE = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: np.isin,
    ast.NotIn: _not_in,
}


def matching_rows(expression: str, table: Mapping[str, np.ndarray], option: str) -> np.ndarray:
    """The rows of a table for which an expression holds.

    It is parsed, never executed: a column (_ for other characters than letters and digits) compared
    with a number, a text or a list of them, or a column of truth values, joined by and, or, not.

    Args:
        expression: the filter; it may come from an untrusted file.
        table: columns of numbers, text or bool by name, (n,) each.
        option: "units" or "trials", for messages.

    Returns:
        True for each row for which it holds, (n,), bool.

    Raises:
        RecordingError: naming the option, the expression, what is wrong with it, and the columns.
    """
    columns = {re.sub(r"\W", "_", name): column for name, column in table.items()}
    try:
        return _rows(ast.parse(expression.strip(), mode="eval").body, columns)
    except Exception as exc:  # of text that is no expression, or of a value that cannot be compared
        names = ", ".join(sorted(columns))
        raise RecordingError(
            f"{option}={expression!r:.200} is no filter of the columns {names}: {_reason(exc)}."
        ) from exc


def _reason(error: Exception) -> str:
    """What is wrong with a filter, without the words of Python's parser."""
    if isinstance(error, KeyError):
        return f"there is no column {error.args[0]}"
    if isinstance(error, RecordingError):
        return str(error)
    return "write it as quality == 'good' and rate > 1, with two = and text in quotes"


def _rows(node: ast.expr, columns: Mapping[str, np.ndarray]) -> np.ndarray:
    """The rows for which a node of the expression holds, (n,) bool."""
    match node:
        case ast.Name(id=name) if columns[name].dtype == bool:
            return columns[name]
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return ~_rows(operand, columns)
        case ast.BoolOp(op=op, values=values):
            combine = np.logical_and if isinstance(op, ast.And) else np.logical_or
            return combine.reduce([_rows(value, columns) for value in values])
        case ast.Compare(left=ast.Name(id=name), ops=[op], comparators=[right]):
            return _compare(name, columns[name], op, right)
    raise RecordingError(f"it may not use {ast.unparse(node)[:80]!r}")


def _compare(name: str, column: np.ndarray, op: ast.cmpop, right: ast.expr) -> np.ndarray:
    """The rows of a column whose value compares so with a constant or a list, (n,) bool."""
    values = np.asarray(ast.literal_eval(right))
    is_text = column.dtype.kind == "U"
    if is_text and values.dtype.kind in "iuf" and np.char.isdecimal(column).all():  # ids
        column = column.astype(np.float64)
        is_text = False
    is_list = isinstance(op, ast.In | ast.NotIn)
    if is_text != (values.dtype.kind == "U") or values.ndim != is_list:
        raise RecordingError(
            f"it compares {name}, {column.dtype}, with {ast.unparse(right)}; text has quotes"
        )
    return _COMPARE[type(op)](column, values)
