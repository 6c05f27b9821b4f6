"""Chapter 06: right and wrong answers in other styles than the references and the traps."""

import math
from functools import partial

import numpy as np
import pytest
import torch
from torch import nn

from possm_lite.blocks.recurrent import gru_cell, lstm_cell, rnn_cell, textbook_gru_cell
from possm_lite.blocks.unrolled import clip_by_global_norm

from .helpers import assert_verdict, load

exercises = load("06_recurrent_networks")


def by_torch(Cell, x, state, *weights, order=(0,), sign=1):
    """A cell of torch, with the blocks of its weights in another order; `sign` changes that of the second block."""
    blocks = [w.chunk(len(order)) for w in weights]
    weights = [torch.cat([b[i] * (sign if i == 1 else 1) for i in order]) for b in blocks]
    names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    cell = Cell(x.shape[-1], weights[1].shape[-1])
    return torch.func.functional_call(cell, dict(zip(names, weights, strict=True)), (x, state))


torch_gru = partial(by_torch, nn.GRUCell, order=(0, 1, 2))


def torch_lstm(X, H, C, w_ih, w_hh, b, order=(0, 1, 2, 3)):
    return by_torch(nn.LSTMCell, X, (H, C), w_ih, w_hh, b / 2, b / 2, order=order)


def textbook_gru(X, H, W_x, W_h, b):
    w_x, w_h = W_x.mT.flatten(0, 1), W_h.mT.flatten(0, 1)  # (3h, d), (3h, h)
    return textbook_gru_cell(X, H, w_x, w_h, b.flatten(), 0 * b.flatten())


def gru_with_einsum(
    X, H, W_x, W_h, b, *, r=0, z=1, after=False, bias_inside=False, squash=torch.tanh, gate=torch.sigmoid
):
    mixed = torch.einsum("nd,gdh->gnh", X, W_x) + b[:, None]
    gates = gate(mixed[:2] + torch.einsum("nk,gkh->gnh", H, W_h[:2]))
    from_h = gates[r] * (H @ W_h[2]) if after else (gates[r] * H) @ W_h[2]
    candidate = squash(mixed[2] + from_h + bias_inside * (gates[r] - 1) * b[2])
    return candidate + gates[z] * (H - candidate)


def reverse_by_rows(x, lengths, reverse=lambda s, n: s[:n].flip(0)):
    return torch.stack([torch.cat([reverse(s, n), s[n:]]) for s, n in zip(x, lengths.tolist(), strict=True)])


def reverse_in_place(x, lengths, head):
    y = x.clone()
    for i, n in enumerate(lengths.tolist()):
        y[i, : head(n)] = x[i, : head(n)].flip(0)
    return y


def reverse_from_length(x, lengths):
    return torch.stack(
        [
            torch.stack([x[i, n - t] if t < n else x[i, t] for t in range(x.shape[1])])
            for i, n in enumerate(lengths.tolist())
        ]
    )


def copied(Cell, x, h, *weights):
    """A cell of torch with the weights copied into it, as a student would."""
    cell = Cell(x.shape[1], h.shape[1])
    with torch.no_grad():
        for parameter, weight in zip(cell.parameters(), weights, strict=True):
            parameter.copy_(weight)
    return cell(x, h)


def lstm_by_hand(X, H, C, w_ih, w_hh, b, *, keep=lambda f: f, store=lambda c: c, shown=torch.tanh, gate=torch.sigmoid):
    i, f, g, o = (X @ w_ih.T + H @ w_hh.T + b).split(H.shape[1], 1)
    C = store(keep(gate(f)) * C + gate(i) * torch.tanh(g))
    return gate(o) * shown(C), C


def by_autograd(H, W, g, linear=False):
    """The same by autograd: states with the values of H, each made from the one before."""
    W, state = W.clone().requires_grad_(), H[0]
    for now in H[1:]:
        inside = state @ W
        shift = (now if linear else torch.atanh(now)) - inside.detach()
        state = inside + shift if linear else torch.tanh(inside + shift)
    return torch.autograd.grad(state @ g, W)[0]


