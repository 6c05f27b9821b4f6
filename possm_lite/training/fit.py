"""Train a decoder on one session by gradient descent."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor, nn
from tqdm import tqdm

from ..spikes.batch import SpikeBatch
from ..spikes.recording import RecordingError
from .evaluate import evaluate
from .session import Session


@dataclass(frozen=True)
class FitConfig:
    """How to train.

    Args:
        epochs: passes over the training part, in windows.
        window_s: length of a training window, seconds.
        batch: windows in a step.
        lr: peak learning rate of AdamW; it warms up over the first tenth and falls to zero along a cosine.
        weight_decay: of AdamW.
        unit_dropout: largest share of units hidden from a window; the share is drawn anew for every window.
        seed: of windows and hidden units.
    """

    epochs: int = 60
    window_s: float = 1.0
    batch: int = 64
    lr: float = 4e-3
    weight_decay: float = 0.01
    unit_dropout: float = 0.3
    seed: int = 0


@dataclass
class History:
    """Training loss and validation R² after each epoch, the epoch whose weights were kept, and seconds taken."""

    loss: list[float] = field(default_factory=list)
    valid_r2: list[float] = field(default_factory=list)
    best_epoch: int = -1
    seconds: float = 0.0


def fit(
    model: nn.Module, session: Session, config: FitConfig | None = None, session_index: int = 1, progress: bool = True
) -> History:
    """Train in place; the weights of the epoch with the best validation R² are kept.

        loss = mean over samples and axes of ((velocity - decoded) / std)^2

    Args:
        model: a POSSM, or a binned decoder of `decoder.binned`, for this recording's units. Set torch's seed before
            making it: `config.seed` is that of the windows.
        session: from `prepare`.
        config: how to train.
        session_index: which of the model's sessions this is, from 1.
        progress: show a bar with loss, validation R² and time left.

    Raises:
        RecordingError: if no window fits into the training part.
    """
    config = config or FitConfig()
    device = model.velocity_mean.device
    std = torch.from_numpy(session.std).to(device)
    model.velocity_mean[session_index] = torch.from_numpy(session.mean)
    model.velocity_std[session_index] = std
    draw = WindowSampler(session, config)
    index = torch.full((config.batch,), session_index, device=device)

    def loss_of_step() -> Tensor:
        batch = draw().to(device)
        error = (model(batch, batch.times_s, index) - batch.velocity) / std
        return error[batch.mask].square().mean()

    def validate() -> float:
        return evaluate(model, session, "valid", session_index).r2

    return _descend(model, loss_of_step, validate, draw.steps_per_epoch, config, progress)


class WindowSampler:
    """Training windows at random places of the training part, some units hidden from each.

    A window begins anywhere, so the edges of its bins fall anywhere too; hiding units keeps the decoder from leaning
    on a few.
    """

    def __init__(self, session: Session, config: FitConfig):
        self._timeline, self._config = session.timeline, config
        self._rng = np.random.default_rng(config.seed)
        spans = session.stretches("train")
        self._starts, lengths = spans[:, 0], spans[:, 1] - spans[:, 0]
        self._room = np.maximum(lengths - config.window_s, 0.0)
        # a stretch gets windows by its length; one shorter than a window gets none
        self._share = np.where(lengths >= config.window_s, lengths, 0.0)
        if not self._share.any():
            raise RecordingError(
                f"no training window of {config.window_s} s fits: "
                f"the longest stretch of trials is {lengths.max():.3f} s."
            )
        self.steps_per_epoch = max(1, round(self._share.sum() / (config.window_s * config.batch)))
        self._share = self._share / self._share.sum()

    def __call__(self) -> SpikeBatch:
        config, rng = self._config, self._rng
        stretch = rng.choice(len(self._starts), config.batch, p=self._share)
        starts = self._starts[stretch] + rng.random(config.batch) * self._room[stretch]
        hidden = rng.random((config.batch, 1)) * config.unit_dropout
        shown = rng.random((config.batch, self._timeline.recording.n_units)) >= hidden
        return self._timeline.cut(starts, config.window_s, shown)


def _descend(
    model: nn.Module, loss_of_step, validate, steps_per_epoch: int, config: FitConfig, progress: bool
) -> History:
    optimizer = torch.optim.AdamW(model.parameters(), lr=config.lr, weight_decay=config.weight_decay)
    steps = config.epochs * steps_per_epoch
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, config.lr, total_steps=steps, pct_start=0.1)
    history, best, began = History(), None, time.perf_counter()
    with tqdm(total=config.epochs, disable=not progress, unit="epoch", desc=type(model).__name__) as bar:
        for epoch in range(config.epochs):
            model.train()
            losses = [_step(model, loss_of_step, optimizer, schedule) for _ in range(steps_per_epoch)]
            history.loss.append(float(np.mean(losses)))
            history.valid_r2.append(validate())
            if best is None or history.valid_r2[-1] > history.valid_r2[history.best_epoch]:
                history.best_epoch = epoch
                best = {name: tensor.clone() for name, tensor in model.state_dict().items()}
            bar.set_postfix(loss=f"{history.loss[-1]:.3f}", valid_R2=f"{history.valid_r2[-1]:.3f}")
            bar.update()
    model.load_state_dict(best)
    model.eval()
    history.seconds = time.perf_counter() - began
    return history


def _step(model: nn.Module, loss_of_step, optimizer, schedule) -> float:
    optimizer.zero_grad()
    loss = loss_of_step()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    schedule.step()
    return loss.item()
