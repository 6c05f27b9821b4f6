"""Several sessions in one model, and a trained model on a session it has never seen.

Two sessions share no units: electrodes move, and so do brains. So every session has unit embeddings of its own, and
one session embedding; all other weights are common to them. Source: Azabou et al. 2023 (POYO, arXiv 2310.16046), which
calls learning only the embeddings of a new session unit identification.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch

from ..decoder.possm import POSSM
from .distributed import SINGLE_PROCESS, ProcessGroup
from .session import Session

_OF_A_SESSION = ("unit_embedding.weight", "session_embedding.weight")
_SCALE = ("velocity_mean", "velocity_std")


def combine_sessions(
    sessions: Sequence[Session], numbers: Sequence[int] | None = None, crew: ProcessGroup = SINGLE_PROCESS
) -> list[Session]:
    """Give each session its place in one model: an index, and units that no other session has.

    Args:
        sessions: from `prepare`, with bins of one width.
        numbers: which of all sessions these are, from 1; default 1, 2, ...
        crew: where other processes hold the others.

    Raises:
        ValueError: for bins of different widths.
    """
    numbers = range(1, len(sessions) + 1) if numbers is None else numbers
    widths = {s.timeline.bin_width_s for s in sessions}
    if len(widths) > 1:
        raise ValueError(f"bin_width_s must be the same in all sessions, not {sorted(widths)}.")
    n_units = crew.collect({n: s.recording.n_units for n, s in zip(numbers, sessions, strict=True)})
    first = {n: 1 + sum(n_units[m] for m in n_units if m < n) for n in numbers}
    return [replace(s, index=n, first_unit=first[n]) for n, s in zip(numbers, sessions, strict=True)]


def extract_session(model: POSSM, session: Session) -> POSSM:
    """The decoder of one session out of a model of several: same answers, and it knows no other units.

    Args:
        model: trained on combined sessions.
        session: one of these; the new model takes it as `prepare` gave it, as its only one.
    """
    n_units, rows = session.recording.n_units, torch.arange(session.recording.n_units)
    units = torch.cat([torch.zeros(1, dtype=torch.int64), session.first_unit + rows])  # the blank token stays row 0
    return _with_rows(model, n_units, units, torch.tensor([0, session.index]))


def for_new_session(model: POSSM, n_units: int) -> POSSM:
    """The same decoder for a session it has never seen: fresh unit and session embeddings, all other weights copied.

    Fresh embeddings are drawn from torch's generator, as those of a new model are. Velocity has no scale until `fit`
    has set it.
    """
    config = replace(model.config, n_units=n_units, n_sessions=1)
    fresh = POSSM(config).to(model.readout.weight.dtype)
    state = model.state_dict() | {name: fresh.state_dict()[name] for name in (*_OF_A_SESSION, *_SCALE)}
    state["unit_embedding.weight"][0] = model.unit_embedding.weight[0]  # silence is silence everywhere
    fresh.load_state_dict(state)
    return fresh


def freeze_backbone(model: POSSM) -> POSSM:
    """Let only what belongs to a session learn, its unit and session embeddings: unit identification, in place."""
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(name in _OF_A_SESSION)
    return model


def _with_rows(model: POSSM, n_units: int, units: torch.Tensor, sessions: torch.Tensor) -> POSSM:
    smaller = POSSM(replace(model.config, n_units=n_units, n_sessions=1)).to(model.readout.weight.dtype)
    state = model.state_dict()
    state["unit_embedding.weight"] = state["unit_embedding.weight"][units]
    for name in ("session_embedding.weight", *_SCALE):
        state[name] = state[name][sessions]
    smaller.load_state_dict(state)
    return smaller.train(model.training)
