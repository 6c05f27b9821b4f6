"""Chapter 12: right and wrong answers in other styles than the references and the traps."""

import math

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from possm_lite.decoder.baselines import history

from .helpers import assert_verdict, load

check = load("12_spike_decoder")


def rotated(x, t, omega):
    """Pair by pair, with real numbers; x (..., d) at one time or x (n, d) at n times."""
    y, t = x.clone(), torch.as_tensor(t, dtype=torch.float64)
    for f, w in enumerate(omega):
        cos, sin = torch.cos(w * t), torch.sin(w * t)
        y[..., 2 * f] = cos * x[..., 2 * f] - sin * x[..., 2 * f + 1]
        y[..., 2 * f + 1] = sin * x[..., 2 * f] + cos * x[..., 2 * f + 1]
    return y


def read_masked(q, t, k, v, b, n_seen, omega, ends=lambda j: 0.05 * (j + 1.0), seen=lambda j, b, n: b - n < j):
    """All bins, and minus infinity where a bin may not be seen."""
    j = torch.arange(len(k))
    scores = rotated(k, ends(j), omega) @ rotated(q, t, omega) / len(q) ** 0.5
    weights = scores.masked_fill(~(seen(j, b, n_seen) & (j <= b)), -math.inf).softmax(0)
    return rotated(weights @ rotated(v, ends(j), omega), -t, omega)


def read_without_positions(q, t, k, v, b, n_seen, omega):
    k, v = (x[max(b - n_seen + 1, 0) : b + 1] for x in (k, v))
    return F.scaled_dot_product_attention(q[None], k, v)[0]


def read_with_time_of_the_slice(q, t, k, v, b, n_seen, omega):
    seen = slice(max(b - n_seen + 1, 0), b + 1)
    return read_masked(q, t, k[seen], v[seen], b - seen.start, n_seen, omega)


def by_moments(velocity, times_s, train):
    some = torch.stack([(times_s >= a) & (times_s < b) for a, b in train]).any(0).double()[:, None]
    mean = (some * velocity).sum(0) / some.sum()
    spread = ((some * (velocity - mean) ** 2).sum(0) / some.sum()).sqrt()
    return (velocity - mean) / (spread + (spread == 0))


def r2_by_sums(true, decoded):
    """From sums of each trial, without concatenating them."""
    error = sum((v - w).square().sum(0) for v, w in zip(true, decoded, strict=True))
    spread = sum(v.square().sum(0) for v in true) - sum(v.sum(0) for v in true) ** 2 / sum(map(len, true))
    return (1 - error / spread).mean()


def correlation_of_numpy(true, decoded):
    v, w = torch.cat(true).numpy(), torch.cat(decoded).numpy()
    return float(np.mean([np.corrcoef(v[:, i], w[:, i])[0, 1] ** 2 for i in range(2)]))


def history_side_by_side(counts, n_history):
    padded = F.pad(counts, (0, 0, n_history - 1, 0))
    return torch.cat([padded[i : i + len(counts)] for i in range(n_history)], 1)


@pytest.mark.parametrize(
    ("name", "answer", "words"),
    [
        ("read_states", read_masked, "✓"),
        ("read_states", read_without_positions, "no position"),
        ("read_states", lambda *args: read_masked(*args, ends=lambda j: 0.05 * j), "the end of the bin"),
        ("read_states", lambda *args: read_masked(*args, ends=lambda j: 1.0 * j), "use seconds"),
        ("read_states", lambda *args: read_masked(*args, seen=lambda j, b, n: j >= 0), "from the first bin on"),
        ("read_states", lambda *args: read_masked(*args, seen=lambda j, b, n: j >= b - n), "one state too many"),
        ("read_states", read_with_time_of_the_slice, "time starts anew"),
        ("read_states", lambda q, *rest: read_masked(q * len(q) ** 0.5, *rest), "root of the size d"),
        ("standardise", by_moments, "✓"),
        ("standardise", lambda v, t, train: by_moments(v, t, torch.tensor([[0.0, 9.0]])), "leaked in"),
        ("standardise", lambda v, t, train: by_moments(v, t, train.view(-1)[[0, -1]][None]), "between training"),
        ("standardise", lambda v, t, train: by_moments(v, t, train)[:3], "the shape is"),
        ("my_r2", 1 - 0.5**2, "✓"),
        ("my_r2", 0.9, "is not right"),
        ("r2_of_trials", r2_by_sums, "✓"),
        ("r2_of_trials", lambda v, w: sum(map(r2_by_sums, zip(v), zip(w))) / len(v), "mean of each trial"),
        ("r2_of_trials", lambda v, w: 1 - F.mse_loss(torch.cat(w), torch.cat(v)) / torch.cat(v).var(), "one trial"),
        ("r2_of_trials", correlation_of_numpy, "squared correlation"),
        ("r2_of_trials", lambda v, w: r2_by_sums(w, v), "swapped"),
        ("r2_of_trials", lambda v, w: 2 * r2_by_sums(v, w), "on one trial"),
        ("causal_history", history_side_by_side, "✓"),
        ("causal_history", lambda counts, n: history(counts[None], n)[0], "✓"),
        ("causal_history", lambda c, n: torch.cat([c.roll(i, 0) for i in range(n - 1, -1, -1)], 1), "torch.roll"),
        ("causal_history", lambda c, n: history_side_by_side(c.roll(1, 0) * (c > 1), n), "on a history"),
        ("causal_history", lambda c, n: F.pad(c, (0, 0, n - 1, 0)).unfold(0, n, 1).flatten(1), "of each unit"),
        ("causal_history", lambda c, n: c.unfold(0, n, 1).transpose(1, 2).flatten(1), "the shape is"),
    ],
)
def test_answer_in_another_style(name, answer, words):
    assert_verdict(getattr(check, name), answer, words)
