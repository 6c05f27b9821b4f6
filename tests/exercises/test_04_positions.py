"""Chapter 04: right answers in other styles."""

import math

import torch

from possm_lite.blocks.attention import attend, scaled_dot_score
from possm_lite.blocks.positions import phasors, rope_frequencies, rotate, sinusoidal_encoding

from .helpers import answers, load

exercises = load("04_positions")


def rope_complex(x, positions, base=10_000.0):
    angle = positions[:, None] * base ** (-2 * torch.arange(x.shape[-1] // 2) / x.shape[-1])  # (M, d/2)
    z = torch.view_as_complex(x.double().unflatten(-1, (-1, 2)).contiguous())
    return torch.view_as_real(z * torch.exp(1j * angle.double())).flatten(-2)


def score_of_both(q, k, t_q, t_k, omega):
    """Rotates query and key, by real matrices, with all angles in float64."""

    def rotated(x, angle):
        a, b = x[..., 0::2], x[..., 1::2]
        return torch.cat([a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos()], -1)

    return (rotated(k.double(), t_k[:, None] * omega) * rotated(q.double(), t_q * omega)).sum(-1)


class Cache:
    """Steps of exercise 4.5 with a list of tokens for a cache, its newest token last; by complex numbers."""

    def __init__(self, rotate_late=False, keep=0):
        self.rotate_late, self.keep = rotate_late, keep

    def __call__(self, q, k, v, cache, window):
        def at(x, m):
            return rope_complex(x[None], torch.tensor([float(m)])).float()[0]

        cache, m = ([], 0) if cache is None else cache
        cache = [*cache, (k if self.rotate_late else at(k, m), v)]
        read = cache[-window:]
        now = len(read) - 1 if self.rotate_late else m
        keys = [at(k, i) if self.rotate_late else k for i, (k, _) in enumerate(read)]
        weights = torch.softmax(torch.stack(keys) @ at(q, now) / math.sqrt(len(q)), 0)
        return weights @ torch.stack([v for _, v in read]), (cache[-window - self.keep :], m + 1)


def test_cached_steps_are_causal_attention():
    """The right answer against one call on all tokens with a mask."""
    q, k, v = torch.randn(3, 12, 8)
    step, cache, answers = exercises.cached_step.reference, None, []
    for token in zip(q, k, v, strict=True):
        y, cache = step(*token, cache, 5)
        answers.append(y)
    phase = phasors(torch.arange(12), rope_frequencies(8), q.dtype)
    age = torch.arange(12)[:, None] - torch.arange(12)
    scores = scaled_dot_score(rotate(q, phase), rotate(k, phase))
    torch.testing.assert_close(torch.stack(answers), attend(scores, v, (age >= 0) & (age < 5))[0])


test_answers = answers(
    exercises,
    [
        ("fixed_encoding", lambda n, d, base=10_000.0: sinusoidal_encoding(torch.arange(n), d, base)),
        ("rope", lambda *a: rope_complex(*a).numpy().tolist()),
        ("rope", lambda x, m, *base: rotate(x, phasors(m, rope_frequencies(x.shape[-1], *base), x.dtype))),
        ("safe_score", score_of_both),
        *[
            ("safe_score", lambda q, k, t, s, w, M=M: score_of_both(q, k, t % M, s % M, w), "before a full hour")
            for M in (1, 60, 3600)
        ],
        ("only_distance", "a, c, e"),
        ("cached_step", Cache()),
        ("cached_step", Cache(keep=999), "more than 4 keys and values"),
    ],
)
