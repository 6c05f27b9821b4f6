"""Exercises of chapter 14: one bin at a time, its age, what a user saw and meant, packets; deeper: times in a bin."""

import torch
from torch import Tensor

from possm_course.checks import MISSING, Case, Complaint, ValueCheck, exercise, normal


# Exercise 14.1: one bin at a time
def _toy_step(x, state):
    """A memory whose output is not its state, as that of an LSTM is not."""
    state = 0.5 * (torch.zeros(2) if state is None else state) + x
    return torch.tanh(state), state


def _toy_answer(recent):
    """A mean in which newer states weigh more; it shows how many there are."""
    if not len(recent):
        raise ValueError("`answer` got an empty list, but the state of this bin belongs in it")
    weight = 2.0 ** -torch.arange(len(recent) - 1, -1, -1.0)
    return weight @ torch.stack(list(recent)) / weight.sum()


def _toy_stream(function, bins, k):
    """The answers of a stream of the toy decoder, as one tensor."""
    answers = function(bins, _toy_step, _toy_answer, k)
    if isinstance(answers, list | tuple) and all(isinstance(a, Tensor) for a in answers):
        return torch.stack(list(answers)) if answers else torch.empty(0, 2)
    return answers


def _inputs(n, k):
    """A case of n bins of which k are kept."""
    return Case(lambda: ([*normal(n, 2, seed=13)], k), _toy_stream)


@exercise(
    cases={
        "a single bin": _inputs(1, k=3),
        "five bins and k = 1": _inputs(5, k=1),
        "two bins, fewer than k = 3": _inputs(2, k=3),
        "eight bins and k = 3": _inputs(8, k=3),
    },
    mistakes={
        "h, state = step(x, state) → h, _ = step(x, state)": "every bin begins with an empty memory.",
        "h, state = step(x, state) → h, _ = step(x, state); state = h": "the hidden state h went into the next `step`.",
        "[*recent, h][-k:] → [h, *recent][:k]": "the newest state comes first: `answer` takes the oldest first.",
        "[*recent, h][-k:] → [*recent, h]": "`answer` gets all states there have ever been, not the last k.",
        (
            "recent = [*recent, h][-k:]  # the oldest drops out → ",
            "(recent)) → (recent or [h])); recent = [*recent, h][-k:]",
        ): ("the answer is one bin late: add the state of this bin before you call `answer`."),
        "answers.append(answer(recent)) → answers.append(answer([torch.zeros_like(h)] * (k - len(recent)) + recent))": (
            "zeros stand in for states that do not exist yet. Hand on the ones there are."
        ),
        "answers.append(answer(recent)) → answers.append(answer([recent[0]] * (k - len(recent)) + recent))": (
            "the first state is repeated for those that do not exist yet. Hand on the ones there are."
        ),
        (
            "answers.append(answer(recent)) → answers.append(answer([h]))"
        ): "only the newest state is handed on: the last k should.",
        (
            "[*recent, h][-k:] → [*recent, state][-k:]"
        ): "`state` is kept in place of h: `answer` takes what `step` returns first.",
        "[*recent, h][-k:] → [*recent, h][-k - 1 :]": "one state too many: the last k, this bin's among them.",
        "return answers → return answers[-1:]": "only the last answer is returned. Return the list of all.",
        (
            "        answers.append(answer(recent)) → \n        if len(recent) == k:\n            "
            "answers.append(answer(recent))"
        ): ("there is no answer until k states are there. Every bin should have one."),
    },
)
def stream(bins, step, answer, k):
    """(14.1): the answer after each bin, a list."""
    state, recent, answers = None, [], []
    for x in bins:
        h, state = step(x, state)
        recent = [*recent, h][-k:]  # the oldest drops out
        answers.append(answer(recent))
    return answers


# Exercise 14.2: 25 ms of waiting for the end of the bin, 1 ms of computing, 25 ms until half of the held 50 ms are over
mean_age_ms = ValueCheck(
    "mean_age_ms",
    expected=51,
    tolerance=0.5,
    mistakes={
        26: "half a bin is missing: a spike waits for the end of its bin, *and* the velocity is held for a whole bin.",
        101: "that is the worst case. On average a spike waits half a bin, and the velocity is used half a bin later.",
        50: "the 1 ms of computing is missing. It is little, but it is a part of (14.2).",
        76: "one half of a bin too much: both waits are 25 ms on average.",
        75: "one half of a bin too much, and the computing is missing.",
        100: "these are two whole bins. On average both waits are half a bin.",
    },
    hint="Add three times: until the bin ends, on average; the computing; and until half of the next bin is over.",
)


