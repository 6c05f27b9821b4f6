"""What a reader finds in a file, and the one way from there to a `Recording`: chosen, filtered, mended, checked."""

from dataclasses import replace

from ...errors import RecordingError
from ..recording import Recording, covered_trials
from .contents import Contents, Selection, Series
from .select_behavior import select_behavior
from .select_rows import drop_rows
from .select_trials import select_trials
from .select_units import select_units


def assemble(found: Contents | Recording, selection: Selection) -> Recording:
    """The recording that a selection makes of what is in a file; every choice and repair is a note.

    Where a file holds a recording as it is, that is returned unless something is selected; its behaviour is never
    differentiated. Raises RecordingError.
    """
    if isinstance(found, Recording):
        if selection == Selection():
            return found
        if len(found.behavior_times) == 0 and not selection.behavior:
            selection = replace(selection, spikes_only=True)
        r = found
        columns = tuple(r.behavior_columns.tolist())
        series = [
            Series(
                r.behavior_name,
                lambda: (r.behavior_times, r.behavior),
                r.behavior_unit,
                False,
                columns,
            )
        ]
        series = series if len(r.behavior_times) else []
        spikes = r.spike_times, r.spike_units, r.unit_ids
        found = Contents(
            *spikes, series, r.session_id, r.trials, default=(r.behavior_name,), notes=r.notes
        )
    notes = list(found.notes)
    spikes = select_units(found, selection.units, notes)
    trials = select_trials(found, selection.trials, notes)
    behavior = {}
    if not selection.spikes_only:
        behavior = select_behavior(found, selection, notes)
        covered = covered_trials(trials, behavior["behavior_times"])
        if len(trials) and not covered.any():
            raise RecordingError(
                "behaviour covers none of the trials: is their unit of time or clock another?"
            )
        (trials,) = drop_rows(~covered, (trials,), "trials that behaviour does not cover", notes)
    return Recording(
        **spikes, **behavior, trials=trials, session_id=found.session_id, notes=tuple(notes)
    )
