"""The steps of `decode`: read, prepare, train, test, save."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import torch
from tqdm import tqdm

from .. import __version__
from ..decoder.baselines import BinnedGRU, BinnedStream
from ..decoder.config import POSSMConfig
from ..decoder.possm import POSSM
from ..decoder.stream import StreamingDecoder
from ..errors import CheckpointError, RecordingError, prefix_errors
from ..recordings.arrays import write_arrays
from ..recordings.data_report import data_report
from ..recordings.formats import load_recording
from ..recordings.formats.assemble import Selection
from ..recordings.recording import Recording
from ..training.checkpoint import History, TrainedOn, TrainingCheckpoint, save_checkpoint
from ..training.distributed import ProcessGroup
from ..training.evaluate import Decoded, evaluate, replay, slot_offsets
from ..training.fit import FitConfig, fit
from ..training.linear import fit_wiener, search_lag
from ..training.session import Session, prepare
from ..training.transfer import adapt, combine_sessions, extract_session
from ..training.windows import sessions_of_rank
from .report import plot_decoded
from .run_dir import TRAINING_FILES, mark_finished, safe_name, write_json

_DATA = Path(__file__).resolve().parents[1] / "data"  # of an installed package; in the repository it is one folder up
EMBEDDED = (_DATA if _DATA.is_dir() else _DATA.parents[1] / "data") / "simulated_session.npz"


@dataclass(frozen=True)
class Settings:
    """What is decoded, by which model, and how it is trained."""

    sources: Sequence[Path]  # the recordings
    model: POSSMConfig  # sizes of POSSM; n_units, n_sessions and n_outputs follow from the recordings
    training: FitConfig  # of POSSM
    baselines: FitConfig  # of the GRU on binned counts
    selection: Selection = Selection()  # what of a file is read
    split: str = "chronological"  # of each recording, as for `prepare`; the seed of a random one is that of training
    lag_s: float | str = 0.0  # behaviour minus spikes; "auto": the best of a search
    device: str = "cpu"  # of all training; decoders are tested on the CPU
    start: POSSM | None = None  # a decoder that is adapted to the only session, instead of training a new one
    adapted_from: str = ""  # the folder of its run


@dataclass(frozen=True)
class SessionResult:
    """A trained decoder of one session, its output on the test part, and the metrics of all three models."""

    model: POSSM
    trained_on: TrainedOn
    session: Session
    decoded: Decoded
    metrics: dict


def read(settings: Settings, group: ProcessGroup) -> dict[int, Recording]:
    """The recordings that this process trains on, by the index of their session, from 1."""
    indices = sessions_of_rank(group, len(settings.sources), settings.training.batch)
    return {i: load_recording(settings.sources[i - 1], **vars(settings.selection)) for i in indices}


def prepare_sessions(recordings: Mapping[int, Recording], settings: Settings, group: ProcessGroup) -> list[Session]:
    """The recordings of this process as sessions of one model; the main process prints what all of them hold."""
    width = settings.model.bin_width_s
    lag_s = _best_lag(recordings, settings, group) if settings.lag_s == "auto" else settings.lag_s
    sessions, about = {}, {}
    for i, recording in recordings.items():
        with prefix_errors(settings.sources[i - 1]):
            sessions[i] = prepare(recording, settings.split, lag_s, width, settings.training.seed)
            about[i] = safe_name(recording.session_id), recording.behavior_columns.tolist(), describe(sessions[i])
    names, columns, descriptions = zip(*group.all_gather(about).values(), strict=True)
    for source, found in zip(settings.sources, columns, strict=True):
        if found != columns[0]:
            raise RecordingError(f"{source}: decoded are {found}, but {columns[0]} in {settings.sources[0]}.")
    if settings.start and len(columns[0]) != (n := settings.start.config.n_outputs):
        raise RecordingError(f"{settings.sources[0]}: decoded are {columns[0]}, but {n} columns in the run of --from.")
    if len(set(names)) < len(names):
        raise RecordingError(f"session_id must differ, as results are in folders of these names: {', '.join(names)}")
    combined = combine_sessions(list(sessions.values()), list(sessions), group)
    if group.is_main:
        print(*descriptions, f"lag {lag_s:g} s, bins of {width:g} s", sep="\n", flush=True)
    return combined


def describe(session: Session) -> str:
    """What is decoded, in some lines. Raises RecordingError if it cannot be decoded meaningfully."""
    recording = session.recording
    parts = vars(session.split)
    report = data_report(recording, session.timeline.bin_width_s, parts)
    what = "trials" if len(recording.trials) >= len(parts) else "recorded time"
    sizes = [f"{len(p)}" if what == "trials" else f"{np.diff(p).sum():.1f} s" for p in parts.values()]
    line = f"{recording.session_id}: {session.split_config} of {what}: {', '.join(sizes)}"
    return "\n  ".join([line, *report, *(f"note: {note}" for note in recording.notes)])


def _best_lag(recordings: Mapping[int, Recording], settings: Settings, group: ProcessGroup) -> float:
    """The largest lag whose validation R² of a Wiener filter is within 0.01 of the best: it decodes earliest."""
    width = settings.model.bin_width_s
    step = max(width / 2, 0.01)
    lags = np.round(step * np.arange(round(-0.2 / step), round(0.3 / step) + 1), 6)
    scores = {}
    for i, recording in recordings.items():
        bar = tqdm(lags, desc="lag", leave=False, disable=not group.is_main)
        with prefix_errors(settings.sources[i - 1]):
            scores[i] = search_lag(recording, bar, settings.split, width, settings.training.seed)
    mean = np.mean(list(group.all_gather(scores).values()), axis=0)
    if np.isnan(mean).any():
        raise RecordingError("--lag auto: behaviour does not change in the validation part; give a number.")
    return float(lags[mean >= mean.max() - 0.01][-1])


def train(sessions: Sequence[Session], settings: Settings, run_dir: Path, group: ProcessGroup) -> tuple[POSSM, History]:
    """One POSSM of all sessions; training goes on from the state in the folder of the run, if there is one."""
    checkpoints = [TrainingCheckpoint(run_dir / name) for name in TRAINING_FILES]
    if settings.start:
        return adapt(settings.start.to(settings.device), sessions[0], settings.training, checkpoints=checkpoints)
    n_units = group.all_gather({s.index: s.recording.n_units for s in sessions})
    n_outputs = sessions[0].recording.n_columns
    config = replace(settings.model, n_units=sum(n_units.values()), n_sessions=len(n_units), n_outputs=n_outputs)
    torch.manual_seed(settings.training.seed)
    possm = POSSM(config).to(settings.device)
    return possm, fit(possm, sessions, settings.training, group=group, checkpoint=checkpoints[-1])


def compare(
    possm: POSSM, history: History, sessions: Sequence[Session], settings: Settings, group: ProcessGroup
) -> list[SessionResult]:
    """Test the decoder of each session on its held-out part, beside a Wiener filter and a GRU on binned counts."""
    # a session may be in several processes: the last one tests it
    rank_of_session = group.all_gather({s.index: group.rank for s in sessions})
    own = [s for s in sessions if rank_of_session[s.index] == group.rank]
    results = {s.index: _compare(extract_session(possm, s).cpu(), history, s, settings, group.is_main) for s in own}
    return list(group.all_gather(results).values())


def _compare(possm: POSSM, history: History, session: Session, settings: Settings, progress: bool) -> SessionResult:
    source = settings.sources[session.index - 1]
    session = replace(session, index=1, first_unit=1)  # of a model of its own
    slots = slot_offsets(session)
    recording = session.recording
    torch.manual_seed(settings.baselines.seed)
    gru = BinnedGRU(recording.n_units, session.timeline.bin_width_s, len(slots), recording.n_columns)
    gru_s = fit(gru.to(settings.device), session, settings.baselines, progress).seconds
    start = time.perf_counter()
    wiener = fit_wiener(session)
    wiener_s = time.perf_counter() - start
    models, decoded = {}, {}
    for name, model, stream, seconds in (
        ("possm", possm, StreamingDecoder(possm, 1, slots), history.seconds),
        ("wiener", wiener, BinnedStream(wiener), wiener_s),
        ("gru", gru.cpu(), BinnedStream(gru), gru_s),
    ):
        decoded[name] = evaluate(model, session)
        step_us_p50, step_us_p99 = np.percentile(replay(stream, session).step_us, (50, 99)).tolist()
        models[name] = {
            "r2": decoded[name].r2,
            "r2_displayed": decoded[name].r2_displayed,
            "r2_columns": decoded[name].r2_columns,
            "params": sum(p.numel() for p in model.parameters()),
            "train_s": seconds,
            "step_us_p50": step_us_p50,
            "step_us_p99": step_us_p99,
        }
    path = "" if source == EMBEDDED else str(source.resolve())
    trained_on = TrainedOn.from_session(session, path, settings.selection)
    about = asdict(trained_on)
    metrics = {
        "session": about.pop("session_id"),
        **about,
        "notes": list(recording.notes),
        "bin_width_s": session.timeline.bin_width_s,
        "n_train": len(session.split.train),
        "n_test": len(session.split.test),
        "model": asdict(possm.config),
        "training": asdict(settings.training),
        "epochs": len(history.loss),  # of all stages, also where `adapt` took more than the settings say
        "adapted_from": settings.adapted_from,
        "device": settings.device,
        "versions": {"possm_lite": __version__, "torch": torch.__version__},
        "valid_r2": history.valid_r2,
        "models": models,
    }
    return SessionResult(possm, trained_on, session, decoded["possm"], metrics)


def save_results(results: Sequence[SessionResult], run_dir: Path):
    """Write checkpoint, metrics, output and figure of each session, and then mark the run as finished."""
    for result in results:
        decoded = result.decoded
        folder = run_dir if len(results) == 1 else run_dir / safe_name(result.trained_on.session_id)
        folder.mkdir(exist_ok=True)
        save_checkpoint(folder / "checkpoint.npz", result.model, result.trained_on)
        write_json(folder / "metrics.json", result.metrics)
        save_decoded(folder / "decoded.npz", result.trained_on, decoded.times_s, decoded.decoded, recorded=decoded.true)
        plot_decoded(decoded, result.session).savefig(folder / "decoded.png", dpi=120)
    mark_finished(run_dir)


def save_decoded(path: Path, trained_on: TrainedOn, times: np.ndarray, decoded: np.ndarray, **others: np.ndarray):
    """Write times (T,), decoded behaviour (T, C), other arrays, names of the columns (C,) and their unit."""
    names = {"columns": trained_on.behavior_columns, "unit": trained_on.behavior_unit}
    write_arrays(path, {"times": times, "decoded": decoded, **others, **names}, error=CheckpointError)
