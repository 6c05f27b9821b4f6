"""Filters of units and trials: comparisons of the columns of a table, such as "quality == 'good' and rate > 1"."""

import ast
import operator
import re
from collections.abc import Mapping

import numpy as np

from ...errors import RecordingError

_COMPARE = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: np.isin,
    ast.NotIn: lambda column, values: ~np.isin(column, values),
}


def matching_rows(expression: str, table: Mapping[str, np.ndarray], option: str) -> np.ndarray:
    """The rows of a table for which an expression holds, shape (n,), bool.

    It is parsed, never executed: a column (_ for other characters than letters and digits) compared with a number, a
    text or a list of them, or a column of truth values, joined by and, or, not. RecordingError names the `option`.
    """
    columns = {re.sub(r"\W", "_", name): column for name, column in table.items()}
    try:
        return _rows(ast.parse(expression.strip(), mode="eval").body, columns)
    except Exception as exc:  # of text that is no expression, or of a value that cannot be compared
        names = ", ".join(sorted(columns))
        raise RecordingError(
            f"{option}={expression!r:.200} is no filter of the columns {names}: {exc}."
        ) from exc


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
            column, values = columns[name], np.asarray(ast.literal_eval(right))
            if (
                column.dtype.kind == "U"
                and values.dtype.kind in "iuf"
                and np.char.isdecimal(column).all()
            ):  # ids
                column = column.astype(np.float64)
            is_list = isinstance(op, ast.In | ast.NotIn)
            if (column.dtype.kind == "U") != (values.dtype.kind == "U") or values.ndim != is_list:
                raise RecordingError(
                    f"it compares {name}, {column.dtype}, with {ast.unparse(right)}; text has quotes"
                )
            return _COMPARE[type(op)](column, values)
    raise RecordingError(f"it may not use {ast.unparse(node)[:80]!r}")
