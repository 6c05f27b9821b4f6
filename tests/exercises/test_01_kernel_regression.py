"""Chapter 01: right answers in other styles, and wrong ones that no known mistake explains."""

import math

import numpy as np
import pytest
import torch

from possm_lite.blocks.attention import attend
from possm_lite.blocks.kernels import kernel_weights, leave_one_out_error

from .helpers import assert_verdict, load

exercises = load("01_kernel_regression")


def weights_by_rows(x, x_i, w):
    return torch.stack([torch.softmax(-((w * (q - x_i)) ** 2) / 2, 0) for q in x])


def error_by_leaving_out(x_i, y_i, w):
    """Removes every point from the data set and predicts it from the rest."""
    total = 0
    for i in range(len(x_i)):
        others = torch.arange(len(x_i)) != i
        share = torch.softmax(-0.5 * w**2 * (x_i[others] - x_i[i]) ** 2, 0)
        total = total + (y_i[i] - (share * y_i[others]).sum()) ** 2
    return total / len(x_i)


def error_with_a_low_score(x_i, y_i, w):
    s = (-0.5 * w**2 * (x_i[:, None] - x_i) ** 2).fill_diagonal_(-1e4)
    return ((s.softmax(1) @ y_i - y_i) ** 2).mean()


def widths_by_sgd(x_i, y_i, w, steps, step):
    """Scales the features by w and asks for one Gaussian of width 1 in their plane."""
    log_w = w.log().requires_grad_()
    optimizer = torch.optim.SGD([log_w], lr=step)
    for _ in range(steps):
        optimizer.zero_grad()
        scaled = x_i * log_w.exp()
        scores = -0.5 * torch.cdist(scaled, scaled).square()
        scores = scores + torch.diag(torch.full((len(x_i),), -math.inf))
        (scores.softmax(-1) @ y_i - y_i).square().mean().backward()
        optimizer.step()
    return log_w.exp()


def widths_by_differences(x_i, y_i, w, steps, step, h=1e-5):
    """The slope by hand, in NumPy."""
    x, y, log_w = x_i.numpy(), y_i.numpy(), np.log(w.numpy())

    def error(log_w):
        squares = ((np.exp(log_w) * (x[:, None] - x)) ** 2).sum(-1) + np.diag(np.full(len(x), np.inf))
        k = np.exp(-0.5 * (squares - squares.min(1, keepdims=True)))
        return np.mean((y - k @ y / k.sum(1)) ** 2)

    for _ in range(steps):
        rises = [error(log_w + h * row) - error(log_w - h * row) for row in np.eye(len(log_w))]
        log_w = log_w - step * np.array(rises) / (2 * h)
    return np.exp(log_w)


def pool_by_einsum(scores, values):
    p = (scores - scores.logsumexp(1, keepdim=True)).exp()
    return torch.einsum("qm,mv->qv", p, values), p


def pool_from_the_mean(scores, values):
    e = (scores - scores.mean(1, keepdim=True)).exp()
    return e @ values / e.sum(1, keepdim=True), e / e.sum(1, keepdim=True)


@pytest.mark.parametrize(
    ("name", "answer", "words"),
    [
        ("gaussian_weights", kernel_weights, "✓"),
        ("gaussian_weights", lambda x, x_i, w: weights_by_rows(x, x_i, w).double().numpy(), "✓"),
        ("gaussian_weights", lambda *a: weights_by_rows(*a).T, "the shape is (3, 1)"),
        ("doubled_weight", math.exp(-2), "✓"),
        ("far_answer", " First ", "✓"),
        ("loo_error", error_by_leaving_out, "✓"),
        ("loo_error", leave_one_out_error, "✓"),
        ("loo_error", error_with_a_low_score, "on points many widths apart"),
        ("pool", attend, "✓"),
        ("pool", lambda s, v: [x.numpy() for x in pool_by_einsum(s, v)], "✓"),
        ("pool", pool_from_the_mean, "on scores of 1000 and of 0 for one query"),
        ("pool", lambda s, v: attend(s, v)[0], "expected two results"),
        ("book_weight", 1 / (1 + 2 / math.e + math.e), "✓"),
        ("learn_widths", lambda *a: widths_by_sgd(*a).tolist(), "✓"),
        ("learn_widths", widths_by_differences, "✓"),
    ],
)
def test_answer_in_another_style(name, answer, words):
    assert_verdict(getattr(exercises, name), answer, words)
