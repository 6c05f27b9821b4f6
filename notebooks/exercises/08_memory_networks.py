"""Exercises of chapter 08: what one hop can do at best, several hops, writing, and the address of a head."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from possm_lite.blocks.memory_network import answer, hop
from possm_lite.blocks.neural_turing_machine import content_weights, interpolate, sharpen, shift, write
from possm_lite.classroom.checks import Case, Check, ValueCheck, normal

_vectors = partial(normal, seed=8)


def _weights(*shape: int) -> Tensor:
    return torch.softmax(2 * _vectors(*shape), -1)


# Exercise 8.1: how many of the four stories. The margins add up to zero, so one of them at least is not positive

best_of_four = ValueCheck(
    "best_of_four",
    expected=3,
    traps={
        "all four would need two positive numbers and two negative ones with the same sum. Look at (8.2) again.": 4,
        "two it gets by saying the same room always. Can the four numbers be chosen so that one more is right?": 2,
        "saying the same room always gets more than one of the four.": 1,
        "that is a share: a whole number of stories is wanted.": 0.75,
    },
)


# Exercise 8.2: several hops


def _in_hops(q: Tensor, a: Tensor, c: Tensor, n_hops: int) -> Tensor:
    return answer(q, a, c, n_hops)[0]


def _replaced(q: Tensor, a: Tensor, c: Tensor, n_hops: int) -> Tensor:
    for _ in range(n_hops):
        q = hop(q, a, c)[0]
    return q


def _added_to_the_first(q: Tensor, a: Tensor, c: Tensor, n_hops: int) -> Tensor:
    now = q
    for _ in range(n_hops):
        now = q + hop(now, a, c)[0]
    return now


def _always_the_first_question(q: Tensor, a: Tensor, c: Tensor, n_hops: int) -> Tensor:
    return q + n_hops * hop(q, a, c)[0]


def _scaled(q: Tensor, a: Tensor, c: Tensor, n_hops: int) -> Tensor:
    for _ in range(n_hops):
        q = q + hop(q / len(q) ** 0.5, a, c)[0]
    return q


def _one_hop_less(q: Tensor, a: Tensor, c: Tensor, n_hops: int) -> Tensor:
    return _in_hops(q, a, c, n_hops - 1) if n_hops > 1 else q.clone()


def _without_softmax(q: Tensor, a: Tensor, c: Tensor, n_hops: int) -> Tensor:
    for _ in range(n_hops):
        q = q + (a @ q) @ c
    return q


def _story(n: int, d: int, n_hops: int) -> Callable[[], tuple]:
    def make() -> tuple:
        x = _vectors(2 * n + 1, d)
        return x[0], x[1 : n + 1], x[n + 1 :], n_hops

    return make


read_in_hops = Check(
    "read_in_hops",
    reference=_in_hops,
    cases=[
        Case("one hop through three facts", _story(3, 2, 1)),
        Case("two hops through three facts", _story(3, 2, 2)),
        Case("three hops through six facts", _story(6, 4, 3)),
    ],
    traps={
        "what was read takes the place of the question. It should be added to it: q + r.": _replaced,
        "the outputs c are never read: you find facts by a and read a as well. There are two memories.": (
            lambda q, a, c, n_hops: _in_hops(q, a, a, n_hops)
        ),
        "the addresses a are never used: you find facts by c and read c as well. There are two memories.": (
            lambda q, a, c, n_hops: _in_hops(q, c, c, n_hops)
        ),
        "the two memories have changed places: a fact is found by its a, and its c is read.": (
            lambda q, a, c, n_hops: _in_hops(q, c, a, n_hops)
        ),
        "every hop adds to the first question, so what earlier hops read is lost. Add to the question as it is now.": (
            _added_to_the_first
        ),
        "every hop asks the first question again, so it reads the same each time. Ask with what q has become.": (
            _always_the_first_question
        ),
        "the scores themselves are used as weights. Where is the softmax?": _without_softmax,
        "the scores are divided by the root of D, as in chapter 02. (8.1) has no such scale.": _scaled,
        "one hop is made, whatever n_hops says. Is the loop there, and does `return` stand behind it?": (
            lambda q, a, c, n_hops: _in_hops(q, a, c, 1)
        ),
        "one hop is missing: n_hops hops are n_hops readings, each with its step (8.3).": _one_hop_less,
    },
)


# Exercise 8.3: the write of the lecture notes, repaired


def _added_before_erased(memory: Tensor, w: Tensor, erase: Tensor, add: Tensor) -> Tensor:
    return (memory + w[:, None] * add) * (1 - w[:, None] * erase)


def _weight_times_weight(memory: Tensor, w: Tensor, erase: Tensor, add: Tensor) -> Tensor:
    return memory * (1 - w[:, None] * erase) + (w * w)[:, None]


def _added_everywhere(memory: Tensor, w: Tensor, erase: Tensor, add: Tensor) -> Tensor:
    return memory * (1 - w[:, None] * erase) + add


def _erased_everywhere(memory: Tensor, w: Tensor, erase: Tensor, add: Tensor) -> Tensor:
    return memory * (1 - erase) + w[:, None] * add


def _never_erased(memory: Tensor, w: Tensor, erase: Tensor, add: Tensor) -> Tensor:
    return memory + w[:, None] * add


def _added_over_the_erased(memory: Tensor, w: Tensor, erase: Tensor, add: Tensor) -> Tensor:
    return memory * (1 - w[:, None] * erase) + w[:, None] * erase * add


def _erased_wholly(memory: Tensor, w: Tensor, erase: Tensor, add: Tensor) -> Tensor:
    return memory * (1 - w[:, None]) + w[:, None] * add


def _slip(weights: Callable[[], Tensor], erase: float, n: int = 4, m: int = 3) -> Callable[[], tuple]:
    return lambda: (_vectors(n, m), weights(), torch.full((m,), erase), _vectors(n + 1, m)[-1])


erase_then_add = Check(
    "erase_then_add",
    reference=write,
    cases=[
        Case("one slot, wiped and written", _slip(lambda: torch.eye(4)[1], 1.0)),
        Case("one slot, added to without wiping", _slip(lambda: torch.eye(4)[1], 0.0)),
        Case("weights spread over all slots", _slip(lambda: _weights(4), 0.6)),
        Case("as many slots as numbers in a slot", _slip(lambda: _weights(3), 0.6, n=3)),
    ],
    traps={
        "the added term is still w times w: what is written does not depend on `add` at all.": _weight_times_weight,
        "you add first and erase then, and so erase part of what you have just written.": _added_before_erased,
        "every slot gets `add` in full, wherever the head stands. Weigh it with w.": _added_everywhere,
        "every slot is erased, wherever the head stands. Weigh the erasing with w.": _erased_everywhere,
        "nothing is erased: the old content of the slot shines through.": _never_erased,
        "`erase` has no effect: a slot is always wiped in full. How much goes is w times e.": _erased_wholly,
        "you add only as much as you erase. Erasing and adding are two separate wishes: the added term is w a.": (
            _added_over_the_erased
        ),
    },
)


# Exercise 8.4: content weights


def _with_scores(score: Callable[[Tensor, Tensor], Tensor]) -> Callable:
    return lambda key, memory, beta: torch.softmax(beta * score(key, memory), 0)


def _cosine(key: Tensor, memory: Tensor) -> Tensor:
    return memory @ key / memory.norm(dim=1) / key.norm()


def _without_beta(key: Tensor, memory: Tensor, beta: Tensor) -> Tensor:
    return torch.softmax(_cosine(key, memory), 0)


def _beta_after(key: Tensor, memory: Tensor, beta: Tensor) -> Tensor:
    return beta * torch.softmax(_cosine(key, memory), 0)


def _divided_by_beta(key: Tensor, memory: Tensor, beta: Tensor) -> Tensor:
    return torch.softmax(_cosine(key, memory) / beta, 0)


def _search(beta: float, n: int = 4, m: int = 3) -> Callable[[], tuple]:
    return lambda: (_vectors(n + 1, m)[-1], 2 * _vectors(n, m), torch.tensor(beta))


content = Check(
    "content",
    reference=content_weights,
    cases=[
        Case("two slots of length one", lambda: (torch.tensor([1.0, 0.0]), torch.eye(2), torch.tensor(2.0))),
        Case("slots of different lengths", _search(1.0)),
        Case("a sharpness beta of 5", _search(5.0)),
        Case("as many slots as numbers in a slot", _search(5.0, n=3)),
    ],
    traps={
        "nothing is divided by the lengths: long slots win. The cosine of (8.6) divides by |k| and by |m|.": (
            _with_scores(lambda key, memory: memory @ key)
        ),
        "the slots are not divided by their lengths: long slots win.": _with_scores(
            lambda key, memory: memory @ key / key.norm()
        ),
        "the key is not divided by its length, so that a long key acts like a larger beta.": _with_scores(
            lambda key, memory: memory @ key / memory.norm(dim=1)
        ),
        "all slots together are divided by one length. Each slot has its own: norm(dim=-1).": _with_scores(
            lambda key, memory: memory @ key / memory.norm() / key.norm()
        ),
        "beta has no effect: cosines differ by 2 at most, so their softmax is nearly flat. Multiply by it.": (
            _without_beta
        ),
        "beta comes after the softmax, and the weights no longer sum to one. It belongs inside.": _beta_after,
        "a larger beta makes your weights flatter: multiply by it, do not divide.": _divided_by_beta,
    },
)


# Exercise 8.5: from the content weights to the weights of the head


def _locate(content: Tensor, previous: Tensor, gate: Tensor, s: Tensor, gamma: Tensor) -> Tensor:
    return sharpen(shift(interpolate(content, previous, gate), s), gamma)


def _sharpened_before_the_shift(content: Tensor, previous: Tensor, gate: Tensor, s: Tensor, gamma: Tensor) -> Tensor:
    return shift(sharpen(interpolate(content, previous, gate), gamma), s)


def _falls_off(content: Tensor, previous: Tensor, gate: Tensor, s: Tensor, gamma: Tensor) -> Tensor:
    w, zero = interpolate(content, previous, gate), content.new_zeros(1)
    moved = s[0] * torch.cat([w[1:], zero]) + s[1] * w + s[2] * torch.cat([zero, w[:-1]])
    return sharpen(moved, gamma)


def _not_normalised(content: Tensor, previous: Tensor, gate: Tensor, s: Tensor, gamma: Tensor) -> Tensor:
    return shift(interpolate(content, previous, gate), s) ** gamma


def _multiplied_by_gamma(content: Tensor, previous: Tensor, gate: Tensor, s: Tensor, gamma: Tensor) -> Tensor:
    return torch.softmax(gamma * shift(interpolate(content, previous, gate), s), 0)


def _head(slot: int, gate: float, s: list[float], gamma: float) -> Callable[[], tuple]:
    """Content weights on slot 2 of six, the head on `slot` before."""

    def make() -> tuple:
        return torch.eye(6)[2], torch.eye(6)[slot], torch.tensor(gate), torch.tensor(s), torch.tensor(gamma)

    return make


def _spread() -> tuple:
    both = _weights(2, 6)
    return both[0], both[1], torch.tensor(0.3), torch.tensor([0.1, 0.2, 0.7]), torch.tensor(3.0)


STAY = [0.0, 1.0, 0.0]

locate = Check(
    "locate",
    reference=_locate,
    cases=[
        Case("a gate of 1: the content alone", _head(0, 1.0, STAY, 1.0), tolerance=1e-4),
        Case("a gate of 0.3", _head(0, 0.3, STAY, 1.0), tolerance=1e-4),
        Case("one step ahead from slot 3", _head(3, 0.0, [0.0, 0.0, 1.0], 1.0), tolerance=1e-4),
        Case("one step ahead from the last slot", _head(5, 0.0, [0.0, 0.2, 0.8], 1.0), tolerance=1e-4),
        Case("one step back from the first slot", _head(0, 0.0, [0.8, 0.2, 0.0], 1.0), tolerance=1e-4),
        Case("a shift that smears, and gamma 3", _head(3, 0.0, [0.2, 0.2, 0.6], 3.0), tolerance=1e-4),
        Case("weights spread over all slots", _spread, tolerance=1e-4),
    ],
    traps={
        "the gate acts the other way round: at g = 1 the content decides, at g = 0 the head stays where it was.": (
            lambda content, previous, gate, s, gamma: _locate(content, previous, 1 - gate, s, gamma)
        ),
        "the head moves the wrong way: the last entry of s is the probability of one slot ahead, from i to i + 1.": (
            lambda content, previous, gate, s, gamma: _locate(content, previous, gate, s.flip(0), gamma)
        ),
        "the head never moves: s has no effect. The shift (8.8) stands between the gate and the sharpening.": (
            lambda content, previous, gate, s, gamma: sharpen(interpolate(content, previous, gate), gamma)
        ),
        "s is read in another order: its entries are one slot back, staying, one slot ahead.": (
            lambda content, previous, gate, s, gamma: _locate(content, previous, gate, s[[2, 0, 1]], gamma)
        ),
        "weight falls off the end of the memory. The slots are a ring: after the last one comes the first.": _falls_off,
        "sharpening comes before the shift, and so the smear of the shift stays. It is the last stage.": (
            _sharpened_before_the_shift
        ),
        "the powers are not divided by their sum: weights must sum to one again.": _not_normalised,
        "gamma has no effect: raise the moved weights to the power gamma, then divide by the sum.": (
            lambda content, previous, gate, s, gamma: shift(interpolate(content, previous, gate), s)
        ),
        "gamma is a power of the weights, not a factor in a softmax.": _multiplied_by_gamma,
    },
)
