"""Exercises of chapter 08: one hop at its best, several hops, writing, the address of a head, the frame, a memory."""

from functools import partial

import numpy as np
import torch

from possm_lite.classroom.checks import Case, Check, ValueCheck, Verdict, normal
from possm_lite.classroom.checks.sandbox import MISSING, Failure

_normal, _softmax = partial(normal, seed=8), partial(torch.softmax, dim=0)


def _weights(*shape):
    return torch.softmax(2 * _normal(*shape), -1)


# Exercise 8.1: how many of the four stories. The margins add up to zero, so one of them at least is not positive


def _n_right(numbers):
    """Stories in which the sum of the two numbers has the right sign; numbers (4,), three of the stories at best."""
    things, boxes = np.reshape(numbers, (2, 2))
    lean = np.array([[1, -1], [-1, 1]]) * np.add.outer(things, boxes)
    return int((lean > 0).sum())


class FourNumbers(ValueCheck):
    """Checks four numbers by the stories that they get right; the message is that of the trap with as many."""

    def examine(self, student):
        """Right if as many stories are right as with `expected`."""
        if (
            student is None
            or student is ...
            or (isinstance(student, list | tuple) and all(x is None or x is ... for x in student))
        ):
            return Verdict("missing", f"· {self.name}: not attempted yet")
        try:
            numbers = np.asarray(student, dtype=float).ravel()
        except (TypeError, ValueError, RuntimeError):
            numbers = np.empty(0)
        if len(numbers) != 4 or not np.isfinite(numbers).all():
            return self._wrong("expected four numbers: things straight, things crossed, boxes straight, boxes crossed.")
        if _n_right(numbers) == _n_right(self.expected):
            return Verdict("right", f"✓ {self.name}")
        return self._wrong(next(m for m, example in self.traps.items() if _n_right(example) == _n_right(numbers)))

    def _wrong(self, message):
        return Verdict("wrong", f"✗ {self.name}: {message}")


