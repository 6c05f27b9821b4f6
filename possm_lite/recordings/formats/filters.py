"""Filters of units and trials, such as "quality == 'good' and rate > 1".

They are comparisons of the columns of a table.
"""

import ast
import operator
import re
from collections.abc import Mapping

import numpy as np

from ...errors import RecordingError, as_option, listed


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
        where = f"{as_option(option, expression)}: "
        if isinstance(exc, KeyError):
            where += f"the table of {option} has no column {exc.args[0]}, only {names}."
        elif isinstance(exc, RecordingError):
            where += f"{exc}. The columns are {names}."
        else:
            where += (
                "write it as quality == 'good' and rate > 1, with two = and text in quotes. "
                f"The columns are {names}."
            )
        raise RecordingError(where) from exc


def values_of(expression: str, table: Mapping[str, np.ndarray]) -> list[str]:
    """What the columns hold that an expression names, such as "rate is 2.1 to 31".

    Args:
        expression: a filter of `matching_rows`.
        table: as there.
    """
    columns = {re.sub(r"\W", "_", name): column for name, column in table.items()}
    found = []
    for name in dict.fromkeys(re.findall(r"\w+", expression)):
        column = columns.get(name, np.empty(0))
        if column.dtype.kind in "US" and len(column):
            found.append(f"{name} is {listed(np.unique(column).tolist())}")
        elif column.dtype.kind in "iuf" and np.isfinite(column).any():
            low, high = np.min(column[np.isfinite(column)]), np.max(column[np.isfinite(column)])
            found.append(f"{name} is {low:.3g} to {high:.3g}" if low < high else f"{name} is {low}")
    return found


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
    raise RecordingError(
        f"{ast.unparse(node)[:80]} cannot be used: compare a column with a value, and join several "
        "comparisons by and, or, not, such as rate > 1 and rate < 100"
    )


def _compare(name: str, column: np.ndarray, op: ast.cmpop, right: ast.expr) -> np.ndarray:
    """The rows of a column whose value compares so with a constant or a list, (n,) bool."""
    values = np.asarray(ast.literal_eval(right))
    is_text = column.dtype.kind == "U"
    if is_text and values.dtype.kind in "iuf" and np.char.isdecimal(column).all():  # ids
        column = column.astype(np.float64)
        is_text = False
    is_list = isinstance(op, ast.In | ast.NotIn)
    if is_text != (values.dtype.kind == "U") or values.ndim != is_list:
        holds = "text" if is_text else "truth values" if column.dtype == bool else "numbers"
        raise RecordingError(
            f"{name} holds {holds} and cannot be compared so with {ast.unparse(right)[:80]}: text "
            "is in quotes, numbers are not, and a list needs in"
        )
    return _COMPARE[type(op)](column, values)
