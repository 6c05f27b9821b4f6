"""Train a decoder on one or several sessions by gradient descent."""

import math
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from inspect import unwrap

import numpy as np
import torch
from torch import nn
from tqdm import tqdm

from .checkpoint import History, TrainingCheckpoint
from .distributed import SINGLE_PROCESS, ProcessGroup
from .evaluate import evaluate
from .session import Session, check_sessions
from .windows import MultiSessionSampler

# Ranges of settings, beyond which they mean nothing, or take too much memory or time; other numbers: 0..100,000.
_RANGES = dict.fromkeys(("dim", "hidden", "batch", "samples"), (1, 4096))
_RANGES |= {
    "seed": (0, 2**63 - 1),
    "epochs": (1, 10**6),
    "lr": (1e-9, 10.0),
    "unit_dropout": (0.0, 1.0),
}
_RANGES |= {"bin_width_s": (0.001, 10.0), "window_s": (0.01, 600.0), "lag_s": (-10.0, 10.0)}


def check_ranges(values: dict):
    """Raises ValueError, naming it, for the first number in settings that is out of its range."""
    for name, value in values.items():
        low, high = _RANGES.get(name, (0, 100_000))
        if isinstance(value, (int, float)) and not low <= value <= high:
            raise ValueError(f"{name} must lie in {low}..{high}, not {value!r}")


@dataclass(frozen=True)
class FitConfig:
    """Settings of a training.

    Attributes:
        epochs: passes over the training part.
        window_s: length of a training window, seconds; shorter if most segments of trials are shorter.
        batch: windows in a step.
        samples: behaviour samples of a window used in a step, drawn anew each time.
        lr: peak learning rate of AdamW; it warms up over the first tenth and falls to zero along a cosine.
        weight_decay: of AdamW.
        unit_dropout: largest share of units hidden from a window; the share is drawn for every window.
        validations: approximate number of times to score the validation part during training; 0: never.
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

    def __post_init__(self):
        check_ranges(asdict(self))


class AdamW(torch.optim.AdamW):
    """Torch's, but for the decorators of its methods, which import a compiler at the first call: over a second."""

    step = torch.no_grad()(unwrap(torch.optim.AdamW.step))
    add_param_group, state_dict = (
        unwrap(torch.optim.AdamW.add_param_group),
        unwrap(torch.optim.AdamW.state_dict),
    )
    zero_grad = unwrap(torch.optim.AdamW.zero_grad)


def fit(
    model: nn.Module,
    sessions: Session | Sequence[Session],
    config: FitConfig | None = None,
    progress: bool = True,
    group: ProcessGroup = SINGLE_PROCESS,
    checkpoint: TrainingCheckpoint | None = None,
) -> History:
    """Train in place, by AdamW on gradients clipped to a norm of 1; the last weights are the result.

        loss = mean over samples and columns of ((behaviour - decoded) / std)^2

    Args:
        model: a POSSM, or a binned decoder of `decoder.baselines`. Parameters without gradient stay as they are.
        sessions: from `prepare`, or several from `combine_sessions`.
        progress: show a bar with loss, validation R² (mean of the sessions) and time left.
        group: the processes that train this model together, from `process_group`, each with its own sessions.
        checkpoint: a file to save the state of training in; if it exists, training resumes from it.
    """
    config = config or FitConfig()
    sessions = list(sessions) if isinstance(sessions, Sequence) else [sessions]
    check_sessions(model, sessions)
    device = model.behavior_mean.device
    sampler = MultiSessionSampler(sessions, config, group)
    std = torch.ones(model.behavior_std.shape, dtype=torch.float64, device=device)
    for index, (mean, session_std, _) in sampler.stats.items():
        model.behavior_mean[index], std[index] = (
            torch.from_numpy(mean),
            torch.from_numpy(session_std),
        )
        model.behavior_std[index] = std[index]
    # gradients are averaged over the processes, which begin with the weights of the main one
    replica = model if group.size == 1 else nn.parallel.DistributedDataParallel(model)
    n_steps = config.epochs * sampler.steps_per_epoch
    trainable = [p for p in model.parameters() if p.requires_grad]
    optimizer = AdamW(trainable, lr=config.lr, weight_decay=config.weight_decay, fused=True)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: learning_rate_factor(step, n_steps)
    )
    history = History()
    if checkpoint:
        parts = {"model": model, "optimizer": optimizer, "schedule": schedule, "sampler": sampler}
        settings = asdict(config) | (asdict(model.config) if hasattr(model, "config") else {})
        history = checkpoint.restore(parts, sessions, settings, group)
    every = max(1, config.epochs // config.validations) if config.validations else 0
    start = time.perf_counter() - history.seconds

    def step() -> float:
        batch, index = (x.to(device) for x in sampler())
        known = ((replica(batch, batch.times_s, index) - batch.behavior) / std[index][:, None])[
            batch.mask
        ]  # (K, C)
        # every sample of the global batch must have the same weight
        loss = known.square().sum() / (max(group.sum(known.numel()), 1) / group.size)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(trainable, 1.0)
        optimizer.step()
        schedule.step()
        return loss.item()

    options = {
        "initial": len(history.loss),
        "unit": "epoch",
        "disable": not (progress and group.is_main),
    }
    with tqdm(None, type(model).__name__, config.epochs, **options) as bar:
        for epoch in range(len(history.loss) + 1, config.epochs + 1):
            model.train()
            mean_loss = float(np.mean([step() for _ in range(sampler.steps_per_epoch)]))
            history.loss.append(group.sum(mean_loss) / group.size)
            if every and (epoch % every == 0 or epoch == config.epochs):
                scores = group.all_gather(
                    {s.index: evaluate(model, s, "valid").r2 for s in sessions}
                )
                history.valid_r2[epoch] = float(np.mean(list(scores.values())))
            r2 = next(reversed(history.valid_r2.values()), math.nan)
            bar.set_postfix(loss=f"{history.loss[-1]:.3f}", valid_R2=f"{r2:.3f}")
            history.seconds = time.perf_counter() - start
            if checkpoint:
                checkpoint.save_if_due(last=epoch == config.epochs)
            bar.update()
    model.eval()
    return history


def learning_rate_factor(step: int, n_steps: int) -> float:
    """The learning rate over its peak, in step i of n: w = n / 10 steps of warm-up, then half a cosine.

    (i + 1) / w for i < w, else (1 + cos(pi (i - w) / (n - w))) / 2                                    (12.10)
    """
    warm_up = max(1, n_steps // 10)
    fall = max(1, n_steps - warm_up)
    return (
        (step + 1) / warm_up
        if step < warm_up
        else (1 + math.cos(math.pi * (step - warm_up) / fall)) / 2
    )
