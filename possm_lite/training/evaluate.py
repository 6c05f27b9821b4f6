"""Decode a part of a recording causally and score it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from ..decoder.possm import POSSM
from .session import Session


@dataclass(frozen=True)
class Decoded:
    """True and decoded velocity at the same times.

    Args:
        times_s: on the clock of behaviour, (T,).
        true, decoded: in the unit of the recording, (T, 2).
    """

    times_s: np.ndarray
    true: np.ndarray
    decoded: np.ndarray

    @property
    def r2_xy(self) -> tuple[float, float]:
        return tuple(float(r) for r in r2_score(self.true, self.decoded))

    @property
    def r2(self) -> float:
        return float(np.mean(self.r2_xy))


def r2_score(true: np.ndarray, decoded: np.ndarray) -> np.ndarray:
    """1 - squared error over squared deviation from the mean, for each column, over all rows at once.

    NaN for a column that never changes: nothing about it can be explained.
    """
    residual = ((true - decoded) ** 2).sum(0)
    spread = ((true - true.mean(0)) ** 2).sum(0)
    return np.where(spread > 0, 1 - residual / np.where(spread > 0, spread, 1), np.nan)


def evaluate(model: POSSM, session: Session, part: str = "test") -> Decoded:
    """Decode a part in one causal pass over each of its continuous stretches.

    Args:
        model: a fitted POSSM.
        session: from `prepare`, or from `combine_sessions` for a model of several.
        part: "train", "valid" or "test".

    Returns:
        Velocity at every (thinned) behaviour sample of the part, and with it R².
    """
    return decode_segments(session, part, lambda start, stop: _decode(model, session, start, stop))


def decode_segments(session: Session, part: str, decode) -> Decoded:
    """Put together what `decode(start, stop) -> (times, true, decoded)` gives for each stretch of a part."""
    pieces = [decode(start, stop) for start, stop in session.segments(part)]
    return Decoded(*(np.concatenate(column) for column in zip(*pieces, strict=True)))


@torch.no_grad()
def _decode(model: POSSM, session: Session, start: float, stop: float):
    model.eval()
    device = model.velocity_mean.device
    batch = session.cut(start, stop - start).to(device)
    answer = model(batch, batch.times_s, torch.full((1,), session.index, device=device))
    known = batch.mask[0]
    times, true, decoded = (x[0][known].cpu().numpy() for x in (batch.times_s, batch.velocity, answer))
    return times + start, true, decoded
