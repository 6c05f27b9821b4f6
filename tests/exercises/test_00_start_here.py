"""Chapter 00: right and wrong answers in other styles than the references and the traps."""

import math

import numpy as np
import pytest
import torch

from .helpers import assert_verdict, load

exercises = load("00_start_here")


def inside(t, start, stop):
    return t[(t >= start) & (t < stop)]


def rate_by_loop(spike_times, start, stop):
    n = torch.zeros((), dtype=torch.float64)
    for t in spike_times:
        if start <= t < stop:
            n += 1
    return n / (stop - start)


def center_by_loop(x):
    columns = [[row[u] - sum(r[u] for r in x.tolist()) / len(x) for row in x.tolist()] for u in range(x.shape[1])]
    return torch.tensor(columns).T


@pytest.mark.filterwarnings("ignore:std")  # of a single trial
@pytest.mark.parametrize(
    ("name", "answer", "words"),
    [
        ("firing_rate", rate_by_loop, "✓"),
        ("firing_rate", lambda t, a, b: np.searchsorted(t.numpy(), [a, b]) @ [-1, 1] / (b - a), "✓"),
        ("firing_rate", lambda t, a, b: ((t >= a) & (t < b)).sum(), "not how many per second"),
        ("firing_rate", lambda t, a, b: sum(a <= x <= b for x in t.tolist()) / (b - a), "at stop was counted"),
        ("firing_rate", lambda t, a, b: len(inside(t, a, b)) / np.ptp(inside(t, a, b).numpy()), "on six spikes"),
        ("firing_rate", lambda t, a, b: len(t[int(a) : int(b)]) / (b - a), "six spikes within 2 s"),
        ("firing_rate", lambda t, a, b: len(inside(t, a, b)) // (b - a), "expected 2.5, got 2"),
        ("firing_rate", lambda t, a, b: round(len(inside(t, a, b)) / (b - a), 1), "expected 3.333, got 3.3"),
        ("firing_rate", lambda t, a, b: torch.tensor([len(inside(t, a, b)) / (b - a)]), "expected a number"),
        ("firing_rate", inside, "expected a number"),
        ("center", center_by_loop, "✓"),
        ("center", lambda x: (torch.eye(len(x)) - 1 / len(x)) @ x, "✓"),
        ("center", lambda x: (x.T - x.T.mean(0)).T, "over the units of each trial"),
        ("center", lambda x: x.copy_(x - x.mean(0)), "x itself was changed"),
        ("center", lambda x: (x - x.mean(0)) / x.std(0), "divide by the spread"),
        ("center", lambda x: (x - x.mean(0)).tolist(), "✓"),
        ("center", lambda x: x.numpy() - x.numpy().mean(0), "✓"),
        ("center", lambda x: x - x.sum(0), "you subtract the sum"),
        ("center", lambda x: x - x.sum(0) / (len(x) - 1), "trials less one"),
        ("my_angle", math.degrees(2 * math.pi * 50 / 80), "✓"),
        ("my_angle", 2 * math.pi * 5 / 8, "in radians"),
        ("my_angle", 360 + 225, "one whole rotation too many"),
    ],
)
def test_answer_in_another_style(name, answer, words):
    assert_verdict(getattr(exercises, name), answer, words)
