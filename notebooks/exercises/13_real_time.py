"""Exercises of chapter 13: one bin at a time, times within a bin, how late is late, how old, and what a user sees."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from possm_lite.classroom.checks import Case, Check, ValueCheck

# Exercise 13.1: one bin at a time


def _stream(bins: list, step: Callable, answer: Callable, k: int) -> list:
    state, recent, answers = None, [], []
    for x in bins:
        h, state = step(x, state)
        recent = [*recent, h][-k:]
        answers.append(answer(recent))
    return answers


def _loop(
    carry: Callable = lambda h, state: state,
    keep: Callable = lambda h, state: h,
    read: Callable = lambda kept, k: kept[-k:],
) -> Callable:
    """The right loop with a mistake in what goes into the next step, what is kept, or what of it is answered from."""

    def stream(bins: list, step: Callable, answer: Callable, k: int) -> list:
        carried, kept, answers = None, [], []
        for x in bins:
            h, state = step(x, carried)
            carried = carry(h, state)
            kept.append(keep(h, state))
            answers.append(answer(read(kept, k)))
        return answers

    return stream


def _toy_step(x: Tensor, state: Tensor | None) -> tuple[Tensor, Tensor]:
    """A memory whose output is not its state, as that of an LSTM is not."""
    state = 0.5 * (torch.zeros(2) if state is None else state) + x
    return torch.tanh(state), state


def _toy_answer(recent: list) -> Tensor:
    """Newer states weigh more, and how many there are can be told."""
    if not len(recent):
        raise ValueError("`answer` was given an empty list, where at least the state of this bin belongs")
    weight = 2.0 ** -torch.arange(len(recent) - 1, -1, -1.0)
    return weight @ torch.stack(list(recent)) / weight.sum()


def _observe_stream(function: Callable, bins: list, k: int) -> Any:
    answers = function(bins, _toy_step, _toy_answer, k)
    if isinstance(answers, list | tuple) and all(isinstance(a, Tensor) for a in answers):
        return torch.stack(list(answers)) if answers else torch.empty(0, 2)
    return answers


def _inputs(n: int) -> list:
    return list(torch.randn(n, 2, generator=torch.Generator().manual_seed(13)).unbind())


stream = Check(
    "stream",
    reference=_stream,
    cases=[
        Case("a single bin", lambda: (_inputs(1), 3), _observe_stream),
        Case("five bins and k = 1", lambda: (_inputs(5), 1), _observe_stream),
        Case("two bins, fewer than k = 3", lambda: (_inputs(2), 3), _observe_stream),
        Case("eight bins and k = 3", lambda: (_inputs(8), 3), _observe_stream),
    ],
    traps={
        "every bin begins with an empty memory: the state that `step` returns must go into the next `step`.": (
            _loop(carry=lambda h, state: None)
        ),
        "the hidden state h went into the next `step`. What is carried on is the second thing that `step` returns.": (
            _loop(carry=lambda h, state: h)
        ),
        "`answer` reads what is carried on. It wants the hidden states h, the first thing that `step` returns.": (
            _loop(keep=lambda h, state: state)
        ),
        "there is no answer before k states are known. In the first bins `answer` takes as many as there are.": (
            lambda bins, step, answer, k: _stream(bins, step, answer, k)[k - 1 :]
        ),
        "the last states stand newest first. `answer` wants them oldest first.": (
            _loop(read=lambda states, k: states[-k:][::-1])
        ),
        "these are the first k states, not the last k: what is dropped must be the oldest.": (
            _loop(read=lambda states, k: states[:k])
        ),
        "`answer` gets all states there have ever been. At a rig that list would grow all day: keep the last k.": (
            _loop(read=lambda states, k: states)
        ),
        "k - 1 states reach `answer`. This bin's is one of the k.": _loop(read=lambda h, k: h[-max(1, k - 1) :]),
        "before there are k states the list is filled up with zeros. A zero is a state too, and is read: give "
        "`answer` only what there is.": (
            _loop(read=lambda states, k: [torch.zeros(2)] * (k - len(states)) + states[-k:])
        ),
        "the answer is one bin late: the state of this bin joins the others before `answer` is asked.": (
            _loop(read=lambda states, k: states[:-1][-k:] or states)
        ),
    },
)


# Exercise 13.2: times since the bin began, in float32


def _offsets(time_s: Tensor, bin: Tensor, width: float) -> Tensor:
    return (time_s - bin.double() * width).float()


offsets_in_bin = Check(
    "offsets_in_bin",
    reference=_offsets,
    cases=[
        Case(
            "the first three bins",
            lambda: (torch.tensor([0.01, 0.052, 0.149], dtype=torch.float64), torch.tensor([0, 1, 2]), 0.05),
            tolerance=1e-7,
        ),
        Case(
            "a spike right on the edge of its bin",
            lambda: (torch.tensor([0.15, 0.35], dtype=torch.float64), torch.tensor([3, 7]), 0.05),
            tolerance=1e-7,
        ),
        Case(
            "bins after an hour",
            lambda: (
                torch.tensor([3600.0123, 3600.051], dtype=torch.float64),
                torch.tensor([72_000, 72_001]),
                0.05,
            ),
            tolerance=1e-7,
        ),
        Case(
            "the millionth bin",
            lambda: (torch.tensor([50_000.0371], dtype=torch.float64), torch.tensor([1_000_000]), 0.05),
            tolerance=1e-7,
        ),
    ],
    traps={
        "the times were rounded to float32 before the start of the bin was taken off. Subtract first, round last.": (
            lambda time_s, bin, width: time_s.float() - (bin.double() * width).float()
        ),
        "a tensor of whole numbers times 0.05 is float32 in torch, so the starts of the bins are rounded: make it "
        "`bin.double()` first.": lambda time_s, bin, width: (time_s - bin * width).float(),
        "the remainder of a division puts a spike on an edge at the end of the bin before: 0.15 % 0.05 is 0.04999... "
        "You know the bin, so subtract its start.": lambda time_s, bin, width: (time_s % width).float(),
        "the result is float64. Here it is rounded at the end, for a network that calculates in float32.": (
            lambda time_s, bin, width: time_s - bin.double() * width
        ),
    },
)


# Exercise 13.3: how late is late


def _report(step_ms: Tensor, deadline_ms: float) -> tuple:
    n = len(step_ms)
    ordered = step_ms.sort().values
    return ordered[(n + 1) // 2 - 1], ordered[-(-99 * n // 100) - 1], (step_ms > deadline_ms).double().mean().item()


def _with(**changed: Callable) -> Callable:
    """The right report with one of its three numbers wrong."""

    def report(step_ms: Tensor, deadline_ms: float) -> tuple:
        right = dict(zip(("median", "p99", "late"), _report(step_ms, deadline_ms), strict=True))
        return tuple((right | {key: f(step_ms, deadline_ms) for key, f in changed.items()}).values())

    return report


def _in_float32(function: Callable, step_ms: Tensor, deadline_ms: float) -> Any:
    result = function(step_ms, deadline_ms)
    return tuple(float(x) for x in result) if isinstance(result, tuple | list) else result


def _times(n: int, slow: dict[int, float]) -> Tensor:
    times = 0.2 + 0.1 * torch.rand(n, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    for place, value in slow.items():
        times[place] = value
    return times


def _staircase() -> Tensor:
    """200 times in disorder, so far apart that neighbours differ; the middle two are one, for any kind of median."""
    times = torch.arange(1.0, 201.0, dtype=torch.float64)
    times[100] = times[99]
    return times[torch.randperm(200, generator=torch.Generator().manual_seed(3))]


latency_report = Check(
    "latency_report",
    reference=_report,
    cases=[
        Case("101 steps that are about alike", lambda: (_times(101, {}), 50.0), _in_float32),
        Case(
            "501 steps, seven of them slow",
            lambda: (_times(501, {70 * i + 5: 60.0 + i for i in range(7)}), 50.0),
            _in_float32,
        ),
        Case("a step of just the 50 ms it may take", lambda: (_times(101, {4: 50.0, 9: 51.0}), 50.0), _in_float32),
        Case("200 steps of 1 ms, 2 ms and so on", lambda: (_staircase(), 150.5), _in_float32, tolerance=1e-3),
    ],
    traps={
        "the 99th percentile is one place too far: of 200 sorted times the 198th, at place 197, is the first that 99 % "
        "do not exceed.": _with(p99=lambda x, d: x.sort().values[int(0.99 * len(x))]),
        "the first number is the mean. A few slow steps pull it up; the median is the middle of the sorted times.": (
            _with(median=lambda x, d: x.mean())
        ),
        "the 99th percentile is the largest time of all. One in a hundred is slower than it.": (
            _with(p99=lambda x, d: x.max())
        ),
        "the 99th percentile is taken from times that are not sorted.": (
            _with(p99=lambda x, d: x[int(0.99 * len(x)) - 1])
        ),
        "this 99th percentile is mean + 2.33 standard deviations, which holds of a bell curve. Step times are none: "
        "sort and count.": _with(p99=lambda x, d: x.mean() + 2.326 * x.std()),
        "the last number is a count. A share is wanted: divide by the number of steps.": (
            _with(late=lambda x, d: float((x > d).sum()))
        ),
        "the last number is a percentage. A share between 0 and 1 is wanted.": (
            _with(late=lambda x, d: 100 * (x > d).double().mean().item())
        ),
        "a step that takes exactly as long as it may is not late.": (
            _with(late=lambda x, d: (x >= d).double().mean().item())
        ),
    },
)


# Exercise 13.4: 25 ms of waiting for the end of the bin, 1 ms of computing, 25 ms until half of the held 50 ms are over

mean_age_ms = ValueCheck(
    "mean_age_ms",
    expected=51,
    tolerance=0.5,
    traps={
        "half a bin is missing: a spike waits for the end of its bin, *and* the velocity is held for a whole bin.": 26,
        "that is the worst case. On average a spike waits half a bin, and the velocity is used half a bin later.": 101,
        "only the computing is counted. It is the smallest part: the spike waits, and then the answer is held.": 1,
        "the 1 ms of computing is missing. It is little, but it is a part of (13.3).": 50,
        "one of the two is counted in full. Both average to half a bin.": 76,
    },
)


# Exercise 13.5: the user


def _intention(cursor: Tensor, target: Tensor, delay: int, gain: float, max_speed: float) -> Tensor:
    return _towards(target - cursor[max(0, len(cursor) - 1 - delay)], gain, max_speed)


def _towards(way: Tensor, gain: float, max_speed: float) -> Tensor:
    speed = gain * way.norm()
    return gain * way * (max_speed / speed if speed > max_speed else 1.0)


def _seen(place: Callable[[int, int], int]) -> Callable:
    """A user who sees the entry `place(len(cursor), delay)` of the path."""
    return lambda cursor, target, delay, gain, max_speed: _towards(
        target - cursor[place(len(cursor), delay)], gain, max_speed
    )


def _per_axis(cursor: Tensor, target: Tensor, delay: int, gain: float, max_speed: float) -> Tensor:
    return (gain * (target - cursor[max(0, len(cursor) - 1 - delay)])).clamp(-max_speed, max_speed)


_PATH = [[0.0, 0.0], [3.0, 1.0], [8.0, 2.0], [15.0, 6.0], [21.0, 12.0], [26.0, 20.0]]


def _user(target: tuple[float, float], delay: int, gain: float = 2.0, max_speed: float = 400.0, n: int = 6) -> Callable:
    return lambda: (torch.tensor(_PATH[:n]), torch.tensor(target), delay, gain, max_speed)


intention = Check(
    "intention",
    reference=_intention,
    cases=[
        Case("a user who sees without delay", _user((30.0, 10.0), 0)),
        Case("a delay of two moments", _user((30.0, 10.0), 2)),
        Case("a path that is shorter than the delay", _user((30.0, 10.0), 4, n=3)),
        Case("a target so far away that the speed is limited", _user((300.0, 100.0), 2)),
    ],
    traps={
        "the user acts on where the cursor is, not on what is seen: the newest entry reaches the eye `delay` moments "
        "later.": _seen(lambda n, delay: n - 1),
        "you are one moment off: with delay 0 the newest entry, cursor[-1], is what is seen.": (
            _seen(lambda n, delay: max(0, n - 2 - delay))
        ),
        "while the path is shorter than the delay, a negative place counts from the end: the user would see the "
        "future. Then the first entry is seen.": _seen(lambda n, delay: n - 1 - delay),
        "that is the entry number `delay` from the start of the path. Count from its end.": (
            _seen(lambda n, delay: min(delay, n - 1))
        ),
        "cursor[-delay] with delay 0 is cursor[0], the first entry, and from then on you are one moment early: count "
        "from len(cursor).": _seen(lambda n, delay: -delay if delay <= n else 0),
        "this is always the largest speed. Shorten the velocity only where it is longer than `max_speed`.": (
            lambda *a: _intention(*a[:3], 1e9, a[4])
        ),
        "`gain` does not come in: the velocity is the way that is left, times the gain.": (
            lambda *a: _intention(*a[:3], 1.0, a[4])
        ),
        "x and y are limited separately, which bends the direction. Limit the length of the vector.": _per_axis,
        "the user runs away from the target: the way is target minus cursor.": lambda *a: -_intention(*a),
        "nothing limits the speed.": lambda *a: _intention(*a[:4], float("inf")),
    },
)
