"""Chapter 11's checks: right answers written another way pass, planted mistakes are called by their name."""

import math

import pytest
import torch

from .helpers import assert_right, load

check = load("11_latent_cross_attention")

# ---- right answers, written anew


def turned(x, t, omega):
    """Pair by pair, with real numbers."""
    y = x.clone()
    for f, w in enumerate(omega):
        cos, sin = torch.cos(w * t), torch.sin(w * t)
        y[..., 2 * f] = cos * x[..., 2 * f] - sin * x[..., 2 * f + 1]
        y[..., 2 * f + 1] = sin * x[..., 2 * f] + cos * x[..., 2 * f + 1]
    return y


def read_by_differences(q, t, k, v, dt, omega):
    weights = torch.exp(turned(k, dt - t, omega) @ q / math.sqrt(len(q)))
    return (weights[:, None] * turned(v, dt - t, omega)).sum(0) / weights.sum()


def read_spike_by_spike(q, t, k, v, dt, omega):
    zero = torch.zeros_like(t)
    s = torch.stack([turned(q, t, omega) @ turned(k[i], dt[i], omega) for i in range(len(k))]) / len(q) ** 0.5
    z = sum(p * turned(v[i], dt[i], omega) for i, p in enumerate(s.softmax(0)))
    return turned(z, zero - t, omega)


def table_with_real_numbers(q, k, n_freqs):
    even, odd = slice(0, 2 * n_freqs, 2), slice(1, 2 * n_freqs, 2)
    a = q[even] * k[:, even] + q[odd] * k[:, odd]
    b = q[odd] * k[:, even] - q[even] * k[:, odd]
    c = (q[2 * n_freqs :] * k[:, 2 * n_freqs :]).sum(1, keepdim=True)
    return torch.cat([a, b, c], 1) / len(q) ** 0.5


def table_row_by_row(q, k, n_freqs):
    rows = []
    for key in k:
        w = [torch.complex(q[2 * f], -q[2 * f + 1]) * torch.complex(*key[2 * f : 2 * f + 2]) for f in range(n_freqs)]
        rest = torch.dot(q, key) - sum(x.real for x in w)
        rows.append(torch.stack([x.real for x in w] + [-x.imag for x in w] + [rest]))
    return torch.stack(rows) / math.sqrt(q.numel())


def scores_one_by_one(P, unit, t, t_query, omega):
    n = len(omega)
    tau = t - t_query
    scores = []
    for u, x in zip(unit, tau, strict=True):
        row = P[u].double()
        scores.append(row[:n] @ torch.cos(omega * x) + row[n : 2 * n] @ torch.sin(omega * x) + row[-1])
    return torch.stack(scores)


def scores_of_waves(P, unit, t, t_query, omega):
    n, P = len(omega), P.index_select(0, unit)
    w = torch.complex(P[:, :n], -P[:, n : 2 * n])
    angle = (t - t_query)[:, None] * omega
    return (w * torch.polar(torch.ones_like(angle), angle)).sum(1).real + P[:, 2 * n]


def softmax_with_a_loop(scores, bins, n_bins):
    return torch.cat([torch.softmax(scores[bins == b], 0) for b in range(n_bins)])


def softmax_of_a_table(scores, bins, n_bins):
    mine = bins == torch.arange(n_bins)[:, None]
    return torch.softmax(scores.masked_fill(~mine, -math.inf), 1).sum(0)


@pytest.mark.parametrize(
    ("exercise", "answer"),
    [
        (check.my_weight, 0.6),
        (check.my_weight, 3 / 5),
        (check.read_bin, read_by_differences),
        (check.read_bin, read_spike_by_spike),
        (check.score_table, table_with_real_numbers),
        (check.score_table, table_row_by_row),
        (check.spike_scores, scores_one_by_one),
        (check.spike_scores, scores_of_waves),
        (check.bin_softmax, softmax_with_a_loop),
        (check.bin_softmax, softmax_of_a_table),
    ],
)
def test_right_answers_pass(exercise, answer):
    assert_right(exercise, answer)


