"""Chapter 04: right and wrong answers in other styles than the references and the traps."""

import math
from types import SimpleNamespace

import pytest
import torch

from possm_lite.blocks.attention import attend, scaled_dot_score
from possm_lite.blocks.positions import phasors, rope_frequencies, rotate, sinusoidal_encoding

from .helpers import assert_verdict, load

exercises = load("04_positions")


def encoding_by_loops(n, d, base=10_000.0, exponent=lambda j, d: 2 * j / d):
    angles = [[i / base ** exponent(j, d) for j in range(d // 2)] for i in range(n)]
    return torch.tensor([[f(a) for a in row for f in (math.sin, math.cos)] for row in angles])


def angles(x, positions, base, exponent=2):
    d = x.shape[-1]
    return positions[:, None] * base ** (-exponent * torch.arange(d // 2) / d)  # (M, d/2)


def rope_complex(x, positions, base=10_000.0):
    z = torch.view_as_complex(x.double().unflatten(-1, (-1, 2)).contiguous())
    return torch.view_as_real(z * torch.exp(1j * angles(x, positions, base).double())).flatten(-2)


def rope_repeated(x, positions, base=10_000.0, sign=1, exponent=2, halves=False, mixed=False):
    angle = sign * angles(x, positions, base, exponent)
    angle = torch.cat([angle, angle], -1) if halves or mixed else angle.repeat_interleave(2, -1)
    if halves:
        partner = torch.cat([-x.chunk(2, -1)[1], x.chunk(2, -1)[0]], -1)
    else:
        partner = torch.stack([-x[..., 1::2], x[..., 0::2]], -1).flatten(-2)
    return x * angle.cos() + partner * angle.sin()


def rope_overwritten(x, positions, base=10_000.0):
    x, angle = x.clone(), angles(x, positions, base)
    x[..., 0::2] = angle.cos() * x[..., 0::2] - angle.sin() * x[..., 1::2]
    x[..., 1::2] = angle.sin() * x[..., 0::2] + angle.cos() * x[..., 1::2]
    return x


def score(q, k, angle_q, angle_k):
    """Rotates by real matrices: q (d,), k (n, d), angles (d/2,) and (n, d/2)."""

    def rotated(x, angle):
        a, b = x[..., 0::2], x[..., 1::2]
        return torch.cat([a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos()], -1)

    return (rotated(k, angle_k) * rotated(q, angle_q)).sum(-1)


def score_of_differences(q, k, t_q, t_k, omega):
    return score(q, k, torch.zeros(4), ((t_k - t_q)[:, None] * omega).float())


class Cache:
    """Steps of exercise 4.6 with a list of tokens for a cache, its newest token last; by complex numbers."""

    def __init__(self, rotate_late=False, keep=0, extra=0, count=lambda cache, m: m):
        self.rotate_late, self.keep, self.extra, self.count = rotate_late, keep, extra, count

    def __call__(self, q, k, v, cache, window):
        def at(x, m):
            return rope_complex(x[None], torch.tensor([float(m)])).float()[0]

        cache, m = ([], 0) if cache is None else cache
        cache = [*cache, (k, v)]
        m_now = self.count(cache, m)
        if not self.rotate_late:
            cache[-1] = (at(k, m_now), v)
        read = cache[-window - self.extra :]
        now = len(read) - 1 if self.rotate_late else m_now
        keys = [at(k, i) for i, (k, _) in enumerate(read)] if self.rotate_late else [k for k, _ in read]
        weights = torch.softmax(torch.stack(keys) @ at(q, now) / math.sqrt(len(q)), 0)
        return weights @ torch.stack([v for _, v in read]), (cache[-window - self.extra - self.keep :], m + 1)


def keeps_before_it_appends(q, k, v, cache, window):
    """Drops from what is kept to make room for one more; `[-0:]` drops nothing."""
    cache = (cache[0][-(window - 1) :], cache[1]) if cache else None
    y, cache = Cache(keep=999)(q, k, v, cache, 999)
    return y, cache


def in_an_object(q, k, v, cache, window, keep=0):
    """The cache is an object with attributes."""
    y, kept = Cache(keep=keep)(q, k, v, cache and cache.kept, window)
    return y, SimpleNamespace(kept=kept)


def test_cached_steps_are_causal_attention():
    """The reference against one call on all tokens with a mask."""
    q, k, v = torch.randn(3, 12, 8)
    step, cache, answers = exercises.cached_step.reference, None, []
    for token in zip(q, k, v, strict=True):
        y, cache = step(*token, cache, 5)
        answers.append(y)
    phase = phasors(torch.arange(12), rope_frequencies(8), q.dtype)
    age = torch.arange(12)[:, None] - torch.arange(12)
    scores = scaled_dot_score(rotate(q, phase), rotate(k, phase))
    torch.testing.assert_close(torch.stack(answers), attend(scores, v, (age >= 0) & (age < 5))[0])


@pytest.mark.parametrize(
    ("name", "answer", "words"),
    [
        ("fixed_encoding", encoding_by_loops, "✓"),
        ("fixed_encoding", lambda *a: encoding_by_loops(*a).double(), "✓"),
        ("fixed_encoding", lambda n, d, base=10_000.0: sinusoidal_encoding(torch.arange(n), d, base), "✓"),
        ("fixed_encoding", lambda *a: encoding_by_loops(*a, exponent=lambda j, d: j / d), "j/d and should be 2j/d"),
        ("fixed_encoding", lambda *a: encoding_by_loops(*a, exponent=lambda j, d: -2 * j / d), "not multiplied"),
        ("fixed_encoding", lambda *a: encoding_by_loops(*a).unflatten(1, (-1, 2)).mT.flatten(1), "side by side"),
        ("fixed_encoding", lambda n, d, base=0: encoding_by_loops(n, d), "on a base that is not 10,000"),
        ("rope", rope_complex, "✓"),
        ("rope", rope_repeated, "✓"),
        ("rope", lambda *a: rope_repeated(*a, sign=-1), "wrong way round"),
        ("rope", lambda *a: rope_repeated(*a, halves=True), "the other valid pairing"),
        ("rope", lambda *a: rope_repeated(*a, mixed=True), "two pairings are mixed"),
        ("rope", lambda *a: rope_repeated(*a, exponent=1), "j/d and should be 2j/d"),
        ("rope", rope_overwritten, "after its rotation"),
        ("rope", lambda x, m, *base: rope_repeated(x, torch.arange(len(m)), *base), "whatever positions say"),
        ("rope", lambda x, *a: x.copy_(rope_repeated(x, *a)), "in place"),
        ("rope", lambda x, m, *base: rope_repeated(x, m.long(), *base), "cut to whole numbers"),
        ("rope", lambda x, m, *base: rope_repeated(x, m - m[0], *base), "counted from the first"),
        ("rope", lambda x, m, *base: rope_complex(x, 2 * torch.pi * m, *base), "2 pi times too large"),
        ("rope", lambda *a: rope_complex(*a).numpy().tolist(), "✓"),
        ("only_distance", "a, c, e", "✓"),
        ("only_distance", "A, E", "reverse order"),
        ("slow_pairs", sum(200 / 10_000 ** (j / 16) < math.pi / 2 for j in range(16)), "✓"),
        ("slow_pairs", sum(200 / 10_000 ** (j / 16) < 1 for j in range(16)), "one radian"),
        ("slow_pairs", sum(200 / 10_000 ** (j / 16) < 90 for j in range(16)), "90 degrees"),
        ("safe_score", score_of_differences, "✓"),
        ("safe_score", lambda q, k, t, s, w: score(q.double(), k.double(), t * w, s[:, None] * w), "✓"),
        ("safe_score", lambda q, k, t, s, w: score_of_differences(q, k, t.float(), s.float(), w), "too late"),
        ("safe_score", lambda q, k, t, s, w: score(q, k, (t * w).float(), (s[:, None] * w).float()), "rounded to"),
        ("safe_score", lambda q, k, t, s, w: score(q, k, *[(s - t)[:, None] * w] * 2), "cancels"),
        ("safe_score", lambda q, k, t, s, w: k @ q, "nothing is rotated"),
        *[
            ("safe_score", lambda q, k, t, s, w, M=M: score_of_differences(q, k, t % M, s % M, w), "before a full hour")
            for M in (1, 10, 60, 100, 1000, 3600)
        ],
        ("cached_step", Cache(), "✓"),
        ("cached_step", Cache(rotate_late=True), "✓"),
        ("cached_step", Cache(keep=999), "more than 4 keys and values"),
        ("cached_step", Cache(count=lambda cache, m: len(cache) - 1), "how many keys are kept"),
        ("cached_step", Cache(extra=1), "one token too many"),
        ("cached_step", keeps_before_it_appends, "nothing is dropped"),
        ("cached_step", in_an_object, "✓"),
        ("cached_step", lambda *a: in_an_object(*a, keep=999), "more than 4 keys and values"),
        ("cached_step", lambda *a: Cache()(*a)[0], "two results"),
    ],
)
def test_answer_in_another_style(name, answer, words):
    assert_verdict(getattr(exercises, name), answer, words)
