"""The trials of chapter 05 are what its text says."""

import numpy as np
import torch

from possm_course.chapters.ch05 import toy


def test_index_says_nothing_of_the_lag_unless_events_are_even():
    for even, related in ((False, 0.05), (True, 1.0)):
        kind, times, tone, lag, soon = toy.make_trials(5000, seed=1, even=even)
        assert (kind[:, 0] == 1).all() and (kind.sort(1).values == torch.tensor([0] * 6 + [1, 2])).all()
        assert (times.diff() > 0).all() and ((lag < 1) == soon).all() and ((lag - 1).abs() > 0.04).all()
        rows = torch.arange(5000)
        torch.testing.assert_close(lag, times[rows, tone] - times[:, 0])
        assert (kind[rows, tone] == 2).all()
        assert abs(abs(np.corrcoef(lag, tone)[0, 1]) - related) <= 0.05
