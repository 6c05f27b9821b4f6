"""Exercises of chapter 08: one hop at its best, several hops, writing, the place of a head, copying, the frame."""

from functools import partial

import numpy as np
import torch

from possm_course.chapters.ch08.neural_turing_machine import read, shift, write
from possm_course.checks import Case, Complaint, ValueCheck, exercise, normal

_normal = partial(normal, seed=8)


def _weights(*shape):
    """Weights of this shape that sum to one along the last axis."""
    return torch.softmax(2 * _normal(*shape), -1)


# Exercise 8.1: how many of the four stories. The margins add up to zero, so one of them at least is not positive
def _n_right(numbers):
    """Stories in which the sum of the two numbers has the right sign; numbers (4,), three of the stories at best."""
    things, boxes = np.reshape(numbers, (2, 2))
    right_signs = np.array([[1, -1], [-1, 1]])
    return int((right_signs * np.add.outer(things, boxes) > 0).sum())


class FourNumbers(ValueCheck):
    """Checks four numbers by the count of stories that they get right."""

    def fault(self, student):
        if np.shape(student) not in {(4,), (2, 2)}:
            return "expected four numbers: things straight, things crossed, boxes straight, boxes crossed."
        n = _n_right(student)
        if n < _n_right(self.expected):
            return _COUNT.format(n)
        return None


_COUNT = "{} of 4 stories are right, and more can be had. A story whose sum is zero is undecided."
best_of_four = FourNumbers(
    "best_of_four",
    expected=(3, 0, -2, 1),
    mistakes={(0, 0, 0, 0): _COUNT.format(0), (-3, 0, 2, -1): _COUNT.format(1), (1, 1, 1, 1): _COUNT.format(2)},
)


def _story(n, d, n_hops):
    """A question (d,), the vectors of n sentences for input and output (n, d), and the number of hops."""
    x = _normal(2 * n + 1, d)
    return x[0], x[1 : n + 1], x[n + 1 :], n_hops


# Exercise 8.2: several hops
@exercise(
    cases={
        "one hop through three facts": partial(_story, 3, 2, 1),
        "two hops through three facts": partial(_story, 3, 2, 2),
        "three hops through six facts": partial(_story, 6, 4, 3),
    },
    mistakes={
        ("for _ → first = q\n    for _", "a @ q → a @ first"): (
            "every hop asks the first question again, so it reads the same each time. Ask with what q has become."
        ),
        "q + p @ c → p @ c": "what was read replaces the question. It should be added to it: q + r.",
        "p @ c → p @ a": "the outputs c are never read: you find facts by a and read a too. There are two memories.",
        "a @ q → a @ q / len(q) ** 0.5": "the scores of (8.1) are not divided by the root of D.",
        "p = torch.softmax(a @ q, dim=0) → p = torch.softmax(c @ q, dim=0)": (
            "the question is compared with the outputs c. Facts are found by a."
        ),
        "q = q + p @ c → q = q + c[p.argmax()]": "only the best fact is read. All should be, each with its weight.",
        (
            "p = torch.softmax(a @ q, dim=0) → p = torch.sigmoid(a @ q)"
        ): "a sigmoid of each score. The weights should sum to one.",
        "p = torch.softmax(a @ q, dim=0) → p = a @ q": "the softmax is missing.",
        "range(n_hops) → range(1)": "one hop only: there are n_hops.",
        "return q → return p @ c": "what was read last is returned. The question should be, with all that was added.",
    },
)
def read_in_hops(q, a, c, n_hops):
    """The question after n_hops hops. q (D,), a and c (N, D): returns (D,)."""
    for _ in range(n_hops):
        p = torch.softmax(a @ q, dim=0)  # (N,)
        q = q + p @ c  # (D,)
    return q


def _write(weights, erase, n=4, m=3):
    """A memory (n, m), where it is written, what is erased, and what is added."""
    return _normal(n, m), weights(n), torch.tensor(erase).expand(m), _normal(n + 1, m)[-1]