# Exercise 14.3: the user
def _user(target, delay, n=6):
    """Makes the path of a cursor, a target, the delay of the user in bins, a radius and a speed."""
    path = [[0.0, 0.0], [3.0, 1.0], [8.0, 2.0], [15.0, 6.0], [21.0, 12.0], [26.0, 20.0]]
    return lambda: (torch.tensor(path[:n]), torch.tensor(target), delay, 2.0, 400.0)


@exercise(
    cases={
        "a user who sees without delay": _user((30.0, 10.0), 0),
        "a delay of two moments": _user((30.0, 10.0), 2),
        "a path that is shorter than the delay": _user((30.0, 10.0), 4, n=3),
        "a path just as long as the delay": _user((30.0, 10.0), 3, n=3),
        "a target so far away that the speed is limited": _user((300.0, 100.0), 2),
        "a cursor that is seen right on the target": _user((26.0, 20.0), 0),
    },
    mistakes={
        "max(0, len(cursor) - 1 - delay) → -1": (
            "the user acts on where the cursor is, not on what is seen, `delay` moments before."
        ),
        "max(0, len(cursor) - 1 - delay) → -min(delay, len(cursor))": (
            "the newest entry is cursor[-1], so the one `delay` moments before is cursor[-1 - delay]."
        ),
        "max(0, len(cursor) - 1 - delay) → len(cursor) - 1 - delay": (
            "a negative index counts from the end: the user would see the future. Use the first entry then."
        ),
        "u * (max_speed / speed) if speed > max_speed else u → u.clamp(-max_speed, max_speed)": (
            "x and y are limited separately, which bends the direction. Limit the length of the vector."
        ),
        "u * (max_speed / speed) if speed > max_speed else u → u * min(1.0, max_speed / float(speed))": (
            "where the cursor is seen right on the target, the length of u is zero, and you divide by it."
        ),
        "gain * (target - seen) → gain * (seen - target)": "it points away from the target.",
        "- 1 - delay → - delay": (
            "the user sees one moment too new: cursor[-1] is now, so `delay` moments before is -1 - delay."
        ),
        "return u * (max_speed / speed) if speed > max_speed else u → return u": "the speed is not limited.",
        (
            "return u * (max_speed / speed) if speed > max_speed else u → return u * (max_speed / speed) if "
            "speed > 0 else u"
        ): ("the velocity always has the largest speed. It should only be limited."),
        "gain * (target - seen) → (target - seen)": "the gain is not used.",
    },
)
def intention(cursor, target, delay, gain, max_speed):
    """Velocity towards the target, from what is seen, (2,)."""
    seen = cursor[max(0, len(cursor) - 1 - delay)]  # (2,)
    u = gain * (target - seen)  # (2,)
    speed = u.norm()
    return u * (max_speed / speed) if speed > max_speed else u


# Exercise 14.4: what the user meant
def _meant(*rows, radius=20.0):
    """Rows of velocity and cursor, with the target at (80, 0)."""
    velocity, cursor = torch.tensor([row[:2] for row in rows]), torch.tensor([row[2:] for row in rows])
    return lambda: (velocity.clone(), cursor.clone(), torch.tensor([80.0, 0.0]).expand(len(rows), 2).clone(), radius)


@exercise(
    cases={
        "a cursor that moves past its target": _meant((30.0, 40.0, 0.0, 0.0), (0.0, 100.0, 80.0, -60.0)),
        "a cursor that moves away": _meant((-120.0, 50.0, 10.0, 5.0)),
        "a cursor within the circle": _meant((30.0, 40.0, 75.0, 5.0), (300.0, 0.0, 40.0, 30.0)),
        "a cursor right on the target": _meant((30.0, 40.0, 80.0, 0.0)),
        "a larger circle": _meant((30.0, 40.0, 45.0, 5.0), radius=50.0),
    },
    mistakes={
        "target - cursor → cursor - target": "it points away from the target. Towards it is target - cursor.",
        "speed * way / distance → speed * way": "the way is not divided by its length: the farther, the faster.",
        "distance > radius → distance > 0": "within its circle nothing was meant: zero.",
        "velocity.norm(dim=1, keepdim=True) → velocity": "x and y are multiplied one by one. Take the length.",
        "torch.where(distance > radius, speed * way / distance, 0.0) → (distance > radius) * speed * way / distance": (
            "right on the target you divide by zero, and zero times NaN is NaN."
        ),
        (
            "velocity.norm(dim=1, keepdim=True) → velocity.norm()"
        ): "one length for all rows. Each row should have its own.",
        "way.norm(dim=1, keepdim=True) → way.norm()": "one distance for all rows. Each row should have its own.",
        "distance > radius, speed * way / distance, 0.0 → distance > radius, speed * way / distance, velocity": (
            "within its circle the decoded velocity is kept. There nothing was meant: zero."
        ),
        "speed * way / distance → way / distance": "the direction alone. It should be as fast as decoded.",
        "speed * way / distance → (velocity * way).sum(1, keepdim=True) / distance * way / distance": (
            "this is the part of the velocity along the way. (14.7) keeps the whole speed and turns it."
        ),
    },
)
def meant(velocity, cursor, target, radius):
    """(14.7): as fast as decoded, towards the target, zero within its circle; all (T, 2)."""
    way = target - cursor
    distance = way.norm(dim=1, keepdim=True)  # (T, 1)
    speed = velocity.norm(dim=1, keepdim=True)  # (T, 1)
    return torch.where(distance > radius, speed * way / distance, 0.0)


