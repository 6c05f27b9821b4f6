"""Train a decoder on one session by gradient descent."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor, nn
from tqdm import tqdm

from ..spikes.batch import SpikeBatch
from .evaluate import evaluate
from .session import Session


@dataclass(frozen=True)
class FitConfig:
    """How to train.

    Args:
        epochs: passes over the training part, in windows.
        window_s: length of a training window, seconds; shorter where trials lie apart and are shorter.
        batch: windows in a step.
        samples: behaviour samples of a window that a step looks at, drawn anew each time. Neighbours 10 ms apart say
            nearly the same, and an answer costs more than a spike.
        lr: peak learning rate of AdamW; it warms up over the first tenth and falls to zero along a cosine.
        weight_decay: of AdamW.
        unit_dropout: largest share of units hidden from a window; the share is drawn anew for every window.
        seed: of windows and hidden units.
    """

    epochs: int = 40
    window_s: float = 2.0
    batch: int = 16
    samples: int = 40
    lr: float = 2e-3
    weight_decay: float = 0.01
    unit_dropout: float = 0.1
    seed: int = 0


@dataclass
class History:
    """How training went.

    Args:
        loss: mean training loss of each epoch.
        valid_r2: validation R² by the number of epochs it was measured after; about ten times in all.
        seconds: taken, validation included.
    """

    loss: list[float] = field(default_factory=list)
    valid_r2: dict[int, float] = field(default_factory=dict)
    seconds: float = 0.0


def fit(
    model: nn.Module, session: Session, config: FitConfig | None = None, session_index: int = 1, progress: bool = True
) -> History:
    """Train in place. The learning rate falls to zero, so the last weights are the ones to keep.

        loss = mean over samples and axes of ((velocity - decoded) / std)^2

    Args:
        model: a POSSM, or a binned decoder of `decoder.binned`, for this recording's units. Set torch's seed before
            making it: `config.seed` is that of the windows.
        session: from `prepare`.
        config: how to train.
        session_index: which of the model's sessions this is, from 1.
        progress: show a bar with loss, validation R² and time left.
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
        # nine of ten stretches shall hold a window; one that does not gets none, the others by their length
        self.window_s = min(config.window_s, float(np.quantile(lengths, 0.1, method="lower")))
        self._room = np.maximum(lengths - self.window_s, 0.0)
        self._share = np.where(lengths >= self.window_s, lengths, 0.0)
        self.steps_per_epoch = max(1, round(self._share.sum() / (self.window_s * config.batch)))
        self._share = self._share / self._share.sum()

    def __call__(self) -> SpikeBatch:
        config, rng = self._config, self._rng
        stretch = rng.choice(len(self._starts), config.batch, p=self._share)
        starts = self._starts[stretch] + rng.random(config.batch) * self._room[stretch]
        hidden = rng.random((config.batch, 1)) * config.unit_dropout
        shown = rng.random((config.batch, self._timeline.recording.n_units)) >= hidden
        batch = self._timeline.cut(starts, self.window_s, shown)
        n_samples = batch.times_s.shape[1]
        return batch.with_samples(np.sort(rng.permutation(n_samples)[: config.samples]))


def _descend(
    model: nn.Module, loss_of_step, validate, steps_per_epoch: int, config: FitConfig, progress: bool
) -> History:
    optimizer = torch.optim.AdamW(model.parameters(), lr=config.lr, weight_decay=config.weight_decay, fused=True)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, config.lr, total_steps=config.epochs * steps_per_epoch + 1, pct_start=0.1, cycle_momentum=False
    )
    validate_every = max(1, config.epochs // 10)
    history, began = History(), time.perf_counter()
    with tqdm(total=config.epochs, disable=not progress, unit="epoch", desc=type(model).__name__) as bar:
        for epoch in range(1, config.epochs + 1):
            model.train()
            losses = [_step(model, loss_of_step, optimizer, schedule) for _ in range(steps_per_epoch)]
            history.loss.append(float(np.mean(losses)))
            if epoch % validate_every == 0 or epoch == config.epochs:
                history.valid_r2[epoch] = validate()
            shown = {"valid_R2": f"{history.valid_r2[max(history.valid_r2)]:.3f}"} if history.valid_r2 else {}
            bar.set_postfix(loss=f"{history.loss[-1]:.3f}", **shown)
            bar.update()
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
