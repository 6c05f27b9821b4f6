"""Chapter 08: right answers in other styles, and wrong ones that no known mistake explains."""

import pytest
import torch

from possm_lite.blocks import memory_network
from possm_lite.blocks.memory_augmented import MemoryAugmented
from possm_lite.blocks.neural_turing_machine import content_weights, interpolate, sharpen, shift, write

from .helpers import assert_verdict, load

exercises = load("08_memory_networks")


def hops_by_hand(q, a, c, n_hops):
    for _ in range(n_hops):
        p = (a * q).sum(1).exp()
        q = q + torch.einsum("n,nd->d", p / p.sum(), c)
    return q


def content_slot_by_slot(key, memory, beta):
    e = torch.stack([(beta * torch.cosine_similarity(key, slot, dim=0)).exp() for slot in memory])
    return e / e.sum()


def locate_by_loop(content, previous, gate, s, gamma):
    w = gate * content + (1 - gate) * previous
    moved = torch.zeros_like(w)
    for i in range(len(w)):
        for step, share in zip((-1, 0, 1), s, strict=True):
            moved[(i + step) % len(w)] += share * w[i]
    return moved**gamma / (moved**gamma).sum()


def frame_with_lists(*args):
    outputs, memory = MemoryAugmented(*args[:4]).run(*args[4:])
    return torch.stack(list(outputs)).tolist(), memory.tolist()


@pytest.mark.parametrize(
    ("name", "answer", "words"),
    [
        ("best_of_four", torch.tensor([[1.0, -3.0], [2.0, -2.0]]), "✓"),
        ("best_of_four", ["three"] * 4, "expected four numbers"),
        ("read_in_hops", hops_by_hand, "✓"),
        ("read_in_hops", lambda *args: memory_network.multi_hop_read(*args)[0], "✓"),
        ("read_in_hops", lambda q, a, c, n: hops_by_hand(q, a, c, 1), "on two hops through three facts"),
        ("erase_then_add", lambda m, w, e, a: m * (1 - torch.outer(w, e)) + torch.outer(w, a), "✓"),
        ("erase_then_add", write, "✓"),
        ("erase_then_add", lambda m, w, e, a: write(m, w, e.mean().expand_as(e), a), "by unequal shares"),
        ("content", content_slot_by_slot, "✓"),
        ("content", content_weights, "✓"),
        ("locate", locate_by_loop, "✓"),
        ("locate", lambda c, p, g, s, gamma: sharpen(shift(interpolate(c, p, g), s), gamma), "✓"),
        ("run_frame", frame_with_lists, "✓"),
        ("run_frame", lambda *args: MemoryAugmented(*args[:4]).run(*args[4:])[0], "return two things"),
        ("run_frame", lambda *args: (frame_with_lists(*args)[0], args[5]), "on one step that writes: the memory"),
    ],
)
def test_answer_in_another_style(name, answer, words):
    assert_verdict(getattr(exercises, name), answer, words)
