"""Exercises of chapter 15: a ring, a mode, selection, a join, a choice; deeper: filter, hold, alias, HiPPO, a tree."""

from functools import partial

import torch

from possm_course.checks import Case, ValueCheck, exercise, normal

_random = partial(normal, seed=14)


# Exercise 15.1: the convolution with its bug found
@exercise(
    tolerance=1e-4,
    cases={
        "an impulse at the first step": lambda: (torch.eye(8)[:1], _random(1, 8)),
        "an impulse at the last step": lambda: (torch.eye(8)[7:], _random(1, 8)),
        "three channels": lambda: (_random(3, 8), _random(3, 8, seed=1)),
        "a sequence of odd length": lambda: (_random(2, 7), _random(2, 7, seed=1)),
        "a batch, x (4, 3, 20)": lambda: (_random(4, 3, 20), _random(3, 20, seed=1)),
    },
    mistakes={
        "2 * T → T": "the end of the sequence still spills into its beginning: a ring of T slots is too short for it.",
        ", 2 * T)[ → , T)[": "there and back are on two different rings: give irfft the length of rfft, then take T.",
        "[..., :T] → ": "the ring is long enough now, but you returned all of it. The result has T steps, the first.",
        ("2 * T → 2 * T - 1", ", 2 * T - 1)[ → )["): "2 T - 1 places are enough, but irfft must be told their number.",
        "return torch.fft.irfft(product, 2 * T)[..., :T] → return torch.fft.irfft(product, 2 * T)[..., T:]": (
            "the second half is returned. The result is the first T steps."
        ),
        "torch.fft.rfft(x, 2 * T) * torch.fft.rfft(kernel, 2 * T) → "
        "torch.fft.rfft(x, 2 * T) * torch.fft.rfft(kernel, 2 * T).conj()": (
            "a conjugate makes a correlation of it: what comes later would act on what is before."
        ),
        "torch.fft.rfft(kernel, 2 * T) → torch.fft.rfft(kernel.flip(-1), 2 * T)": (
            "the kernel is turned round. The FFT does that by itself."
        ),
    },
)
def convolve(x, kernel):
    """y_t = sum_l K_l x_{t-l} for x (..., T) and kernel (..., T), through the FFT: shape (..., T)."""
    T = x.shape[-1]
    product = torch.fft.rfft(x, 2 * T) * torch.fft.rfft(kernel, 2 * T)
    return torch.fft.irfft(product, 2 * T)[..., :T]


# Exercise 15.2: e^{-step t / 2} = 1/e at t = 2 / step = 20 bins of 50 ms
fades_after_s = ValueCheck(
    "fades_after_s",
    expected=1.0,
    tolerance=0.02,
    mistakes={
        20.0: "20 is the number of bins. How long are 20 bins of 50 ms?",
        2.0: "2 is the time-scale before there are steps, 1/0.5. Each bin is only a step of 0.1 of it.",
        0.5: "the real part is -1/2, not -1: it fades half as fast.",
        0.2: "one step of a tenth of the time-scale is a bin of 50 ms: how many bins until the exponent is -1?",
        10.0: "10 is a number of steps. Half of the real part is missing, and then the width of a bin.",
    },
    hint="Set the real part's exponent to -1, and mind the unit.",
)


# Exercise 15.3: a scan that selects
def _selection(T, E, N, **given):
    """x, delta, a, b and c of a selective scan, of which some may be given."""
    drawn = {
        "x": _random(T, E),
        "delta": _random(T, E, seed=3).abs(),
        "a": -_random(E, N, seed=4).abs() - 0.1,
        "b": _random(T, N, seed=1),
        "c": _random(T, N, seed=2),
    }
    return tuple((drawn | given).values())