# Exercise 14.5: a decoder fed by packets
def _toy_read(units, offsets):
    """Depends on which units fired and when, to a fraction of a millisecond; a silent bin is not zero."""
    if not (isinstance(offsets, Tensor) and offsets.is_floating_point()):
        raise TypeError("`read` needs the times within the bin in seconds, a tensor of floating-point numbers")
    return torch.stack([(units * offsets.float() * 20).sum(), torch.tensor(1 - 0.1 * len(units))])


def _fed(student, packets, *parts):
    """The answers after each packet, of which the decoder sees the next only when it has answered."""
    decoder, after = student(*parts), []
    for packet in packets:
        answers = decoder.feed(packet)
        if not isinstance(answers, list | tuple):
            raise Complaint(MISSING if answers is None else "`feed` returns a list, empty if the packet ends no bin")
        after.append([*answers])
    return after


def _when_and_what(student, packets, k):
    """How many answers come after each packet, and the answers."""
    result = _fed(student, packets, _toy_read, _toy_step, _toy_answer, k)
    numbers = ", ".join(str(len(each)) for each in result)
    answers = [answer for each in result for answer in each]
    return {"answers after each packet": numbers, "the answers": torch.stack(answers) if answers else torch.zeros(0)}


def _offsets(student, packets, k):
    """The times within their bins that `read` gets, seconds."""
    seen = []

    def read(units, offsets):
        seen.append(torch.as_tensor(offsets).double())
        return torch.zeros(1)

    _fed(student, packets, read, lambda x, state: (x, state), lambda recent: recent[-1], k)
    return torch.cat(seen)


def _packets(ticks, ends, k=3, observe=_when_and_what, tolerance=1e-5):
    """Spikes at these samples, of units 1, 2, 3, 4, 1 and so on, in packets that end before `ends`."""

    def make():
        time = torch.tensor(ticks)
        unit = torch.arange(len(ticks)) % 4 + 1
        packets = []
        for start, end in zip([0, *ends[:-1]], ends, strict=True):
            inside = (time >= start) & (time < end)
            packets.append((unit[inside], time[inside], end))
        return packets, k

    return Case(make, observe, tolerance)


_BUSY = [30, 400, 1100, 1490, 1700, 2300, 3100, 3300, 4100, 4800, 5900, 6400, 7300]
_LATE = [30, 1_800_369, 1_801_101]


