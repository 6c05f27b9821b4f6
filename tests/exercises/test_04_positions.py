"""Chapter 04: right and wrong answers in other styles than the references and the traps."""

import math

import pytest
import torch

from possm_lite.blocks.positions import sinusoidal_encoding

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
        ("slow_hands", sum(200 / 10_000 ** (j / 16) < math.pi / 2 for j in range(16)), "✓"),
        ("slow_hands", sum(200 / 10_000 ** (j / 16) < 1 for j in range(16)), "one radian"),
        ("slow_hands", sum(200 / 10_000 ** (j / 16) < 90 for j in range(16)), "90 degrees"),
        ("safe_score", score_of_differences, "✓"),
        ("safe_score", lambda q, k, t, s, w: score(q.double(), k.double(), t * w, s[:, None] * w), "✓"),
        ("safe_score", lambda q, k, t, s, w: score_of_differences(q, k, t.float(), s.float(), w), "too late"),
        ("safe_score", lambda q, k, t, s, w: score(q, k, (t * w).float(), (s[:, None] * w).float()), "rounded to"),
        ("safe_score", lambda q, k, t, s, w: score(q, k, *[(s - t)[:, None] * w] * 2), "cancels"),
    ],
)
def test_answer_in_another_style(name, answer, words):
    assert_verdict(getattr(exercises, name), answer, words)
