"""Mistakes that people made in public, in styles of their own: none passes, and each hears its cause.

A row has the exercise, the wrong answer as an edit of the right one or as a function, and words of the message.
"""

import math

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from possm_course.checks import edited

from .helpers import load


def heads(x, W, n):
    """Queries, keys or values of n heads, (B, H, N, d)."""
    return (x @ W).unflatten(-1, (n, -1)).transpose(1, 2)


def attention(mask_of, join=lambda z: z.transpose(1, 2).flatten(2), scale=None):
    """Answers to 3.5 by torch's own attention, with another mask or another way to put heads together."""

    def masked_heads(X, exists, W_q, W_k, W_v, W_o, n_heads):
        q, k, v = (heads(X, W, n_heads) for W in (W_q, W_k, W_v))
        z = F.scaled_dot_product_attention(q, k, v, attn_mask=mask_of(exists, X.shape[1]), scale=scale)
        return (join(z) @ W_o).nan_to_num() * exists[..., None]

    return masked_heads


def both_masks(exists, n):
    return torch.ones(n, n, dtype=torch.bool).tril() & exists[:, None, None]


def angles(x, positions, base=10_000.0):
    return positions[:, None] * base ** (-torch.arange(0, x.shape[-1], 2) / x.shape[-1])


def halves_with_neighbours(x, positions, base=10_000.0):
    a = angles(x, positions, base).repeat_interleave(2, -1)
    n = x.shape[-1] // 2
    return a.cos() * x + a.sin() * torch.cat([-x[..., n:], x[..., :n]], -1)


def exponent_of_columns(n, D, base=10_000.0):
    table = torch.zeros(n, D)
    for column in range(D):
        a = torch.arange(n) / base ** (2 * column / D)
        table[:, column] = a.cos() if column % 2 else a.sin()
    return table


def gru_in(order, *, textbook=False, swapped=False):
    """Answers to 6.2 with some of its bugs."""

    def torch_gru_step(x, h, w_ih, w_hh, b_ih, b_hh):
        a = dict(zip(order, F.linear(x, w_ih, b_ih).chunk(3, 1), strict=True))
        W, b = dict(zip(order, w_hh.chunk(3), strict=True)), dict(zip(order, b_hh.chunk(3), strict=True))
        r, z = torch.sigmoid(a["r"] + F.linear(h, W["r"], b["r"])), torch.sigmoid(a["z"] + F.linear(h, W["z"], b["z"]))
        inner = F.linear(r * h, W["n"], b["n"]) if textbook else r * F.linear(h, W["n"], b["n"])
        n = (a["n"] + inner).tanh()
        return torch.lerp(h, n, z) if swapped else torch.lerp(n, h, z)

    return torch_gru_step


def lstm_in(order, forget=0.0):
    """Answers to 6.6 with gates in another order."""

    def lstm_step(X, H, C, w_ih, w_hh, b):
        gate = dict(zip(order, (F.linear(X, w_ih) + F.linear(H, w_hh) + b).chunk(4, 1), strict=True))
        C = (gate["f"] + forget).sigmoid() * C + gate["i"].sigmoid() * gate["g"].tanh()
        return gate["o"].sigmoid() * C.tanh(), C

    return lstm_step


def divergence(*, means=True, v_of_data=False, divide=True):
    """Answers to 9.6 with some of its slips."""

    def cd_directions(data, W, b, c, for_h, for_v):
        v = data
        for u_h, u_v in zip(for_h, for_v, strict=True):
            h = 2.0 * (u_h < torch.sigmoid(2 * (v @ W + c))) - 1
            v = 2.0 * (u_v < torch.sigmoid(2 * (h @ W.T + b))) - 1
        before, after = torch.tanh(data @ W + c), torch.tanh((data if v_of_data else v) @ W + c)
        if not means:
            before, after = 2.0 * (for_h[0] < (before + 1) / 2) - 1, h
        n = len(data) if divide else 1
        return (data.T @ before - v.T @ after) / n, (data - v).mean(0), (before - after).mean(0)

    return cd_directions


def identified(rate, forget):
    """Answers to 16.4 that never empty the gradient, or do."""

    def identify_from_scratch(decoder, counts, velocity):
        import copy

        new = copy.deepcopy(decoder).requires_grad_(False)
        new.table = nn.Parameter(0.1 * torch.randn(counts.shape[-1], decoder.table.shape[1]))
        optimizer = torch.optim.Adam([new.table], lr=rate)
        for _ in range(150):
            if forget:
                optimizer.zero_grad()
            F.mse_loss(new(counts), velocity).backward()
            nn.utils.clip_grad_norm_([new.table], 1e9)
            optimizer.step()
        return new

    return identify_from_scratch


