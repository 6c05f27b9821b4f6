"""Chapter 11: right answers in other styles, and wrong ones that no known mistake explains."""

import math

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


def read_by_differences(q, t, k, v, dt, omega):
    """Rotates by the time from the query to the spike alone."""
    weights = torch.softmax(rotate_pair_by_pair(k, dt - t, omega) @ q / math.sqrt(len(q)), 0)
    return (weights[:, None] * rotate_pair_by_pair(v, dt - t, omega)).sum(0)


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


def softmax_with_a_loop(scores, bins, n_bins):
    return torch.cat([torch.softmax(scores[bins == b], 0) for b in range(n_bins)])


def softmax_hidden_by_where(scores, bins, n_bins):
    own = bins == torch.arange(n_bins)[:, None]
    peaks = scores.detach().where(own, -math.inf).amax(1, keepdim=True)
    e = torch.where(own, (scores - peaks).exp(), 0.0)
    return (e / e.sum(1, keepdim=True)).sum(0)


def encode_bin_by_bin(model, batch):
    """Forms a key and a value for every spike, one bin at a time."""
    encoder, rows = model.encoder, []
    q = encoder.queries(encoder.latents)[0, 0]
    tokens = encoder.norm_context(model.unit_embedding(batch.unit))
    k, v = encoder.to_kv(tokens).chunk(2, -1)
    for b in range(int(batch.n_bins.sum())):
        mine = batch.bin == b
        z = read_by_differences(q, 0.025, k[mine], v[mine], batch.offset[mine], model.rotation.omega)
        rows.append(encoder.project_out(encoder.latents[0], z[None]))
    return torch.stack(rows)


RIGHT = {
    "softmax": ["same", "less"],
    "softmax_blank": ("Between", "less"),
    "sigmoid": ("twice", "same "),
    "sum": ("twice", "same"),
    "mean": ("same", "less"),
}


@pytest.mark.parametrize(
    ("name", "answer", "words"),
    [
        ("my_weight", 3 / 5, "✓"),
        ("my_doubling", RIGHT, "✓"),
        ("my_doubling", RIGHT | {"mean": ("twice", "less")}, "mean, column 1: these weights sum to one"),
        ("my_doubling", RIGHT | {"sum": ("twice", "more")}, "sum, column 2: choose one of less, same."),
        ("my_doubling", {"softmax": ("same", "less")}, "softmax_blank, column 1: choose one of"),
        ("my_doubling", "same", "expected the table"),
        ("read_bin", read_by_differences, "✓"),
        (
            "read_bin",
            lambda q, t, k, v, dt, omega: read_by_differences(q, t.float().double(), k, v, dt.float().double(), omega),
            "rounded to float32 are too coarse",
        ),
        ("score_table", table_row_by_row, "✓"),
        ("score_table", table_of_decoder, "✓"),
        ("score_table", lambda q, k, n: table_row_by_row(q, k, n).roll(1, 1), "on keys that point where"),
        ("spike_scores", scores_one_by_one, "✓"),
        ("spike_scores", lambda P, u, *rest: scores_one_by_one(P, u, *rest) - P[u, -1], "on spikes at the very time"),
        ("bin_softmax", softmax_with_a_loop, "✓"),
        ("bin_softmax", softmax_by_bin, "✓"),
        ("bin_softmax", softmax_hidden_by_where, "the gradient of scores near 0 in one bin"),
        ("bin_softmax", lambda s, b, n: softmax_with_a_loop(s, b, n).detach(), "the gradient of the scores"),
        ("encode_list", encode_bin_by_bin, "✓"),
        ("encode_list", lambda model, batch: model.encode(batch).flatten(0, 1), "✓"),
        ("encode_list", lambda *args: encode_bin_by_bin(*args).detach(), "no gradient flows back"),
    ],
)
def test_answer_in_another_style(name, answer, words):
    assert_verdict(getattr(exercises, name), answer, words)


def test_empty_table_is_not_attempted_yet():
    empty = dict.fromkeys(RIGHT, (None, None))
    assert exercises.my_doubling.examine(empty).status == "missing"
