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


def stacked_features(t, omega):
    angle = t[:, None] * omega
    return torch.stack([angle.cos(), angle.sin()], -1) / len(omega) ** 0.5


def standardised_draw(mu, sigma, n):
    z = torch.randn(n)
    return mu + sigma * (z - z.mean()) / z.std()


def table_by_loop(q, k, n_freqs, sign=1):
    rows = []
    for key in k:
        a = [q[2 * f] * key[2 * f] + q[2 * f + 1] * key[2 * f + 1] for f in range(n_freqs)]
        b = [sign * (q[2 * f + 1] * key[2 * f] - q[2 * f] * key[2 * f + 1]) for f in range(n_freqs)]
        rows.append(torch.stack([*a, *b, q[2 * n_freqs :] @ key[2 * n_freqs :]]))
    return torch.stack(rows)


def one_after_the_other(lag_s, measured, start, n_starts=20, first_lags=5):
    """In stages of 5, 10, 20, ... lags."""
    generator = torch.Generator().manual_seed(3)
    far = 157 * torch.rand(n_starts, len(start), generator=generator)
    omega = torch.cat([start[None], far]).requires_grad_()
    optimizer = torch.optim.Adam([omega], lr=0.5)
    while True:
        for _ in range(120):
            error = (torch.cos(omega[..., None] * lag_s).mean(1) - measured).square()
            optimizer.zero_grad()
            error[:, :first_lags].mean(1).sum().backward()
            optimizer.step()
        if first_lags >= len(lag_s):
            return omega.detach()[error.mean(1).argmin()]
        first_lags += first_lags


@pytest.mark.parametrize(
    ("name", "answer", "words"),
    [
        ("time_features", interleaved_features, "✓"),
        ("time_features", bochner_features, "✓"),
        ("time_features", lambda t, w: interleaved_features(t, w) / len(w) ** 0.5, "enters twice"),
        ("time_features", lambda t, w: interleaved_features(t, w)[:, 0::2], "only the cosines"),
        ("time_features", lambda t, w: interleaved_features(t, 2 * math.pi * w), "already in rad/s"),
        ("time_features", lambda t, w: interleaved_features(t.float(), w.float()), "after an hour"),
        ("time_features", lambda t, w: interleaved_features(t - t[0], w), "depend on the other times"),
        ("time_features", lambda t, w: interleaved_features(t - t.mean(), w), "expected"),
        ("time_features", lambda t, w: interleaved_features(t - t.max(), w), "expected"),
        ("time_features", lambda t, w: interleaved_features(t - t[-1], w), "expected"),
        ("time_features", lambda t, w: interleaved_features(t, w).tolist(), "✓"),
        ("time_features", stacked_features, "the shape is (3, 2, 2), expected (3, 4)"),
        ("time_features", lambda t, w: interleaved_features(t, w).numpy(), "✓"),
        ("catch_box", lambda: ([0, 0.9, 1.8], [1, -1.4, 1]), "✓"),
        ("catch_box", lambda: (np.array([3.0, 1.5, 2.25]), np.array([0.5, 0.5, -0.6])), "✓"),
        ("catch_box", lambda: ([0.0, 0.6, 1.2], [1e-6, -1e-6, 1e-6]), "✓"),
        ("catch_box", lambda: ([0.0, 0.5], [1.0, -1.0]), "not negative"),
        ("catch_box", lambda: ([0.0, 0.6, 1.2], [1.0, 1.0, 1.0]), "one sign"),
        ("catch_box", lambda: ([0.0, 0.6, 1.2], [1.0, -1.0]), "3 times and 2 weights"),
        ("draw_frequencies", lambda mu, sigma, d: torch.distributions.Normal(mu, sigma).rsample((d,)), "✓"),
        ("draw_frequencies", lambda mu, sigma, d: torch.addcmul(mu, sigma, torch.empty(d).normal_()), "✓"),
        ("draw_frequencies", lambda mu, sigma, d: gaussian_frequencies(mu, sigma, torch.randn(d)), "✓"),
        ("draw_frequencies", lambda mu, s, d: torch.distributions.Normal(mu, s).sample((d,)), "gradient is zero"),
        ("draw_frequencies", lambda mu, sigma, d: mu + sigma.item() * torch.randn(d), "sigma gets none"),
        ("draw_frequencies", lambda mu, sigma, d: mu.item() + sigma * torch.randn(d), "mu gets none"),
        ("draw_frequencies", lambda mu, sigma, d: [*(mu + sigma * torch.randn(d))], "✓"),
        ("draw_frequencies", draw_with_seed, "set no seed"),
        ("draw_frequencies", lambda mu, sigma, d: mu + sigma * torch.randn(d, 1), "expected (7,)"),
        ("draw_frequencies", lambda mu, sigma, d: (mu + sigma * torch.randn(d)).abs(), "draws around -1"),
        ("draw_frequencies", standardised_draw, "the noise of each call was centred"),
        ("draw_frequencies", lambda mu, sigma, d: mu + sigma * torch.rand(d), "uniform"),
        ("spread_half_periods", half_periods_by_loop, "✓"),
        ("spread_half_periods", lambda n, a, b: list(np.geomspace(a, b, n)), "✓"),
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
        ("event_score", lambda z, y, t, s, w: z @ y.T + (t[:, None] - s).abs(), "was added as it is"),
        ("event_score", lambda z, y, t, s, w: z @ y.T + ((t[:, None] - s)[..., None] * w).sin().mean(-1), "are sines"),
        ("unit_table", table_by_loop, "✓"),
        ("unit_table", lambda q, k, f: table_by_loop(q, k, f).numpy(), "✓"),
        ("unit_table", lambda q, k, f: table_by_loop(q, k, f, sign=-1), "the other sign"),
        ("unit_table", lambda q, k, f: table_by_loop(q, k, f)[:, :-1], "the last column is missing"),
        ("learn_frequencies", one_after_the_other, "✓"),
        ("learn_frequencies", lambda lag_s, measured, start: start.numpy(), "nothing has moved"),
        ("learn_frequencies", lambda *a: one_after_the_other(*a, n_starts=0, first_lags=60), "lost from afar"),
        ("learn_frequencies", lambda *a: one_after_the_other(*a, first_lags=60), "first few lags fitted first"),
        ("learn_frequencies", lambda *a: one_after_the_other(*a, n_starts=0), "but less than without waves"),
        ("learn_frequencies", lambda *a: one_after_the_other(*a) / (2 * math.pi), "rad/s are wanted"),
    ],
)
def test_answer_in_another_style(name, answer, words):
    assert_verdict(getattr(exercises, name), answer, words)
