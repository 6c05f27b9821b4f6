"""Chapter 04: right answers in other styles."""

import math

import torch

from possm_lite.nn.attention import attend, scaled_dot_score
from possm_lite.nn.positions import phasors, rope_frequencies, rotate, sinusoidal_encoding

from .helpers import answers, load

exercises = load("ch04")


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


def step_by_list(q, k, v, cache, window, keep=0):
    """Exercise 4.5 with a list of tokens for a cache, the raw keys rotated at every step, by complex numbers."""

    def at(x, m):
        return rope_complex(x[None], torch.tensor([float(m)])).float()[0]

    cache = [*(cache or []), (k, v)][-window - keep :]
    read = cache[-window:]
    keys = torch.stack([at(key, i) for i, (key, _) in enumerate(read)])
    weights = torch.softmax(keys @ at(q, len(read) - 1) / math.sqrt(len(q)), 0)
    return weights @ torch.stack([value for _, value in read]), cache


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
    ("fixed_encoding", lambda n, d, base=10_000.0: sinusoidal_encoding(torch.arange(n), d, base)),
    ("rope", lambda *a: rope_complex(*a).numpy().tolist()),
    ("rope", lambda x, m, *base: rotate(x, phasors(m, rope_frequencies(x.shape[-1], *base), x.dtype))),
    ("safe_score", score_of_both),
    ("safe_score", lambda q, k, t, s, w: score_of_both(q, k, t % 60, s % 60, w), "before a full hour"),
    ("safe_score", lambda q, k, t, s, w: score_of_both(q, k, 0 * t, (s - t).abs(), w), "keep the sign"),
    ("same_anywhere", "A, D"),
    ("same_anywhere", "D", "not alone"),
    ("cached_step", step_by_list),
    ("cached_step", lambda *args: step_by_list(*args, keep=999), "more than 4 keys and values"),
    ("only_distance", "a, c, e"),
)
