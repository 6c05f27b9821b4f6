"""Apply a trained decoder to another recording, which may have spikes alone."""

from dataclasses import replace
from pathlib import Path

import numpy as np

from ..decoder.possm import POSSM
from ..decoder.stream import StreamingDecoder
from ..errors import RecordingError, listed, prefix_errors
from ..recordings.formats import load_recording
from ..recordings.formats.assemble import Selection
from ..recordings.recording import Recording
from ..recordings.split import Split, SplitConfig, recorded_time
from ..recordings.timeline import Timeline
from ..training.checkpoint import TrainedOn
from ..training.evaluate import Replay, replay
from ..training.session import Session

_STEP_S = 0.01  # longest time between two outputs


def read_matching(source: Path, trained_on: TrainedOn, **selection) -> Recording:
    """The recording, read as for the training but for `selection`, with the units of the decoder in its order.

    Units that a filter chose in the training are taken by name: it may choose others here. RecordingError for other
    units, or behaviour with other columns or in another unit.
    """
    selection = replace(trained_on.selection, **selection)
    recording = load_recording(source, **vars(replace(selection, units="")))
    with prefix_errors(source):
        recording = _match_units(recording, trained_on.unit_ids, selection)
        for name in ("behavior_columns", "behavior_unit") if len(recording.behavior_times) else ():
            found, theirs = (np.array(getattr(one, name)).tolist() for one in (recording, trained_on))
            if found != theirs:
                raise RecordingError(f"{name} is {str(found)[:99]}, the decoder was trained on {str(theirs)[:99]}.")
    return recording


def _match_units(recording: Recording, unit_ids: tuple[str, ...], selection: Selection) -> Recording:
    """The recording with these units, in this order."""
    names = tuple(recording.unit_ids.tolist())
    if names == unit_ids:
        return recording
    missing = sorted({*unit_ids} - {*names})
    unknown = sorted({*names} - {*unit_ids})
    if missing or (unknown and not selection.units):
        raise RecordingError(
            f"unit_ids are not those the decoder was trained on: of {len(unit_ids)}, {len(missing)} are missing "
            f"({listed(missing) or 'none'}), and {len(unknown)} are unknown ({listed(unknown) or 'none'}). "
            "Adapt it: possm-lite decode --from RUN"
        )
    new_index = np.array([unit_ids.index(name) if name in unit_ids else -1 for name in names])
    units = new_index[recording.spike_units]
    chosen = f", instead of by {selection.units}" if selection.units else ""
    return replace(
        recording,
        spike_times=recording.spike_times[units >= 0],
        spike_units=units[units >= 0],
        unit_ids=unit_ids,
        notes=(*recording.notes, f"Units were taken by name, in the order of the decoder{chosen}."),
    )


def read_for_prediction(source: Path, trained_on: TrainedOn) -> Recording:
    """As `read_matching`; without the behaviour or the trials of the training, spikes alone, and a note."""
    try:
        return read_matching(source, trained_on)
    except RecordingError as exc:
        recording = read_matching(source, trained_on, trials="", spikes_only=True)
        return replace(recording, notes=(*recording.notes, f"behaviour was not read: {exc}"))


def even_offsets(bin_width_s: float) -> np.ndarray:
    """Times in a bin that behaviour is decoded at, 10 ms or less apart, (n_slots,); seconds, the first is 0."""
    n_slots = int(np.ceil(bin_width_s / _STEP_S - 1e-6))
    return np.arange(n_slots) * (bin_width_s / n_slots)


def predict(model: POSSM, recording: Recording, lag_s: float = 0.0) -> tuple[np.ndarray, np.ndarray, Replay]:
    """Decode all of a recording, bin by bin: where it has behaviour, or its trials, or its spikes.

    Returns times (T,) on the clock of behaviour; behaviour decoded there (T, C); and the replay.
    """
    width = model.config.bin_width_s
    if len(recording.behavior_times):
        intervals = recorded_time(recording)
    elif len(recording.trials):
        intervals = recording.trials
    else:
        intervals = np.array([recording.span]) + [lag_s, lag_s + width]
    offsets = even_offsets(width)
    scale = np.zeros(recording.n_columns)
    session = Session(Timeline(recording, lag_s, width), SplitConfig(), Split(*[intervals] * 3), scale, scale)
    played = replay(StreamingDecoder(model, 1, offsets), session)
    starts, stops = (np.repeat(edge, played.bins) for edge in session.segments("test").T)  # of the segment of each bin
    bins = np.concatenate([np.arange(n) for n in played.bins])
    times = (starts + bins * width)[:, None] + offsets
    inside = (times < stops[:, None]).ravel()  # the last bin ends after the segment
    return times.ravel()[inside], played.outputs[inside], played
