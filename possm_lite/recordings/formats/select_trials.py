"""The trials that are chosen, in order and without overlap. Rules about trials belong here."""

import numpy as np

from ...errors import RecordingError, as_option
from .contents import Contents
from .select_rows import as_numbers, drop_rows, select_rows


def select_trials(
    contents: Contents, expression: str, notes: list[str]
) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """The trials that a filter chooses.

    Args:
        contents: what is in the file.
        expression: the filter, of the columns of the file's table of trials, `start`, `stop` and
            `duration` in seconds; "" for all.
        notes: gets a note of each choice, of trials that are left out, and of those that end
            earlier.

    Returns:
        Start and stop in seconds, in order and without overlap, (n, 2); and the further columns of
        these trials, by name, (n,) each.

    Raises:
        RecordingError: the filter chooses no trial, or the file has none to choose from.
    """
    if len(contents.trials) == 0:
        notes.append("There are no trials.")
        if expression:
            raise RecordingError(
                f"{as_option('trials', expression)}: the file has no trials to choose from."
            )
        return np.empty((0, 2)), {}
    trials = as_numbers(contents.trials)
    start, stop = trials.T
    table = {"start": start, "stop": stop, "duration": stop - start, **contents.trial_table}
    row = np.flatnonzero(select_rows("trials", expression, table, notes))
    trials = trials[row]
    bad = ~(trials[:, 0] < trials[:, 1]) | np.isinf(trials).any(axis=1)  # True for NaN
    what = "trials without a stop after their start"
    trials, row = drop_rows(bad, (trials, row), what, notes)
    order = np.argsort(trials[:, 0], kind="stable")
    columns = {name: column[row[order]] for name, column in contents.trial_table.items()}
    return _without_overlap(trials[order], notes), columns


def _without_overlap(trials: np.ndarray, notes: list[str]) -> np.ndarray:
    """Trials, (n, 2) s, in order, each of which ends where the next one starts, or earlier."""
    overlap = trials[:-1, 1] - trials[1:, 0]
    n = (overlap > 0).sum()
    if n:
        by = f"by up to {overlap.max():.1g} s"
        notes.append(
            f"{n} of {len(trials)} trials overlapped the next one {by} and now end where it starts."
        )
    trials[:-1, 1] = np.minimum(trials[:-1, 1], trials[1:, 0])
    return trials
