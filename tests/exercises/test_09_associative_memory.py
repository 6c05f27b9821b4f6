"""Chapter 09: right and wrong answers in other styles than the references and the traps."""

import math
from functools import partial

import pytest
import torch

from possm_lite.blocks.boltzmann import boltzmann_gradient, moments, on_probability
from possm_lite.blocks.hopfield import modern_hopfield, recall

from .helpers import assert_verdict, load

exercises = load("09_associative_memory")


def sweep_in_loops(s, W, b, change=lambda h, s: s if h == 0 else math.copysign(1.0, h), bias=1):
    values = s.tolist()
    for i in range(len(values)):
        h = sum(float(W[i, j]) * values[j] for j in range(len(values))) + bias * float(b[i])
        values[i] = change(h, values[i])
    return torch.tensor(values)


def sweep_with_running_field(s, W, b):
    s, h = s.clone(), W @ s + b
    for i in range(len(s)):
        new = s[i] if h[i] == 0 else h[i].sign()
        h = h + W[:, i] * (new - s[i])
        s[i] = new
    return s


def end_states_by_enumeration(n=6):
    x = torch.tensor([1.0, -1, 1, 1, -1, -1])
    W = (torch.outer(x, x) / n).fill_diagonal_(0)
    starts = torch.cartesian_prod(*[torch.tensor([-1.0, 1.0])] * n)
    return len(recall(starts, W).unique(dim=0))


def chance_from_energies(s, i, W, b, T):
    s, W, b = s.double(), W.double(), b.double()
    states = [s.index_fill(0, torch.tensor(i), value) for value in (-1.0, 1.0)]
    off, on = (-0.5 * x @ W @ x - b @ x for x in states)
    return ((off - on) / T).sigmoid().float()


def direction_in_loops(data, samples):
    n = data.shape[1]
    for_w, for_b = torch.zeros(n, n), torch.zeros(n)
    for sign, states in ((1, data), (-1, samples)):
        for state in states:
            for_b += sign * state / len(states)
            for i in range(n):
                for_w[i] += sign * state[i] * state / len(states)
    return for_w, for_b


def update_by_torch(xi, X, beta):
    return torch.nn.functional.scaled_dot_product_attention(xi[None], X[None], X[None], scale=beta)[0]


def overflowing_update(xi, X, beta):
    e = torch.exp(beta * xi @ X.T)
    return e / e.sum(-1, keepdim=True) @ X


@pytest.mark.parametrize(
    ("name", "answer", "words"),
    [
        ("recall_sweep", sweep_in_loops, "✓"),
        ("recall_sweep", sweep_with_running_field, "✓"),
        ("recall_sweep", lambda s, W, b: recall(s[None], W, b, max_sweeps=1)[0], "✓"),
        ("recall_sweep", partial(sweep_in_loops, change=lambda h, s: s + (h > 0) - (h < 0)), "not s_i + sgn"),
        ("recall_sweep", partial(sweep_in_loops, change=lambda h, s: 1.0 if h >= 0 else -1.0), "switched a unit on"),
        ("recall_sweep", partial(sweep_in_loops, bias=-1), "wrong sign"),
        ("recall_sweep", lambda s, W, b: (W @ s + b + 1e-9 * s).sign(), "moved at once"),
        ("n_end_states", end_states_by_enumeration(), "✓"),
        ("n_end_states", 7, "7"),
        ("chance_on", chance_from_energies, "✓"),
        ("chance_on", lambda s, i, *rest: on_probability(s[None], *rest)[0, i], "✓"),
        ("chance_on", lambda s, i, W, b, T: (1 - torch.tanh((W[i] @ s + b[i]) / T)) / 2, "the unit is off"),
        ("chance_on", lambda s, i, W, b, T: torch.sigmoid(2 * (s * (W @ s + b))[i] / T), "the unit stays"),
        ("chance_on", lambda s, i, W, b, T: torch.sigmoid(2 * (W @ s + b) / T), "shape is (2,)"),
        ("learning_direction", direction_in_loops, "✓"),
        ("learning_direction", lambda data, samples: boltzmann_gradient(moments(data), moments(samples)), "✓"),
        ("learning_direction", lambda d, s: direction_in_loops(s, d), "phases are swapped"),
        ("learning_direction", lambda d, s: moments(d), "not subtracted"),
        ("learning_direction", lambda d, s: tuple(x / len(d) for x in direction_in_loops(d, s)), "on "),
        ("learning_direction", lambda d, s: direction_in_loops(d, s)[0], "expected two results"),
        ("modern_update", update_by_torch, "✓"),
        ("modern_update", modern_hopfield, "✓"),
        ("modern_update", lambda xi, X, beta: (beta * X @ xi.T).softmax(1).T @ X, "runs over the states"),
        ("modern_update", lambda xi, X, beta: update_by_torch(xi, X, beta / X.shape[1] ** 0.5), "root of d"),
        ("modern_update", lambda xi, X, beta: update_by_torch(xi, X, 1 / beta), "a large beta is cold"),
        ("modern_update", lambda *args: update_by_torch(*args).sign(), "on one state, two memories"),
        ("modern_update", lambda xi, X, beta: X[(xi @ X.T).argmax(1)], "on one state, two memories"),
        ("modern_update", overflowing_update, "on a beta so large that exp overflows"),
    ],
)
def test_answer_in_another_style(name, answer, words):
    assert_verdict(getattr(exercises, name), answer, words)
