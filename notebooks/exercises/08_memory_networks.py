"""Exercises of chapter 08: what one hop can do at best, several hops, writing, and the address of a head."""

from functools import partial

import torch

from possm_lite.classroom.checks import Case, Check, ValueCheck, normal

_normal, _softmax = partial(normal, seed=8), partial(torch.softmax, dim=0)


def _weights(*shape):
    return torch.softmax(2 * _normal(*shape), -1)


# Exercise 8.1: how many of the four stories. The margins add up to zero, so one of them at least is not positive

best_of_four = ValueCheck(
    "best_of_four",
    expected=3,
    traps={
        "all four would need two positive numbers and two negative ones with the same sum. Look at (8.2) again.": 4,
        "two it gets by saying the same room always. Can the four numbers be chosen so that one more is right?": 2,
        "saying the same room always gets more than one of the four.": 1,
        "that is a share. How many stories is it, as a whole number?": 0.75,
    },
)


# Exercise 8.2: several hops


def _read_in_hops(q, a, c, n_hops, *, query=lambda first, q: q, normalize=_softmax, update=lambda first, q, r: q + r):
    first = q
    for _ in range(n_hops):
        q = update(first, q, normalize(a @ query(first, q)) @ c)
    return q


def _story(n, d, n_hops):
    x = _normal(2 * n + 1, d)
    return x[0], x[1 : n + 1], x[n + 1 :], n_hops


read_in_hops = Check(
    "read_in_hops",
    reference=_read_in_hops,
    cases=[
        Case("one hop through three facts", partial(_story, 3, 2, 1)),
        Case("two hops through three facts", partial(_story, 3, 2, 2)),
        Case("three hops through six facts", partial(_story, 6, 4, 3)),
    ],
    traps={
        "what was read replaces the question. It should be added to it: q + r.": (
            partial(_read_in_hops, update=lambda first, q, r: r)
        ),
        "the outputs c are never read: you find facts by a and read a as well. There are two memories.": (
            lambda q, a, c, n_hops: _read_in_hops(q, a, a, n_hops)
        ),
        "the addresses a are never used: you find facts by c and read c as well. There are two memories.": (
            lambda q, a, c, n_hops: _read_in_hops(q, c, c, n_hops)
        ),
        "the two memories are swapped: a fact is found by its a, and its c is read.": (
            lambda q, a, c, n_hops: _read_in_hops(q, c, a, n_hops)
        ),
        "every hop adds to the first question, so what earlier hops read is lost. Add to the question as it is now.": (
            partial(_read_in_hops, update=lambda first, q, r: first + r)
        ),
        "every hop asks the first question again, so it reads the same each time. Ask with what q has become.": (
            partial(_read_in_hops, query=lambda first, q: first)
        ),
        "the scores themselves are used as weights. Where is the softmax?": (
            partial(_read_in_hops, normalize=lambda scores: scores)
        ),
        "the scores are divided by the root of D, as in chapter 02. (8.1) has no such scale.": (
            lambda q, a, c, n_hops: _read_in_hops(q, a / len(q) ** 0.5, c, n_hops)
        ),
        "one hop is made, whatever n_hops says. Is the loop there, and does `return` come after it?": (
            lambda q, a, c, n_hops: _read_in_hops(q, a, c, 1)
        ),
        "one hop is missing: n_hops hops are n_hops readings, each with its step (8.3).": (
            lambda q, a, c, n_hops: _read_in_hops(q, a, c, n_hops - 1)
        ),
    },
)


# Exercise 8.3: repair the write


def _erase_then_add(memory, w, erase, add, *, erased=lambda w, e: w * e, added=lambda w, e, a: w * a):
    w = w[:, None]  # (N, 1)
    return memory * (1 - erased(w, erase)) + added(w, erase, add)


def _write(weights, erase, n=4, m=3):
    return _normal(n, m), weights(n), torch.full((m,), erase), _normal(n + 1, m)[-1]


def _slot_1(n):
    return torch.eye(n)[1]


erase_then_add = Check(
    "erase_then_add",
    reference=_erase_then_add,
    cases=[
        Case("one slot, wiped and written", partial(_write, _slot_1, 1.0)),
        Case("one slot, added to without wiping", partial(_write, _slot_1, 0.0)),
        Case("weights spread over all slots", partial(_write, _weights, 0.6)),
        Case("as many slots as numbers in a slot", partial(_write, _weights, 0.6, n=3)),
    ],
    traps={
        "the added term is still w times w: what is written does not depend on `add` at all.": (
            partial(_erase_then_add, added=lambda w, e, a: w * w)
        ),
        "you add first and then erase, and so erase part of what you have just written.": (
            partial(_erase_then_add, added=lambda w, e, a: w * a * (1 - w * e))
        ),
        "every slot gets all of `add`, wherever the head is. Weigh it with w.": (
            partial(_erase_then_add, added=lambda w, e, a: a)
        ),
        "every slot is erased, wherever the head is. Weigh the erasing with w.": (
            partial(_erase_then_add, erased=lambda w, e: e)
        ),
        "nothing is erased: the old content of the slot shines through.": (
            partial(_erase_then_add, erased=lambda w, e: 0 * w)
        ),
        "`erase` has no effect: a slot is always wiped in full. How much goes is w times e.": (
            partial(_erase_then_add, erased=lambda w, e: w)
        ),
        "you add only as much as you erase. Erasing and adding are two separate wishes: the added term is w a.": (
            partial(_erase_then_add, added=lambda w, e, a: w * e * a)
        ),
    },
)


# Exercise 8.4: find by content


