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


test_answers = answers(
    check,
    ("r2_of_trials", lambda true, decoded: bootstrap_by_sums(true, decoded, torch.arange(len(true))[None])[0]),
    ("causal_history", lambda counts, n: history(counts[None], n)[0]),
    ("bootstrap_r2", bootstrap_by_sums),
    ("on_screen", lambda t, width_s, lag_s: newest_finished(t.numpy(), width_s, lag_s)),
    ("ask_each_ms", lambda q, H, W_k, W_v: F.scaled_dot_product_attention(q, H @ W_k, H @ W_v)),
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