def counter(stair=0.01, z_bias=15.0, z=(-30.0, -30.0, -30.0), r_clear=-30.0, down=-1, h=1.0):
    w_ih = [[0, 0, r_clear], list(z), [stair, stair * down, 0]]
    return w_ih, [[0.0], [0.0], [h]], np.zeros(3), [15.0, z_bias, 0.0]


def half_reset():
    """A counter whose R is a half in every bin but that of a clear."""
    return [[0, 0, -40], [-40, -40, -40], [0.02, -0.02, 0]], [[0], [0], [1]], [0, 20, 0], [0, 0, 0]


def clip_by_loop(gradients, c):
    norm = math.sqrt(sum((g**2).sum().item() for g in gradients))
    return tuple(g * (c / norm) for g in gradients) if norm > c else [g.clone() for g in gradients]


@pytest.mark.parametrize(
    ("name", "answer", "words"),
    [
        ("rnn_step", partial(by_torch, nn.RNNCell), "✓"),
        ("rnn_step", partial(copied, nn.RNNCell), "✓"),
        ("rnn_step", rnn_cell, "✓"),
        ("rnn_step", lambda x, h, w_ih, *rest: x @ w_ih, "✗ rnn_step: it raised"),
        ("rnn_step", lambda x, h, w_ih, *rest: torch.tanh(x @ w_ih.T + rest[1]), "on a state other than"),
        ("rnn_step", lambda x, h, w_ih, w_hh, *b: rnn_cell(x, h, w_ih, w_hh.T, *b), "not transposed"),
        ("my_gate", 0.966, "✓"),
        ("my_gate", 0.9512, "more than a third"),
        ("my_gate", 0.95, "more than a third"),
        ("my_gate", 0.99, "0.99"),
        ("gru_step", gru_with_einsum, "✓"),
        ("gru_step", textbook_gru, "✓"),
        ("gru_step", partial(gru_with_einsum, after=True), "after the product"),
        ("gru_step", partial(gru_with_einsum, r=1, z=0), "R and Z are swapped"),
        ("gru_step", partial(gru_with_einsum, squash=torch.relu), "on a state of zeros: "),
        ("gru_step", lambda *args: gru_with_einsum(*args).detach(), "✓"),
        ("gru_step", partial(gru_with_einsum, after=True, bias_inside=True), "and with the bias: torch's GRU"),
        ("gru_step", partial(gru_with_einsum, gate=torch.tanh), "the gates go through a tanh"),
        ("torch_gru_step", torch_gru, "✓"),
        ("torch_gru_step", partial(copied, nn.GRUCell), "✓"),
        ("torch_gru_step", gru_cell, "✓"),
        ("torch_gru_step", partial(torch_gru, order=(1, 0, 2)), "Torch's are r, z, n"),
        ("torch_gru_step", partial(torch_gru, sign=-1), "Torch's Z keeps the old state"),
        ("torch_gru_step", partial(torch_gru, order=(2, 1, 0)), "on a state of zeros"),
        ("torch_gru_step", textbook_gru_cell, "that is the textbook's GRU"),
        ("lstm_step", torch_lstm, "✓"),
        ("lstm_step", lambda X, H, C, w_ih, w_hh, b: lstm_cell(X, H, C, w_ih, w_hh, b, 0 * b), "✓"),
        ("lstm_step", partial(torch_lstm, order=(0, 1, 3, 2)), "g and o are swapped"),
        ("lstm_step", partial(torch_lstm, order=(1, 0, 2, 3)), "i and f are swapped"),
        ("lstm_step", lambda *args: list(torch_lstm(*args)), "✓"),
        ("lstm_step", partial(lstm_by_hand, keep=lambda f: 1 - f), "1 - F is multiplied"),
        ("lstm_step", partial(lstm_by_hand, store=torch.tanh), "squashed twice"),
        ("lstm_step", partial(lstm_by_hand, store=torch.tanh, shown=lambda c: c), "squashed and kept so"),
        ("lstm_step", partial(lstm_by_hand, gate=torch.tanh), "the gates go through a tanh"),
        ("lstm_step", lambda *args: torch_lstm(*args)[0], "expected two results"),
        ("reverse_valid", reverse_by_rows, "✓"),
        ("reverse_valid", lambda x, n: reverse_by_rows(x, n.clamp(max=int(n[0]))), "on "),
        ("reverse_valid", lambda x, n: reverse_by_rows(x, n * 0 + n.max()), "greatest length"),
        ("reverse_valid", partial(reverse_by_rows, reverse=lambda s, n: s.flip(0)[:n]), "padding comes first"),
        ("reverse_valid", partial(reverse_in_place, head=lambda n: n + 1), "one step too many"),
        ("reverse_valid", partial(reverse_in_place, head=lambda n: n - 1), "one step too few"),
        ("reverse_valid", partial(reverse_in_place, head=lambda n: max(0, n - 1)), "one step too few"),
        ("reverse_valid", reverse_from_length, "off by one, and read past the end"),
        ("reverse_valid", lambda x, n: x, "on two sequences of full length"),
        ("back_through_time", by_autograd, "✓"),
        ("back_through_time", lambda H, W, g: by_autograd(H, W, g).numpy(), "✓"),
        ("back_through_time", lambda H, W, g: by_autograd(H, W, g, linear=True), "slopes 1 - H_t**2 of the tanh"),
        ("back_through_time", lambda H, W, g: by_autograd(H[-2:], W, g), "only the last step's term"),
        ("back_through_time", lambda H, W, g: by_autograd(H, W.T, g), "W_hh is transposed on the way back"),
        ("back_through_time", lambda H, W, g: by_autograd(H, W, g).T, "the result is transposed"),
        ("back_through_time", lambda H, W, g: by_autograd(H, W, g) / (len(H) - 1), "divided by the number"),
        ("counting_gru", counter, "✓"),
        ("counting_gru", partial(counter, h=1.005), "✓"),
        ("counting_gru", partial(counter, stair=0.1), "the stairs shrink"),
        ("counting_gru", partial(counter, stair=0.02, z_bias=2.0), "the count does not stay"),
        ("counting_gru", partial(counter, stair=0.02, z_bias=0.0), "the count does not stay"),
        ("counting_gru", partial(counter, r_clear=0), "clear does not clear"),
        ("counting_gru", partial(counter, z=(-30.0, -30.0, 0)), "clear does not clear"),
        ("counting_gru", partial(counter, z=(0, 0, 0)), "does not bring the state to 0.01"),
        ("counting_gru", partial(counter, z=(30.0, 30.0, 30.0), z_bias=-15.0), "does not bring the state to 0.01"),
        ("counting_gru", partial(counter, stair=0.001), "does not bring the state to 0.01"),
        ("counting_gru", partial(counter, z=(-30.0, 0, -30.0)), "a pulse down is not heard"),
        ("counting_gru", partial(counter, down=1), "a pulse down counts up"),
        ("counting_gru", partial(counter, h=0.0), "sees too little of the old state"),
        ("counting_gru", partial(counter, stair=float("nan")), "w_ih has numbers that are NaN"),
        ("counting_gru", half_reset, "and at R in"),
        ("counting_gru", lambda: counter()[:3], "return four results"),
        ("counting_gru", lambda: (np.zeros((3, 2)), *counter()[1:]), "w_ih has the shape (3, 2), expected (3, 3)"),
        ("clip_gradients", clip_by_loop, "✓"),
        ("clip_gradients", lambda gs, c: [0 * g for g in gs], "on one long gradient: expected 1.2 at [0], got 0"),
        ("clip_gradients", lambda gs, c: clip_by_global_norm(gs, c)[0], "✓"),
        ("clip_gradients", lambda gs, c: [g * c / (1e-12 + math.hypot(*(h.norm() for h in gs))) for g in gs], "longer"),
    ],
)
def test_answer_in_another_style(name, answer, words):
    assert_verdict(getattr(exercises, name), answer, words)