def _cosine(key, memory):
    return memory @ key / memory.norm(dim=1) / key.norm()


def _content(key, memory, beta, *, score=_cosine, weigh=lambda beta, score: _softmax(beta * score)):
    return weigh(beta, score(key, memory))


def _search(beta, n=4, m=3):
    return _normal(n + 1, m)[-1], 2 * _normal(n, m), torch.tensor(beta)


content = Check(
    "content",
    reference=_content,
    cases=[
        Case("two slots of length one", lambda: (torch.tensor([1.0, 0.0]), torch.eye(2), torch.tensor(2.0))),
        Case("slots of different lengths", partial(_search, 1.0)),
        Case("a sharpness beta of 5", partial(_search, 5.0)),
        Case("as many slots as numbers in a slot", partial(_search, 5.0, n=3)),
    ],
    traps={
        "nothing is divided by the lengths: long slots win. The cosine of (8.6) divides by |k| and by |m|.": (
            partial(_content, score=lambda key, memory: memory @ key)
        ),
        "the slots are not divided by their lengths: long slots win.": (
            partial(_content, score=lambda key, memory: memory @ key / key.norm())
        ),
        "the key is not divided by its length, so that a long key acts like a larger beta.": (
            partial(_content, score=lambda key, memory: memory @ key / memory.norm(dim=1))
        ),
        "all slots together are divided by one length. Each slot has its own: norm(dim=-1).": (
            partial(_content, score=lambda key, memory: memory @ key / memory.norm() / key.norm())
        ),
        "beta has no effect: cosines differ by 2 at most, so their softmax is nearly flat. Multiply by it.": (
            partial(_content, weigh=lambda beta, score: _softmax(score))
        ),
        "beta comes after the softmax, and the weights no longer sum to one. It belongs inside.": (
            partial(_content, weigh=lambda beta, score: beta * _softmax(score))
        ),
        "a larger beta makes your weights flatter: multiply by it, do not divide.": (
            partial(_content, weigh=lambda beta, score: _softmax(score / beta))
        ),
    },
)


# Exercise 8.5: from the content weights to the weights of the head


def _shift(w, s):
    return s[0] * w.roll(-1) + s[1] * w + s[2] * w.roll(1)


def _sharpen(w, gamma):
    return w**gamma / (w**gamma).sum()


def _locate(content, previous, gate, s, gamma, *, shift=_shift, sharpen=_sharpen):
    return sharpen(shift(gate * content + (1 - gate) * previous, s), gamma)


def _sharpen_before_shift(content, previous, gate, s, gamma):
    return _shift(_locate(content, previous, gate, s, gamma, shift=lambda w, s: w), s)


def _shift_off_the_end(w, s):
    padded = torch.nn.functional.pad(w, (1, 1))
    return s[0] * padded[2:] + s[1] * w + s[2] * padded[:-2]


def _head(slot, gate, s, gamma):
    """Content weights on slot 2 of six, the head on `slot` before."""
    return torch.eye(6)[2], torch.eye(6)[slot], torch.tensor(gate), torch.tensor(s), torch.tensor(gamma)


_case = partial(Case, tolerance=1e-4)
_STAY, _AHEAD = [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]

locate = Check(
    "locate",
    reference=_locate,
    cases=[
        _case("a gate of 1: the content alone", partial(_head, 0, 1.0, _STAY, 1.0)),
        _case("a gate of 0.3", partial(_head, 0, 0.3, _STAY, 1.0)),
        _case("one step ahead from slot 3", partial(_head, 3, 0.0, _AHEAD, 1.0)),
        _case("one step ahead from the last slot", partial(_head, 5, 0.0, [0.0, 0.2, 0.8], 1.0)),
        _case("one step back from the first slot", partial(_head, 0, 0.0, [0.8, 0.2, 0.0], 1.0)),
        _case("a shift that smears, and gamma 3", partial(_head, 3, 0.0, [0.2, 0.2, 0.6], 3.0)),
        _case("weights spread over all slots", lambda: (*_weights(2, 6), *_head(0, 0.3, [0.1, 0.2, 0.7], 3.0)[2:])),
    ],
    traps={
        "the gate acts the other way round: at g = 1 the content decides, at g = 0 the head stays where it was.": (
            lambda content, previous, gate, s, gamma: _locate(content, previous, 1 - gate, s, gamma)
        ),
        "the head moves the wrong way: the last entry of s is the probability of one slot ahead, from i to i + 1.": (
            partial(_locate, shift=lambda w, s: _shift(w, s.flip(0)))
        ),
        "the head never moves: s has no effect. The shift (8.8) comes between the gate and the sharpening.": (
            partial(_locate, shift=lambda w, s: w)
        ),
        "s is read in another order: its entries are one slot back, staying, one slot ahead.": (
            partial(_locate, shift=lambda w, s: _shift(w, s[[2, 0, 1]]))
        ),
        "weight falls off the end of the memory. The slots are a ring: after the last one comes the first.": (
            partial(_locate, shift=_shift_off_the_end)
        ),
        "sharpening comes before the shift, and so the smear of the shift stays. It is the last stage.": (
            _sharpen_before_shift
        ),
        "the powers are not divided by their sum: weights must sum to one again.": (
            partial(_locate, sharpen=lambda w, gamma: w**gamma)
        ),
        "gamma has no effect: raise the moved weights to the power gamma, then divide by the sum.": (
            partial(_locate, sharpen=lambda w, gamma: w)
        ),
        "gamma is a power of the weights, not a factor in a softmax.": (
            partial(_locate, sharpen=lambda w, gamma: _softmax(gamma * w))
        ),
    },
)
