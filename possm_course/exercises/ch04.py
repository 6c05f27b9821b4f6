"""Exercises of chapter 04: positions added or as rotations, times subtracted first, a cache, maps of distance."""

import math

import torch

from possm_course.checks import Case, Complaint, ValueCheck, as_tensor, exercise, normal
from possm_lite.nn.positions import phasors, rope_frequencies, rotate


# Exercise 4.1: sinusoidal encoding
@exercise(
    cases={
        "two columns, one pair": lambda: (6, 2),
        "four columns, two pairs": lambda: (6, 4),
        "32 columns and 60 positions": Case(lambda: (60, 32), tolerance=1e-4),
        "a base that is not 10,000": Case(lambda: (20, 6, 50.0), tolerance=1e-4),
    },
    mistakes={
        "2 * j / D → j / D": "the exponent is j/d and should be 2j/d: your slowest columns rotate far too fast.",
        "angle.cos() → (i / base ** ((2 * j + 1) / D)).cos()": (
            "sine and cosine of a pair have different frequencies, so they are not one phasor."
        ),
        "torch.stack([angle.sin(), angle.cos()], -1).flatten(1) → torch.cat([angle.sin(), angle.cos()], -1)": (
            "all sines come first and then all cosines. (4.1) lays sine and cosine of a pair side by side."
        ),
        "angle.sin(), angle.cos() → angle.cos(), angle.sin()": (
            "sine and cosine have changed seats: by (4.1) column 2j is the sine and column 2j + 1 the cosine."
        ),
        (
            "j = torch.arange(D // 2) → j = torch.arange(D)",
            "torch.stack([angle.sin(), angle.cos()], -1).flatten(1) → "
            "torch.where(torch.arange(D) % 2 == 0, angle.sin(), angle.cos())",
        ): (
            "the exponent is 2 times the *column*: it counts columns where it should count pairs. Columns 2j and "
            "2j + 1 share j."
        ),
        "angle.cos() → (i / base ** (2 * (j + 1) / D)).cos()": (
            "the cosine has the frequency of the next pair: sine and cosine of a pair should share one."
        ),
        "angle.cos() → (i / base ** (2 * (2 * j + 1) / D)).cos()": (
            "the exponents grow with the column: the sine and the cosine of a pair should share one frequency."
        ),
        "2 * j / D → 2 * j / max(D - 2, 1)": (
            "the exponents run up to one: divided by the number of pairs less one. (4.1) divides 2j by D."
        ),
        "i / base ** (2 * j / D) → i * (2 * j / D) ** (1 / base)": (
            "base and exponent have changed places: it should be base to the power of 2j/D."
        ),
        (
            "i / base ** (2 * j / D) → i * base ** (2 * j / D)"
        ): "frequencies grow with j: divide by the power of the base.",
        "base ** (2 * j / D) → 10_000 ** (2 * j / D)": "10,000 is written into the function. It should be `base`.",
        "torch.arange(n)[:, None] → torch.arange(1, n + 1)[:, None]": "positions count from 1. They should begin at 0.",
        "i / base ** (2 * j / D) → i / base ** (2 * j)": "the exponent is not divided by D.",
        (
            "i / base ** (2 * j / D) → 2 * torch.pi * i / base ** (2 * j / D)"
        ): "there is a factor 2π that should not be there.",
        "base ** (2 * j / D) → base ** (2 * j // D)": "the exponent is rounded to a whole number: `/`, not `//`.",
        "i / base ** (2 * j / D) → i * torch.exp(2 * j * (-math.log(base) / D // 1))": (
            "the exponent is rounded to a whole number: `//` binds the whole quotient. It should be `/`."
        ),
    },
)
def fixed_encoding(n, D, base=10_000.0):
    """The matrix of (4.1) for positions 0 ... n - 1: shape (n, D)."""
    i = torch.arange(n)[:, None]  # (n, 1)
    j = torch.arange(D // 2)  # (D/2,)
    angle = i / base ** (2 * j / D)  # (n, D/2)
    return torch.stack([angle.sin(), angle.cos()], -1).flatten(1)  # (n, D)


# Exercise 4.2: RoPE
def _vectors(*shape):
    """Normal numbers of this shape."""
    return normal(*shape, seed=4)


def _halves_of_neighbours(x, positions, base=10_000.0):
    """A mistake: angles of neighbouring pairs, but x is cut into halves."""
    theta = base ** (-2 * torch.arange(x.shape[-1] // 2) / x.shape[-1])
    angle = (positions[:, None] * theta).repeat_interleave(2, -1)  # (M, d): a a b b
    first, second = x.chunk(2, -1)
    return x * angle.cos() + torch.cat([-second, first], -1) * angle.sin()


def _neighbours_of_halves(x, positions, base=10_000.0):
    """A mistake: neighbours are rotated, but the angles are laid out for halves."""
    theta = base ** (-2 * torch.arange(x.shape[-1] // 2) / x.shape[-1])
    angle = (positions[:, None] * theta).repeat(1, 2)  # (M, d): a b a b
    turned = torch.stack([-x[..., 1::2], x[..., 0::2]], -1).flatten(-2)
    return x * angle.cos() + turned * angle.sin()


@exercise(
    tolerance=1e-4,
    cases={
        "one pair at position 1": lambda: (torch.tensor([[1.0, 0.5]]), torch.tensor([1])),
        "positions that do not begin at 0": lambda: (_vectors(3, 4), torch.tensor([7, 2, 30])),
        "eight pairs": lambda: (_vectors(5, 16), torch.arange(5)),
        "two heads at once, x (2, 5, 8)": lambda: (_vectors(2, 5, 8), torch.arange(5)),
        "a base of 100": lambda: (_vectors(5, 8), torch.arange(5), 100.0),
        "positions between whole numbers": lambda: (_vectors(3, 4), torch.tensor([0.5, 1.75, 7.25])),
    },
    mistakes={
        "angle.cos(), angle.sin() → angle.cos(), -angle.sin()": (
            "every pair rotates the wrong way round: the minus sign of the sine belongs in the first line of (4.4)."
        ),
        (
            "x[..., 0::2], x[..., 1::2] → x.chunk(2, -1)",
            "sin * even + cos * odd], -1) → sin * even + cos * odd], -2)",
        ): "you rotated coordinate j with j + d/2. Here neighbours are pairs, 2j with 2j + 1.",
        "-2 * torch.arange → -torch.arange": (
            "the exponent of the frequencies is j/d and should be 2j/d: the slow pairs rotate too fast."
        ),
        "sin * even → sin * (cos * even - sin * odd)": (
            "the second coordinate of a pair was computed from the first one after its rotation."
        ),
        "sin * even + cos * odd], -1) → sin * even + cos * odd], -2)": (
            "rotated, and then joined wrong: each first coordinate is followed by the second one of its own pair."
        ),
        "positions[:, None] → torch.arange(x.shape[-2])[:, None]": "tokens counted from 0. They are at `positions`.",
        _halves_of_neighbours: (
            "two conventions are mixed: the angles belong to neighbours, (a, a, b, b), but halves of x were "
            "rotated with each "
            "other. Here neighbours are pairs, in both."
        ),
        _neighbours_of_halves: (
            "two conventions are mixed: neighbours were rotated with each other, but the angles are laid out for "
            "halves, "
            "(a, b, a, b). Both numbers of a pair should have one angle."
        ),
        "positions[:, None] → positions.long()[:, None]": (
            "positions were rounded to whole numbers, as for a table of cosines. They may lie between."
        ),
        (
            "positions[:, None] → (positions[:, None] + 1)"
        ): "positions count from one more than they should: use them as given.",
        "base ** (-2 * torch.arange(d // 2) / d) → base ** (2 * torch.arange(d // 2) / d)": (
            "the frequencies grow with the pair: the exponent should be negative."
        ),
        "base ** (-2 → 10_000.0 ** (-2": "10,000 is written into the function. It should be `base`.",
        "theta = base → theta = 1e6": "the base is another number, and `base` is not used: it should be.",
        (
            "theta = base ** (-2 * torch.arange(d // 2) / d) → theta = (base ** (-2 * torch.arange(d // 2) / "
            "d)).bfloat16().float()"
        ): (
            "the frequencies were rounded to half precision: positions far out get a wrong angle. Compute angles "
            "in float32."
        ),
        "rotated = torch.stack([cos * even - sin * odd, sin * even + cos * odd], -1) → "
        "rotated = torch.stack([even + sin, odd + cos], -1)": (
            "sine and cosine are added to x, as in (4.1). RoPE multiplies: it rotates."
        ),
        "sin * even + cos * odd → cos * odd - sin * even": (
            "both lines have a minus: one of the two should have a plus, or it is no rotation."
        ),
        "cos * even - sin * odd → cos * even + sin * odd": (
            "both lines have a plus: the minus belongs in the first one, or it is no rotation."
        ),
        (
            "positions[:, None] * theta → 2 * torch.pi * positions[:, None] * theta"
        ): "there is a factor 2π that does not belong.",
        (
            "cos * even - sin * odd, sin * even + cos * odd → cos * even, cos * odd"
        ): "the sines are missing: this only scales x.",
        "angle = positions[:, None] * theta → angle = (positions[:, None].bfloat16() * theta.bfloat16()).float()": (
            "positions and frequencies were rounded to half precision: positions far out get a wrong angle. Use "
            "float32."
        ),
    },
)
def rope(x, positions, base=10_000.0):
    """Rotate each neighbouring pair of x (..., M, d) by its angle m theta_j. positions (M,)."""
    d = x.shape[-1]
    theta = base ** (-2 * torch.arange(d // 2) / d)  # (d/2,)
    angle = positions[:, None] * theta  # (M, d/2)
    cos, sin = angle.cos(), angle.sin()
    even, odd = x[..., 0::2], x[..., 1::2]  # (..., M, d/2) each
    rotated = torch.stack([cos * even - sin * odd, sin * even + cos * odd], -1)  # (..., M, d/2, 2)
    return rotated.flatten(-2)  # (..., M, d)


# Exercise 4.3: which codes do not see that a text has moved
same_anywhere = ValueCheck(
    "same_anywhere",
    expected="AD",
    mistakes={
        "D": "D is right, and not alone: in which of the others do scores have nothing to do with places at all?",
        "CD": "of (4.3) only p_m . p_n knows the distance alone. In C two terms more compare a word with a place.",
        "ACD": "of (4.3) only p_m . p_n knows the distance alone. In C two terms more compare a word with a place.",
        "A": "A is right, and not alone: (4.5) knows nothing but the distance.",
        "BCD": "B and C add another vector at another place, and every score with it. In A nothing changes.",
        "DA": "the letters are right. Write them in the order of the alphabet.",
    },
    hint="Move every word by one place and write down each term of the score: which of them have changed?",
)


# Exercise 4.4: two times far from zero
def _spikes(start, t_q=0.025):
    """Makes a query and five spikes within 50 ms, `start` seconds after the recording began."""

    def make():
        vectors = _vectors(6, 8)
        # five keys and four pairs, so that times and frequencies cannot be multiplied one by one
        times = start + torch.tensor([t_q, 0.0014, 0.0123, 0.0251, 0.0379, 0.0468], dtype=torch.float64)
        period = torch.tensor([0.0013, 0.011, 0.13, 1.7], dtype=torch.float64)  # none divides a second
        return vectors[0], vectors[1:], times[0], times[1:], 2 * torch.pi / period

    return make


def _rotated_in_float32(q, k, t_q, t_k, omega):
    """A mistake: query and keys are rotated by times in float32."""
    q, k = (rotate(x, torch.exp(1j * t.float()[..., None] * omega.float())) for x, t in ((q, t_q), (k, t_k)))
    return k @ q


@exercise(
    tolerance=2e-3,
    cases={
        "a query at t = 0 s": _spikes(0.0, t_q=0.0),
        "a query 25 ms after the recording began": _spikes(0.0),
        "the same spikes an hour later (are times rounded before they are subtracted?)": _spikes(3600.0),
        "the same spikes a day later": _spikes(86400.0),
        "a query just before a full hour, spikes after it": _spikes(18000.0 - 0.01, t_q=0.0),
    },
    mistakes={
        "(elapsed[:, None] * omega).float() → (t_k[:, None] * omega).float() - (t_q * omega).float()": (
            "right in the first minutes, wrong after an hour: the angles of long times were rounded to float32."
        ),
        "t_k - t_q → t_k.float() - t_q.float()": (
            "you subtract, but too late: the times were float32 already and had lost their milliseconds."
        ),
        "t_k - t_q → t_k % 3600 - t_q % 3600": (
            "times modulo an hour are small, and right until a query and a spike are on two sides of a full hour."
        ),
        "t_k - t_q → (t_k - t_q).abs()": "a spike before the query rotates the other way: keep the sign.",
        "t_k - t_q → t_q - t_k": "the sign: by (4.5) the angle is the time of the key minus that of the query.",
        "t_k - t_q → t_k": "only the keys are rotated: (4.5) needs the time between key and query.",
        "t_k - t_q → ((t_k - t_q) * 1000).round() / 1000": (
            "times are rounded to milliseconds: pairs that rotate in a millisecond lose their angle."
        ),
        "t_k - t_q → ((t_k - t_q) * 1000).long() / 1000": "times are cut to whole milliseconds: keep them as they are.",
        "t_k - t_q → (t_k - t_q) * 1000": "these are milliseconds. The frequencies are in radians per second.",
        "elapsed[:, None] * omega → 2 * torch.pi * elapsed[:, None] * omega": (
            "a factor 2π too much: omega is in radians per second already."
        ),
        "rotated @ q → rotated @ q / math.sqrt(len(q))": "divided by the root of d: here the plain product is wanted.",
        "even, odd = k[:, 0::2], k[:, 1::2] → even, odd = k.chunk(2, -1)": (
            "coordinate j was rotated with j + d/2. Here neighbours are pairs, 2j with 2j + 1."
        ),
        _rotated_in_float32: (
            "both were rotated by times in float32: after an hour these have lost their milliseconds. Subtract first."
        ),
    },
)
def safe_score(q, k, t_q, t_k, omega):
    """(R_{t_q} q) . (R_{t_k} k) for every key, exact at any time of the day: shape (n,)."""
    elapsed = t_k - t_q  # (n,), float64: subtract first
    angle = (elapsed[:, None] * omega).float()  # (n, d/2)
    cos, sin = angle.cos(), angle.sin()
    even, odd = k[:, 0::2], k[:, 1::2]  # (n, d/2) each
    rotated = torch.stack([cos * even - sin * odd, sin * even + cos * odd], -1).flatten(-2)  # (n, d)
    return rotated @ q  # (n,)


# Exercise 4.5: a cache of rotated keys
def _run(function, q, k, v, window):
    """All answers (n, d) of a cached step that is called token by token, and its last cache."""
    cache, answers = None, []
    for token in zip(q, k, v, strict=True):
        result = function(*token, cache, window)
        if not isinstance(result, tuple | list) or len(result) != 2:
            raise Complaint("expected two results, y and the new cache.")
        y, cache = result
        answers.append(as_tensor(y))
    return torch.stack(answers).float(), cache


def _answers(*args):
    """Observe the answers alone."""
    return _run(*args)[0]


def _numbers(cache):
    """How many numbers are kept, in objects, dicts, lists, tensors and arrays."""
    if hasattr(cache, "shape"):
        return math.prod(cache.shape)
    if hasattr(cache, "__dict__"):
        cache = vars(cache)
    if isinstance(cache, dict):
        cache = cache.values()
    if isinstance(cache, str) or not hasattr(cache, "__iter__"):
        return 1
    return sum(map(_numbers, cache))


def _kept(function, q, k, v, window):
    """Whether no more than a window of keys and values is kept after all tokens; positions and counters are free."""
    _, cache = _run(function, q, k, v, window)
    if _numbers(cache) > 2 * window * q.shape[1] + window + 8:
        raise Complaint(f"the cache holds more than {window} keys and values after {len(q)} tokens. Drop the oldest.")
    return "enough"


def _tokens(n, d, window):
    """Makes queries, keys and values (n, d) of n tokens, and the length of the window."""
    return lambda: (*(normal(n, d, seed=i) for i in (5, 6, 7)), window)


@exercise(
    cases={
        "the first token, which reads itself": Case(_tokens(1, 4, 8), _answers, 1e-4),
        "six tokens, all within the window": Case(_tokens(6, 8, 8), _answers, 1e-4),
        "twelve tokens and a window of four": Case(_tokens(12, 8, 4), _answers, 1e-4),
        "a window of one: each token reads itself": Case(_tokens(5, 4, 1), _answers, 1e-4),
        "two hundred tokens and a window of five": Case(_tokens(200, 8, 5), _answers, 1e-3),
        "what is kept": Case(_tokens(30, 8, 4), _kept),
    },
    mistakes={
        ("rotate(k, phase) → k", "rotate(q, phase) → q"): (
            "nothing is rotated, or m stays 0, or all keys are rotated at every step. Rotate each once, by m."
        ),
        "rotate(q, phase) → q": "the query is not rotated. (4.5) needs both.",
        " / math.sqrt(d) → ": "the scores are not divided by the root of d.",
        "[-window:] → ": "the window is ignored: tokens that left it are still read.",
        "[-window:] → [-window - 1 :]": "the window holds one token too many: the newest is one of them.",
        "torch.tensor(m) → torch.tensor(len(keys))": (
            "right until the window is full. From then on `len(keys)` stands still, and the position must go on: use m."
        ),
        "values = torch.cat([values, v[None]]) → values = torch.cat([values, rotate(v, phase)[None]])": (
            "the values are rotated as well. (4.5) rotates queries and keys only."
        ),
        "rotate(k, phase) → k": "the keys are not rotated. (4.5) needs both.",
        "m + 1) → m + len(keys))": "the position jumps: m should grow by one with every token.",
        "rotate(q, phase) → rotate(q, phasors(torch.tensor(m + 1), rope_frequencies(d), q.dtype))": (
            "the query is one position ahead of its own key: both belong to the newest token, at m."
        ),
        "rotate(k, phase) → rotate(k, phasors(torch.tensor(m + 1), rope_frequencies(d), q.dtype))": (
            "the key is one position ahead of its own query: both belong to the newest token, at m."
        ),
        (
            "keys = torch.cat([keys, rotate(k, phase)[None]])[-window:] → keys = rotate(torch.cat([keys, "
            "k[None]])[-window:], phase)"
        ): "all kept keys are rotated again at every step. Each should be rotated once, when it comes.",
        "torch.tensor(m) → torch.tensor(min(m, window - 1))": (
            "the position stops at the end of the window. It should go on."
        ),
        "keys @ rotate(q, phase) / math.sqrt(d) → keys @ rotate(q, phase) / math.sqrt(len(keys))": (
            "divided by the root of how many keys are kept. It should be that of d."
        ),
        "keys @ rotate(q, phase) / math.sqrt(d) → keys @ rotate(q, phase) / d": "divided by d, and not by its root.",
        "torch.cat([values, v[None]])[-window:] → torch.cat([v[None], values])[:window]": (
            "new values come first and new keys last: each value should stand beside its own key."
        ),
    },
)
def cached_step(q, k, v, cache, window):
    """Attention of the newest token, by RoPE, with a cache of rotated keys. Gives y (d,) and the new cache."""
    d = len(q)
    keys, values, m = cache or (torch.empty(0, d), torch.empty(0, d), 0)  # (kept, d) each
    phase = phasors(torch.tensor(m), rope_frequencies(d), q.dtype)  # (d/2,): of the newest position
    keys = torch.cat([keys, rotate(k, phase)[None]])[-window:]  # rotated once, for all queries to come
    values = torch.cat([values, v[None]])[-window:]
    weights = torch.softmax(keys @ rotate(q, phase) / math.sqrt(d), 0)  # (kept,)
    return weights @ values, (keys, values, m + 1)


# Exercise 4.6: which maps make the score a matter of distance
only_distance = ValueCheck(
    "only_distance",
    expected="ACE",
    mistakes={
        "A": "A is right, and not alone. Any orthogonal matrix will do for one step, if m steps are its m-th power.",
        "AE": ("A and E are right. Is a length changed by writing numbers in reverse order?"),
        "ACDE": "D keeps lengths, but from m to m + 1 it rotates by (2m + 1) degrees, which depends on m.",
        "ABCE": "B changes lengths: at the same distance the score grows by 1.1 squared with every step.",
    },
    hint="The score is q . (A^m)^T A^n k: for which maps does only n - m remain?",
)
