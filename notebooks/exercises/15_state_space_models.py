"""Exercises of chapter 15: a linear convolution through the FFT, zero-order hold, how long a mode lasts, the system as
steps, two steps as one, a scan as a tree."""

from functools import partial

import torch

from possm_lite.course.checks import Case, ValueCheck, exercise, normal

_random = partial(normal, seed=14)


# Exercise 15.1: the convolution with its bug found
def _impulse(n, at):
    return torch.zeros(1, n).index_fill(-1, torch.tensor(at), 1.0)


@exercise(
    tolerance=1e-4,
    cases={
        "an impulse at the first step": lambda: (_impulse(8, 0), _random(1, 8)),
        "an impulse at the last step": lambda: (_impulse(8, 7), _random(1, 8)),
        "three channels": lambda: (_random(3, 8), _random(3, 8, seed=1)),
        "a sequence of odd length": lambda: (_random(2, 7), _random(2, 7, seed=1)),
        "a batch, x (4, 3, 20)": lambda: (_random(4, 3, 20), _random(3, 20, seed=1)),
        "300 steps": lambda: (_random(1, 300), _random(1, 300, seed=1)),
    },
    mistakes={
        "2 * T → T": "the end of the sequence still spills into its beginning: a ring of T slots is too short for it.",
        ", 2 * T)[ → , T)[": "there and back are on two different rings: give irfft the length of rfft, then take T.",
        "[..., :T] → ": "the ring is long enough now, but you returned all of it. The result has T steps, the first.",
        lambda x, kernel: x * kernel: "this multiplies the two sequences step by step. Multiply their transforms.",
    },
)
def convolve(x, kernel):
    """y_t = sum_l K_l x_{t-l} for x (..., T) and kernel (..., T), through the FFT: shape (..., T)."""
    T = x.shape[-1]
    product = torch.fft.rfft(x, 2 * T) * torch.fft.rfft(kernel, 2 * T)
    return torch.fft.irfft(product, 2 * T)[..., :T]


# Exercise 15.2: zero-order hold
def _modes(*a):
    return torch.tensor(a, dtype=torch.complex64)


@exercise(
    cases={
        "a mode that only decays": lambda: (_modes(-0.5), torch.tensor(0.4)),
        "a mode that decays and rotates": lambda: (_modes(-0.5 + 3j), torch.tensor(0.4)),
        "a long step": lambda: (_modes(-1 + 1j, -2.0), torch.tensor(2.0)),
        "two channels with a step each": lambda: (_modes(-1 + 1j, -2.0).repeat(2, 1), _random(2, 1).abs()),
    },
    mistakes={
        ("torch.exp(a * step) → 1 + a * step", "(decay - 1) / a → step * torch.ones_like(a)"): (
            "this is Euler's method: it follows the slope at the start of the step. (15.9) has an exponential."
        ),
        "(decay - 1) / a → decay - 1": (
            "the drive is not divided by a: with x = 1 for ever the state must rest at -1/a."
        ),
        "(decay - 1) → (1 - decay)": "the drive has the wrong sign: a positive input must push the state up at first.",
    },
    results=("the decay", "the drive"),
)
def hold(a, step):
    """decay and drive of (15.9), complex, of the shape of a * step."""
    decay = torch.exp(a * step)
    return decay, (decay - 1) / a


# Exercise 15.3: e^{-step t / 2} = 1/e at t = 2 / step = 20 bins of 50 ms
fades_after_s = ValueCheck(
    "fades_after_s",
    expected=1.0,
    tolerance=0.02,
    mistakes={
        20.0: "20 is the number of bins. How long are 20 bins of 50 ms?",
        2.0: "2 is the time-scale before there are steps, 1/0.5. Each bin is only a step of 0.1 of it.",
        0.5: "the real part is -1/2, not -1: it fades half as fast.",
    },
)


# Exercise 15.4: the system as steps
def _system(*decay):
    n = len(decay)
    return _modes(*decay), torch.complex(_random(n), _random(n, seed=2)), torch.complex(_random(n, seed=3), _random(n))


_FOUR = (0.9 + 0.3j, 0.95, -0.5 + 0.6j, 0.1j)


@exercise(
    tolerance=1e-4,
    cases={
        "a single input": lambda: (*_system(0.8 + 0.3j), torch.tensor([1.0])),
        "one input and then silence": lambda: (*_system(0.8 + 0.3j), _impulse(6, 0)[0]),
        "four modes": lambda: (*_system(*_FOUR), _random(12)),
        "200 steps": lambda: (*_system(*_FOUR), _random(200)),
    },
    mistakes={
        "s = decay * s + drive * x_t → s = drive * x_t": "this has no memory: the state must go into the next step.",
        (
            "s = decay * s + drive * x_t → before = s; s = decay * s + drive * x_t",
            "(readout * s) → (readout * before)",
        ): "the outputs come one step late: first let x_t into the state, then read it.",
        "2 * (readout → (readout": "half of the output: the mirror twins are missing. 2 Re, says (15.11).",
        "drive * x_t → drive * x_t; s = s.real + 0j": "the state lost its imaginary part, so it cannot rotate.",
    },
)
def step_through(decay, drive, readout, x):
    """The outputs (T,) of one channel, one step after the other."""
    s, y = torch.zeros_like(decay), []  # (N,)
    for x_t in x:
        s = decay * s + drive * x_t
        y.append(2 * (readout * s).sum().real)
    return torch.stack(y)