# ---- planted mistakes


def not_turned_back(q, t, k, v, dt, omega):
    s = turned(k, dt, omega) @ turned(q, t, omega) / math.sqrt(len(q))
    return torch.softmax(s, 0) @ turned(v, dt, omega)


def turned_forward(q, t, k, v, dt, omega):
    return turned(not_turned_back(q, t, k, v, dt, omega), t, omega)


def values_as_they_are(q, t, k, v, dt, omega):
    s = turned(k, dt - t, omega) @ q / math.sqrt(len(q))
    return torch.softmax(s, 0) @ v


def only_the_sum_turned(q, t, k, v, dt, omega):
    return turned(values_as_they_are(q, t, k, v, dt, omega), -t, omega)


def query_stands_still(q, t, k, v, dt, omega):
    weights = torch.softmax(turned(k, dt, omega) @ q / math.sqrt(len(q)), 0)
    return weights @ turned(v, dt - t, omega)


def keys_stand_still(q, t, k, v, dt, omega):
    weights = torch.softmax(k @ turned(q, t, omega) / math.sqrt(len(q)), 0)
    return weights @ turned(v, dt - t, omega)


def reading_unscaled(q, t, k, v, dt, omega):
    return read_by_differences(q * math.sqrt(len(q)), t, k, v, dt, omega)


def query_of_the_spikes(q, t, k, v, dt, omega):
    """Self-attention: every spike asks."""
    k, v = turned(k, dt - t, omega), turned(v, dt - t, omega)
    return torch.softmax(k @ k.T / math.sqrt(len(q)), -1) @ v


def sine_turned_round(q, k, n_freqs):
    table = table_with_real_numbers(q, k, n_freqs).clone()
    table[:, n_freqs : 2 * n_freqs] *= -1
    return table


def no_conjugate(q, k, n_freqs):
    even, odd = slice(0, 2 * n_freqs, 2), slice(1, 2 * n_freqs, 2)
    table = table_with_real_numbers(q, k, n_freqs)
    a = (q[even] * k[:, even] - q[odd] * k[:, odd]) / math.sqrt(len(q))
    b = -(q[even] * k[:, odd] + q[odd] * k[:, even]) / math.sqrt(len(q))
    return torch.cat([a, b, table[:, -1:]], 1)


def no_rest(q, k, n_freqs):
    table = table_with_real_numbers(q, k, n_freqs)
    return torch.cat([table[:, :-1], torch.zeros(len(k), 1, dtype=table.dtype)], 1)


def interleaved(q, k, n_freqs):
    table = table_with_real_numbers(q, k, n_freqs)
    waves = torch.stack([table[:, :n_freqs], table[:, n_freqs:-1]], -1).flatten(1)
    return torch.cat([waves, table[:, -1:]], 1)


def halves(q, k, n_freqs):
    w = torch.complex(q[:n_freqs], -q[n_freqs : 2 * n_freqs]) * torch.complex(
        k[:, :n_freqs].contiguous(), k[:, n_freqs : 2 * n_freqs].contiguous()
    )
    return torch.cat([w.real, -w.imag, (k[:, 2 * n_freqs :] @ q[2 * n_freqs :])[:, None]], 1) / math.sqrt(len(q))


def rounded_too_early(P, unit, t, t_query, omega):
    return scores_one_by_one(P, unit, t.float(), t_query.float(), omega)


def features(t, omega):
    return torch.cat([torch.cos(t[:, None] * omega), torch.sin(t[:, None] * omega), torch.ones(len(t), 1)], 1).float()


def one_softmax(scores, bins, n_bins):
    return scores.exp() / scores.exp().sum()


def no_peak(scores, bins, n_bins):
    total = torch.stack([scores[bins == b].exp().sum() for b in range(n_bins)])
    return scores.exp() / total[bins]


