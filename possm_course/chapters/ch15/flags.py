"""Three memories of chapter 15, trained on the flags, of which deeper 15 asks what they have kept.

experiments/ch15_flags.py has trained them.
"""

import numpy as np
import torch

from possm_course.chapters.ch15 import toy
from possm_course.stored import result


def load(name: str) -> toy.WithReadout:
    """The memory called `name`, one of experiments/ch15_flags.py, trained."""
    model = toy.new(name)
    with np.load(result("ch15_flags.npz")) as stored:
        weights = {key: torch.from_numpy(stored[f"{name}/{key}"]) for key in model.state_dict()}
    model.load_state_dict(weights)
    return model
