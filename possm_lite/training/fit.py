"""Train a decoder on one or several sessions by gradient descent."""

import math
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import AdamW
from torch.optim.lr_scheduler import LambdaLR
from tqdm import tqdm

from .checkpoint import History, TrainingCheckpoint
from .classes import class_counts, class_weights, decode_classes
from .distributed import SINGLE_PROCESS, ProcessGroup
from .evaluate import evaluate
from .session import Session, check_sessions, decodes_classes
from .windows import MultiSessionSampler

# Beyond these a setting means nothing, or takes too much memory or time; other numbers: 0..100,000.
_RANGES = {
    "dim": (1, 4096),
    "hidden": (1, 4096),
    "batch": (1, 4096),
    "samples": (1, 4096),
    "seed": (0, 2**63 - 1),
    "epochs": (1, 10**6),
    "lr": (1e-9, 10.0),
    "unit_dropout": (0.0, 1.0),
    "bin_width_s": (0.001, 10.0),
    "window_s": (0.01, 600.0),
    "lag_s": (-10.0, 10.0),
}


def check_ranges(values: dict):
    """Check that every number in settings lies in its range; other values are passed over.

    Args:
        values: settings by their name in a configuration, or as an option.

    Raises:
        ValueError: names the first setting that is out of its range.
    """
    for name, value in values.items():
        low, high = _RANGES.get(name, (0, 100_000))
        if isinstance(value, (int, float)) and not low <= value <= high:
            raise ValueError(f"{name} must lie in {low}..{high}, not {value!r}")


