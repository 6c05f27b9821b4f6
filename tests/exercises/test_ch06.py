"""Chapter 06: right answers in other styles."""

from functools import partial

import numpy as np
import torch
from torch import nn

from possm_course.chapters.ch06.unrolled import clip_by_global_norm
from possm_lite.nn.recurrent import gru_cell, lstm_cell

from .helpers import answers, load

exercises = load("ch06")


def copied(Cell, x, state, *weights):
    """A cell of torch with the weights copied into it, as a student would."""
    cell = Cell(x.shape[1], weights[1].shape[1])
    with torch.no_grad():
        for parameter, weight in zip(cell.parameters(), weights, strict=True):
            parameter.copy_(weight)
    return cell(x, state)


def reverse_by_rows(x, lengths):
    return torch.stack([torch.cat([s[:n].flip(0), s[n:]]) for s, n in zip(x, lengths.tolist(), strict=True)])


def by_autograd(H, W, g):
    """States with the values of H, each made from the one before."""
    W, state = W.clone().requires_grad_(), H[0]
    for now in H[1:]:
        inside = state @ W
        state = torch.tanh(inside + torch.atanh(now) - inside.detach())
    return torch.autograd.grad(state @ g, W)[0]


def counter():
    w_ih = [[0, 0, -30.0], [-30.0, -30.0, -30.0], [0.01, -0.01, 0]]
    return w_ih, [[0.0], [0.0], [1.0]], np.zeros(3), [15, 15, 0]


def counter_without_reset():
    """The counter with R = 1 for good."""
    w_ih, *others = counter()
    return [[0, 0, 0], *w_ih[1:]], *others


def chunks_by_backward(layer, x, n, empty=True, state=None):
    found = []
    for first in range(0, x.shape[1], n):
        H, state = layer(x[:, first : first + n], None if state is None else state.data)
        if empty:
            layer.zero_grad()
        (H**2).mean().backward()
        found.append(layer.weight_hh_l0.grad.clone())
    return found


def test_chunks_equal_back_propagation_through_each():
    """The gradient (6.12) of a chunk from the state that came in, a loss at each of its bins, without autograd."""
    layer, n = nn.RNN(2, 3, batch_first=True), 4
    x = torch.randn(1, 12, 2)
    with torch.no_grad():
        H = torch.cat([torch.zeros(1, 3), layer(x)[0][0]])  # (T + 1, 3)
    ours = exercises.chunk_gradients.reference(layer, x, n)
    for i, gradient in enumerate(ours):
        chunk = H[i * n : (i + 1) * n + 1]
        losses = 2 * chunk[1:] / chunk[1:].numel()  # dL/dH_t, without what comes later
        back, W = exercises.back_through_time.reference, layer.weight_hh_l0.detach().T
        expected = sum(back(chunk[: t + 2], W, losses[t]) for t in range(n))
        torch.testing.assert_close(gradient.T, expected)


test_answers = answers(
    exercises,
    ("my_gate", 0.966),
    ("my_gate", 0.97, "23 bins"),
    ("my_gate", 0.933, "ten bins"),
    ("my_gate", 0.95, "time constant"),
    ("torch_gru_step", partial(copied, nn.GRUCell)),
    ("torch_gru_step", gru_cell),
    ("counting_gru", counter),
    ("counting_gru", counter_without_reset, "clear does not clear"),
    ("back_through_time", lambda H, W, g: by_autograd(H, W, g).numpy()),
    ("chunk_gradients", chunks_by_backward),
    ("chunk_gradients", partial(chunks_by_backward, empty=False), "add up"),
    ("lstm_step", lambda X, H, C, w, v, b: copied(nn.LSTMCell, X, (H, C), w, v, b / 2, b / 2)),
    ("lstm_step", lambda X, H, C, w_ih, w_hh, b: lstm_cell(X, H, C, w_ih, w_hh, b, 0 * b)),
    ("reverse_valid", reverse_by_rows),
    ("good_start", lambda G: nn.init.orthogonal_(torch.empty_like(G)).numpy()),
    ("good_start", lambda G: torch.matrix_exp(G - G.T)),
    ("good_start", lambda G: torch.linalg.svd(G)[0] @ torch.linalg.svd(G)[2]),
    ("clip_gradients", lambda gs, c: clip_by_global_norm(gs, c)[0]),
)
