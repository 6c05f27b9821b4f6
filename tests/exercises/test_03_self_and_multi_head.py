"""Chapter 03: right and wrong answers in other styles than the references and the traps."""

import math

import pytest
import torch

from possm_lite.blocks.heads import split_heads
from possm_lite.blocks.hierarchy import hierarchical_attend

from .helpers import assert_verdict, load

exercises = load("03_self_and_multi_head")


def attention_by_loops(X, W_q, W_k, W_v):
    Q, K, V = (torch.einsum("nd,de->ne", X, W) for W in (W_q, W_k, W_v))
    rows = [[torch.exp((q * k).sum() / W_q.shape[1] ** 0.5) for k in K] for q in Q]
    return torch.stack([sum(e * v for e, v in zip(row, V, strict=True)) / sum(row) for row in rows])


def split_by_chunks(x, n_heads):
    return torch.stack(x.chunk(n_heads, dim=-1), dim=1)


def grouped_by_loop(Q, K, V):
    n = len(Q) // len(K)
    heads = [torch.softmax(q @ K[i // n].T / math.sqrt(q.shape[-1]), -1) @ V[i // n] for i, q in enumerate(Q)]
    return torch.stack(heads)


def read_by_loop(words, mask, word_query, sentence_query):
    root, real = math.sqrt(words.shape[-1]), [x[m] for x, m in zip(words, mask, strict=True) if m.any()]
    sentences = torch.stack([torch.softmax(x @ word_query / root, 0) @ x for x in real])
    return torch.softmax(sentences @ sentence_query / root, 0) @ sentences


def function_of_the_exercise(X, W_q, W_k, W_v):
    """With both of its bugs."""
    Q, K = X @ W_q, X @ W_k
    scores = Q @ K.T / math.sqrt(X.shape[-1])
    return torch.softmax(scores, dim=-1) @ K


@pytest.mark.parametrize(
    ("name", "answer", "words"),
    [
        ("self_attention", attention_by_loops, "✓"),
        ("self_attention", function_of_the_exercise, "hands over the keys"),
        ("self_attention", lambda X, W, U, V: attention_by_loops(X, W, U, torch.eye(len(X[0]))), "over the tokens"),
        ("self_attention", lambda X, W, U, V: attention_by_loops(X, W / W.shape[1] ** 0.5, U, V), "by d, not by its"),
        ("self_attention", lambda X, W, U, V: attention_by_loops(X, W, U.detach(), V), "on the gradient with respect"),
        ("split_heads", split_by_chunks, "✓"),
        ("split_heads", split_heads, "✓"),
        ("split_heads", lambda x, H: torch.stack([x[..., i::H] for i in range(H)], 1), "dealt out like cards"),
        ("split_heads", lambda x, H: split_by_chunks(x, H).detach(), "on the gradient"),
        ("grouped_attention", grouped_by_loop, "✓"),
        ("grouped_attention", lambda Q, K, V: grouped_by_loop(Q, *[x[[0] * len(x)] for x in (K, V)]), "first group"),
        ("grouped_attention", lambda Q, K, V: torch.softmax(Q @ K.mT, -1) @ V, "on as many key heads"),
        ("read_document", read_by_loop, "✓"),
        ("read_document", lambda words, mask, q_w, q_s: hierarchical_attend(words, q_w, q_s, mask)[0], "✓"),
        ("read_document", lambda w, m, q, s: read_by_loop(w[m][None], m[m][None], q, s), "share one softmax"),
        (
            "read_document",
            lambda w, m, q, s: read_by_loop(w[m.any(-1)], m[m.any(-1)] | True, q, s),
            "softmax over words",
        ),
        ("read_document", lambda w, m, q, s: read_by_loop(w, m & m.all(-1, keepdim=True), q, s), "on a short sentence"),
        ("my_order", [2, 3, 1, 0], "✓"),
        ("my_order", "3 3 3 3", "is not right"),
    ],
)
def test_answer_in_another_style(name, answer, words):
    assert_verdict(getattr(exercises, name), answer, words)
