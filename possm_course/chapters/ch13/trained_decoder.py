"""The package's decoder as chapter 12 builds it, trained for six passes: chapter 13 scores it where no own one is.

experiments/ch13_decoder.py has trained it.
"""

import numpy as np

from possm_course.chapters.ch14 import decoders
from possm_course.stored import result
from possm_lite.decoder import POSSM, POSSMConfig


def make(n_units):
    return POSSM(POSSMConfig(n_units, head_dim=32, n_freqs=8, reading="softmax"))


def load(n_units):
    with np.load(result("ch13_decoder.npz")) as stored:
        return decoders.unpack(make(n_units), stored)
