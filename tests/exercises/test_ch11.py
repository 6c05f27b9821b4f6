"""Chapter 11: right answers in other styles, and mistakes in the form that students write them."""

import math

import torch

from possm_lite.decoder.cross_attention import precompute_scores, softmax_by_bin

from .helpers import answers, load

exercises = load("ch11")


def read_by_differences(q, t, k, v, dt, omega):
    """Rotates by the time from the query to the spike alone."""
    weights = torch.softmax(exercises.R(k, dt - t, omega) @ q / math.sqrt(len(q)), 0)
    return (weights[:, None] * exercises.R(v, dt - t, omega)).sum(0)


def table_of_decoder(q, k, n_freqs):
    waves, rest = precompute_scores(q, k, n_freqs)
    return torch.cat([waves[:, 0::2], waves[:, 1::2], rest[:, None]], 1)


def softmax_with_a_loop(scores, bins, n_bins):
    return torch.cat([torch.softmax(scores[bins == b], 0) for b in range(n_bins)])


def less_the_largest_of_all(scores, bins, n_bins):
    e = torch.exp(scores - scores.max())
    return e / torch.zeros(n_bins).index_add(0, bins, e)[bins]


def less_a_detached_largest(scores, bins, n_bins):
    e = torch.exp(scores - scores.detach().max())
    return e / torch.stack([e[bins == b].sum() for b in range(n_bins)])[bins]


def read_bin_by_bin(q, k, v, omega, unit, tau, bins, n_bins):
    """A key for every spike, formed at last."""
    z, p = [], []
    for b in range(n_bins):
        own = bins == b
        p.append(torch.softmax(exercises.R(k[unit[own]], tau[own], omega) @ q / math.sqrt(len(q)), 0))
        z.append(p[-1] @ exercises.R(v[unit[own]], tau[own], omega))
    return torch.stack(z), torch.cat(p)


def weights_bin_by_bin(reading, scores, bins, blank_score, gain, bias):
    def of_bin(s):
        if reading == "softmax_blank":
            return torch.softmax(torch.cat([blank_score[None], s]), 0)[1:]
        alone = {"sigmoid": gain / (1 + torch.exp(-s - bias)), "sum": gain.expand(len(s)), "mean": 0 * s + 1 / len(s)}
        return alone.get(reading, torch.softmax(s, 0))

    return torch.cat([of_bin(scores[bins == b]) for b in bins.unique()])


def scores_token_by_token(code, q, W_k, x, tau, omega):
    scores = []
    for token, t in zip(x, tau, strict=True):
        wave = torch.stack([torch.cos(omega * t), torch.sin(omega * t)], -1).flatten()
        added = torch.cat([wave, torch.zeros(len(token) - len(wave))])
        keys = {
            "rotation": exercises.R(W_k @ token, t, omega),
            "embedding": W_k @ exercises.R(token, t, omega),
            "sinusoid": W_k @ (token + added),
        }
        scores.append(keys[code] @ q / len(q) ** 0.5)
    return torch.stack(scores)


test_answers = answers(
    exercises,
    ("my_weight", 3 / 5),
    ("read_bin", read_by_differences),
    ("score_table", table_of_decoder),
    ("bin_softmax", softmax_with_a_loop),
    ("bin_softmax", softmax_by_bin),
    ("bin_softmax", less_the_largest_of_all, "largest score of all"),
    ("bin_softmax", less_a_detached_largest, "largest score of all"),
    ("read_list", read_bin_by_bin),
    ("bin_weights", weights_bin_by_bin),
    ("code_scores", scores_token_by_token),
)


def test_weights_have_the_type_of_the_scores():
    scores = torch.tensor([0.5, -1.0, 2.0], dtype=torch.float64)
    weights = exercises.bin_softmax.reference(scores, torch.tensor([0, 0, 1]), 2)
    torch.testing.assert_close(weights, softmax_with_a_loop(scores, torch.tensor([0, 0, 1]), 2))
