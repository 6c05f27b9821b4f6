"""Fit, evaluate, keep: everything between a recording and a trained decoder."""

from ..errors import CheckpointError
from .checkpoint import TrainedOn, load_checkpoint, save_checkpoint
from .evaluate import Decoded, evaluate, r2_score
from .fit import FitConfig, History, fit
from .resume import TrainingCheckpoint
from .session import Session, prepare
from .transfer import combine_sessions, extract_session, for_new_session, freeze_backbone

__all__ = [
    "CheckpointError",
    "Decoded",
    "FitConfig",
    "History",
    "TrainingCheckpoint",
    "Session",
    "TrainedOn",
    "combine_sessions",
    "evaluate",
    "extract_session",
    "fit",
    "load_checkpoint",
    "for_new_session",
    "freeze_backbone",
    "prepare",
    "r2_score",
    "save_checkpoint",
]
