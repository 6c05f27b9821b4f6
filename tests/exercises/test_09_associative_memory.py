"""Chapter 09: right and wrong answers in other styles than the references and the traps."""

import math
from functools import partial

import numpy as np
import pytest
import torch

from possm_lite.blocks.boltzmann import (
    all_states,
    boltzmann_gradient,
    exact_moments,
    log_probabilities,
    moments,
    on_probability,
)
from possm_lite.blocks.hopfield import hebb_weights, modern_hopfield, recall

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


def greedy(s, W, b, half=0.5):
    """Each unit takes the side of lower energy."""
    s = s.clone()
    for i in range(len(s)):
        states = [s.index_fill(0, torch.tensor(i), value) for value in (-1.0, 1.0)]
        off, on = (-half * x @ W @ x - b @ x for x in states)
        s[i] = s[i] if off == on else 1.0 if on < off else -1.0
    return s


def sweep_backwards(s, W, b):
    return sweep_in_loops(s.flip(0), W.flip(0, 1), b.flip(0)).flip(0)


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


def chance_by_math(s, i, W, b, T):
    h = sum(float(W[i, j]) * float(s[j]) for j in range(len(s))) + float(b[i])
    return 1 / (1 + math.exp(-2 * h / T))


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


def inverse_by_svd(X):
    """In NumPy: the projector on the space of the patterns."""
    directions = np.linalg.svd(X.numpy(), full_matrices=False)[2]
    W = directions.T @ directions
    np.fill_diagonal(W, 0)
    return W


def machine_by_package(data, n_steps, rate, *, change=lambda W: W, averages=exact_moments):
    """NumPy and lists where they are as natural as tensors."""
    n = data.shape[1]
    W, b, line = torch.zeros(n, n), torch.zeros(n), []
    for _ in range(n_steps):
        line.append(float(log_probabilities(data, change(W), b).mean()))
        for_W, for_b = boltzmann_gradient(moments(data), averages(change(W), b))
        W, b = W + rate * for_W, b + rate * for_b
    return {"W": change(W).numpy(), "b": b.tolist(), "line": line}


def machine_by_autograd(data, n_steps, rate, *, both=True):
    """The slope from torch: w_ij and w_ji are one weight, so the slopes of both add up."""
    n = data.shape[1]
    W, b, line = torch.zeros(n, n, requires_grad=True), torch.zeros(n, requires_grad=True), []
    for _ in range(n_steps):
        states = all_states(n)
        value = [0.5 * (s @ W * s).sum(-1) + s @ b for s in (data, states)]
        line.append(value[0].mean() - value[1].logsumexp(0))
        for_W, for_b = torch.autograd.grad(line[-1], (W, b))
        for_W = (for_W + for_W.T if both else for_W).fill_diagonal_(0)
        W, b = (W + rate * for_W).detach().requires_grad_(), (b + rate * for_b).detach().requires_grad_()
    return {"W": W, "b": b, "line": line}