# Exercise 8.5: repair the write
@exercise(
    cases={
        "one slot, wiped and written": partial(_write, lambda n: torch.eye(n)[1], 1.0),
        "one slot, added to without wiping": partial(_write, lambda n: torch.eye(n)[1], 0.0),
        "weights spread over all slots": partial(_write, _weights, 0.6),
        "as many slots as numbers in a slot": partial(_write, _weights, 0.6, n=3),
        "numbers of a slot that are erased by unequal shares": partial(_write, _weights, [0.0, 0.5, 1.0]),
    },
    mistakes={
        "w * add → w * w": "the added term is still w times w: what is written does not depend on `add` at all.",
        "memory * (1 - w * erase) + w * add → (memory + w * add) * (1 - w * erase)": (
            "you add first and then erase, and so erase part of what you have just written."
        ),
        "w * add → add": "every slot gets all of `add`, wherever the head is. Weigh it with w.",
        "w * erase → w": "`erase` has no effect: a slot is always wiped in full. How much goes is w times e.",
        "memory * (1 - w * erase) → memory * (1 - erase)": "every slot is erased. How much goes is w times e.",
        "memory * (1 - w * erase) + w * add → memory - w * erase + w * add": (
            "a fixed amount is taken off. Erasing should multiply: what is left is a share of what was there."
        ),
        "w * add → w * w * add": "w is still squared in what is added.",
        "memory * (1 - w * erase) → memory * w * erase": "what should go is kept: 1 minus it should stay.",
        "+ w * add → - w * add": "the sign: `add` should be added.",
    },
)
def erase_then_add(memory, w, erase, add):
    """The memory after one write. memory (N, M), w (N,), erase and add (M,): returns (N, M)."""
    w = w[:, None]  # (N, 1)
    return memory * (1 - w * erase) + w * add


def _head(slot, gate, s, gamma):
    """Content weights on slot 2 of six, the head on `slot` before."""
    return torch.eye(6)[2], torch.eye(6)[slot], torch.tensor(gate), torch.tensor(s), torch.tensor(gamma)


_STAY, _AHEAD = [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]


# Exercise 8.3: from the content weights to the weights of the head
@exercise(
    tolerance=1e-4,
    cases={
        "a gate of 1: the content alone": partial(_head, 0, 1.0, _STAY, 1.0),
        "a gate of 0.3": partial(_head, 0, 0.3, _STAY, 1.0),
        "one step ahead from slot 3": partial(_head, 3, 0.0, _AHEAD, 1.0),
        "one step ahead from the last slot": partial(_head, 5, 0.0, [0.0, 0.2, 0.8], 1.0),
        "one step back from the first slot": partial(_head, 0, 0.0, [0.8, 0.2, 0.0], 1.0),
        "a gate of 0.3 and one step ahead": partial(_head, 0, 0.3, _AHEAD, 1.0),
        "a shift that smears, and gamma 3": partial(_head, 3, 0.0, [0.2, 0.2, 0.6], 3.0),
        "weights spread over all slots": lambda: (*_weights(2, 6), *_head(0, 0.3, [0.1, 0.2, 0.7], 3.0)[2:]),
    },
    mistakes={
        "gate * content + (1 - gate) * previous → (1 - gate) * content + gate * previous": (
            "the gate acts the other way round: at g = 1 the content decides, at g = 0 the head stays where it was."
        ),
        ("s[0] → s[3]", "s[2] → s[0]", "s[3] → s[2]"): (
            "the head moves the wrong way: the last entry of s is the probability of one slot ahead, from i to i + 1."
        ),
        ("s[0] → s[-1]", "s[1] → s[0]", "s[2] → s[1]"): (
            "s[-1] is the last entry of s: the order is back, stay, ahead, so d belongs to s[d + 1]."
        ),
        "return w / w.sum() → return w": "after the power the weights no longer sum to one: divide by their sum (8.9).",
        (
            "w = gate * content + → w = content\n    later =",
            "torch.roll(w, 1)\n → torch.roll(w, 1)\n    w = gate * w + later\n",
        ): "only the content weights are shifted. What moves is the mixture of (8.7).",
        "w = w**gamma\n    return w / w.sum() → return torch.softmax(gamma * w, 0)": (
            "a softmax instead of the power: (8.9) raises each weight to gamma and divides by the sum."
        ),
        (
            "w = s[0] → w = w**gamma; w = w / w.sum()\n    w = s[0]",
            "w = w**gamma\n    return w / w.sum() → return w",
        ): "sharpened first, then shifted. (8.9) comes last.",
        "torch.roll(w, -1) + s[1] * w + s[2] * torch.roll(w, 1) → "
        "torch.cat([w[1:], w[:1] * 0]) + s[1] * w + s[2] * torch.cat([w[:1] * 0, w[:-1]])": (
            "the ends are cut off: from the last slot one step ahead should lead to the first."
        ),
        "w = w**gamma → w = w * gamma": "multiplied by gamma. Each weight should be raised to the power gamma.",
        "(1 - gate) * previous → previous": "the old weights enter whole. They should weigh 1 - g.",
        "gate * content + (1 - gate) * previous → content": "the gate is not used.",
    },
)
def locate(content, previous, gate, s, gamma):
    """Interpolate, shift, sharpen. content, previous (N,), gate (), s (3,), gamma (): returns (N,)."""
    w = gate * content + (1 - gate) * previous
    w = s[0] * torch.roll(w, -1) + s[1] * w + s[2] * torch.roll(w, 1)
    w = w**gamma
    return w / w.sum()


