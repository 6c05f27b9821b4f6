"""Chapter 11: right and wrong answers in other styles than the references and the traps."""

import math
from functools import partial

import pytest
import torch

from possm_lite.decoder.attention import precompute_scores, softmax_by_bin

from .helpers import assert_verdict, load

exercises = load("11_latent_cross_attention")


def rotate_pair_by_pair(x, t, omega):
    y = x.clone()
    for f, w in enumerate(omega):
        cos, sin = torch.cos(w * t), torch.sin(w * t)
        y[..., 2 * f] = cos * x[..., 2 * f] - sin * x[..., 2 * f + 1]
        y[..., 2 * f + 1] = sin * x[..., 2 * f] + cos * x[..., 2 * f + 1]
    return y


def read_by_differences(q, t, k, v, dt, omega, *, start_of_keys=0, start_of_values=0):
    """Rotates by the time from the query to the spike alone."""
    weights = torch.exp(rotate_pair_by_pair(k, dt - t * (1 - start_of_keys), omega) @ q / math.sqrt(len(q)))
    values = rotate_pair_by_pair(v, dt - t * (1 - start_of_values), omega)
    return (weights[:, None] * values).sum(0) / weights.sum()


def table_row_by_row(q, k, n_freqs):
    rows = []
    for key in k:
        w = [torch.complex(q[2 * f], -q[2 * f + 1]) * torch.complex(*key[2 * f : 2 * f + 2]) for f in range(n_freqs)]
        rest = torch.dot(q, key) - sum(x.real for x in w)
        rows.append(torch.stack([x.real for x in w] + [-x.imag for x in w] + [rest]))
    return torch.stack(rows) / math.sqrt(q.numel())


def table_of_decoder(q, k, n_freqs):
    waves, rest = precompute_scores(q, k, n_freqs)
    return torch.cat([waves[:, 0::2], waves[:, 1::2], rest[:, None]], 1)


def scores_one_by_one(P, unit, t, t_query, omega):
    n, scores = len(omega), []
    for u, x in zip(unit, t - t_query, strict=True):
        row = P[u].double()
        scores.append(row[:n] @ torch.cos(omega * x) + row[n : 2 * n] @ torch.sin(omega * x) + row[-1])
    return torch.stack(scores)


def softmax_with_a_loop(scores, bins, n_bins, exp=lambda s: torch.softmax(s, 0)):
    return torch.cat([exp(scores[bins == b]) for b in range(n_bins)])


@pytest.mark.parametrize(
    ("name", "answer", "words"),
    [
        ("my_weight", 3 / 5, "✓"),
        ("my_weight", 0.857, "It was unit 1"),
        ("my_weight", 0.9, "0.9"),
        ("read_bin", read_by_differences, "✓"),
        ("read_bin", partial(read_by_differences, start_of_values=1), "rotate it back by the time of the query"),
        ("read_bin", partial(read_by_differences, start_of_keys=1), "the query is not"),
        ("read_bin", lambda q, *rest: read_by_differences(q * math.sqrt(len(q)), *rest), "too large"),
        ("score_table", table_row_by_row, "✓"),
        ("score_table", table_of_decoder, "✓"),
        ("score_table", lambda q, k, n: table_row_by_row(q, k, n) * len(q) ** 0.5, "too large by one factor"),
        ("score_table", lambda q, k, n: table_row_by_row(q, k, n).T, "the shape is"),
        ("score_table", lambda q, k, n: table_row_by_row(q, k.detach(), n), "the gradients of query and keys"),
        ("spike_scores", scores_one_by_one, "✓"),
        ("spike_scores", lambda P, u, t, q, w: scores_one_by_one(P, u, t.float(), q.float(), w), "float32 before"),
        ("spike_scores", lambda P, u, t, q, w: scores_one_by_one(P, u, q, t, w), "wrong sign"),
        ("spike_scores", lambda P, u, *rest: scores_one_by_one(P, u - 1, *rest), "row 0 is the blank token"),
        ("spike_scores", lambda P, u, *rest: scores_one_by_one(P, u, *rest) - P[u, -1], "on spikes at the very time"),
        ("bin_softmax", softmax_with_a_loop, "✓"),
        ("bin_softmax", softmax_by_bin, "✓"),
        ("bin_softmax", partial(softmax_with_a_loop, exp=lambda s: s.exp() / s.exp().sum()), "overflow"),
        ("bin_softmax", partial(softmax_with_a_loop, exp=lambda s: (s - s.max()).exp() / len(s)), "number of tokens"),
        ("bin_softmax", lambda s, b, n: softmax_with_a_loop(s, b, n).detach(), "the gradient of the scores"),
    ],
)
def test_answer_in_another_style(name, answer, words):
    assert_verdict(getattr(exercises, name), answer, words)
