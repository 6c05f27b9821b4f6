"""Chapter 05: right and wrong answers in other styles than the references and the traps."""

import math

import numpy as np
import pytest
import torch

from possm_lite.blocks.time_features import bochner_features, gaussian_frequencies, geometric_half_periods

from .helpers import assert_verdict, load

exercises = load("05_continuous_time")


def interleaved_features(t, omega):
    z = torch.polar(torch.full((len(t), len(omega)), len(omega) ** -0.5, dtype=t.dtype), t[:, None] * omega)
    return torch.view_as_real(z).flatten(1)  # cos and sin alternate: the same kernel


def half_periods_by_loop(k, shortest, longest):
    ratio = (longest / shortest) ** (1 / (k - 1))
    return torch.tensor([shortest * ratio**i for i in range(k)])


def score_of_joined(z_q, z_k, t_q, t_k, omega, features=interleaved_features):
    q, k = (torch.cat([z, features(t, omega)], -1) for z, t in ((z_q, t_q), (z_k, t_k)))
    return torch.einsum("qd,kd->qk", q, k)


def score_of_lags(z_q, z_k, t_q, t_k, omega):
    lag = t_q[:, None] - t_k[None]
    return z_q @ z_k.T + torch.stack([torch.cos(w * lag) for w in omega]).mean(0)


def draw_with_seed(mu, sigma, d):
    torch.manual_seed(3)
    return mu + sigma * torch.randn(d)


@pytest.mark.parametrize(
    ("name", "answer", "words"),
    [
        ("time_features", interleaved_features, "✓"),
        ("time_features", bochner_features, "✓"),
        ("time_features", lambda t, w: interleaved_features(t, w) / len(w) ** 0.5, "enters twice"),
        ("time_features", lambda t, w: interleaved_features(t, w)[:, 0::2], "only the cosines"),
        ("time_features", lambda t, w: interleaved_features(t, 2 * math.pi * w), "already in rad/s"),
        ("time_features", lambda t, w: interleaved_features(t.float(), w.float()), "after an hour"),
        ("draw_frequencies", lambda mu, sigma, d: torch.distributions.Normal(mu, sigma).rsample((d,)), "✓"),
        ("draw_frequencies", lambda mu, sigma, d: torch.addcmul(mu, sigma, torch.empty(d).normal_()), "✓"),
        ("draw_frequencies", lambda mu, sigma, d: gaussian_frequencies(mu, sigma, torch.randn(d)), "✓"),
        ("draw_frequencies", lambda mu, s, d: torch.distributions.Normal(mu, s).sample((d,)), "gradient is zero"),
        ("draw_frequencies", lambda mu, sigma, d: mu + sigma.item() * torch.randn(d), "sigma gets none"),
        ("draw_frequencies", draw_with_seed, "set no seed"),
        ("draw_frequencies", lambda mu, sigma, d: mu + sigma * torch.randn(d, 1), "expected (7,)"),
        ("draw_frequencies", lambda mu, sigma, d: (mu + sigma * torch.randn(d)).abs(), "one spread around -1"),
        ("spread_half_periods", half_periods_by_loop, "✓"),
        ("spread_half_periods", lambda k, a, b: torch.from_numpy(np.geomspace(a, b, k)), "✓"),
        ("spread_half_periods", geometric_half_periods, "✓"),
        ("spread_half_periods", lambda k, a, b: half_periods_by_loop(k + 1, a, b)[1:], "shortest is missing"),
        ("spread_half_periods", lambda k, a, b: torch.from_numpy(np.geomspace(b, a, k)), "reverse them"),
        ("event_score", score_of_joined, "✓"),
        ("event_score", score_of_lags, "✓"),
        (
            "event_score",
            lambda *a: score_of_joined(*a, lambda t, w: torch.cos(t[:, None] * w) / len(w) ** 0.5),
            "sines are",
        ),
        ("event_score", lambda z, y, *a: score_of_lags(z / 2, y, *a), "the content is divided"),
        ("event_score", lambda z, y, *a: score_of_joined(z, y, *a) / 8**0.5, "the score is divided"),
        ("event_score", lambda z, y, *a: (z @ y.T) * score_of_lags(0 * z, 0 * y, *a), "were multiplied"),
        ("event_score", lambda z, y, t, s, w: score_of_lags(z, y, t, -s, w), "not subtracted"),
    ],
)
def test_answer_in_another_style(name, answer, words):
    assert_verdict(getattr(exercises, name), answer, words)
