"""Chapter 05's checks: right answers written another way pass, planted mistakes are called by their name."""

import math

import numpy as np
import pytest
import torch

from .helpers import assert_right, load

check = load("05_continuous_time")

# ---- right answers, written anew


def interleaved_features(t, omega):
    z = torch.polar(torch.full((len(t), len(omega)), len(omega) ** -0.5, dtype=t.dtype), t[:, None] * omega)
    return torch.view_as_real(z).flatten(1)  # cos and sin in turn: the same kernel


def by_addcmul(mu, sigma, d):
    return torch.addcmul(mu, sigma, torch.empty(d).normal_())


def by_rsample(mu, sigma, d):
    return torch.distributions.Normal(mu, sigma).rsample((d,))


def ratio_spread(k, shortest, longest):
    ratio = (longest / shortest) ** (1 / (k - 1))
    return torch.tensor([shortest * ratio**i for i in range(k)])


def score_by_joining(z_q, z_k, t_q, t_k, omega):
    def combine_sessions(z, t):
        angle = torch.outer(t, omega)
        return torch.cat([z, angle.sin() / math.sqrt(len(omega)), angle.cos() / math.sqrt(len(omega))], -1)

    return torch.einsum("qd,kd->qk", combine_sessions(z_q, t_q), combine_sessions(z_k, t_k))


def score_by_lags(z_q, z_k, t_q, t_k, omega):
    lag = t_q[:, None] - t_k[None]
    return z_q @ z_k.T + torch.stack([torch.cos(w * lag) for w in omega]).mean(0)


@pytest.mark.parametrize(
    ("exercise", "answer"),
    [
        (check.time_features, interleaved_features),
        (check.draw_frequencies, by_rsample),
        (check.draw_frequencies, by_addcmul),
        (check.spread_half_periods, ratio_spread),
        (check.spread_half_periods, lambda k, a, b: torch.from_numpy(np.geomspace(a, b, k))),
        (check.event_score, score_by_joining),
        (check.event_score, score_by_lags),
        (check.my_factor, 100),
        (check.my_factor, 1e2),
    ],
)
def test_right_answers_pass(exercise, answer):
    assert_right(exercise, answer)


# ---- planted mistakes


def waves(t, omega):
    angle = t[:, None] * omega
    return torch.cat([torch.cos(angle), torch.sin(angle)], dim=1)


def cosines_alone(t, omega):
    return torch.cos(t[:, None] * omega) / len(omega) ** 0.5


def in_float32(t, omega):
    t, omega = t.to(torch.float32), omega.to(torch.float32)
    return waves(t, omega) / len(omega) ** 0.5


def drawn_without_gradient(mu, sigma, d):
    with torch.no_grad():
        return mu + sigma * torch.randn(d)


def sigma_as_a_number(mu, sigma, d):
    return mu + sigma.item() * torch.randn(d)


def variance_for_spread(mu, sigma, d):
    return sigma * sigma * torch.randn(d) + mu


def only_above_mu(mu, sigma, d):
    return mu + sigma * torch.rand(d)


def with_a_seed(mu, sigma, d):
    torch.manual_seed(3)
    return mu + sigma * torch.randn(d)


def lecture_notes(k, shortest, longest):
    return torch.tensor([longest - (longest - shortest) ** (i / k) for i in range(1, k + 1)])


def added(z_q, z_k, t_q, t_k, omega):
    d = len(omega)
    return (z_q + waves(t_q, omega) / d**0.5) @ (z_k + waves(t_k, omega) / d**0.5).T


def not_normalised(z_q, z_k, t_q, t_k, omega):
    return z_q @ z_k.T + waves(t_q, omega) @ waves(t_k, omega).T


def multiplied(z_q, z_k, t_q, t_k, omega):
    d = len(omega)
    return (z_q @ z_k.T) * (waves(t_q, omega) @ waves(t_k, omega).T) / d


def content_scaled(z_q, z_k, t_q, t_k, omega):
    return z_q @ z_k.T / z_q.shape[1] ** 0.5 + score_by_lags(0 * z_q, 0 * z_k, t_q, t_k, omega)