def _copied(controller, length):
    """What is read after the go sign, (L, 4), on a list of `length` vectors, a ring of 24 slots of 0.1."""
    bits = _normal(length, 4).sign()
    heard = torch.zeros(2 * length + 1, 5)
    heard[:length, :4] = bits
    heard[length, 4] = 1.0  # the go sign
    memory = torch.full((24, 4), 0.1)
    writer = reader = torch.eye(24)[0]
    said, before = [], {}
    for x in heard:
        s_write, s_read, erase, add = signals = _signals(controller, x)
        output = torch.cat(signals)
        if not torch.equal(output, before.setdefault(tuple(x.tolist()), output)):
            raise Complaint("the same x gave two answers. Your controller has no state: only x decides what it does.")
        writer, reader = shift(writer, s_write), shift(reader, s_read)
        memory = write(memory, writer, erase, add)
        said.append(read(reader, memory))
    return torch.stack(said[length + 1 :])


def _signals(controller, x):
    """What a controller returns for one input: both shifts (3,), erase (4,) and add (4,)."""
    output = controller(x.clone())
    if not (isinstance(output, tuple | list) and [np.shape(part) for part in output] == [(3,), (3,), (4,), (4,)]):
        raise Complaint("return four tensors: s_write (3,), s_read (3,), erase (4,) and add (4,).")
    s_write, s_read, erase, add = (torch.as_tensor(part, dtype=torch.float32) for part in output)
    for probabilities in (s_write, s_read):
        if probabilities.min() < 0 or abs(float(probabilities.sum()) - 1) > 1e-5:
            raise Complaint("the three numbers of a shift are probabilities: none below zero, and their sum is 1.")
    if erase.min() < 0 or erase.max() > 1:
        raise Complaint("each number of `erase` lies between 0 and 1.")
    return s_write, s_read, erase, add