def one_peak(scores, bins, n_bins):
    return no_peak(scores - scores.max(), bins, n_bins)


def peaks_from_zero(scores, bins, n_bins):
    peak = torch.stack([scores[bins == b].max().clamp(min=0) for b in range(n_bins)])
    return no_peak(scores - peak[bins], bins, n_bins)


def mean_of_the_bin(scores, bins, n_bins):
    peak = torch.stack([scores[bins == b].max() for b in range(n_bins)])
    count = torch.stack([(bins == b).sum() for b in range(n_bins)])
    return (scores - peak[bins]).exp() / count[bins]


PLANTED = [
    (check.my_weight, 0.75, "its weight before"),
    (check.my_weight, 0.375, "does not fall to a half"),
    (check.my_weight, 0.857, "It was unit 1"),
    (check.my_weight, 0.4, "two spikes of unit 1"),
    (check.my_weight, 0.9, "not it"),
    (check.read_bin, not_turned_back, "turn it back by the time of the query"),
    (check.read_bin, turned_forward, "but forward"),
    (check.read_bin, values_as_they_are, "values were never turned"),
    (check.read_bin, only_the_sum_turned, "nobody had turned the values"),
    (check.read_bin, query_stands_still, "the query is not"),
    (check.read_bin, keys_stand_still, "the keys are not"),
    (check.read_bin, reading_unscaled, "too large"),
    (check.read_bin, query_of_the_spikes, "the shape is"),
    (check.score_table, sine_turned_round, "sines have the wrong sign"),
    (check.score_table, no_conjugate, "bar over q"),
    (check.score_table, no_rest, "last column is zero"),
    (check.score_table, interleaved, "side by side"),
    (check.score_table, halves, "neighbours make a pair"),
    (check.score_table, lambda q, k, n: table_row_by_row(q, k, n) * len(q) ** 0.5, "too large by one factor"),
    (check.score_table, lambda q, k, n: table_row_by_row(q, k, n).T, "the shape is"),
    (check.score_table, lambda q, k, n: table_row_by_row(q, k.detach(), n), "the gradients of query and keys"),
    (check.spike_scores, rounded_too_early, "float32 before they were subtracted"),
    (check.spike_scores, lambda P, u, t, q, w: scores_one_by_one(P, u, t, 0 * q, w), "since the recording began"),
    (check.spike_scores, lambda P, u, t, q, w: scores_one_by_one(P, u, q, t, w), "wrong sign"),
    (check.spike_scores, lambda P, u, *rest: scores_one_by_one(P, u - 1, *rest), "row 0 is the blank token"),
    (check.spike_scores, lambda P, u, t, q, w: (P[u] * features(t - q, w)).sum(0), "runs down the spikes"),
    (check.spike_scores, lambda P, u, t, q, w: P @ features(t - q, w).T, "every unit's row"),
    (check.spike_scores, lambda P, u, t, q, w: P[u] @ features(t - q, w).T, "every row with every spike"),
    (check.spike_scores, lambda P, u, *rest: scores_one_by_one(P, u, *rest) - P[u, -1], "on spikes at the very time"),
    (check.bin_softmax, one_softmax, "all bins together"),
    (check.bin_softmax, no_peak, "overflow"),
    (check.bin_softmax, one_peak, "largest score of all"),
    (check.bin_softmax, peaks_from_zero, "start from 0"),
    (check.bin_softmax, mean_of_the_bin, "number of tokens"),
    (check.bin_softmax, lambda s, b, n: softmax_with_a_loop(s, b, n).detach(), "the gradient of the scores"),
]


@pytest.mark.parametrize(("exercise", "mistake", "told"), PLANTED)
def test_mistakes_are_called_by_their_name(exercise, mistake, told):
    verdict = exercise.examine(mistake)
    assert verdict.status == "wrong"
    assert told in verdict.message
