"""Train a decoder on one session, or on several at once, by gradient descent."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field

import numpy as np
import torch
from torch import Tensor, nn
from tqdm import tqdm

from .distributed import SINGLE_PROCESS, ProcessGroup
from .evaluate import evaluate
from .resume import Training, TrainingCheckpoint, fingerprint
from .session import Session
from .windows import MultiSessionSampler


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
        seconds: taken, validation and saving included; without those between an end that came too soon and going on.
    """

    loss: list[float] = field(default_factory=list)
    valid_r2: dict[int, float] = field(default_factory=dict)
    seconds: float = 0.0


def fit(
    model: nn.Module,
    sessions: Session | Sequence[Session],
    config: FitConfig | None = None,
    progress: bool = True,
    crew: ProcessGroup = SINGLE_PROCESS,
    saved: TrainingCheckpoint | None = None,
) -> History:
    """Train in place. The learning rate falls to zero, so the last weights are the ones to keep.

        loss = mean over samples and axes of ((velocity - decoded) / std)^2

    Parameters that do not require a gradient stay as they are.

    Args:
        model: a POSSM, or a binned decoder of `decoder.baselines`, for the units of these sessions. Set torch's seed
            before making it: `config.seed` is that of the windows.
        sessions: from `prepare`, or several from `combine_sessions`.
        config: how to train.
        progress: show a bar with loss, validation R² (mean of the sessions) and time left.
        crew: the processes that train this model together, each with the sessions it holds; see `crew.crew`.
        saved: keeps the state of training in a file; where the file is there already, training goes on from it.

    Raises:
        DistributedError: more processes than windows in a step.
        CheckpointError: the state could not be saved, or is that of another training.
    """
    config = config or FitConfig()
    sessions = [sessions] if isinstance(sessions, Session) else list(sessions)
    device = model.velocity_mean.device
    draw = MultiSessionSampler(sessions, config, crew)
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

    training = _set_up(model, draw, config)
    if saved:
        prints = crew.collect({s.index: fingerprint(s) for s in sessions})
        training.given.update(config=asdict(config), sessions=prints)
        saved.restore(training, crew)
    _descend(training, loss_of_step, validate, config, progress and crew.leads, crew, saved)
    return training.history


def _set_up(model: nn.Module, draw: MultiSessionSampler, config: FitConfig) -> Training:
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=config.lr, weight_decay=config.weight_decay, fused=True)
    n_steps = config.epochs * draw.steps_per_epoch
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, config.lr, total_steps=n_steps + 1, pct_start=0.1, cycle_momentum=False
    )
    return Training(model, optimizer, schedule, draw, History())


def _descend(
    training: Training,
    loss_of_step,
    validate,
    config: FitConfig,
    progress: bool,
    crew: ProcessGroup,
    saved: TrainingCheckpoint | None,
):
    """Train for the epochs that are left."""
    model, history = training.model, training.history
    every = max(1, config.epochs // config.validations) if config.validations else 0
    began, done = time.perf_counter() - history.seconds, len(history.loss)
    with tqdm(total=config.epochs, initial=done, disable=not progress, unit="epoch", desc=type(model).__name__) as bar:
        for epoch in range(done + 1, config.epochs + 1):
            model.train()
            losses = [_step(training, loss_of_step) for _ in range(training.draw.steps_per_epoch)]
            history.loss.append(crew.total(float(np.mean(losses))) / crew.size)
            if every and (epoch % every == 0 or epoch == config.epochs):
                history.valid_r2[epoch] = validate()
            history.seconds = time.perf_counter() - began
            if saved:
                saved.keep(training, crew, last=epoch == config.epochs)
            shown = {"valid_R2": f"{history.valid_r2[max(history.valid_r2)]:.3f}"} if history.valid_r2 else {}
            bar.set_postfix(loss=f"{history.loss[-1]:.3f}", **shown)
            bar.update()
    model.eval()
    history.seconds = time.perf_counter() - began


def _step(training: Training, loss_of_step) -> float:
    optimizer = training.optimizer
    optimizer.zero_grad()
    loss = loss_of_step()
    loss.backward()
    nn.utils.clip_grad_norm_(optimizer.param_groups[0]["params"], 1.0)
    optimizer.step()
    training.schedule.step()
    return loss.item()
