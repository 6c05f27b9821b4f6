"""Chapter 09: right answers in other styles."""

import numpy as np
import torch

from possm_course.chapters.ch09.boltzmann import all_states, on_probability
from possm_course.chapters.ch09.hopfield import recall

from .helpers import answers, load

exercises = load("ch09")


def cd_by_tanh(data, W, b, c, for_h, for_v):
    """Means as tanh, draws as signs, one datum after the other."""
    directions = []
    for n, start in enumerate(data):
        v = start
        for u_h, u_v in zip(for_h[:, n], for_v[:, n], strict=True):
            h = torch.sign((1 + torch.tanh(W.T @ v + c)) / 2 - u_h)
            v = torch.sign((1 + torch.tanh(W @ h + b)) / 2 - u_v)
        means = [torch.tanh(x @ W + c) for x in (start, v)]
        directions.append((start.outer(means[0]) - v.outer(means[1]), start - v, means[0] - means[1]))
    return [torch.stack(part).mean(0).numpy() for part in zip(*directions, strict=True)]


def completed_by_torch(cues, known, memories, beta, n_updates):
    """Attention of torch, with known units put back by a product."""
    xi = cues.masked_fill(~known, 0)
    for _ in range(n_updates):
        weights = (beta * torch.einsum("qd,md->qm", xi, memories)).softmax(1)
        update = torch.nn.functional.scaled_dot_product_attention(xi[None], memories[None], memories[None], scale=beta)
        xi = torch.where(known, cues, update[0])
    return {"weights": weights.tolist(), "xi": xi}


def completed_in_place(cues, known, memories, beta, n_updates):
    xi = np.where(known, cues, 0.0)
    for _ in range(n_updates):
        scores = beta * xi @ memories.numpy().T
        weights = np.exp(scores - scores.max(1, keepdims=True))
        weights /= weights.sum(1, keepdims=True)
        xi[~known] = (weights @ memories.numpy())[~known]
    return {"xi": xi, "weights": weights}


def inverse_by_qr(X):
    Q = torch.linalg.qr(X.T).Q  # an orthonormal basis of the patterns
    return (Q @ Q.T).fill_diagonal_(0)


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
    ("recall_sweep", lambda s, W, b: recall(s[None], W, b, max_sweeps=1)[0]),
    ("chance_on", lambda s, i, *rest: on_probability(s[None], *rest)[0, i]),
    ("chance_on", lambda s, i, W, b, T: (torch.tanh((W[i] @ s + b[i]) / T) + 1) / 2),
    ("cd_directions", cd_by_tanh),
    ("complete_cues", completed_by_torch),
    ("complete_cues", completed_in_place),
    ("n_alike", 11),
    ("n_alike", 12),
    ("growth", 41),
    ("growth", np.exp(24 * (0.1875 - np.log(np.cosh(0.25))))),
    ("inverse_weights", lambda X: (torch.linalg.pinv(X) @ X).fill_diagonal_(0).numpy()),
    ("inverse_weights", inverse_by_qr),
    ("boltzmann_machine", machine_by_autograd),
)
