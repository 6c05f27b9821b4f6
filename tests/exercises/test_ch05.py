"""Chapter 05: right answers in other styles."""

import math

import numpy as np
import torch

from possm_lite.nn.time_features import bochner_features, mercer_features, quantile_frequencies

from .helpers import answers, load

exercises = load("ch05")


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


def features_by_svd(K, n):
    u, s, _ = np.linalg.svd(K.numpy())
    return -u[:, :n] * np.sqrt(s[:n])


test_answers = answers(
    exercises,
    ("time_features", lambda t, w: interleaved_features(t, w).numpy()),
    ("time_features", bochner_features),
    ("my_factor", 3.2, "root of ten"),
    ("my_factor", 20, "exponent"),
    ("catch_box", lambda: ([0, 0.9, 1.8], [1, -1.4, 1])),
    ("catch_box", lambda: ([0, 600, 1200], [1, -1, 1]), "one second"),
    ("catch_box", lambda: ([1, -1, 1], [0, 0.6, 1.2]), "which come second"),
    ("event_score", score_of_joined),
    ("unit_table", lambda q, k, f: table_by_loop(q, k, f).numpy()),
    ("inverse_cdf", quantile_frequencies),
    ("inverse_cdf", lambda start, steps, u: quantile_frequencies(start, steps, u).detach(), "no gradient"),
    ("periodic_features", lambda t, w, c: mercer_features(t, torch.tensor([w]).double(), c[None])),
    ("kernel_features", features_by_svd),
    ("kernel_features", lambda K, n: torch.linalg.cholesky(K)[:, :n], "on the best three"),
)


def test_eigenvectors_of_a_periodic_kernel_are_its_harmonics():
    """Poisson's kernel (5.13) on a grid over its period: eigenvalues r^j, features the waves of (5.12)."""
    r, n = 0.6, 64
    x = 2 * math.pi * torch.arange(n, dtype=torch.float64) / n
    lag = x[:, None] - x
    K = (1 - r**2) / (1 - 2 * r * torch.cos(lag) + r**2)
    for harmonics in (0, 1, 3):
        features = exercises.kernel_features.reference(K, 1 + 2 * harmonics)
        series = 1 + 2 * sum(r**j * torch.cos(j * lag) for j in range(1, harmonics + 1))
        torch.testing.assert_close(features @ features.T, series + torch.zeros_like(K))
        squares = features.square().sum(0).flip(0) / n
        torch.testing.assert_close(squares, torch.tensor([r ** ((i + 1) // 2) for i in range(len(squares))]).double())
