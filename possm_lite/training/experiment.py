"""The main job: recordings in, three decoders of each trained and compared."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import nn

from ..decoder.baselines import BinnedGRU
from ..decoder.config import POSSMConfig
from ..decoder.possm import POSSM
from ..decoder.streaming.baselines import GRUStream, WienerStream
from ..decoder.streaming.decoder import StreamingDecoder
from ..errors import prefix_errors
from .baselines import fit_wiener
from .checkpoint import TrainedOn
from .distributed import SINGLE_PROCESS, ProcessGroup
from .evaluate import Decoded, evaluate
from .fit import FitConfig, fit
from .replay import replay, slot_offsets
from .resume import TrainingCheckpoint
from .session import Session
from .transfer import combine_sessions, extract_session


@dataclass(frozen=True)
class Task:
    """A session to be decoded.

    Args:
        session: from `prepare`.
        about: what its checkpoint is to say of it.
        name: what errors call it: the file.
    """

    session: Session
    about: TrainedOn
    name: str


@dataclass(frozen=True)
class Run:
    """A finished run: the trained decoder, what it was trained on, its answers on the test part, and all figures."""

    model: POSSM
    trained_on: TrainedOn
    session: Session
    decoded: Decoded
    metrics: dict


def run(
    tasks: Mapping[int, Task],
    config: FitConfig,
    backbone: str = "gru",
    progress: bool = True,
    crew: ProcessGroup = SINGLE_PROCESS,
    saved: TrainingCheckpoint | None = None,
) -> list[Run]:
    """Train one POSSM on all sessions, and for each a Wiener filter and a GRU on binned counts; test on held-out parts.

    Args:
        tasks: the sessions this process holds, by their number, from 1.
        config: training of POSSM and of each GRU; its seed is that of their weights too.
        backbone: of POSSM.
        progress: show bars.
        crew: the processes that train together.
        saved: keeps the state of POSSM's training; the baselines are trained anew when a run goes on.

    Returns:
        A run for each session, in the order of the numbers, with a decoder for this session alone; the same in every
        process.
    """
    joined = combine_sessions([task.session for task in tasks.values()], list(tasks), crew)
    n_units = crew.collect({s.index: s.recording.n_units for s in joined})
    width = joined[0].timeline.bin_width_s
    torch.manual_seed(config.seed)
    sizes = POSSMConfig(sum(n_units.values()), len(n_units), backbone=backbone, bin_width_s=width)
    possm = POSSM(sizes)
    seconds = fit(possm, joined, config, progress, crew, saved).seconds
    # of the processes that hold a session the last one tests it
    tester = crew.collect(dict.fromkeys(tasks, crew.rank))
    finished = {
        s.index: _finish(tasks[s.index], extract_session(possm, s), seconds, config, progress and crew.leads)
        for s in joined
        if tester[s.index] == crew.rank
    }
    return list(crew.collect(finished).values())


def _finish(task: Task, possm: POSSM, possm_s: float, config: FitConfig, progress: bool) -> Run:
    """Fit the baselines to one session, and test all three."""
    session, slots = task.session, slot_offsets(task.session)
    with prefix_errors(task.name):
        torch.manual_seed(config.seed)
        gru = BinnedGRU(session.recording.n_units, session.timeline.bin_width_s, len(slots))
        gru_s = fit(gru, session, config, progress).seconds
        began = time.perf_counter()
        wiener = fit_wiener(session)
        wiener_s = time.perf_counter() - began
        figures = {
            "possm": _figures(possm, StreamingDecoder(possm, 1, slots), session, possm_s),
            "wiener": _figures(wiener, WienerStream(wiener), session, wiener_s),
            "gru": _figures(gru, GRUStream(gru), session, gru_s),
        }
        metrics = {
            "session": session.recording.session_id,
            "split": str(session.split_config),
            "lag_s": session.timeline.lag_s,
            "bin_width_s": session.timeline.bin_width_s,
            "n_train": len(session.split.train),
            "n_test": len(session.split.test),
            "models": figures,
        }
        return Run(possm, task.about, session, evaluate(possm, session), metrics)


def _figures(model: nn.Module, stream, session: Session, seconds: float) -> dict:
    decoded, played = evaluate(model, session), replay(stream, session)
    return {
        "r2": _finite(decoded.r2),
        "r2_xy": [_finite(r) for r in decoded.r2_xy],
        "params": sum(p.numel() for p in model.parameters()),
        "train_s": round(seconds, 3),
        "step_us_p50": round(played.percentile_us(50), 1),
        "step_us_p99": round(played.percentile_us(99), 1),
    }


def _finite(value: float) -> float | None:
    """JSON has no NaN: R² of an axis along which nothing moved is null."""
    return round(value, 6) if math.isfinite(value) else None
