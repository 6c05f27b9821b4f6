"""The one way from what a reader finds in a file to a `Recording`: chosen, mended, checked."""

from dataclasses import replace

import numpy as np

from ...errors import RecordingError, listed
from ..clocks import UNITS_OF_TIME
from ..data_report import align_remedy
from ..recording import Recording, covered_trials
from .contents import Contents, Selection, contents_of
from .select_behavior import select_behavior
from .select_trials import select_trials
from .select_units import select_units
from .series_names import split_suffix

_NO_SERIES = (
    "has spikes alone, no series of behaviour such as hand_vel: add one and save the file again. "
    "The layouts that are read: CONVERTERS.md."
)


def assemble(found: Contents | Recording, selection: Selection) -> Recording:
    """The recording that a selection makes of what is in a file.

    Where a file holds a recording as it is, that is returned unless something is selected; its
    behaviour is never differentiated.

    Args:
        found: what the reader of the file returned.
        selection: what of it is wanted.

    Returns:
        The recording; every choice and repair is one of its notes.

    Raises:
        RecordingError: what is selected is not in the file, or cannot be used.
    """
    if isinstance(found, Recording):
        found = contents_of(found)
    if found.recording is not None:
        if selection == Selection():
            return found.recording
        if not found.series and not selection.behavior:
            selection = replace(selection, spikes_only=True)
    notes = list(found.notes)
    spikes = select_units(found, selection.units, notes)
    trials, labels = select_trials(found, selection.trials, notes)
    behavior = {}
    if not selection.spikes_only:
        _check_series(found, selection)
        # clocks are compared with those spikes that are used
        found = found._replace(**spikes, trials=trials, trial_table=labels)
        behavior = select_behavior(found, selection, notes)
        trials = behavior.pop("trials", trials)
        trials = _drop_uncovered(trials, behavior["behavior_times"], notes)
    return Recording(
        **spikes, **behavior, trials=trials, session_id=found.session_id, notes=tuple(notes)
    )


def _check_series(contents: Contents, selection: Selection):
    """Raise RecordingError if there is nothing to choose from, and no labels of trials."""
    chosen = {split_suffix(name)[0] for name in selection.behavior}
    are_of_trials = chosen and chosen <= contents.trial_table.keys()
    if are_of_trials or (contents.series and not contents.behavior_error):
        return
    labels = listed(list(contents.trial_table))
    hint = f" Trials have {labels}: name one with --behavior." if labels else ""
    raise RecordingError((contents.behavior_error or _NO_SERIES) + hint)


def _uncovered(trials: np.ndarray, behavior_times: np.ndarray) -> str:
    """Why behaviour covers none of the trials, (n, 2) s: both spans, and the likely cause.

    From reports: intervals in milliseconds or samples (nwbinspector #5).
    """
    start, stop = behavior_times[[0, -1]]
    first, last = trials.min(), trials.max()
    spans = (
        f"behaviour covers none of the trials: trials are at {first:,.1f} to {last:,.1f} s, "
        f"behaviour at {start:,.1f} to {stop:,.1f} s"
    )
    for factor, unit in UNITS_OF_TIME.items():
        is_inside = start - 1 <= first / factor and last / factor <= stop + 0.1 * (stop - start)
        if last - first > 3 * (stop - start) and is_inside and last / factor > 0.3 * stop:
            return f"{spans}. The trials look like {unit}: divide them by {factor:,.10g}."
    if last < start or first > stop:
        remedy = align_remedy(first - start, "the start and stop of each trial")
        return f"{spans}: two clocks. {remedy[:-1]}; or save the file without trials."
    return f"{spans}. Behaviour has a gap in each trial, or trials are longer than it."


def _drop_uncovered(trials: np.ndarray, behavior_times: np.ndarray, notes: list[str]) -> np.ndarray:
    """The trials, (n, 2) s, that behaviour covers; RecordingError if it covers none."""
    covered = covered_trials(trials, behavior_times)
    if len(trials) and not covered.any():
        raise RecordingError(_uncovered(trials, behavior_times))
    if not covered.all():
        notes.append(
            f"{(~covered).sum()} of {len(trials)} trials were left out: behaviour is missing at "
            "their start or end."
        )
    return trials[covered]