@exercise(
    cases={
        "a single step": lambda: _selection(1, 1, 1),
        "four steps of one channel with one number": lambda: _selection(4, 1, 1),
        "steps of size zero after the first": lambda: _selection(4, 1, 1, delta=torch.eye(4)[:, :1]),
        "six steps of three channels with two numbers each": lambda: _selection(6, 3, 2),
    },
    mistakes={
        "torch.exp(delta[t, :, None] * a) → torch.exp(a)": "the state fades by the same share at every step.",
        "(delta[t] * x[t]) → x[t]": "the input is not multiplied by the step: a step of zero must let nothing in.",
        "(delta[t] * x[t])[:, None] → x[t, :, None] * (torch.exp(delta[t, :, None] * a) - 1) / a": (
            "this is the drive of (15.9). Formula (15.13) has its short form."
        ),
        ("s = torch → old, s = s, torch", "s @ c → old @ c"): "the answers come one step late: read after x_t is in.",
        (
            "torch.exp(delta[t, :, None] * a) → torch.exp(-delta[t, :, None] * a)"
        ): "the state grows: the sign in the exponent.",
        "torch.exp(delta[t, :, None] * a) → torch.exp(-delta[t, :, None] * torch.exp(a))": (
            "a goes through an exp once more: here it comes as it is, below zero."
        ),
        "torch.exp(delta[t, :, None] * a) → (1 + delta[t, :, None] * a)": "this is Euler's step. (15.13) has an exp.",
        "* b[t]  # → * b[t - 1]  #": "b is one step late.",
        "(delta[t] * x[t])[:, None] → (delta[t - 1] * x[t - 1] if t else 0 * x[t])[:, None]": (
            "the input is one step late: x_t enters at step t."
        ),
        "* s + (delta[t] * x[t])[:, None] * b[t] → * (s + (delta[t] * x[t])[:, None] * b[t])": (
            "what enters at a step fades in that very step. It should fade from the next one on."
        ),
        "y.append(s @ c[t]) → y.append(s @ c[t] + x[t])": "x is added to the answer. (15.13) has no such term.",
    },
)
def selective(x, delta, a, b, c):
    """(15.13): x, delta (T, E), a (E, N), b, c (T, N) to y (T, E), from a state (E, N) of zeros."""
    s, y = torch.zeros_like(a), []
    for t in range(len(x)):
        s = torch.exp(delta[t, :, None] * a) * s + (delta[t] * x[t])[:, None] * b[t]  # (E, N)
        y.append(s @ c[t])
    return torch.stack(y)


# Exercise 15.4: two steps as one, so that a scan need not go step by step
def _steps(*shape):
    """Two steps of a scan, each a pair of complex numbers."""
    a, u, b, w = (torch.complex(_random(*shape, seed=i), _random(*shape, seed=i + 4)) for i in range(4))
    return (a, u), (b, w)


@exercise(
    cases={
        "two steps of one real mode": lambda: tuple((x.real, y.real) for x, y in _steps(1)),
        "complex modes, shape (2, 3)": lambda: _steps(2, 3),
    },
    mistakes={
        "second[0] * first[1] + → first[1] +": "what enters at the first step must fade in the second.",
        "second[0] * first[1] + → first[0] * first[1] +": "what enters first fades by the decay of the second step.",
        "first[1] + second[1] → (first[1] + second[1])": "what enters at the second step has not faded yet.",
        "second[0] * first[1] + second[1] → first[0] * second[1] + first[1]": "that is `second`, then `first`.",
        "return second[0] * first[0], second[0] * first[1] + second[1] → "
        "return second[0] + first[0], second[0] * first[1] + second[1]": "decays multiply. They are added here.",
        "return second[0] * first[0], second[0] * first[1] + second[1] → "
        "return second[0] * first[1] + second[1], "
        "second[0] * first[0]": "the results have changed places: the decay first.",
        "second[0] * first[0], → first[0],": "the decay is that of the first step alone: both should be in it.",
    },
    results=("the decay", "the entering number"),
)
def join(first, second):
    """The one step (decay, entering) that does what two do, `first` and then `second`."""
    return second[0] * first[0], second[0] * first[1] + second[1]


