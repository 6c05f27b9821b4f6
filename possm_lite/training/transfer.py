"""Several sessions in one model, which share all weights but embeddings, and a trained model on a new session.

Learning the embeddings alone is unit identification. Source: Azabou et al. 2023 (POYO, arXiv 2310.16046).
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
# of `adapt`, measured by `make bench ARGS="trials"`: few epochs of a short session are steps only in small batches
ADAPTATION = FitConfig(epochs=10, window_s=1.0, batch=8, samples=20, lr=1e-3)


def combine_sessions(
    sessions: Sequence[Session],
    indices: Sequence[int] | None = None,
    group: ProcessGroup = SINGLE_PROCESS,
) -> list[Session]:
    """Number sessions from `prepare` and their units for one model: no two get the same index or the same units.

    `indices` among all are 1, 2, ...; other processes of `group` hold the others. RecordingError for other columns.
    """
    indices = range(1, len(sessions) + 1) if indices is None else indices
    widths = {i: s.timeline.bin_width_s for i, s in zip(indices, sessions, strict=True)}
    columns = {
        i: s.recording.behavior_columns.tolist() for i, s in zip(indices, sessions, strict=True)
    }
    for name, values in (("bin_width_s", widths), ("behavior_columns", columns)):
        first, *others = group.all_gather(values).values()
        if any(other != first for other in others):
            raise RecordingError(
                f"{name} must be the same in all sessions, not {[first, *others]}."
            )
    n_units = group.all_gather(
        {i: s.recording.n_units for i, s in zip(indices, sessions, strict=True)}
    )
    first_unit = {i: 1 + sum(n_units[j] for j in n_units if j < i) for i in indices}
    return [
        replace(s, index=i, first_unit=first_unit[i])
        for i, s in zip(indices, sessions, strict=True)
    ]


def extract_session(model: POSSM, session: Session) -> POSSM:
    """The decoder of one of the combined sessions, as its only one: the same outputs, with its embeddings alone."""
    n_units = session.recording.n_units
    state = model.state_dict()
    rows = dict.fromkeys(("session_embedding.weight", *_SCALE), [0, session.index])
    rows["unit_embedding.weight"] = [
        0,
        *range(session.first_unit, session.first_unit + n_units),
    ]  # 0: the blank token
    state |= {name: state[name][index] for name, index in rows.items()}
    extracted = _single_session(model, n_units)
    extracted.load_state_dict(state)
    return extracted.train(model.training)


def for_new_session(model: POSSM, n_units: int) -> POSSM:
    """A decoder for a new session: embeddings are drawn from torch's generator, all other weights copied."""
    new = _single_session(model, n_units)
    state = model.state_dict() | {name: new.state_dict()[name] for name in (*_EMBEDDINGS, *_SCALE)}
    state["unit_embedding.weight"][0] = model.unit_embedding.weight[
        0
    ]  # the blank token is the same in all sessions
    new.load_state_dict(state)
    return new


def freeze_backbone(model: POSSM) -> POSSM:
    """Make unit and session embeddings the only trainable parameters, in place."""
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
    """The decoder of a new session, from that of others: unit identification, then training of all weights.

    Both stages take at least `min_steps` steps, the first at ten times the learning rate, 10 at most. `config.seed` is
    also that of the embeddings; `checkpoints` has one for each stage. Returns both as one history.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.seed)
        new = freeze_backbone(for_new_session(model, session.recording.n_units))
    steps_per_epoch = max(1, round(WindowSampler(session, config).n_windows / config.batch))
    config = replace(config, epochs=max(config.epochs, math.ceil(min_steps / steps_per_epoch)))
    units = fit(
        new,
        session,
        replace(config, lr=min(10 * config.lr, 10.0)),
        progress,
        checkpoint=checkpoints[0],
    )
    new.requires_grad_(True)
    every = fit(new, session, config, progress, checkpoint=checkpoints[1])
    valid_r2 = units.valid_r2 | {config.epochs + epoch: r2 for epoch, r2 in every.valid_r2.items()}
    return new, History(units.loss + every.loss, valid_r2, units.seconds + every.seconds)


def _single_session(model: POSSM, n_units: int) -> POSSM:
    return POSSM(replace(model.config, n_units=n_units, n_sessions=1)).to(
        model.readout.weight
    )  # dtype, device
