"""Exercises of chapter 15: a linear convolution through the FFT, zero-order hold, how long a mode lasts, the system as
steps, two steps as one, a scan as a tree."""

from functools import partial

import torch

from possm_lite.classroom.checks import Case, Check, ValueCheck, normal

_random = partial(normal, seed=14)

# Exercise 15.1: the convolution with its bug found


def _convolve(x, kernel, *, ring=lambda T: 2 * T, ring_back=None, take=lambda y, T: y[..., :T]):
    n = ring(x.shape[-1])
    product = torch.fft.rfft(x, n) * torch.fft.rfft(kernel, n)
    return take(torch.fft.irfft(product, ring_back(x.shape[-1]) if ring_back else n), x.shape[-1])


def _impulse(n, at):
    return torch.zeros(1, n).index_fill(-1, torch.tensor(at), 1.0)


convolve = Check(
    "convolve",
    reference=_convolve,
    cases=[
        Case("an impulse at the first step", lambda: (_impulse(8, 0), _random(1, 8)), tolerance=1e-4),
        Case("an impulse at the last step", lambda: (_impulse(8, 7), _random(1, 8)), tolerance=1e-4),
        Case("three channels", lambda: (_random(3, 8), _random(3, 8, seed=1)), tolerance=1e-4),
        Case("a sequence of odd length", lambda: (_random(2, 7), _random(2, 7, seed=1)), tolerance=1e-4),
        Case("a batch, x (4, 3, 20)", lambda: (_random(4, 3, 20), _random(3, 20, seed=1)), tolerance=1e-4),
        Case("300 steps", lambda: (_random(1, 300), _random(1, 300, seed=1)), tolerance=1e-4),
    ],
    traps={
        "the end of the sequence still spills into its beginning: a ring of T slots is too short for it. Make it "
        "longer.": partial(_convolve, ring=lambda T: T),
        "the ring is too short, and the end still spills into the beginning: 2T slots are enough.": (
            partial(_convolve, ring=lambda T: T + T // 2)
        ),
        "the ring is one slot too short: the product of step T - 1 with itself belongs to step 2T - 2, so it takes "
        "2T - 1 slots.": partial(_convolve, ring=lambda T: 2 * T - 2),
        "the ring is long enough now, but you returned all of it. The result has T steps, the first ones.": (
            partial(_convolve, take=lambda y, T: y)
        ),
        "there and back again are on two different rings: give irfft the same length as rfft, and then take the first "
        "T.": partial(_convolve, ring_back=lambda T: T),
        "you returned the end of the ring. The T steps of the result are at its beginning.": (
            partial(_convolve, take=lambda y, T: y[..., -T:])
        ),
        "this kernel looks ahead: the output at t reads x at t + l. (15.6) reads x at t - l.": (
            lambda x, kernel: _convolve(x.flip(-1), kernel).flip(-1)
        ),
        "this multiplies the two sequences step by step. Multiply their transforms.": lambda x, kernel: x * kernel,
    },
)


# Exercise 15.2: zero-order hold


def _hold(a, step, *, decay=torch.exp, drive=lambda a, step: (torch.exp(a * step) - 1) / a):
    return decay(a * step), drive(a, step)


def _modes(*a):
    return torch.tensor(a, dtype=torch.complex64)


hold = Check(
    "hold",
    reference=_hold,
    cases=[
        Case("a mode that only decays", lambda: (_modes(-0.5), torch.tensor(0.4))),
        Case("a mode that decays and rotates", lambda: (_modes(-0.5 + 3j), torch.tensor(0.4))),
        Case("a long step", lambda: (_modes(-1 + 1j, -2.0), torch.tensor(2.0))),
        Case("two channels with a step each", lambda: (_modes(-1 + 1j, -2.0).repeat(2, 1), _random(2, 1).abs())),
    ],
    results=("the decay", "the drive"),
    traps={
        "this is Euler's method: it follows the slope at the start of the step, but the curve bends. (15.9) has an "
        "exponential.": partial(_hold, decay=lambda z: 1 + z, drive=lambda a, step: step * torch.ones_like(a)),
        "the decay is right. The drive is the shortcut step * x, which is right for very short steps only. Hold the "
        "input and integrate: (15.9).": partial(_hold, drive=lambda a, step: step * torch.ones_like(a)),
        "the drive is not divided by a. Try x = 1 for ever: the state must come to rest at -1/a.": (
            partial(_hold, drive=lambda a, step: torch.exp(a * step) - 1)
        ),
        "both are there, in the wrong order: first the decay, then the drive.": lambda a, step: _hold(a, step)[::-1],
        "the drive has the wrong sign: a positive input must push the state up at first.": (
            partial(_hold, drive=lambda a, step: (1 - torch.exp(a * step)) / a)
        ),
        "the drive is divided by a * step, which gives the mean of the push over the step. (15.9) has the whole "
        "push.": partial(_hold, drive=lambda a, step: (torch.exp(a * step) - 1) / (a * step)),
        "your modes grow instead of fading: the exponent is a * step, and the real part of a is already negative.": (
            lambda a, step: (torch.exp(-a * step), (torch.exp(-a * step) - 1) / a)
        ),
        "this is the bilinear rule (Tustin), another good way to make steps. Holding the input gives (15.9).": (
            lambda a, step: ((1 + a * step / 2) / (1 - a * step / 2), step / (1 - a * step / 2))
        ),
    },
)


# Exercise 15.3: e^{-step t / 2} = 1/e at t = 2 / step = 20 bins of 50 ms

fades_after_s = ValueCheck(
    "fades_after_s",
    expected=1.0,
    tolerance=0.02,
    traps={
        "20 is the number of bins. How long are 20 bins of 50 ms?": 20.0,
        "that is in milliseconds. The question asks for seconds.": 1000.0,
        "2 is the time-scale before there are steps, 1/0.5. Each bin is only a step of 0.1 of it.": 2.0,
        "two bins? A bin is a step of 0.1, so in one bin the mode fades by e^(-0.05) only.": 0.1,
        "that is the time of one full rotation, 2 pi / (3 pi 0.1) bins. Fading is up to the real part.": 1 / 3,
        "that is when it has fallen to one half. 1/e is a little lower.": 0.693,
        "the real part is -1/2, not -1: it fades half as fast.": 0.5,
    },
)


# Exercise 15.4: the system as steps


def _step_through(
    decay,
    drive,
    readout,
    x,
    *,
    update=lambda s, decay, entering: decay * s + entering,
    read=lambda readout, s: 2 * (readout * s).sum(-1).real,
):
    s, states = torch.zeros_like(decay), []
    for x_t in x:
        s = update(s, decay, drive * x_t)
        states.append(s)
    return read(readout, torch.stack(states))  # (T, N) to (T,)


def _system(*decay):
    n = len(decay)
    return _modes(*decay), torch.complex(_random(n), _random(n, seed=2)), torch.complex(_random(n, seed=3), _random(n))


_FOUR = (0.9 + 0.3j, 0.95, -0.5 + 0.6j, 0.1j)

step_through = Check(
    "step_through",
    reference=_step_through,
    cases=[
        Case("a single input", lambda: (*_system(0.8 + 0.3j), torch.tensor([1.0]))),
        Case("one input and then silence", lambda: (*_system(0.8 + 0.3j), _impulse(6, 0)[0])),
        Case("four modes", lambda: (*_system(*_FOUR), _random(12)), tolerance=1e-4),
        Case("200 steps", lambda: (*_system(*_FOUR), _random(200)), tolerance=1e-4),
    ],
    traps={
        "this has no memory: every output depends on its own input only. The state of one step must go into the "
        "next.": partial(_step_through, update=lambda s, decay, entering: entering),
        "the outputs come one step late: first let x_t into the state, then read it.": (
            partial(_step_through, read=lambda c, s: 2 * (c * torch.cat([0 * s[:1], s[:-1]])).sum(-1).real)
        ),
        "half of the output: the mirror twins are missing. 2 Re, says (15.11).": (
            partial(_step_through, read=lambda c, s: (c * s).sum(-1).real)
        ),
        "you read the length of a complex number. The twins leave twice the real part.": (
            partial(_step_through, read=lambda c, s: 2 * (c * s).sum(-1).abs())
        ),
        "the state lost its imaginary part on the way, so it cannot rotate. Take the real part of the output, not of "
        "the state.": partial(_step_through, update=lambda s, decay, entering: (decay * s + entering).real + 0j),
        "the real part is taken of readout and state before they meet. Multiply first: i times i is -1.": (
            partial(_step_through, read=lambda c, s: 2 * (c.real * s.real).sum(-1))
        ),
        "C was conjugated on the way: C_m s_m has no conjugate (torch.vdot takes one, and so does .mH).": (
            lambda decay, drive, readout, x: _step_through(decay, drive, readout.conj(), x)
        ),
        "the drive is missing: x_t enters as drive * x_t.": (
            lambda decay, drive, readout, x: _step_through(decay, torch.ones_like(drive), readout, x)
        ),
        "the new input has decayed already when it is read. The decay belongs to the old state alone, not to what "
        "enters.": partial(_step_through, update=lambda s, decay, entering: decay * (s + entering)),
    },
)


# Exercise 15.5: two steps as one, so that a scan need not go step by step


def _join(first, second, *, decay=lambda a, b: b * a, entering=lambda a, u, b, w: b * u + w):
    """The steps are s -> a s + u and s -> b s + w."""
    (a, u), (b, w) = first, second
    return decay(a, b), entering(a, u, b, w)


def _steps(*shape):
    a, u, b, w = (torch.complex(_random(*shape, seed=i), _random(*shape, seed=i + 4)) for i in range(4))
    return (a, u), (b, w)


def _real_steps(a, u, b, w):
    return lambda: ((torch.tensor([a]), torch.tensor([u])), (torch.tensor([b]), torch.tensor([w])))


join = Check(
    "join",
    reference=_join,
    cases=[
        Case("two steps of one real mode", _real_steps(0.5, 2.0, 0.8, 3.0)),
        Case("a first step that forgets the past", _real_steps(0.0, 2.0, 0.8, 3.0)),
        Case("complex modes, shape (2, 3)", lambda: _steps(2, 3)),
    ],
    results=("the decay", "the entering number"),
    traps={
        "you let the second step go first. What enters at the first step must go through the second.": (
            lambda first, second: _join(second, first)
        ),
        "what enters at the first step must fade in the second. Here it arrives in full.": (
            partial(_join, entering=lambda a, u, b, w: u + w)
        ),
        "what enters at the first step fades by the decay of the second step, not by its own.": (
            partial(_join, entering=lambda a, u, b, w: a * u + w)
        ),
        "what enters at the second step has only just come in, and has not faded yet.": (
            partial(_join, entering=lambda a, u, b, w: b * (u + w))
        ),
        "decays multiply: what is halved twice is a quarter.": partial(_join, decay=lambda a, b: a + b),
        "the old state goes through both steps, so it fades by both decays.": partial(_join, decay=lambda a, b: b),
    },
)


# Exercise 15.6: all states of a scan by a tree of joins: few rounds and little work

_MOST_CALLS, _MOST_PAIRS = 23, 4000  # for 1,000 steps; a tree needs 18 calls and less than 2,000 pairs


class _CountingJoin:
    """The join of exercise 15.5, which counts how often it is called and for how many pairs of steps."""

    def __init__(self):
        self.calls = self.pairs = 0

    def __call__(self, first, second):
        decay, entering = _join(tuple(first), tuple(second))
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


def _tree_scan(
    join,
    decay,
    entering,
    *,
    pair=lambda join, first, second: join(first, second),
    fill=lambda join, before, step: join((torch.zeros_like(before), before), step)[1],
):
    """Join the neighbours, scan the pairs, and fill in every other state."""
    T = len(decay)
    if T == 1:
        return entering
    pairs = pair(join, (decay[: T - 1 : 2], entering[: T - 1 : 2]), (decay[1::2], entering[1::2]))
    states = torch.empty_like(entering)
    states[0], states[1::2] = entering[0], _tree_scan(join, *pairs, pair=pair, fill=fill)
    if T > 2:
        states[2::2] = fill(join, states[1:-1:2], (decay[2::2], entering[2::2]))
    return states


def _walk(
    join, decay, entering, *, join_them=lambda join, first, second: join(first, second), keep=lambda step: step[1]
):
    """Left to right."""
    step = decay[:1], entering[:1]
    states = [keep(step)]
    for t in range(1, len(decay)):
        step = join_them(join, step, (decay[t : t + 1], entering[t : t + 1]))
        states.append(keep(step))
    return torch.cat(states)


def _doubling(join, decay, entering):
    reach = 1
    while reach < len(decay):
        new = join((decay[:-reach], entering[:-reach]), (decay[reach:], entering[reach:]))
        decay, entering = (torch.cat([old[:reach], n]) for old, n in zip((decay, entering), new, strict=True))
        reach *= 2
    return entering


def _scan_of(*shape, dtype=torch.float32):
    decay, entering = (_random(*shape, seed=i, dtype=torch.float32) for i in (5, 6))
    decay = torch.sigmoid(decay)
    if dtype.is_complex:
        decay = decay * torch.exp(1j * _random(*shape, seed=7))
    return lambda: (_CountingJoin(), decay.to(dtype).clone(), entering.to(dtype).clone())


tree_scan = Check(
    "tree_scan",
    reference=_tree_scan,
    cases=[
        Case("a single step", _scan_of(1)),
        Case("two steps", _scan_of(2)),
        Case("eight steps", _scan_of(8)),
        Case("five steps, which is no power of two", _scan_of(5)),
        Case("thirteen steps of three complex modes", _scan_of(13, 3, dtype=torch.complex64)),
        Case("the number of calls for 1,000 steps", _scan_of(1000), _effort),
    ],
    traps={
        "the states are right, but join is called too often. Does this walk, one step after the other? Give join whole "
        "tensors, `decay[0::2]` with `decay[1::2]`.": _walk,
        "the states are right, and the rounds are few. But this is the doubling of section 9, which joins about 9,000 "
        "pairs. Join only neighbours, so that each round has half as many steps.": _doubling,
        "the states are right, but this does not use join. Leave all arithmetic to it.": (
            lambda join, decay, entering: _walk(None, decay, entering, join_them=lambda _, a, b: _join(a, b))
        ),
        "join has an order: the earlier step is the first argument, the later one the second.": (
            partial(_walk, join_them=lambda join, first, second: join(second, first))
        ),
        "join has an order when you join neighbours, too: the earlier step is the first argument.": (
            partial(_tree_scan, pair=lambda join, first, second: join(second, first))
        ),
        "every second state is right. To fill in the others, join the state before (first) with the step of its own "
        "(second), and not the other way round.": (
            partial(_tree_scan, fill=lambda join, before, step: join(step, (torch.zeros_like(before), before))[1])
        ),
        "every second state is right. The others are still those of the bin before: one more join is missing.": (
            partial(_tree_scan, fill=lambda join, before, step: before)
        ),
        "every second state is right. The others are what enters, without the past: join it with the state before.": (
            partial(_tree_scan, fill=lambda join, before, step: step[1])
        ),
        "these are the states before each step, s_0 to s_{T-1}. Wanted are those after it, s_1 to s_T.": (
            lambda join, decay, entering: torch.cat([0 * entering[:1], _tree_scan(join, decay, entering)[:-1]])
        ),
        "these are the joined decays. From a state of zero, what has entered is the state: the second of the two.": (
            partial(_walk, keep=lambda step: step[0])
        ),
        "these are the numbers that enter, without the past. Join them.": lambda join, decay, entering: entering,
        "this is what entered, summed up. Nothing has faded.": lambda join, decay, entering: entering.cumsum(0),
    },
)
