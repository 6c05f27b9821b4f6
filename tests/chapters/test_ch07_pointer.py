"""Pointer network: the formula by loops, and what it may point at. Chapter 07 asserts that it learns to sort."""

from itertools import permutations, product

import pytest
import torch
from torch.testing import assert_close

from possm_course.chapters.ch07.pointer import PointerNetwork, pointer_log_probs
from possm_lite.nn.attention import length_mask


def normal(*shape):
    return torch.randn(*shape, dtype=torch.float64, requires_grad=True)


def test_log_probs_match_loops():
    x, h, W, U, v = normal(2, 4, 3), normal(2, 5, 6), normal(7, 3), normal(7, 6), normal(7)
    rows = []
    for b in range(2):
        for m in range(5):
            scores = torch.stack([v @ torch.tanh(W @ x[b, n] + U @ h[b, m]) for n in range(4)])
            rows.append((scores.exp() / scores.exp().sum()).log())
    loops, ours = torch.stack(rows).reshape(2, 5, 4), pointer_log_probs(x, h, W, U, v)
    assert_close(ours, loops)
    wanted = torch.randn_like(ours)
    assert_close(*(torch.autograd.grad((p * wanted).sum(), (x, h, W, U, v)) for p in (ours, loops)))


def make(repeats=False, hidden=16, seed=5):
    torch.manual_seed(seed)
    return PointerNetwork(1, hidden, repeats=repeats)


LENGTHS = torch.tensor([6, 3, 1])


@pytest.mark.parametrize("seed", range(3))
def test_never_points_at_padding_or_chosen_items(seed):
    model, items = make(seed=seed), torch.randn(3, 6, 1)
    items[1, 3:], items[2, 1:] = 100.0, -100.0  # in the padding
    indices = model.point(items, LENGTHS)
    for row, n in zip(indices.tolist(), LENGTHS.tolist(), strict=True):
        assert sorted(row[:n]) == list(range(n))
        assert row[n:] == [-1] * (6 - n)


def test_repeats_are_allowed_but_not_padding():
    model, items = make(repeats=True), torch.randn(3, 6, 1)
    indices = model.point(items, LENGTHS, steps=9)
    assert indices.shape == (3, 9) and (indices >= 0).all()
    assert (indices < LENGTHS[:, None]).all()
    assert len(set(indices[0].tolist())) < 9


@pytest.mark.parametrize("repeats", [False, True])
def test_teacher_forcing_reproduces_the_free_run(repeats):
    model, items = make(repeats), torch.randn(3, 6, 1)
    indices = model.point(items, LENGTHS)
    log_p = model(items, LENGTHS, indices.clamp(min=0))
    real = length_mask(LENGTHS, 6)
    assert (log_p.argmax(-1)[real] == indices[real]).all()
    assert (log_p[:, :, 3:][1] == -torch.inf).all()  # padding of the second row


def test_padding_changes_nothing():
    model, items = make(), torch.randn(3, 6, 1)
    choices = model.point(items, LENGTHS).clamp(min=0)
    alone = model(items[1:2, :3], LENGTHS[1:2], choices[1:2, :3])
    assert_close(alone, model(items, LENGTHS, choices)[1:2, :3, :3])


@pytest.mark.parametrize("repeats", [False, True])
@torch.no_grad()
def test_all_orders_together_have_probability_one(repeats):
    """(7.12) is exact: without repeats over the 24 orders of four items, with them over all 256 answers."""
    model, items = make(repeats), torch.randn(1, 4, 1)
    answers = torch.tensor([*(product(range(4), repeat=4) if repeats else permutations(range(4)))])
    log_p = model(items.expand(len(answers), -1, -1), torch.full((len(answers),), 4), answers)
    assert_close(log_p.gather(-1, answers[..., None]).sum((1, 2)).exp().sum(), torch.tensor(1.0))
    assert all(weight.abs().max() < 1 for weight in PointerNetwork(1).parameters())  # none is preferred at first