# Exercise 15.5: a bend between states; keys and values of every bin; one kernel whatever comes
_NOT_THESE = {
    "Mamba, attention, S4D": "Mamba's state is linear in the one before: the tree of section 9 joins its steps.",
    "GRU, attention, Mamba": "Mamba computes its step from what comes. Which kernel is the same whatever comes?",
    "GRU, Mamba, S4D": "Mamba's state has one size. What must be kept to compare a query with every bin so far?",
}
memories = ValueCheck(
    "memories",
    expected="GRU, attention, S4D",
    mistakes=_NOT_THESE,
    hint="One has a bend between its states, one keeps every bin, one has the same kernel whatever comes.",
)


# Exercise 15.6, in deeper: a step of the Kalman filter
def _filter(h, U):
    """The state (h,) and covariance of a Kalman filter, counts (U,), and its four matrices."""

    def covariance(n):
        root = _random(n, n, seed=n)
        return root @ root.T + torch.eye(n)

    m, P, x = _random(h, seed=2), 0.5 * torch.eye(h), _random(U, seed=3)
    return m, P, x, _random(h, h), _random(U, h, seed=1), covariance(h), covariance(U)


@exercise(
    cases={
        "one hidden number and one unit": lambda: _filter(1, 1),
        "two hidden numbers and three units": lambda: _filter(2, 3),
    },
    mistakes={
        "A @ P @ A.T + W → A @ P @ A.T": "while it moves on you become less sure, by W.",
        "C @ P @ C.T + V → C @ P @ C.T": "the counts are taken as free of noise: V is missing in the gain.",
        "A @ s, A @ P → s, A @ P": "first predict: the surprise is about A s, not about the old guess.",
        "(n - C @ s) → n": "the guess is corrected by the surprise, n - C s, not by the counts.",
        "P - G @ C @ P → P": "after a look you are surer than before: P must shrink, (15.3).",
        (
            "s, P = A @ s, A @ P @ A.T + W → s, M = A @ s, A @ P @ A.T + W",
            "P - G @ C @ P → M - G @ C @ M",
        ): "the gain is made of the covariance before the prediction. It should be that after A and W.",
        "A @ P @ A.T + W → A.T @ P @ A + W": "A and its transpose have changed places: A P A^T.",
        "A @ P @ A.T + W → A @ P + W": "the second A is missing: A P A^T + W.",
        "torch.linalg.inv(C @ P @ C.T + V) → (C @ P @ C.T + V)": "the bracket of the gain is not inverted.",
        "s + G @ (n - C @ s) → s - G @ (n - C @ s)": "the sign: the surprise is added.",
        "P - G @ C @ P → P + G @ C @ P": "the sign: after a look you are surer, so P shrinks.",
        "C @ P @ C.T + V) → C @ P @ C.T + V.inverse())": "the noise V is inverted: it is added as it is.",
    },
    results=("the guess s", "the covariance P"),
    tolerance=1e-4,
)
def kalman_step(s, P, n, A, C, W, V):
    """(15.2) and (15.3): the guess (h,) and covariance (h, h) of a bin, from those before it and its counts n (U,)."""
    s, P = A @ s, A @ P @ A.T + W
    G = P @ C.T @ torch.linalg.inv(C @ P @ C.T + V)  # (h, U)
    return s + G @ (n - C @ s), P - G @ C @ P


