"""Chapter 08: right and wrong answers in other styles than the references and the traps."""

from functools import partial

import numpy as np
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


def locate_shifting(what):
    """A right answer but for what is shifted: the content weights alone, or the old place alone."""

    def locate(content, previous, gate, s, gamma):
        if what == "content":
            content = shift(content, s)
        else:
            previous = shift(previous, s)
        return sharpen(interpolate(content, previous, gate), gamma)

    return locate


def frame_with_arrays(controller, write, read, readout, inputs, memory, h, r):
    outputs = []
    for x in inputs:
        h, query, value = controller(x, r, h)
        memory = write(memory, query, value)
        r = read(memory, query)
        outputs.append(readout(h, r))
    return torch.stack(outputs), memory


def frame_with_lists(*args):
    outputs, memory = frame_with_arrays(*args)
    return outputs.tolist(), memory.tolist()


def frame_of_the_package(*args):
    return MemoryAugmented(*args[:4]).run(*args[4:])


def frame_that_reads_first(controller, write, read, readout, inputs, memory, h, r):
    outputs = []
    for x in inputs:
        h, query, value = controller(x, r, h)
        r, memory = read(memory, query), write(memory, query, value)
        outputs.append(readout(h, r))
    return outputs, memory


class TableMemory:
    """A right answer with tables that are there from the start; `age` counts since the last use."""

    def __init__(self, slots, width, beta):
        self.keys, self.values = None, torch.zeros(slots, width)
        self.age, self.slots, self.beta = torch.full((slots,), torch.inf), slots, beta

    @property
    def filled(self):
        return self.age.isfinite()

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
        if not self.filled.any():
            return self.values[0]
        w = torch.softmax((self.beta * self.cosine(cue)).masked_fill(~self.filled, -torch.inf), 0)
        self.use(w.argmax())
        return (w[:, None] * self.values).sum(0)


class IgnoresSigns(TableMemory):
    def write(self, key, value):
        near = self.keys is not None and self.cosine(key).min() < -0.9
        super().write(self.keys[self.cosine(key).argmin()] if near else key, value)


class WritesInPlace(TableMemory):
    """What was read before a write has no gradient any more."""

    def write(self, key, value):
        values = self.values
        super().write(key, value)
        slot = self.age.argmin()
        values[slot] = value
        self.values = values

    def read(self, cue):
        if not self.filled.any():
            return self.values[0]
        w = torch.softmax((self.beta * self.cosine(cue)).masked_fill(~self.filled, -torch.inf), 0)
        self.use(w.argmax())
        return w @ self.values


class ReadsEmptySlots(TableMemory):
    def read(self, cue):
        if self.keys is None:
            return self.values[0]
        w = torch.softmax(self.beta * self.cosine(cue), 0)
        self.use(w.argmax())
        return w @ self.values


class ForgetsToUse(TableMemory):
    def read(self, cue):
        age = self.age.clone()
        result = super().read(cue)
        self.age = age
        return result


class LruMemory:
    """A right answer: a list of pairs, the one not used for the longest time first. `same` may be overridden."""

    def __init__(self, slots, width, beta):
        self.slots, self.width, self.beta, self.pairs = slots, width, beta, []

    def same(self, key, other):
        return torch.cosine_similarity(key, other, dim=0) > 0.9

    def write(self, key, value):
        old = [i for i, (other, _) in enumerate(self.pairs) if self.same(key, other)]
        if old or len(self.pairs) == self.slots:
            self.pairs.pop(old[0] if old else 0)
        self.pairs.append((key, value))

    def read(self, cue):
        if not self.pairs:
            return torch.zeros(self.width)
        w = torch.stack([torch.cosine_similarity(cue, key, dim=0) for key, _ in self.pairs]).mul(self.beta).softmax(0)
        result = sum(share * value for share, (_, value) in zip(w, self.pairs, strict=True))
        self.pairs.append(self.pairs.pop(int(w.argmax())))
        return result


class LooseKeys(LruMemory):
    def same(self, key, other):
        return torch.cosine_similarity(key, other, dim=0) > 0.5


class EqualKeys(LruMemory):
    def same(self, key, other):
        return torch.equal(key, other)


class KeepsOldKey(LruMemory):
    def write(self, key, value):
        key = next((other for other, _ in self.pairs if self.same(key, other)), key)
        super().write(key, value)


