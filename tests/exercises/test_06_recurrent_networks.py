"""Chapter 06, without the cells: right answers, written anew, get their tick; planted mistakes are named."""

import math

import pytest
import torch

from .helpers import load

check = load("06_recurrent_networks")


# right answers


def reverse_valid(x, lengths):
    return torch.stack([torch.cat([s[:n].flip(0), s[n:]]) for s, n in zip(x, lengths.tolist(), strict=True)])


def clip_gradients(gradients, max_norm):
    norm = math.sqrt(sum((g**2).sum().item() for g in gradients))
    return [g * (max_norm / norm) for g in gradients] if norm > max_norm else [g.clone() for g in gradients]


# mistakes


def first_of_the_turned(x, lengths):
    return torch.stack([torch.cat([s.flip(0)[:n], s[n:]]) for s, n in zip(x, lengths.tolist(), strict=True)])


def in_place(gradients, max_norm):
    for g, new in zip(gradients, clip_gradients(gradients, max_norm), strict=True):
        g.copy_(new)
    return gradients


RIGHT = [
    (check.my_gate, 0.966),
    (check.my_gate, math.exp(math.log(0.5) / 20)),
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
    (check.reverse_valid, lambda x, lengths: x.flip(1), "That is the leak itself"),
    (check.reverse_valid, lambda x, lengths: x.flip(0), "Time is axis 1"),
    (check.reverse_valid, lambda x, lengths: reverse_valid(x, lengths.clamp(max=int(lengths[0]))), "on "),
    (check.reverse_valid, lambda x, lengths: reverse_valid(x, lengths * 0 + lengths.max()), "at the greatest length"),
    (check.reverse_valid, lambda x, lengths: reverse_valid(x, lengths * 0 + lengths[0]), "at the length of the first"),
    (check.reverse_valid, first_of_the_turned, "so the padding comes first"),
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
    assert exercise.examine(answer).message == f"✓ {exercise.name}"


@pytest.mark.parametrize(("exercise", "answer", "told"), WRONG)
def test_a_planted_mistake(exercise, answer, told):
    verdict = exercise.examine(answer)
    assert verdict.status == "wrong" and told in verdict.message
