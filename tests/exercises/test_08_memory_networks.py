"""Chapter 08: right and wrong answers in other styles than the references and the traps."""

from functools import partial

import pytest
import torch

from possm_lite.blocks import memory_network
from possm_lite.blocks.neural_turing_machine import content_weights, interpolate, sharpen, shift, write

from .helpers import assert_verdict, load

exercises = load("08_memory_networks")


def hops_by_hand(q, a, c, n_hops):
    for _ in range(n_hops):
        p = (a * q).sum(1).exp()
        q = q + torch.einsum("n,nd->d", p / p.sum(), c)
    return q


def write_with_outer(memory, w, erase, add):
    return memory * (1 - torch.outer(w, erase)) + torch.outer(w, add)


def content_slot_by_slot(key, memory, beta):
    cosine = torch.stack([torch.cosine_similarity(key, slot, dim=0) for slot in memory])
    e = (beta * cosine).exp()
    return e / e.sum()


def locate_by_loop(content, previous, gate, s, gamma, ring=True):
    w = gate * content + (1 - gate) * previous
    n, moved = len(w), torch.zeros_like(w)
    for i in range(n):
        for step, share in zip((-1, 0, 1), s, strict=True):
            if ring or 0 <= i + step < n:
                moved[(i + step) % n] += share * w[i]
    return moved**gamma / (moved**gamma).sum()


@pytest.mark.parametrize(
    ("name", "answer", "words"),
    [
        ("best_of_four", 3, "✓"),
        ("best_of_four", "three", "expected a number"),
        ("best_of_four", 0.75, "that is a share"),
        ("read_in_hops", hops_by_hand, "✓"),
        ("read_in_hops", lambda *args: memory_network.multi_hop_read(*args)[0], "✓"),
        (
            "read_in_hops",
            lambda q, a, c, n: hops_by_hand(q, a, c, n) - hops_by_hand(q, a, c, n - 1),
            "on one hop through three facts",
        ),
        ("read_in_hops", lambda q, a, c, n: q + torch.softmax(a @ q, 0) @ c, "one hop is made"),
        ("read_in_hops", lambda q, a, c, n: hops_by_hand(q, a, c, n - 1), "one hop is missing"),
        ("erase_then_add", write_with_outer, "✓"),
        ("erase_then_add", write, "✓"),
        ("erase_then_add", lambda m, w, e, a: write_with_outer(m, w, e, 0 * a) + (w * w)[:, None], "w times w"),
        ("erase_then_add", lambda m, w, e, a: write_with_outer(m, w, e * 0 + 1, a), "`erase` has no effect"),
        ("content", content_slot_by_slot, "✓"),
        ("content", content_weights, "✓"),
        ("content", lambda k, m, b: torch.cosine_similarity(m, k[None], dim=1).softmax(0), "beta has no effect"),
        ("content", lambda k, m, b: torch.softmax(b * (m / m.norm()) @ (k / k.norm()), -1), "divided by one length"),
        ("content", lambda k, m, b: b * torch.cosine_similarity(m, k[None], dim=1), "on two slots of length one"),
        ("locate", locate_by_loop, "✓"),
        ("locate", lambda c, p, g, s, gamma: sharpen(shift(interpolate(c, p, g), s), gamma), "✓"),
        ("locate", partial(locate_by_loop, ring=False), "falls off the end"),
        ("locate", lambda c, p, g, s, gamma: locate_by_loop(c, p, g, s[[2, 1, 0]], gamma), "the wrong way"),
        ("locate", lambda c, p, g, s, gamma: locate_by_loop(c, p, g, s[[2, 0, 1]], gamma), "in another order"),
        ("locate", lambda c, p, *rest: locate_by_loop(p, c, *rest), "the gate acts the other way round"),
        ("locate", lambda c, p, g, s, gamma: shift(sharpen(interpolate(c, p, g), gamma), s), "before the shift"),
    ],
)
def test_answer_in_another_style(name, answer, words):
    assert_verdict(getattr(exercises, name), answer, words)
