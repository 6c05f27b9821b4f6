"""The decoder that chapter 16 begins with, trained on its first three sessions.

experiments/ch16_pretrained.py has trained it.
"""

import numpy as np
import torch

from possm_course.chapters.ch14 import decoders
from possm_course.chapters.ch16 import models
from possm_course.stored import result
from possm_lite.decoder import POSSM


def make() -> POSSM:
    """The decoder, untrained."""
    return POSSM(models.sizes(n_units=120, n_sessions=3))


@torch.no_grad()
def load() -> POSSM:
    """The decoder, trained."""
    with np.load(result("ch16_pretrained.npz")) as stored:
        return decoders.unpack(make(), stored)