def joined_and_scaled(z_q, z_k, *rest):
    return score_by_joining(z_q, z_k, *rest) / (z_q.shape[1] + 2 * len(rest[-1])) ** 0.5


def cosine_score(z_q, z_k, t_q, t_k, omega):
    return z_q @ z_k.T + cosines_alone(t_q, omega) @ cosines_alone(t_k, omega).T


def sum_of_times(z_q, z_k, t_q, t_k, omega):
    return z_q @ z_k.T + torch.cos((t_q[:, None, None] + t_k[None, :, None]) * omega).mean(2)


PLANTED = [
    (check.time_features, waves, "sqrt(1/d) of (5.3) is missing"),
    (check.time_features, lambda t, w: waves(t, w) / (2 * len(w)) ** 0.5, "it must be one"),
    (check.time_features, lambda t, w: waves(t, w) / len(w), "enters twice"),
    (check.time_features, cosines_alone, "only the cosines"),
    (check.time_features, lambda t, w: waves(t, 2 * math.pi * w) / len(w) ** 0.5, "already in rad/s"),
    (check.time_features, in_float32, "after an hour"),
    (check.draw_frequencies, lambda mu, sigma, d: torch.normal(mu.expand(d), sigma.expand(d)), "gradient is zero"),
    (check.draw_frequencies, lambda mu, s, d: torch.distributions.Normal(mu, s).sample((d,)), "gradient is zero"),
    (check.draw_frequencies, drawn_without_gradient, "gradient is zero"),
    (check.draw_frequencies, sigma_as_a_number, "sigma gets none"),
    (check.draw_frequencies, variance_for_spread, "standard deviation already"),
    (check.draw_frequencies, only_above_mu, "torch.randn is Gaussian"),
    (check.draw_frequencies, with_a_seed, "set no seed"),
    (check.draw_frequencies, lambda mu, sigma, d: mu + sigma * torch.randn(d, 1), "must be (7,)"),
    (check.draw_frequencies, lambda mu, sigma, d: (mu + sigma * torch.randn(d)).abs(), "one spread around -1"),
    (check.spread_half_periods, lecture_notes, "once in milliseconds"),
    (check.spread_half_periods, lambda k, a, b: torch.linspace(a, b, k), "the ratios should be"),
    (check.spread_half_periods, lambda k, a, b: a * (b / a) ** (torch.arange(k) / k), "longest is missing"),
    (check.spread_half_periods, lambda k, a, b: torch.logspace(math.log(a), math.log(b), k), "powers of ten"),
    (check.spread_half_periods, lambda k, a, b: torch.from_numpy(np.geomspace(b, a, k)), "turn them round"),
    (check.spread_half_periods, lambda k, a, b: a * (b / a) ** (torch.arange(1, k + 1) / k), "shortest is missing"),
    (check.spread_half_periods, lambda k, a, b: torch.logspace(a, b, k).double(), "wants exponents"),
    (check.spread_half_periods, lambda k, a, b: np.geomspace(a, b, k), "a tensor is wanted"),
    (check.event_score, added, "cross terms"),
    (check.event_score, not_normalised, "mean over the frequencies"),
    (check.event_score, sum_of_times, "not subtracted"),
    (check.event_score, multiplied, "were multiplied"),
    (check.event_score, content_scaled, "the content is divided"),
    (check.event_score, joined_and_scaled, "the score is divided"),
    (check.event_score, cosine_score, "sines are missing"),
    (check.event_score, lambda a, b, *_: a @ b.T, "only the content"),
    (check.event_score, lambda *args: score_by_lags(*args).T, "rows and columns"),
    (check.my_factor, 10, "as 1/d"),
    (check.my_factor, math.sqrt(10), "wrong way round"),
    (check.my_factor, 0.01, "more frequencies"),
    (check.my_factor, 7, "not it"),
]


@pytest.mark.parametrize(("exercise", "mistake", "told"), PLANTED)
def test_mistakes_are_called_by_their_name(exercise, mistake, told):
    verdict = exercise.examine(mistake)
    assert verdict.status == "wrong"
    assert told in verdict.message
