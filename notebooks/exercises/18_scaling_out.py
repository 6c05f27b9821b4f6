"""Exercises of chapter 18: the gradient of a whole batch, bytes sent, the windows of a process, angles in few digits, a
limit, and a ring of processes."""

import math
from functools import partial

import torch

from possm_lite.classroom.checks import Case, Check, ValueCheck, normal

# Exercise 18.1: the gradient of the whole from those of its parts


def _weighted_sum(gradients, weights):
    return sum(w * g for w, g in zip(weights, gradients, strict=True))


def _whole_gradient(gradients, n_samples):
    filled = [i for i, n in enumerate(n_samples) if n]  # the gradient of no samples is NaN
    return _weighted_sum([gradients[i] for i in filled], [n_samples[i] for i in filled]) / sum(n_samples)


def _parts(*n_samples, shape=(4,)):
    def make():
        gradients = [normal(*shape, seed=i) for i in range(len(n_samples))]
        return [g if n else g * torch.nan for g, n in zip(gradients, n_samples, strict=True)], [*n_samples]

    return make


whole_gradient = Check(
    "whole_gradient",
    reference=_whole_gradient,
    cases=[
        Case("two parts of 5 samples each", _parts(5, 5)),
        Case("parts of 30 and 10 samples", _parts(30, 10)),
        Case("three parts of 7, 1 and 2 samples, a matrix as gradient", _parts(7, 1, 2, shape=(2, 3))),
        Case("a part without samples, whose gradient is NaN", _parts(6, 0, 3)),
        Case("no samples in the first part", _parts(0, 6, 3)),
    ],
    traps={
        "this is the plain mean of the gradients: a sample of a small part then counts for more than one of a large "
        "part. Weigh each gradient by its samples.": lambda g, n: sum(g) / len(g),
        "this is the sum of the gradients. Each is a mean already, so their sum is too long, by the number of parts "
        "where these are equal.": lambda g, n: sum(g),
        "you undo the means and add up, but do not divide by the number of all samples.": _weighted_sum,
        "you divide by the number of parts. Divide by the number of all samples.": (
            lambda g, n: _weighted_sum(g, n) / len(n)
        ),
        "divided twice: once by all samples, and by the number of parts as well.": (
            lambda g, n: _weighted_sum(g, n) / sum(n) / len(n)
        ),
        "the weights are the wrong way round: the part with *more* samples must weigh more, and yours weighs "
        "less.": lambda g, n: _weighted_sum(g, [1 / k if k else 0 for k in n]) / sum(1 / k for k in n if k),
        "a part without samples spoils all: 0 times NaN is NaN. Leave such a part out.": (
            lambda g, n: _weighted_sum(g, n) / sum(n)
        ),
    },
)


# Exercise 18.2: what a process sends


def _sent(n_numbers, n_processes, bytes_each, *, gradients_sent=lambda n: 2 * (n - 1) / n):
    return gradients_sent(n_processes) * n_numbers * bytes_each


sent_bytes = Check(
    "sent_bytes",
    reference=_sent,
    cases=[
        Case("1,000 numbers of 4 bytes and 5 processes", lambda: (1000, 5, 4), tolerance=1e-9),
        Case("two processes", lambda: (1000, 2, 4), tolerance=1e-9),
        Case("sixteen processes", lambda: (4800, 16, 4), tolerance=1e-9),
        Case("numbers of 2 bytes", lambda: (4800, 3, 2), tolerance=1e-9),
        Case("a single process, which has nothing to send", lambda: (1000, 1, 4), tolerance=1e-9),
    ],
    traps={
        "that is only one way. The sums must go round a second time, so that every process has them: twice the "
        "rounds.": partial(_sent, gradients_sent=lambda n: (n - 1) / n),
        "n times too much: in a round a process sends one *chunk*, an n-th of the gradient, and not all of "
        "it.": partial(_sent, gradients_sent=lambda n: 2 * (n - 1)),
        "that is sent and received together. How much does each *send*?": (
            partial(_sent, gradients_sent=lambda n: 4 * (n - 1) / n)
        ),
        "that would be the whole gradient from each process to every other. In a ring a process sends one chunk a "
        "round.": partial(_sent, gradients_sent=lambda n: n - 1),
        "nearly: a process does not send in n rounds, but in n - 1 each way. With one process nothing is sent at "
        "all.": partial(_sent, gradients_sent=lambda n: 2.0),
        "these are numbers, not bytes.": lambda n_numbers, n_processes, bytes_each: _sent(n_numbers, n_processes, 1),
        "one round too many: there are 2 (n - 1), n - 1 for the sums and n - 1 for passing them on.": (
            partial(_sent, gradients_sent=lambda n: (2 * n - 1) / n)
        ),
        "these are bits: eight times the bytes.": partial(_sent, gradients_sent=lambda n: 16 * (n - 1) / n),
    },
)


