"""Several sessions in one model, and a trained model on a new session.

Sessions of one model share all weights but embeddings. Learning the embeddings alone is unit
identification. Source: Azabou et al. 2023 (POYO, arXiv 2310.16046).
"""

import math
from collections.abc import Sequence
from dataclasses import replace

import torch

from ..decoder.possm import POSSM
from ..errors import RecordingError
from .checkpoint import History, TrainingCheckpoint
from .distributed import SINGLE_PROCESS, ProcessGroup
from .fit import FitConfig, fit
from .session import Session
from .windows import WindowSampler

_EMBEDDINGS = ("unit_embedding.weight", "session_embedding.weight")
_SCALE = ("behavior_mean", "behavior_std")
# of `adapt`, measured by `make bench ARGS="trials"`: few epochs of a short session are steps only
# in small batches
ADAPTATION = FitConfig(epochs=10, window_s=1.0, batch=8, samples=20, lr=1e-3)


def combine_sessions(
    sessions: Sequence[Session],
    indices: Sequence[int] | None = None,
    group: ProcessGroup = SINGLE_PROCESS,
) -> list[Session]:
    """Number sessions and their units for one model: no two get the same index or the same units.

    Args:
        sessions: from `prepare`, those of this process.
        indices: an index of each, from 1; None: 1, 2, ... The indices of all processes together
            are 1 to the number of sessions.
        group: the processes of the training, of which others hold other sessions.

    Returns:
        The sessions of this process, with `index` and `first_unit` in the common model.

    Raises:
        RecordingError: sessions have other bin widths, other columns of behaviour or other classes.
    """
    indices = range(1, len(sessions) + 1) if indices is None else indices
    numbered = dict(zip(indices, sessions, strict=True))
    widths = {i: s.timeline.bin_width_s for i, s in numbered.items()}
    columns = {i: s.recording.behavior_columns.tolist() for i, s in numbered.items()}
    _check_same("bin_width_s", widths, group)
    _check_same("behavior_columns", columns, group)
    _check_same("classes", {i: s.recording.classes.tolist() for i, s in numbered.items()}, group)
    n_units = group.all_gather({i: s.recording.n_units for i, s in numbered.items()})
    combined = []
    for i, session in numbered.items():
        n_before = sum(n for j, n in n_units.items() if j < i)
        combined.append(replace(session, index=i, first_unit=1 + n_before))
    return combined


def _check_same(name: str, values: dict, group: ProcessGroup):
    """RecordingError unless a property has one value in the sessions of all processes."""
    first, *others = group.all_gather(values).values()
    if any(other != first for other in others):
        raise RecordingError(f"{name} must be the same in all sessions, not {[first, *others]}.")


def extract_session(model: POSSM, session: Session) -> POSSM:
    """The decoder of one of the combined sessions, as its only one: it gives the same outputs.

    Args:
        model: a POSSM of several sessions.
        session: one of them, from `combine_sessions`.

    Returns:
        A POSSM with the embeddings and the scale of this session alone.
    """
    n_units = session.recording.n_units
    units = [0, *range(session.first_unit, session.first_unit + n_units)]  # 0: the blank token
    sessions = [0, session.index]
    state = model.state_dict()
    for name in ("session_embedding.weight", *_SCALE):
        state[name] = state[name][sessions]
    state["unit_embedding.weight"] = state["unit_embedding.weight"][units]
    extracted = _single_session(model, n_units)
    extracted.load_state_dict(state)
    return extracted.train(model.training)


def for_new_session(model: POSSM, n_units: int) -> POSSM:
    """A decoder for a new session: embeddings are drawn anew, all other weights copied.

    Args:
        model: a trained POSSM of one or several sessions.
        n_units: number of units of the new session.

    Returns:
        A POSSM of one session; its embeddings are from torch's generator, its scale is not set.
    """
    new = _single_session(model, n_units)
    drawn = {name: new.state_dict()[name] for name in (*_EMBEDDINGS, *_SCALE)}
    state = model.state_dict() | drawn
    # the blank token is the same in all sessions
    state["unit_embedding.weight"][0] = model.unit_embedding.weight[0]
    new.load_state_dict(state)
    return new


def freeze_backbone(model: POSSM) -> POSSM:
    """Make unit and session embeddings the only trainable parameters of `model`, in place."""
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(name in _EMBEDDINGS)
    return model


def adapt(
    model: POSSM,
    session: Session,
    config: FitConfig = ADAPTATION,
    min_steps: int = 200,
    progress: bool = True,
    checkpoints: Sequence[TrainingCheckpoint | None] = (None, None),
) -> tuple[POSSM, History]:
    """The decoder of a new session, from that of others.

    Unit identification, which trains embeddings alone, is followed by training of all weights.

    Args:
        model: a trained POSSM of other sessions; it is not changed.
        session: the new session, from `prepare`.
        config: settings of both stages; the first takes ten times the learning rate, 10 at most.
            `seed` is also that of the embeddings.
        min_steps: least number of steps of each stage; epochs are added until they are reached.
        progress: show a bar for each stage.
        checkpoints: a file for each stage to save its state in, and to resume from; or None.

    Returns:
        The decoder, and the course of both stages as one history.

    Raises:
        ValueError: the session has other columns than the model.
        CheckpointError: a state in `checkpoints` cannot be used, or could not be written.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.seed)
        new = freeze_backbone(for_new_session(model, session.recording.n_units))
    n_windows = WindowSampler(session, config).n_windows
    steps_per_epoch = max(1, round(n_windows / config.batch))
    n_epochs = max(config.epochs, math.ceil(min_steps / steps_per_epoch))
    of_all = replace(config, epochs=n_epochs)
    of_units = replace(of_all, lr=min(10 * config.lr, 10.0))
    units = fit(new, session, of_units, progress, checkpoint=checkpoints[0])
    new.requires_grad_(True)
    every = fit(new, session, of_all, progress, checkpoint=checkpoints[1])
    later = {n_epochs + epoch: r2 for epoch, r2 in every.valid_r2.items()}
    history = History(
        loss=units.loss + every.loss,
        valid_r2=units.valid_r2 | later,
        seconds=units.seconds + every.seconds,
    )
    return new, history


def _single_session(model: POSSM, n_units: int) -> POSSM:
    """A POSSM of one session with newly drawn weights, with dtype and device of `model`."""
    new = POSSM(replace(model.config, n_units=n_units, n_sessions=1))
    return new.to(model.readout.weight)
