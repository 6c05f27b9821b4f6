"""The steps of `decode` that read and prepare: recordings described, and checked before anything is trained on them."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
from tqdm import tqdm

from ..errors import RecordingError, prefix_errors
from ..spikes.data_report import data_report
from ..spikes.io import load_recording
from ..spikes.io.contents import Selection
from ..spikes.recording import Recording
from .baselines import search_lag
from .distributed import ProcessGroup
from .experiment import Settings
from .run_dir import safe_name
from .session import Session, prepare
from .transfer import combine_sessions
from .windows import sessions_of_rank


def read(source: Path, selection: Selection) -> Recording:
    """What a selection makes of a recording; reading a large file is announced. RecordingError as `load_recording`."""
    if source.is_file() and source.stat().st_size > 2e7:
        print(f"reading {source} ...", file=sys.stderr, flush=True)
    return load_recording(source, **asdict(selection))


def read_recordings(settings: Settings, group: ProcessGroup) -> dict[int, Recording]:
    """The recordings that this process trains on, by the index of their session, from 1. RecordingError as `read`."""
    recordings = {}
    for i in sessions_of_rank(group, len(settings.sources), settings.training.batch):
        try:
            recordings[i] = read(settings.sources[i - 1], settings.selection)
        except RecordingError as exc:
            if settings.start is None or not (settings.selection.units or settings.selection.trials):
                raise
            cure = 'filters are those of the run of --from where none is given; --units "" --trials "" takes all.'
            raise RecordingError(f"{exc} The {cure}") from exc
    return recordings


def prepare_sessions(recordings: Mapping[int, Recording], settings: Settings, group: ProcessGroup) -> list[Session]:
    """The recordings of this process as sessions of one model; the main process prints what all of them hold.

    Raises:
        RecordingError: a recording cannot be decoded meaningfully, or not together with the others.
    """
    width = settings.model.bin_width_s
    lag_s = 0.0 if settings.lag_s == "auto" else settings.lag_s
    sessions, about = {}, {}
    for i, recording in recordings.items():
        with prefix_errors(settings.sources[i - 1]):
            sessions[i] = prepare(recording, settings.split, lag_s, width, settings.training.seed)
            about[i] = recording.session_id, recording.behavior_columns.tolist(), describe(sessions[i])
    about = group.all_gather(about)
    _check_together(list(about.values()), settings)
    sessions = combine_sessions(list(sessions.values()), list(sessions), group)
    if group.is_main:
        print(*(description for *_, description in about.values()), sep="\n", flush=True)
    if settings.lag_s == "auto":
        lag_s = _best_lag(sessions, width, group)
        prepared = [prepare(s.recording, s.split_config, lag_s, width) for s in sessions]
        sessions = [replace(p, index=s.index, first_unit=s.first_unit) for p, s in zip(prepared, sessions, strict=True)]
    if group.is_main:
        print(f"lag {lag_s:g} s, bins of {width:g} s", flush=True)
    return sessions


def describe(session: Session) -> str:
    """What is decoded, in some lines. Raises RecordingError if the recording cannot be decoded meaningfully."""
    recording = session.recording
    parts = vars(session.split)
    report = data_report(recording, session.timeline.bin_width_s, parts)
    what = "trials" if len(recording.trials) >= len(parts) else "recorded time"
    sizes = [f"{len(p)}" if what == "trials" else f"{np.diff(p).sum():.1f} s" for p in parts.values()]
    line = f"{recording.session_id}: {session.split_config} of {what}: {', '.join(sizes)}"
    return "\n  ".join([line, *report, *(f"note: {note}" for note in recording.notes)])


def _check_together(about: Sequence[tuple], settings: Settings):
    """Raises RecordingError if sessions cannot share a decoder, or the name of their folder."""
    first = settings.sources[0]
    first_columns = about[0][1]
    if settings.start and len(first_columns) != (n := settings.start.config.n_outputs):
        raise RecordingError(f"{first}: decoded are {first_columns}, but {n} columns in the run of --from.")
    source_of_name = {}
    for source, (session_id, columns, _) in zip(settings.sources, about, strict=True):
        if columns != first_columns:
            raise RecordingError(f"{source}: decoded are {columns}, but {first_columns} in {first}.")
        name = safe_name(session_id)
        if name in source_of_name:
            both = f"{source_of_name[name]} and {source}: by their session_id, the results of both belong in a folder"
            raise RecordingError(f"{both} {name!r}; give one of them another session_id.")
        source_of_name[name] = source


def _best_lag(sessions: Sequence[Session], bin_width_s: float, group: ProcessGroup) -> float:
    """The largest lag whose validation R² of a Wiener filter, mean of the sessions, is within 0.01 of the best.

    The filter reads ten bins, so lags below the true one score alike; the largest of them decodes earliest.
    """
    step = max(bin_width_s / 2, 0.01)
    lags = np.round(step * np.arange(np.ceil(-0.2 / step - 1e-6), np.floor(0.3 / step + 1e-6) + 1), 6)
    scores = {}
    for session in sessions:
        bar = tqdm(lags, desc="lag", leave=False, disable=not group.is_main)
        scores[session.index] = search_lag(session.recording, bar, session.split_config, bin_width_s)
    mean = np.mean(list(group.all_gather(scores).values()), axis=0)
    if np.isnan(mean).any():
        raise RecordingError("--lag auto: behaviour does not change in the validation part; give a number.")
    if group.is_main:
        best = f"{mean.max():.2f} with a lag of {lags[mean.argmax()]:g} s"
        print(f"validation R² of a Wiener filter: at best {best}; the largest lag within 0.01 of it is taken")
    return float(lags[mean >= mean.max() - 0.01][-1])
