"""Chapter 01: right and wrong answers in other styles than the references and the traps."""

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


def kernel(x, x_i, w):
    return (-((w * (x.unsqueeze(1) - x_i.unsqueeze(0))).square()) / 2).exp()


def error_by_leaving_out(x_i, y_i, w):
    """Removes every point from the data set and predicts it from the rest."""
    total = 0
    for i in range(len(x_i)):
        others = torch.arange(len(x_i)) != i
        share = torch.softmax(-0.5 * w**2 * (x_i[others] - x_i[i]) ** 2, 0)
        total = total + (y_i[i] - (share * y_i[others]).sum()) ** 2
    return total / len(x_i)


def error_without_own_weight(x_i, y_i, w, share=lambda p: p):
    p = weights_by_rows(x_i, x_i, w)
    return ((share(p - torch.diag(p.diagonal())) @ y_i - y_i) ** 2).mean()


def error_with_zero_score(x_i, y_i, w, score=0.0):
    s = (-0.5 * w**2 * (x_i[:, None] - x_i) ** 2).fill_diagonal_(score)
    return ((s.softmax(1) @ y_i - y_i) ** 2).mean()


def weights_by_whole_table(x, x_i, w):
    e = -0.5 * (w * (x[:, None] - x_i)) ** 2
    return (e - e.max()).exp() / (e - e.max()).exp().sum(1, keepdim=True)


def weights_in_one_softmax(x, x_i, w):
    return (-0.5 * (w * (x[:, None] - x_i)) ** 2).flatten().softmax(0).view(len(x), -1)


def error_without_equal_times(x_i, y_i, w):
    scores = (-0.5 * (w * (x_i[:, None] - x_i)) ** 2).masked_fill(x_i[:, None] == x_i, -math.inf)
    return ((y_i - scores.softmax(1) @ y_i) ** 2).mean()


def widths_by_sgd(x_i, y_i, w, steps, step, zero=True):
    """Scales the features by w and asks for one Gaussian of width 1 in their plane."""
    log_w = w.log().requires_grad_()
    optimizer = torch.optim.SGD([log_w], lr=step)
    for _ in range(steps):
        if zero:
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


def widths_down_the_root(x_i, y_i, w, steps, step):
    for _ in range(steps):
        error = error_of_widths(x_i, y_i, w)
        w = widths_by_sgd(x_i, y_i, w, 1, step / (2 * error.sqrt().item())).detach()
    return w


def error_of_widths(x_i, y_i, w):
    scores = -0.5 * (w * (x_i[:, None] - x_i)).square().sum(-1)
    return (scores.fill_diagonal_(-math.inf).softmax(-1) @ y_i - y_i).square().mean()


def widths_on_w(x_i, y_i, w, steps, step):
    """The slope by log w, and the step on w."""
    for _ in range(steps):
        log_w = w.detach().log().requires_grad_()
        w = w - step * torch.autograd.grad(error_of_widths(x_i, y_i, log_w.exp()), log_w)[0]
    return w


def widths_of_other_places(x_i, y_i, w, steps, step):
    """Leaves out all points at the place of a point, not that point alone."""
    for _ in range(steps):
        w = w.detach().requires_grad_()
        squares = (w * (x_i[:, None] - x_i)).square().sum(-1)
        shares = (-0.5 * squares).masked_fill(squares == 0, -math.inf).softmax(-1)
        slope = torch.autograd.grad((shares @ y_i - y_i).square().mean(), w)[0]
        w = w * (-step * w * slope).exp()
    return w


def pool_from_the_mean(scores, values):
    e = (scores - scores.mean(1, keepdim=True)).exp()
    return e @ values / e.sum(1, keepdim=True), e / e.sum(1, keepdim=True)


def pool_by_einsum(scores, values):
    p = (scores - scores.logsumexp(1, keepdim=True)).exp()
    return torch.einsum("qm,mv->qv", p, values), p


