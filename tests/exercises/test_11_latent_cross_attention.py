"""Chapter 11: right answers in other styles."""

import math

import torch

from possm_lite.decoder.cross_attention import precompute_scores, softmax_by_bin

from .helpers import answers, load

exercises = load("11_latent_cross_attention")


def read_by_differences(q, t, k, v, dt, omega):
    """Rotates by the time from the query to the spike alone."""
    weights = torch.softmax(exercises.R(k, dt - t, omega) @ q / math.sqrt(len(q)), 0)
    return (weights[:, None] * exercises.R(v, dt - t, omega)).sum(0)


def table_of_decoder(q, k, n_freqs):
    waves, rest = precompute_scores(q, k, n_freqs)
    return torch.cat([waves[:, 0::2], waves[:, 1::2], rest[:, None]], 1)


def scores_one_by_one(P, unit, t, t_query, omega):
    n, scores = len(omega), []
    for u, x in zip(unit, t - t_query, strict=True):
        row = P[u].double()
        scores.append(row[:n] @ torch.cos(omega * x) + row[n : 2 * n] @ torch.sin(omega * x) + row[-1])
    return torch.stack(scores)


def softmax_with_a_loop(scores, bins, n_bins):
    return torch.cat([torch.softmax(scores[bins == b], 0) for b in range(n_bins)])


RIGHT = {
    "softmax": ["same", "less"],
    "softmax_blank": ("Between", "less"),
    "sigmoid": ("twice", "same "),
    "sum": ("twice", "same"),
    "mean": ("same", "less"),
}


test_answers = answers(
    exercises,
    [
        ("my_weight", 3 / 5),
        ("my_doubling", RIGHT),
        ("my_doubling", RIGHT | {"mean": ("twice", "less")}, "mean: these weights sum to one"),
        ("my_doubling", {"softmax": ("same", "less")}, "softmax_blank: "),
        ("read_bin", read_by_differences),
        ("score_table", table_of_decoder),
        ("spike_scores", scores_one_by_one),
        ("bin_softmax", softmax_with_a_loop),
        ("bin_softmax", softmax_by_bin),
        ("encode_list", lambda model, batch: model.encode(batch).flatten(0, 1)),
    ],
)


def test_empty_table_is_not_attempted_yet():
    empty = dict.fromkeys(RIGHT, (None, None))
    assert exercises.my_doubling.examine(empty).status == "missing"
