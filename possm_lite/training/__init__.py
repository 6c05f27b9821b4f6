"""Everything between a recording and a trained decoder: prepare, fit, evaluate, save."""

from ..errors import CheckpointError
from .checkpoint import History, TrainedOn, TrainingCheckpoint, load_checkpoint, save_checkpoint
from .classes import DecodedClasses, decode_classes
from .evaluate import Decoded, evaluate, r2_score
from .fit import FitConfig, fit
from .session import Session, prepare
from .transfer import adapt, combine_sessions, extract_session, for_new_session, freeze_backbone
