"""The trials that are chosen, in order and without overlap."""

import numpy as np

from ...errors import RecordingError
from .contents import Contents
from .select_rows import as_numbers, drop_rows, select_rows


def select_trials(contents: Contents, expression: str, notes: list[str]) -> np.ndarray:
    """Start and stop of the trials that the filter chooses, in order and without overlap, (n, 2)."""
    if len(contents.trials) == 0:
        notes.append("There are no trials.")
        if expression:
            raise RecordingError(f"trials={expression!r}: the file has no trials to choose from.")
        return np.empty((0, 2))
    trials = as_numbers(contents.trials)
    start, stop = trials.T
    table = {"start": start, "stop": stop, "duration": stop - start, **contents.trial_table}
    trials = trials[select_rows("trials", expression, table, notes)]
    bad = ~(trials[:, 0] < trials[:, 1]) | np.isinf(trials).any(axis=1)  # True for NaN
    (trials,) = drop_rows(bad, (trials,), "trials without a stop after their start", notes)
    trials = trials[np.argsort(trials[:, 0], kind="stable")]
    overlap = trials[:-1, 1] - trials[1:, 0]
    if n := (overlap > 0).sum():
        by = f"by up to {overlap.max():.1g} s"
        notes.append(
            f"{n} of {len(trials)} trials overlapped the next one {by} and now end where it starts."
        )
    trials[:-1, 1] = np.minimum(trials[:-1, 1], trials[1:, 0])
    return trials
