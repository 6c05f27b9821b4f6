"""Exercises of chapter 04: a position written on a token, a position as a turn, times that must be subtracted first."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from possm_lite.blocks.positions import phasors, rope_frequencies, rotate, rotate_halves, sinusoidal_encoding
from possm_lite.classroom.checks import Case, Check, ValueCheck, normal


def in_float32(function: Callable, *args: Any) -> Any:
    """Whether a student calculates in float32 or float64 is not what these exercises ask."""
    result = function(*args)
    return result.float() if isinstance(result, Tensor) else result


# Exercise 4.1: the encoding with its bug found


def _encoding(n: int, d: int, base: float = 10_000.0) -> Tensor:
    return sinusoidal_encoding(torch.arange(n), d, base)


def _with_exponents(exponent: Callable[[Tensor, int], Tensor]) -> Callable:
    """The encoding in which column c has the exponent `exponent(c, d)` of the base, right or wrong."""

    def encoding(n: int, d: int, base: float = 10_000.0) -> Tensor:
        column = torch.arange(d, dtype=torch.float64)
        angle = torch.arange(n)[:, None] / base ** exponent(column, d)  # (n, d)
        return torch.where(column % 2 == 0, angle.sin(), angle.cos())

    return encoding


def _sin_and_cos_swapped(n: int, d: int, base: float = 10_000.0) -> Tensor:
    return _encoding(n, d, base).unflatten(-1, (-1, 2)).flip(-1).flatten(-2)


def _sines_first(n: int, d: int, base: float = 10_000.0) -> Tensor:
    encoding = _encoding(n, d, base)
    return torch.cat([encoding[:, 0::2], encoding[:, 1::2]], -1)


fixed_encoding = Check(
    "fixed_encoding",
    reference=_encoding,
    cases=[
        Case("two columns, one pair", lambda: (6, 2), in_float32),
        Case("four columns, two pairs", lambda: (6, 4), in_float32),
        Case("32 columns and 60 positions", lambda: (60, 32), in_float32, tolerance=1e-4),
        Case("a base that is not 10,000", lambda: (20, 6, 50.0), in_float32, tolerance=1e-4),
    ],
    traps={
        "the exponent is j/d and should be 2j/d: your slowest columns turn far too fast. "
        "Look at the last columns of your matrix.": _with_exponents(lambda c, d: c // 2 / d),
        "the exponent grows twice too fast: something already counts in steps of two (0, 2, 4, ...) and is doubled "
        "once more.": _with_exponents(lambda c, d: 4 * (c // 2) / d),
        "sine and cosine of a pair have different frequencies, so they are no hand of a clock. The two columns of pair "
        "j share the exponent 2j/d.": _with_exponents(lambda c, d: c / d),
        "sine and cosine have changed places: even columns are sines, so position 0 reads 0, 1, 0, 1, ...": (
            _sin_and_cos_swapped
        ),
        "all sines come first and then all cosines. That is a code too, but (4.1) lays sine and cosine of a pair side "
        "by side.": _sines_first,
        "your columns get faster from left to right: the position is divided by base^(2j/d), not multiplied.": (
            _with_exponents(lambda c, d: -(c // 2) * 2 / d)
        ),
        "the last pair has reached the whole base: you divide by the number of pairs minus one. (4.1) divides by d, "
        "and stops short of it.": _with_exponents(lambda c, d: c // 2 / max(d // 2 - 1, 1)),
    },
)


# Exercise 4.2: RoPE


def _phase(x: Tensor, positions: Tensor, base: float) -> Tensor:
    return phasors(positions, rope_frequencies(x.shape[-1], base), x.dtype)


def _rope(x: Tensor, positions: Tensor, base: float = 10_000.0) -> Tensor:
    return rotate(x, _phase(x, positions, base))


def _turned_back(x: Tensor, positions: Tensor, base: float = 10_000.0) -> Tensor:
    return rotate(x, _phase(x, positions, base).conj())


def _in_halves(x: Tensor, positions: Tensor, base: float = 10_000.0) -> Tensor:
    return rotate_halves(x, _phase(x, positions, base))


def _pairings_mixed(x: Tensor, positions: Tensor, base: float = 10_000.0) -> Tensor:
    """Angles laid out for halves, coordinates paired as neighbours."""
    phase = _phase(x, positions, base)
    cos, sin = torch.cat([phase.real] * 2, -1), torch.cat([phase.imag] * 2, -1)
    partner = torch.stack([-x[..., 1::2], x[..., 0::2]], -1).flatten(-2)
    return x * cos + partner * sin


def _half_as_slow(x: Tensor, positions: Tensor, base: float = 10_000.0) -> Tensor:
    return _rope(x, positions, base**0.5)


def _one_minus_lost(x: Tensor, positions: Tensor, base: float = 10_000.0) -> Tensor:
    phase, even, odd = _phase(x, positions, base), x[..., 0::2], x[..., 1::2]
    return torch.stack([phase.real * even + phase.imag * odd, phase.imag * even + phase.real * odd], -1).flatten(-2)


def _overwritten(x: Tensor, positions: Tensor, base: float = 10_000.0) -> Tensor:
    """The second line of the turn reads the first coordinate after it was turned."""
    phase, even, odd = _phase(x, positions, base), x[..., 0::2], x[..., 1::2]
    even = phase.real * even - phase.imag * odd
    odd = phase.imag * even + phase.real * odd
    return torch.stack([even, odd], -1).flatten(-2)


def _one_position_for_all(x: Tensor, positions: Tensor, base: float = 10_000.0) -> Tensor:
    return _rope(x, torch.arange(x.shape[-2]), base)


def _firsts_then_seconds(x: Tensor, positions: Tensor, base: float = 10_000.0) -> Tensor:
    turned = _rope(x, positions, base)
    return torch.cat([turned[..., 0::2], turned[..., 1::2]], -1)


def _one_pace(x: Tensor, positions: Tensor, base: float = 10_000.0) -> Tensor:
    return rotate(x, phasors(positions, torch.ones(x.shape[-1] // 2, dtype=torch.float64), x.dtype))


def _added(x: Tensor, positions: Tensor, base: float = 10_000.0) -> Tensor:
    return x + sinusoidal_encoding(positions, x.shape[-1], base)


_vectors = partial(normal, seed=4)


rope = Check(
    "rope",
    reference=_rope,
    cases=[
        Case("one pair at position 1", lambda: (torch.tensor([[1.0, 0.5]]), torch.tensor([1])), in_float32),
        Case("three vectors of two pairs", lambda: (_vectors(3, 4), torch.arange(3)), in_float32, tolerance=1e-4),
        Case("positions that do not begin at 0", lambda: (_vectors(3, 4), torch.tensor([7, 2, 30])), in_float32, 1e-4),
        Case("eight pairs", lambda: (_vectors(5, 16), torch.arange(5)), in_float32, tolerance=1e-4),
        Case("two heads at once, x (2, 5, 8)", lambda: (_vectors(2, 5, 8), torch.arange(5)), in_float32, 1e-4),
        Case("a base of 100", lambda: (_vectors(5, 8), torch.arange(5), 100.0), in_float32, tolerance=1e-4),
    ],
    traps={
        "every pair turns the wrong way round: the minus sign of the sine belongs into the first line of (4.4).": (
            _turned_back
        ),
        "one minus sign is missing: this is no turn, it does not keep the length of a pair. Compare with (4.4).": (
            _one_minus_lost
        ),
        "you turned coordinate j with j + d/2. That is the other valid pairing, but (4.6) pairs neighbours, "
        "2j with 2j + 1.": _in_halves,
        "two pairings are mixed: coordinates are paired as neighbours, but the angles are laid out for halves. "
        "The angles must repeat as 0, 0, 1, 1, ...": _pairings_mixed,
        "the exponent of the frequencies is j/d and should be 2j/d: the slow pairs turn too fast.": _half_as_slow,
        "the second coordinate of a pair was computed from the first one after its turn. Keep the old value until "
        "both are done.": _overwritten,
        "the vectors are turned by 0, 1, 2, ... whatever positions say. Use `positions`.": _one_position_for_all,
        "every pair is turned well, but all first coordinates stand before all second ones. Put the two of a pair side "
        "by side again.": _firsts_then_seconds,
        "all pairs turn at the same pace. Each has its own, theta_j of (4.6).": _one_pace,
        "this adds the encoding of section 2. Here nothing is added: each pair is turned, by (4.4).": _added,
    },
)


# Exercise 4.3: what a large base buys. theta_j 200 < pi/2 for 10^{-j/4} < 0.00785, that is j > 8.4

slow_hands = ValueCheck(
    "slow_hands",
    expected=7,
    traps={
        "nine hands have left their first quarter turn, and nine are short of a whole turn. How many are short of a "
        "quarter?": 9,
        "eight hands have turned by less than half a turn. A quarter turn is pi/2.": 8,
        "that is the answer for a base of a million. Here the base is 10,000.": 10,
        "none is the answer for base 100, and for the exponent j/d. Here the base is 10,000 and the exponent 2j/d.": 0,
        "six hands have turned by less than one radian. A quarter turn is pi/2 radians.": 6,
        "this looks like d = 16. Sixteen is the number of hands, d is the number of coordinates, 32.": 11,
        "this looks like 90 degrees compared with radians. (4.6) gives radians, in which a quarter turn is pi/2.": 14,
        "all sixteen? The fastest hand turns by one radian at every position.": 16,
    },
)


# Exercise 4.4: two times far from zero


def _score(q: Tensor, k: Tensor, elapsed: Tensor, omega: Tensor) -> Tensor:
    return rotate(k, phasors(elapsed, omega, torch.float32)) @ q


def _safe_score(q: Tensor, k: Tensor, t_q: Tensor, t_k: Tensor, omega: Tensor) -> Tensor:
    return _score(q, k, t_k - t_q, omega)


def _wrong_way(q: Tensor, k: Tensor, t_q: Tensor, t_k: Tensor, omega: Tensor) -> Tensor:
    return _score(q, k, t_q - t_k, omega)


def _turn32(x: Tensor, angle: Tensor) -> Tensor:
    return rotate(x, torch.complex(angle.cos(), angle.sin()))


def _times_in_float32(q: Tensor, k: Tensor, t_q: Tensor, t_k: Tensor, omega: Tensor) -> Tensor:
    q_turned = _turn32(q, t_q.float() * omega.float())
    return _turn32(k, t_k.float()[:, None] * omega.float()) @ q_turned


def _angles_in_float32(q: Tensor, k: Tensor, t_q: Tensor, t_k: Tensor, omega: Tensor) -> Tensor:
    return _turn32(k, (t_k[:, None] * omega).float()) @ _turn32(q, (t_q * omega).float())


def _subtracted_too_late(q: Tensor, k: Tensor, t_q: Tensor, t_k: Tensor, omega: Tensor) -> Tensor:
    return _score(q, k, t_k.float() - t_q.float(), omega)


def _turned_twice(q: Tensor, k: Tensor, t_q: Tensor, t_k: Tensor, omega: Tensor) -> Tensor:
    phase = phasors(t_k - t_q, omega, torch.float32)
    return (rotate(k, phase) * rotate(q, phase)).sum(-1)


def _spikes(start: float, t_q: float = 0.025) -> Callable[[], tuple]:
    """A query and five spikes within 50 ms, `start` seconds after the recording began; periods 1 ms to 1 s."""

    def make() -> tuple:
        vectors = _vectors(6, 8)
        # five keys and four pairs, so that times and paces cannot be multiplied one by one
        t_k = torch.tensor([0.0014, 0.0123, 0.0251, 0.0379, 0.0468], dtype=torch.float64)
        period = torch.tensor([0.001, 0.01, 0.1, 1.0], dtype=torch.float64)
        at = torch.tensor(start + t_q, dtype=torch.float64)
        return vectors[0], vectors[1:], at, start + t_k, 2 * torch.pi / period

    return make


safe_score = Check(
    "safe_score",
    reference=_safe_score,
    cases=[
        Case("a query at t = 0 s", _spikes(0.0, t_q=0.0), in_float32, tolerance=2e-3),
        Case("a query 25 ms after the recording began", _spikes(0.0), in_float32, tolerance=2e-3),
        Case("the same spikes an hour later", _spikes(3600.0), in_float32, tolerance=2e-3),
        Case("the same spikes a day later", _spikes(86400.0), in_float32, tolerance=2e-3),
    ],
    traps={
        "right in the first minutes, wrong after an hour: long times went into float32 angles. Subtract the two times "
        "before anything is turned.": _times_in_float32,
        "right in the first minutes, wrong after an hour: the angles of long times were rounded to float32. Subtract "
        "the two times before anything is turned.": _angles_in_float32,
        "you subtract, but too late: the times were float32 already and had lost their milliseconds. Subtract in "
        "float64, then convert.": _subtracted_too_late,
        "the key turns the wrong way: (4.5) turns it by the time of the key minus that of the query.": _wrong_way,
        "query and key are both turned by the difference, and so the turn cancels. Turn only the key by it.": (
            _turned_twice
        ),
    },
)
