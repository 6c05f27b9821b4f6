"""Chapter 11: right and wrong answers in other styles than the references and the traps."""

import math
from functools import partial

import pytest
import torch

from possm_lite.blocks.positions import phasors, rotate
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


def read_back_by(time):
    """Rotates by package functions, and the sum back by `time(t, dt)`; times as they come."""

    def read(q, t, k, v, dt, omega):
        turn = lambda x, t: rotate(x, phasors(t, omega, x.dtype))  # noqa: E731
        p = torch.softmax(turn(k, dt) @ turn(q, t) / math.sqrt(len(q)), 0)
        return turn(p @ turn(v, dt), -time(t, dt))

    return read


def table_with_python_complex(q, k, n_freqs):
    rows, n = [], 2 * n_freqs
    for key in k.tolist():
        w = [complex(q[2 * f], -q[2 * f + 1]) * complex(key[2 * f], key[2 * f + 1]) for f in range(n_freqs)]
        rest = sum(a * b for a, b in zip(q[n:].tolist(), key[n:], strict=True))
        rows.append([x.real for x in w] + [-x.imag for x in w] + [rest])
    return torch.tensor(rows, dtype=q.dtype) / math.sqrt(len(q))


def rounded(answer, *arguments):
    """The answer to times that were rounded to float32."""
    return lambda *args: answer(*[x.float().double() if i in arguments else x for i, x in enumerate(args)])


def peaks_written(scores, bins, n_bins, exact=True):
    m = torch.zeros(n_bins)
    if exact:
        for i in range(len(scores)):
            first = i == 0 or bins[i] != bins[i - 1]
            m[bins[i]] = scores[i].detach() if first else torch.maximum(m[bins[i]], scores[i].detach())
    else:
        m[bins] = scores.detach()
    e = torch.exp(scores - m[bins])
    return e / torch.zeros(n_bins).index_add(0, bins, e)[bins]


def encode_bin_by_bin(model, batch):
    """Forms a key and a value for every spike, one bin at a time."""
    encoder, rows = model.encoder, []
    q = encoder.queries(encoder.latents)[0, 0]
    k, v = (x[:, 0] for x in encoder.keys_values(model.unit_embedding.weight))
    for b in range(int(batch.n_bins.sum())):
        unit, dt = batch.unit[batch.bin == b], batch.offset[batch.bin == b]
        middle = torch.tensor(batch.bin_width_s / 2, dtype=torch.float64)
        z = read_back_by(lambda t, dt: t)(q, middle, k[unit], v[unit], dt, model.rotation.omega)
        rows.append(encoder.project_out(encoder.latents[0], z[None]))
    return torch.stack(rows)


def encode_with_package(model, batch):
    return model.encode(batch).flatten(0, 1)


RIGHT = {
    "softmax": ["same", "less"],
    "softmax_blank": ("Between", "less"),
    "sigmoid": ("twice", "same "),
    "sum": ("twice", "same"),
    "mean": ("same", "less"),
}


def softmax_hidden_by_where(scores, bins, n_bins):
    own = bins == torch.arange(n_bins)[:, None]
    peaks = scores.detach().where(own, -math.inf).amax(1, keepdim=True)
    e = torch.where(own, (scores - peaks).exp(), 0.0)
    return (e / e.sum(1, keepdim=True)).sum(0)


@pytest.mark.parametrize(
    ("name", "answer", "words"),
    [
        ("my_doubling", RIGHT, "✓"),
        ("my_doubling", RIGHT | {"mean": ("twice", "less")}, "mean, column 1: twice the sum"),
        ("my_doubling", RIGHT | {"sum": ("twice", "less")}, "sum, column 2: this weight depends on no other spike"),
        ("my_doubling", RIGHT | {"sum": ("twice", "more")}, "sum, column 2: choose one of less, same."),
        ("my_doubling", {"softmax": ("same", "less")}, "softmax_blank, column 1: choose one of"),
        ("my_doubling", "same", "expected the table"),
        ("my_doubling", RIGHT | {"softmax": [torch.ones(2), "less"]}, "softmax, column 1: choose one of"),
        ("read_bin", read_back_by(lambda t, dt: t), "✓"),
        ("read_bin", read_back_by(lambda t, dt: dt.mean()), "by the mean time of the spikes"),
        ("read_bin", read_back_by(lambda t, dt: dt[-1]), "on three spikes"),
        ("read_bin", rounded(read_by_differences, 1, 4), "rounded to float32 are too coarse"),
        ("score_table", table_with_python_complex, "✓"),
        (
            "score_table",
            lambda q, k, n: torch.cat([table_row_by_row(q, k, n)[:, :-1], (k @ q / len(q) ** 0.5)[:, None]], 1),
            "over all coordinates",
        ),
        ("score_table", lambda q, k, n: table_row_by_row(q, k, n).roll(1, 1), "comes first"),
        (
            "score_table",
            lambda q, k, n: torch.cat([(P := table_row_by_row(q, k, n))[:, :n], P[:, n:-1].abs(), P[:, -1:]], 1),
            "on four units",
        ),
        ("spike_scores", lambda P, u, *rest: scores_one_by_one(P, u, *rest) * (u > 0), "has no score"),
        (
            "spike_scores",
            lambda P, u, *rest: scores_one_by_one(P, u, *rest).masked_fill(u == 0, -math.inf),
            "has the score -infinity",
        ),
        ("bin_softmax", peaks_written, "✓"),
        ("bin_softmax", partial(peaks_written, exact=False), "the score of one token of each bin"),
        ("encode_list", encode_bin_by_bin, "✓"),
        ("encode_list", encode_with_package, "✓"),
        ("encode_list", lambda *args: encode_bin_by_bin(*args).detach(), "no gradient flows back"),
        ("encode_list", lambda m, b: m.encode(b), "the shape is"),
        ("encode_list", lambda m, b: encode_bin_by_bin(m, b).flip(0), "seven spikes in three bins"),
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
        ("spike_scores", scores_one_by_one, "✓"),
        ("spike_scores", lambda P, u, t, q, w: scores_one_by_one(P, u, t.float(), q.float(), w), "float32 before"),
        ("spike_scores", lambda P, u, t, q, w: scores_one_by_one(P, u, q, t, w), "wrong sign"),
        ("spike_scores", lambda P, u, *rest: scores_one_by_one(P, u - 1, *rest), "row 0 is the blank token"),
        ("spike_scores", lambda P, u, *rest: scores_one_by_one(P, u, *rest) - P[u, -1], "on spikes at the very time"),
        ("bin_softmax", softmax_hidden_by_where, "the gradient of scores near 0 in one bin"),
        ("bin_softmax", softmax_with_a_loop, "✓"),
        ("bin_softmax", softmax_by_bin, "✓"),
        ("bin_softmax", partial(softmax_with_a_loop, exp=lambda s: s.exp() / s.exp().sum()), "overflow"),
        ("bin_softmax", partial(softmax_with_a_loop, exp=lambda s: (s - s.max()).exp() / len(s)), "on one bin"),
        ("bin_softmax", lambda s, b, n: softmax_with_a_loop(s, b, n).detach(), "the gradient of the scores"),
    ],
)
def test_answer_in_another_style(name, answer, words):
    assert_verdict(getattr(exercises, name), answer, words)