def chance_by_quotient(s, i, W, b, T):
    e = torch.exp(2 * (W[i] @ s + b[i]) / T)
    return e / (1 + e)


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
        ("recall_sweep", greedy, "✓"),
        ("recall_sweep", partial(greedy, half=1.0), "count twice"),
        ("recall_sweep", lambda s, W, b: sweep_in_loops(s, W / 2, b), "count half"),
        ("recall_sweep", lambda s, W, b: sweep_in_loops(s, 2 * W, b), "count twice"),
        ("recall_sweep", partial(sweep_in_loops, change=lambda h, s: -s if h < 0 else s), "changed its sign"),
        ("recall_sweep", sweep_backwards, "from the last to the first"),
        ("n_end_states", end_states_by_enumeration(), "✓"),
        ("n_end_states", 7, "7"),
        ("n_alike", 144 * 2 * (6 / 144), "✓"),
        ("n_alike", 24, "half as many terms"),
        ("chance_on", chance_from_energies, "✓"),
        ("chance_on", lambda s, i, *rest: on_probability(s[None], *rest)[0, i], "✓"),
        ("chance_on", lambda s, i, W, b, T: (1 - torch.tanh((W[i] @ s + b[i]) / T)) / 2, "the unit is off"),
        ("chance_on", lambda s, i, W, b, T: torch.sigmoid(2 * (s * (W @ s + b))[i] / T), "the unit stays"),
        ("chance_on", lambda s, i, W, b, T: torch.sigmoid(2 * (W @ s + b) / T), "a tensor of shape (2,)"),
        ("chance_on", chance_by_math, "✓"),
        ("chance_on", lambda s, i, W, b, T: 1 - 1 / (1 + (2 * (W[i] @ s + b[i]) / T).exp()), "✓"),
        ("chance_on", chance_by_quotient, "on a cold unit, whose bias keeps it on"),
        ("chance_on", lambda s, i, W, b, T: torch.sigmoid(2 * (W[i] @ s + b[i] * s[i]) / T), "state of the unit"),
        ("chance_on", lambda s, i, W, b, T: on_probability(s[None] / 2 + 0.5, W, b, T, 0.0)[0, i], "to 0 and 1"),
        ("learning_direction", direction_in_loops, "✓"),
        ("learning_direction", lambda data, samples: boltzmann_gradient(moments(data), moments(samples)), "✓"),
        ("learning_direction", lambda d, s: direction_in_loops(s, d), "phases are swapped"),
        ("learning_direction", lambda d, s: moments(d), "not subtracted"),
        ("learning_direction", lambda d, s: tuple(x / len(d) for x in direction_in_loops(d, s)), "on "),
        ("learning_direction", lambda d, s: tuple(x / 2 for x in direction_in_loops(d, s)), "half as large"),
        (
            "learning_direction",
            lambda d, s: tuple(
                (len(d) * x - len(s) * y) / (len(d) + len(s)) for x, y in zip(moments(d), moments(s), strict=True)
            ),
            "patterns and samples together",
        ),
        ("learning_direction", lambda d, s: direction_in_loops(d, s)[0], "expected two results"),
        ("inverse_weights", lambda X: (torch.linalg.pinv(X) @ X).fill_diagonal_(0), "✓"),
        ("inverse_weights", inverse_by_svd, "✓"),
        ("inverse_weights", hebb_weights, "Hebb's rule"),
        ("inverse_weights", lambda X: torch.linalg.pinv(X) @ X, "still there"),
        ("inverse_weights", lambda X: X @ torch.linalg.pinv(X), "shape is (1, 1)"),
        ("modern_update", update_by_torch, "✓"),
        ("modern_update", modern_hopfield, "✓"),
        ("modern_update", lambda xi, X, beta: (beta * X @ xi.T).softmax(1).T @ X, "runs over the states"),
        ("modern_update", lambda xi, X, beta: update_by_torch(xi, X, beta / X.shape[1] ** 0.5), "root of d"),
        ("modern_update", lambda xi, X, beta: update_by_torch(xi, X, 1 / beta), "a large beta is cold"),
        ("modern_update", lambda *args: update_by_torch(*args).sign(), "on one state, two memories"),
        ("modern_update", lambda xi, X, beta: X[(xi @ X.T).argmax(1)], "on one state, two memories"),
        ("modern_update", overflowing_update, "on a beta so large that exp overflows"),
        ("boltzmann_machine", machine_by_package, "✓"),
        ("boltzmann_machine", machine_by_autograd, "✓"),
        ("boltzmann_machine", partial(machine_by_autograd, both=False), "half a step"),
        ("boltzmann_machine", partial(machine_by_package, change=lambda W: 2 * W), "on one step"),
        ("boltzmann_machine", partial(machine_by_package, averages=lambda W, b: (0 * W, 0 * b)), "not subtracted"),
        ("boltzmann_machine", lambda *args: tuple(machine_by_package(*args).values()), "W, b, line"),
        ("boltzmann_machine", lambda data, n_steps, rate: machine_by_package(data, n_steps, 1.1 * rate), "on one step"),
    ],
)
def test_answer_in_another_style(name, answer, words):
    assert_verdict(getattr(exercises, name), answer, words)
