"""Chapter 00: right answers in other styles, and wrong ones that no known mistake explains."""

import math

import numpy as np
import pytest
import torch

from .helpers import assert_verdict, load

exercises = load("00_start_here")


def rate_by_loop(spike_times, start, stop):
    n = torch.zeros((), dtype=torch.float64)
    for t in spike_times:
        if start <= t < stop:
            n += 1
    return n / (stop - start)


def center_by_loop(x):
    columns = [[row[u] - sum(r[u] for r in x.tolist()) / len(x) for row in x.tolist()] for u in range(x.shape[1])]
    return torch.tensor(columns).T


def decode_by_pinv(rates, angles, new):
    design = np.stack([np.ones(len(angles)), angles.cos().numpy(), angles.sin().numpy()], 1)
    b, x, y = np.linalg.pinv(design) @ rates.numpy()
    preferred = np.exp(1j * np.arctan2(y, x))
    return np.angle((new.numpy() - b) @ preferred)


def decode_by_correlation(rates, angles, new):
    """Right only for reaches that go to all sides alike."""
    votes = torch.stack([angles.cos(), angles.sin()]) @ (rates - rates.mean(0))  # (2, U)
    x, y = (votes / votes.norm(dim=0)) @ (new - rates.mean(0)).T
    return torch.atan2(y, x)


@pytest.mark.parametrize(
    ("name", "answer", "words"),
    [
        ("firing_rate", rate_by_loop, "✓"),
        ("firing_rate", lambda t, a, b: np.searchsorted(t.numpy(), [a, b]) @ [-1, 1] / (b - a), "✓"),
        ("firing_rate", lambda t, a, b: round(rate_by_loop(t, a, b).item(), 1), "expected 3.333, got 3.3"),
        ("center", center_by_loop, "✓"),
        ("center", lambda x: (torch.eye(len(x)) - 1 / len(x)) @ x, "✓"),
        ("center", lambda x: (x - x.mean(0)).tolist(), "✓"),
        ("center", lambda x: (x.T - x.T.mean(0)).T, "over the units of each trial"),
        ("my_angle", math.degrees(2 * math.pi * 50 / 80), "✓"),
        ("my_angle", 2 * math.pi * 5 / 8, "in radians"),
        ("first_decoder", decode_by_pinv, "✓"),
        ("first_decoder", lambda r, a, new: decode_by_pinv(r - r.mean(0), a, new - r.mean(0)), "✓"),
        ("first_decoder", decode_by_correlation, "most reaches to the right"),
    ],
)
def test_answer_in_another_style(name, answer, words):
    assert_verdict(getattr(exercises, name), answer, words)
