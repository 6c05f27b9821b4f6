"""Apply a trained decoder to another recording, which may have spikes alone."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from ..decoder.possm import POSSM
from ..decoder.stream import StreamingDecoder
from ..errors import RecordingError, listed, prefix_errors
from ..spikes.io.contents import Selection
from ..spikes.recording import Recording
from ..spikes.split import Split, SplitConfig, recorded_time
from ..spikes.timeline import Timeline
from .checkpoint import TrainedOn
from .evaluate import Replay, replay
from .loading import read
from .session import Session

_STEP_S = 0.01  # longest time between two outputs


def read_matching(source: Path, trained_on: TrainedOn, **selection) -> Recording:
    """The recording, read as for the training, with its units in the order of the decoder; a changed order is noted.

    Where the training had a filter of units, those of the decoder are taken by name. `selection`: fields of the
    `Selection` that differ from that of the training.

    Raises:
        RecordingError: it cannot be used; has other units; or behaviour with other columns or in another unit.
    """
    trained = list(trained_on.unit_ids)
    recording = _read_units(source, replace(trained_on.selection, **selection), trained)
    names = recording.unit_ids.tolist()
    with prefix_errors(source):
        missing = sorted({*trained} - {*names})
        unknown = sorted({*names} - {*trained})
        if missing or unknown:
            found = f"of {len(trained)}, {len(missing)} are missing ({listed(missing) or 'none'})"
            raise RecordingError(
                f"unit_ids are not those the decoder was trained on: {found}, and {len(unknown)} are unknown "
                f"({listed(unknown) or 'none'}). Adapt it: possm-lite decode --from RUN"
            )
        for name in ("behavior_columns", "behavior_unit") if len(recording.behavior_times) else ():
            found, theirs = (np.array(getattr(one, name)).tolist() for one in (recording, trained_on))
            if found != theirs:
                raise RecordingError(f"{name} is {str(found)[:99]}, the decoder was trained on {str(theirs)[:99]}.")
    if names == trained:
        return recording
    note = "Units were put into the order of the decoder, by name."
    return _with_units(recording, trained, [trained.index(name) for name in names], note)


def _read_units(source: Path, selection: Selection, unit_ids: Sequence[str]) -> Recording:
    """The recording; where a filter chooses units, those of `unit_ids` by name, as it may choose others here."""
    recording = read(source, replace(selection, units=""))
    kept = np.isin(recording.unit_ids, unit_ids)
    if not selection.units:
        return recording
    if kept.sum() < len(unit_ids):  # a reader numbers equal names: the filter may leave one of them
        return read(source, selection)
    note = f"Units were chosen by name, not by {selection.units}, which may choose others here."
    return _with_units(recording, recording.unit_ids[kept], np.where(kept, np.cumsum(kept) - 1, -1), note)


def _with_units(recording: Recording, unit_ids: Sequence[str], new_index: Sequence[int], note: str) -> Recording:
    """The recording with its units numbered anew, -1: left out."""
    units = np.asarray(new_index)[recording.spike_units]
    return replace(
        recording,
        spike_times=recording.spike_times[units >= 0],
        spike_units=units[units >= 0],
        unit_ids=unit_ids,
        notes=(*recording.notes, note),
    )


def read_for_prediction(source: Path, trained_on: TrainedOn) -> tuple[Recording, list[str]]:
    """As much of a recording as it has of what the decoder was trained on, and notes on what it has not.

    Without its filter of trials all are read; without its behaviour, spikes alone. Raises RecordingError as
    `read_matching`.
    """
    attempts = {"all trials were decoded": {}, "behaviour was not read": {"trials": ""}}  # what follows if it fails
    if not trained_on.selection.trials:
        del attempts["all trials were decoded"]
    notes = []
    for consequence, selection in attempts.items():
        try:
            return read_matching(source, trained_on, **selection), notes
        except RecordingError as exc:
            notes = [f"{consequence}: {exc}"]
    return read_matching(source, trained_on, trials="", spikes_only=True), notes


def even_offsets(bin_width_s: float) -> np.ndarray:
    """Times in a bin that behaviour is decoded at, 10 ms or less apart, (n_slots,); seconds, the first is 0."""
    n_slots = int(np.ceil(bin_width_s / _STEP_S - 1e-6))
    return np.arange(n_slots) * (bin_width_s / n_slots)


def predict(model: POSSM, recording: Recording, lag_s: float = 0.0) -> tuple[np.ndarray, np.ndarray, Replay]:
    """Decode all of a recording, bin by bin: where it has behaviour, or its trials, or its spikes.

    The model is of its units, in this order. Returns times (T,) on the clock of behaviour, 10 ms or less apart;
    behaviour decoded there (T, C); and the replay, with R² if behaviour was recorded.
    """
    width = model.config.bin_width_s
    if len(recording.behavior_times):
        intervals = recorded_time(recording)
    else:
        intervals = recording.trials if len(recording.trials) else np.array([recording.span]) + [lag_s, lag_s + width]
    offsets = even_offsets(width)
    scale = np.zeros(recording.n_columns)
    session = Session(Timeline(recording, lag_s, width), SplitConfig(), Split(*[intervals] * 3), scale, scale)
    played = replay(StreamingDecoder(model, 1, offsets), session, progress="decoding")
    starts, stops = (np.repeat(edge, played.bins) for edge in session.segments("test").T)  # of the segment of each bin
    bins = np.concatenate([np.arange(n) for n in played.bins])
    times = (starts + bins * width)[:, None] + offsets
    inside = (times < stops[:, None]).ravel()  # the last bin ends after the segment
    return times.ravel()[inside], played.outputs[inside], played