best_of_four = FourNumbers(
    "best_of_four",
    expected=(3, 0, -2, 1),
    traps={
        "every sum is zero, so every story is undecided.": (0, 0, 0, 0),
        "1 of 4 stories is right, and more can be had.": (-3, 0, 2, -1),
        "2 of 4 stories are right, and more can be had.": (1, 1, 1, 1),
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
    return _normal(n, m), weights(n), torch.tensor(erase).expand(m), _normal(n + 1, m)[-1]


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
        Case("numbers of a slot that are erased by unequal shares", partial(_write, _weights, [0.0, 0.5, 1.0])),
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
        _case("a gate of 0.3 and one step ahead", partial(_head, 0, 0.3, _AHEAD, 1.0)),
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
        "only the content weights are shifted. What moves is the mixture of (8.7), the old place included.": (
            lambda content, previous, gate, s, gamma: _locate(
                _shift(content, s), previous, gate, s, gamma, shift=lambda w, s: w
            )
        ),
        "only the old place is shifted. What moves is the mixture of (8.7), the content weights included.": (
            lambda content, previous, gate, s, gamma: _locate(
                content, _shift(previous, s), gate, s, gamma, shift=lambda w, s: w
            )
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


# Exercise 8.6: the frame of memory-augmented networks


def _run_frame(controller, write, read, readout, inputs, memory, h, r, *, wrong=""):
    outputs, first_memory, first_h, first_r = [], memory, h, r
    for x in inputs:
        before, r_before = memory, r
        h, query, value = controller(x, first_r if wrong == "r" else r, first_h if wrong == "h" else h)
        memory = write(first_memory if wrong == "memory" else memory, query, value)
        r = read(before if wrong == "read first" else memory, query)
        outputs.append(readout(h, r_before if wrong == "old r" else r))
    return outputs, memory


def _parts(gain, recurrent):
    """A small filling: a memory of three slots, written with `gain` where the query points."""

    def controller(x, r, h):
        h = torch.tanh(x + 0.5 * r + recurrent * h)
        return h, torch.softmax(3 * h, 0), h.flip(0)

    def write(memory, query, value):
        return memory * (1 - gain * query[:, None]) + gain * query[:, None] * value

    return controller, write, lambda memory, query: query @ memory, lambda h, r: 2 * h - r


def _frame(n_steps, gain, recurrent):
    def make():
        x = _normal(n_steps + 5, 3)
        return *_parts(gain, recurrent), list(x[5:]), x[:3], x[3], x[4]

    return make


def _outcome(which):
    """What is compared of the pair that is returned: all outputs as one tensor, or the last memory."""

    def observe(function, *args):
        pair = function(*args)
        if not (isinstance(pair, tuple | list) and len(pair) == 2):
            message = "return two things: the list of all outputs y, and the last memory."
            function.failure = function.failure or Failure(message, message)
            raise RuntimeError
        outputs, memory = pair
        if which == "memory":
            return memory
        if isinstance(outputs, list | tuple) and len(outputs):
            outputs = torch.stack([torch.as_tensor(y) for y in outputs])
        return outputs

    return observe


run_frame = Check(
    "run_frame",
    reference=_run_frame,
    cases=[
        Case("the output of one step with a memory that is only read", _frame(1, 0.0, 0.0), _outcome("outputs")),
        Case("the outputs of three steps with a memory that is only read", _frame(3, 0.0, 0.0), _outcome("outputs")),
        Case("the output of one step that writes", _frame(1, 0.9, 0.0), _outcome("outputs")),
        Case("the outputs of four steps that write", _frame(4, 0.9, 0.0), _outcome("outputs")),
        Case("the memory after four steps", _frame(4, 0.9, 0.0), _outcome("memory")),
        Case("the outputs of a controller that reads h_{t-1}", _frame(4, 0.9, 0.8), _outcome("outputs")),
    ],
    traps={
        "you read before you write. In (8.11) the new memory is read.": partial(_run_frame, wrong="read first"),
        "the controller gets the same r in every step. It reads what was read a step before: carry r on.": (
            partial(_run_frame, wrong="r")
        ),
        "the controller gets the same h in every step. It reads its own h_{t-1}: carry h on.": (
            partial(_run_frame, wrong="h")
        ),
        "every step writes into the memory of the start, so what was written before is lost. Carry the memory on.": (
            partial(_run_frame, wrong="memory")
        ),
        "the readout gets what was read a step before. It reads r of its own step.": partial(_run_frame, wrong="old r"),
    },
)


# Exercise 8.7: a content-addressed memory


class _ContentMemory:
    """A right answer, and with a mistake in `wrong` a wrong one."""

    wrong = ""

    def __init__(self, slots, width, beta):
        self.keys, self.values, self.last_used = [], [], []
        self.slots, self.width, self.beta, self.clock = slots, width, beta, 0

    def cosines(self, cue):
        keys = torch.stack(self.keys)
        if self.wrong == "dot":
            return keys @ cue
        return torch.cosine_similarity(keys, cue[None], dim=1)

    def used(self, slot):
        self.clock += 1
        self.last_used[slot] = self.clock

    def write(self, key, value):
        slot = len(self.keys)
        if self.keys and self.wrong != "twice" and not (self.wrong == "full first" and slot == self.slots):
            cosine, nearest = self.cosines(key).max(0)
            slot = int(nearest) if cosine > {"nearest": -2, "loose": 0.7}.get(self.wrong, 0.9) else slot
        same = slot < len(self.keys)
        if slot == self.slots:
            oldest, newest = np.argmin(self.last_used), np.argmax(self.last_used)
            slot = int({"first slot": 0, "newest": newest}.get(self.wrong, oldest))
        if self.wrong == "summed" and slot < len(self.keys):
            value = value + self.values[slot]
        if slot == len(self.keys):
            self.keys.append(key), self.values.append(value), self.last_used.append(0)
        if not (same and self.wrong == "old key"):
            self.keys[slot] = key
        if not (same and self.wrong == "old value"):
            self.values[slot] = value
        if not (same and self.wrong == "rewriting is no use"):
            self.used(slot)

    def read(self, cue):
        if not self.keys:
            return torch.zeros(self.width) * (float("nan") if self.wrong == "nan" else 1)
        scores = self.cosines(cue) * (1 if self.wrong == "beta" else self.beta)
        if self.wrong == "empty":
            scores = torch.cat([scores, torch.zeros(self.slots - len(self.keys))])
        weights = torch.softmax(scores, 0)
        if self.wrong != "reading is no use":
            self.used(int(weights[: len(self.keys)].argmax()))
        if self.wrong == "hard":
            return self.values[int(weights.argmax())]
        return weights[: len(self.keys)] @ torch.stack(self.values)


def _mistaken(mistake):
    return type("_Mistaken", (_ContentMemory,), {"wrong": mistake})


def _reads(cls, steps, slots, beta):
    """All that is read when `steps` are made: pairs (key, value) are written, single vectors are cues."""
    memory, read = cls(slots, 3, beta), []
    cls.raised = True  # an error from here on is one of its methods: it is reported with its line
    for step in steps:
        if isinstance(step, tuple):
            memory.write(*step)
            continue
        result = memory.read(step)
        if result is None or result is ...:
            _fail(cls, "`read` is not there yet, or returns nothing." if steps[1:] else MISSING)
        read.append(torch.as_tensor(result))
        if read[-1].shape != (3,):
            _fail(cls, f"what is read has the shape {tuple(read[-1].shape)}, expected (3,): `width` numbers.")
    return torch.stack(read)


def _fail(cls, message):
    cls.failure = cls.failure or (message if message is MISSING else Failure(message, message))
    raise RuntimeError


def _gradients(cls, steps, slots, beta):
    """The gradients of all cues and of all values that were written, one after the other."""
    values_and_cues = [(step[1] if isinstance(step, tuple) else step).clone().requires_grad_() for step in steps]
    steps = [(step[0], x) if isinstance(step, tuple) else x for step, x in zip(steps, values_and_cues, strict=True)]
    read = _reads(cls, steps, slots, beta)
    if not read.requires_grad:
        _fail(cls, "what is read is right, but no gradient passes. Is there a .item(), .detach() or .numpy()?")
    weights = torch.linspace(-1, 2, read.numel()).view_as(read)
    return torch.cat(torch.autograd.grad((read * weights).sum(), values_and_cues, materialize_grads=True))


# four keys, and three beside the first: cosine 0.96 ("+"), 0.81 ("-"), and the opposite one, -1 ("o")
_KEYS = {
    "a": [1.0, 0.2, 0.0, 0.1],
    "b": [0.0, 1.0, 0.3, 0.0],
    "c": [0.1, 0.0, 1.0, 0.2],
    "d": [0.0, 0.3, 0.1, 1.0],
    "+": [2.0, 0.4, 0.6, 0.2],
    "-": [1.0, 0.2, 0.75, 0.1],
    "o": [-1.0, -0.2, 0.0, -0.1],
}


def _story_of(order, slots=5, beta=4.0, lengths=(1, 1, 1, 1, 1, 1, 1)):
    """`order`: "a" writes the pair of key a, "A" asks for it."""

    def make():
        keys = {name: length * torch.tensor(key) for (name, key), length in zip(_KEYS.items(), lengths, strict=True)}
        values = dict(zip(keys, [*_normal(4, 3), torch.tensor([5.0, -4.0, 3.0]), *_normal(6, 3)[-2:]], strict=True))
        steps = [keys[x.lower()] if x.isupper() else (keys[x], values[x]) for x in order]
        return steps, slots, beta

    return make


ContentMemory = Check(
    "ContentMemory",
    reference=_ContentMemory,
    cases=[
        Case("an empty memory", _story_of("A"), _reads),
        Case("one pair, and its key as the cue", _story_of("aA", slots=1), _reads),
        Case("three pairs in three slots", _story_of("abcABC", slots=3), _reads),
        Case("a sharpness beta of 1", _story_of("abcB", slots=3, beta=1.0), _reads),
        Case("keys of different lengths", _story_of("abcABC", slots=3, lengths=(0.5, 3, 1, 1, 1, 1, 1)), _reads),
        Case("three pairs in five slots", _story_of("abcABC"), _reads),
        Case("a key and then one like it, cosine 0.96 and twice as long", _story_of("ab+AB", slots=4), _reads),
        Case("two keys with the cosine 0.81", _story_of("a-ABC", slots=4), _reads),
        Case("two opposite keys", _story_of("aoAO", slots=4), _reads),
        Case("a full memory", _story_of("abcdABCD", slots=2), _reads),
        Case("a full memory, of which the older pair was read in between", _story_of("abABAdADB", slots=2), _reads),
        Case("a full memory, and then a key like the newer one", _story_of("ba+AB", slots=2), _reads),
        Case("a full memory, then a key like the older one, then a third", _story_of("ab+cABC", slots=2), _reads),
        Case("the gradients of cues and values", _story_of("abA", slots=2), _gradients),
        Case("the gradients, with writing after reading", _story_of("abAcA", slots=2), _gradients),
    ],
    traps={
        "an empty memory gives NaN. There is nothing to take a softmax of: return zeros.": _mistaken("nan"),
        "lengths are missing: long keys win. Divide by them, as in (8.6).": _mistaken("dot"),
        "beta has no effect. Multiply the cosines by it, before the softmax.": _mistaken("beta"),
        "empty slots take a share of the weight: a cosine of 0 is not minus infinity. Leave them out.": (
            _mistaken("empty")
        ),
        "a key like one that is there gets a second slot. Step 1: is there a slot with a cosine above 0.9?": (
            _mistaken("twice")
        ),
        "every write goes to the nearest key, however far it is. Only a cosine above 0.9 is the same key.": (
            _mistaken("nearest")
        ),
        "keys with the cosine 0.81 are taken for the same. Only above 0.9 does the new pair replace the old.": (
            _mistaken("loose")
        ),
        "a key like one that is there replaces its value only. The new pair replaces the old one, key and value.": (
            _mistaken("old key")
        ),
        "a full memory gives up the oldest pair although it has a key like the new one. Look for that first.": (
            _mistaken("full first")
        ),
        "writing to a slot once more does not count as use, so a pair written a moment ago is overwritten.": (
            _mistaken("rewriting is no use")
        ),
        "a key that is written again keeps its old value. The new pair replaces the old one.": _mistaken("old value"),
        "a value is added to the old one in its slot. The new pair replaces the old one.": _mistaken("summed"),
        "a full memory overwrites its first slot each time. Which slot was not used for the longest time?": (
            _mistaken("first slot")
        ),
        "a full memory overwrites the slot that was used last. Take the one that was not used for the longest time.": (
            _mistaken("newest")
        ),
        "reading does not count as use, so a pair that was asked for a moment ago is overwritten.": (
            _mistaken("reading is no use")
        ),
        "only the nearest slot is read. Read the average of (8.4) with softmax weights.": _mistaken("hard"),
    },
)
