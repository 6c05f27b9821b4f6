"""Fit, evaluate, keep: everything between a recording and a trained decoder."""

from .checkpoint import CheckpointError, TrainedOn, load_checkpoint, save_checkpoint
from .evaluate import Decoded, evaluate, r2_score
from .fit import FitConfig, History, fit
from .resume import SavedTraining
from .session import Session, prepare
from .transfer import alone, join, newcomer, only_embeddings

__all__ = [
    "CheckpointError",
    "Decoded",
    "FitConfig",
    "History",
    "SavedTraining",
    "Session",
    "TrainedOn",
    "alone",
    "evaluate",
    "fit",
    "join",
    "load_checkpoint",
    "newcomer",
    "only_embeddings",
    "prepare",
    "r2_score",
    "save_checkpoint",
]