class RewritingIsNoUse(LruMemory):
    def write(self, key, value):
        for i, (other, _) in enumerate(self.pairs):
            if self.same(key, other):
                self.pairs[i] = key, value
                return
        super().write(key, value)


class FullFirst(LruMemory):
    def write(self, key, value):
        if len(self.pairs) < self.slots:
            super().write(key, value)
        else:
            self.pairs = [*self.pairs[1:], (key, value)]


class MakesRoomFirst(LruMemory):
    def write(self, key, value):
        if len(self.pairs) == self.slots:
            self.pairs.pop(0)
        super().write(key, value)


class ReturnsArrays(LruMemory):
    def read(self, cue):
        return super().read(cue).detach().numpy()


class AsLongAsTheCue(LruMemory):
    def read(self, cue):
        return super().read(cue) if self.pairs else torch.zeros_like(cue)


class NoWrite:
    def __init__(self, slots, width, beta):
        self.width = width

    def read(self, cue):
        return torch.zeros(self.width)


class NoRead(TableMemory):
    def read(self, cue):
        return None if self.filled.any() else self.values[0]


class Detached(TableMemory):
    def read(self, cue):
        return super().read(cue).detach()


@pytest.mark.parametrize(
    ("name", "answer", "words"),
    [
        ("best_of_four", (3, 0, -2, 1), "✓"),
        ("best_of_four", np.array([-1, 5, 2, 0]), "✓"),
        ("best_of_four", torch.tensor([[1.0, -3.0], [2.0, -2.0]]), "✓"),
        ("best_of_four", [1, 1, 1, 1], "2 of 4 stories are right, and more can be had"),
        ("best_of_four", (0, 0, 0, 0), "undecided"),
        ("best_of_four", 3, "expected four numbers"),
        ("best_of_four", ["three"] * 4, "expected four numbers"),
        ("best_of_four", (1, 2, 3, float("nan")), "expected four numbers"),
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
        ("erase_then_add", lambda m, w, e, a: write(m, w, e.mean().expand_as(e), a), "by unequal shares"),
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
        ("locate", locate_shifting("content"), "only the content weights are shifted"),
        ("locate", locate_shifting("previous"), "only the old place is shifted"),
        ("locate", lambda c, p, g, s, gamma: shift(sharpen(interpolate(c, p, g), gamma), s), "before the shift"),
        ("run_frame", frame_with_arrays, "✓"),
        ("run_frame", frame_of_the_package, "✓"),
        ("run_frame", frame_with_lists, "✓"),
        ("run_frame", frame_that_reads_first, "you read before you write"),
        ("run_frame", lambda *args: frame_with_arrays(*args)[0], "return two things"),
        ("run_frame", lambda *args: (frame_with_arrays(*args)[0], args[5]), "on the memory after four steps"),
        ("ContentMemory", WritesInPlace, "the gradients, with writing after reading"),
        ("ContentMemory", IgnoresSigns, "on two opposite keys"),
        ("ContentMemory", TableMemory, "✓"),
        ("ContentMemory", ReadsEmptySlots, "empty slots take a share"),
        ("ContentMemory", ForgetsToUse, "reading does not count as use"),
        ("ContentMemory", NoRead, "`read` is not there yet"),
        ("ContentMemory", Detached, "no gradient passes"),
        ("ContentMemory", LruMemory, "✓"),
        ("ContentMemory", LooseKeys, "with the cosine 0.81 are taken for the same"),
        ("ContentMemory", EqualKeys, "gets a second slot"),
        ("ContentMemory", KeepsOldKey, "replaces its value only"),
        ("ContentMemory", RewritingIsNoUse, "once more does not count as use"),
        ("ContentMemory", FullFirst, "gives up the oldest pair although"),
        ("ContentMemory", MakesRoomFirst, "on a full memory, and then a key like the newer one"),
        ("ContentMemory", ReturnsArrays, "no gradient passes"),
        ("ContentMemory", AsLongAsTheCue, "has the shape (4,), expected (3,)"),
        ("ContentMemory", NoWrite, "has no attribute 'write'"),
    ],
)
def test_answer_in_another_style(name, answer, words):
    assert_verdict(getattr(exercises, name), answer, words)


class Stub:
    def __init__(self, slots, width, beta): ...
    def write(self, key, value): ...
    def read(self, cue): ...


def test_class_as_it_is_in_the_chapter_counts_as_missing():
    assert exercises.ContentMemory.examine(Stub).status == "missing"
