"""Chapter 06, the cells: right answers, written anew, get their tick; planted mistakes get the line that names them."""

import pytest
import torch
from torch import nn

from .helpers import load

check = load("06_recurrent_networks")


# right answers


def by_torch(Cell, x, state, weights):
    """A cell of torch with these weights."""
    names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    return torch.func.functional_call(
        Cell(x.shape[-1], weights[1].shape[-1]), dict(zip(names, weights, strict=True)), (x, state)
    )


def rnn_step(X, H, *weights):
    return by_torch(nn.RNNCell, X, H, weights)


def gru_step(X, H, W_x, W_h, b):
    mixed = torch.einsum("nd,gdh->gnh", X, W_x) + b[:, None]
    gates = 1 / (1 + torch.exp(-(mixed[:2] + torch.einsum("nk,gkh->gnh", H, W_h[:2]))))
    candidate = torch.tanh(mixed[2] + (gates[0] * H) @ W_h[2])
    return candidate + gates[1] * (H - candidate)


def torch_gru_step(x, h, w_ih, w_hh, b_ih, b_hh):
    d, n = x.shape[-1], h.shape[-1]
    cell = nn.GRUCell(d, n)
    names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    return torch.func.functional_call(cell, dict(zip(names, (w_ih, w_hh, b_ih, b_hh), strict=True)), (x, h))


def lstm_step(X, H, C, w_ih, w_hh, b):
    return by_torch(nn.LSTMCell, X, (H, C), (w_ih, w_hh, b / 2, b / 2))


# mistakes


def rnn_with(X, H, w_ih, w_hh, b_ih, b_hh, *, squash=torch.tanh, turned=True, old=True, biases=2):
    mixed = X @ w_ih.T + b_ih
    if old:
        mixed = mixed + H @ (w_hh.T if turned else w_hh)
    return squash(mixed + b_hh if biases == 2 else mixed)


def gru_with(X, H, W_x, W_h, b, *, r=0, z=1, after=False, swapped=False, squash=torch.tanh):
    R = torch.sigmoid(X @ W_x[r] + H @ W_h[r] + b[r])
    Z = torch.sigmoid(X @ W_x[z] + H @ W_h[z] + b[z])
    hn = R * (H @ W_h[2]) if after else (R * H) @ W_h[2]
    N = squash(X @ W_x[2] + hn + b[2])
    return (1 - Z) * H + Z * N if swapped else Z * H + (1 - Z) * N


def torch_gru_with(x, h, w_ih, w_hh, b_ih, b_hh, *, order=(0, 1, 2), before=False, swapped=False):
    gx, gh = (x @ w_ih.T + b_ih).chunk(3, -1), (h @ w_hh.T + b_hh).chunk(3, -1)
    r, z = (torch.sigmoid(gx[i] + gh[i]) for i in order[:2])
    n = order[2]
    size = h.shape[-1]
    rows = slice(n * size, (n + 1) * size)
    new = torch.tanh(gx[n] + ((r * h) @ w_hh[rows].T + b_hh[rows] if before else r * gh[n]))
    return (1 - z) * h + z * new if swapped else z * h + (1 - z) * new


def lstm_with(X, H, C, w_ih, w_hh, b, *, order=(0, 1, 2, 3), forget=True, show=True, squash=torch.tanh):
    blocks = (X @ w_ih.T + H @ w_hh.T + b).chunk(4, -1)
    i, f, g, o = (blocks[k] for k in order)
    C = (f.sigmoid() if forget else 1) * C + i.sigmoid() * squash(g)
    return (o.sigmoid() if show else 1) * torch.tanh(C), C


def lstm_in_place(X, H, C, w_ih, w_hh, b):
    C.copy_(lstm_step(X, H, C, w_ih, w_hh, b)[1])
    return lstm_step(X, H, C, w_ih, w_hh, b)[0], C


def wrong(function, **choices):
    return lambda *args: function(*args, **choices)


