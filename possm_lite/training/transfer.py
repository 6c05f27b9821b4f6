"""Several sessions in one model, and a trained model on a new session.

Sessions share all weights but the embeddings of units, as electrodes move, and of the session. Learning only these for
a new session is called unit identification. Source: Azabou et al. 2023 (POYO, arXiv 2310.16046).
"""

from collections.abc import Sequence
from dataclasses import replace

import torch

from ..decoder.possm import POSSM
from .distributed import SINGLE_PROCESS, ProcessGroup
from .session import Session

_EMBEDDINGS = ("unit_embedding.weight", "session_embedding.weight")
_SCALE = ("behavior_mean", "behavior_std")


def combine_sessions(
    sessions: Sequence[Session], indices: Sequence[int] | None = None, group: ProcessGroup = SINGLE_PROCESS
) -> list[Session]:
    """Number sessions from `prepare` and their units for one model: no two get the same index or the same units.

    `indices` among all sessions count from 1, default 1, 2, ...; the processes of `group` hold the other sessions.
    Raises ValueError for different bin widths or numbers of behaviour columns.
    """
    indices = range(1, len(sessions) + 1) if indices is None else indices
    widths = {s.timeline.bin_width_s for s in sessions}
    if len(widths) > 1:
        raise ValueError(f"bin_width_s must be the same in all sessions, not {sorted(widths)}.")
    columns = {tuple(s.recording.behavior_columns.tolist()) for s in sessions}
    if len(columns) > 1:
        raise ValueError(f"behavior_columns must be the same in all sessions, not {sorted(columns)}.")
    n_units = group.all_gather({i: s.recording.n_units for i, s in zip(indices, sessions, strict=True)})
    first_unit = {i: 1 + sum(n_units[j] for j in n_units if j < i) for i in indices}
    return [replace(s, index=i, first_unit=first_unit[i]) for i, s in zip(indices, sessions, strict=True)]


def extract_session(model: POSSM, session: Session) -> POSSM:
    """The decoder of one session of a multi-session model: the same outputs, with the embeddings of this session only.

    `session` is one of the combined sessions. The new model decodes it as `prepare` returned it, as its only session.
    """
    n_units = session.recording.n_units
    units = torch.cat([torch.zeros(1, dtype=torch.int64), session.first_unit + torch.arange(n_units)])  # blank token: 0
    state, sessions = model.state_dict(), torch.tensor([0, session.index])
    state["unit_embedding.weight"] = state["unit_embedding.weight"][units]
    for name in ("session_embedding.weight", *_SCALE):
        state[name] = state[name][sessions]
    extracted = _single_session(model, n_units)
    extracted.load_state_dict(state)
    return extracted.train(model.training)


def for_new_session(model: POSSM, n_units: int) -> POSSM:
    """A decoder for a new session: new unit and session embeddings, all other weights copied.

    New embeddings are drawn from torch's generator, like those of a new model. `fit` sets the scale of behaviour.
    """
    new = _single_session(model, n_units)
    state = model.state_dict() | {name: new.state_dict()[name] for name in (*_EMBEDDINGS, *_SCALE)}
    state["unit_embedding.weight"][0] = model.unit_embedding.weight[0]  # the blank token is the same in all sessions
    new.load_state_dict(state)
    return new


def freeze_backbone(model: POSSM) -> POSSM:
    """Make unit and session embeddings the only trainable parameters (unit identification), in place."""
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(name in _EMBEDDINGS)
    return model


def _single_session(model: POSSM, n_units: int) -> POSSM:
    return POSSM(replace(model.config, n_units=n_units, n_sessions=1)).to(model.readout.weight.dtype)