# Exercise 18.3: the windows of a process


def _draw(seed, n, room_s):
    return torch.rand(n, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) * room_s


def _windows(seed, n, room_s, rank, size, *, own=lambda starts, rank, size: starts.tensor_split(size)[rank]):
    return own(_draw(seed, n, room_s), rank, size)


def _equal_parts(starts, rank, size):
    n = len(starts) // size
    return starts[rank * n : (rank + 1) * n]


def _rest_to_the_last(starts, rank, size):
    return starts[rank * (len(starts) // size) :] if rank == size - 1 else _equal_parts(starts, rank, size)


def _all_ranks(function, seed, n, room_s, size):
    return tuple(function(seed, n, room_s, rank, size) for rank in range(size))


def _processes(size, n, seed=3, room_s=600.0):
    return lambda: (seed, n, room_s, size)


my_windows = Check(
    "my_windows",
    reference=_windows,
    cases=[
        Case("one process", _processes(1, 6), _all_ranks, 1e-9),
        Case("two processes and 8 windows", _processes(2, 8), _all_ranks, 1e-9),
        Case("another seed", _processes(2, 8, seed=4), _all_ranks, 1e-9),
        Case("a part of 90 s", _processes(2, 8, room_s=90.0), _all_ranks, 1e-9),
        Case("three processes and 8 windows", _processes(3, 8), _all_ranks, 1e-9),
        Case("four processes and 64 windows", _processes(4, 64), _all_ranks, 1e-9),
        Case("six processes and 16 windows", _processes(6, 16), _all_ranks, 1e-9),
    ],
    traps={
        "the seed depends on the rank, so other windows are drawn when the number of processes changes. Let every "
        "process draw all, and take its own.": lambda seed, n, room, rank, size: _draw(seed + rank, n // size, room),
        "all processes draw the same windows: the work is done twice, and the batch is smaller than it says.": (
            lambda seed, n, room_s, rank, size: _draw(seed, n // size, room_s)
        ),
        "every process cuts all windows, so nothing is shared out.": (
            partial(_windows, own=lambda starts, rank, size: starts)
        ),
        "windows are lost where their number is no multiple of the processes: 8 windows are 3, 3 and 2, not 2, 2 and "
        "2.": partial(_windows, own=_equal_parts),
        "the batch is right, but you deal it out like cards. Neighbours are from one session: keep them together, or "
        "every process must hold every session.": partial(_windows, own=lambda starts, rank, size: starts[rank::size]),
        "the draws are right, but the seed is not used for them: they must depend on it, and on nothing else.": (
            lambda seed, *rest: _windows(3, *rest)
        ),
        "`chunk` rounds up, so the last process gets too little, or nothing: 16 windows of six processes are 3, 3, 3, "
        "3, 2 and 2.": partial(_windows, own=lambda starts, rank, size: starts.chunk(size)[rank]),
        "the last process gets all that is left over. The first ones take one more each: 3, 3, 2.": (
            partial(_windows, own=_rest_to_the_last)
        ),
    },
)


# Exercise 18.4: cosine and sine of a large angle in few digits


def _cos_sin(time_s, omega, dtype, *, angle=lambda t, w, dtype: t[:, None] * w):
    angle = angle(time_s, omega, dtype)  # (N, F)
    return angle.cos().to(dtype), angle.sin().to(dtype)


def _times(dtype, periods_s, latest_s=0.05):
    omega = 2 * math.pi / torch.tensor(periods_s, dtype=torch.float64)
    return lambda: (torch.linspace(0.001, latest_s, 40, dtype=torch.float64), omega.clone(), dtype)


def _dtypes(function, *args):
    return " and ".join(str(x.dtype) for x in function(*args))


_BF16 = 0.005  # neighbours just below one are 0.0039 apart

cos_sin = Check(
    "cos_sin",
    reference=_cos_sin,
    cases=[
        Case("slow phasors in float32", _times(torch.float32, (0.2, 1.0))),
        Case("slow phasors in bfloat16", _times(torch.bfloat16, (0.2, 1.0)), tolerance=_BF16),
        Case("a phasor of 0.1 ms in bfloat16", _times(torch.bfloat16, (1e-4, 3e-3)), tolerance=_BF16),
        Case("a phasor of 0.1 ms in float32", _times(torch.float32, (1e-4, 3e-3)), tolerance=2e-6),
        Case("a phasor of 0.1 ms, ten minutes later", _times(torch.bfloat16, (1e-4, 3e-3), 600.0), tolerance=_BF16),
        Case("the dtypes", _times(torch.bfloat16, (0.2, 1.0)), _dtypes),
    ],
    traps={
        "the angle is computed in the small format: at 3,000 rad neighbours in bfloat16 are 16 rad apart. Cast cosine "
        "and sine, not the angle.": partial(_cos_sin, angle=lambda t, w, dtype: t.to(dtype)[:, None] * w.to(dtype)),
        "the product is exact, but it is rounded to the small format before the cosine: an angle of 3,000 rad is then "
        "up to 8 rad off.": partial(_cos_sin, angle=lambda t, w, dtype: (t[:, None] * w).to(dtype)),
        "you subtract whole cycles, but then round the angle. Up to 6 rad are left, where neighbours in bfloat16 are "
        "0.03 rad apart: cast the cosine and the sine.": (
            partial(_cos_sin, angle=lambda t, w, dtype: (t[:, None] * w).remainder(2 * math.pi).to(dtype))
        ),
        "the frequency is rounded to the small format, and its error is multiplied by the time. Keep it in float64 "
        "as well.": partial(_cos_sin, angle=lambda t, w, dtype: t[:, None] * w.to(dtype).double()),
        "the angle is computed in float32. That is enough for a bin in bfloat16, but not for one in float32, nor for "
        "ten minutes: use float64 until cosine and sine.": (
            partial(_cos_sin, angle=lambda t, w, dtype: t.float()[:, None] * w.float())
        ),
        "cosine and sine stay float64: cast them to `dtype` at the end.": (
            lambda time_s, omega, dtype: _cos_sin(time_s, omega, torch.float64)
        ),
        "cosine and sine are exchanged: the cosine comes first.": lambda *args: _cos_sin(*args)[::-1],
    },
)


# Exercise 18.5: when the exchange takes longer than the computing

_PER_SESSION = 200 * 64 * 4  # bytes; 2 (n - 1) / n is 1 for two processes

sessions_at_half = ValueCheck(
    "sessions_at_half",
    expected=0.2 * 1e9 / 8 / _PER_SESSION,
    tolerance=3.0,
    traps={
        "a network's bits are not bytes: 1 Gbit/s is 125 million bytes a second.": 0.2 * 1e9 / _PER_SESSION,
        "each process sends 2 (n - 1) / n times the gradient: with two processes that is once, not twice.": (
            0.2 * 1e9 / 8 / _PER_SESSION / 2
        ),
        "with two processes 2 (n - 1) / n is 1, not a half: the sums go round, and then once more.": (
            0.2 * 1e9 / 8 / _PER_SESSION * 2
        ),
        "a float32 has four bytes.": 0.2 * 1e9 / 8 / (200 * 64),
        "that many *units*. A session has 200 of them.": 0.2 * 1e9 / 8 / (64 * 4),
    },
)


# Exercise 18.6: a ring of processes


def _ring(buffers, *, first=lambda r, i, n: (r - i) % n, second=lambda r, i, n: (r + 1 - i) % n, last=None, add=False):
    """`first` and `second` are the chunks that process r sends in round i of each half; `last` rounds in the second."""
    n = len(buffers)
    chunks = [[c.clone() for c in b.tensor_split(n)] for b in buffers]  # [process][chunk]
    sent = [0] * n
    for half, chunk_of in enumerate((first, second)):
        for i in range(n - 1 if last is None or not half else last):
            messages = [chunks[r][chunk_of(r, i, n)].clone() for r in range(n)]
            for r, message in enumerate(messages):
                right, c = (r + 1) % n, chunk_of(r, i, n)
                chunks[right][c] = chunks[right][c] + message if add or not half else message
                sent[r] += message.nbytes
    return [torch.cat(own) for own in chunks], sent


def _all_at_once(buffers, *, total=sum):
    _, sent = _ring(buffers)
    return [total(buffers) for _ in buffers], sent


def _sums(function, *args):
    """What each process ends up with, (n, length)."""
    result = function(*args)
    if not isinstance(result, tuple | list) or len(result) != 2:
        return result
    return torch.stack([x.double() for x in result[0]])


def _bytes(function, *args):
    """What each process has sent, (n,)."""
    result = function(*args)
    if not isinstance(result, tuple | list) or len(result) != 2:
        return result
    return torch.tensor([float(x) for x in result[1]])


def _buffers(n, length, dtype=torch.float32):
    return lambda: ([normal(length, seed=r).to(dtype) for r in range(n)],)


def _order_shows():
    """Numbers of which some sums in float32 depend on the order."""
    generator = torch.Generator().manual_seed(18)
    size = 10.0 ** torch.tensor([7, 0, 7, 0])
    return ([size[r] * (-1) ** (r // 2) * (1 + torch.rand(8, generator=generator)) for r in range(4)],)


ring_all_reduce = Check(
    "ring_all_reduce",
    reference=_ring,
    cases=[
        Case("the sums of two processes", _buffers(2, 6), _sums),
        Case("what two processes send", _buffers(2, 6), _bytes),
        Case("the sums of three processes", _buffers(3, 6), _sums),
        Case("what three processes send", _buffers(3, 6), _bytes),
        Case("the sums of five processes", _buffers(5, 20), _sums),
        Case("what five processes send, with chunks of unequal length", _buffers(5, 13), _bytes),
        Case("the sums of five processes, with chunks of unequal length", _buffers(5, 13), _sums),
        Case("numbers of 8 bytes", _buffers(3, 6, torch.float64), _bytes),
        Case("a single process", _buffers(1, 4), _sums),
        Case("fewer numbers than processes", _buffers(4, 3), _sums),
        Case("sums in float32, in the order in which chunks travel", _order_shows, _sums, tolerance=0.0),
    ],
    traps={
        "each process has one complete chunk, and its others are parts of sums. A second half of n - 1 rounds must "
        "pass the complete ones on.": partial(_ring, last=0),
        "the last round is missing: each half has n - 1 rounds.": (
            lambda buffers: _ring(buffers, last=max(len(buffers) - 2, 0))
        ),
        "in the second half a chunk that arrives is complete. It replaces the own one; do not add it again.": (
            partial(_ring, add=True)
        ),
        "this is the mean. An all-reduce gives the sum.": (
            lambda buffers: ([x / len(buffers) for x in _ring(buffers)[0]], _ring(buffers)[1])
        ),
        "the second half begins with the chunk of the first half. Process r has chunk r + 1 complete: send that.": (
            partial(_ring, second=lambda r, i, n: (r - i) % n)
        ),
        "these are numbers, not bytes: `tensor.nbytes`, or `tensor.numel() * tensor.element_size()`.": (
            lambda buffers: (
                _ring(buffers)[0],
                [x // buffers[0].element_size() for x in _ring(buffers)[1]],
            )
        ),
        "only half of the bytes are counted: chunks travel in both halves.": (
            lambda buffers: (_ring(buffers)[0], _ring(buffers, last=0)[1])
        ),
        "the sums are right to the eye, but not in the order of the ring: were all buffers added at once? Let each "
        "chunk travel, and each process add its own.": _all_at_once,
        "the sums are right, but each process sends a whole buffer in every round. Send one chunk.": (
            lambda buffers: (
                _ring(buffers)[0],
                [2 * (len(buffers) - 1) * b.nbytes for b in buffers],
            )
        ),
    },
)
