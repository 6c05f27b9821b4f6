"""Rows of tables: the units and trials that a filter chooses, and rows that are left out."""

from collections.abc import Mapping, Sequence

import numpy as np

from ...errors import RecordingError, as_option
from .filters import matching_rows, values_of


def drop_rows(
    bad: np.ndarray, arrays: Sequence[np.ndarray], what: str, notes: list[str]
) -> list[np.ndarray]:
    """Arrays without their bad rows.

    Args:
        bad: True for each row that is left out, (n,), bool.
        arrays: of n rows each.
        what: the rows are, for the note.
        notes: gets a note with the number of rows left out, if there are any.
    """
    if bad.any():
        notes.append(f"{bad.sum()} of {len(bad)} {what} were left out.")
    return [array[~bad] for array in arrays]


def as_numbers(array) -> np.ndarray:
    """A copy of an `array` as float64, of its shape.

    Raises:
        TypeError: it holds text, which NumPy would convert, or complex numbers.
    """
    return np.asarray(array).astype(np.float64, casting="same_kind")


def select_rows(
    option: str, expression: str, table: Mapping[str, np.ndarray], notes: list[str]
) -> np.ndarray:
    """The units or trials for which a filter holds.

    Args:
        option: "units" or "trials", for the note and for messages.
        expression: the filter; "" for all.
        table: columns by name, (n,) each.
        notes: gets a note with the filter and the number of rows, if there is a filter.

    Returns:
        True for each row that is chosen, (n,), bool.

    Raises:
        RecordingError: columns differ in length, or the filter is invalid or holds for no row.
    """
    lengths = {len(column) for column in table.values()}
    if len(lengths) > 1:
        raise RecordingError(
            f"the columns of the table of {option} differ in length: {sorted(lengths)}."
        )
    (n,) = lengths
    if not expression:
        return np.ones(n, dtype=bool)
    kept = matching_rows(expression, table, option)
    notes.append(f"{kept.sum()} of {n} {option} were chosen: {expression}.")
    if not kept.any():
        reason = "; ".join([f"none of the {n} {option} fits", *values_of(expression, table)])
        raise RecordingError(f"{as_option(option, expression)}: {reason}.")
    return kept
