"""The rhythm of deeper/05 is what its text says."""

import numpy as np

from possm_course.chapters.ch05 import rhythm
from possm_lite.nn.time_features import gaussian_kernel


def test_pairs_of_spikes_have_the_kernel_of_their_rhythm():
    rng = np.random.default_rng(0)
    lag_s, measured = rhythm.measured_kernel(rhythm.rhythmic_spikes(rng.normal(8, 0.8, 1000), rng))
    assert (measured - gaussian_kernel(lag_s, 16 * np.pi, 1.6 * np.pi)).abs().mean() < 0.04
