"""The main job: a recording in, three decoders trained, compared and kept."""

from __future__ import annotations

import json
import math
import shutil
import time
import uuid
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn

from ..decoder.binned import BinnedGRU
from ..decoder.binned_streaming import GRUStream, WienerStream
from ..decoder.config import POSSMConfig
from ..decoder.possm import POSSM
from ..decoder.streaming import StreamingDecoder
from .baselines import fit_wiener
from .checkpoint import TrainedOn, save_checkpoint
from .evaluate import Decoded, evaluate
from .fit import FitConfig, fit
from .replay import replay, slot_offsets
from .report import picture
from .session import Session


@dataclass(frozen=True)
class Run:
    """A finished run: the trained decoder, what it was trained on, its answers on the test part, and all figures."""

    model: POSSM
    trained_on: TrainedOn
    session: Session
    decoded: Decoded
    metrics: dict


def run(
    session: Session, trained_on: TrainedOn, config: FitConfig, backbone: str = "gru", progress: bool = True
) -> Run:
    """Train POSSM, a Wiener filter and a GRU on binned counts, and test them on the held-out part.

    Args:
        session: from `prepare`.
        trained_on: what the checkpoint is to say of it.
        config: training of POSSM and of the GRU; its seed is that of their weights too.
        backbone: of POSSM.
        progress: show bars.
    """
    n_units, width, slots = session.recording.n_units, session.timeline.bin_width_s, slot_offsets(session)

    def train(make) -> tuple[nn.Module, float]:
        torch.manual_seed(config.seed)
        model = make()
        return model, fit(model, session, config, progress=progress).seconds

    possm, possm_s = train(lambda: POSSM(POSSMConfig(n_units=n_units, backbone=backbone, bin_width_s=width)))
    gru, gru_s = train(lambda: BinnedGRU(n_units, width, len(slots)))
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
        "split": str(session.split),
        "lag_s": session.timeline.lag_s,
        "bin_width_s": width,
        "n_train": len(session.parts.train),
        "n_test": len(session.parts.test),
        "models": figures,
    }
    return Run(possm, trained_on, session, evaluate(possm, session), metrics)


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


def save_run(finished: Run, folder: Path):
    """Write checkpoint, metrics and picture into a new folder, which appears when it is whole.

    Raises:
        FileExistsError: there is something at `folder` already.
        OSError: it could not be written; nothing is left behind.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    partial = folder.with_name(f".{uuid.uuid4().hex}.partial")
    partial.mkdir()
    try:
        save_checkpoint(partial / "checkpoint.npz", finished.model, finished.trained_on)
        (partial / "metrics.json").write_text(json.dumps(finished.metrics, indent=2) + "\n", encoding="utf-8")
        picture(finished.decoded, finished.session).savefig(partial / "decoded.png", dpi=120)
        if folder.exists():
            raise FileExistsError(f"{folder} exists already")
        partial.rename(folder)
    finally:
        shutil.rmtree(partial, ignore_errors=True)  # gone already where all went well


def next_folder(parent: Path, name: str) -> Path:
    """The first of parent/name-1, parent/name-2, ... that does not exist."""
    safe = "".join(c if c.isalnum() or c in "-_." else "-" for c in name).strip(".")[:60] or "run"
    number = 1
    while (parent / f"{safe}-{number}").exists():
        number += 1
    return parent / f"{safe}-{number}"
