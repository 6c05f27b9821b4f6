"""Chapter 13: right and wrong answers in other styles than the references and the traps."""

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from possm_lite.decoder.baselines import history

from .helpers import assert_verdict, load

check = load("13_is_it_any_good")


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