# Exercise 15.7, in deeper: zero-order hold
@exercise(
    cases={
        "a mode that rotates and one that does not": lambda: (torch.tensor([-0.5 + 3j, -2.0]), torch.tensor(0.4)),
        "two channels with a step each": lambda: (torch.tensor([[-0.5 + 3j, -2.0]] * 2), _random(2, 1).abs()),
    },
    mistakes={
        ("torch.exp(a * step) → 1 + a * step", "(decay - 1) / a → step + 0 * a"): "this is Euler's step, not (15.9).",
        "(decay - 1) / a → decay - 1": "the drive is not divided by a: with x = 1 the state must come to rest at -1/a.",
        (
            ("torch.exp(a * step) → (1 + a * step / 2) / (1 - a * step / 2)"),
            "(decay - 1) / a → step / (1 - a * step / 2)",
        ): ("this is the bilinear step, as in S4. (15.9) holds the input: an exp."),
        "(decay - 1) / a → (decay - 1) / (a * step)": "divided by a times the step: by a alone.",
        "(decay - 1) / a → step + 0 * a": "the drive is the short form, the step. (15.9) has (exp(a step) - 1) / a.",
        "(decay - 1) / a → (1 - decay) / a": "the sign of the drive: exp(a step) minus one.",
        (
            "torch.exp(a * step) → torch.exp(-a * step)"
        ): "the sign in the exponent: a is below zero, so it fades as it is.",
    },
    results=("the decay", "the drive"),
)
def hold(a, step):
    """decay and drive of (15.9), complex, of the shape of a * step."""
    decay = torch.exp(a * step)
    return decay, (decay - 1) / a


# Exercise 15.8, in deeper: e^{1.5 pi i} a bin is e^{-0.5 pi i}
_SLOWER = "that is mode 15 itself. Which slower one is at the same place in every bin?"
alias = ValueCheck(
    "alias",
    expected=-5.0,
    mistakes={5.0: "a quarter of a rotation, yes. Which way?", 15.0: _SLOWER},
    hint="Which frequency between -10 and 10 is at the same place in every bin?",
)


# Exercise 15.9, in deeper: the matrices of HiPPO
@exercise(
    cases={"one number": lambda: (1,), "two numbers": lambda: (2,), "five numbers": lambda: (5,)},
    mistakes={
        "-torch.where → torch.where": "this memory grows: there is a minus before the bracket of (15.16).",
        "n[:, None] > n → n[:, None] < n": "rows and columns are swapped: n counts rows, j columns.",
        "torch.diag(n + 1) → torch.diag(2 * n + 1)": "on the diagonal is n + 1, not 2n + 1.",
        "torch.sqrt(2 * n + 1) → (2 * n + 1)": "the roots are missing: sqrt(2n + 1).",
        "-torch.where(n[:, None] > n, root[:, None] * root, torch.diag(n + 1)), root → "
        "-torch.where(n[:, None] > n, root[:, None] * root, torch.diag(n + 1)), n + 1": "B is sqrt(2n + 1).",
    },
    results=("A", "B"),
)
def hippo(N):
    """A (N, N) and B (N,) of (15.16), n and j from 0."""
    n = torch.arange(float(N))
    root = torch.sqrt(2 * n + 1)
    return -torch.where(n[:, None] > n, root[:, None] * root, torch.diag(n + 1)), root


# Exercise 15.10, in deeper, to build: all states of a scan by a tree of joins: few rounds and little work
class _CountingJoin:
    """The join of exercise 15.4, which counts how often it is called and for how many pairs of steps."""

    def __init__(self):
        self.calls = self.pairs = 0

    def __call__(self, first, second):
        decay, entering = join.reference(tuple(first), tuple(second))
        self.calls, self.pairs = self.calls + 1, self.pairs + entering.numel()
        return decay, entering


def _effort(function, join, decay, entering):
    """In words, how often a scan has called join, and for how many pairs: 18 times and 1,984 if it is right."""
    function(join, decay, entering)
    if join.pairs < len(decay) - 1:
        return "other arithmetic than join"
    calls = "at most" if join.calls <= 23 else "more than"
    pairs = "at most" if join.pairs <= 4000 else "more than"
    return f"{calls} 23 calls of join, for {pairs} 4,000 pairs"


def _scan_of(*shape, dtype=torch.float32):
    """Makes a join that counts, decays between 0 and 1, and what enters."""
    decay, entering = torch.sigmoid(_random(*shape, seed=5)), _random(*shape, seed=6)
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
