"""Chapter 05: right answers in other styles, and wrong ones that no known mistake explains."""

import numpy as np
import pytest
import torch

from possm_lite.blocks.time_features import bochner_features, gaussian_frequencies, geometric_half_periods

from .helpers import assert_verdict, load

exercises = load("05_continuous_time")


def interleaved_features(t, omega):
    z = torch.polar(torch.full((len(t), len(omega)), len(omega) ** -0.5, dtype=t.dtype), t[:, None] * omega)
    return torch.view_as_real(z).flatten(1)  # cos and sin alternate: the same kernel


def standardised_draw(mu, sigma, n):
    z = torch.randn(n)
    return mu + sigma * (z - z.mean()) / z.std()


def score_of_joined(z_q, z_k, t_q, t_k, omega):
    q, k = (torch.cat([z, interleaved_features(t, omega)], -1) for z, t in ((z_q, t_q), (z_k, t_k)))
    return torch.einsum("qd,kd->qk", q, k)


def table_by_loop(q, k, n_freqs):
    rows = []
    for key in k:
        a = [q[2 * f] * key[2 * f] + q[2 * f + 1] * key[2 * f + 1] for f in range(n_freqs)]
        b = [q[2 * f + 1] * key[2 * f] - q[2 * f] * key[2 * f + 1] for f in range(n_freqs)]
        rows.append(torch.stack([*a, *b, q[2 * n_freqs :] @ key[2 * n_freqs :]]))
    return torch.stack(rows)


@pytest.mark.parametrize(
    ("name", "answer", "words"),
    [
        ("time_features", lambda t, w: interleaved_features(t, w).numpy(), "✓"),
        ("time_features", bochner_features, "✓"),
        ("time_features", lambda t, w: interleaved_features(t - t.mean(), w), "on a single frequency: expected"),
        ("catch_box", lambda: ([0, 0.9, 1.8], [1, -1.4, 1]), "✓"),
        ("catch_box", lambda: (np.array([3.0, 1.5, 2.25]), 1e-6 * np.array([0.5, 0.5, -0.6])), "✓"),
        ("catch_box", lambda: ([0.0, 0.5], [1.0, -1.0]), "not negative"),
        ("catch_box", lambda: ([0.0, 0.6, 1.2], [1.0, -1.0]), "3 times and 2 weights"),
        ("draw_frequencies", lambda mu, sigma, n: torch.distributions.Normal(mu, sigma).rsample((n,)), "✓"),
        ("draw_frequencies", lambda mu, sigma, n: gaussian_frequencies(mu, sigma, torch.randn(n)), "✓"),
        ("draw_frequencies", lambda mu, sigma, n: [*(mu + sigma * torch.randn(n))], "✓"),
        ("draw_frequencies", lambda mu, s, n: torch.distributions.Normal(mu, s).sample((n,)), "gradient is zero"),
        ("draw_frequencies", standardised_draw, "on the mean of four draws"),
        ("spread_half_periods", geometric_half_periods, "✓"),
        ("spread_half_periods", lambda n, a, b: list(np.geomspace(a, b, n)), "✓"),
        ("spread_half_periods", lambda n, a, b: np.geomspace(b, a, n), "on three half periods"),
        ("event_score", score_of_joined, "✓"),
        ("event_score", lambda *a: score_of_joined(*a) / 8**0.5, "on events that happen all at once"),
        ("unit_table", lambda q, k, f: table_by_loop(q, k, f).numpy(), "✓"),
    ],
)
def test_answer_in_another_style(name, answer, words):
    assert_verdict(getattr(exercises, name), answer, words)
