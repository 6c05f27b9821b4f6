"""The `decode` experiment, recordings in, three decoders of each trained and compared; and the folder of a run.

unfinished.json                                arguments of the command, until the results are there
training.npz                                   state of training, from the first epoch on, until then too
checkpoint.npz, metrics.json, decoded.png      results; of several sessions, in a folder for each
"""

import json
import math
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from torch import nn

from ..decoder.baselines import BinnedGRU
from ..decoder.config import POSSMConfig
from ..decoder.possm import POSSM
from ..decoder.streaming.baselines import GRUStream, WienerStream
from ..decoder.streaming.decoder import StreamingDecoder
from ..errors import CheckpointError, prefix_errors, wrap_errors
from ..spikes.arrays import atomic_write, check_readable
from .baselines import fit_wiener
from .checkpoint import TrainedOn, TrainingCheckpoint, save_checkpoint
from .distributed import ProcessGroup
from .evaluate import Decoded, evaluate, replay, slot_offsets
from .fit import FitConfig, fit
from .report import plot_decoded
from .session import Session
from .transfer import combine_sessions, extract_session

TRAINING_FILE, _ARGUMENTS_FILE = "training.npz", "unfinished.json"


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
    backbone: str,
    group: ProcessGroup,
    checkpoint: TrainingCheckpoint,
) -> list[SessionResult]:
    """Train one POSSM on all sessions, and a Wiener filter and a GRU on binned counts on each; test on held-out parts.

    Args:
        jobs: sessions of this process by their index, from 1, with what their checkpoints say of them.
        config: training of POSSM and of each GRU; its seed is that of their weights too.
        backbone, group, checkpoint: of POSSM and its training; the baselines are trained again when a run is resumed.

    Returns:
        A result for each session, by index, with a decoder for this session alone; the same in every process.
    """
    sessions = combine_sessions([session for session, _ in jobs.values()], list(jobs), group)
    n_units = group.all_gather({s.index: s.recording.n_units for s in sessions})
    width = sessions[0].timeline.bin_width_s
    torch.manual_seed(config.seed)
    sizes = {"bin_width_s": width, "n_outputs": sessions[0].recording.n_columns}
    possm = POSSM(POSSMConfig(sum(n_units.values()), len(n_units), backbone=backbone, **sizes))
    seconds = fit(possm, sessions, config, group=group, checkpoint=checkpoint).seconds
    # a session may be in several processes: the last one tests it
    rank_of_session = group.all_gather(dict.fromkeys(jobs, group.rank))
    results = {}
    for s in sessions:
        if rank_of_session[s.index] == group.rank:
            decoder = extract_session(possm, s)
            results[s.index] = _compare(decoder, seconds, *jobs[s.index], config, progress=group.is_main)
    return list(group.all_gather(results).values())


def write_json(path: Path, value, name: Path | None = None):
    """Write a JSON file, as a whole or not at all. Raises CheckpointError with `name` or the path."""
    with prefix_errors(name or path, CheckpointError), atomic_write(path) as partial:
        partial.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")


def create_run_dir(run_dir: Path, arguments: Sequence[str]):
    """Create the folder of a run with the arguments of its command in it; nothing is left if that fails.

    Raises:
        CheckpointError, OSError: it could not be written, or the folder exists and is not empty.
    """
    run_dir.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix=".", suffix=".partial", dir=run_dir.parent, ignore_cleanup_errors=True) as partial:
        new = Path(partial, "run")
        new.mkdir()
        write_json(new / _ARGUMENTS_FILE, list(arguments), run_dir / _ARGUMENTS_FILE)
        new.rename(run_dir)


def is_unfinished(run_dir: Path) -> bool:
    """Whether the folder is of a run that can be resumed."""
    return (run_dir / _ARGUMENTS_FILE).exists()


def load_arguments(run_dir: Path) -> list[str]:
    """Arguments of the command of an unfinished run.

    Raises:
        CheckpointError: the run is finished, the folder is not of a run, or the file is damaged.
    """
    path = run_dir / _ARGUMENTS_FILE
    if not is_unfinished(run_dir):
        finished = any(run_dir.glob("**/metrics.json"))
        reason = "is finished" if finished else f"is not a run folder: it has no {path.name}"
        raise CheckpointError(f"{run_dir}: {reason}; there is nothing to resume.")
    with prefix_errors(path, CheckpointError):
        check_readable(path)
        with wrap_errors("is damaged"):
            return [str(argument) for argument in json.loads(path.read_text(encoding="utf-8"))]


def remove_partial_files(run_dir: Path):
    """Remove what a killed process was writing."""
    for partial in list(run_dir.rglob(".*.partial")):
        shutil.rmtree(partial) if partial.is_dir() else partial.unlink(missing_ok=True)


def save_results(results: Sequence[SessionResult], run_dir: Path):
    """Write checkpoint, metrics and figure of each session, and then mark the run as finished.

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
        plot_decoded(result.decoded, result.session).savefig(folder / "decoded.png", dpi=120)
    (run_dir / _ARGUMENTS_FILE).unlink(missing_ok=True)  # marks the run as finished
    (run_dir / TRAINING_FILE).unlink(missing_ok=True)


def safe_name(name: str) -> str:
    """A valid folder name on all systems."""
    return "".join(c if c.isalnum() or c in "-_." else "-" for c in name).strip(".")[:60] or "run"


def _compare(
    possm: POSSM, possm_s: float, session: Session, trained_on: TrainedOn, config: FitConfig, progress: bool
) -> SessionResult:
    """Fit the baselines to one session, and test all three models."""
    slots, recording = slot_offsets(session), session.recording
    with prefix_errors(trained_on.source or trained_on.session_id):
        torch.manual_seed(config.seed)
        gru = BinnedGRU(recording.n_units, session.timeline.bin_width_s, len(slots), recording.n_columns)
        gru_s = fit(gru, session, config, progress).seconds
        start = time.perf_counter()
        wiener = fit_wiener(session)
        wiener_s = time.perf_counter() - start
        metrics = {
            "session": recording.session_id,
            "behavior": {"name": recording.behavior_name, "unit": recording.behavior_unit},
            "columns": recording.behavior_columns.tolist(),
            "split": str(session.split_config),
            "lag_s": session.timeline.lag_s,
            "bin_width_s": session.timeline.bin_width_s,
            "n_train": len(session.split.train),
            "n_test": len(session.split.test),
            "models": {
                "possm": _metrics(possm, StreamingDecoder(possm, 1, slots), session, possm_s),
                "wiener": _metrics(wiener, WienerStream(wiener), session, wiener_s),
                "gru": _metrics(gru, GRUStream(gru), session, gru_s),
            },
        }
        return SessionResult(possm, trained_on, session, evaluate(possm, session), metrics)


def _metrics(model: nn.Module, stream, session: Session, seconds: float) -> dict:
    decoded, played = evaluate(model, session), replay(stream, session)
    r2, *r2_columns = (round(r, 6) if math.isfinite(r) else None for r in (decoded.r2, *decoded.r2_columns))  # no NaN
    return {
        "r2": r2,
        "r2_columns": r2_columns,
        "params": sum(p.numel() for p in model.parameters()),
        "train_s": round(seconds, 3),
        "step_us_p50": round(played.percentile_us(50), 1),
        "step_us_p99": round(played.percentile_us(99), 1),
    }
