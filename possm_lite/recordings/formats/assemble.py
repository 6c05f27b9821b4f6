"""The one way from what a reader finds in a file to a `Recording`: chosen, mended, checked."""

from dataclasses import replace

import numpy as np

from ...errors import RecordingError
from ..data_report import UNITS_OF_TIME, align_remedy
from ..recording import Recording, covered_trials
from .contents import Contents, Selection, Series
from .select_behavior import select_behavior
from .select_trials import select_trials
from .select_units import select_units

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
        if selection == Selection():
            return found
        if len(found.behavior_times) == 0 and not selection.behavior:
            selection = replace(selection, spikes_only=True)
        found = _contents_of(found)
    notes = list(found.notes)
    spikes = select_units(found, selection.units, notes)
    trials = select_trials(found, selection.trials, notes)
    behavior = {}
    if not selection.spikes_only:
        if found.behavior_error or not found.series:
            raise RecordingError(found.behavior_error or _NO_SERIES)
        # clocks are compared with those spikes that are used
        behavior = select_behavior(found._replace(**spikes), selection, notes)
        trials = _drop_uncovered(trials, behavior["behavior_times"], notes)
    return Recording(
        **spikes, **behavior, trials=trials, session_id=found.session_id, notes=tuple(notes)
    )


def _contents_of(recording: Recording) -> Contents:
    """A recording as contents of a file, whose behaviour is decoded as it is."""
    series = []
    if len(recording.behavior_times):
        decoded = Series(
            recording.behavior_name,
            lambda: (recording.behavior_times, recording.behavior),
            recording.behavior_unit,
            is_position=False,
            columns=tuple(recording.behavior_columns.tolist()),
        )
        series.append(decoded)
    return Contents(
        recording.spike_times,
        recording.spike_units,
        recording.unit_ids,
        series,
        recording.session_id,
        recording.trials,
        default=(recording.behavior_name,),
        notes=recording.notes,
    )


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