@dataclass(frozen=True)
class FitConfig:
    """Settings of a training.

    Attributes:
        epochs: passes over the training part.
        window_s: length of a training window, seconds; shorter if most segments of trials are
            shorter.
        batch: windows in a step.
        samples: behaviour samples of a window used in a step, drawn anew each time.
        lr: peak learning rate of AdamW; it warms up over the first tenth and falls to zero along a
            cosine.
        weight_decay: of AdamW.
        unit_dropout: largest share of units hidden from a window; the share is drawn for every
            window.
        validations: approximate number of times to score the validation part during training; 0:
            never.
        seed: of windows and hidden units.

    Raises:
        ValueError: a setting is out of its range; the message names it.
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


def fit(
    model: nn.Module,
    sessions: Session | Sequence[Session],
    config: FitConfig | None = None,
    progress: bool = True,
    group: ProcessGroup = SINGLE_PROCESS,
    checkpoint: TrainingCheckpoint | None = None,
) -> History:
    """Train a model in place, by AdamW on gradients clipped to a norm of 1.

    The last weights are the result.

        loss = mean over samples and columns of ((behaviour - decoded) / std)^2

    or, of classes y, with w of `class_weights` of all training parts,

        loss = mean over samples of w_y (-log softmax(logits)_y)

    Args:
        model: a POSSM, or a binned decoder of `decoder.baselines`. Parameters without gradient stay
            as they are.
        sessions: from `prepare`, or several from `combine_sessions`.
        config: settings of the training; None: the defaults of `FitConfig`.
        progress: show a bar with loss, validation score (mean of the sessions) and time left.
        group: the processes that train this model together, from `process_group`, each with its own
            sessions.
        checkpoint: a file to save the state of training in; if it exists, training resumes from it.

    Returns:
        Loss of each epoch, validation R², of classes balanced accuracy, and duration.

    Raises:
        ValueError: sessions that share an index, or have other units or columns than the model.
        CheckpointError: the state in `checkpoint` is damaged or of another training, or it could
            not be written.
        DistributedError: more processes than windows in a step.
    """
    config = config or FitConfig()
    sessions = list(sessions) if isinstance(sessions, Sequence) else [sessions]
    check_sessions(model, sessions)
    training = _Training(model, sessions, config, group)
    history = training.restore(checkpoint) if checkpoint else History()
    start = time.perf_counter() - history.seconds
    with _progress_bar(model, config, history, hidden=not (progress and group.is_main)) as bar:
        for epoch in range(len(history.loss) + 1, config.epochs + 1):
            history.loss.append(training.run_epoch())
            if _is_scored(epoch, config):
                history.valid_r2[epoch] = training.validation_r2()
            _show_scores(bar, history, model)
            history.seconds = time.perf_counter() - start
            if checkpoint:
                checkpoint.save_if_due(last=epoch == config.epochs)
            bar.update()
    model.eval()
    return history


class _Training:
    """A model in training: its windows, its optimizer and the schedule of the learning rate."""

    def __init__(
        self, model: nn.Module, sessions: list[Session], config: FitConfig, group: ProcessGroup
    ):
        self._model = model
        self._sessions = sessions
        self._config = config
        self._group = group
        self._sampler = MultiSessionSampler(sessions, config, group)
        self._std = _set_scale(model, self._sampler.stats)  # (S, C), by index of session
        self._class_weights = None
        if decodes_classes(model):
            counts = group.all_gather({s.index: class_counts(s) for s in sessions}).values()
            weights = torch.from_numpy(class_weights(sum(counts)))
            self._class_weights = weights.to(model.behavior_std)
        # gradients are averaged over the processes, which begin with the weights of the main one
        self._replica = model if group.size == 1 else nn.parallel.DistributedDataParallel(model)
        self._trainable = [p for p in model.parameters() if p.requires_grad]
        self._optimizer = AdamW(
            self._trainable, lr=config.lr, weight_decay=config.weight_decay, fused=True
        )
        n_steps = config.epochs * self._sampler.steps_per_epoch
        self._schedule = LambdaLR(self._optimizer, lambda step: learning_rate_factor(step, n_steps))

    def restore(self, checkpoint: TrainingCheckpoint) -> History:
        """The history of the training in a checkpoint, whose state this one takes over."""
        parts = {
            "model": self._model,
            "optimizer": self._optimizer,
            "schedule": self._schedule,
            "sampler": self._sampler,
        }
        settings = asdict(self._config)
        if hasattr(self._model, "config"):
            settings |= asdict(self._model.config)
        return checkpoint.restore(parts, self._sessions, settings, self._group)

    def run_epoch(self) -> float:
        """Train for an epoch; returns the mean loss of its steps, over all processes."""
        self._model.train()
        losses = [self._step() for _ in range(self._sampler.steps_per_epoch)]
        return self._group.sum(float(np.mean(losses))) / self._group.size

    def validation_r2(self) -> float:
        """Score of the validation part, the mean of the sessions of all processes."""
        own = {s.index: self._score(s) for s in self._sessions}
        scores = self._group.all_gather(own)
        return float(np.mean(list(scores.values())))

    def _score(self, session: Session) -> float:
        """R², of classes balanced accuracy, of the validation part of a session."""
        if self._class_weights is None:
            return evaluate(self._model, session, "valid").r2
        return decode_classes(self._model, session, "valid").balanced_accuracy

    def _step(self) -> float:
        """Change the weights against the gradient of the loss of new windows; returns the loss."""
        loss = self._loss()
        self._optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self._trainable, 1.0)
        self._optimizer.step()
        self._schedule.step()
        return loss.item()

    def _loss(self) -> Tensor:
        """Mean squared error of standardised behaviour, or cross-entropy, in windows drawn anew."""
        batch, session = self._sampler()
        batch = batch.to(self._std.device)
        session = session.to(self._std.device)  # (B,)
        decoded = self._replica(batch, batch.times_s, session)  # (B, T, C)
        if self._class_weights is not None:
            label = batch.behavior[batch.mask][:, 0].long()  # (K,)
            n_known = max(self._group.sum(len(label)), 1)
            loss = nn.functional.cross_entropy(
                decoded[batch.mask], label, self._class_weights, reduction="sum"
            )
            return loss / (n_known / self._group.size)
        error = (decoded - batch.behavior) / self._std[session][:, None]  # (B, T, C)
        known = error[batch.mask]  # (K, C)
        # every sample of the global batch must have the same weight
        n_known = max(self._group.sum(known.numel()), 1)
        return known.square().sum() / (n_known / self._group.size)


def _set_scale(model: nn.Module, stats: dict[int, tuple[np.ndarray, np.ndarray, float]]) -> Tensor:
    """Write the scale of each session into the model; returns its deviations in float64, (S, C)."""
    device = model.behavior_mean.device
    std = torch.ones(model.behavior_std.shape, dtype=torch.float64, device=device)
    for index, (session_mean, session_std, _) in stats.items():
        std[index] = torch.from_numpy(session_std)
        model.behavior_mean[index] = torch.from_numpy(session_mean)
        model.behavior_std[index] = std[index]
    return std


def _is_scored(epoch: int, config: FitConfig) -> bool:
    """Whether the validation part is scored after an epoch, from 1; the last one always is."""
    if config.validations == 0:
        return False
    every = max(1, config.epochs // config.validations)
    return epoch % every == 0 or epoch == config.epochs


def _progress_bar(model: nn.Module, config: FitConfig, history: History, hidden: bool) -> tqdm:
    """A bar of all epochs, those of a resumed training included."""
    return tqdm(
        desc=type(model).__name__,
        total=config.epochs,
        initial=len(history.loss),
        unit="epoch",
        disable=hidden,
    )


def _show_scores(bar: tqdm, history: History, model: nn.Module):
    """The last loss and the last validation score beside the bar."""
    score = math.nan
    if history.valid_r2:
        score = history.valid_r2[max(history.valid_r2)]
    name = "valid_accuracy" if decodes_classes(model) else "valid_R2"
    bar.set_postfix(loss=f"{history.loss[-1]:.3f}", **{name: f"{score:.3f}"})


def learning_rate_factor(step: int, n_steps: int) -> float:
    """The learning rate over its peak, in step i of n: w = n / 10 steps rise, then half a cosine.

        (i + 1) / w for i < w, else (1 + cos(pi (i - w) / (n - w))) / 2                      (12.10)

    Args:
        step: i, from 0.
        n_steps: n, of the whole training.

    Returns:
        A factor of up to 1.

    Source: Loshchilov and Hutter 2017 (arXiv 1608.03983), eq. 5, for the cosine.
    """
    warm_up = max(1, n_steps // 10)
    if step < warm_up:
        return (step + 1) / warm_up
    fall = max(1, n_steps - warm_up)
    return (1 + math.cos(math.pi * (step - warm_up) / fall)) / 2
