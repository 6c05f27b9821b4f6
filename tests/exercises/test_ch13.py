"""Chapter 13: right answers in other styles, and whether error bars from the bootstrap cover the truth."""

import numpy as np
import torch
from torch.nn import functional as F

from possm_course.chapters.ch13 import rivals
from possm_course.stored import embedded_session
from possm_lite.decoder.baselines import history
from possm_lite.recordings import load_recording
from possm_lite.training.evaluate import newest_finished

from .helpers import answers, load

check = load("ch13")


def bootstrap_by_sums(true, decoded, draws):
    edges = np.cumsum([0, *map(len, true)])
    trials = np.stack([edges[:-1], edges[1:]], 1)
    sums = rivals.sums_of_trials(*(torch.cat(x).numpy() for x in (true, decoded)), np.arange(edges[-1]), trials)
    return rivals.bootstrap(sums, draws.numpy())


def weigh_by_probabilities(log_w, rates, counts, bin_s, v):
    """Each count by torch's Poisson distribution, whose terms that all stories share cancel."""
    log_w = (log_w + torch.distributions.Poisson(rates * bin_s).log_prob(counts).sum(1)).log_softmax(0)
    return log_w, (log_w.exp()[:, None] * v).sum(0)


def weigh_in_numpy(log_w, rates, counts, bin_s, v, lowest=lambda x: x.max()):
    log_w, rates, counts, v = (x.numpy() for x in (log_w, rates, counts, v))
    log_w = log_w + np.log(rates) @ counts - bin_s * rates.sum(1)
    w = np.exp(log_w - lowest(log_w))
    w = w / w.sum()
    return np.log(w), np.average(v, axis=0, weights=w)


def weigh_by_products(log_w, rates, counts, bin_s, v):
    w = log_w.exp() * (rates**counts * torch.exp(-rates * bin_s)).prod(1)
    w = w / w.sum()
    return w.log(), w @ v


def weigh_as_asked(log_w, rates, counts, bin_s, v, expected=lambda r, s: r * s, answer=lambda w, v: w @ v):
    """An answer with what is subtracted, and how the velocities become one."""
    w = (log_w + (counts * rates.log() - expected(rates, bin_s)).sum(1)).softmax(0)
    return w.log(), answer(w, v)


test_answers = answers(
    check,
    ("r2_of_trials", lambda true, decoded: bootstrap_by_sums(true, decoded, torch.arange(len(true))[None])[0]),
    ("causal_history", lambda counts, n: history(counts[None], n)[0]),
    ("bootstrap_r2", bootstrap_by_sums),
    ("on_screen", lambda t, width_s, lag_s: newest_finished(t.numpy(), width_s, lag_s)),
    ("ask_each_ms", lambda q, H, W_k, W_v: F.scaled_dot_product_attention(q, H @ W_k, H @ W_v)),
    ("weigh", weigh_by_probabilities),
    ("weigh", weigh_in_numpy),
    ("weigh", lambda *given: weigh_in_numpy(*given, lowest=lambda x: 0.0), "0 / 0 is NaN"),
    ("weigh", weigh_by_products, "0 / 0 is NaN"),
    ("weigh", lambda *given: weigh_as_asked(*given, expected=lambda r, s: 0 * r), "silence says nothing"),
    ("weigh", lambda *given: weigh_as_asked(*given, expected=lambda r, s: r), "whole second"),
    ("weigh", lambda *given: weigh_as_asked(*given, answer=lambda w, v: v.mean(0)), "plain mean"),
    ("weigh", lambda *given: weigh_as_asked(*given, answer=lambda w, v: v[w.argmax()]), "likeliest story"),
    ("weigh", lambda log_w, *given: weigh_by_probabilities(0 * log_w, *given), "weights of before are lost"),
    (
        "weigh",
        lambda *given: weigh_as_asked(*given, expected=lambda r, s: 0 * r, answer=lambda w, v: v.mean(0)),
        "two things are wrong",
    ),
)


def test_the_bootstrap_covers_the_true_r2():
    """Trials of variance 1 whose errors have variance 0.3, alike within a trial: R² is 0.7."""
    covered, rng = 0, np.random.default_rng(0)
    for _ in range(200):
        v, error = rng.standard_normal((2, 60, 10, 2)) + 2 * rng.standard_normal((2, 60, 1, 2))
        v, error = v.reshape(-1, 2) / 5**0.5, error.reshape(-1, 2) * (0.3 / 5) ** 0.5
        sums = rivals.sums_of_trials(v, v - error, np.arange(600) // 10, np.arange(60)[:, None] + [0, 1])
        low, high = np.quantile(rivals.bootstrap(sums, rng.integers(0, 60, (300, 60))), (0.025, 0.975))
        covered += low <= 0.7 <= high
    assert 176 <= covered <= 198  # of 200; 190 expected


def test_shifted_spikes_come_round():
    recording = load_recording(embedded_session())
    back = rivals.shifted(rivals.shifted(recording, 40.0), np.ptp(recording.trials) - 40.0)
    np.testing.assert_allclose(back.spike_times, recording.spike_times, atol=1e-6)