class Stateful(nn.Module):
    def __init__(self, D, h):
        super().__init__()
        self.gru, self.last = nn.GRU(D, h, batch_first=True), None

    def forward(self, x, state=None):
        states, self.last = self.gru(x, self.last if state is None else state)
        return states, self.last


ROWS = [
    ("00.firing_rate", lambda t, a, b: np.histogram(t, [a, b])[0][0] / (b - a), "belongs to the next window"),
    ("00.center", lambda x: (x - x.mean(0)) / x.std(0), "divided by the spread"),
    ("00.first_decoder", "torch.atan2(y, x) → torch.rad2deg(torch.atan2(y, x))", "in degrees"),
    ("01.pool", lambda s, v: (s.softmax(-1).softmax(-1) @ v, s.softmax(-1).softmax(-1)), "taken twice"),
    ("02.masked_weights", lambda s, m: s.masked_fill(m, -1e9).softmax(-1) * ~m, "the wrong way round"),
    ("02.masked_weights", lambda s, m: s.masked_fill(~m, -1e9).softmax(0) * m, "first axis"),
    ("02.masked_weights", lambda s, m: s.masked_fill(~m, -1e9).softmax(-2 if s.dim() > 1 else 0) * m, "axis"),
    (
        "02.masked_weights",
        lambda s, m: (p := s.softmax(-1) * m) / p.sum(-1, keepdim=True).clamp(min=1e-20),
        "masked after the softmax, and divided again",
    ),
    (
        "02.head_scores",
        lambda q, k, n: (
            heads(q, torch.eye(q.shape[-1]), n) @ heads(k, torch.eye(q.shape[-1]), n).mT * math.sqrt(q.shape[-1] // n)
        ),
        "divided by d ** -0.5",
    ),
    (
        "03.masked_heads",
        attention(both_masks, join=lambda z: z.flatten(0, 1).reshape(z.shape[0], z.shape[2], -1)),
        "without swapping the axes back",
    ),
    ("03.masked_heads", attention(lambda e, n: ~torch.ones(n, n, dtype=torch.bool).tril() & e[:, None, None]), "after"),
    (
        "03.masked_heads",
        attention(lambda e, n: torch.ones(n, n, dtype=torch.bool).tril() & ~e[:, None, None]),
        "`exists` is the wrong way round",
    ),
    ("04.fixed_encoding", exponent_of_columns, "counts columns where it should count pairs"),
    ("04.fixed_encoding", "angle.sin(), angle.cos() → angle.cos(), angle.sin()", "changed seats"),
    ("04.rope", halves_with_neighbours, "two conventions are mixed"),
    ("04.cached_step", "torch.tensor(m) → torch.tensor(len(keys))", "`len(keys)` stands still"),
    (
        "05.time_features",
        lambda t, w: math.sqrt(2 / len(w)) * torch.cat([(t[:, None] * w).cos(), (t[:, None] * w).sin()], 1),
        "random features",
    ),
    ("06.torch_gru_step", gru_in("zrn", textbook=True, swapped=True), "all three bugs"),
    ("06.torch_gru_step", gru_in("rzn", textbook=True, swapped=True), "two of the three bugs are left"),
    ("06.torch_gru_step", gru_in("zrn", swapped=True), "two of the three bugs are left"),
    ("06.torch_gru_step", gru_in("zrn", textbook=True), "two of the three bugs are left"),
    ("06.torch_gru_step", gru_in("zrn"), "another order"),
    ("06.lstm_step", lstm_in("iofg"), "ONNX"),
    ("06.lstm_step", lstm_in("igfo"), "TensorFlow"),
    ("06.lstm_step", lstm_in("ifgo", forget=1.0), "1 is added to the forget gate"),
    ("06.clip_gradients", lambda gs, m: [g.clamp(-m, m) for g in gs], "cut off by itself"),
    (
        "07.token_loss",
        lambda x, y, pad=0: F.cross_entropy(x.flatten(0, 1), y.flatten(), ignore_index=pad, reduction="sum") / len(y),
        "number of sentences",
    ),
    ("07.bahdanau_step", "torch.softmax(scores, -1) → score(s, H).softmax(-1) * mask", "mask comes after the softmax"),
    ("09.chance_on", lambda s, i, W, b, T: torch.sigmoid((W[i] @ s + b[i]) / T), "factor 2 is missing"),
    ("09.chance_on", lambda s, i, W, b, T: torch.sigmoid((2 * W[i] @ s + b[i]) / T), "on the weights alone"),
    ("09.chance_on", lambda s, i, W, b, T: torch.sigmoid((W[i] @ s + b[i]) / (2 * T)), "halved"),
    ("09.cd_directions", divergence(means=False), "hidden units are drawn, in both phases"),
    ("09.cd_directions", divergence(v_of_data=True), "both means are made of the data"),
    ("09.cd_directions", divergence(divide=False), "not divided by the number of data"),
    ("10.lagged", lambda c, v, lag: (c, v.roll(-lag, 0)), "`roll` joins the ends"),
    ("10.training_windows", "since < window_s - 1e-6 → since < window_s + 1e-6", "end of the window is taken"),
    (
        "12.CrossAttention",
        "p = scores.masked_fill(~mask, -torch.inf).softmax(-1) → p = mask * scores.softmax(-1)",
        "mask comes after the softmax",
    ),
    (
        "12.CrossAttention",
        "self.norm_context(context) → self.norm_context(context.data)",
        "no gradient reaches the context",
    ),
    ("12.FeedForward", "return x + → return x.data +", "cut in the residual"),
    ("12.Memory", Stateful, "without a state the last one goes on"),
    ("12.ask", "query.expand → query.data.expand", "no gradient reaches the query"),
    ("12.train", "optim.AdamW → optim.Adam", "Adam"),
    (
        "13.r2_of_trials",
        lambda t, d: (
            torch.corrcoef(torch.stack([torch.cat(t)[:, 0], torch.cat(d)[:, 0]]))[0, 1] ** 2 / 2
            + torch.corrcoef(torch.stack([torch.cat(t)[:, 1], torch.cat(d)[:, 1]]))[0, 1] ** 2 / 2
        ),
        "square of the correlation",
    ),
    (
        "13.causal_history",
        lambda c, n: torch.cat([c.roll(i, 0) for i in reversed(range(n))], 1),
        "`roll` joins the ends",
    ),
    (
        "14.stream",
        "answers.append(answer(recent)) → answers.append(answer([0 * h] * (k - len(recent)) + recent))",
        "zeros stand in",
    ),
    ("14.PacketDecoder", "while now >= → while now >", ">=, not >"),
    ("15.kalman_step", "A @ P @ A.T → A.T @ P @ A", "changed places"),
    ("16.identify_from_scratch", identified(0.01, forget=False), "zero_grad"),
    ("16.identify_from_scratch", identified(0.05, forget=False), "zero_grad"),
    ("16.may_learn", "return own → return [model.unit_embedding, model.session_embedding]", "these are modules"),
    ("17.correlogram", lambda a, b, e: np.histogram(np.subtract.outer(b, a), e)[0], "`np.histogram` is closed"),
    (
        "17.causal_mean",
        lambda x, n: np.stack([x[max(0, t - n // 2) : t + n // 2 + 1].mean(0) for t in range(len(x))]),
        "centred",
    ),
    (
        "18.my_windows",
        lambda seed, n, room_s, rank, size: (
            room_s * torch.rand(n // size, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
        ),
        "one of the two bugs is left",
    ),
    ("18.my_windows", "seed(seed) → seed(seed + rank)", "one of the two bugs is left"),
    ("18.my_windows", ".tensor_split(size)[rank] → .split(-(-n // size))[rank]", "few windows, or none"),
]


@pytest.mark.parametrize(("where", "answer", "words"), ROWS, ids=[f"{row[0]}-{row[2]}" for row in ROWS])
def test_mistake_hears_its_cause(where, answer, words):
    chapter, name = where.split(".")
    found = getattr(load(f"ch{chapter}"), name)
    verdict = found.examine(edited(found.reference, answer))
    assert verdict.status == "wrong" and words in verdict.message, verdict.message


RIGHT = [
    ("03.masked_heads", attention(both_masks)),
    ("06.torch_gru_step", gru_in("rzn")),
    ("06.lstm_step", lstm_in("ifgo")),
    ("09.cd_directions", divergence()),
    ("16.identify_from_scratch", identified(0.01, forget=True)),
]


@pytest.mark.parametrize(("where", "answer"), RIGHT, ids=[row[0] for row in RIGHT])
def test_the_same_style_without_the_mistake_passes(where, answer):
    chapter, name = where.split(".")
    assert getattr(load(f"ch{chapter}"), name).examine(answer).message == f"✓ {name}"
