"""The stored decoder of chapter 13: that of chapter 12, trained for six passes.

Chapter 13 scores it where there is no decoder of a student's. experiments/ch13_decoder.py has
trained it.
"""

import numpy as np

from possm_course.chapters.ch14 import decoders
from possm_course.stored import result
from possm_lite.decoder import POSSM, POSSMConfig


def make(n_units: int) -> POSSM:
    """The decoder for `n_units` units, untrained."""
    return POSSM(POSSMConfig(n_units, head_dim=32, n_freqs=8, reading="softmax"))


def load(n_units: int) -> POSSM:
    """The decoder for the `n_units` units of the embedded session, trained."""
    with np.load(result("ch13_decoder.npz")) as stored:
        return decoders.unpack(make(n_units), stored)