RIGHT = [
    (check.rnn_step, rnn_step),
    (check.gru_step, gru_step),
    (check.torch_gru_step, torch_gru_step),
    (check.lstm_step, lstm_step),
]
WRONG = [
    (check.rnn_step, wrong(rnn_with, squash=lambda a: a), "the tanh of (6.1) is missing"),
    (check.rnn_step, wrong(rnn_with, squash=torch.sigmoid), "goes through a sigmoid"),
    (check.rnn_step, wrong(rnn_with, turned=False), "w_hh is not transposed"),
    (check.rnn_step, wrong(rnn_with, old=False), "this remembers nothing"),
    (check.rnn_step, wrong(rnn_with, old=False, biases=1), "this remembers nothing"),
    (check.rnn_step, wrong(rnn_with, biases=1), "b_hh has no effect"),
    (check.rnn_step, lambda X, H, w_ih, w_hh, b_ih, b_hh: X @ w_ih, "on a state of zeros, no bias b_hh: it raised"),
    (check.gru_step, wrong(gru_with, swapped=True), "Z and 1 - Z have changed places"),
    (check.gru_step, wrong(gru_with, after=True), "R is multiplied after the product"),
    (check.gru_step, wrong(gru_with, r=1, z=0), "R and Z have changed places"),
    (check.gru_step, wrong(gru_with, squash=torch.sigmoid), "goes through a sigmoid"),
    (check.gru_step, wrong(gru_with, squash=torch.relu), "on a state of zeros: "),
    (check.gru_step, lambda X, H, W_x, W_h, b: gru_step(X, H, W_x, W_h, b).detach(), "on the gradients"),
    (check.torch_gru_step, wrong(torch_gru_with, order=(1, 0, 2)), "Torch's are r, z, n"),
    (check.torch_gru_step, wrong(torch_gru_with, before=True), "that is the textbook's GRU"),
    (check.torch_gru_step, wrong(torch_gru_with, swapped=True), "Torch's Z keeps the old state"),
    (check.torch_gru_step, wrong(torch_gru_with, order=(1, 0, 2), before=True, swapped=True), "all three bugs"),
    (check.torch_gru_step, wrong(torch_gru_with, before=True, swapped=True), "the order of the blocks is right"),
    (check.torch_gru_step, wrong(torch_gru_with, order=(2, 1, 0)), "on a state of zeros"),
    (check.gru_step, lambda X, H, W_x, W_h, b: gru_with(X, H, W_x, W_h, 0 * b), "the biases b have no effect"),
    (
        check.torch_gru_step,
        lambda x, h, w_ih, w_hh, b_ih, b_hh: (
            torch_gru_with(x, h, w_ih, w_hh, b_ih, b_hh * torch.arange(12).lt(8))
            if len(b_hh) == 12
            else torch_gru_step(x, h, w_ih, w_hh, b_ih, b_hh)
        ),
        "b_hh has no effect on n",
    ),
    (check.lstm_step, wrong(lstm_with, order=(0, 1, 3, 2)), "g and o have changed places"),
    (check.lstm_step, wrong(lstm_with, order=(1, 0, 2, 3)), "i and f have changed places"),
    (check.lstm_step, wrong(lstm_with, forget=False), "the old cell is kept whole"),
    (check.lstm_step, wrong(lstm_with, show=False), "the gate O of (6.11) has no effect"),
    (check.lstm_step, wrong(lstm_with, squash=lambda a: a), "the candidate is not squashed"),
    (check.lstm_step, wrong(lstm_with, squash=torch.sigmoid), "the candidate goes through a sigmoid"),
    (check.lstm_step, lambda *args: lstm_step(*args)[::-1], "(H, C) is wanted"),
    (check.lstm_step, lambda *args: lstm_step(*args)[0], "2 values are wanted, returned as a tuple"),
    (check.lstm_step, lstm_in_place, "the third argument was changed in place"),
]


@pytest.mark.parametrize(("exercise", "answer"), RIGHT)
def test_a_right_answer(exercise, answer):
    assert exercise.examine(answer).message == f"✓ {exercise.name}"


@pytest.mark.parametrize(("exercise", "answer", "told"), WRONG)
def test_a_planted_mistake(exercise, answer, told):
    verdict = exercise.examine(answer)
    assert verdict.status == "wrong" and told in verdict.message
