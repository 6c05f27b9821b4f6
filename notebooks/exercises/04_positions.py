"""Exercises of chapter 04: a position added to a token, a position as a rotation, times to be subtracted first."""

from functools import partial

import torch

from possm_lite.blocks.positions import phasors, rope_frequencies, rotate, rotate_halves, sinusoidal_encoding
from possm_lite.classroom.checks import Case, Check, ValueCheck, float32_result, normal


def _evens_first(x):
    return torch.cat([x[..., 0::2], x[..., 1::2]], -1)


# Exercise 4.1: sinusoidal encoding


def _encoding(n, d, base=10_000.0, *, exponent=lambda c, d: 2 * (c // 2) / d, even=torch.sin, odd=torch.cos):
    column = torch.arange(d, dtype=torch.float64)
    angle = torch.arange(n)[:, None] / base ** exponent(column, d)  # (n, d)
    return torch.where(column % 2 == 0, even(angle), odd(angle))


fixed_encoding = Check(
    "fixed_encoding",
    reference=_encoding,
    cases=[
        Case("two columns, one pair", lambda: (6, 2), float32_result),
        Case("four columns, two pairs", lambda: (6, 4), float32_result),
        Case("32 columns and 60 positions", lambda: (60, 32), float32_result, tolerance=1e-4),
        Case("a base that is not 10,000", lambda: (20, 6, 50.0), float32_result, tolerance=1e-4),
    ],
    traps={
        "the exponent is j/d and should be 2j/d: your slowest columns turn far too fast. "
        "Look at the last columns of your matrix.": partial(_encoding, exponent=lambda c, d: (c // 2) / d),
        "the exponent grows twice too fast: something already counts in steps of two (0, 2, 4, ...) and is doubled "
        "once more.": partial(_encoding, exponent=lambda c, d: 4 * (c // 2) / d),
        "sine and cosine of a pair have different frequencies, so they are not one clock hand. The two columns of pair "
        "j share the exponent 2j/d.": partial(_encoding, exponent=lambda c, d: c / d),
        "sine and cosine have changed places: even columns are sines, so position 0 reads 0, 1, 0, 1, ...": (
            partial(_encoding, even=torch.cos, odd=torch.sin)
        ),
        "all sines come first and then all cosines. That is a code too, but (4.1) lays sine and cosine of a pair side "
        "by side.": lambda *args: _evens_first(_encoding(*args)),
        "your columns get faster from left to right: the position is divided by base^(2j/d), not multiplied.": (
            partial(_encoding, exponent=lambda c, d: -2 * (c // 2) / d)
        ),
        "the last pair has reached the whole base: you divide by the number of pairs minus one. (4.1) divides by d, "
        "and stops short of it.": partial(_encoding, exponent=lambda c, d: (c // 2) / max(d // 2 - 1, 1)),
    },
)

# Exercise 4.2: RoPE


def _rope(x, positions, base=10_000.0, *, frequencies=rope_frequencies, rotation=rotate):
    return rotation(x, phasors(positions, frequencies(x.shape[-1], base), x.dtype))


def _by_pairs(rule):
    """A rotation that maps the cosine, the sine and the two coordinates of each pair to new coordinates."""

    def rotation(x, phase):
        return torch.stack(rule(phase.real, phase.imag, x[..., 0::2], x[..., 1::2]), -1).flatten(-2)

    return rotation


def _mixed_pairings(x, phase):
    """Angles laid out for halves, coordinates paired as neighbours."""
    partner = torch.stack([-x[..., 1::2], x[..., 0::2]], -1).flatten(-2)
    return x * torch.cat([phase.real] * 2, -1) + partner * torch.cat([phase.imag] * 2, -1)


_vectors = partial(normal, seed=4)

rope = Check(
    "rope",
    reference=_rope,
    cases=[
        Case("one pair at position 1", lambda: (torch.tensor([[1.0, 0.5]]), torch.tensor([1])), float32_result),
        Case("three vectors of two pairs", lambda: (_vectors(3, 4), torch.arange(3)), float32_result, 1e-4),
        Case(
            "positions that do not begin at 0", lambda: (_vectors(3, 4), torch.tensor([7, 2, 30])), float32_result, 1e-4
        ),
        Case("eight pairs", lambda: (_vectors(5, 16), torch.arange(5)), float32_result, 1e-4),
        Case("two heads at once, x (2, 5, 8)", lambda: (_vectors(2, 5, 8), torch.arange(5)), float32_result, 1e-4),
        Case("a base of 100", lambda: (_vectors(5, 8), torch.arange(5), 100.0), float32_result, 1e-4),
    ],
    traps={
        "every pair rotates the wrong way round: the minus sign of the sine belongs into the first line of (4.4).": (
            partial(_rope, rotation=lambda x, phase: rotate(x, phase.conj()))
        ),
        "one minus sign is missing: this is not a rotation, as the length of a pair changes. Compare with (4.4).": (
            partial(_rope, rotation=_by_pairs(lambda cos, sin, a, b: (cos * a + sin * b, sin * a + cos * b)))
        ),
        "you rotated coordinate j with j + d/2. That is the other valid pairing, but (4.6) pairs neighbours, "
        "2j with 2j + 1.": partial(_rope, rotation=rotate_halves),
        "two pairings are mixed: coordinates are paired as neighbours, but the angles are laid out for halves. "
        "The angles must repeat as 0, 0, 1, 1, ...": partial(_rope, rotation=_mixed_pairings),
        "the exponent of the frequencies is j/d and should be 2j/d: the slow pairs rotate too fast.": (
            partial(_rope, frequencies=lambda d, base: rope_frequencies(d, base**0.5))
        ),
        "the second coordinate of a pair was computed from the first one after its rotation. Keep the old value until "
        "both are done.": partial(
            _rope,
            rotation=_by_pairs(lambda cos, sin, a, b: (cos * a - sin * b, sin * (cos * a - sin * b) + cos * b)),
        ),
        "the vectors are rotated by 0, 1, 2, ... whatever positions say. Use `positions`.": (
            lambda x, positions, *base: _rope(x, torch.arange(x.shape[-2]), *base)
        ),
        "every pair is rotated well, but all first coordinates come before all second ones. Put the two of a pair side "
        "by side again.": lambda *args: _evens_first(_rope(*args)),
        "all pairs rotate at the same pace. Each has its own, theta_j of (4.6).": (
            partial(_rope, frequencies=lambda d, base: torch.ones(d // 2, dtype=torch.float64))
        ),
        "this adds the encoding of section 2. Here nothing is added: each pair is rotated, by (4.4).": (
            lambda x, positions, *base: x + sinusoidal_encoding(positions, x.shape[-1], *base)
        ),
    },
)

# Exercise 4.3: a large base. theta_j 200 < pi/2 for 10^{-j/4} < 0.00785, that is j > 8.4

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


def _safe_score(q, k, t_q, t_k, omega, *, elapsed=lambda t_q, t_k: t_k - t_q):
    return rotate(k, phasors(elapsed(t_q, t_k), omega, torch.float32)) @ q


def _score_of_angles(q, k, angle_q, angle_k):
    q, k = (rotate(x, torch.complex(angle.cos(), angle.sin())) for x, angle in ((q, angle_q), (k, angle_k)))
    return (q * k).sum(-1)


def _spikes(start, t_q=0.025):
    """Makes a query and five spikes within 50 ms, `start` seconds after the recording began; periods 1 ms to 1 s."""

    def make():
        vectors = _vectors(6, 8)
        # five keys and four pairs, so that times and frequencies cannot be multiplied one by one
        times = start + torch.tensor([t_q, 0.0014, 0.0123, 0.0251, 0.0379, 0.0468], dtype=torch.float64)
        period = torch.tensor([0.001, 0.01, 0.1, 1.0], dtype=torch.float64)
        return vectors[0], vectors[1:], times[0], times[1:], 2 * torch.pi / period

    return make


safe_score = Check(
    "safe_score",
    reference=_safe_score,
    cases=[
        Case("a query at t = 0 s", _spikes(0.0, t_q=0.0), float32_result, tolerance=2e-3),
        Case("a query 25 ms after the recording began", _spikes(0.0), float32_result, tolerance=2e-3),
        Case("the same spikes an hour later", _spikes(3600.0), float32_result, tolerance=2e-3),
        Case("the same spikes a day later", _spikes(86400.0), float32_result, tolerance=2e-3),
    ],
    traps={
        "right in the first minutes, wrong after an hour: long times went into float32 angles. Subtract the two times "
        "before anything is rotated.": lambda q, k, t_q, t_k, omega: _score_of_angles(
            q, k, t_q.float() * omega.float(), t_k.float()[:, None] * omega.float()
        ),
        "right in the first minutes, wrong after an hour: the angles of long times were rounded to float32. Subtract "
        "the two times before anything is rotated.": lambda q, k, t_q, t_k, omega: _score_of_angles(
            q, k, (t_q * omega).float(), (t_k[:, None] * omega).float()
        ),
        "you subtract, but too late: the times were float32 already and had lost their milliseconds. Subtract in "
        "float64, then convert.": partial(_safe_score, elapsed=lambda t_q, t_k: t_k.float() - t_q.float()),
        "the key rotates the wrong way: (4.5) rotates it by the time of the key minus that of the query.": (
            partial(_safe_score, elapsed=lambda t_q, t_k: t_q - t_k)
        ),
        "query and key are both rotated by the difference, and so the rotation cancels. Rotate only the key by it.": (
            lambda q, k, t_q, t_k, omega: _score_of_angles(q, k, *[((t_k - t_q)[:, None] * omega).float()] * 2)
        ),
    },
)
