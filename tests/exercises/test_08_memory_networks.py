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


class TableMemory:
    """A right answer with tables that are there from the start; `age` counts since the last use."""

    def __init__(self, slots, width, beta):
        self.keys, self.values = None, torch.zeros(slots, width)
        self.age, self.slots, self.beta = torch.full((slots,), torch.inf), slots, beta

    def cosine(self, cue):
        return (self.keys @ cue) / (self.keys.norm(dim=1) * cue.norm()).clamp(min=1e-9)

    def use(self, slot):
        self.age += 1
        self.age[slot] = 0

    def write(self, key, value):
        if self.keys is None:
            self.keys = torch.zeros(self.slots, len(key))
        cosine = self.cosine(key)
        slot = cosine.argmax() if cosine.max() > 0.9 else self.age.argmax()
        self.keys, self.values = self.keys.clone(), self.values.clone()
        self.keys[slot], self.values[slot] = key, value
        self.use(slot)

    def read(self, cue):
        if self.keys is None:
            return self.values[0]
        w = torch.softmax((self.beta * self.cosine(cue)).masked_fill(self.age.isinf(), -torch.inf), 0)
        self.use(w.argmax())
        return (w[:, None] * self.values).sum(0)


class IgnoresSigns(TableMemory):
    def write(self, key, value):
        near = self.keys is not None and self.cosine(key).min() < -0.9
        super().write(self.keys[self.cosine(key).argmin()] if near else key, value)


class Detached(TableMemory):
    def read(self, cue):
        return super().read(cue).detach()


class Stub:
    def __init__(self, slots, width, beta): ...
    def write(self, key, value): ...
    def read(self, cue): ...


@pytest.mark.parametrize(
    ("name", "answer", "words"),
    [
        ("best_of_four", torch.tensor([[1.0, -3.0], [2.0, -2.0]]), "✓"),
        ("best_of_four", ["three"] * 4, "expected four numbers"),
        ("best_of_four", (1, 2, 3, float("nan")), "expected four numbers"),
        ("read_in_hops", hops_by_hand, "✓"),
        ("read_in_hops", lambda *args: memory_network.multi_hop_read(*args)[0], "✓"),
        ("read_in_hops", lambda q, a, c, n: hops_by_hand(q, a, c, 1), "on two hops through three facts"),
        ("erase_then_add", lambda m, w, e, a: m * (1 - torch.outer(w, e)) + torch.outer(w, a), "✓"),
        ("erase_then_add", write, "✓"),
        ("erase_then_add", lambda m, w, e, a: write(m, w, e.mean().expand_as(e), a), "by unequal shares"),
        ("content", content_slot_by_slot, "✓"),
        ("content", content_weights, "✓"),
        ("content", lambda k, m, b: b * torch.cosine_similarity(m, k[None], dim=1), "on two slots of length one"),
        ("locate", locate_by_loop, "✓"),
        ("locate", lambda c, p, g, s, gamma: sharpen(shift(interpolate(c, p, g), s), gamma), "✓"),
        ("locate", lambda c, p, g, s, gamma: locate_by_loop(c, p, g, s[[2, 0, 1]], gamma), "on a gate of 1"),
        ("run_frame", frame_with_lists, "✓"),
        ("run_frame", lambda *args: MemoryAugmented(*args[:4]).run(*args[4:])[0], "return two things"),
        ("run_frame", lambda *args: (frame_with_lists(*args)[0], args[5]), "on one step that writes: the memory"),
        ("ContentMemory", TableMemory, "✓"),
        ("ContentMemory", IgnoresSigns, "on two opposite keys"),
        ("ContentMemory", Detached, "no gradient flows back"),
    ],
)
def test_answer_in_another_style(name, answer, words):
    assert_verdict(getattr(exercises, name), answer, words)


def test_class_as_it_is_in_the_chapter_counts_as_missing():
    assert exercises.ContentMemory.examine(Stub).status == "missing"
