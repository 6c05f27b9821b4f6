"""Chapter 06: right answers, written anew, get their tick; planted mistakes get the line that names them."""

import math

import pytest
import torch
from torch import nn

from possm_lite.classroom.checks import recurrent_networks as check


def stub(*args):
    """Says what is wanted."""
    ...  # noqa: PIE790


# right answers


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


def reverse_valid(x, lengths):
    return torch.stack([torch.cat([s[:n].flip(0), s[n:]]) for s, n in zip(x, lengths.tolist(), strict=True)])


def clip_gradients(gradients, max_norm):
    norm = math.sqrt(sum((g**2).sum().item() for g in gradients))
    return [g * (max_norm / norm) for g in gradients] if norm > max_norm else [g.clone() for g in gradients]


# mistakes


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


def in_place(gradients, max_norm):
    for g, new in zip(gradients, clip_gradients(gradients, max_norm), strict=True):
        g.copy_(new)
    return gradients


def wrong(function, **choices):
    return lambda *args: function(*args, **choices)


RIGHT = [
    (check.my_gate, 0.966),
    (check.my_gate, math.exp(math.log(0.5) / 20)),
    (check.gru_step, gru_step),
    (check.torch_gru_step, torch_gru_step),
    (check.reverse_valid, reverse_valid),
    (check.clip_gradients, clip_gradients),
    (check.clip_gradients, lambda g, c: tuple(clip_gradients(g, c))),
]
WRONG = [
    (check.my_gate, 0.034, "that is 1 - Z"),
    (check.my_gate, 0.5, "after one bin"),
    (check.my_gate, 0.975, "multiplies what is left"),
    (check.my_gate, 0.9512, "37 %"),
    (check.my_gate, 0.99, "0.99 is not it."),
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
    (check.reverse_valid, lambda x, lengths: x.flip(1), "That is the leak itself"),
    (check.reverse_valid, lambda x, lengths: x.flip(0), "Time is axis 1"),
    (check.reverse_valid, lambda x, lengths: reverse_valid(x, lengths.clamp(max=int(lengths[0]))), "on "),
    (check.reverse_valid, lambda x, lengths: reverse_valid(x, lengths * 0 + lengths.max()), "at the greatest length"),
    (check.reverse_valid, lambda x, lengths: reverse_valid(x, lengths * 0 + lengths[0]), "at the length of the first"),
    (check.reverse_valid, lambda x, lengths: x, "on two sequences of full length"),
    (check.clip_gradients, lambda gs, c: [g * min(1, c / g.norm()) for g in gs], "every tensor is clipped by itself"),
    (check.clip_gradients, lambda gs, c: [g.clip(-c, c) for g in gs], "every number is clipped by itself"),
    (check.clip_gradients, in_place, "the first argument was changed in place"),
    (
        check.clip_gradients,
        lambda gs, c: [g * (c / (1e-12 + math.hypot(*(h.norm() for h in gs)))) for g in gs],
        "longer",
    ),
]


@pytest.mark.parametrize(("exercise", "answer"), RIGHT)
def test_a_right_answer(exercise, answer):
    assert exercise.examine(answer).line == f"✓ {exercise.name}"


@pytest.mark.parametrize(("exercise", "answer", "told"), WRONG)
def test_a_planted_mistake(exercise, answer, told):
    verdict = exercise.examine(answer)
    assert verdict.status == "wrong" and told in verdict.line


@pytest.mark.parametrize("exercise", {id(exercise): exercise for exercise, _ in RIGHT}.values())
def test_a_stub(exercise):
    assert exercise.examine(None if exercise is check.my_gate else stub).status == "missing"
