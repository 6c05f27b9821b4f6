"""Rows of tables: the units and trials that a filter chooses, and rows that are left out."""

from collections.abc import Mapping, Sequence

import numpy as np

from ...errors import RecordingError
from .filters import matching_rows


def drop_rows(
    bad: np.ndarray, arrays: Sequence[np.ndarray], what: str, notes: list[str]
) -> list[np.ndarray]:
    """The arrays without the bad rows, which a note counts."""
    if bad.any():
        notes.append(f"{bad.sum()} of {len(bad)} {what} were left out.")
    return [array[~bad] for array in arrays]


def as_numbers(array) -> np.ndarray:
    """A copy as float64. Raises TypeError for text, which NumPy would convert, and for complex numbers."""
    return np.asarray(array).astype(np.float64, casting="same_kind")


def select_rows(
    option: str, expression: str, table: Mapping[str, np.ndarray], notes: list[str]
) -> np.ndarray:
    """The units or trials for which the filter holds, (n,) bool."""
    lengths = {len(column) for column in table.values()}
    if len(lengths) > 1:
        raise RecordingError(
            f"the columns of the table of {option} differ in length: {sorted(lengths)}."
        )
    kept = np.ones(*lengths, dtype=bool)
    if expression:
        kept = matching_rows(expression, table, option)
        notes.append(f"{kept.sum()} of {len(kept)} {option} were chosen: {expression}.")
        if not kept.any():
            raise RecordingError(
                f"{option}={expression!r} holds for none of the {len(kept)} {option}."
            )
    return kept