@pytest.mark.parametrize(
    ("name", "answer", "words"),
    [
        ("gaussian_weights", weights_by_rows, "✓"),
        ("gaussian_weights", kernel_weights, "✓"),
        ("gaussian_weights", lambda x, x_i, w: weights_by_rows(x, x_i, w**0.5), "outside the square"),
        ("gaussian_weights", lambda x, x_i, w: weights_by_rows(x, x_i, 2**0.5 * w), "factor 1/2"),
        ("gaussian_weights", lambda *a: (kernel(*a).T / kernel(*a).sum(1)).T, "0 / 0 is NaN"),
        ("gaussian_weights", lambda *a: kernel(*a) / kernel(*a).sum(1), "keepdim=True"),
        ("gaussian_weights", weights_in_one_softmax, "one softmax for the"),
        ("gaussian_weights", weights_by_whole_table, "of the whole table"),
        ("gaussian_weights", lambda x, x_i, w: weights_by_rows(x, x_i, w).double().numpy(), "✓"),
        ("gaussian_weights", lambda *a: weights_by_rows(*a).T, "the shape is (3, 1)"),
        ("doubled_weight", math.exp(-2), "✓"),
        ("doubled_weight", math.exp(-0.5) / 2, "does not halve"),
        ("far_answer", " First ", "✓"),
        ("loo_error", error_by_leaving_out, "✓"),
        ("loo_error", leave_one_out_error, "✓"),
        ("loo_error", error_with_zero_score, "the score of distance zero"),
        ("loo_error", error_without_own_weight, "no longer sums to one"),
        ("loo_error", lambda *a: error_without_own_weight(*a, lambda p: p / p.sum(1)), "keepdim=True"),
        ("loo_error", lambda *a: error_without_own_weight(*a, lambda p: p.softmax(1)), "a second softmax"),
        ("loo_error", error_without_equal_times, "not by its time"),
        ("loo_error", lambda x, y, w: error_by_leaving_out(x, y, w**0.5), "outside the square"),
        ("loo_error", lambda *a: error_by_leaving_out(*a).detach(), "no gradient flows back"),
        ("pool", pool_by_einsum, "✓"),
        ("pool", pool_from_the_mean, "on scores of 1000 and of 0 for one query"),
        ("loo_error", lambda *a: error_with_zero_score(*a, score=-1e4), "on points many widths apart"),
        ("learn_widths", widths_of_other_places, "on two points at one place"),
        ("pool", attend, "✓"),
        ("pool", lambda s, v: (torch.einsum("qm,mv->qmv", s.softmax(1), v), s.softmax(1)), "not added up"),
        ("pool", lambda s, v: (s.softmax(1) @ v / len(v), s.softmax(1)), "shares already"),
        ("pool", lambda s, v: pool_by_einsum(s, v)[0], "expected two results"),
        ("pool", lambda s, v: [*pool_by_einsum(s, v)], "✓"),
        ("pool", lambda s, v: [x.numpy() for x in attend(s, v)], "✓"),
        ("book_weight", 1 / (1 + 2 / math.e + math.e), "✓"),
        ("book_weight", 1 / (1 + 3 / math.e), "before the phone rings"),
        ("book_weight", 1 / (1 + 3 / math.e) / 3, "to the *weight*"),
        ("book_weight", 1 / (3 + math.exp(2)), "no focus at all"),
        ("learn_widths", widths_by_sgd, "✓"),
        ("learn_widths", widths_by_differences, "✓"),
        ("learn_widths", lambda *a: widths_by_sgd(*a).tolist(), "✓"),
        ("learn_widths", lambda *a: widths_by_sgd(*a, zero=False), "pile up"),
        ("learn_widths", lambda x, y, w, n, step: widths_by_sgd(x, y, w, n, step * len(y)), "summed"),
        ("learn_widths", widths_down_the_root, "the root of the error"),
        ("learn_widths", widths_on_w, "steps are taken on w"),
    ],
)
def test_answer_in_another_style(name, answer, words):
    assert_verdict(getattr(exercises, name), answer, words)
