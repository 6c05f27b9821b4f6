"""The decoders of chapter 16, and ways in which one is trained for a new session or a later day."""

import copy
import math

import numpy as np
import torch
from torch import Tensor, nn

from possm_lite.decoder import POSSM, POSSMConfig
from possm_lite.decoder.baselines import BinnedDecoder
from possm_lite.training import FitConfig, Session, combine_sessions, fit
from possm_lite.training.transfer import for_new_session, freeze_backbone

OWN = ("unit_embedding.weight", "session_embedding.weight")  # what a session does not share
LR = {POSSM: 4e-3}  # from scratch and for all sessions together; of the GRU below
SLOTS = 5  # velocities per bin of 50 ms, one every 10 ms


def sizes(n_units: int, n_sessions: int = 1) -> POSSMConfig:
    """The small sizes of the chapter's POSSM.

    Args:
        n_units: units of all sessions together.
        n_sessions: number of sessions.

    Returns:
        The configuration.
    """
    return POSSMConfig(n_units, n_sessions, dim=32, head_dim=24, n_freqs=8, hidden=128)


class CountGRU(BinnedDecoder):
    """A GRU on counts with a table of unit embeddings: formula (16.2).

    The base class counts and takes the root.

    Args:
        n_units: units of all sessions together.
        n_sessions: number of sessions.
        dim: D, size of an embedding.
        hidden: size of the hidden state.
    """

    def __init__(self, n_units: int, n_sessions: int = 1, dim: int = 32, hidden: int = 128):
        super().__init__(n_units, n_slots=SLOTS)
        self.unit_embedding = nn.Embedding(1 + n_units, dim)
        self.session_embedding = nn.Embedding(1 + n_sessions, dim)
        for table in (self.unit_embedding, self.session_embedding):
            nn.init.normal_(table.weight, std=0.1)
        self.gru = nn.GRU(dim, hidden, batch_first=True)
        self.readout = nn.Linear(hidden, 2 * SLOTS)
        self.behavior_mean = torch.zeros(1 + n_sessions, 2)
        self.behavior_std = torch.ones(1 + n_sessions, 2)
        self.day: nn.Module = nn.Identity()  # or a layer for one day, before the table

    def forward(self, batch, output_times_s: Tensor, session: Tensor) -> Tensor:
        """The velocity (B, Q, 2) at the times asked for.

        Args:
            batch: spikes of B windows.
            output_times_s: in s, shape (B, Q).
            session: number of the session, shape (B,).
        """
        self.session = session
        return super().forward(batch, output_times_s, session)

    def decode_counts(self, n: Tensor) -> Tensor:
        """Velocities (B, T, `SLOTS`, 2) from n, the square roots of counts, (B, T, U)."""
        units = self.day(n) @ self.unit_embedding.weight[1:]
        x = units + self.session_embedding(self.session)[:, None]  # (B, T, D)
        states, _ = self.gru(x)
        return self.readout(states).unflatten(-1, (SLOTS, 2))


LR[CountGRU] = 8e-3


def train(model, sessions, steps: int, lr: float, seed: int, window_s: float = 1.0, batch: int = 8):
    """Fits a decoder in place, for about a number of steps.

    Args:
        model: a POSSM or a `CountGRU`.
        sessions: a session, or a list of combined ones.
        steps: about how many steps.
        lr: learning rate.
        seed: of the windows.
        window_s: length of a window in s.
        batch: windows of a step.

    Returns:
        The model.
    """
    listed = sessions if isinstance(sessions, list) else [sessions]
    seconds = sum(np.diff(s.segments("train")).sum() for s in listed)
    steps_of_epoch = max(1, round(seconds / window_s / batch))
    epochs = math.ceil(steps / steps_of_epoch)
    how = {"samples": 20, "lr": lr, "unit_dropout": 0.3, "validations": 0, "seed": seed}
    fit(model, sessions, FitConfig(epochs, window_s, batch, **how), progress=False)
    return model


def pretrained(kind: type, sessions: list[Session], steps: int, seed: int, window_s: float = 2.0):
    """One decoder trained on several sessions from scratch.

    Args:
        kind: POSSM or `CountGRU`.
        sessions: already combined.
        steps: about how many steps.
        seed: of weights and windows.
        window_s: length of a window in s.

    Returns:
        The decoder.
    """
    torch.manual_seed(seed)
    n_units = sum(s.recording.n_units for s in sessions)
    n_sessions = len(sessions)
    model = POSSM(sizes(n_units, n_sessions)) if kind is POSSM else CountGRU(n_units, n_sessions)
    return train(model, sessions, steps, LR[kind], seed, window_s)


# Ways to a decoder of a new session
def fresh_table(past, n_units: int):
    """A decoder with the common weights of another and fresh embeddings, which alone learn.

    Args:
        past: a trained POSSM or `CountGRU`; it is not changed.
        n_units: units of the new session.

    Returns:
        The new decoder.
    """
    if isinstance(past, POSSM):
        return freeze_backbone(for_new_session(past, n_units))
    model = CountGRU(n_units)
    own = {name: model.state_dict()[name] for name in (*OWN, "behavior_mean", "behavior_std")}
    model.load_state_dict(past.state_dict() | own)
    return freeze_backbone(model)


def identify(past, session: Session, steps: int, seed: int, lr: float = 1e-2):
    """Unit identification: only the embeddings of a session learn, from the start.

    Args:
        past: a trained POSSM or `CountGRU`; it is not changed.
        session: the new session.
        steps: about how many steps.
        seed: of embeddings and windows.
        lr: learning rate.

    Returns:
        The decoder of the session.
    """
    torch.manual_seed(seed)
    return train(fresh_table(past, session.recording.n_units), session, steps, lr, seed)


def finetune(model, session: Session, steps: int, seed: int):
    """A copy of a decoder that goes on with all weights.

    Args:
        model: the decoder of the session; it is not changed.
        session: what it is trained on.
        steps: about how many steps.
        seed: of the windows, plus 100.

    Returns:
        The copy.
    """
    return train(copy.deepcopy(model).requires_grad_(True), session, steps, 1e-3, seed + 100)


def from_scratch(kind: type, session: Session, steps: int, seed: int):
    """A decoder of which all weights learn on one session, from the start: no past.

    Args:
        kind: POSSM or `CountGRU`.
        session: the session.
        steps: about how many steps.
        seed: of weights and windows.

    Returns:
        The decoder.
    """
    return pretrained(kind, combine_sessions([session]), steps, seed, window_s=1.0)


def old_table(model, session: Session, steps: int, seed: int):
    """A copy of a decoder that goes on from the table of day 0, which alone learns.

    Args:
        model: the decoder of day 0; it is not changed.
        session: a later day.
        steps: about how many steps.
        seed: of the windows.

    Returns:
        The copy.
    """
    return train(freeze_backbone(copy.deepcopy(model)), session, steps, 1e-2, seed)


def day_layer(model, session: Session, steps: int, seed: int):
    """A copy of a decoder with a square layer before its table; it alone learns, from identity.

    Args:
        model: the `CountGRU` of day 0; it is not changed.
        session: a later day.
        steps: about how many steps.
        seed: of the windows.

    Returns:
        The copy.
    """
    n_units = session.recording.n_units
    learning = copy.deepcopy(model).requires_grad_(False)
    learning.day = nn.Linear(n_units, n_units)
    learning.day.load_state_dict({"weight": torch.eye(n_units), "bias": torch.zeros(n_units)})
    return train(learning, session, steps, 1e-2, seed)
