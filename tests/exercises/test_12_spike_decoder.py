"""Chapter 12: right and wrong answers in other styles than the references and the traps."""

import math

import pytest
import torch
from torch.nn import functional as F

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
    ],
)
def test_answer_in_another_style(name, answer, words):
    assert_verdict(getattr(check, name), answer, words)
