"""Exercises of chapter 08: right answers written another way pass, and planted mistakes are told by name."""

import pytest
import torch

from .helpers import load

check = load("08_memory_networks")


def read_in_hops(q, a, c, n_hops):
    for _ in range(n_hops):
        p = (a * q).sum(1).exp()
        q = q + torch.einsum("n,nd->d", p / p.sum(), c)
    return q


def erase_then_add(memory, w, erase, add):
    kept = memory * (1 - torch.outer(w, erase))
    return kept + torch.outer(w, add)


def content(key, memory, beta):
    cosine = torch.stack([torch.cosine_similarity(key, slot, dim=0) for slot in memory])
    e = (beta * cosine).exp()
    return e / e.sum()


def locate(content, previous, gate, s, gamma):
    w = gate * content + (1 - gate) * previous
    n, moved = len(w), torch.zeros_like(w)
    for i in range(n):
        moved[i] = s[0] * w[(i + 1) % n] + s[1] * w[i] + s[2] * w[i - 1]
    return moved**gamma / (moved**gamma).sum()


RIGHT = [read_in_hops, erase_then_add, content, locate]


@pytest.mark.parametrize("answer", RIGHT, ids=lambda f: f.__name__)
def test_the_right_answer_passes(answer):
    exercise = getattr(check, answer.__name__)
    assert exercise.examine(answer).message == f"✓ {answer.__name__}"


def replaces_the_question(q, a, c, n_hops):
    for _ in range(n_hops):
        q = torch.softmax(a @ q, 0) @ c
    return q


def reads_addresses(q, a, c, n_hops):
    for _ in range(n_hops):
        q = q + torch.softmax(a @ q, 0) @ a
    return q


def asks_the_first_question(q, a, c, n_hops):
    p = torch.softmax(a @ q, 0)
    for _ in range(n_hops):
        q = q + p @ c
    return q


def one_hop_only(q, a, c, n_hops):
    return q + torch.softmax(a @ q, 0) @ c


def divides_by_root_d(q, a, c, n_hops):
    for _ in range(n_hops):
        q = q + torch.softmax(a @ q / len(q) ** 0.5, 0) @ c
    return q


def one_hop_less(q, a, c, n_hops):
    for _ in range(n_hops - 1):
        q = q + torch.softmax(a @ q, 0) @ c
    return q


def writes_w_times_w(memory, w, erase, add):
    return memory * (1 - w[:, None] * erase) + w[:, None] * w[:, None]


def adds_first(memory, w, erase, add):
    return (memory + torch.outer(w, add)) * (1 - torch.outer(w, erase))


def erases_all(memory, w, erase, add):
    return memory * (1 - erase) + torch.outer(w, add)


def wipes_in_full(memory, w, erase, add):
    return memory * (1 - w[:, None]) + torch.outer(w, add)


def writes_in_place(memory, w, erase, add):
    memory *= 1 - torch.outer(w, erase)
    memory += torch.outer(w, add)
    return memory


def no_lengths(key, memory, beta):
    return torch.softmax(beta * (memory @ key), -1)


def no_beta(key, memory, beta):
    return torch.softmax(torch.cosine_similarity(memory, key[None], dim=1), -1)


def one_length_for_all(key, memory, beta):
    return torch.softmax(beta * (memory / memory.norm()) @ (key / key.norm()), -1)


def no_softmax(key, memory, beta):
    return beta * torch.cosine_similarity(memory, key[None], dim=1)


def with_stages(*stages):
    def student(content, previous, gate, s, gamma):
        w = gate * content + (1 - gate) * previous
        for stage in stages:
            w = stage(w, s, gamma)
        return w

    return student


def ahead(w, s, gamma):
    return s[0] * w.roll(-1) + s[1] * w + s[2] * w.roll(1)


def back(w, s, gamma):
    return s[0] * w.roll(1) + s[1] * w + s[2] * w.roll(-1)


def off_the_end(w, s, gamma):
    w = torch.nn.functional.pad(w, (1, 1))
    return s[0] * w[2:] + s[1] * w[1:-1] + s[2] * w[:-2]


def staying_first(w, s, gamma):
    return s[0] * w + s[1] * w.roll(1) + s[2] * w.roll(-1)


def sharp(w, s, gamma):
    return w**gamma / (w**gamma).sum()


def swapped_gate(content, previous, gate, s, gamma):
    return with_stages(ahead, sharp)(previous, content, gate, s, gamma)


@pytest.mark.parametrize(
    ("name", "student", "told"),
    [
        ("read_in_hops", replaces_the_question, "takes the place of the question"),
        ("read_in_hops", reads_addresses, "the outputs c are never read"),
        ("read_in_hops", asks_the_first_question, "asks the first question again"),
        ("read_in_hops", one_hop_only, "one hop is made, whatever n_hops says"),
        ("read_in_hops", one_hop_less, "one hop is missing"),
        ("read_in_hops", divides_by_root_d, "no such scale"),
        ("erase_then_add", writes_w_times_w, "w times w"),
        ("erase_then_add", adds_first, "add first and erase then"),
        ("erase_then_add", erases_all, "every slot is erased"),
        ("erase_then_add", wipes_in_full, "`erase` has no effect"),
        ("erase_then_add", writes_in_place, "the first argument was changed in place"),
        ("content", no_lengths, "long slots win"),
        ("content", no_beta, "beta has no effect"),
        ("content", one_length_for_all, "divided by one length"),
        ("content", no_softmax, "on two slots of length one"),
        ("locate", with_stages(sharp, ahead), "sharpening comes before the shift"),
        ("locate", with_stages(back, sharp), "the wrong way"),
        ("locate", with_stages(off_the_end, sharp), "falls off the end"),
        ("locate", with_stages(staying_first, sharp), "in another order"),
        ("locate", with_stages(sharp), "the head never moves"),
        ("locate", with_stages(ahead), "gamma has no effect"),
        ("locate", swapped_gate, "the gate acts the other way round"),
    ],
)
def test_a_planted_mistake_is_told_by_name(name, student, told):
    verdict = getattr(check, name).examine(student)
    assert verdict.status == "wrong" and told in verdict.message


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (3, "✓"),
        (None, "not attempted"),
        (4, "the same sum"),
        (2, "one more"),
        (1, "more than one"),
        (0.75, "that is a share"),
        ("three", "a number is wanted"),
    ],
)
def test_how_many_of_four(value, told):
    assert told in check.best_of_four.examine(value).message
