"""Chapter 06: right answers in other styles."""

from functools import partial

import numpy as np
import torch
from torch import nn

from possm_lite.course.unrolled import clip_by_global_norm
from possm_lite.nn.recurrent import gru_cell, lstm_cell, rnn_cell

from .helpers import answers, load

exercises = load("06_recurrent_networks")


def copied(Cell, x, state, *weights):
    """A cell of torch with the weights copied into it, as a student would."""
    cell = Cell(x.shape[1], weights[1].shape[1])
    with torch.no_grad():
        for parameter, weight in zip(cell.parameters(), weights, strict=True):
            parameter.copy_(weight)
    return cell(x, state)


def gru_with_einsum(X, H, W_x, W_h, b):
    mixed = torch.einsum("nd,gdh->gnh", X, W_x) + b[:, None]
    R, Z = torch.sigmoid(mixed[:2] + torch.einsum("nk,gkh->gnh", H, W_h[:2]))
    candidate = torch.tanh(mixed[2] + (R * H) @ W_h[2])
    return candidate + Z * (H - candidate)


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


test_answers = answers(
    exercises,
    [
        ("rnn_step", rnn_cell),
        ("my_gate", 0.966),
        ("gru_step", lambda *args: gru_with_einsum(*args).detach().numpy()),
        ("torch_gru_step", partial(copied, nn.GRUCell)),
        ("torch_gru_step", gru_cell),
        ("lstm_step", lambda X, H, C, w, v, b: copied(nn.LSTMCell, X, (H, C), w, v, b / 2, b / 2)),
        ("lstm_step", lambda X, H, C, w_ih, w_hh, b: lstm_cell(X, H, C, w_ih, w_hh, b, 0 * b)),
        ("reverse_valid", reverse_by_rows),
        ("back_through_time", lambda H, W, g: by_autograd(H, W, g).numpy()),
        ("clip_gradients", lambda gs, c: clip_by_global_norm(gs, c)[0]),
        ("counting_gru", counter),
    ],
)
