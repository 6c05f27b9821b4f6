"""Chapter 09: right answers in other styles, and wrong ones that no known mistake explains."""

import pytest
import torch

from possm_lite.blocks.boltzmann import all_states, boltzmann_gradient, moments, on_probability
from possm_lite.blocks.hopfield import modern_hopfield, recall

from .helpers import assert_verdict, load

exercises = load("09_associative_memory")


def greedy(s, W, b):
    """Each unit takes the side of lower energy."""
    s = s.clone()
    for i in range(len(s)):
        off, on = (-0.5 * x @ W @ x - b @ x for x in (s.index_fill(0, torch.tensor(i), side) for side in (-1.0, 1.0)))
        s[i] = s[i] if off == on else 1.0 if on < off else -1.0
    return s


def end_states_by_enumeration():
    x = torch.tensor([1.0, -1, 1, 1, -1, -1])
    W = (torch.outer(x, x) / 6).fill_diagonal_(0)
    return len(recall(all_states(6), W).unique(dim=0))


def chance_by_quotient(s, i, W, b, T):
    e = torch.exp(2 * (W[i] @ s + b[i]) / T)
    return e / (1 + e)


def direction_by_einsum(data, samples):
    pairs = [torch.einsum("mi,mj->mij", x, x).mean(0) for x in (data, samples)]
    return [(pairs[0] - pairs[1]).tolist(), (data.mean(0) - samples.mean(0)).numpy()]


def update_by_torch(xi, X, beta):
    return torch.nn.functional.scaled_dot_product_attention(xi[None], X[None], X[None], scale=beta)[0]


def machine_by_autograd(data, n_steps, rate, *, both=True):
    """The slope from torch: w_ij and w_ji are one weight, so the slopes of both add up."""
    n = data.shape[1]
    W, b, line = torch.zeros(n, n, requires_grad=True), torch.zeros(n, requires_grad=True), []
    for _ in range(n_steps):
        value = [0.5 * (s @ W * s).sum(-1) + s @ b for s in (data, all_states(n))]
        line.append(value[0].mean() - value[1].logsumexp(0))
        for_W, for_b = torch.autograd.grad(line[-1], (W, b))
        for_W = (for_W + for_W.T if both else for_W).fill_diagonal_(0)
        W, b = (W + rate * for_W).detach().requires_grad_(), (b + rate * for_b).detach().requires_grad_()
    return {"W": W.detach().numpy(), "b": b.tolist(), "line": line}


@pytest.mark.parametrize(
    ("name", "answer", "words"),
    [
        ("recall_sweep", greedy, "✓"),
        ("recall_sweep", lambda s, W, b: recall(s[None], W, b, max_sweeps=1)[0], "✓"),
        ("n_end_states", end_states_by_enumeration(), "✓"),
        ("n_alike", 144 * 2 * (6 / 144), "✓"),
        ("n_alike", 11, "✓"),
        ("chance_on", lambda s, i, *rest: on_probability(s[None], *rest)[0, i], "✓"),
        ("chance_on", lambda s, i, W, b, T: (torch.tanh((W[i] @ s + b[i]) / T) + 1) / 2, "✓"),
        ("chance_on", chance_by_quotient, "on a cold unit, whose bias keeps it on"),
        ("learning_direction", lambda data, samples: boltzmann_gradient(moments(data), moments(samples)), "✓"),
        ("learning_direction", direction_by_einsum, "✓"),
        ("inverse_weights", lambda X: (torch.linalg.pinv(X) @ X).fill_diagonal_(0).numpy(), "✓"),
        ("modern_update", update_by_torch, "✓"),
        ("modern_update", modern_hopfield, "✓"),
        ("modern_update", lambda *args: update_by_torch(*args).sign(), "on one state, two memories"),
        ("boltzmann_machine", machine_by_autograd, "✓"),
        ("boltzmann_machine", lambda *args: machine_by_autograd(*args, both=False), "half a step"),
    ],
)
def test_answer_in_another_style(name, answer, words):
    assert_verdict(getattr(exercises, name), answer, words)
