"""Exercises of chapter 04: positions added, positions as rotations, times subtracted first, a cache of rotated keys."""

import math
from functools import partial

import torch

from possm_lite.blocks.positions import phasors, rope_frequencies, rotate, rotate_halves, sinusoidal_encoding
from possm_lite.classroom.checks import Case, Check, Complaint, ValueCheck, as_tensor, normal


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
        Case("two columns, one pair", lambda: (6, 2)),
        Case("four columns, two pairs", lambda: (6, 4)),
        Case("32 columns and 60 positions", lambda: (60, 32), tolerance=1e-4),
        Case("a base that is not 10,000", lambda: (20, 6, 50.0), tolerance=1e-4),
    ],
    traps={
        "the exponent is j/d and should be 2j/d: your slowest columns rotate far too fast. "
        "Look at the last columns of your matrix.": partial(_encoding, exponent=lambda c, d: (c // 2) / d),
        "the exponent grows twice too fast: something already counts in steps of two (0, 2, 4, ...) and is doubled "
        "once more.": partial(_encoding, exponent=lambda c, d: 4 * (c // 2) / d),
        "sine and cosine of a pair have different frequencies, so they are not one phasor. The two columns of pair "
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
        Case("one pair at position 1", lambda: (torch.tensor([[1.0, 0.5]]), torch.tensor([1]))),
        Case("three vectors of two pairs", lambda: (_vectors(3, 4), torch.arange(3)), tolerance=1e-4),
        Case("positions that do not begin at 0", lambda: (_vectors(3, 4), torch.tensor([7, 2, 30])), tolerance=1e-4),
        Case("eight pairs", lambda: (_vectors(5, 16), torch.arange(5)), tolerance=1e-4),
        Case("two heads at once, x (2, 5, 8)", lambda: (_vectors(2, 5, 8), torch.arange(5)), tolerance=1e-4),
        Case("a base of 100", lambda: (_vectors(5, 8), torch.arange(5), 100.0), tolerance=1e-4),
        Case(
            "positions between whole numbers",
            lambda: (_vectors(3, 4), torch.tensor([0.5, 1.75, 7.25])),
            tolerance=1e-4,
        ),
    ],
    traps={
        "every pair rotates the wrong way round: the minus sign of the sine belongs in the first line of (4.4).": (
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
        "positions are counted from the first one. The rotation of a vector is a matter of its own position, not of "
        "others that come with it.": lambda x, positions, *base: _rope(x, positions - positions[0], *base),
        "positions are cut to whole numbers. Nothing in (4.6) asks for that: half a step is half the angle.": (
            lambda x, positions, *base: _rope(x, positions.long(), *base)
        ),
        "angles are 2 pi times too large. m theta_j is the angle itself, in radians.": (
            lambda x, positions, *base: _rope(x, 2 * torch.pi * positions, *base)
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

slow_pairs = ValueCheck(
    "slow_pairs",
    expected=7,
    traps={
        "nine phasors have left their first quarter, and nine are short of a whole circle. How many are short of a "
        "quarter?": 9,
        "eight phasors have rotated by less than half a circle. A quarter is pi/2.": 8,
        "that is the answer for a base of a million. Here the base is 10,000.": 10,
        "none is the answer for base 100, and for the exponent j/d. Here the base is 10,000 and the exponent 2j/d.": 0,
        "six phasors have rotated by less than one radian. A quarter of the circle is pi/2 radians.": 6,
        "this looks like d = 16. Sixteen is the number of phasors, d is the number of coordinates, 32.": 11,
        "this looks like 90 degrees compared with radians. (4.6) gives radians, in which a quarter is pi/2.": 14,
        "all sixteen? The fastest phasor rotates by one radian at every position.": 16,
    },
)

# Exercise 4.4: two times far from zero


def _safe_score(q, k, t_q, t_k, omega, *, elapsed=lambda t_q, t_k: t_k - t_q):
    return rotate(k, phasors(elapsed(t_q, t_k), omega, torch.float32)) @ q


def _score_of_angles(q, k, angle_q, angle_k):
    q, k = (rotate(x, torch.complex(angle.cos(), angle.sin())) for x, angle in ((q, angle_q), (k, angle_k)))
    return (q * k).sum(-1)


def _spikes(start, t_q=0.025):
    """Makes a query and five spikes within 50 ms, `start` seconds after the recording began."""

    def make():
        vectors = _vectors(6, 8)
        # five keys and four pairs, so that times and frequencies cannot be multiplied one by one
        times = start + torch.tensor([t_q, 0.0014, 0.0123, 0.0251, 0.0379, 0.0468], dtype=torch.float64)
        period = torch.tensor([0.0013, 0.011, 0.13, 1.7], dtype=torch.float64)  # none divides a second
        return vectors[0], vectors[1:], times[0], times[1:], 2 * torch.pi / period

    return make


safe_score = Check(
    "safe_score",
    reference=_safe_score,
    cases=[
        Case("a query at t = 0 s", _spikes(0.0, t_q=0.0), tolerance=2e-3),
        Case("a query 25 ms after the recording began", _spikes(0.0), tolerance=2e-3),
        Case("the same spikes an hour later", _spikes(3600.0), tolerance=2e-3),
        Case("the same spikes a day later", _spikes(86400.0), tolerance=2e-3),
        Case("a query just before a full hour, spikes after it", _spikes(18000.0 - 0.01, t_q=0.0), tolerance=2e-3),
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
        "the score does not change with the times: nothing is rotated, or query and key both by the same angle, which "
        "cancels. Rotate only the key, by the difference.": lambda q, k, t_q, t_k, omega: k @ q,
    },
)

# Exercise 4.5: which maps make the score a matter of distance

only_distance = ValueCheck(
    "only_distance",
    expected="ACE",
    traps={
        "A is right, and not alone. Any orthogonal matrix will do for one step, if m steps are its m-th power.": "A",
        "A and E are right. Is a length changed by writing numbers in reverse order? And is C, for every m, a power of "
        "one step?": "AE",
        "A and C are right. What does moving the numbers on do to the length of a vector, and do steps add up?": "AC",
        "D keeps lengths, but its steps do not add up: from m to m + 1 it rotates by (2m + 1) degrees, which depends "
        "on m.": "ACDE",
        "A is right. D keeps lengths, but from m to m + 1 it rotates by (2m + 1) degrees, which depends on m.": "AD",
        "B changes lengths: at the same distance the score grows by 1.1 squared with every step.": "ABCE",
        "B changes lengths, and the steps of D do not add up.": "ABCDE",
    },
)

# Exercise 4.6: a cache of rotated keys


def _cached_step(
    q,
    k,
    v,
    cache,
    window,
    *,
    angle_q=lambda m, kept: m,
    angle_k=lambda m, kept: m,
    rotate_value=False,
    first=lambda window: -window,
    size=lambda q: len(q) ** 0.5,
):
    """`angle_q` and `angle_k` give positions from the number of the token and from how many tokens are kept."""
    keys, values, m = cache if cache is not None else (q.new_empty(0, len(q)), q.new_empty(0, len(v)), 0)
    theta = rope_frequencies(len(q))

    def at(x, position):
        return rotate(x, phasors(torch.tensor(float(position)), theta, x.dtype))

    q, k_new, v = at(q, angle_q(m, len(keys))), at(k, angle_k(m, len(keys))), at(v, m) if rotate_value else v
    keys = torch.cat([keys, k_new[None]])[first(window) :]
    values = torch.cat([values, v[None]])[first(window) :]
    return torch.softmax(keys @ q / size(q), 0) @ values, (keys, values, m + 1)


def _run(function, q, k, v, window):
    cache, answers = None, []
    for token in zip(q, k, v, strict=True):
        result = function(*token, cache, window)
        if not isinstance(result, tuple | list) or len(result) != 2:
            raise Complaint("expected two results, y and the new cache.")
        answers.append(as_tensor(result[0]))
        cache = result[1]
        if not isinstance(answers[-1], torch.Tensor) or answers[-1].shape != v[0].shape:
            raise Complaint(f"the first result, y, should have the shape of v, {tuple(v[0].shape)}.")
    return torch.stack(answers).float(), cache


def _answers(*args):
    return _run(*args)[0]


def _numbers(cache):
    if isinstance(cache, str):
        return 0
    if isinstance(cache, dict):
        return sum(map(_numbers, cache.values()))
    if hasattr(cache, "__dict__") and not hasattr(cache, "shape"):
        return _numbers(vars(cache))
    if isinstance(cache, list | tuple) or (hasattr(cache, "__iter__") and not hasattr(cache, "shape")):
        return sum(map(_numbers, cache))
    return math.prod(getattr(cache, "shape", ()))


def _kept(function, q, k, v, window):
    """How many numbers the cache holds after all tokens, if more than a window of keys and values; else "enough"."""
    _, cache = _run(function, q, k, v, window)
    most = 2 * window * q.shape[1] + window + 8  # positions and counters are free
    if _numbers(cache) > most:
        raise Complaint(f"the cache holds more than {window} keys and values after {len(q)} tokens. Drop the oldest.")
    return "enough"


def _tokens(n, d, window):
    return lambda: (*(normal(n, d, seed=i) for i in (5, 6, 7)), window)


cached_step = Check(
    "cached_step",
    reference=_cached_step,
    cases=[
        Case("the first token, which reads itself", _tokens(1, 4, 8), _answers, 1e-4),
        Case("two tokens", _tokens(2, 4, 8), _answers, 1e-4),
        Case("six tokens, all within the window", _tokens(6, 8, 8), _answers, 1e-4),
        Case("twelve tokens and a window of four", _tokens(12, 8, 4), _answers, 1e-4),
        Case("a window of one: each token reads itself", _tokens(5, 4, 1), _answers, 1e-4),
        Case("two hundred tokens and a window of five", _tokens(200, 8, 5), _answers, 1e-3),
        Case("what is kept", _tokens(30, 8, 4), _kept),
    ],
    traps={
        "keys at all distances count alike: nothing is rotated, or what is kept is rotated once more at every step and "
        "so comes along with the query. Rotate each key once, when it comes in.": partial(
            _cached_step, angle_q=lambda m, kept: 0, angle_k=lambda m, kept: 0
        ),
        "the query is not rotated. (4.5) needs both.": partial(_cached_step, angle_q=lambda m, kept: 0),
        "the keys are not rotated. (4.5) needs both.": partial(_cached_step, angle_k=lambda m, kept: 0),
        "the query is rotated the wrong way, so the score depends on n + m.": partial(
            _cached_step, angle_q=lambda m, kept: -m
        ),
        "the position is taken from how many keys are kept. Once the window is full that number stands still, and "
        "time goes on: count the tokens.": partial(
            _cached_step, angle_q=lambda m, kept: kept, angle_k=lambda m, kept: kept
        ),
        "query and newest key are one position apart. They belong to one token: its position is the same for "
        "both.": partial(_cached_step, angle_q=lambda m, kept: m + 1),
        "the values are rotated, too. Here only queries and keys are.": partial(_cached_step, rotate_value=True),
        "the window is ignored: tokens that left it are still read.": partial(_cached_step, first=lambda window: None),
        "with a window of one nothing is dropped: x[-0:] is all of x.": partial(
            _cached_step, first=lambda window: -window if window > 1 else None
        ),
        "the window holds one token too many: the newest is one of them.": partial(
            _cached_step, first=lambda window: -window - 1
        ),
        "the window holds one token too few: the newest is one of them.": partial(
            _cached_step, first=lambda window: -window + 1
        ),
        "the scores are not scaled. Divide them by the square root of d.": partial(_cached_step, size=lambda q: 1.0),
    },
)
