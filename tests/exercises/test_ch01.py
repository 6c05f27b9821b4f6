"""Chapter 01: right answers in other styles."""

import math

import torch

from possm_course.chapters.ch01.kernels import kernel_weights, leave_one_out_error
from possm_lite.nn.attention import attend

from .helpers import answers, load

exercises = load("ch01")


def error_by_leaving_out(x_i, y_i, w):
    """Removes every point from the data set and predicts it from the rest."""
    total = 0
    for i in range(len(x_i)):
        others = torch.arange(len(x_i)) != i
        share = torch.softmax(-0.5 * w**2 * (x_i[others] - x_i[i]) ** 2, 0)
        total = total + (y_i[i] - (share * y_i[others]).sum()) ** 2
    return total / len(x_i)


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


def error_by_identity(x_i, y_i, w):
    """(y_i - f(x_i)) / (1 - p_ii), as textbooks have it: exact on paper."""
    p = kernel_weights(x_i, x_i, w)
    return ((y_i - p @ y_i) / (1 - p.diagonal())).square().mean()


def error_by_what_is_left(x_i, y_i, w):
    """Clears the own weight and divides by what is left of the row: the same in other words."""
    p = kernel_weights(x_i, x_i, w) * (1 - torch.eye(len(x_i), dtype=x_i.dtype))
    return (y_i - p @ y_i / p.sum(-1)).square().mean()


def pool_by_einsum(scores, values):
    p = (scores - scores.logsumexp(1, keepdim=True)).exp()
    return torch.einsum("qm,mv->qv", p, values), p


test_answers = answers(
    exercises,
    ("gaussian_weights", kernel_weights),
    ("heard_number", 7),
    ("heard_number", 13.7 / 4, "a quarter"),
    ("far_answer", " First "),
    ("loo_error", error_by_leaving_out),
    ("loo_error", leave_one_out_error),
    ("loo_error", error_by_identity, "exact on paper"),
    ("loo_error", lambda x, y, w: error_by_identity(x.double(), y.double(), w), "exact on paper"),
    ("loo_error", error_by_what_is_left, "exact on paper"),
    ("pool", attend),
    ("pool", lambda s, v: [x.numpy() for x in pool_by_einsum(s, v)]),
    ("book_weight", 1 / (1 + 2 / math.e + math.e)),
    ("learn_widths", lambda *a: widths_by_sgd(*a).tolist()),
)