@exercise(
    cases={
        "packets of a bin each": _packets(_BUSY, [1500, 3000, 4500, 6000]),
        "packets of 20 ms, so that a bin comes in pieces": _packets(_BUSY, list(range(600, 7801, 600))),
        "a packet of 150 ms": _packets(_BUSY, [1500, 6000, 6100, 7500]),
        "a bin in which no unit fires": _packets([30, 700, 3200, 4000], list(range(600, 6001, 600))),
        "spikes right on the edge of a bin": _packets([0, 1500, 2000, 4500, 10_500], list(range(600, 12_001, 600))),
        "k = 1": _packets(_BUSY, [1500, 3000, 4500, 6000, 7500], k=1),
        "the times that `read` gets, a minute after the start": _packets(
            _LATE, [1500, 1_801_500], observe=_offsets, tolerance=1e-7
        ),
    },
    mistakes={
        ("while now >= 1500 * (self.b + 1) → for _ in [now]", " if tick < 1500 * (self.b + 1) → "): (
            "every packet is taken for a bin. Bins are 1,500 samples long, whatever the packets are."
        ),
        "while now → if now": "a packet can complete several bins, and this decodes one of them at most.",
        "while now >= 1500 * (self.b + 1) → while any(tick >= 1500 * (self.b + 1) for _, tick in self.waiting)": (
            "it waits for a spike of a later bin to know that this one is over. `now` tells you."
        ),
        "(tick - 1500 * self.b) / 30_000 → float(tick - 1500 * self.b)": "the times `read` gets are in samples, not s.",
        "(tick - 1500 * self.b) / 30_000 → tick / 30_000": (
            "the times that `read` gets count from the start of the recording. Subtract the start of the bin."
        ),
        "units = torch → if not mine: self.b += 1; continue\n            units = torch": (
            "a silent bin was skipped: it too is read, goes through `step` and has an answer."
        ),
        "while now >= 1500 * (self.b + 1) → while now > 1500 * (self.b + 1)": (
            "a bin is over when `now` is exactly at its end: >=, not >."
        ),
        "if tick < 1500 * (self.b + 1) → if tick <= 1500 * (self.b + 1)": (
            "a spike exactly at the end of a bin belongs to the next one: <, not <=."
        ),
        "/ 30_000 → / 30": "the times `read` gets are in milliseconds. They should be in seconds.",
        "self.waiting = self.waiting[len(mine) :] → self.waiting = []": (
            "spikes of later bins are thrown away. Keep those that wait."
        ),
        "self.waiting = self.waiting[len(mine) :] → pass": "spikes that have been read are read again: take them off.",
        (
            "[*self.recent, h][-self.k :] → [*self.recent, h]"
        ): "`answer` gets all states there have ever been, not the last k.",
        (
            "h, self.state = self.step(self.read(units, offsets), self.state) → h, _ = "
            "self.step(self.read(units, offsets), None)"
        ): ("every bin begins with an empty memory: hand the state on."),
    },
)
class PacketDecoder:
    """Decodes bins as packets complete them."""

    def __init__(self, read, step, answer, k):
        self.read, self.step, self.answer, self.k = read, step, answer, k
        self.waiting, self.b = [], 0  # (unit, tick) of bins that are not over, and the next bin
        self.state, self.recent = None, []

    def feed(self, packet):
        """The answers that a packet (units, ticks, now) completes, a list."""
        units, ticks, now = packet
        self.waiting += zip(units.tolist(), ticks.tolist(), strict=True)
        answers = []
        while now >= 1500 * (self.b + 1):
            mine = [(unit, tick) for unit, tick in self.waiting if tick < 1500 * (self.b + 1)]
            self.waiting = self.waiting[len(mine) :]  # the ticks of packets rise
            units = torch.tensor([unit for unit, _ in mine], dtype=torch.int64)
            offsets = torch.tensor([(tick - 1500 * self.b) / 30_000 for _, tick in mine])
            h, self.state = self.step(self.read(units, offsets), self.state)
            self.recent = [*self.recent, h][-self.k :]
            answers.append(self.answer(self.recent))
            self.b += 1
        return answers


# Exercise 14.6: times since the bin began, in float32
def _times_and_bins(times, bins, width=0.05):
    """Makes times in s, the bin of each, and the width of a bin in s."""
    return lambda: (torch.tensor(times, dtype=torch.float64), torch.tensor(bins), width)


@exercise(
    tolerance=1e-7,
    cases={
        "the first three bins": _times_and_bins([0.01, 0.052, 0.149], [0, 1, 2]),
        "a spike right on the edge of its bin": _times_and_bins([0.15, 0.35], [3, 7]),
        "bins after an hour": _times_and_bins([3600.012345, 3600.051], [72_000, 72_001]),
        "bins of 20 ms": _times_and_bins([0.0312, 0.0477], [1, 2], width=0.02),
        "the millionth bin": _times_and_bins([50_000.0371234], [1_000_000]),
        "the dtype": Case(_times_and_bins([0.01, 0.052], [0, 1]), lambda function, *args: str(function(*args).dtype)),
    },
    mistakes={
        "(time_s - bin.double() * width).float() → time_s.float() - (bin.double() * width).float()": (
            "the times were rounded to float32 before the start of the bin was subtracted. Subtract first, round last."
        ),
        "bin.double() → bin": (
            "a tensor of whole numbers times 0.05 is float32 in torch, so the starts of the bins are rounded."
        ),
        "time_s - bin.double() * width → time_s % width": (
            "the remainder of a division puts a spike on an edge at the end of the bin before: subtract its start."
        ),
        ".float() → ": ("the result is float64. Round it to float32 at the end: the network computes in float32."),
        (
            "(time_s - bin.double() * width) → (time_s - (bin.double() + 1) * width)"
        ): "this is the time until the end of the bin.",
        (
            "(time_s - bin.double() * width) → ((time_s - bin.double() * width) * 1000)"
        ): "these are milliseconds: seconds.",
        "bin.double() * width → bin.double() * 0.05": "0.05 is written into the function. It should be `width`.",
    },
)
def offsets_in_bin(time_s, bin, width):
    """Seconds since the bin of each spike began, (n,), float32."""
    return (time_s - bin.double() * width).float()
