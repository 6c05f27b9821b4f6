"""Exercises of chapter 17: gradients put together, bytes sent, windows dealt out, angles in few digits, a limit."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from possm_lite.classroom.checks import Case, Check, ValueCheck, normal
from possm_lite.classroom.training_cost import ring_bytes as bytes_of_ring

# Exercise 17.1: the gradient of the whole from those of its parts


def _whole_gradient(gradients: list[Tensor], n_samples: list[int]) -> Tensor:
    total = torch.zeros_like(gradients[0])
    for gradient, n in zip(gradients, n_samples, strict=True):
        if n > 0:
            total = total + gradient * n
    return total / sum(n_samples)


def _weights_turned_round(gradients: list[Tensor], n_samples: list[int]) -> Tensor:
    inverse = [1 / n if n else 0.0 for n in n_samples]
    return sum(w * g for w, g in zip(inverse, gradients, strict=True)) / sum(inverse)


def _parts(*n_samples: int, shape: tuple[int, ...] = (4,)) -> Callable[[], tuple]:
    def make() -> tuple:
        gradients = [normal(*shape, seed=i) for i in range(len(n_samples))]
        # the mean over no samples is 0/0
        return [g if n else torch.full(shape, torch.nan) for g, n in zip(gradients, n_samples, strict=True)], [
            *n_samples
        ]

    return make


whole_gradient = Check(
    "whole_gradient",
    reference=_whole_gradient,
    cases=[
        Case("two parts of 5 samples each", _parts(5, 5)),
        Case("parts of 30 and 10 samples", _parts(30, 10)),
        Case("three parts of 7, 1 and 2 samples, a matrix as gradient", _parts(7, 1, 2, shape=(2, 3))),
        Case("a part without samples, whose gradient is NaN", _parts(6, 0, 3)),
    ],
    traps={
        "this is the plain mean of the gradients: a sample of a small part then counts for more than one of a large "
        "part. Weigh each gradient by its samples.": lambda g, n: torch.stack(g).mean(0),
        "this is the sum of the gradients. Each is a mean already, so their sum is too long, by the number of parts "
        "where these are equal.": lambda g, n: torch.stack(g).sum(0),
        "you undo the means and add up, but do not divide by the number of all samples.": lambda g, n: sum(
            w * x for w, x in zip(n, g, strict=True)
        ),
        "you divide by the number of parts. Divide by the number of all samples.": lambda g, n: (
            sum(w * x for w, x in zip(n, g, strict=True)) / len(n)
        ),
        "divided twice: once by all samples, and by the number of parts as well.": lambda g, n: (
            sum(w * x for w, x in zip(n, g, strict=True)) / sum(n) / len(n)
        ),
        "the weights are the wrong way round: the part with *more* samples must weigh more.": _weights_turned_round,
        "a part without samples spoils all: 0 times NaN is NaN. Leave such a part out.": lambda g, n: (
            sum(w * x for w, x in zip(n, g, strict=True)) / sum(n)
        ),
    },
)


# Exercise 17.2: what a process sends


def _sent(n_numbers: int, n_processes: int, bytes_each: int) -> float:
    return bytes_of_ring(n_numbers * bytes_each, n_processes)


def _times(factor: Callable[[int], float]) -> Callable:
    return lambda n_numbers, n_processes, bytes_each: factor(n_processes) * n_numbers * bytes_each


sent_bytes = Check(
    "sent_bytes",
    reference=_sent,
    cases=[
        Case("1,000 numbers of 4 bytes and 4 processes", lambda: (1000, 4, 4), tolerance=1e-9),
        Case("two processes", lambda: (1000, 2, 4), tolerance=1e-9),
        Case("sixteen processes", lambda: (4800, 16, 4), tolerance=1e-9),
        Case("numbers of 2 bytes", lambda: (4800, 3, 2), tolerance=1e-9),
        Case("one process, who has nobody to send to", lambda: (1000, 1, 4), tolerance=1e-9),
    ],
    traps={
        "that is one way only. The sums must go round a second time, so that all have them: twice the rounds.": _times(
            lambda n: (n - 1) / n
        ),
        "n times too much: a round moves one *chunk*, an n-th of the gradient, not all of it.": _times(
            lambda n: 2 * (n - 1)
        ),
        "that would be everybody's whole gradient to everybody else. In a ring a process sends one chunk a round.": (
            _times(lambda n: n - 1)
        ),
        "nearly: a process never sends in n rounds, but in n - 1 each way. With one process nothing is sent at "
        "all.": _times(lambda n: 2.0),
        "these are numbers, not bytes.": lambda n_numbers, n_processes, bytes_each: _sent(n_numbers, n_processes, 1),
        "one round too many: there are 2 (n - 1), n - 1 for the sums and n - 1 for passing them on.": _times(
            lambda n: (2 * n - 1) / n
        ),
        "these are bits: eight times the bytes.": _times(lambda n: 16 * (n - 1) / n),
    },
)


# Exercise 17.3: the windows of a process


def _drawn(seed: int, n: int, room_s: float) -> Tensor:
    return torch.rand(n, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) * room_s


def _my_windows(seed: int, n: int, room_s: float, rank: int, size: int) -> Tensor:
    return _drawn(seed, n, room_s).tensor_split(size)[rank]


def _of_all(function: Callable, seed: int, n: int, room_s: float, size: int) -> Any:
    """What each of the processes cuts."""
    return tuple(function(seed, n, room_s, rank, size) for rank in range(size))


def _crew(size: int, n: int, seed: int = 3) -> Callable[[], tuple]:
    return lambda: (seed, n, 600.0, size)


my_windows = Check(
    "my_windows",
    reference=_my_windows,
    cases=[
        Case("one process", _crew(1, 6), _of_all, 1e-9),
        Case("two processes and 8 windows", _crew(2, 8), _of_all, 1e-9),
        Case("another seed", _crew(2, 8, seed=4), _of_all, 1e-9),
        Case("three processes and 8 windows", _crew(3, 8), _of_all, 1e-9),
        Case("four processes and 64 windows", _crew(4, 64), _of_all, 1e-9),
        Case("six processes and 16 windows", _crew(6, 16), _of_all, 1e-9),
    ],
    traps={
        "the seed depends on the rank, so other windows are drawn when the number of processes changes. Let every "
        "process draw all, and take its own.": lambda seed, n, room_s, rank, size: _drawn(
            seed + rank, n // size, room_s
        ),
        "all processes draw the same windows: the work is done twice, and the batch is smaller than it says.": (
            lambda seed, n, room_s, rank, size: _drawn(seed, n // size, room_s)
        ),
        "every process cuts all windows, so nothing is shared out.": lambda seed, n, room_s, rank, size: _drawn(
            seed, n, room_s
        ),
        "windows are lost where their number is no multiple of the processes: 8 windows are 3, 3 and 2, not 2, 2 and "
        "2.": lambda seed, n, room_s, rank, size: _drawn(seed, n, room_s)[
            rank * (n // size) : (rank + 1) * (n // size)
        ],
        "the batch is right, but you deal it out like cards. Neighbours are of one session: keep them together, or "
        "every process must hold every session.": lambda seed, n, room_s, rank, size: _drawn(seed, n, room_s)[
            rank::size
        ],
        "the draws are right, the seed is not used for them: they must depend on it, and on nothing else.": (
            lambda seed, n, room_s, rank, size: _my_windows(3, n, room_s, rank, size)
        ),
        "`chunk` rounds up, so the last process gets too little, or nothing: 16 windows of six processes are 3, 3, 3, "
        "3, 2 and 2.": lambda seed, n, room_s, rank, size: _drawn(seed, n, room_s).chunk(size)[rank],
        "the last process gets all that is left over. The first ones take one more each: 3, 3, 2.": (
            lambda seed, n, room_s, rank, size: _drawn(seed, n, room_s)[
                rank * (n // size) : None if rank == size - 1 else (rank + 1) * (n // size)
            ]
        ),
    },
)


# Exercise 17.4: hands of clocks in few digits


def _hands(time_s: Tensor, omega: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    angle = time_s[:, None] * omega
    return angle.cos().to(dtype), angle.sin().to(dtype)


def _angle_in(cast: Callable) -> Callable:
    """The same with the angle computed otherwise."""

    def hands(time_s: Tensor, omega: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        angle = cast(time_s, omega, dtype)
        return angle.cos().to(dtype), angle.sin().to(dtype)

    return hands


def _asked(dtype: torch.dtype, periods_s: tuple[float, ...], latest_s: float = 0.05) -> Callable[[], tuple]:
    def make() -> tuple:
        omega = 2 * math.pi / torch.tensor(periods_s, dtype=torch.float64)
        return torch.linspace(0.001, latest_s, 40, dtype=torch.float64), omega, dtype

    return make


_BF16 = 0.005  # neighbours just below one are 0.0039 apart

hands = Check(
    "hands",
    reference=_hands,
    cases=[
        Case("slow hands in float32", _asked(torch.float32, (0.2, 1.0))),
        Case("slow hands in bfloat16", _asked(torch.bfloat16, (0.2, 1.0)), tolerance=_BF16),
        Case("a hand of 0.1 ms in bfloat16", _asked(torch.bfloat16, (1e-4, 3e-3)), tolerance=_BF16),
        Case("a hand of 0.1 ms in float32", _asked(torch.float32, (1e-4, 3e-3)), tolerance=2e-6),
        Case("a hand of 0.1 ms, ten minutes later", _asked(torch.bfloat16, (1e-4, 3e-3), 600.0), tolerance=_BF16),
    ],
    traps={
        "the angle is computed in the small format: at 3,000 rad neighbours in bfloat16 are 16 rad apart. Cast the "
        "cosine and the sine, not what goes into them.": _angle_in(
            lambda t, w, dtype: t.to(dtype)[:, None] * w.to(dtype)
        ),
        "the product is exact, but its result is rounded to the small format before the cosine: an angle of 3,000 rad "
        "then lies up to 8 rad beside.": _angle_in(lambda t, w, dtype: (t[:, None] * w).to(dtype)),
        "you take whole turns off, but then round the angle. Up to 6 rad are left, where neighbours in bfloat16 are "
        "0.03 rad apart: cast the cosine and the sine.": _angle_in(
            lambda t, w, dtype: (t[:, None] * w).remainder(2 * math.pi).to(dtype)
        ),
        "the frequency is rounded to the small format. Its error is multiplied by the time.": _angle_in(
            lambda t, w, dtype: t[:, None] * w.to(dtype).double()
        ),
        "the angle is computed in float32. That does for a bin in bfloat16, but not for one in float32, nor for ten "
        "minutes: stay in float64 until cosine and sine.": _angle_in(
            lambda t, w, dtype: t.float()[:, None] * w.float()
        ),
        "cosine and sine stay float64: cast them to the wanted format at the end.": lambda t, w, dtype: _hands(
            t, w, torch.float64
        ),
        "cosine and sine are exchanged: the cosine comes first.": lambda t, w, dtype: _hands(t, w, dtype)[::-1],
    },
)


# Exercise 17.5: when the exchange takes longer than the computing

_BYTES_OF_A_SESSION = 200 * 64 * 4

sessions_at_half = ValueCheck(
    "sessions_at_half",
    expected=0.2 * 1e9 / 8 / _BYTES_OF_A_SESSION,  # 2 (n - 1) / n is 1 for two processes
    tolerance=3.0,
    traps={
        "a network's bits are not bytes: 1 Gbit/s are 125 million bytes a second.": 0.2 * 1e9 / _BYTES_OF_A_SESSION,
        "each process sends 2 (n - 1) / n times the gradient: with two processes that is once, not twice.": (
            0.2 * 1e9 / 8 / _BYTES_OF_A_SESSION / 2
        ),
        "with two processes 2 (n - 1) / n is 1, not a half: the sums go round, and then once more.": (
            0.2 * 1e9 / 8 / _BYTES_OF_A_SESSION * 2
        ),
        "a float32 has four bytes.": 0.2 * 1e9 / 8 / (200 * 64),
        "that many *units*. A session has 200 of them.": 0.2 * 1e9 / 8 / (64 * 4),
    },
)
