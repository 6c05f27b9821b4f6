"""Train a decoder on one session, or on several at once, by gradient descent."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor, nn
from tqdm import tqdm

from .crew import ALONE, Crew
from .evaluate import evaluate
from .session import Session
from .windows import JointSampler


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
        validations: how often, about, to score the validation part on the way; 0: never.
        seed: of windows and hidden units.
    """

    epochs: int = 40
    window_s: float = 2.0
    batch: int = 16
    samples: int = 40
    lr: float = 2e-3
    weight_decay: float = 0.01
    unit_dropout: float = 0.1
    validations: int = 10
    seed: int = 0


@dataclass
class History:
    """How training went.

    Args:
        loss: mean training loss of each epoch.
        valid_r2: validation R² by the number of epochs it was measured after.
        seconds: taken, validation included.
    """

    loss: list[float] = field(default_factory=list)
    valid_r2: dict[int, float] = field(default_factory=dict)
    seconds: float = 0.0


def fit(
    model: nn.Module,
    sessions: Session | Sequence[Session],
    config: FitConfig | None = None,
    progress: bool = True,
    crew: Crew = ALONE,
) -> History:
    """Train in place. The learning rate falls to zero, so the last weights are the ones to keep.

        loss = mean over samples and axes of ((velocity - decoded) / std)^2

    Parameters that do not require a gradient stay as they are.

    Args:
        model: a POSSM, or a binned decoder of `decoder.binned`, for the units of these sessions. Set torch's seed
            before making it: `config.seed` is that of the windows.
        sessions: from `prepare`, or several from `join`.
        config: how to train.
        progress: show a bar with loss, validation R² (mean of the sessions) and time left.
        crew: the processes that train this model together, each with the sessions it holds; see `crew.crew`.

    Raises:
        CrewError: more processes than windows in a step.
    """
    config = config or FitConfig()
    sessions = [sessions] if isinstance(sessions, Session) else list(sessions)
    device = model.velocity_mean.device
    draw = JointSampler(sessions, config, crew)
    std = torch.ones(len(draw.known) + 1, 2, dtype=torch.float64, device=device)
    for index, (mean, std_of_session, _) in draw.known.items():
        std[index] = torch.from_numpy(std_of_session)
        model.velocity_mean[index], model.velocity_std[index] = torch.from_numpy(mean), std[index]
    shared = crew.share(model)

    def loss_of_step() -> Tensor:
        batch, index = (x.to(device) for x in draw())
        error = (shared(batch, batch.times_s, index) - batch.velocity) / std[index][:, None]
        known = error[batch.mask]
        # gradients are averaged over the crew: every sample of the global batch must weigh the same
        return known.square().sum() / (crew.total(known.numel()) / crew.size)

    def validate() -> float:
        scores = crew.collect({s.index: evaluate(model, s, "valid").r2 for s in sessions})
        return float(np.mean(list(scores.values())))

    return _descend(model, loss_of_step, validate, draw.steps_per_epoch, config, progress and crew.leads, crew)


def _descend(
    model: nn.Module, loss_of_step, validate, steps_per_epoch: int, config: FitConfig, progress: bool, crew: Crew
) -> History:
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=config.lr, weight_decay=config.weight_decay, fused=True)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, config.lr, total_steps=config.epochs * steps_per_epoch + 1, pct_start=0.1, cycle_momentum=False
    )
    every = max(1, config.epochs // config.validations) if config.validations else 0
    history, began = History(), time.perf_counter()
    with tqdm(total=config.epochs, disable=not progress, unit="epoch", desc=type(model).__name__) as bar:
        for epoch in range(1, config.epochs + 1):
            model.train()
            losses = [_step(trained, loss_of_step, optimizer, schedule) for _ in range(steps_per_epoch)]
            history.loss.append(crew.total(float(np.mean(losses))) / crew.size)
            if every and (epoch % every == 0 or epoch == config.epochs):
                history.valid_r2[epoch] = validate()
            shown = {"valid_R2": f"{history.valid_r2[max(history.valid_r2)]:.3f}"} if history.valid_r2 else {}
            bar.set_postfix(loss=f"{history.loss[-1]:.3f}", **shown)
            bar.update()
    model.eval()
    history.seconds = time.perf_counter() - began
    return history


def _step(trained: list[nn.Parameter], loss_of_step, optimizer, schedule) -> float:
    optimizer.zero_grad()
    loss = loss_of_step()
    loss.backward()
    nn.utils.clip_grad_norm_(trained, 1.0)
    optimizer.step()
    schedule.step()
    return loss.item()
