"""The decoders of chapter 16, and the ways in which one is trained for a new session or for a later day."""

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
    return POSSMConfig(n_units, n_sessions, dim=32, head_dim=24, n_freqs=8, hidden=128)


class CountGRU(BinnedDecoder):
    """A GRU on counts with a table of unit embeddings: formula (16.2). The base class counts and takes the root."""

    def __init__(self, n_units: int, n_sessions: int = 1, dim: int = 32, hidden: int = 128):
        super().__init__(n_units, n_slots=SLOTS)
        self.unit_embedding, self.session_embedding = (
            nn.Embedding(1 + n_units, dim),
            nn.Embedding(1 + n_sessions, dim),
        )
        for table in (self.unit_embedding, self.session_embedding):
            nn.init.normal_(table.weight, std=0.1)
        self.gru, self.readout = nn.GRU(dim, hidden, batch_first=True), nn.Linear(hidden, 2 * SLOTS)
        self.behavior_mean, self.behavior_std = (
            torch.zeros(1 + n_sessions, 2),
            torch.ones(1 + n_sessions, 2),
        )
        self.day: nn.Module = nn.Identity()  # or a layer for one day, before the table

    def forward(self, batch, output_times_s: Tensor, session: Tensor) -> Tensor:
        self.session = session
        return super().forward(batch, output_times_s, session)

    def decode_counts(self, n: Tensor) -> Tensor:  # square roots of counts, (B, T, U)
        x = (
            self.day(n) @ self.unit_embedding.weight[1:]
            + self.session_embedding(self.session)[:, None]
        )  # (B, T, D)
        return self.readout(self.gru(x)[0]).unflatten(-1, (SLOTS, 2))


LR[CountGRU] = 8e-3


def train(model, sessions, steps: int, lr: float, seed: int, window_s: float = 1.0, batch: int = 8):
    """Fit in place, for about so many steps of `batch` windows; returns the model."""
    listed = sessions if isinstance(sessions, list) else [sessions]
    seconds = sum(np.diff(s.segments("train")).sum() for s in listed)
    epochs = math.ceil(steps / max(1, round(seconds / window_s / batch)))
    config = FitConfig(
        epochs, window_s, batch, samples=20, lr=lr, unit_dropout=0.3, validations=0, seed=seed
    )
    fit(model, sessions, config, progress=False)
    return model


def pretrained(kind: type, sessions: list[Session], steps: int, seed: int, window_s: float = 2.0):
    """One decoder of all these sessions, already combined."""
    torch.manual_seed(seed)
    n_units, n_sessions = sum(s.recording.n_units for s in sessions), len(sessions)
    model = POSSM(sizes(n_units, n_sessions)) if kind is POSSM else CountGRU(n_units, n_sessions)
    return train(model, sessions, steps, LR[kind], seed, window_s)


# Ways to a decoder of a new session
def fresh_table(past, n_units: int):
    """The common weights of the past with fresh embeddings, which alone learn."""
    if isinstance(past, POSSM):
        return freeze_backbone(for_new_session(past, n_units))
    model = CountGRU(n_units)
    own = {name: model.state_dict()[name] for name in (*OWN, "behavior_mean", "behavior_std")}
    model.load_state_dict(past.state_dict() | own)
    return freeze_backbone(model)


def identify(past, session: Session, steps: int, seed: int, lr: float = 1e-2):
    """Unit identification: only the embeddings learn, from the start."""
    torch.manual_seed(seed)
    return train(fresh_table(past, session.recording.n_units), session, steps, lr, seed)


def finetune(model, session: Session, steps: int, seed: int):
    """Go on with all weights."""
    return train(copy.deepcopy(model).requires_grad_(True), session, steps, 1e-3, seed + 100)


def from_scratch(kind: type, session: Session, steps: int, seed: int):
    """All weights learn, from the start: no past."""
    return pretrained(kind, combine_sessions([session]), steps, seed, window_s=1.0)


def old_table(model, session: Session, steps: int, seed: int):
    """Go on from the table of day 0, which alone learns."""
    return train(freeze_backbone(copy.deepcopy(model)), session, steps, 1e-2, seed)


def day_layer(model, session: Session, steps: int, seed: int):
    """A square layer in front of the table is all that learns; it begins as the identity."""
    n_units = session.recording.n_units
    learning = copy.deepcopy(model).requires_grad_(False)
    learning.day = nn.Linear(n_units, n_units)
    learning.day.load_state_dict({"weight": torch.eye(n_units), "bias": torch.zeros(n_units)})
    return train(learning, session, steps, 1e-2, seed)