# Exercise 15.5: two steps as one, so that a scan need not go step by step
def _steps(*shape):
    a, u, b, w = (torch.complex(_random(*shape, seed=i), _random(*shape, seed=i + 4)) for i in range(4))
    return (a, u), (b, w)


def _real_steps(a, u, b, w):
    return lambda: ((torch.tensor([a]), torch.tensor([u])), (torch.tensor([b]), torch.tensor([w])))


@exercise(
    cases={
        "two steps of one real mode": _real_steps(0.5, 2.0, 0.8, 3.0),
        "a first step that forgets the past": _real_steps(0.0, 2.0, 0.8, 3.0),
        "complex modes, shape (2, 3)": lambda: _steps(2, 3),
    },
    mistakes={
        "second[0] * first[1] + → first[1] +": "what enters at the first step must fade in the second.",
        "second[0] * first[1] + → first[0] * first[1] +": "what enters first fades by the decay of the second step.",
        "second[0] * first[1] + second[1] → second[0] * (first[1] + second[1])": (
            "what enters at the second step has only just come in, and has not faded yet."
        ),
        "second[0] * first[0] → second[0] + first[0]": "decays multiply: what is halved twice is a quarter.",
    },
    results=("the decay", "the entering number"),
)
def join(first, second):
    """The one step (decay, entering) that does what two do, `first` and then `second`."""
    return second[0] * first[0], second[0] * first[1] + second[1]


# Exercise 15.6: all states of a scan by a tree of joins: few rounds and little work
_MOST_CALLS, _MOST_PAIRS = 23, 4000  # for 1,000 steps; a tree needs 18 calls and less than 2,000 pairs


class _CountingJoin:
    """The join of exercise 15.5, which counts how often it is called and for how many pairs of steps."""

    def __init__(self):
        self.calls = self.pairs = 0

    def __call__(self, first, second):
        decay, entering = join.reference(tuple(first), tuple(second))
        self.calls, self.pairs = self.calls + 1, self.pairs + entering.numel()
        return decay, entering


def _effort(function, join, decay, entering):
    function(join, decay, entering)
    if join.calls == 0:
        return "no call of join"
    if join.pairs < len(decay) - 1:
        return "join for a few pairs, and other arithmetic for the rest"
    calls = "at most" if join.calls <= _MOST_CALLS else "more than"
    pairs = "at most" if join.pairs <= _MOST_PAIRS else "more than"
    return f"{calls} {_MOST_CALLS} calls of join, for {pairs} {_MOST_PAIRS:,} pairs"


def _walk(join, decay, entering):
    """Left to right."""
    step = decay[:1], entering[:1]
    states = [entering[:1]]
    for t in range(1, len(decay)):
        step = join(step, (decay[t : t + 1], entering[t : t + 1]))
        states.append(step[1])
    return torch.cat(states)


def _doubling(join, decay, entering):
    reach = 1
    while reach < len(decay):
        new = join((decay[:-reach], entering[:-reach]), (decay[reach:], entering[reach:]))
        decay, entering = (torch.cat([old[:reach], n]) for old, n in zip((decay, entering), new, strict=True))
        reach *= 2
    return entering


def _scan_of(*shape, dtype=torch.float32):
    decay, entering = (_random(*shape, seed=i) for i in (5, 6))
    decay = torch.sigmoid(decay)
    if dtype.is_complex:
        decay = decay * torch.exp(1j * _random(*shape, seed=7))
    return lambda: (_CountingJoin(), decay.to(dtype).clone(), entering.to(dtype).clone())


@exercise(
    cases={
        "a single step": _scan_of(1),
        "two steps": _scan_of(2),
        "eight steps": _scan_of(8),
        "five steps, which is no power of two": _scan_of(5),
        "thirteen steps of three complex modes": _scan_of(13, 3, dtype=torch.complex64),
        "the number of calls for 1,000 steps": Case(_scan_of(1000), _effort),
    },
    mistakes={
        _walk: "the states are right, but join is called too often: give it whole tensors.",
        _doubling: "the states are right, but this is the doubling of section 9, which joins about 9,000 pairs.",
        "join(first, second) → join(second, first)": "join has an order: the earlier step is the first argument.",
        "2 * (len(decay) // 2) → len(decay)": "right for even lengths: the last of an odd one has no neighbour.",
    },
)
def tree_scan(join, decay, entering):
    """All states (T, ...) from zero, in about 2 log2 T calls of join, which joins less than 2 T pairs in all."""

    def scan(decay, entering):
        if len(decay) == 1:
            return entering
        even = 2 * (len(decay) // 2)  # an odd last step has no neighbour
        first, second = (decay[0:even:2], entering[0:even:2]), (decay[1:even:2], entering[1:even:2])
        states = torch.empty_like(entering)
        states[0], states[1::2] = entering[0], scan(*join(first, second))  # after pairs: s_2, s_4, ...
        if len(decay) > 2:  # the states s_3, s_5, ...: one step on from those before
            before = states[1:-1:2]
            states[2::2] = join((before, before), (decay[2::2], entering[2::2]))[1]
        return states

    return scan(decay, entering)
