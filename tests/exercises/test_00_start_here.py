"""The exercises of chapter 00: right answers written anew pass, the usual mistakes are told by name."""

import bisect
import math

import numpy as np
import pytest
import torch

from .helpers import assert_right, load

check = load("00_start_here")


def rate_by_bisection(spike_times, start, stop):
    times = spike_times.tolist()
    return (bisect.bisect_left(times, stop) - bisect.bisect_left(times, start)) / (stop - start)


def rate_by_loop(spike_times, start, stop):
    n = torch.zeros((), dtype=torch.float64)
    for t in spike_times:
        if start <= t < stop:
            n += 1
    return n / (stop - start)


def rate_as_array(spike_times, start, stop):
    times = spike_times.numpy()
    return np.sum((times >= start) & (times < stop)) / (stop - start)


def center_by_loop(x):
    columns = [[row[u] - sum(r[u] for r in x.tolist()) / len(x) for row in x.tolist()] for u in range(x.shape[1])]
    return torch.tensor(columns).T


def center_by_projection(x):
    n = len(x)
    return (torch.eye(n) - torch.ones(n, n) / n) @ x


@pytest.mark.parametrize(
    ("exercise", "answer"),
    [
        (check.firing_rate, rate_by_bisection),
        (check.firing_rate, rate_by_loop),
        (check.firing_rate, rate_as_array),
        (check.center, center_by_loop),
        (check.center, center_by_projection),
        (check.my_angle, 225),
        (check.my_angle, math.degrees(2 * math.pi * 50 / 80)),
        (check.my_angle, torch.tensor(225.0)),
    ],
)
def test_a_right_answer_passes(exercise, answer):
    assert_right(exercise, answer)


def inside(t, start, stop):
    return t[(t >= start) & (t < stop)]


def to_the_last_spike(t, start, stop):
    t = inside(t, start, stop)
    return len(t) / (t.max() - t.min()).item() if len(t) > 1 else 0.0


def slices_by_index(t, start, stop):
    return len(t[int(start) : int(stop)]) / (stop - start)


def in_place(x):
    x -= torch.mean(x, dim=0)
    return x


def other_axis(x):
    return (x.T - x.T.mean(0)).T


@pytest.mark.filterwarnings("ignore:std")  # of a single trial
@pytest.mark.parametrize(
    ("exercise", "answer", "told"),
    [
        (check.firing_rate, lambda t, a, b: len(inside(t, a, b)), "not how many per second"),
        (check.firing_rate, lambda t, a, b: ((t >= a) & (t < b)).sum(), "not how many per second"),
        (check.firing_rate, lambda t, a, b: len(t) / (b - a), "outside the window"),
        (check.firing_rate, lambda t, a, b: len(t[(t >= a) & (t <= b)]) / (b - a), "exactly at stop was counted"),
        (check.firing_rate, lambda t, a, b: len(t[(t > a) & (t < b)]) / (b - a), "exactly at start was not counted"),
        (check.firing_rate, lambda t, a, b: len(inside(t, a, b)) / b, "you divide by stop"),
        (check.firing_rate, to_the_last_spike, "from the first spike to the last"),
        (check.firing_rate, lambda t, a, b: 1 / inside(t, a, b).diff().mean(), "the time between spikes"),
        (check.firing_rate, lambda t, a, b: len(inside(t, a, b)) / (b - a) / 1e3, "per millisecond"),
        (check.firing_rate, slices_by_index, "six spikes within 2 s"),
        (check.firing_rate, lambda t, a, b: len(inside(t, a, b)) // (b - a), "2.5 is right, this is 2"),
        (check.firing_rate, lambda t: len(t), "TypeError"),
        (check.firing_rate, lambda t, a, b: inside(t, a, b), "a number is wanted"),
        (check.firing_rate, 3.0, "a function is wanted"),
        (check.center, other_axis, "over the units of each trial"),
        (check.center, lambda x: x - x.mean(1), "and its shape does not fit"),
        (check.center, lambda x: x - torch.mean(x), "one mean for all"),
        (check.center, in_place, "x itself was changed"),
        (check.center, lambda x: (x - x.mean(0)) / x.std(0), "divide by the spread"),
        (check.center, lambda x: x.mean(0), "the means themselves"),
        (check.center, lambda x: x.mean(0) - x, "the sign is turned"),
        (check.center, lambda x: x - x.sum(0), "the sum over trials"),
        (check.center, lambda x: (x - x.mean(0)).tolist(), "a tensor is wanted"),
        (check.center, lambda x: x.view(99), "RuntimeError"),
        (check.my_angle, 5 / 8, "in turns"),
        (check.my_angle, 2 * math.pi * 5 / 8, "in radians"),
        (check.my_angle, 135, "to the whole turn"),
        (check.my_angle, -135, "how far it has turned"),
        (check.my_angle, 360 * 80 / 50, "upside down"),
        (check.my_angle, 90, "is not it"),
        (check.my_angle, "225", "a number is wanted"),
    ],
)
def test_a_wrong_answer_is_told_its_mistake(exercise, answer, told):
    verdict = exercise.examine(answer)
    assert verdict.status == "wrong"
    assert verdict.message.startswith(f"✗ {exercise.name}: ") and told in verdict.message
