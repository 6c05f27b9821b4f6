"""The steps of `decode` that train, test and save: three decoders of each session compared."""

import math
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import nn

from .. import __version__
from ..decoder.baselines import BinnedGRU, BinnedStream
from ..decoder.config import POSSMConfig
from ..decoder.possm import POSSM
from ..decoder.stream import StreamingDecoder
from ..errors import CheckpointError
from ..spikes.arrays import write_arrays
from ..spikes.io.contents import Selection
from .baselines import fit_wiener
from .checkpoint import History, TrainedOn, TrainingCheckpoint, save_checkpoint
from .distributed import ProcessGroup
from .evaluate import Decoded, Replay, evaluate, replay, slot_offsets
from .fit import FitConfig, fit
from .report import names_as_they_are, plot_decoded
from .run_dir import TRAINING_FILES, mark_finished, safe_name, write_json
from .session import Session
from .transfer import adapt, extract_session

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


def train(sessions: Sequence[Session], settings: Settings, run_dir: Path, group: ProcessGroup) -> tuple[POSSM, History]:
    """One POSSM of all sessions; it resumes from the state in the folder of the run, if there is one.

    `sessions` are those of this process, from `combine_sessions`.
    """
    checkpoints = [TrainingCheckpoint(run_dir / name) for name in TRAINING_FILES]
    if settings.start:
        start = settings.start.to(settings.device)
        return adapt(start, sessions[0], settings.training, checkpoints=checkpoints)
    n_units = group.all_gather({s.index: s.recording.n_units for s in sessions})
    n_outputs = sessions[0].recording.n_columns
    config = replace(settings.model, n_units=sum(n_units.values()), n_sessions=len(n_units), n_outputs=n_outputs)
    torch.manual_seed(settings.training.seed)
    possm = POSSM(config).to(settings.device)
    return possm, fit(possm, sessions, settings.training, group=group, checkpoint=checkpoints[-1])


def compare(
    possm: POSSM, history: History, sessions: Sequence[Session], settings: Settings, group: ProcessGroup
) -> list[SessionResult]:
    """Test the decoder of each session on its held-out part, beside a Wiener filter and a GRU on binned counts.

    The results are by index, and the same in every process. The baselines are trained again when a run is resumed.
    """
    # a session may be in several processes: the last one tests it
    rank_of_session = group.all_gather({s.index: group.rank for s in sessions})
    results = {}
    for s in sessions:
        if rank_of_session[s.index] == group.rank:
            decoder = extract_session(possm, s).cpu()
            alone = replace(s, index=1, first_unit=1)
            source = settings.sources[s.index - 1]
            results[s.index] = _compare(decoder, history, alone, source, settings, group.is_main)
    return list(group.all_gather(results).values())


def _compare(
    possm: POSSM, history: History, session: Session, source: Path, settings: Settings, progress: bool
) -> SessionResult:
    """Fit the baselines to one session, and test all three models."""
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
        played = replay(stream, session, progress=f"testing {name}" if progress else "")
        models[name] = _model_metrics(model, decoded[name], played, seconds)
    source_name = "" if source == EMBEDDED else str(source.resolve())
    trained_on = TrainedOn.from_session(session, source_name, settings.selection)
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
        "valid_r2": {epoch: _number(r2) for epoch, r2 in history.valid_r2.items()},
        "models": models,
    }
    return SessionResult(possm, trained_on, session, decoded["possm"], metrics)


def _model_metrics(model: nn.Module, decoded: Decoded, played: Replay, seconds: float) -> dict:
    return {
        "r2": _number(decoded.r2),
        "r2_displayed": _number(decoded.r2_displayed),
        "r2_columns": [_number(r2) for r2 in decoded.r2_columns],
        "params": sum(p.numel() for p in model.parameters()),
        "train_s": round(seconds, 3),
        "step_us_p50": round(played.percentile_us(50), 1),
        "step_us_p99": round(played.percentile_us(99), 1),
    }


def _number(r2: float) -> float | None:
    """For JSON, which has no NaN."""
    return round(r2, 6) if math.isfinite(r2) else None


def save_results(results: Sequence[SessionResult], run_dir: Path):
    """Write checkpoint, metrics, output and figure of each session, and then mark the run as finished.

    Results of several sessions are in subfolders with their names. A run that is killed here, or out of disk space, is
    unfinished: resumed, it writes all of them again. Raises CheckpointError or OSError.
    """
    for result in results:
        decoded = result.decoded
        folder = run_dir if len(results) == 1 else run_dir / safe_name(result.trained_on.session_id)
        folder.mkdir(exist_ok=True)
        save_checkpoint(folder / "checkpoint.npz", result.model, result.trained_on)
        write_json(folder / "metrics.json", result.metrics)
        save_decoded(folder / "decoded.npz", result.trained_on, decoded.times_s, decoded.decoded, recorded=decoded.true)
        with names_as_they_are():
            plot_decoded(decoded, result.session).savefig(folder / "decoded.png", dpi=120)
    mark_finished(run_dir)


def save_decoded(path: Path, trained_on: TrainedOn, times: np.ndarray, decoded: np.ndarray, **others: np.ndarray):
    """Write times (T,), decoded behaviour (T, C), other arrays, names of the columns (C,) and their unit."""
    names = {"columns": trained_on.behavior_columns, "unit": trained_on.behavior_unit}
    write_arrays(path, {"times": times, "decoded": decoded, **others, **names}, error=CheckpointError)
