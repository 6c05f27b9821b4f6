"""Recordings for the commands: read, described, and checked before anything is trained on them."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np
from tqdm import tqdm

from ..errors import RecordingError, prefix_errors
from ..spikes.data_report import data_report
from ..spikes.io import load_recording
from ..spikes.io.contents import Selection
from ..spikes.recording import Recording
from .baselines import search_lag
from .checkpoint import TrainedOn
from .distributed import ProcessGroup
from .experiment import Settings
from .run_dir import safe_name
from .session import Session, prepare
from .windows import sessions_of_rank

_DATA = Path(__file__).resolve().parents[1] / "data"  # of an installed package; in the repository it is one folder up
EMBEDDED = (_DATA if _DATA.is_dir() else _DATA.parents[1] / "data") / "simulated_session.npz"


def read(source: Path, selection: Selection) -> Recording:
    """What a selection makes of a recording; reading a large file is announced. RecordingError as `load_recording`."""
    if source.is_file() and source.stat().st_size > 2e7:
        print(f"reading {source} ...", file=sys.stderr, flush=True)
    return load_recording(source, **asdict(selection))


def describe(session: Session) -> str:
    """What is decoded, in some lines. Raises RecordingError if the recording cannot be decoded meaningfully."""
    recording, parts = session.recording, vars(session.split)
    report = data_report(recording, session.timeline.bin_width_s, parts)
    what = "trials" if len(recording.trials) >= len(parts) else "recorded time"
    sizes = [f"{len(p)}" if what == "trials" else f"{np.diff(p).sum():.1f} s" for p in parts.values()]
    line = f"{recording.session_id}: {session.split_config} of {what}: {', '.join(sizes)}"
    return "\n  ".join([line, *report, *(f"note: {note}" for note in recording.notes)])


def load_sessions(
    sources: Sequence[Path], settings: Settings, group: ProcessGroup
) -> tuple[dict[int, tuple[Session, TrainedOn]], str]:
    """Read and prepare the recordings of this process; the main process prints what all of them hold.

    Returns:
        Sessions by their index, from 1, with what their checkpoints say of them; and a name for the folder of the run.

    Raises:
        RecordingError: a recording cannot be used or decoded meaningfully, or not together with the others.
    """
    width, seed, is_searched = settings.model.bin_width_s, settings.training.seed, settings.lag_s == "auto"
    lag_s = 0.0 if is_searched else settings.lag_s
    sessions, about = {}, {}
    for i in sessions_of_rank(group, len(sources), settings.training.batch):
        recording = _read(sources[i - 1], settings)
        with prefix_errors(sources[i - 1]):
            session = sessions[i] = prepare(recording, settings.split, lag_s, width, seed)
            about[i] = recording.session_id, recording.behavior_columns.tolist(), describe(session)
    about = group.all_gather(about)
    name = _check_together(sources, about, settings)
    if group.is_main:
        print(*(description for *_, description in about.values()), sep="\n", flush=True)
    if is_searched:
        lag_s = _best_lag(sessions, settings, group)
        sessions = {i: prepare(s.recording, s.split_config, lag_s, width) for i, s in sessions.items()}
    if group.is_main:
        print(f"lag {lag_s:g} s, bins of {width:g} s", flush=True)
    paths = {i: "" if sources[i - 1] == EMBEDDED else str(sources[i - 1].resolve()) for i in sessions}
    return {i: (s, TrainedOn.from_session(s, paths[i], settings.selection)) for i, s in sessions.items()}, name


def _read(source: Path, settings: Settings) -> Recording:
    """The recording; an error that a filter of the run of --from may have caused says so."""
    try:
        return read(source, settings.selection)
    except RecordingError as exc:
        if settings.start is None or not (settings.selection.units or settings.selection.trials):
            raise
        cure = 'filters are those of the run of --from where none is given; --units "" --trials "" takes all.'
        raise RecordingError(f"{exc} The {cure}") from exc


def _check_together(sources: Sequence[Path], about: Mapping[int, tuple], settings: Settings) -> str:
    """The name of the run. Raises RecordingError if sessions cannot share a decoder, or the name of their folder."""
    first_columns, names = about[1][1], {}
    if settings.start and len(first_columns) != (n := settings.start.config.n_outputs):
        raise RecordingError(f"{sources[0]}: decoded are {first_columns}, but {n} columns in the run of --from.")
    for source, (session_id, columns, _) in zip(sources, about.values(), strict=True):
        if columns != first_columns:
            raise RecordingError(f"{source}: decoded are {columns}, but {first_columns} in {sources[0]}.")
        if (name := safe_name(session_id)) in names:
            both = f"{names[name]} and {source}: by their session_id, the results of both belong in a folder {name!r}"
            raise RecordingError(f"{both}; give one of them another session_id.")
        names[name] = source
    return "joint" if len(names) > 1 else name


def _best_lag(sessions: Mapping[int, Session], settings: Settings, group: ProcessGroup) -> float:
    """The largest lag whose validation R² of a Wiener filter, mean of the sessions, is within 0.01 of the best.

    The filter reads ten bins, so lags below the true one score alike; the largest of them decodes earliest.
    """
    width = settings.model.bin_width_s
    step = max(width / 2, 0.01)
    lags = np.round(step * np.arange(np.ceil(-0.2 / step - 1e-6), np.floor(0.3 / step + 1e-6) + 1), 6)
    scores = {}
    for i, session in sessions.items():
        bar = tqdm(lags, desc="lag", leave=False, disable=not group.is_main)
        scores[i] = search_lag(session.recording, bar, session.split_config, width)
    mean = np.mean(list(group.all_gather(scores).values()), axis=0)
    if np.isnan(mean).any():
        raise RecordingError("--lag auto: behaviour does not change in the validation part; give a number.")
    if group.is_main:
        best = f"{mean.max():.2f} with a lag of {lags[mean.argmax()]:g} s"
        print(f"validation R² of a Wiener filter: at best {best}; the largest lag within 0.01 of it is taken")
    return float(lags[mean >= mean.max() - 0.01][-1])
