"""Exercises of chapter 14: a convolution that stays off its ring, a held input, what a mode keeps, a state kept, two
steps joined."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from possm_lite.blocks.ssm import causal_convolution, linear_scan, zero_order_hold
from possm_lite.classroom.checks import Case, Check, ValueCheck, normal

_random = partial(normal, seed=14)


# Exercise 14.1: the convolution with its bug found


def _in_float32(function: Callable, *args: Any) -> Any:
    result = function(*args)
    return result.float() if isinstance(result, Tensor) and not result.is_complex() else result


def _with_length(n: Callable[[int], int], take: Callable[[Tensor, int], Tensor]) -> Callable:
    def convolve(x: Tensor, kernel: Tensor) -> Tensor:
        length = n(x.shape[-1])
        both = torch.fft.rfft(x, length) * torch.fft.rfft(kernel, length)
        return take(torch.fft.irfft(both, length), x.shape[-1])

    return convolve


def _back_on_a_short_ring(x: Tensor, kernel: Tensor) -> Tensor:
    length = 2 * x.shape[-1]
    return torch.fft.irfft(torch.fft.rfft(x, length) * torch.fft.rfft(kernel, length), x.shape[-1])


def _looking_ahead(x: Tensor, kernel: Tensor) -> Tensor:
    return causal_convolution(x.flip(-1), kernel).flip(-1)


def _impulse(n: int, at: int) -> Tensor:
    return torch.zeros(1, n).index_fill(-1, torch.tensor(at), 1.0)


convolve = Check(
    "convolve",
    reference=causal_convolution,
    cases=[
        Case("an impulse at the first step", lambda: (_impulse(8, 0), _random(1, 8)), _in_float32, 1e-4),
        Case("an impulse at the last step", lambda: (_impulse(8, 7), _random(1, 8)), _in_float32, 1e-4),
        Case("three channels", lambda: (_random(3, 8), _random(3, 8, seed=1)), _in_float32, 1e-4),
        Case("a sequence of odd length", lambda: (_random(2, 7), _random(2, 7, seed=1)), _in_float32, 1e-4),
        Case("a batch, x (4, 3, 20)", lambda: (_random(4, 3, 20), _random(3, 20, seed=1)), _in_float32, 1e-4),
    ],
    traps={
        "the end of the sequence still spills into its beginning: the ring has only T places. Give it more.": (
            _with_length(lambda t: t, lambda y, t: y[..., :t])
        ),
        "the ring has one place too few or more, and something still comes round: 2T are enough.": (
            _with_length(lambda t: t + t // 2, lambda y, t: y[..., :t])
        ),
        "the ring is long enough now, but you gave back all of it. The answer has T steps, the first ones.": (
            _with_length(lambda t: 2 * t, lambda y, t: y)
        ),
        "there and back again are not on the same ring: give irfft the same number of places as rfft, then take T.": (
            _back_on_a_short_ring
        ),
        "you gave back the end of the ring. The T answers wanted stand at its beginning.": (
            _with_length(lambda t: 2 * t, lambda y, t: y[..., -t:])
        ),
        "this kernel looks ahead: the output at t reads x at t + l. (14.2) reads x at t - l.": _looking_ahead,
        "this multiplies the two sequences step by step. Multiply their transforms.": lambda x, kernel: x * kernel,
    },
)


# Exercise 14.2: zero-order hold


def _as_reals(function: Callable, *args: Any) -> Any:
    """Real and imaginary parts of both answers; whatever else was returned is looked at as it is."""
    result = function(*args)
    if not (isinstance(result, tuple | list) and all(isinstance(r, Tensor) for r in result)):
        return result
    return tuple(torch.view_as_real(r.to(torch.complex64)) for r in result)


def _mode(*a: complex) -> Tensor:
    return torch.tensor(a, dtype=torch.complex64)


hold = Check(
    "hold",
    reference=zero_order_hold,
    cases=[
        Case("a mode that only decays", lambda: (_mode(-0.5), torch.tensor(0.4)), _as_reals),
        Case("a mode that decays and turns", lambda: (_mode(-0.5 + 3j), torch.tensor(0.4)), _as_reals),
        Case("a long step", lambda: (_mode(-1 + 1j, -2.0), torch.tensor(2.0)), _as_reals),
        Case(
            "two channels with a step each", lambda: (_mode(-1 + 1j, -2.0).repeat(2, 1), _random(2, 1).abs()), _as_reals
        ),
    ],
    traps={
        "this is Euler's method: it follows the slope at the start of the step, while the curve bends. (14.5) has an "
        "exponential.": lambda a, step: (1 + a * step, step * torch.ones_like(a)),
        "the decay is right. The drive is the shortcut step * x: right for very short steps only. Hold the input and "
        "integrate: (14.5).": lambda a, step: (torch.exp(a * step), step * torch.ones_like(a)),
        "the drive is not divided by a. Try x = 1 for ever: the state must come to rest at -1/a.": lambda a, step: (
            torch.exp(a * step),
            torch.exp(a * step) - 1,
        ),
        "the two are there, in the wrong order: first the decay, then the drive.": (
            lambda a, step: zero_order_hold(a, step)[::-1]
        ),
        "the drive has the wrong sign: a positive input must push the state up at first.": lambda a, step: (
            torch.exp(a * step),
            (1 - torch.exp(a * step)) / a,
        ),
        "the drive is divided by a * step, which makes a mean of the push over the step. (14.5) wants all of it.": (
            lambda a, step: (torch.exp(a * step), (torch.exp(a * step) - 1) / (a * step))
        ),
        "your modes grow instead of fading: the exponent is a * step, and the real part of a is already negative.": (
            lambda a, step: (torch.exp(-a * step), (torch.exp(-a * step) - 1) / a)
        ),
        "this is the bilinear rule (Tustin), another good way to make steps. The input held still gives (14.5).": (
            lambda a, step: ((1 + a * step / 2) / (1 - a * step / 2), step / (1 - a * step / 2))
        ),
    },
)


# Exercise 14.3: e^{-step t / 2} = 1/e at t = 2 / step = 20 bins of 50 ms

fades_after_s = ValueCheck(
    "fades_after_s",
    expected=1.0,
    tolerance=0.02,
    traps={
        "20 is the number of bins. How long are 20 bins of 50 ms?": 20.0,
        "that is in milliseconds. Seconds are wanted.": 1000.0,
        "2 is the time-scale before there are steps, 1/0.5. Each bin is only a step of 0.1 of it.": 2.0,
        "two bins? A bin is a step of 0.1, so in one bin the mode fades by e^(-0.05) only.": 0.1,
        "that is the time of one round of the hand, 2 pi / (3 pi 0.1) bins. Fading is the business of the real part.": (
            1 / 3
        ),
        "that is when it has fallen to one half. 1/e is a little lower.": 0.693,
        "the real part is -1/2, not -1: it fades half as fast.": 0.5,
    },
)


# Exercise 14.4: the system as steps


def _states(decay: Tensor, drive: Tensor, x: Tensor) -> Tensor:
    entering = drive * x[:, None]  # (T, N)
    return linear_scan(decay, entering, torch.zeros_like(entering[0]))


def _read(readout: Tensor, states: Tensor) -> Tensor:
    return 2 * (readout * states).sum(-1).real


def _step_through(decay: Tensor, drive: Tensor, readout: Tensor, x: Tensor) -> Tensor:
    return _read(readout, _states(decay, drive, x))


def _forgetful(decay: Tensor, drive: Tensor, readout: Tensor, x: Tensor) -> Tensor:
    return _read(readout, drive * x[:, None])


def _one_late(decay: Tensor, drive: Tensor, readout: Tensor, x: Tensor) -> Tensor:
    states = _states(decay, drive, x)
    return _read(readout, torch.cat([torch.zeros_like(states[:1]), states[:-1]]))


def _real_states(decay: Tensor, drive: Tensor, readout: Tensor, x: Tensor) -> Tensor:
    s, answers = torch.zeros_like(decay), []
    for x_t in x:
        s = (decay * s + drive * x_t).real.to(decay.dtype)
        answers.append(_read(readout, s))
    return torch.stack(answers)


def _real_part_first(decay: Tensor, drive: Tensor, readout: Tensor, x: Tensor) -> Tensor:
    return 2 * (readout.real * _states(decay, drive, x).real).sum(-1)


def _input_decays_too(decay: Tensor, drive: Tensor, readout: Tensor, x: Tensor) -> Tensor:
    return _read(readout, decay * _states(decay, drive, x))


def _system(*decay: complex) -> tuple[Tensor, Tensor, Tensor]:
    n = len(decay)
    return _mode(*decay), torch.complex(_random(n), _random(n, seed=2)), torch.complex(_random(n, seed=3), _random(n))


_FOUR = (0.9 + 0.3j, 0.95, -0.5 + 0.6j, 0.1j)

step_through = Check(
    "step_through",
    reference=_step_through,
    cases=[
        Case("a single input", lambda: (*_system(0.8 + 0.3j), torch.tensor([1.0])), _in_float32),
        Case("one input and then silence", lambda: (*_system(0.8 + 0.3j), _impulse(6, 0)[0]), _in_float32),
        Case("four modes", lambda: (*_system(*_FOUR), _random(12)), _in_float32, 1e-4),
        Case("200 steps", lambda: (*_system(*_FOUR), _random(200)), _in_float32, 1e-4),
    ],
    traps={
        "this has no memory: every answer knows its own input only. The state of one step must go into the next.": (
            _forgetful
        ),
        "the answers come one step late: first let x_t into the state, then read it.": _one_late,
        "half of the answer: the mirror twins are missing. 2 Re, says (14.7).": (
            lambda decay, drive, readout, x: _step_through(decay, drive, readout, x) / 2
        ),
        "you read the length of a complex number. The twins leave twice the real part.": (
            lambda decay, drive, readout, x: 2 * (readout * _states(decay, drive, x)).sum(-1).abs()
        ),
        "the state lost its imaginary part on the way, so no hand can turn. Take the real part of the answer, not of "
        "the state.": _real_states,
        "the real part is taken of readout and state before they meet. Multiply first: i times i is -1.": (
            _real_part_first
        ),
        "C is turned over on the way: C_m s_m wants no conjugate (torch.vdot takes one, and so does .mH).": (
            lambda decay, drive, readout, x: _step_through(decay, drive, readout.conj(), x)
        ),
        "the drive is missing: x_t enters as drive * x_t.": (
            lambda decay, drive, readout, x: _step_through(decay, torch.ones_like(drive), readout, x)
        ),
        "the new input has decayed already when it is read: decay belongs to the old state alone.": _input_decays_too,
    },
)


# Exercise 14.5: two steps are one, so that a scan need not walk

_Step = tuple[Tensor, Tensor]


def _join(first: _Step, second: _Step) -> _Step:
    return second[0] * first[0], second[0] * first[1] + second[1]


def _steps(*shape: int) -> tuple[_Step, _Step]:
    numbers = [torch.complex(_random(*shape, seed=i), _random(*shape, seed=i + 4)) for i in range(4)]
    return (numbers[0], numbers[1]), (numbers[2], numbers[3])


def _real_steps(*numbers: float) -> tuple[_Step, _Step]:
    a, b, c, d = (torch.tensor([number]) for number in numbers)
    return (a, b), (c, d)


join = Check(
    "join",
    reference=_join,
    cases=[
        Case("two steps of one real mode", lambda: _real_steps(0.5, 2.0, 0.8, 3.0), _as_reals),
        Case("a first step after which the past is forgotten", lambda: _real_steps(0.0, 2.0, 0.8, 3.0), _as_reals),
        Case("complex modes, shape (2, 3)", lambda: _steps(2, 3), _as_reals),
    ],
    traps={
        "you let the second step go first. What enters at the first step must go through the second.": (
            lambda first, second: _join(second, first)
        ),
        "what enters at the first step has to fade in the second. Here it arrives in full.": (
            lambda first, second: (first[0] * second[0], first[1] + second[1])
        ),
        "what enters at the first step fades by the decay of the second step, not by its own.": (
            lambda first, second: (first[0] * second[0], first[0] * first[1] + second[1])
        ),
        "what enters at the second step has only just come in, and has not faded yet.": (
            lambda first, second: (first[0] * second[0], second[0] * (first[1] + second[1]))
        ),
        "decays multiply: what is halved twice is a quarter.": (
            lambda first, second: (first[0] + second[0], second[0] * first[1] + second[1])
        ),
        "the old state goes through both steps, so it fades by both decays.": (
            lambda first, second: (second[0], second[0] * first[1] + second[1])
        ),
    },
)