# Exercise 8.4: the controller of a machine that copies by place
@exercise(
    cases={
        "a list of one": Case(lambda: (1,), _copied),
        "a list of two": Case(lambda: (2,), _copied),
        "a list of six": Case(lambda: (6,), _copied),
        "a list of twenty": Case(lambda: (20,), _copied),
    },
    mistakes={
        "s_write = ahead if hears else stay → s_write = stay": (
            "you read the 0.1 of slots in which nothing was written: one of the heads stays where it should walk."
        ),
        "s_read = ahead if silent else stay → s_read = ahead": (
            "the read head walks while the machine listens, and at the go sign it is at the end of the list."
        ),
        "s_read = ahead if silent → s_read = ahead if not hears": (
            "your read head is on slot 2 when the first vector, on slot 1, is due: at the go sign it must stay."
        ),
        "erase = torch.full((4,), float(hears)) → erase = torch.ones(4)": (
            "it erases in silence as well, so the last vector of the list is gone. After the list nothing is written."
        ),
        "erase = torch.full((4,), float(hears)) → erase = torch.zeros(4)": (
            "nothing is erased, so the 0.1 of the empty slot is still in what you read."
        ),
    },
)
def copy_by_place(x):
    """What a controller without state tells the heads. x (5,): returns s_write (3,), s_read (3,), erase, add (4,)."""
    stay, ahead = torch.eye(3)[1], torch.eye(3)[2]
    hears, silent = bool(x[:4].any()), not x.any()
    s_write = ahead if hears else stay
    s_read = ahead if silent else stay
    erase = torch.full((4,), float(hears))
    return s_write, s_read, erase, x[:4]


def _search(beta, n=4, m=3):
    """A key (m,), a memory (n, m), and beta."""
    return _normal(n + 1, m)[-1], 2 * _normal(n, m), torch.tensor(beta)


# Exercise 8.6: find by content
@exercise(
    cases={
        "two slots of length one": lambda: (torch.tensor([1.0, 0.0]), torch.eye(2), torch.tensor(2.0)),
        "slots of different lengths": partial(_search, 1.0),
        "a sharpness beta of 5": partial(_search, 5.0),
        "as many slots as numbers in a slot": partial(_search, 5.0, n=3),
    },
    mistakes={
        " / (memory.norm(dim=1) * key.norm()) → ": "nothing is divided by the lengths: long slots win.",
        "beta * cosine → cosine": "beta has no effect: cosines differ by 2 at most, so their softmax is nearly flat.",
        "torch.softmax(beta * cosine, dim=0) → torch.softmax(cosine / beta, dim=0)": "divided by beta. Multiply.",
        " / (memory.norm(dim=1) * key.norm()) →  / memory.norm(dim=1)": "the length of the key is missing.",
        " / (memory.norm(dim=1) * key.norm()) →  / (memory.norm() * key.norm())": (
            "divided by the norm of the whole memory. Each slot should have its own."
        ),
        " / (memory.norm(dim=1) * key.norm()) →  / len(key) ** 0.5": (
            "divided by the root of the size. A cosine is divided by both lengths."
        ),
        "torch.softmax(beta * cosine, dim=0) → beta * cosine": "the softmax is missing.",
        "memory.norm(dim=1) → memory.norm(dim=0)": "the norms are those of the columns. Each slot, a row, has one.",
    },
)
def content(key, memory, beta):
    """Weights of the slots by what is in them. key (M,), memory (N, M), beta (): returns (N,)."""
    cosine = memory @ key / (memory.norm(dim=1) * key.norm())  # (N,)
    return torch.softmax(beta * cosine, dim=0)


def _frame(n_steps, gain, recurrent):
    """A small filling: a memory of three slots, written with `gain` where the query points."""

    def controller(x, r, h):
        h = torch.tanh(x + 0.5 * r + recurrent * h)
        return h, torch.softmax(3 * h, 0), h.flip(0)

    def write(memory, query, value):
        return memory * (1 - gain * query[:, None]) + gain * query[:, None] * value

    def read(memory, query):
        return query @ memory

    def readout(h, r):
        return 2 * h - r

    x = _normal(n_steps + 5, 3)
    memory, h, r, inputs = x[:3], x[3], x[4], list(x[5:])
    return controller, write, read, readout, inputs, memory, h, r


