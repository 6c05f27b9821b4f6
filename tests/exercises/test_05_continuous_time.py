"""Chapter 05: right answers in other styles."""

import numpy as np
import torch

from possm_lite.course.time_features import bochner_features

from .helpers import answers, load

exercises = load("05_continuous_time")


def interleaved_features(t, omega):
    z = torch.polar(torch.full((len(t), len(omega)), len(omega) ** -0.5, dtype=t.dtype), t[:, None] * omega)
    return torch.view_as_real(z).flatten(1)  # cos and sin alternate: the same kernel


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


test_answers = answers(
    exercises,
    [
        ("time_features", lambda t, w: interleaved_features(t, w).numpy()),
        ("time_features", bochner_features),
        ("catch_box", lambda: ([0, 0.9, 1.8], [1, -1.4, 1])),
        ("draw_frequencies", lambda mu, sigma, n: torch.distributions.Normal(mu, sigma).rsample((n,))),
        ("draw_frequencies", lambda mu, sigma, n: [*(mu + sigma * torch.randn(n))]),
        ("spread_half_periods", lambda n, a, b: list(np.geomspace(a, b, n))),
        ("event_score", score_of_joined),
        ("unit_table", lambda q, k, f: table_by_loop(q, k, f).numpy()),
    ],
)
