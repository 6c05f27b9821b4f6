"""The `decode` experiment: recordings in, three decoders of each trained and compared, results written."""

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from torch import nn
from tqdm import tqdm

from .. import __version__
from ..decoder.baselines import BinnedGRU
from ..decoder.config import POSSMConfig
from ..decoder.possm import POSSM
from ..decoder.streaming.baselines import GRUStream, WienerStream
from ..decoder.streaming.decoder import StreamingDecoder
from ..errors import CheckpointError, prefix_errors
from ..spikes.arrays import write_arrays
from ..spikes.recording import Recording
from .baselines import fit_wiener
from .checkpoint import History, TrainedOn, TrainingCheckpoint, save_checkpoint
from .distributed import ProcessGroup
from .evaluate import Decoded, Replay, evaluate, replay, slot_offsets
from .fit import FitConfig, fit
from .report import plot_decoded
from .run_dir import mark_finished, safe_name, write_json
from .session import Session
from .transfer import adapt, combine_sessions, extract_session


@dataclass(frozen=True)
class SessionResult:
    """A trained decoder of one session, its output on the test part, and the metrics of all three models."""

    model: POSSM
    trained_on: TrainedOn
    session: Session
    decoded: Decoded
    metrics: dict


def run_experiment(
    jobs: Mapping[int, tuple[Session, TrainedOn]],
    config: FitConfig,
    sizes: Mapping,
    checkpoints: Sequence[TrainingCheckpoint],
    group: ProcessGroup,
    device: str = "cpu",
    start: tuple[POSSM, FitConfig] | None = None,
) -> list[SessionResult]:
    """Train one POSSM on all sessions, and a Wiener filter and a GRU on binned counts on each; test on held-out parts.

    Args:
        jobs: sessions of this process by their index, from 1, with what their checkpoints say of them.
        config: training of POSSM and of each GRU; its seed is that of their weights too.
        sizes: fields of `POSSMConfig` that do not follow from the sessions.
        checkpoints, group: of POSSM and its training; the baselines are trained again when a run is resumed.
        device: of both trainings; decoders are tested on the CPU.
        start: a decoder to adapt to the only session, instead of training one, and the settings of that.

    Returns:
        A result for each session, by index, with a decoder for this session alone; the same in every process.
    """
    sessions = combine_sessions([session for session, _ in jobs.values()], list(jobs), group)
    if start:
        with prefix_errors(jobs[1][1].source or jobs[1][1].session_id):
            possm, history = adapt(start[0].to(device), sessions[0], start[1], checkpoints=checkpoints)
    else:
        n_units = group.all_gather({s.index: s.recording.n_units for s in sessions})
        of_sessions = {"bin_width_s": sessions[0].timeline.bin_width_s, "n_outputs": sessions[0].recording.n_columns}
        torch.manual_seed(config.seed)
        possm = POSSM(POSSMConfig(sum(n_units.values()), len(n_units), **sizes | of_sessions)).to(device)
        history = fit(possm, sessions, config, group=group, checkpoint=checkpoints[-1])
    # a session may be in several processes: the last one tests it
    rank_of_session = group.all_gather(dict.fromkeys(jobs, group.rank))
    results = {}
    for s in sessions:
        if rank_of_session[s.index] == group.rank:
            decoder = extract_session(possm, s).cpu()
            results[s.index] = _compare(decoder, history, *jobs[s.index], config, device, group.is_main)
            if start:
                results[s.index].metrics["training"] = asdict(start[1])
    return list(group.all_gather(results).values())


def save_results(results: Sequence[SessionResult], run_dir: Path):
    """Write checkpoint, metrics, output and figure of each session, and then mark the run as finished.

    Results of several sessions are in subfolders with their names. A run that is killed here, or out of disk space, is
    unfinished: resumed, it writes all of them again.

    Raises:
        CheckpointError, OSError: something could not be written.
    """
    for result in results:
        folder = run_dir if len(results) == 1 else run_dir / safe_name(result.trained_on.session_id)
        folder.mkdir(exist_ok=True)
        save_checkpoint(folder / "checkpoint.npz", result.model, result.trained_on)
        write_json(folder / "metrics.json", result.metrics)
        save_decoded(folder / "decoded.npz", result.decoded, result.session.recording)
        plot_decoded(result.decoded, result.session).savefig(folder / "decoded.png", dpi=120)
    mark_finished(run_dir)


def save_decoded(path: Path, decoded: Decoded, recording: Recording):
    """Write times (T,), recorded and decoded behaviour (T, C), their unit and the names of the columns (C,)."""
    arrays = {"times": decoded.times_s, "recorded": decoded.true, "decoded": decoded.decoded}
    names = {"columns": recording.behavior_columns, "unit": np.array(recording.behavior_unit)}
    write_arrays(path, arrays | names, error=CheckpointError)


def _compare(
    possm: POSSM,
    history: History,
    session: Session,
    trained_on: TrainedOn,
    config: FitConfig,
    device: str,
    progress: bool,
) -> SessionResult:
    """Fit the baselines to one session, and test all three models."""
    slots, recording = slot_offsets(session), session.recording
    with prefix_errors(trained_on.source or trained_on.session_id):
        torch.manual_seed(config.seed)
        gru = BinnedGRU(recording.n_units, session.timeline.bin_width_s, len(slots), recording.n_columns).to(device)
        gru_s = fit(gru, session, config, progress).seconds
        with tqdm(total=4, desc="Wiener filter", leave=False, disable=not progress) as bar:
            start = time.perf_counter()
            wiener = fit_wiener(session)
            wiener_s = time.perf_counter() - start
            models, decoded = {}, {}
            for name, model, stream, seconds in (
                ("possm", possm, StreamingDecoder(possm, 1, slots), history.seconds),
                ("wiener", wiener, WienerStream(wiener), wiener_s),
                ("gru", gru.cpu(), GRUStream(gru), gru_s),
            ):
                bar.update()
                bar.set_description(f"testing {name}")
                decoded[name] = evaluate(model, session)
                models[name] = _metrics(model, decoded[name], replay(stream, session), seconds)
    metrics = {
        "session": recording.session_id,
        "source": trained_on.source,
        "selection": asdict(trained_on.selection),
        "notes": list(recording.notes),
        "behavior": {"name": recording.behavior_name, "unit": recording.behavior_unit},
        "columns": recording.behavior_columns.tolist(),
        "unit_ids": recording.unit_ids.tolist(),
        "split": str(session.split_config),
        "lag_s": session.timeline.lag_s,
        "bin_width_s": session.timeline.bin_width_s,
        "n_train": len(session.split.train),
        "n_test": len(session.split.test),
        "model": asdict(possm.config),
        "training": asdict(config),
        "device": device,
        "versions": {"possm_lite": __version__, "torch": torch.__version__},
        "valid_r2": {epoch: _number(r2) for epoch, r2 in history.valid_r2.items()},
        "models": models,
    }
    return SessionResult(possm, trained_on, session, decoded["possm"], metrics)


def _metrics(model: nn.Module, decoded: Decoded, played: Replay, seconds: float) -> dict:
    return {
        "r2": _number(decoded.r2),
        "r2_columns": [_number(r2) for r2 in decoded.r2_columns],
        "params": sum(p.numel() for p in model.parameters()),
        "train_s": round(seconds, 3),
        "step_us_p50": round(played.percentile_us(50), 1),
        "step_us_p99": round(played.percentile_us(99), 1),
    }


def _number(r2: float) -> float | None:
    """For JSON, which has no NaN."""
    return round(r2, 6) if math.isfinite(r2) else None