def _outputs_and_memory(run, *args):
    """Observe both results of the frame, in their order."""
    pair = run(*args)
    if not (isinstance(pair, tuple | list) and len(pair) == 2):
        raise Complaint("return two things: the list of all outputs y, and the last memory.")
    shapes = [(len(part), *np.shape(part[0])) for part in pair]
    if shapes[0] == args[5].shape != shapes[1]:
        raise Complaint("these are the memory and the outputs. The list of outputs comes first, then the memory.")
    return list(pair[0]), pair[1]


# Exercise 8.7: the frame of memory-augmented networks
@exercise(
    results=("the outputs", "the memory"),
    cases={
        "one step with a memory that is only read": Case(partial(_frame, 1, 0.0, 0.0), _outputs_and_memory),
        "three steps with a memory that is only read": Case(partial(_frame, 3, 0.0, 0.0), _outputs_and_memory),
        "one step that writes": Case(partial(_frame, 1, 0.9, 0.0), _outputs_and_memory),
        "four steps that write": Case(partial(_frame, 4, 0.9, 0.0), _outputs_and_memory),
        "four steps of a controller that reads h_{t-1}": Case(partial(_frame, 4, 0.9, 0.8), _outputs_and_memory),
    },
    mistakes={
        (
            "memory = write → r = read(memory, q)\n        memory = write",
            "q, v)\n        r = read(memory, q) → q, v)",
        ): "you read before you write. In (8.11) the new memory is read.",
        ("r = read → now = read", "readout(h, r) → readout(h, now)"): "the controller gets the same r in every step.",
        (
            "outputs.append(readout(h, r)) → outputs = [readout(h, r)]"
        ): "only the last output is kept: return the list of all.",
        "controller(x, r, h) → controller(x, r, 0 * h)": "the controller forgets its h from step to step.",
        "memory = write(memory, q, v) → write(memory, q, v)": "what `write` returns is not kept: it is the new memory.",
    },
)
def run_frame(controller, write, read, readout, inputs, memory, h, r):
    """Formula (8.11), step by step. Returns the list of all outputs and the last memory."""
    outputs = []
    for x in inputs:
        h, q, v = controller(x, r, h)
        memory = write(memory, q, v)
        r = read(memory, q)
        outputs.append(readout(h, r))
    return outputs, memory


def _table(beta, n=3, m=2):
    """A table (n, m), a key (n,), a value (m,), and beta."""
    memory, w, v = _normal(n, m), _normal(n + 1, n)[-1], _normal(n + 2, m)[-1]
    return memory, w, v, torch.tensor(beta)


# Exercise 8.8: the delta rule
@exercise(
    cases={
        "an empty table": lambda: (torch.zeros(3, 2), torch.eye(3)[1], torch.tensor([0.5, -2.0]), torch.tensor(1.0)),
        "a key on one slot": lambda: (_normal(3, 2), torch.eye(3)[1], torch.tensor([0.5, -2.0]), torch.tensor(1.0)),
        "a key on all slots": partial(_table, 1.0),
        "a beta of 0.3": partial(_table, 0.3),
        "as many slots as numbers in a slot": partial(_table, 0.3, n=3, m=3),
    },
    mistakes={
        "v - w @ memory → v": "v is added whole, whatever was there. Add what is missing: v minus what w reads.",
        "v - w @ memory → v - memory": (
            "each slot loses what is in itself, as in (8.5) with e = beta. Subtract what w reads of all slots together."
        ),
        "beta * w[:, None] → w[:, None]": "beta has no effect: it says how much of the difference is written.",
        "(v - w @ memory) → (w @ memory - v)": "the sign: what is missing is v minus what w reads.",
        "memory + beta → (1 - beta) * memory + beta": "the memory fades as well. Only the difference is written.",
        "w @ memory → memory.mean(0)": "the mean of all slots is subtracted. It should be what w reads.",
    },
)
def delta_write(memory, w, v, beta):
    """The table after one write by the delta rule. memory (N, M), w (N,), v (M,), beta (): returns (N, M)."""
    return memory + beta * w[:, None] * (v - w @ memory)
