"""Chapter 09: right answers in other styles."""

import torch

from possm_lite.course.boltzmann import all_states, boltzmann_gradient, moments, on_probability
from possm_lite.course.hopfield import modern_hopfield, recall

from .helpers import answers, load

exercises = load("09_associative_memory")


def update_by_torch(xi, X, beta):
    return torch.nn.functional.scaled_dot_product_attention(xi[None], X[None], X[None], scale=beta)[0]


def machine_by_autograd(data, n_steps, rate):
    """The slope from torch: w_ij and w_ji are one weight, so the slopes of both add up."""
    n = data.shape[1]
    W, b, line = torch.zeros(n, n, requires_grad=True), torch.zeros(n, requires_grad=True), []
    for _ in range(n_steps):
        value = [0.5 * (s @ W * s).sum(-1) + s @ b for s in (data, all_states(n))]
        line.append(value[0].mean() - value[1].logsumexp(0))
        for_W, for_b = torch.autograd.grad(line[-1], (W, b))
        for_W = (for_W + for_W.T).fill_diagonal_(0)
        W, b = (W + rate * for_W).detach().requires_grad_(), (b + rate * for_b).detach().requires_grad_()
    return {"W": W.detach().numpy(), "b": b.tolist(), "line": line}


test_answers = answers(
    exercises,
    [
        ("recall_sweep", lambda s, W, b: recall(s[None], W, b, max_sweeps=1)[0]),
        ("n_alike", 11),
        ("chance_on", lambda s, i, *rest: on_probability(s[None], *rest)[0, i]),
        ("chance_on", lambda s, i, W, b, T: (torch.tanh((W[i] @ s + b[i]) / T) + 1) / 2),
        ("learning_direction", lambda data, samples: boltzmann_gradient(moments(data), moments(samples))),
        ("inverse_weights", lambda X: (torch.linalg.pinv(X) @ X).fill_diagonal_(0).numpy()),
        ("modern_update", update_by_torch),
        ("modern_update", modern_hopfield),
        ("boltzmann_machine", machine_by_autograd),
    ],
)
